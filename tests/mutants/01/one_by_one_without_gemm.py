MISUNDERSTANDING = "A 1 × 1 layer is a product of arrays: it needs neither im2col nor gemm."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
if k == 1 and groups == 1 and not padding:
    y = x[:, ::stride, ::stride] @ w[0, 0] + b
else:
    windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
    filters = w.reshape(k * k, C_group, groups, K // groups)
    parts = [
        gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
        for g in range(groups)
    ]
    y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
}
