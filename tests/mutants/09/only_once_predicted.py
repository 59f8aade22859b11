MISUNDERSTANDING = "A configuration is predicted once, and not again before the run."
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
        if configurations & (run | predicted):
            return i
        predicted |= configurations
    previous = entry["hash"]
""",
}
