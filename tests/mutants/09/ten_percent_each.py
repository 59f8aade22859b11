MISUNDERSTANDING = "Ten percent to each side will do."
FAILS = {"calibrated", "sharp"}
REPLACE = {
    "predict": """
def logs(theta):
    return np.log([iteration_seconds(theta, c) for c in configurations])

slope = slopes(logs, fitted["theta"])
uncertain = np.sum(slope @ fitted["inverse"] * slope, 1)
half = np.log(1.1) * np.ones(len(configurations))
predictions = np.exp(logs(fitted["theta"])[:, None] + half[:, None] * np.array([-1, 0, 1]))
""",
}
