MISUNDERSTANDING = "The zeros around the image belong to its gradient; it is cut at the end only."
FAILS = {
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
x = padded[:, :H, :W]
""",
}
