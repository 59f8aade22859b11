UNUSUAL = "The line by QR; the parts of a node are copied and put together."
REPLACE = {
    "fit": """
Q, R = np.linalg.qr(np.vander(sizes, 2, increasing=True) / seconds[:, None])
latency, time_per_byte = np.linalg.solve(R, Q.T @ np.ones_like(seconds))
""",
    "hierarchical": """
node, place = divmod(comm.rank, q)
inside = Group(comm, [node * q + i for i in range(q)])
across = Group(comm, [i * q + place for i in range(comm.size // q)])
mine = reduce_scatter(inside, x.copy())
piece = reduce_scatter(across, mine)
cuts = bounds(len(mine), across.size)
whole_part = np.zeros_like(mine)
whole_part[cuts[across.rank] : cuts[across.rank + 1]] = piece
whole_part = all_gather(across, whole_part)
total = np.empty_like(x)
np.copyto(chunked(total, q)[place], whole_part)
total = all_gather(inside, total)
""",
}
