MISUNDERSTANDING = "The whole vector goes round, and the chunk is cut out in the end."
FAILS = {"reduce-scatter-time", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
total, passing = x.copy(), x
for step in range(p - 1):
    passing = comm.sendreceive(passing, (rank + 1) % p, (rank - 1) % p)
    comm.add(total, passing)
own = chunked(total, p)[rank]
""",
}
