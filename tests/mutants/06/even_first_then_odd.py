MISUNDERSTANDING = (
    "It is enough that no rank waits for ever: the even ranks send first, the odd ones receive first."
)
FAILS = {
    "reduce-scatter-time",
}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    give = chunks[(rank - step - 1) % p]
    if rank % 2 == 0:
        comm.send(give, (rank + 1) % p)
        received = comm.receive((rank - 1) % p)
    else:
        give = give.copy()
        received = comm.receive((rank - 1) % p)
        comm.send(give, (rank + 1) % p)
    comm.add(chunks[(rank - step - 2) % p], received)
own = chunks[rank]
""",
}
