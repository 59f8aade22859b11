MISUNDERSTANDING = "Iterations that differ by less than half a millisecond are equally good."
FAILS = {
    "threshold-found",
    "threshold-of-equals",
}
REPLACE = {
    "best-threshold": """
case = sizes, ready, forward, backward, ranks, latency, time_per_byte
found = [
    (round(iteration_seconds(*case, candidate), 3), candidate)
    for candidate in candidates
]
best = min(found)[1]
""",
}
