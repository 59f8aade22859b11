MISUNDERSTANDING = "A relative error is the difference of the logarithms."
FAILS = {"fit-small-messages"}
REPLACE = {
    "fit": """
line = np.array([seconds.min(), np.ptp(seconds) / np.ptp(sizes)])
for _ in range(50):
    times = line[0] + line[1] * sizes
    columns = np.stack([1 / times, sizes / times], axis=1)
    line = line + np.linalg.lstsq(columns, np.log(seconds / times), rcond=None)[0]
latency, time_per_byte = line
""",
}
