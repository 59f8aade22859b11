UNUSUAL = "The rings between the nodes are the function of the free cell; chunks are collected, and joined."
REPLACE = {
    "all-gather": """
parts = {rank: chunks[rank].copy()}
for step in range(p - 1):
    sent, new = parts[(rank - step) % p], (rank - step - 1) % p
    parts[new] = comm.sendreceive(sent, (rank + 1) % p, (rank - 1) % p)
whole = np.concatenate([parts[r] for r in range(p)])
""",
    "hierarchical": """
node = Group(comm, [r for r in range(comm.size) if r // q == comm.rank // q])
peers = Group(comm, [r for r in range(comm.size) if r % q == comm.rank % q])
chunked(x, q)[node.rank][:] = ring(peers, reduce_scatter(node, x))
total = all_gather(node, x)
""",
}
