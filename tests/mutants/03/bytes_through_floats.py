MISUNDERSTANDING = "A number of bytes may pass through a float."
FAILS = {
    "memory-by-hand",
}
REPLACE = {
    "training_bytes": """
needed = int(itemsize * (3.0 * parameters + batch * outputs))
""",
}
