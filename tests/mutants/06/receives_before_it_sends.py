MISUNDERSTANDING = "Every rank receives first, and nobody has sent."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-sum", "reduce-scatter-time", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    received = comm.receive((rank - 1) % p)
    comm.send(chunks[(rank - step - 1) % p], (rank + 1) % p)
    comm.add(chunks[(rank - step - 2) % p], received)
own = chunks[rank]
""",
}
