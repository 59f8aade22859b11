MISUNDERSTANDING = "A part of an update is a whole one."
FAILS = {"plan-time"}
REPLACE = {
    "best-plan": """
batches = sorted(needs)
x, y = np.log(batches), np.log([needs[batch] for batch in batches])
times = {}
for i, ((p, n, _), (_, middle, high)) in enumerate(zip(plans, predictions, strict=True)):
    if batches[0] <= p * n <= batches[-1]:
        updates = math.ceil(math.exp(np.interp(math.log(p * n), x, y)) - 1e-9)
        if p * updates * high <= budget:
            times[i] = updates * middle
best = min(times, key=times.get, default=None)
""",
}
