UNUSUAL = "The view of the lecture, with a step for the dilation."
REPLACE = {
    "im2col": """
padded = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
length = dilation * (k - 1) + 1
windows = np.lib.stride_tricks.sliding_window_view(padded, (length, length), axis=(1, 2))
windows = windows[:, ::stride, ::stride, :, ::dilation, ::dilation]
columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * C)
""",
}
