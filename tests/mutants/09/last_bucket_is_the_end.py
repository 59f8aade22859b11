MISUNDERSTANDING = "The iteration ends with its last bucket."
FAILS = {"iteration-overlap"}
REPLACE = {
    "iteration": """
passes = (fixed + image * n) * (1 + spread * SLOWEST[p])
alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
buckets = []
for size, share in gradients:
    if buckets and buckets[-1][0] + size <= bucket:
        buckets[-1] = (buckets[-1][0] + size, share)
    else:
        buckets.append((size, share))
seconds = passes if p == 1 else 0.0
for size, share in buckets if p > 1 else []:
    seconds = max(seconds, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + beta * size / p)
""",
}
