MISUNDERSTANDING = "Only the rank that writes has to know which loss is the lowest."
FAILS = {"best-mended"}
REPLACE = {
    "best": """
w, lowest, saved = np.zeros(3), np.inf, []
mine, held_out = np.arange(0, 8)[rank::size], np.arange(8, len(y))[rank::size]
for step in range(8):
    w = w - 0.5 * mean(slope(w, x[mine], y[mine]))
    loss = mean(loss_of(w, x[held_out], y[held_out]))
    if rank == 0 and loss < lowest:
        lowest = loss
        saved.append((step, w))
return {"saved": [step for step, _ in saved], "lowest": lowest}
"""
}
