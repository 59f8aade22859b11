MISUNDERSTANDING = "The columns of a group lie side by side in the matrix of windows."
FAILS = {
    "forward-groups",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, groups, k * k, C_group).swapaxes(1, 2)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
}
