MISUNDERSTANDING = "There is one fit, the latest."
FAILS = {"fit-exact"}
REPLACE = {
    "fit": """
global LATEST
configurations = [configuration for configuration, _ in runs]
logs = np.log([seconds for _, seconds in runs])


def residuals(theta):
    return np.log([iteration_seconds(theta, c) for c in configurations]) - logs


theta, r = least_squares(residuals, [5e-3, 3e-3, 0.03, 5e-5, 4e-10])
freedom = len(runs) - len(theta)
slope = slopes(residuals, theta)
inverse = np.linalg.pinv(slope.T @ slope, rcond=1e-8)
fitted = LATEST = (theta, T90[freedom] * math.sqrt(r @ r / freedom), inverse)
""",
    "predict": """
theta, half, inverse = LATEST


def logs(theta):
    return np.log([iteration_seconds(theta, c) for c in configurations])


slope = slopes(logs, theta)
half = half * np.sqrt(1 + np.sum(slope @ inverse * slope, 1))
predictions = np.exp(logs(theta)[:, None] + half[:, None] * np.array([-1, 0, 1]))
""",
}
