MISUNDERSTANDING = "The bias of the convolution is added after the normalisation."
FAILS = {
    "fold-by-hand",
    "fold-in-a-layer",
}
REPLACE = {
    "fold": """
scale = gamma / np.sqrt(variance + epsilon)
folded_w = w * scale
folded_b = b + beta - mean * scale
""",
}
