MISUNDERSTANDING = "A convolution turns its filter by 180 degrees, as in mathematics."
FAILS = {
    "forward-by-hand",
    "forward-equals-loops",
    "forward-groups",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w[::-1, ::-1].reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
}
