MISUNDERSTANDING = "Each row of the windows is multiplied with the filters, one after the other."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    np.concatenate(
        [gemm(row[:, g].reshape(1, -1), filters[:, :, g].reshape(k * k * C_group, -1)) for row in windows]
    )
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
}
