MISUNDERSTANDING = "A call in parallel needs a core, also where it waits."
FAILS = {
    "throughput",
}
REPLACE = {
    "images-per-second": """
least = [t / min(calls, cores) for t, calls, computes in stages]
together = sum(t for t, _, computes in stages if computes) / cores
rate = 1 / max(*least, together)
""",
}
