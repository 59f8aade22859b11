MISUNDERSTANDING = "Each chunk is added to what was received, and once more to itself."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-sum", "reduce-scatter-time", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    received = comm.sendreceive(chunks[(rank - step - 1) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(received, chunks[(rank - step - 2) % p])
    chunks[(rank - step - 2) % p] += received
own = chunks[rank]
""",
}
