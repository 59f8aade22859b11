MISUNDERSTANDING = "An item stands for itself: its value is found by it."
FAILS = {"best-is-lowest"}
REPLACE = {
    "best-of": """
known = {i: v for i, v in zip(items, values, strict=True) if v is not None and math.isfinite(v)}
if not known:
    raise ValueError("no item has a value")
best = min(known, key=known.get)
return best, known[best]
""",
}
