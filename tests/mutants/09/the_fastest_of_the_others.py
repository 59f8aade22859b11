MISUNDERSTANDING = "One more must have ended: the index counts from 0."
FAILS = {"backup-by-hand", "backup-exact"}
REPLACE = {
    "expected-seconds": """
x = np.sort(np.asarray(samples, float))
share = np.arange(1, len(x) + 1) / len(x)
first = min(needed + 1, workers)
there = 0.0
for j in range(first, workers + 1):
    there = there + math.comb(workers, j) * share**j * (1 - share) ** (workers - j)
seconds = float(x @ np.diff(there, prepend=0.0))
""",
}
