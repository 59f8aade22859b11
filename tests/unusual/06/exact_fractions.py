UNUSUAL = "The line is laid in exact fractions, times are the keys of a dictionary."
REPLACE = {
    "fit": """
from fractions import Fraction
t = [Fraction(v) for v in seconds]
s = [Fraction(v) for v in sizes]
a, b, c = (sum(u**k / v**2 for u, v in zip(s, t)) for k in range(3))
d, e = (sum(u**k / v for u, v in zip(s, t)) for k in range(2))
latency, time_per_byte = (d * c - b * e) / (a * c - b * b), (a * e - b * d) / (a * c - b * b)
""",
    "held-out-error": """
from statistics import median
pairs = sorted(zip(sizes.tolist(), seconds.tolist()))
alpha, beta = fit(*map(list, zip(*pairs[::2])))
error = median(abs((alpha + beta * size) / t - 1) for size, t in pairs[1::2])
""",
    "iteration-seconds": """
from functools import partial
links = Network(latency=latency, time_per_byte=time_per_byte)
ring = partial(lambda network, size: closed_forms.ring(ranks, size, network), links)
in_time = sorted(zip(sizes, ready), key=lambda pair: pair[1])
gradients = [fusion.Buffer(name="", size=size, ready=at) for size, at in in_time]
seconds = fusion.predict(gradients, ring, forward=forward, backward=backward, threshold=threshold).time
""",
    "best-threshold": """
network = dict(sizes=sizes, ready=ready, forward=forward, backward=backward)
network.update(ranks=ranks, latency=latency, time_per_byte=time_per_byte)
by_time = {}
for candidate in sorted(candidates, reverse=True):
    by_time[iteration_seconds(**network, threshold=candidate)] = candidate
best = by_time[min(by_time)]
""",
}
