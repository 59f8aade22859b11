MISUNDERSTANDING = "Any way to one product will do, gemm or not."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    windows[:, :, g].reshape(-1, k * k * C_group) @ filters[:, :, g].reshape(k * k * C_group, -1)
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
}
