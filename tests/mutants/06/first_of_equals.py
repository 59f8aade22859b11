MISUNDERSTANDING = "Of equally good thresholds the first in the list is taken."
FAILS = {"threshold-of-equals"}
REPLACE = {
    "best-threshold": """
def time(candidate):
    return iteration_seconds(sizes, ready, forward, backward, ranks, latency, time_per_byte, candidate)


best = min(candidates, key=time)
""",
}
