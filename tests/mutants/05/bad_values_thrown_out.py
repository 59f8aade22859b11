MISUNDERSTANDING = "What does not count is thrown out of the lists, and nobody misses it."
FAILS = {"best-is-lowest", "best-found"}
REPLACE = {
    "best-of": """
for i in reversed(range(len(items))):
    if values[i] is None or not math.isfinite(values[i]):
        del items[i], values[i]
if not items:
    raise ValueError("no item has a value")
first = values.index(min(values))
return items[first], values[first]
""",
}
