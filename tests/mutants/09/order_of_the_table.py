MISUNDERSTANDING = "The batches come in their order."
FAILS = {"plan-time"}
REPLACE = {
    "best-plan": """
batches = list(needs)
x, y = np.log(batches), np.log([needs[batch] for batch in batches])
times = {}
for i, ((p, n, _), (_, middle, high)) in enumerate(zip(plans, predictions, strict=True)):
    if min(needs) <= p * n <= max(needs):
        updates = math.exp(np.interp(math.log(p * n), x, y))
        if p * updates * high <= budget:
            times[i] = updates * middle
best = min(times, key=times.get, default=None)
""",
}
