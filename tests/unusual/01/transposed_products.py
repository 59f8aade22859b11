UNUSUAL = "All products are transposed; the spread array is padded when it is there."
REPLACE = {
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
filters = np.moveaxis(w, 3, 0).reshape(groups, K // groups, -1)
y = np.empty((K, N * H_out * W_out), np.result_type(x, w))
for g, rows in enumerate(np.split(y, groups)):
    rows[:] = gemm(filters[g], windows[:, :, g].reshape(len(windows), -1).T)
y = y.T.reshape(N, H_out, W_out, K) + b[None, None, None]
""",
    "input_gradient": """
def back(size: int, k: int) -> int:
    return size + dilation * (k - 1)

big = np.zeros((N, (H_out - 1) * stride + 1, (W_out - 1) * stride + 1, K), dy.dtype)
big[:, ::stride, ::stride] = dy
before = dilation * (k - 1) - padding
after = [back(n, k) - before - size for n, size in zip((H, W), big.shape[1:3])]
big = np.pad(big, ((0, 0), (before, after[0]), (before, after[1]), (0, 0)))
filters = np.array_split(np.rot90(w, 2, (0, 1)), groups, axis=-1)
turned = np.concatenate([np.swapaxes(part, 2, 3) for part in filters], axis=-1)
dx = forward(big, turned, np.zeros_like(w[0, 0, 0, :1]).repeat(C), 1, 0, dilation, groups)
""",
}
