MISUNDERSTANDING = "Whatever the numbers are, float64 holds them, so the windows may pass through it."
FAILS = {
    "im2col-stride-padding",
}
REPLACE = {
    "im2col": """
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.empty((N, H_out, W_out, k, k, C))
for i in range(k):
    for j in range(k):
        rows = slice(i * dilation, i * dilation + stride * H_out, stride)
        cols = slice(j * dilation, j * dilation + stride * W_out, stride)
        windows[:, :, :, i, j] = padded[:, rows, cols]
columns = windows.reshape(N * H_out * W_out, k * k * C).astype(x.dtype)
""",
}
