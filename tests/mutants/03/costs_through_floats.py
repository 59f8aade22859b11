MISUNDERSTANDING = "Numbers may pass through floats if they are made into ints at the end."
FAILS = {
    "conv-of-layers",
}
REPLACE = {
    "conv_cost": """
H_out, W_out = ((n + 2 * padding - k) // stride + 1 for n in (H, W))
shape = (H_out, W_out, K)
parameters = int((k**2 * C + bias) * K)
multiply_adds = int(float(H_out * W_out) * K * k**2 * C)
""",
}
