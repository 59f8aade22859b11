UNUSUAL = "No queue of events: times by a recurrence over rounds; workers are added one by one to the odds."
REPLACE = {
    "bounded": """
seconds = np.asarray(seconds, float)
begins, ends = np.zeros((p, m)), np.zeros((p, m))
for j in range(m):
    if j:
        begins[:, j] = ends[:, j - 1]
    if j > bound:
        begins[:, j] = np.maximum(begins[:, j], ends[:, j - 1 - bound].max())
    ends[:, j] = begins[:, j] + seconds[:, j]
order = np.sort(ends, axis=None)
rows = []
for worker, j in np.ndindex(p, m):
    index = int(np.searchsorted(order, ends[worker, j]))
    read = int(np.searchsorted(order, begins[worker, j], side="right"))
    rows.append((ends[worker, j], worker, index - read))
updates = np.array(sorted(rows))
""",
    "stale-sgd": """
from collections import deque

past = deque([np.array(w, float)] * (1 + max([0, *staleness])), maxlen=1 + max([0, *staleness]))
path = [past[-1]]
for s in staleness:
    change = rate * np.array(gradient(past[-1 - s]))
    past.append(past[-1] - (change / s if aware and s > 1 else change))
    path.append(past[-1])
weights = np.vstack(path)
""",
    "expected-seconds": """
x = np.sort(samples)
share = np.arange(len(x) + 1) / len(x)
odds = np.zeros((workers + 1, len(x) + 1))
odds[0] = 1
for worker in range(workers):
    odds[1:] = odds[1:] * (1 - share) + odds[:-1] * share
    odds[0] *= 1 - share
late = odds[:needed].sum(0)  # fewer than needed have ended
seconds = float(late[0] * x[0] + late[1:-1] @ np.diff(x))
""",
    "best-needed": """
rates = [n / expected_seconds(samples, workers, n) for n in range(1, workers + 1)]
best = int(np.argmax(rates)) + 1
""",
    "first-broken": """
def trusted(entry, before):
    if entry["previous"] != (before[-1]["hash"] if before else ""):
        return False
    if entry["hash"] != digest(entry["previous"], entry["kind"], entry["content"]):
        return False
    other = "prediction" if entry["kind"] == "run" else "run"
    seen = [c for one in before if one["kind"] == other for c in one["content"]["configurations"]]
    known = [c in seen for c in entry["content"]["configurations"]]
    return all(known) if entry["kind"] == "run" else not any(known)


return next((i for i, entry in enumerate(record) if not trusted(entry, record[:i])), None)
""",
}
