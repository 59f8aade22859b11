MISUNDERSTANDING = "The matrix of windows is that of one image, used again for the next."
FAILS = {
    "bytes-by-hand",
}
REPLACE = {
    "layer_bytes": """
images, filters, bias = N * H * W * C, k * k * (C // groups) * K, K
result = N * H_out * W_out * K
windows = H_out * W_out * k * k * C
moved = itemsize * (images + filters + bias + result + (2 * windows if with_im2col else 0))
""",
}
