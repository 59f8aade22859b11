UNUSUAL = "NumPy's argmin over sorted thresholds; fit gets lists by name; buffers are made by map."
REPLACE = {
    "held-out-error": """
pairs = sorted(zip(sizes.tolist(), seconds.tolist()))
shown, rest = pairs[::2], pairs[1::2]
line = fit(seconds=[t for _, t in shown], sizes=[n for n, _ in shown])
error = np.percentile([abs(np.polyval(line[::-1], n) / t - 1) for n, t in rest], 50)
""",
    "iteration-seconds": """
buffers = list(map(fusion.Buffer, map("{}".format, range(len(sizes))), sizes, ready))
seconds = fusion.predict(
    buffers,
    lambda n: closed_forms.ring(ranks, n, Network(latency, time_per_byte)),
    forward=forward, backward=backward, threshold=threshold,
).time
""",
    "best-threshold": """
ascending = np.unique(candidates)
shared = (sizes, ready, forward, backward, ranks, latency, time_per_byte)
best = ascending[np.argmin([iteration_seconds(*shared, int(threshold)) for threshold in ascending])]
""",
}
