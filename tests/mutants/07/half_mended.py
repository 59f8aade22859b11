MISUNDERSTANDING = "It no longer hangs, and only one rank writes: so it is right."
FAILS = {"best-mended", "wait-mended"}
REPLACE = {
    "wait": """
w, path, seen = np.zeros(3), [], []
shuffle = np.random.default_rng([7, 0]).permutation(len(y))
for batch in data.batches(np.append(shuffle, shuffle[0])[rank::size], 3):
    w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
    path.append(w)
    seen.append(batch)
return {"path": path, "seen": seen}
""",
    "best": """
w, lowest, saved = np.zeros(3), np.inf, []
mine, held_out = np.arange(0, 8)[rank::size], np.arange(8, len(y))[rank::size]
for step in range(8):
    w = w - 0.5 * mean(slope(w, x[mine], y[mine]))
    loss = loss_of(w, x[held_out], y[held_out])
    if loss < lowest:
        lowest = loss
        if rank == 0:
            saved.append((step, w))  # stands for the writing of the file
return {"saved": [step for step, _ in saved], "lowest": lowest}
""",
}
