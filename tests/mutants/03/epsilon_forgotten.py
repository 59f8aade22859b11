MISUNDERSTANDING = "ε is there for the computer's sake and can be left out."
FAILS = {
    "fold-in-a-layer",
}
REPLACE = {
    "fold": """
scale = gamma / np.sqrt(variance)
folded_w = w * scale
folded_b = (b - mean) * scale + beta
""",
}
