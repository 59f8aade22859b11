"""An iteration of data-parallel training, predicted: buffers, Horovod's cycle, tensor fusion and overlap.

While the backward pass computes, gradients become ready, the last layer's first. Horovod's background thread
wakes once a cycle, takes what is ready on all ranks, puts buffers together as long as they fit the fusion
threshold, in their order, and reduces one such tensor after another; a cycle that takes longer than its time
is followed by the next at once (Sergeev and Del Balso, arXiv 1802.05799; horovod/common/operations.cc and
controller.cc). The iteration ends when the backward pass has, and the last tensor is there.
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
    """One all-reduce of the buffers that were put together; times in seconds since the iteration began."""

    start: float
    end: float
    buffers: tuple[Buffer, ...]

    @property
    def size(self) -> int:
        """Bytes of all its buffers."""
        return sum(buffer.size for buffer in self.buffers)


@dataclass(frozen=True)
class Iteration:
    """forward, backward: seconds that one rank computes. exchanges: in their order."""

    forward: float
    backward: float
    exchanges: tuple[Exchange, ...]

    @property
    def computing(self) -> float:
        """Seconds of both passes."""
        return self.forward + self.backward

    @property
    def time(self) -> float:
        """Seconds until the gradients of all ranks are there."""
        return max([self.computing, *(exchange.end for exchange in self.exchanges)])

    @property
    def exposed(self) -> float:
        """Seconds of communication that no computation hides."""
        return self.time - self.computing

    @property
    def efficiency(self) -> float:
        """What one rank alone would take, as a part of what this takes."""
        return self.computing / self.time


def fuse(buffers: Iterable[Buffer], threshold: int = THRESHOLD) -> list[tuple[Buffer, ...]]:
    """Buffers put together in their order as long as their bytes do not exceed the threshold.

    What is larger than the threshold goes alone; with a threshold of 0 every buffer does.
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
    negotiation: float = 0.0,
) -> Iteration:
    """An iteration with these buffers, of which each is ready at the latest when the backward pass ends.

    allreduce: seconds that one takes, as a function of its bytes: a closed form, a simulation
    (`bandwidth.allreduce_seconds`), or what was measured. forward, backward: seconds. cycle: seconds from one
    look at what is ready to the next, the first when the backward pass begins. negotiation: seconds in each
    cycle that has something to reduce, in which the ranks agree on what is ready everywhere.

    Raises ValueError where a buffer is ready after the backward pass, or the cycle takes no time.
    """
    if not cycle > 0:
        raise ValueError(f"cycle is {cycle}: it must be more than 0 seconds.")
    waiting = sorted(buffers, key=lambda buffer: buffer.ready)
    if waiting and waiting[-1].ready > backward * (1 + 1e-9):
        name, ready = waiting[-1].name, waiting[-1].ready
        raise ValueError(f"{name} is ready after {ready} s, and the backward pass takes {backward} s.")
    exchanges, time, begin = [], 0.0, 0  # time: since the backward pass began; begin: of those that wait
    while begin < len(waiting):
        if waiting[begin].ready > time:  # cycles with nothing to do
            time += cycle * -(-(waiting[begin].ready - time) // cycle)
        end = begin
        while end < len(waiting) and waiting[end].ready <= time:
            end += 1
        at = time + negotiation
        for together in fuse(waiting[begin:end], threshold):
            done = at + allreduce(sum(buffer.size for buffer in together))
            exchanges.append(Exchange(forward + at, forward + done, together))
            at = done
        time, begin = max(time + cycle, at), end
    return Iteration(forward, backward, tuple(exchanges))
