MISUNDERSTANDING = "A filter has a weight for every channel, also in a group."
FAILS = {
    "bytes-by-hand",
}
REPLACE = {
    "layer_bytes": """
images, filters, bias = N * H * W * C, k * k * C * K, K
result = N * H_out * W_out * K
windows = N * H_out * W_out * k * k * C
numbers = images + filters + bias + result + (2 * windows if with_im2col else 0)
moved = itemsize * numbers
""",
}
