MISUNDERSTANDING = "im2col must be called, but its matrix is not needed: the loops give the result."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
im2col(x, k, stride, padding)
y = convolve_loops(x, w, b, stride, padding)
""",
}
