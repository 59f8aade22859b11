MISUNDERSTANDING = "The definition is right, so it is good enough."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
y = convolve_loops(x, w, b, stride, padding, dilation, groups)
""",
}
