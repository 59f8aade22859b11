MISUNDERSTANDING = "The dilation moves the windows apart, as the stride does."
FAILS = {
    "im2col-dilation",
}
REPLACE = {
    "im2col": """
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.empty((N, H_out, W_out, k, k, C), x.dtype)
for i in range(k):
    for j in range(k):
        rows = slice(i, i + stride * dilation * H_out, stride * dilation)
        cols = slice(j, j + stride * dilation * W_out, stride * dilation)
        windows[:, :, :, i, j] = np.resize(padded[:, rows, cols], (N, H_out, W_out, C))
columns = windows.reshape(N * H_out * W_out, k * k * C)
""",
}
