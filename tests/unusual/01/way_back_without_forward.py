UNUSUAL = "The gradient of the image by im2col and gemm, the windows on the right of the product."
REPLACE = {
    "input_gradient": """
margin = dilation * (k - 1)
spread = np.zeros((N, (H_out - 1) * stride + 1, (W_out - 1) * stride + 1, K), dy.dtype)
spread[:, ::stride, ::stride] = dy
before = margin - padding
behind = [n + margin - before - m for n, m in zip((H, W), spread.shape[1:3], strict=True)]
spread = np.pad(spread, ((0, 0), (before, behind[0]), (before, behind[1]), (0, 0)))
windows = im2col(spread, k, dilation=dilation).reshape(-1, k * k, groups, K // groups)
parts = []
for g, filters in enumerate(np.split(w[::-1, ::-1], groups, axis=3)):
    turned = filters.swapaxes(2, 3).reshape(-1, C_group)
    parts.append(gemm(turned.T, windows[:, :, g].reshape(N * H * W, -1).T))
dx = np.concatenate(parts).T.reshape(shape)
""",
}
