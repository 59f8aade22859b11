MISUNDERSTANDING = "The line is laid through all sizes."
FAILS = {"held-out"}
REPLACE = {
    "held-out-error": """
order = np.argsort(sizes)
seen, held_out = order[::2], order[1::2]
latency, time_per_byte = fit(sizes, seconds)
times = seconds[held_out]
error = np.median(np.abs(latency + time_per_byte * sizes[held_out] - times) / times)
""",
}
