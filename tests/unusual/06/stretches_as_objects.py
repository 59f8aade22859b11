UNUSUAL = "A stretch is an object that can be called; its lower half is the longer one."
REPLACE = {
    "halving-doubling": """
class Stretch:
    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def halves(self):
        middle = self.start + (self.stop - self.start + 1) // 2
        return Stretch(self.start, middle), Stretch(middle, self.stop)

    def __call__(self):
        return x[self.start : self.stop]

takes_part = not (rank < 2 * extra and rank % 2)
paired = rank < 2 * extra
if not takes_part:
    comm.isend(x, rank - 1).wait()
    comm.ireceive(rank - 1, into=x).wait()
else:
    if paired:
        comm.add(x, comm.receive(rank + 1))
    ranks = [*range(0, 2 * extra, 2), *range(2 * extra, p)]
    me, now, done = ranks.index(rank), Stretch(0, n := len(x)), []
    for k in range(power.bit_length() - 1):
        halves = now.halves()
        bit = me >> k & 1
        keep, give = halves[bit], halves[1 - bit]
        partner = ranks[me ^ 2**k]
        comm.add(keep(), comm.sendreceive(give(), partner, partner))
        done.append((partner, keep, give))
        now = keep
    while done:
        partner, keep, give = done.pop()
        give()[:] = comm.sendreceive(keep(), partner, partner)
    if paired:
        comm.send(x, rank + 1)
total = x
""",
}
