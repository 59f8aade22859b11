UNUSUAL = "A class of the student's stands for the ranks of a node."
REPLACE = {
    "hierarchical": """
class Some:
    def __init__(self, ranks):
        self.ranks = list(ranks)
        self.rank, self.size, self.add = self.ranks.index(comm.rank), len(self.ranks), comm.add

    def sendreceive(self, x, dest, source, into=None):
        return comm.sendreceive(x, self.ranks[dest], self.ranks[source], into)

    def __getattr__(self, name):
        return lambda x, other: getattr(comm, name)(x, self.ranks[other])


node, number = divmod(comm.rank, q)
inside = Some(r for r in range(comm.size) if r // q == node)
across = Some(r for r in range(comm.size) if r % q == number)
mine = reduce_scatter(inside, x).copy()
piece = reduce_scatter(across, mine).copy()
chunked(mine, across.size)[across.rank][:] = piece
mine = all_gather(across, mine)
total = np.zeros_like(x)
chunked(total, q)[number][:] = mine
total = all_gather(inside, total)
""",
}
