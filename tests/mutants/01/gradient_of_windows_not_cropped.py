MISUNDERSTANDING = "The zeros around the image belong to its gradient; it is cut at the end only."
FAILS = {
    "input-gradient",
    "input-gradient-is-a-convolution",
}
REPLACE = {
    "input_gradient": """
padded = np.zeros((N, H + 2 * padding, W + 2 * padding, C), dy.dtype)
rows_of_dy, filters = dy.reshape(-1, groups, K // groups), w.reshape(-1, groups, K // groups)
parts = [gemm(rows_of_dy[:, g], filters[:, g].T).reshape(N, H_out, W_out, k, k, -1) for g in range(groups)]
windows = np.concatenate(parts, axis=-1)
for i in range(k):
    for j in range(k):
        rows = slice(i * dilation, i * dilation + stride * H_out, stride)
        cols = slice(j * dilation, j * dilation + stride * W_out, stride)
        padded[:, rows, cols] += windows[:, :, :, i, j]
dx = padded[:, :H, :W]
""",
}
