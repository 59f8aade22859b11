UNUSUAL = "What travels is a new array; x is not touched."
REPLACE = {
    "reduce-scatter": """
moving = chunks[(rank - 1) % p]
for k in range(2, p + 1):
    arrived = comm.sendreceive(moving, dest=(rank + 1) % p, source=(rank + p - 1) % p)
    moving = comm.add(arrived, chunks[(rank - k) % p])
own = moving.copy()
""",
    "all-gather": """
found = {rank: chunks[rank].copy()}
for k in range(1, p):
    found[(rank - k) % p] = comm.sendreceive(found[(rank - k + 1) % p], (rank + 1) % p, (rank - 1) % p)
whole = np.concatenate([found[r] for r in range(p)])
""",
}
