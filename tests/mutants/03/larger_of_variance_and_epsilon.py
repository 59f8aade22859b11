MISUNDERSTANDING = "ε replaces a variance that is smaller."
FAILS = {
    "fold-in-a-layer",
}
REPLACE = {
    "fold": """
scale = gamma / np.sqrt(np.maximum(variance, epsilon))
folded_w = w * scale
folded_b = (b - mean) * scale + beta
""",
}
