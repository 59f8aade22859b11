MISUNDERSTANDING = "In which order nodes are gone through and their ranks makes no difference."
FAILS = {"hierarchical-time", "hierarchical-traffic"}
REPLACE = {
    "hierarchical": """
first = comm.rank // q * q
for group in (range(comm.rank % q, comm.size, q), range(first, first + q)):
    part = Group(comm, group)
    chunked(x, part.size)[part.rank][:] = reduce_scatter(part, x)
    all_gather(part, x)
total = x
""",
}
