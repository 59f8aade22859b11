MISUNDERSTANDING = "The lecture's functions stand in the holes as they are."
FAILS = {
    "reduce-scatter-sum",
    "reduce-scatter-any-n",
    "reduce-scatter-traffic",
    "all-gather-result",
    "all-gather-traffic",
    "halving-doubling-any-p",
    "halving-doubling-any-n",
    "hierarchical-any-n",
    "hierarchical-traffic",
    "hierarchical-time",
}
REPLACE = {
    "reduce-scatter": """
parts = x.reshape(p, -1)
for step in range(p - 1):
    received = comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(parts[(rank - step - 1) % p], received)
own = parts[(rank + 1) % p]
""",
    "all-gather": """
parts = x.reshape(p, -1)
for step in range(p - 1):
    received = comm.sendreceive(parts[(rank + 1 - step) % p], (rank + 1) % p, (rank - 1) % p)
    parts[(rank - step) % p] = received
whole = x
""",
    "halving-doubling": """
parts, low, high, distance = x.reshape(p, -1), 0, p, p // 2
while distance:
    partner = rank ^ distance
    mine, other = slice(low, low + distance), slice(low + distance, high)
    if rank & distance:
        mine, other = other, mine
    comm.add(parts[mine], comm.sendreceive(parts[other], partner, partner))
    low, high, distance = mine.start, mine.stop, distance // 2
distance = 1
while distance < p:
    partner, start = rank ^ distance, low ^ distance
    parts[start : start + distance] = comm.sendreceive(parts[low:high], partner, partner)
    low, high, distance = min(low, start), min(low, start) + 2 * distance, 2 * distance
total = x
""",
    "hierarchical": """
first = comm.rank // q * q
if comm.rank != first:
    comm.send(x, first)
    return comm.receive(first)
for other in range(first + 1, first + q):
    comm.add(x, comm.receive(other))
leaders = Group(comm, range(0, comm.size, q))
p, rank = leaders.size, leaders.rank
parts = x.reshape(p, -1)
for step in range(p - 1):
    received = leaders.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(parts[(rank - step - 1) % p], received)
for step in range(p - 1):
    received = leaders.sendreceive(parts[(rank + 1 - step) % p], (rank + 1) % p, (rank - 1) % p)
    parts[(rank - step) % p] = received
for other in range(first + 1, first + q):
    comm.send(x, other)
total = x
""",
}
