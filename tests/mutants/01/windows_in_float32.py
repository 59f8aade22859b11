MISUNDERSTANDING = "Numbers have four bytes, so the matrix of windows is float32."
FAILS = {
    "im2col-by-hand",
    "im2col-stride-padding",
    "im2col-dilation",
}
REPLACE = {
    "im2col": """
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.empty((N, H_out, W_out, k, k, C), np.float32)
for i in range(k):
    for j in range(k):
        rows = slice(i * dilation, i * dilation + stride * H_out, stride)
        cols = slice(j * dilation, j * dilation + stride * W_out, stride)
        windows[:, :, :, i, j] = padded[:, rows, cols]
columns = windows.reshape(N * H_out * W_out, k * k * C)
""",
}
