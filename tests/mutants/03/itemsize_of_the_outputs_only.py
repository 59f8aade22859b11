MISUNDERSTANDING = "Only outputs may have fewer bytes, weights always have four."
FAILS = {
    "memory-by-hand",
}
REPLACE = {
    "training_bytes": """
needed = 4 * 3 * parameters + itemsize * batch * outputs
""",
}
