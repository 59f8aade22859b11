MISUNDERSTANDING = "Gradients times seconds, not gradients a second."
FAILS = {"best-number"}
REPLACE = {
    "best-needed": """
best = max(range(1, workers + 1), key=lambda n: n * expected_seconds(samples, workers, n))
""",
}
