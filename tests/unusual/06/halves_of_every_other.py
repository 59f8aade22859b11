UNUSUAL = "A stretch is halved into its even and its odd elements."
REPLACE = {
    "halving-doubling": """
def exchange(part, mine, distance):
    if distance == part.size:
        return
    partner, odd = part.rank ^ distance, bool(part.rank & distance)
    keep, give = (mine[1::2], mine[::2]) if odd else (mine[::2], mine[1::2])
    part.add(keep, part.sendreceive(give, partner, partner))
    exchange(part, keep, 2 * distance)
    part.sendreceive(keep, partner, partner, into=give)


if rank < 2 * extra and rank % 2:
    comm.send(x, rank - 1)
    return comm.receive(rank - 1)
if rank < 2 * extra:
    comm.add(x, comm.receive(rank + 1))
exchange(Group(comm, [r for r in range(p) if r >= 2 * extra or r % 2 == 0]), x, 1)
if rank < 2 * extra:
    comm.send(x, rank + 1)
total = x
""",
}
