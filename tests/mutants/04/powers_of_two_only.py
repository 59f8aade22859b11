MISUNDERSTANDING = "A batch is a power of two."
FAILS = {
    "batch-fits",
}
REPLACE = {
    "largest-batch": """
fixed = step_bytes(rows, 0, **how)
image = step_bytes(rows, 1, **how) - fixed
most = max(0, memory - fixed) // image
batch = 2 ** (most.bit_length() - 1) if most >= max(1, multiple) else 0
""",
}
