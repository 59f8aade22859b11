MISUNDERSTANDING = "Half precision is good enough inside, if the result is float32 again."
FAILS = {
    "forward-equals-loops",
}
REPLACE = {
    "forward": """
half = np.float16 if x.dtype == np.float32 else x.dtype

windows = im2col(x.astype(half), k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w.astype(half).reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
y = y.astype(x.dtype)
""",
}
