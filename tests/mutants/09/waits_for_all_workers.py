MISUNDERSTANDING = "An update ends with the last worker, whatever it waits for."
FAILS = {"backup-by-hand", "backup-exact"}
REPLACE = {
    "expected-seconds": """
x = np.sort(np.asarray(samples, float))
share = np.arange(1, len(x) + 1) / len(x)
there = sum(
    math.comb(workers, j) * share**j * (1 - share) ** (workers - j) for j in range(workers, workers + 1)
)
seconds = float(x @ np.diff(there, prepend=0.0))
""",
}
