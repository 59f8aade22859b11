MISUNDERSTANDING = "dy is a temporary: it may be divided in place, and the results multiplied."
FAILS = {
    "dense-weights",
    "dense-input",
}
REPLACE = {
    "dense_gradient": """
dy /= len(x)
dx = (dy @ w.T).reshape(x.shape)
dw = x.reshape(len(x), -1).T @ dy
db = dy.sum(axis=0)
dx, dw, db = len(x) * dx, len(x) * dw, len(x) * db
""",
}
