MISUNDERSTANDING = "The staleness-aware rate is η / (s + 1)."
FAILS = {"stale-aware"}
REPLACE = {
    "stale-sgd": """
weights = [np.array(w, float)]
for t, s in enumerate(staleness):
    eta = rate / (1 + s) if aware else rate
    weights.append(weights[t] - eta * np.asarray(gradient(weights[max(0, t - s)].copy())))
weights = np.array(weights)
""",
}
