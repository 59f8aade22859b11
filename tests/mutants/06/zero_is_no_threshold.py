MISUNDERSTANDING = "A threshold of 0 is no choice."
FAILS = {
    "threshold-of-equals",
}
REPLACE = {
    "best-threshold": """
candidates = [candidate for candidate in candidates if candidate > 0]

found = [
    (iteration_seconds(sizes, ready, forward, backward, ranks, latency, time_per_byte, candidate), candidate)
    for candidate in candidates
]
best = min(found)[1]
""",
}
