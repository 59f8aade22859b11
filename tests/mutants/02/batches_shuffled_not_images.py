MISUNDERSTANDING = "It is enough to shuffle the batches."
FAILS = {
    "batches-shuffled",
}
REPLACE = {
    "batches": """
parts = [np.arange(n)[i : i + batch] for i in range(0, n, batch)]
order = np.random.default_rng([seed, epoch]).permutation(n // batch)
chosen = [parts[i] for i in order] + parts[n // batch :]
""",
}
