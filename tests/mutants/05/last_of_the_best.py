MISUNDERSTANDING = "Of equal values any will do: the last."
FAILS = {"best-is-lowest"}
REPLACE = {
    "best-of": """
pairs = [(i, v) for i, v in zip(items, values, strict=True) if v is not None and math.isfinite(v)]
if not pairs:
    raise ValueError("no item has a value")
return min(reversed(pairs), key=lambda pair: pair[1])
""",
}
