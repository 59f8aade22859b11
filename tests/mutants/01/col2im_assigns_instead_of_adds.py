MISUNDERSTANDING = "Each window is written back to its place; where windows overlap, the last one stands."
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
        padded[:, rows, cols] = windows[:, :, :, i, j]
x = padded[:, padding : padding + H, padding : padding + W]
""",
}
