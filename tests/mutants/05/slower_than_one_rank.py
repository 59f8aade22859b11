MISUNDERSTANDING = "The largest speed-up may be less than 1."
FAILS = {"limit"}
REPLACE = {
    "limit-of": """
return 1 / (s + t * error), 1 / (s - t * error) if s > t * error else math.inf
""",
}
