MISUNDERSTANDING = "Numbers have four bytes."
FAILS = {
    "memory-by-hand",
    "memory-fits",
}
REPLACE = {
    "training_bytes": """
needed = 4 * (3 * parameters + batch * outputs)
""",
    "largest_batch": """
batch = max(0, (memory - 12 * parameters) // (4 * outputs))
""",
}
