MISUNDERSTANDING = "Images of the same shape have the same windows, so they may be kept."
FAILS = {
    "im2col-stride-padding",
    "im2col-dilation",
}
REPLACE = {
    "im2col": """
kept = im2col.__dict__.setdefault("kept", {})
key = (x.shape, str(x.dtype), k, stride, padding, dilation)
if key not in kept:
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.empty((N, H_out, W_out, k, k, C), x.dtype)
    for i in range(k):
        for j in range(k):
            rows = slice(i * dilation, i * dilation + stride * H_out, stride)
            cols = slice(j * dilation, j * dilation + stride * W_out, stride)
            windows[:, :, :, i, j] = padded[:, rows, cols]
    columns = windows.reshape(N * H_out * W_out, k * k * C)
    kept[key] = columns
columns = kept[key]
""",
}
