MISUNDERSTANDING = "Only as many ranks as are a power of two take part: the rest is forgotten."
FAILS = {"halving-doubling-any-p"}
REPLACE = {
    "halving-doubling": """
part = comm
low, high, distance, way = 0, len(x), 1, []
while distance < power:
    commner, middle = part.rank ^ distance, (low + high) // 2
    mine, other = slice(low, middle), slice(middle, high)
    if comm.rank & distance:
        mine, other = other, mine
    comm.add(x[mine], comm.sendreceive(x[other], commner, commner))
    way.append((commner, mine, other))
    low, high, distance = mine.start, mine.stop, 2 * distance
for commner, mine, other in reversed(way):
    comm.sendreceive(x[mine], commner, commner, into=x[other])
total = x
""",
}
