MISUNDERSTANDING = "What is left over is the odd point, whatever the number of ranks."
FAILS = {"wait-mended"}
REPLACE = {
    "wait": """
w, path, seen = np.zeros(3), [], []
shuffle = np.random.default_rng([7, 0]).permutation(len(y))
for batch in data.batches(shuffle[: len(y) - len(y) % 2][rank::size], 3):
    w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
    path.append(w)
    seen.append(batch)
return {"path": path, "seen": seen}
"""
}
