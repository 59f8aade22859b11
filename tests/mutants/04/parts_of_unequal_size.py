MISUNDERSTANDING = "The last part may be smaller."
FAILS = {
    "batch-in-parts",
}
REPLACE = {
    "parts": """
largest = max((k for k in range(1, batch + 1) if step_bytes(rows, k, **how) <= memory), default=0)
if not largest:
    raise ValueError("not one image fits")
parts = -(-batch // largest)
""",
}
