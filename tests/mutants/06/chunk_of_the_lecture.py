MISUNDERSTANDING = "Rank r ends with chunk r + 1, as in the lecture."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-sum", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    received = comm.sendreceive(chunks[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(chunks[(rank - step - 1) % p], received)
own = chunks[(rank + 1) % p]
""",
}
