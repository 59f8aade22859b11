MISUNDERSTANDING = "Errors are weighted by 1 / t²."
FAILS = {"fit-small-messages"}
REPLACE = {
    "fit": """
columns = np.stack([1 / seconds**2, sizes / seconds**2], axis=1)
latency, time_per_byte = np.linalg.lstsq(columns, 1 / seconds, rcond=None)[0]
""",
}
