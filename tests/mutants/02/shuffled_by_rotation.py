MISUNDERSTANDING = "An epoch begins somewhere else each time."
FAILS = {
    "batches-shuffled",
}
REPLACE = {
    "batches": """
order = np.roll(np.arange(n), np.random.default_rng([seed, epoch]).integers(n))
chosen = [order[i : i + batch] for i in range(0, n, batch)]
""",
}
