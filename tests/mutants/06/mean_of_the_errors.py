MISUNDERSTANDING = "The error at the sizes held out is their mean."
FAILS = {
    "held-out",
}
REPLACE = {
    "held-out-error": """
order = np.argsort(sizes)
seen, held_out = order[::2], order[1::2]
latency, time_per_byte = fit(sizes[seen], seconds[seen])
times = seconds[held_out]
error = np.mean(np.abs(latency + time_per_byte * sizes[held_out] - times) / times)
""",
}
