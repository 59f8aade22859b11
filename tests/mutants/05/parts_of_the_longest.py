MISUNDERSTANDING = (
    "Only the proportions of the times matter, so that all are divided by the longest, where they lie."
)
FAILS = {"fit-fraction", "fit-error", "fit-refuses"}
REPLACE = {
    "fit-serial": """
m = len(p)
if m < 3 or len(np.unique(p)) < 2:
    raise ValueError("no line, or no error")
seconds /= seconds.max()
x = np.stack([np.ones(m), 1 / p], axis=1)
a, b = line = np.linalg.solve(x.T @ x, x.T @ seconds)
covariance = np.sum((seconds - x @ line) ** 2) / (m - 2) * np.linalg.inv(x.T @ x)
slopes = np.array([b, -a]) / (a + b) ** 2
return float(a / (a + b)), float(np.sqrt(slopes @ covariance @ slopes))
""",
}
