MISUNDERSTANDING = "One more place is twice as many."
FAILS = {
    "lever-found",
}
REPLACE = {
    "best-lever": """
seconds = {
    "buffer": run_seconds(produce, steps, max(1, 2 * buffer)),
    "input": run_seconds([t / 2 for t in produce], steps, buffer),
    "step": run_seconds(produce, [t / 2 for t in steps], buffer),
}
lever = min(seconds, key=seconds.get)
""",
}
