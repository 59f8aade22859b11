MISUNDERSTANDING = "One shuffle at the start is enough."
FAILS = {
    "batches-shuffled",
}
REPLACE = {
    "batches": """
order = np.random.default_rng(seed).permutation(n)
chosen = [order[i : i + batch] for i in range(0, n, batch)]
""",
}
