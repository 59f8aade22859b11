MISUNDERSTANDING = "Sums are kept in float32."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-sum", "reduce-scatter-time", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
sums = [chunk.astype(np.float32).astype(x.dtype) for chunk in chunks]
for step in range(p - 1):
    received = comm.sendreceive(sums[(rank - step - 1) % p], (rank + 1) % p, (rank - 1) % p)
    comm.add(sums[(rank - step - 2) % p], received)
    sums[(rank - step - 2) % p] = sums[(rank - step - 2) % p].astype(np.float32).astype(x.dtype)
own = sums[rank]
""",
}
