MISUNDERSTANDING = "An 80% interval begins with what is sure: its lower end."
FAILS = {"plan-budget"}
REPLACE = {
    "best-plan": """
batches = sorted(needs)
x, y = np.log(batches), np.log([needs[batch] for batch in batches])
times = {}
for i, ((p, n, _), (high, middle, _)) in enumerate(zip(plans, predictions, strict=True)):
    if batches[0] <= p * n <= batches[-1]:
        updates = math.exp(np.interp(math.log(p * n), x, y))
        if p * updates * high <= budget:
            times[i] = updates * middle
best = min(times, key=times.get, default=None)
""",
}
