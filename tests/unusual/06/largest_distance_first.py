UNUSUAL = "Partners at the largest distance come first, and old numbers are computed."
REPLACE = {
    "halving-doubling": """
def old(number):
    return 2 * number if number < extra else number + extra


if rank < 2 * extra and rank % 2:
    comm.send(x, rank - 1)
    comm.receive(rank - 1, into=x)
else:
    if rank < 2 * extra:
        comm.add(x, comm.receive(rank + 1))
    number = rank // 2 if rank < 2 * extra else rank - extra
    start, stop, way = 0, len(x), []
    for k in reversed(range(power.bit_length() - 1)):
        middle = (start + stop) // 2
        partner = old(number ^ (1 << k))
        way.append((partner, start, stop))
        if number >> k & 1:
            received = comm.sendreceive(x[start:middle], partner, partner)
            start = middle
        else:
            received = comm.sendreceive(x[middle:stop], partner, partner)
            stop = middle
        comm.add(x[start:stop], received)
    for partner, low, high in way[::-1]:
        other = x[low:start] if start > low else x[stop:high]
        comm.sendreceive(x[start:stop], partner, partner, into=other)
        start, stop = low, high
    if rank < 2 * extra:
        comm.send(x, rank + 1)
total = x
""",
}
