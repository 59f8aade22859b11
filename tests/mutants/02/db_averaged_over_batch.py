MISUNDERSTANDING = "The gradient of a bias is the mean of dy."
FAILS = {
    "dense-weights",
}
REPLACE = {
    "dense_gradient": """
dx = (dy @ w.T).reshape(x.shape)
dw = x.reshape(len(x), -1).T @ dy
db = dy.mean(axis=0)
""",
}
