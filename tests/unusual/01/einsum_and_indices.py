UNUSUAL = "The gradients by einsum, the stride by indices, the filters turned by np.flip."
REPLACE = {
    "filter_gradient": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
dw = np.einsum("rpgc,rgf->pcgf", windows, dy.reshape(-1, groups, K // groups)).reshape(k, k, C_group, K)
db = np.einsum("nijf->f", dy)
""",
    "input_gradient": """
spread = np.zeros((N, H + 2 * dilation * (k - 1) + stride, W + 2 * dilation * (k - 1) + stride, K), dy.dtype)
first = dilation * (k - 1) - padding
rows, cols = first + stride * np.arange(H_out), first + stride * np.arange(W_out)
spread[np.ix_(range(N), rows, cols)] = dy
spread = spread[:, : H + dilation * (k - 1), : W + dilation * (k - 1)]
filters = np.split(np.flip(w, (0, 1)), groups, axis=3)
turned = np.concatenate([part.swapaxes(2, 3) for part in filters], axis=3)
dx = forward(spread, turned, np.zeros(C, w.dtype), 1, 0, dilation, groups)
""",
}
