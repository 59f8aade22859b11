UNUSUAL = "The windows are a view by stride tricks, the product is taken the other way round."
REPLACE = {
    "im2col": """
from numpy.lib.stride_tricks import as_strided

padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
n, h, v, c = padded.strides
windows = as_strided(
    padded,
    (N, H_out, W_out, k, k, C),
    (n, h * stride, v * stride, h * dilation, v * dilation, c),
    writeable=False,
)
columns = windows.reshape(N * H_out * W_out, -1)
""",
    "forward": """
windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
y = np.empty((N * H_out * W_out, K), np.result_type(x, w))
for g in range(groups):
    filters = slice(g * K // groups, (g + 1) * K // groups)
    y[:, filters] = gemm(w[..., filters].reshape(-1, K // groups).T, windows[:, :, g].reshape(len(y), -1).T).T
y += b
y = y.reshape(N, H_out, W_out, K)
""",
}
