MISUNDERSTANDING = "np.asarray makes a copy, which may be changed."
FAILS = {"fit-exact", "fit-small-messages"}
REPLACE = {
    "fit": """
sizes /= seconds
columns = np.stack([1 / seconds, sizes], axis=1)
latency, time_per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
""",
}
