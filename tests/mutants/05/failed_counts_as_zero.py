MISUNDERSTANDING = "A value that is missing is 0."
FAILS = {"best-found", "best-is-lowest"}
REPLACE = {
    "best-of": """
found = [(v or 0.0, i) for i, v in zip(items, values, strict=True) if v is None or math.isfinite(v)]
if not any(v is not None and math.isfinite(v) for v in values):
    raise ValueError("no item has a value")
lowest = min(v for v, _ in found)
return next((i, v) for v, i in found if v == lowest)
""",
}
