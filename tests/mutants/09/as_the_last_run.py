MISUNDERSTANDING = "A run takes what the last one took, for each image."
FAILS = {"calibrated", "fit-exact", "near-the-repeat-error", "sharp", "skill"}
REPLACE = {
    "fit": """
fitted = {"last": runs[-1]}
""",
    "predict": """
last, seconds = fitted["last"]
middle = np.array([seconds * n / last[1] for _, n, _ in configurations])
predictions = middle[:, None] * np.array([0.8, 1.0, 1.25])
""",
}
