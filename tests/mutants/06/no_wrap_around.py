MISUNDERSTANDING = "The last rank has no right neighbour to go back to."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-sum", "reduce-scatter-time", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    received = comm.sendreceive(chunks[(rank - step - 1) % p], rank + 1, rank - 1)
    comm.add(chunks[(rank - step - 2) % p], received)
own = chunks[rank]
""",
}
