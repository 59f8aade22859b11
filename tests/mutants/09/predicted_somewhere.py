MISUNDERSTANDING = "A prediction counts, wherever it stands in the record."
FAILS = {"broken-order"}
REPLACE = {
    "first-broken": """
previous, predicted, run = "", set(), set()
for entry in record:
    if entry["kind"] == "prediction":
        predicted |= set(map(tuple, entry["content"]["configurations"]))
for i, entry in enumerate(record):
    right = digest(entry["previous"], entry["kind"], entry["content"])
    if entry["previous"] != previous or entry["hash"] != right:
        return i
    configurations = set(map(tuple, entry["content"]["configurations"]))
    if entry["kind"] == "run":
        if configurations - predicted:
            return i
        run |= configurations
    else:
        if configurations & run:
            return i
        predicted |= configurations
    previous = entry["hash"]
""",
}
