MISUNDERSTANDING = "1/s is the limit, also where s may be negative."
FAILS = {"limit"}
REPLACE = {
    "limit-of": """
low, high = 1 / (s + t * error), 1 / (s - t * error) if s != t * error else math.inf
return max(1.0, low), high
""",
}
