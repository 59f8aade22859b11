MISUNDERSTANDING = "A larger threshold is never worse, so the largest is the best."
FAILS = {"threshold-found", "threshold-of-equals"}
REPLACE = {
    "best-threshold": """
best = max(candidates)
""",
}
