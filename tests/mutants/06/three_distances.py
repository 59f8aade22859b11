MISUNDERSTANDING = "Partners are at the distances 1, 2 and 4, as in the examples."
FAILS = {
    "halving-doubling-powers",
}
REPLACE = {
    "halving-doubling": """
if rank < 2 * extra and rank % 2:
    comm.send(x, rank - 1)
    return comm.receive(rank - 1)
if rank < 2 * extra:
    comm.add(x, comm.receive(rank + 1))
part = Group(comm, [r for r in range(p) if r >= 2 * extra or r % 2 == 0])
low, high, way = 0, len(x), []
for distance in (1, 2, 4):
    if distance >= power:
        break
    partner, middle = part.rank ^ distance, (low + high) // 2
    mine, other = slice(low, middle), slice(middle, high)
    if part.rank & distance:
        mine, other = other, mine
    comm.add(x[mine], part.sendreceive(x[other], partner, partner))
    way.append((partner, mine, other))
    low, high = mine.start, mine.stop
for partner, mine, other in reversed(way):
    part.sendreceive(x[mine], partner, partner, into=x[other])
if rank < 2 * extra:
    comm.send(x, rank + 1)
total = x
""",
}
