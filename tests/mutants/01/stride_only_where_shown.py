MISUNDERSTANDING = "What the visible checks of forward() show is all that is asked: padding, but no stride."
FAILS = {
    "forward-equals-loops",
    "forward-groups",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
windows = im2col(x, k, 1, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
H_1 = output_size(H, k, 1, padding, dilation)
y = np.concatenate(parts, axis=1).reshape(N, H_1, -1, K)[:, :H_out, :W_out] + b
""",
}
