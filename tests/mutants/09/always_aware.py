MISUNDERSTANDING = "The rate is always divided by the staleness."
FAILS = {"stale-by-hand", "stale-history"}
REPLACE = {
    "stale-sgd": """
weights = [np.array(w, float)]
for t, s in enumerate(staleness):
    eta = rate / max(1, s)
    weights.append(weights[t] - eta * np.asarray(gradient(weights[max(0, t - s)].copy())))
weights = np.array(weights)
""",
}
