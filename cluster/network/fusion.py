"""Prediction of an iteration of data-parallel training: buffers, Horovod's cycle, tensor fusion and overlap.

While the backward pass computes, gradients become ready, beginning with the last layer. Horovod's background
thread wakes once per cycle and takes the buffers that are ready on all ranks. It combines buffers in order as
long as they fit into the fusion threshold, and reduces one such tensor after another. A cycle that takes
longer than the cycle time is followed by the next at once (Sergeev and Del Balso, arXiv 1802.05799;
horovod/common/operations.cc and controller.cc). The iteration ends when the backward pass has ended and the
last tensor has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

MIB = 1 << 20
THRESHOLD = 128 * MIB  # bytes: HOROVOD_FUSION_THRESHOLD, since 0.21 (64 MiB before)
CYCLE = 1e-3  # s: HOROVOD_CYCLE_TIME, since 0.21 (5 ms before)


@dataclass(frozen=True)
class Buffer:
    """A gradient: its `size` in bytes, and when it is `ready`, in seconds since the backward pass began."""

    name: str
    size: int
    ready: float


@dataclass(frozen=True)
class Exchange:
    """One all-reduce of the combined buffers; times are in seconds since the iteration began."""

    start: float
    end: float
    buffers: tuple[Buffer, ...]

    @property
    def size(self) -> int:
        """Total bytes of its buffers."""
        return sum(buffer.size for buffer in self.buffers)


@dataclass(frozen=True)
class Iteration:
    """forward, backward: seconds of computation of one rank. exchanges: the exchanges in order."""

    forward: float
    backward: float
    exchanges: tuple[Exchange, ...]

    @property
    def computing(self) -> float:
        """Seconds of both passes."""
        return self.forward + self.backward

    @property
    def time(self) -> float:
        """Seconds until the gradients of all ranks are reduced."""
        return max([self.computing, *(exchange.end for exchange in self.exchanges)])

    @property
    def exposed(self) -> float:
        """Seconds of communication that do not overlap with computation."""
        return self.time - self.computing

    @property
    def efficiency(self) -> float:
        """The time of a single rank divided by the time of this iteration."""
        return self.computing / self.time


def fuse(buffers: Iterable[Buffer], threshold: int = THRESHOLD) -> list[tuple[Buffer, ...]]:
    """Combine buffers in order as long as their bytes do not exceed the threshold.

    A buffer that is larger than the threshold is sent alone; with a threshold of 0, every buffer is.
    """
    fused: list[list[Buffer]] = []
    size = 0
    for buffer in buffers:
        if fused and size + buffer.size <= threshold:
            fused[-1].append(buffer)
            size += buffer.size
        else:
            fused.append([buffer])
            size = buffer.size
    return [tuple(together) for together in fused]


def predict(
    buffers: Sequence[Buffer],
    allreduce: Callable[[int], float],
    *,
    forward: float,
    backward: float,
    threshold: int = THRESHOLD,
    cycle: float = CYCLE,
) -> Iteration:
    """Predict an iteration with these buffers, all ready at the end of the backward pass or earlier.

    allreduce: seconds of an all-reduce as a function of its bytes, from a closed form, a simulation
    (`bandwidth.allreduce_seconds`) or a measurement. forward, backward: seconds. cycle: seconds between
    checks for ready buffers, the first at the start of the backward pass.

    Raises ValueError if a buffer becomes ready after the backward pass, or if the cycle time is not positive.
    """
    if not cycle > 0:
        raise ValueError(f"cycle is {cycle}: it must be more than 0 seconds.")
    waiting = sorted(buffers, key=lambda buffer: buffer.ready)
    if waiting and waiting[-1].ready > backward * (1 + 1e-9):
        name, ready = waiting[-1].name, waiting[-1].ready
        raise ValueError(f"{name} is ready after {ready} s, and the backward pass takes {backward} s.")
    # time: since the start of the backward pass. begin: index of the first waiting buffer
    exchanges, time, begin = [], 0.0, 0
    while begin < len(waiting):
        if waiting[begin].ready > time:  # skip cycles with nothing to do
            time += cycle * -(-(waiting[begin].ready - time) // cycle)
        end = begin
        while end < len(waiting) and waiting[end].ready <= time:
            end += 1
        at = time
        for together in fuse(waiting[begin:end], threshold):
            done = at + allreduce(sum(buffer.size for buffer in together))
            exchanges.append(Exchange(forward + at, forward + done, together))
            at = done
        time, begin = max(time + cycle, at), end
    return Iteration(forward, backward, tuple(exchanges))
