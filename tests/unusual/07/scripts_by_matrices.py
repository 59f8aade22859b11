UNUSUAL = (
    "The scripts take their points from a table of steps and ranks, share sums, and send all in one array."
)
REPLACE = {
    "twins": """
w, path, seen = np.zeros(3), [], []
for epoch in range(2):
    shuffle = np.random.default_rng([7, epoch]).permutation(len(y))
    for first in range(0, len(y), 3 * size):
        batch = shuffle[first : first + 3 * size].reshape(-1, size)[:, rank].tolist()
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w.tolist())
        seen.append(batch)
return {"path": path, "seen": seen}
""",
    "echo": """
class Point:
    w = np.zeros(3)

    def told(self):
        error = x[rank::size] @ self.w - y[rank::size]
        return size * mean(np.append(x[rank::size].T @ error, error @ error / 2)) / len(y)


here_now, path, losses = Point(), [], []
while len(path) < 6:
    *slopes, loss = here_now.told()
    losses.append(loss)
    here_now.w = here_now.w - 0.1 * np.array(slopes)
    path.append(here_now.w)
return {"path": np.array(path), "losses": np.array(losses)}
""",
    "restart": """
state = from_rank_0(np.stack(read_checkpoint()))  # (2, 3): weights and velocity
path = np.zeros((4, 3))
for step in range(4):
    state[1] = 0.9 * state[1] + mean(slope(state[0], x[rank::size], y[rank::size]))
    state[0] -= 0.1 * state[1]
    path[step] = state[0]
return {"path": path, "velocity": state[1]}
""",
    "wait": """
w, path, seen = np.zeros(3), [], []
shuffle = np.random.default_rng([7, 0]).permutation(len(y))
table = shuffle[: len(y) // size * size].reshape(-1, size)  # (steps of one point, p)
for first in range(0, len(table), 3):
    batch = table[first : first + 3, rank]
    w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
    path.append(w)
    seen.append([int(i) for i in batch])
return {"path": path, "seen": seen}
""",
    "best": """
w, losses = np.zeros(3), []
for step in range(8):
    w = w - 0.5 * mean(slope(w, x[:8][rank::size], y[:8][rank::size]))
    losses.append(float(mean(loss_of(w, x[8:][rank::size], y[8:][rank::size]))))
saved = [step for step in range(8) if losses[step] < min(losses[:step], default=np.inf)]
return {"saved": saved if rank == 0 else [], "lowest": min(losses)}
""",
}
