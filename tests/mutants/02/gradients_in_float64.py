MISUNDERSTANDING = "Gradients are summed in float64, and stay there."
FAILS = {
    "dense-weights",
    "dense-input",
}
REPLACE = {
    "dense_gradient": """
dy = dy.astype(np.float64)
dx = (dy @ w.T).reshape(x.shape)
dw = x.reshape(len(x), -1).T @ dy
db = dy.sum(axis=0)
""",
}
