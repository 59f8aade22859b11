MISUNDERSTANDING = "A gradient with s = 0 is that of the weights before the last update."
FAILS = {"stale-aware", "stale-by-hand", "stale-history"}
REPLACE = {
    "stale-sgd": """
weights = [np.array(w, float)]
for t, s in enumerate(staleness):
    eta = rate / max(1, s) if aware else rate
    weights.append(weights[t] - eta * np.asarray(gradient(weights[max(0, t - s - 1)].copy())))
weights = np.array(weights)
""",
}
