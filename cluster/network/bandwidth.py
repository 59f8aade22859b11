"""All-reduce bandwidth as a function of the size of the reduced data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .arrays import Placeholder
from .topologies import Network
from .virtual import simulate


class Point(NamedTuple):
    """size: bytes on each rank. seconds: time taken. bus: bytes/s, as defined by `bus_bandwidth`."""

    size: int
    seconds: float
    bus: float


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Return the bandwidth in bytes/s that an all-reduce of `size` bytes needs at least from each link.

    That is size/seconds · 2(p − 1)/p: each rank must send, and receive, 2(p − 1)/p times its bytes with any
    algorithm, so this can be compared with the link's bandwidth (nccl-tests, doc/PERFORMANCE.md).

    >>> bus_bandwidth(100, 1.0, ranks=4)
    150.0
    """
    return size / seconds * 2 * (ranks - 1) / ranks


def allreduce_seconds(
    allreduce: Callable[..., Any], size: int, ranks: int, network: Network, *args: Any
) -> float:
    """Return the virtual time of `allreduce(comm, x, *args)` on a vector x of size // 4 float32 elements."""
    x = Placeholder(size // 4, np.float32)
    return simulate(allreduce, x, *args, ranks=ranks, network=network, record=False).time


def over_size(
    allreduce: Callable[..., Any], sizes: Iterable[int], ranks: int, network: Network, *args: Any
) -> list[Point]:
    """Run the all-reduce at each of these sizes, in bytes, in virtual time; needs 2 ranks or more."""
    points = []
    for size in sizes:
        seconds = allreduce_seconds(allreduce, size, ranks, network, *args)
        points.append(Point(size, seconds, bus_bandwidth(size, seconds, ranks)))
    return points
