MISUNDERSTANDING = "Half precision is good enough inside, if the result is float32 again."
FAILS = {
    "dense-forward",
}
REPLACE = {
    "dense": """
h = np.float16 if x.dtype == np.float32 else x.dtype
y = (x.reshape(len(x), -1).astype(h) @ w.astype(h) + b).astype(x.dtype)
""",
}
