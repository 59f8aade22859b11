UNUSUAL = "The line comes from polyfit with its covariance; Gustafson's fraction from exact fractions."
REPLACE = {
    "scaled": """
from fractions import Fraction

s = Fraction(s)
share = s * p / (s * p + 1 - s)
return float(share), float(p - share * (p - 1))
""",
    "fit-serial": """
if p.size < 3 or np.ptp(p) == 0:
    raise ValueError("not enough to fit")
(b, a), cov = np.polyfit(1 / p, seconds, 1, cov="unscaled")
cov = cov * np.square(seconds - np.polyval([b, a], 1 / p)).sum() / (p.size - 2)
slope = 1 / (a + b) - a / (a + b) ** 2, -a / (a + b) ** 2
variance = slope[0] ** 2 * cov[1, 1] + slope[1] ** 2 * cov[0, 0] + 2 * slope[0] * slope[1] * cov[0, 1]
return a / (a + b), variance**0.5
""",
    "limit-of": """
with np.errstate(divide="ignore"):
    ends = 1 / np.maximum(0.0, s + t * error * np.array([1, -1]))
return tuple(np.clip(ends, 1, np.inf).tolist())
""",
}
