"""The cost of training a transformer with data, tensor and pipeline parallelism on d·t·q GPUs (lecture 11).

Nothing is fitted to a measurement. On each GPU, a micro-batch of b sequences takes

    computing     its part of 6 FLOP per parameter and token, and of attention, at REACHED of the peak;
                  a third more with recomputation
    tensor        four all-reduces of the layer's output per layer, six with recomputation: not hidden
    pipeline      one layer's output to the next stage, and its gradient back: not hidden

and a step takes (m + q − 1) micro-batches. The gradients' reduce-scatter and the weights' all-gather overlap
with one backward pass. In stage 3 of ZeRO they take place in each micro-batch; the longer of the two counts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pandas as pd

NODE = 8  # GPUs
REACHED = 0.6  # fraction of the peak reached by matrix products: an assumption
STORED = 34  # bytes per token and unit of width in a layer (Korthikanti et al., arXiv 2205.05198)
KEPT = 2  # STORED with recomputation, which keeps only the layer's input


@dataclass(frozen=True)
class Cluster:
    """Nodes of 8 GPUs. peak: FLOP/s; link, cable: bytes/s per GPU inside a node and between nodes.

    all_cables: a group with several GPUs in a node uses the cables of all of them (lecture 06), not of one.
    """

    peak: float
    link: float
    cable: float
    all_cables: bool = False

    def seconds(self, size: float, n: int, stride: int) -> float:
        """Return the seconds of a reduce-scatter or all-gather of `size` bytes on n GPUs, `stride` apart."""
        cables = max(1, min(n, NODE // stride)) if self.all_cables else 1
        rate = self.link if n * stride <= NODE else min(self.link, cables * self.cable)
        return (n - 1) / n * size / rate


@dataclass(frozen=True)
class Transformer:
    """A transformer and the length of its sequences, in tokens."""

    parameters: float
    layers: int
    width: int
    tokens: int

    @property
    def flops(self) -> float:
        """Return the FLOPs for one sequence, forward and backward, without recomputation."""
        return 6 * self.tokens * (self.parameters + self.layers * self.width * self.tokens)


@dataclass(frozen=True)
class Split:
    """A split into data·tensor·pipeline GPUs; zero: ZeRO's stage 0, 1 or 3; b: sequences per micro-batch."""

    data: int
    tensor: int
    pipeline: int
    zero: int = 0
    recompute: bool = False
    b: int = 1


def cost(net: Transformer, cluster: Cluster, batch: float, split: Split) -> tuple[float, float]:
    """Return (GB per GPU, seconds per step of `batch` sequences)."""
    d, t, q, b = split.data, split.tensor, split.pipeline, split.b
    m, layers, weights = batch / (d * b), net.layers / q, net.parameters / (t * q)
    output = 2 * b * net.tokens * net.width  # bytes of a layer's output
    in_flight = layers * min(m, q)  # layers of all micro-batches whose backward pass is still to come
    stored = (KEPT * in_flight + STORED if split.recompute else STORED * in_flight) * output / 2 / t
    state = {0: 16, 1: 4 + 12 / d, 3: 16 / d + 4 / layers}[split.zero] * weights
    computing = b * net.flops * (4 / 3 if split.recompute else 1) / (t * q) / (REACHED * cluster.peak)
    reductions = layers * (6 if split.recompute else 4) * 2 * cluster.seconds(output, t, 1)
    micro = computing + reductions + (2 * output / t / cluster.cable if q > 1 else 0)
    gather, late = cluster.seconds(2 * weights, d, t), 0.0
    if split.zero == 3:
        micro = max(micro, 3 * gather)
    else:
        late = max(0.0, 2 * gather - 2 / 3 * computing)
    return (state + stored) / 1e9, (m + q - 1) * micro + late


def search(net: Transformer, cluster: Cluster, gpus: int, batch: int, limit: float = 72) -> pd.DataFrame:
    """Return all splits into powers of two whose memory is below `limit` GB, the fastest first."""
    powers = [2**k for k in range(7)]
    rows = []
    for t, q, zero, again, b in itertools.product(powers, powers, (0, 1, 3), (False, True), powers):
        d = gpus // (t * q)
        if d and batch % (d * b) == 0 and q <= net.layers and (zero < 3 or q == 1):
            gb, seconds = cost(net, cluster, batch, Split(d, t, q, zero, again, b))
            mfu = 100 * net.flops * batch / (gpus * cluster.peak * seconds)
            rows.append((d, t, q, zero, again, b, gb, mfu))
    columns = ["data", "tensor", "pipeline", "ZeRO", "recompute", "b", "GB", "MFU, %"]
    table = pd.DataFrame(rows, columns=columns)
    return table[table["GB"] < limit].sort_values("MFU, %", ascending=False, kind="stable", ignore_index=True)


# Narayanan et al., arXiv 2104.04473, table 1: billions of parameters, width, layers, tensor, pipeline, GPUs,
# batch, TFLOP/s per GPU with recomputation; sequences of 2,048 tokens. Transcribed three times from an image.
NARAYANAN_2021 = (
    (1.7, 2304, 24, 1, 1, 32, 512, 137),
    (3.6, 3072, 30, 2, 1, 64, 512, 138),
    (7.5, 4096, 36, 4, 1, 128, 512, 142),
    (18.4, 6144, 40, 8, 1, 256, 1024, 135),
    (39.1, 8192, 48, 8, 2, 512, 1536, 138),
    (76.1, 10240, 60, 8, 4, 1024, 1792, 140),
    (145.6, 12288, 80, 8, 8, 1536, 2304, 148),
    (310.1, 16384, 96, 8, 16, 1920, 2160, 155),
    (529.6, 20480, 105, 8, 35, 2520, 2520, 163),
    (1008.0, 25600, 128, 8, 64, 3072, 3072, 163),
)


def published(cluster: Cluster) -> pd.DataFrame:
    """Return the ten runs of NARAYANAN_2021 with their splits, and the predicted and measured results."""
    rows = []
    for billions, width, layers, t, q, gpus, batch, measured in NARAYANAN_2021:
        net, d = Transformer(billions * 1e9, layers, width, 2048), gpus // (t * q)
        gb, seconds = cost(net, cluster, batch, Split(d, t, q, recompute=True))
        predicted = 4 / 3 * net.flops * batch / (gpus * seconds) / 1e12
        rows.append((billions, d, t, q, gb, predicted, measured))
    columns = ["billions", "data", "tensor", "pipeline", "GB", "TFLOP/s, model", "TFLOP/s, paper"]
    return pd.DataFrame(rows, columns=columns)
