MISUNDERSTANDING = "A ring is as good: it has the same bytes."
FAILS = {"halving-doubling-time", "halving-doubling-traffic"}
REPLACE = {
    "halving-doubling": """
parts = chunked(x, p)
for step in range(p - 1):
    received = comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(parts[(rank - step - 1) % p], received)
for step in range(p - 1):
    received = comm.sendreceive(parts[(rank + 1 - step) % p], (rank + 1) % p, (rank - 1) % p)
    parts[(rank - step) % p][:] = received
total = x
""",
}
