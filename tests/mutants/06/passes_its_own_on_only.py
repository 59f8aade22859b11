MISUNDERSTANDING = "In each step a rank sends its own chunk, and not what has arrived."
FAILS = {"all-gather-result", "all-gather-traffic"}
REPLACE = {
    "all-gather": """
for step in range(p - 1):
    into = chunks[(rank - step - 1) % p]
    comm.sendreceive(chunks[rank], (rank + 1) % p, (rank - 1) % p, into=into)
whole = x
""",
}
