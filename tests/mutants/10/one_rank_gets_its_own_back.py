MISUNDERSTANDING = "On one rank the sum is the vector itself, so that it may be returned."
FAILS = {"sum-on-ranks"}
REPLACE = {
    "allreduce": """
p, r, cuts = comm.size, comm.rank, bounds(len(x), comm.size)
if p == 1:
    return x
parts = [x[cuts[i] : cuts[i + 1]] for i in range(p)]
others = [(r + i) % p for i in range(1, p)]
waiting = [comm.ireceive(other) for other in others[::-1]]
sent = [comm.isend(parts[other], other) for other in others]
mine = np.sum([parts[r], *(request.wait() for request in waiting)], axis=0)
for request in sent:
    request.wait()
waiting = {other: comm.ireceive(other) for other in others[::-1]}
sent = [comm.isend(mine, other) for other in others]
total = [mine if i == r else None for i in range(p)]
for other, request in waiting.items():
    total[other] = request.wait()
for request in sent:
    request.wait()
return np.concatenate(total)
""",
}
