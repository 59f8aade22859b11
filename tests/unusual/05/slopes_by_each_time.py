UNUSUAL = "The fit solves the sums by hand, the error comes from numerical slopes."
REPLACE = {
    "fit-serial": """
m, x = p.size, 1 / p
sxx = np.sum((x - x.mean()) ** 2)
if m <= 2 or not sxx > 1e-15:
    raise ValueError(f"{m} times on {set(p)}")


def lines(t):
    b = np.sum((x - x.mean()) * t) / sxx
    return t.mean() - b * x.mean(), b


def serial(t):
    a, b = lines(t)
    return a / (a + b)


a, b = lines(seconds)
variance = np.sum((seconds - a - b * x) ** 2) / (m - 2)
h = 1e-5 * np.abs(seconds).max()
slopes = [(serial(seconds + h * e) - serial(seconds - h * e)) / (2 * h) for e in np.eye(m)]
return float(serial(seconds)), float(np.sqrt(variance * np.sum(np.square(slopes))))
""",
}
