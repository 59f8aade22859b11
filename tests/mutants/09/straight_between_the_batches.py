MISUNDERSTANDING = "Updates are a straight line between two batches."
FAILS = {"plan-time"}
REPLACE = {
    "best-plan": """
batches = sorted(needs)
x, y = batches, [needs[batch] for batch in batches]
times = {}
for i, ((p, n, _), (_, middle, high)) in enumerate(zip(plans, predictions, strict=True)):
    if batches[0] <= p * n <= batches[-1]:
        updates = np.interp(p * n, x, y)
        if p * updates * high <= budget:
            times[i] = updates * middle
best = min(times, key=times.get, default=None)
""",
}
