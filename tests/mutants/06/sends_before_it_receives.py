MISUNDERSTANDING = "Every rank sends first, and nobody is there to receive."
FAILS = {"reduce-scatter-time", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    comm.send(chunks[(rank - step - 1) % p], (rank + 1) % p)
    comm.add(chunks[(rank - step - 2) % p], comm.receive((rank - 1) % p))
own = chunks[rank]
""",
}
