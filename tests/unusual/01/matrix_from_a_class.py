UNUSUAL = "A class that can be called makes the windows, row by row, as a np.matrix; it warns."
REPLACE = {
    "im2col": """
class Windows:
    def __init__(self, **how):
        self.__dict__.update(how)

    def __call__(self, images):
        places = [(i, j) for i in range(H_out) for j in range(W_out)]
        return np.array([self.row(image, i, j) for image in images for i, j in places], images.dtype)

    def row(self, image, i, j):
        rows = np.arange(k)[:, None] * dilation + i * stride
        return image[rows, np.arange(k)[None] * dilation + j * stride].reshape(-1)

import warnings
warnings.warn("slow")
padded = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
columns = np.asmatrix(Windows(k=k)(padded))
""",
    "forward": """
windows = np.asarray(im2col(x, k, stride, padding, dilation)).reshape(-1, k * k, groups, C_group)
parts = []
for g in range(groups):
    A, B = windows[:, :, g].reshape(len(windows), -1), w.reshape(k * k, C_group, groups, -1)[:, :, g]
    parts += [gemm(A, B.reshape(A.shape[1], -1))]
y = np.block(parts).reshape(N, H_out, W_out, K) + b
""",
    "filter_gradient": """
windows = np.asarray(im2col(x, k, stride, padding, dilation)).reshape(-1, k, k, groups, C_group)
dys = dy.reshape(-1, groups, K // groups)
each = [np.einsum("nijc,nf->ijcf", windows[:, :, :, g], dys[:, g]) for g in range(groups)]
dw = np.stack(each, axis=3).reshape(k, k, C_group, K)
db = np.ones(len(windows), dy.dtype) @ dy.reshape(-1, K)
""",
}
