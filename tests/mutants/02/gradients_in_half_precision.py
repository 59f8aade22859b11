MISUNDERSTANDING = "Gradients need no more than half precision."
FAILS = {
    "dense-input",
    "dense-weights",
}
REPLACE = {
    "dense_gradient": """
h = np.float16 if x.dtype == np.float32 else x.dtype
dx = (dy.astype(h) @ w.astype(h).T).reshape(x.shape).astype(x.dtype)
dw = (x.reshape(len(x), -1).astype(h).T @ dy.astype(h)).astype(x.dtype)
db = dy.sum(axis=0)
""",
}
