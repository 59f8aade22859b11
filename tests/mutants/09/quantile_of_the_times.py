MISUNDERSTANDING = "The N-th of p is the N/p quantile of the times."
FAILS = {"backup-by-hand", "backup-exact"}
REPLACE = {
    "expected-seconds": """
seconds = float(np.quantile(np.asarray(samples, float), needed / workers))
""",
}
