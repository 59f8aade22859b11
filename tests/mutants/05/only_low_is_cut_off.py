MISUNDERSTANDING = "Only the lower end of the limit can be below 1."
FAILS = {"limit"}
REPLACE = {
    "limit-of": """
low, high = s - t * error, s + t * error
return max(1.0, 1 / high), (1 / low if low > 0 else math.inf)
""",
}
