MISUNDERSTANDING = "A ring over all ranks is hierarchical when neighbours share a node."
FAILS = {"hierarchical-time", "hierarchical-traffic"}
REPLACE = {
    "hierarchical": """
chunked(x, comm.size)[comm.rank][:] = reduce_scatter(comm, x)
total = all_gather(comm, x)
""",
}
