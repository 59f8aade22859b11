"""The network interface for algorithms, common to virtual time and real ranks.

    def shift(comm: Communicator, x: np.ndarray) -> np.ndarray:
        return comm.sendreceive(x, dest=(comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)

runs in virtual time with `simulate(shift, x, ranks=4, network=Network(...))`, and on the ranks of a job with
`submit(on_real_ranks, shift, x, ranks_per_node=4, controller="mpi")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Request(Protocol):
    """A message in transit while its rank continues."""

    def wait(self) -> Any:
        """Wait for completion and return the received array, or None for a sent message."""


class Communicator(Protocol):
    """One rank's view of the network: rank `rank` of `size`; every rank runs the same function.

    Messages are NumPy arrays of any shape and type, or a `Placeholder`; the receiver gets a copy. Messages
    between two ranks are received in the order they are sent. A vector or a matrix costs the bytes of its
    elements; `arrays.message_bytes` has the cost of other shapes.

    `send` may return only when the receiver has taken the message (MPI's synchronous mode). In virtual time
    it always waits; MPI may not wait for a short message. Every program that terminates in virtual time
    therefore also terminates with MPI.
    """

    rank: int
    size: int

    def send(self, x: Any, dest: int) -> None:
        """Send x to rank `dest`, and wait until it has arrived."""

    def receive(self, source: int, into: Any = None) -> Any:
        """Wait for the next message of rank `source`, and return it.

        into: an array or slice that receives the message. Raises SizeMismatch if it has a different shape.
        """

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        """Send x to `dest` and receive from `source` simultaneously; return the received array."""

    def isend(self, x: Any, dest: int) -> Request:
        """Begin to send x and continue. x is copied, so it may be changed at once."""

    def ireceive(self, source: int, into: Any = None) -> Request:
        """Begin to receive a message and continue; `wait()` returns it."""

    def add(self, into: Any, x: Any) -> Any:
        """Add x to `into` in place, which takes time in virtual time; return `into`.

        Raises SizeMismatch if the shapes differ, because NumPy would broadcast an array of one element.
        """

    def compute(self, seconds: float) -> None:
        """Compute for this many seconds: virtual time passes, and a real rank sleeps."""

    def time(self) -> float:
        """Return the seconds since this rank began, on its virtual clock or the wall clock."""


class Group:
    """A communicator of some ranks of another one, such as a node's ranks, or the first ranks of all nodes.

    ranks: ranks of `comm` in the group's order, including this one; all create the group with the same list.
    """

    def __init__(self, comm: Communicator, ranks: Sequence[int]):
        if comm.rank not in ranks:
            raise ValueError(f"Rank {comm.rank} is not in the group {list(ranks)}: only its ranks create it.")
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
