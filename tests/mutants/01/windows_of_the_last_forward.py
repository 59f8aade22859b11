MISUNDERSTANDING = (
    "The windows of the way forward are still there: filter_gradient() takes those of the last call."
)
FAILS = {
    "filter-gradient",
    "filter-gradient-groups",
    "bias-gradient",
}
REPLACE = {
    "forward": """
global last_windows
last_windows = im2col(x, k, stride, padding, dilation)

windows = last_windows.reshape(-1, k * k, groups, C_group)
filters = w.reshape(k * k, C_group, groups, K // groups)
parts = [
    gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
    for g in range(groups)
]
y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
""",
    "filter_gradient": """
rows_of_dy = dy.reshape(-1, groups, K // groups)
windows = last_windows.reshape(-1, k * k, groups, C_group)
parts = [gemm(windows[:, :, g].reshape(-1, k * k * C_group).T, rows_of_dy[:, g]) for g in range(groups)]
dw = np.concatenate(parts, axis=1).reshape(k, k, C_group, K)
db = dy.sum(axis=(0, 1, 2))
""",
}
