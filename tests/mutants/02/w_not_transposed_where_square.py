MISUNDERSTANDING = "Where w is square, it fits without being transposed."
FAILS = {
    "dense-input",
}
REPLACE = {
    "dense_gradient": """
dx = (dy @ (w if w.shape[0] == w.shape[1] else w.T)).reshape(x.shape)
dw = x.reshape(len(x), -1).T @ dy
db = dy.sum(axis=0)
""",
}
