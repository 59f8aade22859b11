MISUNDERSTANDING = "When all halves are added, every rank has the sum."
FAILS = {
    "halving-doubling-any-n",
    "halving-doubling-any-p",
    "halving-doubling-powers",
    "halving-doubling-time",
    "halving-doubling-traffic",
}
REPLACE = {
    "halving-doubling": """
if rank < 2 * extra and rank % 2:
    comm.send(x, rank - 1)
    return comm.receive(rank - 1)
if rank < 2 * extra:
    comm.add(x, comm.receive(rank + 1))
part = Group(comm, [r for r in range(p) if r >= 2 * extra or r % 2 == 0])
low, high, distance, way = 0, len(x), 1, []
while distance < power:
    partner, middle = part.rank ^ distance, (low + high) // 2
    mine, other = slice(low, middle), slice(middle, high)
    if part.rank & distance:
        mine, other = other, mine
    comm.add(x[mine], part.sendreceive(x[other], partner, partner))
    way.append((partner, mine, other))
    low, high, distance = mine.start, mine.stop, 2 * distance
if rank < 2 * extra:
    comm.send(x, rank + 1)
total = x
""",
}
