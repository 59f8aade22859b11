"""The record of a run in virtual time: messages, busy intervals of ranks, and each rank's counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .topologies import Network


@dataclass(eq=False, slots=True, repr=False)
class Message:
    """A message between two ranks, with its times in seconds.

    sent: when the sender was ready, after its overhead. expected: when the receiver was ready. start: the
    later of the two. end: when the last byte arrived. size: bytes.
    """

    source: int
    dest: int
    # None until known
    sent: Any = None
    expected: Any = None
    start: Any = None
    end: Any = None
    size: int = 0
    payload: Any = None
    source_line: Any = None  # diagnosis.Line
    dest_line: Any = None

    def __repr__(self) -> str:
        return f"Message({self.source} → {self.dest}, {self.size} bytes, {self.start} … {self.end} s)"


class Span(NamedTuple):
    """A rank was busy with `what` ("add" or "compute") from start to end, in seconds."""

    rank: int
    what: str
    start: float
    end: float


@dataclass
class Counts:
    """Counts of one rank: messages and bytes sent and received, and seconds of virtual time.

    time: when the rank ended. adding, computing: spent in `add` and `compute`. communicating: the rest.
    """

    rank: int
    messages_sent: int = 0
    bytes_sent: int = 0
    messages_received: int = 0
    bytes_received: int = 0
    time: float = 0.0
    adding: float = 0.0
    computing: float = 0.0

    @property
    def communicating(self) -> float:
        """The seconds that the rank spent sending, receiving or waiting."""
        return self.time - self.adding - self.computing


@dataclass
class Run:
    """The return value of `simulate`.

    results: the function's return value on each rank. counts: each rank's counts, a table with
    `pandas.DataFrame(run.counts)`. messages, spans: in order of their start; empty without `record`.
    """

    network: Network
    results: list[Any]
    counts: list[Counts]
    messages: list[Message] = field(repr=False)
    spans: list[Span] = field(repr=False)

    @property
    def time(self) -> float:
        """Seconds until the last rank ended."""
        return max(count.time for count in self.counts)

    @property
    def bytes_sent(self) -> int:
        """Total bytes sent by all ranks."""
        return sum(count.bytes_sent for count in self.counts)

    def __repr__(self) -> str:
        n = sum(count.messages_sent for count in self.counts)
        return f"Run({len(self.counts)} ranks, {n} messages, {self.bytes_sent} bytes, {self.time:.6g} s)"
