MISUNDERSTANDING = "The best threshold is that of two ranks."
FAILS = {"threshold-found", "threshold-of-equals"}
REPLACE = {
    "best-threshold": """
found = [
    (
        iteration_seconds(sizes, ready, forward, backward, 2, latency, time_per_byte, candidate),
        candidate,
    )
    for candidate in candidates
]
best = min(found)[1]
""",
}
