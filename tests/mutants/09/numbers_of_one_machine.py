MISUNDERSTANDING = "The numbers of the machine at hand are those of all machines."
FAILS = {"calibrated", "fit-exact", "near-the-repeat-error", "sharp", "skill"}
REPLACE = {
    "fit": """
theta = np.array([0.0058, 0.00375, 0.04, 1.4e-5, 3.55e-10])
fitted = {"theta": theta, "half": 0.03, "inverse": np.eye(5) * 1e-3}
""",
}
