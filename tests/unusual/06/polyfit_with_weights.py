UNUSUAL = "NumPy's own weighted fit, and statistics of Python."
REPLACE = {
    "fit": """
time_per_byte, latency = np.polyfit(sizes, seconds, 1, w=1 / seconds)
""",
    "held-out-error": """
import statistics

pairs = sorted(zip(sizes.tolist(), seconds.tolist(), strict=True))
line = fit(*(list(column) for column in zip(*pairs[::2], strict=True)))
error = statistics.median(abs(line[0] + line[1] * size - t) / t for size, t in pairs[1::2])
""",
}
