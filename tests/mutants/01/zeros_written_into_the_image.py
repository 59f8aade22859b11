MISUNDERSTANDING = "The pixels at the edge become the padding."
FAILS = {
    "im2col-stride-padding",
    "im2col-dilation",
}
REPLACE = {
    "im2col": """
if padding:
    x[:, 0], x[:, -1], x[:, :, 0], x[:, :, -1] = 0, 0, 0, 0
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.empty((N, H_out, W_out, k, k, C), x.dtype)
for i in range(k):
    for j in range(k):
        rows = slice(i * dilation, i * dilation + stride * H_out, stride)
        cols = slice(j * dilation, j * dilation + stride * W_out, stride)
        windows[:, :, :, i, j] = padded[:, rows, cols]
columns = windows.reshape(N * H_out * W_out, k * k * C)
""",
}
