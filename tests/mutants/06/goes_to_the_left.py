MISUNDERSTANDING = "The ring runs to the left."
FAILS = {"reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    received = comm.sendreceive(chunks[(rank + step + 1) % p], (rank - 1) % p, (rank + 1) % p)
    comm.add(chunks[(rank + step + 2) % p], received)
own = chunks[rank]
""",
}
