"""The 214 buffers of ResNet-50 that an all-reduce sums, with their sizes and when they become ready.

They are the trainable tensors of Keras' ResNet-50, whose convolutions have biases (25,583,592 parameters).
A test compares the table resnet50.csv with `keras.applications.ResNet50`.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from .fusion import Buffer

TABLE = Path(__file__).with_name("resnet50.csv")
BYTES = 4  # of a float32


class Tensor(NamedTuple):
    """A trainable tensor: its number of parameters, and the multiply-adds of its layer for one image.

    The layer's multiply-adds are attributed to its first tensor; the others have 0.
    """

    name: str
    parameters: int
    multiply_adds: int


def tensors() -> list[Tensor]:
    """Return the 214 tensors, in the order of the forward pass."""
    with TABLE.open(newline="", encoding="utf-8") as f:
        return [
            Tensor(row["name"], int(row["parameters"]), int(row["multiply_adds"]))
            for row in csv.DictReader(f)
        ]


def buffers(backward: float) -> list[Buffer]:
    """Return the gradients in the order of the backward pass, which takes `backward` seconds.

    Each layer is assumed to take a fraction of this time equal to its fraction of all multiply-adds; its
    gradients are ready at its end. Goyal et al. (arXiv 1706.02677) give 0.120 s for 32 images on a P100.
    """
    layers: list[list[Tensor]] = []
    for tensor in tensors():
        if tensor.multiply_adds:
            layers.append([])
        layers[-1].append(tensor)
    total, done, found = sum(layer[0].multiply_adds for layer in layers), 0, []
    for layer in reversed(layers):
        done += layer[0].multiply_adds
        found += [Buffer(t.name, BYTES * t.parameters, backward * done / total) for t in reversed(layer)]
    return found
