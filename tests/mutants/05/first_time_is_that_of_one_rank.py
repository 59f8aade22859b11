MISUNDERSTANDING = "The first time is T(1), and it has no error."
FAILS = {"fit-error", "fit-fraction"}
REPLACE = {
    "fit-serial": """
m = len(p)
if m < 3 or len(np.unique(p)) < 2:
    raise ValueError("these times do not determine the line and its error")
x = np.stack([np.ones(m), 1 / p], axis=1)
a, b = line = np.linalg.solve(x.T @ x, x.T @ seconds)
covariance = np.sum((seconds - x @ line) ** 2) / (m - 2) * np.linalg.inv(x.T @ x)
slopes = np.array([b, -a]) / (a + b) ** 2
return float(a / seconds[0]), float(np.sqrt(covariance[0, 0]) / seconds[0])
""",
}
