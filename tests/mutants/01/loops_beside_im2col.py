MISUNDERSTANDING = "im2col must be called, but its matrix is not needed: the loops give the result."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
im2col(x, k, stride, padding, dilation)
y = convolve_loops(x, w, b, stride, padding, dilation, groups)
""",
}
