MISUNDERSTANDING = "A sum over many numbers has to be taken, and given back, in float64."
FAILS = {
    "bias-gradient",
}
REPLACE = {
    "filter_gradient": """
rows_of_dy = dy.reshape(-1, groups, K // groups)
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
parts = [gemm(windows[:, :, g].reshape(-1, k * k * C_group).T, rows_of_dy[:, g]) for g in range(groups)]
dw = np.concatenate(parts, axis=1).reshape(k, k, C_group, K)
db = dy.sum(axis=(0, 1, 2), dtype=np.float64)
""",
}
