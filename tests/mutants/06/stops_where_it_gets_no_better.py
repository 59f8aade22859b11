MISUNDERSTANDING = "From the smallest threshold on, times fall to the best one and rise then."
FAILS = {"threshold-found", "threshold-of-equals"}
REPLACE = {
    "best-threshold": """
best, shortest = None, np.inf
for candidate in sorted(candidates):
    time = iteration_seconds(sizes, ready, forward, backward, ranks, latency, time_per_byte, candidate)
    if time >= shortest:
        break
    best, shortest = candidate, time
""",
}
