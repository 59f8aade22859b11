MISUNDERSTANDING = "What arrives is added to what is there."
FAILS = {"all-gather-result", "all-gather-time"}
REPLACE = {
    "all-gather": """
for step in range(p - 1):
    into = chunks[(rank - step - 1) % p]
    received = comm.sendreceive(chunks[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(into, received)
whole = x
""",
}
