UNUSUAL = "Halving-doubling as a function that calls itself, the upper half first."
REPLACE = {
    "halving-doubling": """
def solve(part, distance, y):
    if distance == part.size:
        return y
    partner, cut = part.rank ^ distance, -(-len(y) // 2)
    upper = part.rank & distance == 0
    keep, give = (y[cut:], y[:cut]) if upper else (y[:cut], y[cut:])
    received = part.sendreceive(give, partner, partner)
    mine = solve(part, 2 * distance, part.add(keep, received))
    other = part.sendreceive(mine, partner, partner)
    return np.concatenate([other, mine] if upper else [mine, other])


def neighbour():
    return rank + 1 if rank % 2 == 0 else rank - 1


if rank < 2 * extra and rank % 2 == 1:
    comm.send(x, neighbour())
    total = comm.receive(neighbour())
else:
    if rank < 2 * extra:
        x = comm.add(comm.receive(neighbour()), x)
    going_on = [r for r in range(p) if not (r < 2 * extra and r % 2)]
    total = solve(Group(comm, going_on), 1, x)
    if rank < 2 * extra:
        comm.send(total, neighbour())
""",
}
