MISUNDERSTANDING = "An index below 0 reads weights from the end of the path, which are not there yet."
FAILS = {"stale-aware", "stale-history"}
REPLACE = {
    "stale-sgd": """
weights = np.zeros((len(staleness) + 1, len(w)))
weights[0] = w
for t, s in enumerate(staleness):
    eta = rate / max(1, s) if aware else rate
    weights[t + 1] = weights[t] - eta * np.asarray(gradient(weights[t - s].copy()))
""",
}
