UNUSUAL = "The shuffle is reshaped, the mean taken before the all-reduce, and a copy changed in place."
REPLACE = {
    "positions": """
rows = shard // n
order = np.random.default_rng((seed, step // rows)).permutation(shard)[: rows * n]
return order.reshape(rows, n)[step % rows]
""",
    "update": """
mine = positions(step, len(y), n, seed)
part = gradient_on(comm, w, x[mine], y[mine], width) / (n * comm.size)
new = dict(v=v * recipe["momentum"], w=w.copy(), step=step + 1)
new["v"] += allreduce(comm, part)
new["w"] -= rate * new["v"]
return new
""",
}
