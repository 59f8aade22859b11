MISUNDERSTANDING = "What fits is the quotient, rounded down."
FAILS = {
    "memory-fits",
}
REPLACE = {
    "largest_batch": """
left = memory - 3 * parameters * itemsize
batch = max(0, math.floor(left / (outputs * itemsize)))
""",
}
