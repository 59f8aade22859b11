MISUNDERSTANDING = "More ranks take no longer."
FAILS = {"calibrated", "fit-exact", "near-the-repeat-error", "sharp", "skill"}
REPLACE = {
    "fit": """
alone = [(n, seconds) for (p, n, _), seconds in runs if p == 1]
image, fixed = np.polyfit(*zip(*alone, strict=True), 1)
fitted = {"theta": np.array([max(fixed, 1e-6), image, 1e-6, 1e-9, 1e-15]), "half": 0.1}
fitted["inverse"] = np.eye(5) * 0.01
""",
}
