MISUNDERSTANDING = "Where gradients are averaged, every rank may compute with all the points."
FAILS = {"twins-mended", "echo-mended", "restart-mended"}
REPLACE = {
    "twins": """
w, path, seen = np.zeros(3), [], []
for epoch in range(2):
    shuffle = np.random.default_rng([7, epoch]).permutation(len(y))
    for batch in data.batches(shuffle, 3 * size):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
return {"path": path, "seen": seen}
""",
    "echo": """
w, path, losses = np.zeros(3), [], []
for _ in range(6):
    losses.append(mean(loss_of(w, x, y)))
    w = w - 0.1 * mean(slope(w, x, y))
    path.append(w)
return {"path": path, "losses": losses}
""",
    "restart": """
w, v = read_checkpoint()
w, v, path = from_rank_0(w), from_rank_0(v), []
for _ in range(4):
    v = 0.9 * v + mean(slope(w, x, y))
    w = w - 0.1 * v
    path.append(w)
return {"path": path, "velocity": v}
""",
}
