MISUNDERSTANDING = "The rows of the matrix run down the image first."
FAILS = {
    "im2col-by-hand",
    "im2col-stride-padding",
    "forward-by-hand",
    "forward-equals-loops",
    "forward-is-a-gemm",
    "filter-gradient",
}
REPLACE = {
    "im2col": """
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.empty((N, H_out, W_out, k, k, C), x.dtype)
for i in range(k):
    for j in range(k):
        rows = slice(i, i + stride * H_out, stride)
        cols = slice(j, j + stride * W_out, stride)
        windows[:, :, :, i, j] = padded[:, rows, cols]
columns = windows.transpose(0, 2, 1, 3, 4, 5).reshape(N * H_out * W_out, k * k * C)
""",
}
