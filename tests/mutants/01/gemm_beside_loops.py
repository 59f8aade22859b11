MISUNDERSTANDING = "gemm must be called once; the result may come from elsewhere."
FAILS = {
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
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b

y = np.empty(y.shape, x.dtype)
for f in range(K):
    g = f // (K // groups)
    taken = windows[:, :, g].reshape(-1, k * k * C_group)
    y[..., f] = (taken * w[..., f].ravel()).sum(axis=1).reshape(N, H_out, W_out) + b[f]
""",
}
