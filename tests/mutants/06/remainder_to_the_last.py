MISUNDERSTANDING = "The last chunk takes what is left over."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
size = len(x) // p
chunks = [x[r * size : (r + 1) * size] for r in range(p - 1)] + [x[(p - 1) * size :]]
for step in range(p - 1):
    received = comm.sendreceive(chunks[(rank - step - 1) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(chunks[(rank - step - 2) % p], received)
own = chunks[rank]
""",
}
