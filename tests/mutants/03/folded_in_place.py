MISUNDERSTANDING = "The old weights are not needed any more, so they can be overwritten."
FAILS = {
    "fold-by-hand",
    "fold-in-a-layer",
}
REPLACE = {
    "fold": """
scale = gamma / np.sqrt(variance + epsilon)
w *= scale
folded_w, folded_b = w, (b - mean) * scale + beta
""",
}
