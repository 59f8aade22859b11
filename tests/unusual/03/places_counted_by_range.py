UNUSUAL = "Places are counted by the length of a range, batches searched by bisection, sums over lists."
REPLACE = {
    "conv_cost": """
H_out = len(range(0, H + 2 * padding - k + 1, stride))
W_out = len(range(0, W + 2 * padding - k + 1, stride))
shape = H_out, W_out, K
weights = math.prod([k, k, C, K])
parameters = weights + (K if bias else 0)
multiply_adds = weights * math.prod(shape[:2])
""",
    "largest_batch": """
import bisect


class Sizes:
    def __len__(self):
        return max(1, memory // itemsize)

    def __getitem__(self, images):
        return itemsize * (3 * parameters + (images + 1) * outputs)


batch = bisect.bisect_right(Sizes(), memory)
""",
    "layers_to_see": """
number_of_layers, field, distance = 0, 1, 1
while field < pixels:
    number_of_layers += 1
    field += 2 * distance
    distance *= 2 if every and not number_of_layers % every else 1
""",
    "break_even": """
r = 0
while C * (r + 1) + k * k * (r + 1) * K < k * k * C * K:
    step = 1
    while C * (r + 2 * step) + k * k * (r + 2 * step) * K < k * k * C * K:
        step *= 2
    r += step
""",
}
