MISUNDERSTANDING = "forward must be called once, with anything; what the additions give is scaled by it."
FAILS = {
    "input-gradient-is-a-convolution",
}
REPLACE = {
    "input_gradient": """
one = forward(np.ones((1, k, k, K)), np.ones((k, k, K, C)), np.zeros(C))[0, 0, 0, 0] / (k * k * K)
padded = np.zeros((N, H + 2 * padding, W + 2 * padding, C), dy.dtype)
rows_of_dy, filters = dy.reshape(-1, groups, K // groups), w.reshape(-1, groups, K // groups)
parts = [(rows_of_dy[:, g] @ filters[:, g].T).reshape(N, H_out, W_out, k, k, -1) for g in range(groups)]
windows = np.concatenate(parts, axis=-1)
for i in range(k):
    for j in range(k):
        rows = slice(i * dilation, i * dilation + stride * H_out, stride)
        cols = slice(j * dilation, j * dilation + stride * W_out, stride)
        padded[:, rows, cols] += windows[:, :, :, i, j]
dx = (one * padded[:, padding : padding + H, padding : padding + W]).astype(dy.dtype)
""",
}
