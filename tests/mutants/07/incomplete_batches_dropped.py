MISUNDERSTANDING = "A batch that is not full is dropped, so that all ranks take the same number of steps."
FAILS = {"wait-mended"}
REPLACE = {
    "wait": """w, path, seen = np.zeros(3), [], []
shuffle = np.random.default_rng([7, 0]).permutation(len(y))
for batch in data.batches(shuffle[rank::size], 3):
    if len(batch) < 3:
        break
    w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
    path.append(w)
    seen.append(batch)
return {"path": path, "seen": seen}""",
}
