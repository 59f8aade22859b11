MISUNDERSTANDING = "Where every rank computes everything, nothing has to be said."
FAILS = {"best-mended"}
REPLACE = {
    "best": """
w, lowest, saved = np.zeros(3), np.inf, []
for step in range(8):
    w = w - 0.5 * slope(w, x[:8], y[:8])
    loss = loss_of(w, x[8:], y[8:])
    if loss < lowest:
        lowest = loss
        if rank == 0:
            saved.append((step, w))
return {"saved": [step for step, _ in saved], "lowest": lowest}
"""
}
