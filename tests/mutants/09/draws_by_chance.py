MISUNDERSTANDING = "Some thousand draws are as good as a formula."
FAILS = {"backup-by-hand", "backup-exact"}
REPLACE = {
    "expected-seconds": """
draws = np.random.default_rng(0).choice(np.asarray(samples, float), (5000, workers))
seconds = float(np.sort(draws, 1)[:, needed - 1].mean())
""",
}
