MISUNDERSTANDING = "A rank's share is every second point, as in the example with two ranks."
FAILS = {"twins-mended", "deck-mended", "echo-mended", "restart-mended", "best-mended"}
shuffled = """
w, path, seen = np.zeros(3), [], []
for epoch in range(2):
    shuffle = np.random.default_rng([7, epoch]).permutation(len(y))
    for batch in data.batches(shuffle[rank::2], 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
return {"path": path, "seen": seen}
"""
REPLACE = {
    "twins": shuffled,
    "deck": shuffled,
    "echo": """
w, path, losses = np.zeros(3), [], []
mine = np.arange(len(y))[rank::2]
for _ in range(6):
    losses.append(mean(loss_of(w, x[mine], y[mine])))
    w = w - 0.1 * mean(slope(w, x[mine], y[mine]))
    path.append(w)
return {"path": path, "losses": losses}
""",
    "restart": """
w, v = read_checkpoint()
w, v, path = from_rank_0(w), from_rank_0(v), []
mine = np.arange(len(y))[rank::2]
for _ in range(4):
    v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
    w = w - 0.1 * v
    path.append(w)
return {"path": path, "velocity": v}
""",
    "best": """
w, lowest, saved = np.zeros(3), np.inf, []
mine, held_out = np.arange(0, 8)[rank::2], np.arange(8, len(y))[rank::2]
for step in range(8):
    w = w - 0.5 * mean(slope(w, x[mine], y[mine]))
    loss = mean(loss_of(w, x[held_out], y[held_out]))
    if loss < lowest:
        lowest = loss
        if rank == 0:
            saved.append((step, w))
return {"saved": [step for step, _ in saved], "lowest": lowest}
""",
}
