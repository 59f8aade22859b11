MISUNDERSTANDING = "A latency cannot be negative, so a negative one is made 0."
FAILS = {
    "fit-small-messages",
}
REPLACE = {
    "fit": """
columns = np.stack([1 / seconds, sizes / seconds], axis=1)  # (m, 2)
latency, time_per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
latency = max(0.0, latency)
""",
}
