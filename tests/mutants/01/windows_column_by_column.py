MISUNDERSTANDING = "The rows of the matrix run down the image first."
FAILS = {
    "im2col-by-hand",
    "im2col-stride-padding",
    "im2col-dilation",
}
REPLACE = {
    "im2col": """
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.empty((N, H_out, W_out, k, k, C), x.dtype)
for i in range(k):
    for j in range(k):
        rows = slice(i * dilation, i * dilation + stride * H_out, stride)
        cols = slice(j * dilation, j * dilation + stride * W_out, stride)
        windows[:, :, :, i, j] = padded[:, rows, cols]
columns = windows.transpose(0, 2, 1, 3, 4, 5).reshape(N * H_out * W_out, k * k * C)
""",
}
