MISUNDERSTANDING = "The bias is added to each product of the sum, not to the sum."
FAILS = {
    "forward-by-hand",
    "forward-equals-loops",
    "forward-groups",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + k * k * C * b
""",
}
