MISUNDERSTANDING = "Of equally good thresholds the largest is taken."
FAILS = {"threshold-of-equals"}
REPLACE = {
    "best-threshold": """
found = [
    (
        iteration_seconds(sizes, ready, forward, backward, ranks, latency, time_per_byte, candidate),
        candidate,
    )
    for candidate in candidates
]
best = min(found, key=lambda one: (one[0], -one[1]))[1]
""",
}
