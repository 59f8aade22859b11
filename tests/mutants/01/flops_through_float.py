MISUNDERSTANDING = "A number of operations may pass through a float."
FAILS = {
    "flops-of-layers",
}
REPLACE = {
    "layer_flops": """
flops = int(2.0 * N * H_out * W_out * K * k * k * C / groups)
""",
}
