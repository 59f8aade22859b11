MISUNDERSTANDING = "One rate for all, divided by the mean staleness."
FAILS = {"stale-aware"}
REPLACE = {
    "stale-sgd": """
weights = [np.array(w, float)]
for t, s in enumerate(staleness):
    eta = rate / max(1, np.mean(staleness)) if aware else rate
    weights.append(weights[t] - eta * np.asarray(gradient(weights[max(0, t - s)].copy())))
weights = np.array(weights)
""",
}
