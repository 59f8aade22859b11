MISUNDERSTANDING = "All ranks take the mean time."
FAILS = {"fit-exact", "iteration-passes"}
REPLACE = {
    "iteration": """
passes = fixed + image * n
alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
buckets = []
for size, share in gradients:
    if buckets and buckets[-1][0] + size <= bucket:
        buckets[-1] = (buckets[-1][0] + size, share)
    else:
        buckets.append((size, share))
end = 0.0
for size, share in buckets if p > 1 else []:
    end = max(end, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + beta * size / p)
seconds = max(end, passes)
""",
}
