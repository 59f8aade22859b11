MISUNDERSTANDING = "The channels of a group are those that fit first: every group sees the first channels."
FAILS = {
    "forward-groups",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, 0].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
}
