MISUNDERSTANDING = "Three times determine a line, on whatever number of ranks."
FAILS = {"fit-refuses"}
REPLACE = {
    "fit-serial": """
m = len(p)
if m < 3:
    raise ValueError("these times do not determine the line and its error")
x = np.stack([np.ones(m), 1 / p], axis=1)
a, b = line = np.linalg.pinv(x) @ seconds
covariance = np.sum((seconds - x @ line) ** 2) / (m - 2) * np.linalg.pinv(x.T @ x)
slopes = np.array([b, -a]) / (a + b) ** 2
return float(a / (a + b)), float(np.sqrt(slopes @ covariance @ slopes))
""",
}
