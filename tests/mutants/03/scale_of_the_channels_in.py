MISUNDERSTANDING = "Where a layer has as many filters as channels, a normalisation scales its channels."
FAILS = {
    "fold-in-a-layer",
}
REPLACE = {
    "fold": """
scale = gamma / np.sqrt(variance + epsilon)
folded_w = w * scale[:, None] if w.shape[2] == w.shape[3] else w * scale
folded_b = (b - mean) * scale + beta
""",
}
