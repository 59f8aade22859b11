MISUNDERSTANDING = "Rank r is on node r mod m."
FAILS = {"hierarchical-time", "hierarchical-traffic"}
REPLACE = {
    "hierarchical": """
m = comm.size // q
node = Group(comm, range(comm.rank % m, comm.size, m))
start = comm.rank // m * m
peers = Group(comm, range(start, start + m))
part = reduce_scatter(node, x)
chunked(part, peers.size)[peers.rank][:] = reduce_scatter(peers, part)
chunked(x, q)[node.rank][:] = all_gather(peers, part)
total = all_gather(node, x)
""",
}
