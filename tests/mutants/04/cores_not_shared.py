MISUNDERSTANDING = "Each stage has the cores for itself."
FAILS = {
    "throughput",
}
REPLACE = {
    "images-per-second": """
least = [t / (min(calls, cores) if computes else calls) for t, calls, computes in stages]
together = sum(t for t, _, computes in stages if computes) / cores
rate = 1 / max(least)
""",
}
