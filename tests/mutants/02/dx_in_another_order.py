MISUNDERSTANDING = "The numbers of an image come back in the order of columns."
FAILS = {
    "dense-input",
}
REPLACE = {
    "dense_gradient": """
dx = (dy @ w.T).reshape(x.shape, order="F") if x.ndim > 2 else dy @ w.T
dw = x.reshape(len(x), -1).T @ dy
db = dy.sum(axis=0)
""",
}
