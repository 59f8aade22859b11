MISUNDERSTANDING = "The residuals of fitted runs are as large as the noise."
FAILS = {"calibrated"}
REPLACE = {
    "fit": """
configurations = [configuration for configuration, _ in runs]
logs = np.log([seconds for _, seconds in runs])

def residuals(theta):
    return np.log([iteration_seconds(theta, c) for c in configurations]) - logs

theta, r = least_squares(residuals, [5e-3, 3e-3, 0.03, 5e-5, 4e-10])
freedom = len(runs) - len(theta)
slope = slopes(residuals, theta)
fitted = {
    "theta": theta,
    "half": 1.2816 * math.sqrt(r @ r / len(runs)),
    "inverse": np.linalg.pinv(slope.T @ slope, rcond=1e-8),
}
""",
}
