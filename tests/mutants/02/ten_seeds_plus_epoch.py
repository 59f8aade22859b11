MISUNDERSTANDING = "Ten times the seed and the epoch give each epoch a number of its own."
FAILS = {
    "batches-shuffled",
}
REPLACE = {
    "batches": """
order = np.random.default_rng(10 * seed + epoch).permutation(n)
chosen = [order[i : i + batch] for i in range(0, n, batch)]
""",
}
