MISUNDERSTANDING = "col2im undoes im2col, so the copies of a pixel are averaged."
FAILS = {
    "col2im-by-hand",
    "col2im-adjoint",
    "input-gradient",
}
REPLACE = {
    "col2im": """
windows = columns.reshape(N, H_out, W_out, k, k, C)
padded = np.zeros((N, H + 2 * padding, W + 2 * padding, C), columns.dtype)
for i in range(k):
    for j in range(k):
        rows = slice(i, i + stride * H_out, stride)
        cols = slice(j, j + stride * W_out, stride)
        padded[:, rows, cols] += windows[:, :, :, i, j]
copies = np.zeros(padded.shape, int)
for i in range(k):
    for j in range(k):
        copies[:, i : i + stride * H_out : stride, j : j + stride * W_out : stride] += 1
padded /= np.maximum(copies, 1).astype(columns.dtype)
x = padded[:, padding : padding + H, padding : padding + W]
""",
}
