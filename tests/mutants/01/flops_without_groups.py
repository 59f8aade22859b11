MISUNDERSTANDING = "Groups change which channels meet, not how many multiply-adds there are."
FAILS = {
    "flops-of-layers",
}
REPLACE = {
    "layer_flops": """
multiply_adds = N * H_out * W_out * K * k * k * C
flops = 2 * multiply_adds
""",
}
