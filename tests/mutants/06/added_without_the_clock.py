MISUNDERSTANDING = "An addition is an addition, with comm.add or without."
FAILS = {
    "reduce-scatter-time",
}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    received = comm.sendreceive(chunks[(rank - step - 1) % p], (rank + 1) % p, (rank - 1) % p)
    chunks[(rank - step - 2) % p] += received
own = chunks[rank]
""",
}
