MISUNDERSTANDING = "Where the parameters do not fit, the formula gives the batch all the same."
FAILS = {
    "memory-fits",
}
REPLACE = {
    "largest_batch": """
left = memory - 3 * parameters * itemsize
batch = left // (outputs * itemsize)
""",
}
