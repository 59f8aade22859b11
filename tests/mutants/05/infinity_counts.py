MISUNDERSTANDING = "A value that is infinite is a value."
FAILS = {"best-is-lowest"}
REPLACE = {
    "best-of": """
pairs = [(i, v) for i, v in zip(items, values, strict=True) if v is not None and not math.isnan(v)]
if not pairs:
    raise ValueError("no item has a value")
return min(pairs, key=lambda pair: pair[1])
""",
}
