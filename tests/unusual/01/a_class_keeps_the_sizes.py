UNUSUAL = "A class instead of a function; it says what it does on stderr and warns."
REPLACE = {
    "forward": """
import sys
import warnings


class Layer:
    def __init__(self, filters):
        self.parts = np.split(filters.reshape(-1, C_group, K), groups, axis=-1)

    def __call__(self, windows):
        print("a layer of", groups, "groups", file=sys.stderr)
        warnings.warn("this is slow in Python", stacklevel=1)
        return np.concatenate([self.of_group(windows, g) for g in range(groups)], axis=-1)

    def of_group(self, windows, g):
        return gemm(windows[:, :, g].reshape(len(windows), -1), self.parts[g].reshape(-1, K // groups))


windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
y = Layer(w)(windows).reshape(N, H_out, W_out, -1) + b
""",
}
