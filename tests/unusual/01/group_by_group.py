UNUSUAL = "A layer with groups is a layer without, called for each group."
REPLACE = {
    "forward": """
def layer(x, w):
    return gemm(im2col(x, k, stride, padding, dilation), w.reshape(-1, w.shape[-1]))


each = [layer(*part) for part in zip(np.split(x, groups, axis=-1), np.split(w, groups, axis=-1))]
y = np.hstack(each).reshape(N, H_out, W_out, K) + b
""",
    "filter_gradient": """
def one(x, dy):
    return gemm(dy.reshape(-1, dy.shape[-1]).T, im2col(x, k, stride, padding, dilation)).T


parts = [one(*part) for part in zip(np.split(x, groups, -1), np.split(dy, groups, -1))]
dw = np.concatenate([part.reshape(k, k, C_group, -1) for part in parts], axis=-1)
db = gemm(np.ones((1, dy.size // K), dy.dtype), dy.reshape(-1, K))[0]
""",
}
