MISUNDERSTANDING = "All images share the filters, so one image gives their gradient."
FAILS = {
    "filter-gradient",
    "filter-gradient-groups",
    "bias-gradient",
}
REPLACE = {
    "filter_gradient": """
dy, x = dy[:1], x[:1]
rows_of_dy = dy.reshape(-1, groups, K // groups)
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
parts = [gemm(windows[:, :, g].reshape(-1, k * k * C_group).T, rows_of_dy[:, g]) for g in range(groups)]
dw = np.concatenate(parts, axis=1).reshape(k, k, C_group, K)
db = dy.sum(axis=(0, 1, 2))
""",
}
