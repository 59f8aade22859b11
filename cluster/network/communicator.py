"""The network interface used by algorithms, common to virtual time and real ranks.

    def shift(comm: Communicator, x: np.ndarray) -> np.ndarray:
        return comm.sendreceive(x, dest=(comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)

runs in virtual time with `simulate(shift, x, ranks=4, network=Network(...))`, and on the ranks of a job with
`submit(on_real_ranks, shift, x, ranks_per_node=4, controller="mpi")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Request(Protocol):
    """A message that is on its way while its rank goes on."""

    def wait(self) -> Any:
        """Wait for completion and return what was received, or None for a sent message."""


class Communicator(Protocol):
    """One rank's view of the network: it is rank `rank` of `size`, and every rank runs the same function.

    Messages are NumPy arrays of any shape and type, or a `Placeholder`; the receiver gets a copy. Messages
    between two ranks are received in the order they are sent.

    `send` may return only when the receiver has taken the message (MPI's synchronous mode). In virtual time
    it always waits; MPI may not wait for a short message. Every program that terminates in virtual time
    therefore also terminates with MPI.
    """

    rank: int
    size: int

    def send(self, x: Any, dest: int) -> None:
        """Send x to rank `dest`, and wait until it is there."""

    def receive(self, source: int, into: Any = None) -> Any:
        """Wait for the next message of rank `source`, and return it.

        into: an array, or a slice of one, to receive it. Raises SizeMismatch if it has another shape.
        """

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        """Send x to `dest` and receive from `source`, both at once; returns what was received."""

    def isend(self, x: Any, dest: int) -> Request:
        """Begin to send x and go on. x is copied, so it may be changed at once."""

    def ireceive(self, source: int, into: Any = None) -> Request:
        """Be ready for a message and go on; `wait()` returns it."""

    def add(self, into: Any, x: Any) -> Any:
        """into += x, in place, where virtual time counts what the addition takes; returns `into`.

        Raises SizeMismatch where the shapes differ: NumPy would repeat an array of one element.
        """

    def compute(self, seconds: float) -> None:
        """Compute for so long: virtual time passes, a real rank sleeps."""

    def time(self) -> float:
        """Seconds since this rank began: of its virtual clock, or of the wall clock."""


class Group:
    """A communicator of some ranks of another one: a node's, or the first ranks of all nodes.

    ranks: the ranks of `comm`, in the group's order; this rank must be among them. All of them create the
    group with the same list.
    """

    def __init__(self, comm: Communicator, ranks: Sequence[int]):
        if comm.rank not in ranks:
            raise ValueError(f"Rank {comm.rank} is not in the group {list(ranks)}: only its ranks make it.")
        self.size, self.rank = len(ranks), ranks.index(comm.rank)
        self._comm, self._ranks = comm, ranks
        self.add, self.compute, self.time = comm.add, comm.compute, comm.time

    def send(self, x: Any, dest: int) -> None:
        self._comm.send(x, self._ranks[dest])

    def receive(self, source: int, into: Any = None) -> Any:
        return self._comm.receive(self._ranks[source], into)

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        return self._comm.sendreceive(x, self._ranks[dest], self._ranks[source], into)

    def isend(self, x: Any, dest: int) -> Request:
        return self._comm.isend(x, self._ranks[dest])

    def ireceive(self, source: int, into: Any = None) -> Request:
        return self._comm.ireceive(self._ranks[source], into)
