MISUNDERSTANDING = "What rank 0 reads from the checkpoint can be written into the program."
FAILS = {"restart-mended"}
REPLACE = {
    "restart": """
w, v, path = np.array([0.5, 1.5, -1.0]), np.array([3.0, -1.0, 2.0]), []
mine = np.arange(len(y))[rank::size]
for _ in range(4):
    v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
    w = w - 0.1 * v
    path.append(w)
return {"path": path, "velocity": v}
"""
}
