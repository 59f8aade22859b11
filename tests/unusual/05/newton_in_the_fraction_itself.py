UNUSUAL = "T(1) and s are fitted themselves, by Newton's steps, with the covariance of these."
REPLACE = {
    "fit-serial": """
if len(seconds) < 3 or len({*p.tolist()}) == 1:
    raise ValueError(f"too little: {len(seconds)} times")
one, s = float(seconds.max()), 0.5
for _ in range(60):
    rest = seconds - one * (s + (1 - s) / p)
    slopes = np.stack([s + (1 - s) / p, one * (1 - 1 / p)], axis=1)
    one, s = np.array([one, s]) + np.linalg.lstsq(slopes, rest, rcond=None)[0]
covariance = np.linalg.inv(slopes.T @ slopes) * (rest @ rest) / (len(rest) - 2)
return float(s), float(covariance[1, 1]) ** 0.5
""",
}
