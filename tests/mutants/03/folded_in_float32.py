MISUNDERSTANDING = "Weights are float32 in the end, so they can be folded in float32."
FAILS = {
    "fold-in-a-layer",
}
REPLACE = {
    "fold": """
w, b, gamma, beta, mean, variance = (a.astype(np.float32) for a in (w, b, gamma, beta, mean, variance))
scale = gamma / np.sqrt(variance + np.float32(epsilon))
folded_w = (w * scale).astype(float)
folded_b = ((b - mean) * scale + beta).astype(float)
""",
}
