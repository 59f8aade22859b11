MISUNDERSTANDING = "A convolution has weights and no biases."
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
parameters = k * k * C * K
multiply_adds = H_out * W_out * K * k * k * C
""",
}
