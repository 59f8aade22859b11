MISUNDERSTANDING = "The gradient of a batch is the mean over its images."
FAILS = {
    "filter-gradient",
    "bias-gradient",
}
REPLACE = {
    "filter_gradient": """
rows_of_dy = dy.reshape(-1, K) / N
dw = (im2col(x, k, stride, padding).T @ rows_of_dy).reshape(k, k, C, K)
db = rows_of_dy.sum(axis=0)
""",
}
