MISUNDERSTANDING = "The first entry has nothing before it, so its link says nothing."
FAILS = {"broken-links"}
REPLACE = {
    "first-broken": """
previous, predicted, run = "", set(), set()
for i, entry in enumerate(record):
    right = digest(entry["previous"], entry["kind"], entry["content"])
    if (i and entry["previous"] != previous) or entry["hash"] != right:
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
