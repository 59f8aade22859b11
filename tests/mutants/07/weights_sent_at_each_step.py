MISUNDERSTANDING = "Ranks whose weights are equal after each step are one training, whatever else they hold."
FAILS = {"restart-mended"}
REPLACE = {
    "restart": """w, v = read_checkpoint()
w, path = from_rank_0(w), []
mine = np.arange(len(y))[rank::size]
for _ in range(4):
    v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
    w = from_rank_0(w - 0.1 * v)
    path.append(w)
return {"path": path, "velocity": v}""",
}
