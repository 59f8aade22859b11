MISUNDERSTANDING = "Two configurations with the same ranks and images are the same."
FAILS = {"broken-order"}
REPLACE = {
    "first-broken": """
previous, predicted, run = "", set(), set()
for i, entry in enumerate(record):
    right = digest(entry["previous"], entry["kind"], entry["content"])
    if entry["previous"] != previous or entry["hash"] != right:
        return i
    configurations = {(p, n) for p, n, _ in entry["content"]["configurations"]}
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
