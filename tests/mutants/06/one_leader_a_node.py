MISUNDERSTANDING = "One rank of each node takes the node's sum round, as in the lecture."
FAILS = {"hierarchical-time", "hierarchical-traffic"}
REPLACE = {
    "hierarchical": """
first = comm.rank // q * q
if comm.rank != first:
    comm.send(x, first)
    return comm.receive(first)
for other in range(first + 1, first + q):
    comm.add(x, comm.receive(other))
leaders = Group(comm, range(0, comm.size, q))
chunked(x, leaders.size)[leaders.rank][:] = reduce_scatter(leaders, x)
total = all_gather(leaders, x)
for other in range(first + 1, first + q):
    comm.send(total, other)
""",
}
