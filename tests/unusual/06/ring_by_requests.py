UNUSUAL = "Messages are sent and expected first, and waited for then."
REPLACE = {
    "reduce-scatter": """
for step in range(p - 1):
    expected = comm.ireceive((rank - 1) % p)
    sent = comm.isend(chunks[(rank - step - 1) % p], (rank + 1) % p)
    received = expected.wait()
    sent.wait()
    comm.add(chunks[(rank - step - 2) % p], received)
own = chunks[rank]
""",
    "all-gather": """
for step in range(p - 1):
    expected = comm.ireceive((rank - 1) % p, into=chunks[(rank - step - 1) % p])
    sent = comm.isend(chunks[(rank - step) % p], (rank + 1) % p)
    sent.wait(), expected.wait()
whole = x
""",
}
