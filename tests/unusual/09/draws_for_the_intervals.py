UNUSUAL = "Intervals are quantiles of draws: of the five numbers, of the noise, and of its size."
REPLACE = {
    "fit": """
cs, measured = zip(*runs, strict=True)
measured = np.log(np.array(measured))


def off(theta):
    return np.array([np.log(iteration_seconds(theta, c)) for c in cs]) - measured


theta = np.array([4e-3, 4e-3, 0.02, 3e-5, 5e-10])
theta, r = least_squares(off, theta)
J = slopes(off, theta)
fitted = (theta, float(r @ r), len(runs) - 5, np.linalg.pinv(J.T @ J, rcond=1e-8))
""",
    "predict": """
theta, squares, freedom, inverse = fitted
rng = np.random.default_rng(0)


def logs(theta):
    return np.array([np.log(iteration_seconds(theta, c)) for c in configurations])


sigma = np.sqrt(squares / rng.chisquare(freedom, 4000))[:, None]
values, vectors = np.linalg.eigh(inverse)
steps = rng.standard_normal((4000, 5)) * np.sqrt(np.maximum(values, 0)) @ vectors.T
middle = logs(theta)
drawn = middle + sigma * (steps @ slopes(logs, theta).T + rng.standard_normal((4000, len(middle))))
low, high = np.quantile(drawn, [0.1, 0.9], axis=0)
predictions = np.exp([low, middle, high]).T
""",
}
