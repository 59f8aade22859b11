MISUNDERSTANDING = "A network needs no more than float32."
FAILS = {
    "dense-forward",
}
REPLACE = {
    "dense": """
y = (x.reshape(len(x), -1).astype(np.float32) @ w.astype(np.float32) + b).astype(x.dtype)
""",
}
