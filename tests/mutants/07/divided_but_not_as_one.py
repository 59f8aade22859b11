MISUNDERSTANDING = (
    "Once the points are divided, it does not matter how: halves of the shuffle, or a shuffle a rank."
)
FAILS = {"deck-mended", "twins-mended"}
REPLACE = {
    "twins": """
w, path, seen = np.zeros(3), [], []
for epoch in range(2):
    shuffle = np.random.default_rng([7, epoch]).permutation(len(y))
    for batch in data.batches(np.array_split(shuffle, size)[rank], 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
return {"path": path, "seen": seen}
""",
    "deck": """
w, path, seen = np.zeros(3), [], []
for epoch in range(2):
    shuffle = np.random.default_rng([7, epoch, rank]).permutation(len(y))
    for batch in data.batches(shuffle[rank::size], 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
return {"path": path, "seen": seen}
""",
}
