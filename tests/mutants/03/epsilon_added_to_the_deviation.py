MISUNDERSTANDING = "ε is added to the standard deviation."
FAILS = {
    "fold-in-a-layer",
}
REPLACE = {
    "fold": """
scale = gamma / (np.sqrt(variance) + epsilon)
folded_w = w * scale
folded_b = (b - mean) * scale + beta
""",
}
