MISUNDERSTANDING = "The outputs of a layer are kept once for the whole batch."
FAILS = {
    "memory-by-hand",
}
REPLACE = {
    "training_bytes": """
needed = itemsize * (3 * parameters + outputs)
""",
}
