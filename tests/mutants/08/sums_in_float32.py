MISUNDERSTANDING = "Gradients are float32, so their sums may be added in float32."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "batch-gradient": """
return sums.astype(np.float32).sum(axis=0).astype(float) / seen.sum() + decay * w
"""
}
