MISUNDERSTANDING = "Gradients are averaged, so the sums of the nodes are."
FAILS = {"hierarchical-any-n", "hierarchical-sum"}
REPLACE = {
    "hierarchical": """
first = comm.rank // q * q
node = Group(comm, range(first, first + q))
peers = Group(comm, range(comm.rank % q, comm.size, q))
part = reduce_scatter(node, x)
chunked(part, peers.size)[peers.rank][:] = reduce_scatter(peers, part)
chunked(x, q)[node.rank][:] = all_gather(peers, part)
total = all_gather(node, x) // x.dtype.type(peers.size)
""",
}
