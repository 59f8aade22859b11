MISUNDERSTANDING = (
    "Whatever makes the weights equal makes it one training: copy them from rank 0, forget the velocity."
)
FAILS = {"echo-mended", "restart-mended"}
REPLACE = {
    "echo": """
w, path, losses = np.zeros(3), [], []
mine = np.arange(len(y))[rank::size]
for _ in range(6):
    losses.append(mean(loss_of(w, x[mine], y[mine])))
    w = from_rank_0(w - 0.1 * slope(w, x[mine], y[mine]))
    path.append(w)
return {"path": path, "losses": losses}
""",
    "restart": """
w, v = read_checkpoint()
w, v, path = from_rank_0(w), 0 * v, []
mine = np.arange(len(y))[rank::size]
for _ in range(4):
    v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
    w = w - 0.1 * v
    path.append(w)
return {"path": path, "velocity": v}
""",
}
