MISUNDERSTANDING = "Of each size one time is enough."
FAILS = {
    "fit-small-messages",
}
REPLACE = {
    "fit": """
times = dict(zip(sizes, seconds))
sizes, seconds = np.array(list(times)), np.array(list(times.values()))

columns = np.stack([1 / seconds, sizes / seconds], axis=1)  # (m, 2)
latency, time_per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
""",
}
