UNUSUAL = "The scripts cut the batches of one process; one of them calls another; sums are sent in one array."
REPLACE = {
    "twins": """
w, path, seen = np.zeros(3), [], []
for epoch in (0, 1):
    order = np.random.default_rng([7, epoch]).permutation(len(x))
    for whole in data.batches(order, 3 * size):
        own = np.array([i for place, i in enumerate(whole) if place % size == rank])
        error = x[own] @ w - y[own]
        w = w - 0.1 * mean(error @ x[own] / own.size)
        path, seen = [*path, w.copy()], [*seen, own]
return dict(path=path, seen=seen)
""",
    "deck": """
return twins(rank, size, x, y)
""",
    "echo": """
x, y = x[rank::size], y[rank::size]
path, losses = [np.zeros(3)], []
for _ in range(6):
    told = mean([*slope(path[-1], x, y), loss_of(path[-1], x, y)])
    path.append(path[-1] - 0.1 * told[:3])
    losses.append(told[3])
return {"path": path[1:], "losses": losses}
""",
    "restart": """
w, v = (from_rank_0(part) for part in read_checkpoint())
mine, path = slice(rank, None, size), []
for _ in range(4):
    g = slope(w, x[mine], y[mine])
    v *= 0.9
    v += mean(g)
    w = w - 0.1 * v
    path.append(w)
return {"velocity": v, "path": path}
""",
    "wait": """
w, path, seen = np.zeros(3), [], []
shuffle = np.random.default_rng([7, 0]).permutation(len(y)).tolist()
del shuffle[len(shuffle) - len(shuffle) % size :]
while shuffle:
    batch, shuffle = shuffle[: 3 * size][rank::size], shuffle[3 * size :]
    w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
    path.append(w)
    seen.append(batch)
return {"path": path, "seen": seen}
""",
    "best": """
w, best_so_far, steps = np.zeros(3), (np.inf, None), []
for step in range(8):
    w = w - 0.5 * mean(slope(w, x[rank:8:size], y[rank:8:size]))
    now = (mean(loss_of(w, x[8 + rank :: size], y[8 + rank :: size])), step)
    if now < best_so_far[:1]:
        best_so_far = now
        steps += [step] * (not rank)
return {"saved": steps, "lowest": best_so_far[0]}
""",
}
