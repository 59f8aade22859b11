UNUSUAL = "The velocities are summed in place of the gradients; the shuffle is dealt out from a list."
REPLACE = {
    "update": """
p = comm.size
mine = positions(step, len(y), n, seed)
part = gradient_on(comm, w, x[mine], y[mine], width) / n
v = allreduce(comm, recipe["momentum"] * v + part) / p
w = w - rate * v
return dict(w=w, v=v, step=step + 1)
""",
    "positions": """
where, epoch = step, 0
while where + 1 > shard // n:
    where, epoch = where - shard // n, epoch + 1
order = list(np.random.default_rng([seed, epoch]).permutation(shard))
return np.array([order.pop(0) for _ in range((where + 1) * n)][-n:])
""",
    "lower-bound": """
m = len(accuracies)
mean = sum(accuracies) / m
return mean - T95[m] * (sum((a - mean) ** 2 for a in accuracies) / (m * (m - 1))) ** 0.5
""",
}
