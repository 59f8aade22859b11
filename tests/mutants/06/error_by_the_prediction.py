MISUNDERSTANDING = "The error is a part of the prediction, not of the measurement."
FAILS = {"held-out"}
REPLACE = {
    "held-out-error": """
order = np.argsort(sizes)
seen, held_out = order[::2], order[1::2]
latency, time_per_byte = fit(sizes[seen], seconds[seen])
times = seconds[held_out]
line = latency + time_per_byte * sizes[held_out]
error = np.median(np.abs(line - times) / line)
""",
}
