MISUNDERSTANDING = "Partners exchange their whole vectors, and add."
FAILS = {
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
distance = 1
while distance < power:
    comm.add(x, part.sendreceive(x, part.rank ^ distance, part.rank ^ distance))
    distance *= 2
if rank < 2 * extra:
    comm.send(x, rank + 1)
total = x
""",
}
