UNUSUAL = (
    "Places are counted one by one, depths and reductions found by bisection, kernels folded in long double."
)
REPLACE = {
    "conv_cost": """
def places(n: int) -> int:
    if n > 10_000:
        return (n + 2 * padding - k) // stride + 1
    return sum(1 for first in range(n + 2 * padding - k + 1) if not first % stride)

shape = *map(places, (H, W)), K
weights = math.prod((k, k, C, K))
parameters = weights + K if bias else weights
multiply_adds = weights * math.prod(shape[:2])
""",
    "training_bytes": """
numbers = zip((parameters, outputs), (3, batch))
needed = sum(many * times * itemsize for many, times in numbers)
""",
    "largest_batch": """
from fractions import Fraction
fixed, each = training_bytes(parameters, 0, 0, itemsize), training_bytes(0, outputs, 1, itemsize)
batch = max(math.floor(Fraction(memory - fixed, each)), 0)
""",
    "layers_to_see": """
from functools import lru_cache

@lru_cache(maxsize=None)
def seen(layers):
    return receptive_field(tuple((3, 1 + (every > 0 and i % every == 0)) for i in range(1, layers + 1)))

high = 1
while seen(high) < pixels:
    high *= 2
import bisect
number_of_layers = bisect.bisect_left(range(high + 1), pixels, key=seen)
""",
    "break_even": """
low, high = 0, C * K * k * k + 1
while high - low > 1:
    r = (low + high) >> 1
    low, high = (r, high) if reduced_cost(C, K, k, r) < k * k * C * K else (low, r)
r = low
""",
    "fold": """
given = w, b, gamma, beta, mean, variance
w, b, gamma, beta, mean, variance = (np.asarray(a, np.longdouble) for a in given)
stddev = (variance + epsilon) ** np.longdouble(0.5)
folded_w = np.stack([w[..., f] * (gamma[f] / stddev[f]) for f in range(len(b))], -1)
folded_w = folded_w.astype(float)
folded_b = (beta - gamma * (mean - b) / stddev).astype(float)
""",
}
