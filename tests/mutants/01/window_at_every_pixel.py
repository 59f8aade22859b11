MISUNDERSTANDING = "Every pixel of the image has a window, whatever the stride and the padding."
FAILS = {
    "flops-by-hand",
    "flops-of-layers",
}
REPLACE = {
    "layer_flops": """
multiply_adds = N * H * W * K * k * k * (C // groups)
flops = 2 * multiply_adds
""",
}
