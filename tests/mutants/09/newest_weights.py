MISUNDERSTANDING = "The gradient is that of the newest weights, however old it is."
FAILS = {"stale-aware", "stale-by-hand", "stale-history"}
REPLACE = {
    "stale-sgd": """
weights = [np.array(w, float)]
for t, s in enumerate(staleness):
    eta = rate / max(1, s) if aware else rate
    weights.append(weights[t] - eta * np.asarray(gradient(weights[t].copy())))
weights = np.array(weights)
""",
}
