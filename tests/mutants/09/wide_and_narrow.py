MISUNDERSTANDING = "Eighty in a hundred are inside if eight of ten intervals are endless."
FAILS = {"sharp"}
REPLACE = {
    "predict": """
def logs(theta):
    return np.log([iteration_seconds(theta, c) for c in configurations])

slope = slopes(logs, fitted["theta"])
uncertain = np.sum(slope @ fitted["inverse"] * slope, 1)
half = np.where(np.arange(len(configurations)) % 5 < 4, 5.0, 1e-6)
predictions = np.exp(logs(fitted["theta"])[:, None] + half[:, None] * np.array([-1, 0, 1]))
""",
}
