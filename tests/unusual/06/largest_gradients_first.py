UNUSUAL = "Buffers are sorted beforehand, and a loop keeps the best threshold."
REPLACE = {
    "iteration-seconds": """
order = np.argsort(ready)
gradients = [fusion.Buffer(f"gradient {i}", int(sizes[i]), float(ready[i])) for i in order]
alpha, beta = latency, time_per_byte


def exchange(size):
    return 2 * (ranks - 1) * (alpha + size / ranks * beta)


seconds = fusion.predict(gradients, exchange, forward=forward, backward=backward, threshold=threshold).time
""",
    "best-threshold": """
best, shortest = None, float("inf")
for candidate in sorted(candidates):
    needed = iteration_seconds(
        sizes=sizes, ready=ready, forward=forward, backward=backward, ranks=ranks, latency=latency,
        time_per_byte=time_per_byte, threshold=candidate,
    )
    if needed < shortest:
        best, shortest = candidate, needed
""",
}
