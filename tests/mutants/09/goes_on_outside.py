MISUNDERSTANDING = "Beyond the largest batch it takes as many updates as there."
FAILS = {"plan-time"}
REPLACE = {
    "best-plan": """
batches = sorted(needs)
x, y = np.log(batches), np.log([needs[batch] for batch in batches])
times = {}
for i, ((p, n, _), (_, middle, high)) in enumerate(zip(plans, predictions, strict=True)):
    if True:
        updates = math.exp(np.interp(math.log(p * n), x, y))
        if p * updates * high <= budget:
            times[i] = updates * middle
best = min(times, key=times.get, default=None)
""",
}
