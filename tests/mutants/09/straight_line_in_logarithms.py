MISUNDERSTANDING = "Seconds are a product of powers of ranks, images and bytes."
FAILS = {"calibrated", "fit-exact", "near-the-repeat-error", "sharp", "skill"}
REPLACE = {
    "fit": """
rows = np.array([[1.0, *np.log(configuration)] for configuration, _ in runs])
logs = np.log([seconds for _, seconds in runs])
solution, *_ = np.linalg.lstsq(rows, logs, rcond=None)
r = rows @ solution - logs
fitted = solution, T90[len(runs) - 4] * math.sqrt(r @ r / (len(runs) - 4)), np.linalg.pinv(rows.T @ rows)
""",
    "predict": """
solution, half, inverse = fitted
rows = np.array([[1.0, *np.log(configuration)] for configuration in configurations])
half = half * np.sqrt(1 + np.sum(rows @ inverse * rows, 1))
predictions = np.exp((rows @ solution)[:, None] + half[:, None] * np.array([-1, 0, 1]))
""",
}
