MISUNDERSTANDING = "The best N is the one with the shortest update."
FAILS = {"best-number"}
REPLACE = {
    "best-needed": """
best = min(range(1, workers + 1), key=lambda n: expected_seconds(samples, workers, n))
""",
}
