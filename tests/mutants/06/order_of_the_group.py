MISUNDERSTANDING = "A group is a set of ranks: their order does not matter."
FAILS = {"hierarchical-any-n", "hierarchical-sum"}
REPLACE = {
    "hierarchical": """
first = comm.rank // q * q
node = Group(comm, range(first, first + q))
peers = Group(comm, range(comm.rank % q, comm.size, q))
part = reduce_scatter(node, x)
chunked(part, peers.size)[peers.rank][:] = reduce_scatter(peers, part)
chunked(x, q)[node.rank][:] = all_gather(peers, part)
total = all_gather(Group(comm, [*range(first + 1, first + q), first]), x)
""",
}
