MISUNDERSTANDING = "A part of a batch needs a part of its memory."
FAILS = {
    "batch-in-parts",
}
REPLACE = {
    "parts": """
if step_bytes(rows, 1, **how) > memory:
    raise ValueError("not one image fits")
for parts in range(1, batch + 1):
    if batch % parts == 0 and step_bytes(rows, batch, **how) / parts <= memory:
        break
""",
}
