MISUNDERSTANDING = "What is not a number is larger than every number."
FAILS = {"best-is-lowest"}
REPLACE = {
    "best-of": """
pairs = [(i, v) for i, v in zip(items, values, strict=True) if v is not None]
if not pairs or all(math.isnan(v) for _, v in pairs):
    raise ValueError("no item has a value")
return min(pairs, key=lambda pair: pair[1])
""",
}
