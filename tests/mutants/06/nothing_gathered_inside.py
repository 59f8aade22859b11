MISUNDERSTANDING = "When the nodes have exchanged their sums, every rank has the whole of it."
FAILS = {"hierarchical-any-n", "hierarchical-sum", "hierarchical-time", "hierarchical-traffic"}
REPLACE = {
    "hierarchical": """
first = comm.rank // q * q
node = Group(comm, range(first, first + q))
peers = Group(comm, range(comm.rank % q, comm.size, q))
part = reduce_scatter(node, x)
chunked(part, peers.size)[peers.rank][:] = reduce_scatter(peers, part)
chunked(x, q)[node.rank][:] = all_gather(peers, part)
total = x
""",
}
