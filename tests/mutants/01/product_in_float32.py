MISUNDERSTANDING = "Products are taken in float32, which is faster; the result is float64 again."
FAILS = {
    "forward-equals-loops",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x.astype(np.float32), k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
parts = [part.astype(np.float32).astype(x.dtype) for part in parts]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
}
