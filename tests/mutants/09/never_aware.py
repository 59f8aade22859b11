MISUNDERSTANDING = "A stale gradient has the same rate as any other."
FAILS = {"stale-aware"}
REPLACE = {
    "stale-sgd": """
weights = [np.array(w, float)]
for t, s in enumerate(staleness):
    eta = rate
    weights.append(weights[t] - eta * np.asarray(gradient(weights[max(0, t - s)].copy())))
weights = np.array(weights)
""",
}
