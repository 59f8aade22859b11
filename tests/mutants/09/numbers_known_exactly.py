MISUNDERSTANDING = "The fitted numbers are exact; only the noise counts."
FAILS = {"calibrated"}
REPLACE = {
    "predict": """
def logs(theta):
    return np.log([iteration_seconds(theta, c) for c in configurations])

slope = slopes(logs, fitted["theta"])
uncertain = np.sum(slope @ fitted["inverse"] * slope, 1)
half = fitted["half"] * np.sqrt(1 + 0 * uncertain)
predictions = np.exp(logs(fitted["theta"])[:, None] + half[:, None] * np.array([-1, 0, 1]))
""",
}
