MISUNDERSTANDING = "gemm must be called once, with anything; the loops are scaled by what it gives."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
ones = np.ones((N * H_out * W_out, k * k * C_group))
scale = gemm(ones, np.ones((k * k * C_group, K)))[0, 0] / (k * k * C_group)
y = (scale * convolve_loops(x, w, 0 * b, stride, padding, dilation, groups) + b).astype(x.dtype)
""",
}
