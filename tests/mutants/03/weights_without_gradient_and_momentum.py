MISUNDERSTANDING = "Training needs the weights in memory, and nothing else for each parameter."
FAILS = {
    "memory-by-hand",
    "memory-fits",
}
REPLACE = {
    "training_bytes": """
needed = itemsize * (parameters + batch * outputs)
""",
    "largest_batch": """
batch = max(0, (memory - parameters * itemsize) // (outputs * itemsize))
""",
}
