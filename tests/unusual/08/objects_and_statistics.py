UNUSUAL = (
    "An object for the velocity, a search for the drops, statistics for the interval; it prints and warns."
)
REPLACE = {
    "target-rate": """
import math
from functools import partial

of = {"none": lambda k: 1, "sqrt": math.sqrt, "linear": partial(math.prod, start=1.0)}
return lr * (of[rule]([k]) if rule == "linear" else of[rule](k))
""",
    "learning-rate": """
import warnings

warnings.warn("rates are made one by one", stacklevel=2)
print(end="")
target = target_rate(lr, k, rule)
rate = np.float64(warmed_up(step, lr, target, steps_an_epoch * warmup_epochs, warmup))
return rate / 10.0 ** np.searchsorted(drops, step / steps_an_epoch, side="right")
""",
    "batch-gradient": """
return decay * w + np.ones(len(seen)) @ sums / np.add.reduce(seen)
""",
    "momentum-step": """
class Velocity:
    def __init__(self, m: float, g: np.ndarray):
        self.m, self.g = m, g

    def __call__(self, u: np.ndarray) -> np.ndarray:
        return self.m * u + self.g


after = Velocity(momentum, gradient)
u = after(v / lr_before)
return [w - lr * (after(u) if nesterov else u), lr * u]
""",
    "interval": """
import statistics

d = [a - b for a, b in zip(errors, others)]
half = T95[len(d)] * statistics.stdev(d) / len(d) ** 0.5
low, high = statistics.fmean(d) - half, statistics.fmean(d) + half
""",
}
