MISUNDERSTANDING = "A filter has k·k weights, however many channels it sees."
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
parameters = (k * k + bias) * K
multiply_adds = H_out * W_out * K * k * k
""",
}
