MISUNDERSTANDING = "A batch that is not full is left out."
FAILS = {
    "batches-cover",
}
REPLACE = {
    "batches": """
order = np.random.default_rng([seed, epoch]).permutation(n)
chosen = [order[i : i + batch] for i in range(0, n - batch + 1, batch)]
""",
}
