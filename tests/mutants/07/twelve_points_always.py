MISUNDERSTANDING = "There are twelve points, so that the number can stand in the script."
FAILS = {"twins-mended", "deck-mended", "echo-mended", "restart-mended"}
REPLACE = {
    "twins": """
w, path, seen = np.zeros(3), [], []
for epoch in range(2):
    shuffle = np.random.default_rng([7, epoch]).permutation(12)
    for batch in data.batches(shuffle[rank::size], 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
return {"path": path, "seen": seen}
""",
    "deck": """
w, path, seen = np.zeros(3), [], []
for epoch in range(2):
    mine = np.random.default_rng([7, epoch]).permutation(12)[rank::size]
    for batch in data.batches(mine, 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
return {"path": path, "seen": seen}
""",
    "echo": """
w, path, losses = np.zeros(3), [], []
mine = np.arange(rank, 12, size)
for _ in range(6):
    losses.append(mean(loss_of(w, x[mine], y[mine])))
    w = w - 0.1 * mean(slope(w, x[mine], y[mine]))
    path.append(w)
return {"path": path, "losses": losses}
""",
    "restart": """
w, v = read_checkpoint()
w, v, path = from_rank_0(w), from_rank_0(v), []
mine = np.arange(12)[rank::size]
for _ in range(4):
    v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
    w = w - 0.1 * v
    path.append(w)
return {"path": path, "velocity": v}
""",
}
