"""What happened in virtual time: messages, the spans in which ranks were busy, and what each rank did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .topologies import Network


class Message:
    """What one rank sends to another, with its times in seconds.

    sent: when the sender was ready, its overhead over; expected: when the receiver was; start: the later of
    both; end: when the last byte arrived. size: bytes.
    """

    __slots__ = (
        "dest", "dest_line", "dest_waits", "end", "expected", "payload", "sent", "size", "source",
        "source_line", "source_waits", "start",
    )  # fmt: skip

    def __init__(self, source: int, dest: int):
        self.source, self.dest = source, dest
        # Each of these is None until it is known.
        self.sent: float
        self.expected: float
        self.start: float
        self.end: float
        self.payload: Any
        self.source_line: Any  # diagnosis.Line
        self.dest_line: Any
        self.sent = self.expected = self.start = self.end = None  # type: ignore[assignment]
        self.size, self.payload = 0, None
        self.source_line = self.dest_line = None
        self.source_waits = self.dest_waits = False

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
    """What one rank did: messages and bytes that it sent and received; seconds of virtual time.

    time: when it ended. adding, computing: of that, what `add` and `compute` took; communicating: the rest.
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
        """Seconds in which the rank sent, received or waited."""
        return self.time - self.adding - self.computing


@dataclass
class Run:
    """What `simulate` returns.

    results: what the function returned on each rank. counts: of each rank; `pandas.DataFrame(run.counts)` is
    a table of them. messages, spans: in the order in which they were found to begin; empty without `record`.
    """

    network: Network
    results: list[Any]
    counts: list[Counts]
    messages: list[Message] = field(repr=False)
    spans: list[Span] = field(repr=False)

    @property
    def time(self) -> float:
        """Seconds until the last rank had ended."""
        return max(count.time for count in self.counts)

    @property
    def bytes_sent(self) -> int:
        """Of all ranks together."""
        return sum(count.bytes_sent for count in self.counts)

    def __repr__(self) -> str:
        n = sum(count.messages_sent for count in self.counts)
        return f"Run({len(self.counts)} ranks, {n} messages, {self.bytes_sent} bytes, {self.time:.6g} s)"
