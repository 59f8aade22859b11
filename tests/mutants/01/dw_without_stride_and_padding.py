MISUNDERSTANDING = "Only the forward pass needs stride and padding; dy has the right shape already."
FAILS = {"filter-gradient"}
REPLACE = {
    "filter_gradient": """
rows_of_dy = dy.reshape(-1, K)
dw = (im2col(x, k)[: len(rows_of_dy)].T @ rows_of_dy[: len(im2col(x, k))]).reshape(k, k, C, K)
db = rows_of_dy.sum(axis=0)
""",
}
