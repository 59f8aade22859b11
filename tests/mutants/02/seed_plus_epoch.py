MISUNDERSTANDING = "Seed and epoch may be added up."
FAILS = {
    "batches-shuffled",
}
REPLACE = {
    "batches": """
order = np.random.default_rng(seed + epoch).permutation(n)
chosen = [order[i : i + batch] for i in range(0, n, batch)]
""",
}
