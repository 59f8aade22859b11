MISUNDERSTANDING = "Each worker has another one of the measured times."
FAILS = {"backup-by-hand", "backup-exact"}
REPLACE = {
    "expected-seconds": """
x = np.sort(np.resize(np.asarray(samples, float), max(workers, len(samples))))
m = len(x)
odds = [math.comb(i, needed - 1) * math.comb(m - 1 - i, workers - needed) for i in range(m)]
seconds = float(sum(a * b for a, b in zip(x, odds, strict=True)) / math.comb(m, workers))
""",
}
