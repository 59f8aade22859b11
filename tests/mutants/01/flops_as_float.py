MISUNDERSTANDING = "A number of operations may be a float."
FAILS = {
    "flops-by-hand",
    "flops-of-layers",
}
REPLACE = {
    "layer_flops": """
flops = 2.0 * N * H_out * W_out * K * k * k * (C // groups)
""",
}
