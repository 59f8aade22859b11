MISUNDERSTANDING = "What is only reported need not be exchanged: a rank's own loss will do."
FAILS = {"echo-mended"}
REPLACE = {
    "echo": """
w, path, losses = np.zeros(3), [], []
mine = np.arange(len(y))[rank::size]
for _ in range(6):
    losses.append(loss_of(w, x[mine], y[mine]))
    w = w - 0.1 * mean(slope(w, x[mine], y[mine]))
    path.append(w)
return {"path": path, "losses": losses}
"""
}
