MISUNDERSTANDING = (
    "A 1 × 1 layer sees single pixels, so padding adds nothing to it: its windows are the pixels."
)
FAILS = {
    "im2col-stride-padding",
}
REPLACE = {
    "im2col": """
if k == 1:
    columns = np.resize(x[:, ::stride, ::stride], (N * H_out * W_out, C))
else:
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
