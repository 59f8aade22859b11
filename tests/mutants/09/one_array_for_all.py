MISUNDERSTANDING = "The weights are changed in place, so that the past changes with them."
FAILS = {"stale-aware", "stale-by-hand", "stale-history"}
REPLACE = {
    "stale-sgd": """
weights = [w]
for t, s in enumerate(staleness):
    eta = rate / max(1, s) if aware else rate
    w -= eta * np.asarray(gradient(weights[max(0, t - s)].copy()))
    weights.append(w)
weights = np.array(weights)
""",
}
