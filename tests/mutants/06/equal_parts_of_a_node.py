MISUNDERSTANDING = "A node's parts are cut at multiples of n // q."
FAILS = {"hierarchical-any-n"}
REPLACE = {
    "hierarchical": """
first = comm.rank // q * q
node = Group(comm, range(first, first + q))
peers = Group(comm, range(comm.rank % q, comm.size, q))
part = reduce_scatter(node, x)
chunked(part, peers.size)[peers.rank][:] = reduce_scatter(peers, part)
size = len(x) // q
x[node.rank * size : (node.rank + 1) * size] = all_gather(peers, part)[:size]
total = all_gather(node, x)
""",
}
