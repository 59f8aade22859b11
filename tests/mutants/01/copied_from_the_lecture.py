MISUNDERSTANDING = "The code of the lecture does it."
FAILS = {
    "im2col-dilation",
    "forward-equals-loops",
    "forward-groups",
    "forward-is-a-gemm",
    "filter-gradient",
    "filter-gradient-groups",
    "bias-gradient",
    "input-gradient",
    "input-gradient-is-a-convolution",
    "flops-of-layers",
    "bytes-by-hand",
}
REPLACE = {
    "im2col": """
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), axis=(1, 2))[:, ::stride, ::stride]
columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[-1])
""",
    "forward": """
columns = im2col(x, k, stride, padding)
y = (columns @ w.reshape(-1, K)).reshape(N, H_out, W_out, K) + b
""",
    "filter_gradient": """
rows = dy.reshape(-1, K)
dw = (im2col(x, k, stride, padding).T @ rows).reshape(k, k, C, K)
db = rows.sum(axis=0)
""",
    "input_gradient": """
columns = dy.reshape(-1, K) @ w.reshape(-1, K).T
padded = np.zeros((N, H + 2 * padding, W + 2 * padding, C), dy.dtype)
taps = columns.reshape(N, H_out, W_out, k, k, C)
for i in range(k):
    for j in range(k):
        padded[:, i : i + stride * H_out : stride, j : j + stride * W_out : stride] += taps[:, :, :, i, j]
dx = padded[:, padding : padding + H, padding : padding + W]
""",
    "layer_flops": """
flops = 2 * N * H_out * W_out * K * k**2 * C
""",
    "layer_bytes": """
x, w, y, columns = N * H * W * C, k * k * C * K, N * H_out * W_out * K, N * H_out * W_out * k * k * C
moved = itemsize * (x + w + K + y + (2 * columns if with_im2col else 0))
""",
}
