MISUNDERSTANDING = "A multiply-add counts twice; that is the FLOP."
FAILS = {
    "conv-by-hand",
    "conv-of-layers",
    "lenet",
}
REPLACE = {
    "conv_cost": """
H_out = (H + 2 * padding - k) // stride + 1
W_out = (W + 2 * padding - k) // stride + 1
shape = (H_out, W_out, K)
parameters = (k * k * C + bias) * K
multiply_adds = 2 * H_out * W_out * K * k * k * C
""",
}
