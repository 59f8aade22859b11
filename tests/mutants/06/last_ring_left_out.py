MISUNDERSTANDING = "Between the nodes q - 1 rings do the work of q ranks."
FAILS = {"hierarchical-any-n", "hierarchical-sum", "hierarchical-time", "hierarchical-traffic"}
REPLACE = {
    "hierarchical": """
first = comm.rank // q * q
node = Group(comm, range(first, first + q))
peers = Group(comm, range(comm.rank % q, comm.size, q))
part = reduce_scatter(node, x)
if node.rank < q - 1 or q == 1:
    chunked(part, peers.size)[peers.rank][:] = reduce_scatter(peers, part)
    part = all_gather(peers, part)
chunked(x, q)[node.rank][:] = part
total = all_gather(node, x)
""",
}
