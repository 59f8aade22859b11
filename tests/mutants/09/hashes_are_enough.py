MISUNDERSTANDING = "If each hash is that of its entry, the record is whole."
FAILS = {"broken-links"}
REPLACE = {
    "first-broken": """
previous, predicted, run = "", set(), set()
for i, entry in enumerate(record):
    right = digest(entry["previous"], entry["kind"], entry["content"])
    if entry["hash"] != right:
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
