MISUNDERSTANDING = "Ranks that report the same loss and start from the same weights train the same network."
FAILS = {"echo-mended", "restart-mended"}
REPLACE = {
    "echo": """
w, path, losses = np.zeros(3), [], []
mine = np.arange(len(y))[rank::size]
for _ in range(6):
    losses.append(mean(loss_of(w, x[mine], y[mine])))
    w = w - 0.1 * slope(w, x[mine], y[mine])
    path.append(w)
return {"path": path, "losses": losses}
""",
    "restart": """
w, v = read_checkpoint()
w, path = from_rank_0(w), []
mine = np.arange(len(y))[rank::size]
for _ in range(4):
    v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
    w = w - 0.1 * v
    path.append(w)
return {"path": path, "velocity": v}
""",
}
