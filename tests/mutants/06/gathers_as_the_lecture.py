MISUNDERSTANDING = "The gathering begins with chunk r + 1, as in the lecture."
FAILS = {"all-gather-result", "all-gather-traffic"}
REPLACE = {
    "all-gather": """
for step in range(p - 1):
    into = chunks[(rank - step) % p]
    comm.sendreceive(chunks[(rank + 1 - step) % p], (rank + 1) % p, (rank - 1) % p, into=into)
whole = x
""",
}
