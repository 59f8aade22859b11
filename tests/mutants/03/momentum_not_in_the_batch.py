MISUNDERSTANDING = "For the largest batch weights and gradients have to fit, momentum does not count."
FAILS = {
    "memory-fits",
}
REPLACE = {
    "largest_batch": """
left = memory - 2 * parameters * itemsize
batch = max(0, left // (outputs * itemsize))
""",
}
