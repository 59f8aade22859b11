MISUNDERSTANDING = "A number of bytes may pass through a float."
FAILS = {
    "bytes-by-hand",
}
REPLACE = {
    "layer_bytes": """
numbers = float(N * H * W * C) + k * k * (C // groups) * K + K + N * H_out * W_out * K
moved = int(itemsize * (numbers + 2 * with_im2col * N * H_out * W_out * k * k * C))
""",
}
