MISUNDERSTANDING = "The way back is a convolution where the stride is 1; else gradients are added in place."
FAILS = {
    "input-gradient-is-a-convolution",
}
REPLACE = {
    "input_gradient": """
if stride > 1:
    padded = np.zeros((N, H + 2 * padding, W + 2 * padding, C), dy.dtype)
    rows_of_dy, filters = dy.reshape(-1, groups, K // groups), w.reshape(-1, groups, K // groups)
    products = [gemm(rows_of_dy[:, g], filters[:, g].T) for g in range(groups)]
    parts = [part.reshape(N, H_out, W_out, k, k, -1) for part in products]
    windows = np.concatenate(parts, axis=-1)
    for i in range(k):
        for j in range(k):
            rows = slice(i * dilation, i * dilation + stride * H_out, stride)
            cols = slice(j * dilation, j * dilation + stride * W_out, stride)
            padded[:, rows, cols] += windows[:, :, :, i, j]
    dx = padded[:, padding : padding + H, padding : padding + W]
else:
    margin = dilation * (k - 1)
    spread = np.zeros((N, H + margin, W + margin, K), dy.dtype)
    first = margin - padding
    spread[:, first : first + stride * H_out : stride, first : first + stride * W_out : stride] = dy
    turned = w[::-1, ::-1].reshape(k, k, C_group, groups, K // groups).transpose(0, 1, 4, 3, 2)
    turned = turned.reshape(k, k, K // groups, C)
    dx = forward(spread, turned, np.zeros(C, dy.dtype), dilation=dilation, groups=groups)
""",
}
