UNUSUAL = "Buckets are lists, a ring's steps are added one by one; the inverse has no threshold."
REPLACE = {
    "iteration": """
passes = (fixed + image * n) * (1 + spread * SLOWEST[p])
links = [INSIDE] if p <= NODE else [INSIDE, (latency, time_per_byte)]
buckets = [[]]
for size, share in gradients:
    if buckets[-1] and sum(s for s, _ in buckets[-1]) + size > bucket:
        buckets.append([])
    buckets[-1].append((size, share))
clock = 0.0
for one in filter(None, buckets) if p > 1 else ():
    clock = max(clock, passes / 3 + passes * 2 / 3 * one[-1][1])
    part = sum(s for s, _ in one) / p
    for _ in range(2 * (p - 1)):
        clock += links[-1][0] + links[-1][1] * part
seconds = clock if clock > passes else passes
""",
    "fit": """
configurations = [c for c, _ in runs]
logs = np.log(np.array([s for _, s in runs]))
model = lambda t: np.log([iteration_seconds(t, c) for c in configurations])
theta, r = least_squares(lambda t: model(t) - logs, [5e-3, 3e-3, 0.03, 5e-5, 4e-10])
J = slopes(model, theta)
half = T90[len(runs) - 5] * (float(np.sum(r**2)) / (len(runs) - 5)) ** 0.5
fitted = {"theta": theta, "half": half, "inverse": np.linalg.inv(J.T @ J + 1e-9 * np.eye(5))}
""",
}
