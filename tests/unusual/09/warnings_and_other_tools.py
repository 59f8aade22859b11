UNUSUAL = (
    "Warnings on stderr, a heap of events, a line search in place of the given tool, intervals in seconds."
)
REPLACE = {
    "bounded": """
import heapq
import warnings

warnings.warn("an old habit")
heap = [(float(seconds[w][0]), w) for w in range(p)]
heapq.heapify(heap)
count, version, parked, updates = [0] * p, [0] * p, [], []
while heap:
    t, w = heapq.heappop(heap)
    updates.append([t, np.int64(w), np.int64(len(updates) - version[w])])
    count[w] += 1
    parked.append(w)
    floor = min(count)
    for v in sorted(parked):
        if count[v] - floor <= bound:
            parked.remove(v)
            if count[v] < m:
                version[v] = len(updates)
                heapq.heappush(heap, (t + float(seconds[v][count[v]]), v))
""",
    "fit": """
import sys

print("fitting", len(runs), "runs", file=sys.stderr)
known = [c for c, _ in runs]
y = np.log([s for _, s in runs])


def model(logs, configurations):
    return np.log([iteration_seconds(np.exp(logs), c) for c in configurations])


def jacobian(logs, configurations):
    plus = [model(logs + step, configurations) for step in 1e-5 * np.eye(5)]
    minus = [model(logs - step, configurations) for step in 1e-5 * np.eye(5)]
    return (np.array(plus) - np.array(minus)).T / 2e-5


x = np.log([5e-3, 3e-3, 0.03, 5e-5, 4e-10])
for _ in range(60):
    r = y - model(x, known)
    J = jacobian(x, known)
    step = np.linalg.solve(J.T @ J + 1e-9 * np.eye(5), J.T @ r)
    step *= min(1.0, 1.0 / np.abs(step).max())
    while np.sum((y - model(x + step, known)) ** 2) > r @ r and np.abs(step).max() > 1e-9:
        step = step / 2
    x = x + step
    if np.abs(step).max() < 1e-7:
        break
r, J = y - model(x, known), jacobian(x, known)
freedom = len(y) - 5
fitted = {"model": model, "jacobian": jacobian, "x": x, "J": J, "s": math.sqrt(r @ r / freedom), "f": freedom}
""",
    "predict": """
x, J = fitted["x"], fitted["J"]
S = fitted["jacobian"](x, configurations)
middle = np.exp(fitted["model"](x, configurations))
inverse = np.linalg.inv(J.T @ J + 1e-6 * np.eye(5))
half = middle * T90[fitted["f"]] * fitted["s"] * np.sqrt([1 + row @ inverse @ row for row in S])
predictions = np.column_stack([np.maximum(middle - half, middle / 10), middle, middle + half])
""",
}
