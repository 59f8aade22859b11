MISUNDERSTANDING = "A multiply-add is one operation."
FAILS = {
    "flops-by-hand",
    "flops-of-layers",
}
REPLACE = {
    "layer_flops": """
multiply_adds = N * H_out * W_out * K * k * k * (C // groups)
flops = multiply_adds
""",
}
