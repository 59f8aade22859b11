UNUSUAL = (
    "The windows by a lambda and a partial function, in the memory order of Fortran; counts by fractions."
)
REPLACE = {
    "im2col": """
from functools import partial
import itertools
padded = partial(np.pad, mode="constant")(x, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
pixel = lambda i, j: padded[:, i * dilation :: stride, j * dilation :: stride][:, :H_out, :W_out]
pixels = [pixel(i, j) for i, j in itertools.product(range(k), repeat=2)]
columns = np.asfortranarray(np.concatenate(pixels, axis=-1).reshape(-1, k * k * C))
""",
    "forward": """
def product(g: int) -> np.ndarray:
    these = np.arange(C).reshape(groups, -1)[g]
    A = columns.reshape(-1, k * k, C)[:, :, these].reshape(len(columns), -1)
    return gemm(A, w.reshape(-1, groups, K // groups)[:, g, :])

columns = im2col(x, k, stride=stride, padding=padding, dilation=dilation)
y = np.hstack(list(map(product, range(groups))))
y += b
y.shape = N, H_out, W_out, K
print("done")
""",
    "filter_gradient": """
columns = im2col(x, k, stride, padding, dilation)
dw = np.zeros((k, k, C_group, K), x.dtype)
step = K // groups
for f in range(K):
    g = f // step
    part = columns.reshape(-1, k, k, C)[..., g * C_group : (g + 1) * C_group]
    dw[..., f] = np.tensordot(dy[..., f].ravel(), part, 1)
db = np.add.reduce(np.add.reduce(np.add.reduce(dy)))
""",
    "layer_flops": """
import math
flops = math.prod([2, N, H_out, W_out, k, k, C, K]) // groups
""",
    "layer_bytes": """
from fractions import Fraction
sizes = {"x": N * H * W * C, "w": Fraction(k * k * C * K, groups), "b": K, "y": N * H_out * W_out * K}
if with_im2col:
    sizes["windows"] = 2 * N * H_out * W_out * k * k * C
moved = int(sum(sizes.values()) * itemsize)
""",
}
