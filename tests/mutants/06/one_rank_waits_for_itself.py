MISUNDERSTANDING = "On one rank a message to oneself is sent and waited for."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
if p == 1:
    comm.receive(0)
for step in range(p - 1):
    received = comm.sendreceive(chunks[(rank - step - 1) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(chunks[(rank - step - 2) % p], received)
own = chunks[rank]
""",
}
