UNUSUAL = "For each entry the record is read from its beginning; gradients and histories are one array."
REPLACE = {
    "first-broken": """
def told(entries, kind):
    return {tuple(c) for e in entries if e["kind"] == kind for c in e["content"]["configurations"]}


for i, entry in enumerate(record):
    before, mine = record[:i], told([entry], entry["kind"])
    link = before[-1]["hash"] if before else ""
    wrong = mine - told(before, "prediction") if entry["kind"] == "run" else mine & told(before, "run")
    if wrong or link != entry["previous"] or digest(link, entry["kind"], entry["content"]) != entry["hash"]:
        return i
""",
    "stale-sgd": """
weights = np.empty((len(staleness) + 1, len(w)))
weights[0] = w
etas = rate / np.maximum(1, staleness) if aware else np.full(len(staleness), rate)
for t, (s, eta) in enumerate(zip(staleness, etas)):
    slope = np.multiply(eta, gradient(weights[max(0, t - s)]))
    np.subtract(weights[t], slope, out=weights[t + 1])
""",
}
