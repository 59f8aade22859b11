MISUNDERSTANDING = "A window that does not quite fit is counted, too."
FAILS = {
    "conv-of-layers",
}
REPLACE = {
    "conv_cost": """
H_out = -(-(H + 2 * padding - k) // stride) + 1
W_out = -(-(W + 2 * padding - k) // stride) + 1
shape = (H_out, W_out, K)
parameters = (k * k * C + bias) * K
multiply_adds = H_out * W_out * K * k * k * C
""",
}
