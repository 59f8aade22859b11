MISUNDERSTANDING = "An error of s is the same error of 1/s."
FAILS = {"limit"}
REPLACE = {
    "limit-of": """
if s - t * error <= 0:
    return max(1.0, 1 / (s + t * error)), math.inf
return max(1.0, 1 / s - t * error / s**2), 1 / s + t * error / s**2
""",
}
