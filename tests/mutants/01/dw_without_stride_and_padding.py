MISUNDERSTANDING = "Only the forward pass needs stride and padding; dy has the right shape already."
FAILS = {
    "filter-gradient",
    "filter-gradient-groups",
}
REPLACE = {
    "filter_gradient": """
rows_of_dy = dy.reshape(-1, groups, K // groups)
windows = im2col(x, k).reshape(-1, k * k, groups, C_group)
windows = np.resize(windows, (len(rows_of_dy), k * k, groups, C_group))
parts = [gemm(windows[:, :, g].reshape(-1, k * k * C_group).T, rows_of_dy[:, g]) for g in range(groups)]
dw = np.concatenate(parts, axis=1).reshape(k, k, C_group, K)
db = dy.sum(axis=(0, 1, 2))
""",
}
