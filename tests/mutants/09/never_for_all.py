MISUNDERSTANDING = "To wait for all is never best."
FAILS = {"best-number"}
REPLACE = {
    "best-needed": """
best = max(range(1, workers), key=lambda n: n / expected_seconds(samples, workers, n))
""",
}
