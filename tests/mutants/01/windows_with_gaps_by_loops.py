MISUNDERSTANDING = "Windows with gaps are no matrix: there the loops have to do it."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
if dilation > 1:
    y = convolve_loops(x, w, b, stride, padding, dilation, groups)
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
