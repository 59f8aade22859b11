MISUNDERSTANDING = "A prediction may be made anew at any time."
FAILS = {"broken-order"}
REPLACE = {
    "first-broken": """
previous, predicted, run = "", set(), set()
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
        predicted |= configurations
    previous = entry["hash"]
""",
}
