MISUNDERSTANDING = "Each rank sends its chunk to every other one."
FAILS = {"all-gather-traffic"}
REPLACE = {
    "all-gather": """
for step in range(1, p):
    comm.sendreceive(chunks[rank], (rank + step) % p, (rank - step) % p, into=chunks[(rank - step) % p])
whole = x
""",
}
