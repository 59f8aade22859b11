"""Ranks in virtual time: the same function on every rank of a network that exists as numbers.

Each rank runs, in turn, until it waits for a message; then the next one does. When all of them wait, the
links they share go on to the next message that ends. Only what a rank says it computes takes time. Nothing
depends on the machine: the same program and the same network give the same times, to the last bit.
"""

from __future__ import annotations

import contextvars
import copy
import linecache
import operator
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import greenlet
import numpy as np

from . import communicator
from .arrays import Placeholder
from .errors import Deadlock, NoSuchRank, SizeMismatch, Unmatched
from .links import Links
from .topologies import HERE, Network

OWN = {__file__, communicator.__file__}  # their lines tell a student nothing
SHOWN = 8  # ranks, or messages, that an error names


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
        self.sent = self.expected = self.start = self.end = None
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


def simulate(
    function: Callable[..., Any],
    *args: Any,
    ranks: int,
    network: Network,
    record: bool = True,
    watch: Callable[[int, float, tuple[Any, ...]], None] | None = None,
) -> Run:
    """Call `function(comm, *args)` on each of `ranks` ranks of a network, in virtual time.

    Each rank gets a copy of the arguments of its own, as in a job; what differs between ranks the function
    takes by `comm.rank`. record: keep messages and spans, for drawings. watch: is called as watch(rank, time,
    args) with a rank's own arguments whenever it calls its communicator and when it ends.

    Raises Deadlock where ranks wait for each other, Unmatched where messages are left over, SizeMismatch, and
    what the function raises, with a note on which rank it was.

    >>> from cluster.network import Network, simulate
    >>> run = simulate(lambda comm: comm.sendreceive(np.zeros(8), 1 - comm.rank, 1 - comm.rank),
    ...                ranks=2, network=Network(latency=1.0, time_per_byte=0.25))
    >>> run.time, run.counts[0].bytes_sent
    (17.0, 64)
    """
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}: there must be 1 or more.")
    network.check(ranks)
    return _Engine(ranks, network, record, watch).run(function, args)


class VirtualCommunicator:
    """One rank's view of the network in virtual time (see `communicator.Communicator`)."""

    def __init__(self, rank: int, size: int, engine: _Engine):
        self.rank, self.size = rank, size
        self.counts = Counts(rank)
        self._engine, self._network = engine, engine.network
        self._clock = 0.0
        self._line: Line | None = None  # of its latest call
        self._waits_for: tuple[Message, bool] | None = None  # and whether it is to receive it
        self._greenlet: greenlet.greenlet | None = None
        self._args: tuple[Any, ...] = ()

    def send(self, x: Any, dest: int) -> None:
        """Send x to rank `dest`, and wait until it is there."""
        self._called()
        self._wait(self._send(x, dest), False)

    def receive(self, source: int, into: Any = None) -> Any:
        """Wait for the next message of rank `source`, and return it."""
        self._called()
        return self._take(self._receive(source), into)

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        """Send x to `dest` and receive from `source`, both at once; returns what was received."""
        self._called()
        sent = self._send(x, dest)
        taken = self._take(self._receive(source), into)
        self._wait(sent, False)
        return taken

    def isend(self, x: Any, dest: int) -> _Request:
        """Begin to send x and go on."""
        self._called()
        return _Request(self, self._send(x, dest), False, None)

    def ireceive(self, source: int, into: Any = None) -> _Request:
        """Be ready for a message and go on; `wait()` returns it."""
        self._called()
        return _Request(self, self._receive(source), True, into)

    def add(self, into: Any, x: Any) -> Any:
        """into += x, in place; takes γ seconds for each byte of x."""
        if getattr(into, "shape", None) != getattr(x, "shape", ()):
            raise SizeMismatch(
                f"rank {self.rank} adds {_elements(x)} to {_elements(into)}, {_text(_line())}\n"
                "→ Cut the array in the same way on all ranks: a message has the sender's size."
            )
        into += x
        self._spend("add", self._network.reduction * x.nbytes)
        return into

    def compute(self, seconds: float) -> None:
        """Compute for so long."""
        if not seconds >= 0:
            raise ValueError(f"seconds is {seconds}: a computation takes 0 or more.")
        self._spend("compute", seconds)

    def time(self) -> float:
        """Seconds of this rank's clock."""
        return self._clock

    def _spend(self, what: str, seconds: float) -> None:
        if not seconds:
            return
        start, self._clock = self._clock, self._clock + seconds
        if what == "add":
            self.counts.adding += seconds
        else:
            self.counts.computing += seconds
        if self._engine.record:
            self._engine.spans.append(Span(self.rank, what, start, self._clock))

    def _send(self, x: Any, dest: int) -> Message:
        """Hand a message over: the rank is busy for the overhead, the transfer begins when both are ready."""
        self._check(dest, "sends to")
        payload = x.copy() if isinstance(x, (np.ndarray, Placeholder)) else np.array(x)
        size = payload.nbytes
        self._clock += self._network.overhead
        self.counts.messages_sent += 1
        self.counts.bytes_sent += size
        message = self._engine.partner(self.rank, dest, False)
        message.sent, message.source_line = self._clock, self._line
        message.payload, message.size = payload, size
        if message.expected is not None:
            self._engine.begin(message)
        return message

    def _receive(self, source: int) -> Message:
        self._check(source, "receives from")
        message = self._engine.partner(source, self.rank, True)
        message.expected, message.dest_line = self._clock, self._line
        if message.sent is not None:
            self._engine.begin(message)
        return message

    def _wait(self, message: Message, receives: bool) -> None:
        """Give the other ranks their turn until the message has ended."""
        if message.end is None:
            if receives:
                message.dest_waits = True
            else:
                message.source_waits = True
            self._waits_for = message, receives
            self._engine.hub.switch()
            self._waits_for = None
        if message.end > self._clock:
            self._clock = message.end

    def _take(self, message: Message, into: Any) -> Any:
        """Wait for a message, and put it where it is to be."""
        self._wait(message, True)
        self._clock += self._network.overhead
        payload = message.payload
        message.payload = None
        self.counts.messages_received += 1
        self.counts.bytes_received += message.size
        if into is None:
            return payload
        if into.shape != payload.shape:
            raise SizeMismatch(
                f"rank {message.source} sends {_elements(payload)}, {_text(message.source_line)}\n"
                f"rank {self.rank} has room for {_elements(into)}, {_text(message.dest_line)}\n"
                "→ Cut the array in the same way on all ranks, also where p does not divide n."
            )
        into[...] = payload
        return into

    def _called(self) -> None:
        self._line = _line()
        if self._engine.watch:
            self._engine.watch(self.rank, self._clock, self._args)

    def _check(self, other: int, does: str) -> None:
        if not 0 <= operator.index(other) < self.size:
            raise NoSuchRank(
                f"rank {self.rank} {does} rank {other}, {_text(self._line)}\n"
                f"→ The ranks are 0 … {self.size - 1}: a ring closes with (rank + 1) % size."
            )


class _Request:
    """A message in virtual time that its rank has not waited for yet."""

    __slots__ = ("_comm", "_into", "_message", "_receives", "_result")

    def __init__(self, comm: VirtualCommunicator, message: Message, receives: bool, into: Any):
        self._comm, self._message, self._receives, self._into = comm, message, receives, into

    def wait(self) -> Any:
        """Return when the message has ended: what was received; None for a message sent."""
        if self._comm is not None:  # a second wait returns the same
            self._comm._line = _line()
            if self._receives:
                self._result = self._comm._take(self._message, self._into)
            else:
                self._result = self._comm._wait(self._message, False)
            self._comm = None
        return self._result


class _Engine:
    """Runs the ranks, matches what they send and receive, and lets time pass where links are shared."""

    def __init__(self, ranks: int, network: Network, record: bool, watch: Any):
        self.network, self.record, self.watch = network, record, watch
        self.hub = greenlet.getcurrent()
        self.messages: list[Message] = []
        self.spans: list[Span] = []
        self._comms = [VirtualCommunicator(rank, ranks, self) for rank in range(ranks)]
        self._open: dict[tuple[int, int], list[Message]] = {}  # sent or expected, and not both
        self._ready = deque(self._comms)
        self._links = Links(network)

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Run:
        """Call the function on all ranks and see them end."""
        results: list[Any] = [None] * len(self._comms)

        def rank(comm: VirtualCommunicator) -> None:
            try:
                results[comm.rank] = function(comm, *comm._args)
            except Exception as e:
                e.add_note(f"This was on rank {comm.rank} of {comm.size}, at {comm._clock:.6g} s.")
                raise
            comm.counts.time = comm._clock
            if self.watch:
                self.watch(comm.rank, comm._clock, comm._args)

        for comm in self._comms:
            comm._args = copy.deepcopy(args)
            comm._greenlet = greenlet.greenlet(rank, self.hub)
            comm._greenlet.gr_context = contextvars.copy_context()  # it says where a notebook prints
        try:
            self._go()
            self._check_all_has_ended()
        finally:
            for comm in self._comms:
                if comm._greenlet:  # started, and not ended
                    comm._greenlet.throw(greenlet.GreenletExit)
        return Run(self.network, results, [c.counts for c in self._comms], self.messages, self.spans)

    def _go(self) -> None:
        ready = self._ready
        while True:
            while ready:
                comm = ready.popleft()
                comm._greenlet.switch(comm)
            time, ended = self._links.advance()
            if not ended:
                return
            for message in ended:
                self._end(message, time)

    def partner(self, source: int, dest: int, receives: bool) -> Message:
        """The oldest message between two ranks that lacks this side; a new one where there is none."""
        key = source, dest
        open_ = self._open.get(key)
        if open_ and (open_[0].expected if receives else open_[0].sent) is None:
            message = open_.pop(0)
            if not open_:
                del self._open[key]
            return message
        message = Message(source, dest)
        if open_:
            open_.append(message)
        else:
            self._open[key] = [message]
        return message

    def begin(self, message: Message) -> None:
        """Both sides are ready."""
        start = message.start = max(message.sent, message.expected)
        if self.record:
            self.messages.append(message)
        route = HERE if message.source == message.dest else self.network.route(message.source, message.dest)
        if route.links and route.time_per_byte:  # what takes no time is shared by any number
            self._links.begin(message, message.size, route, start)
        else:
            self._end(message, start + route.latency + message.size * route.time_per_byte)

    def _end(self, message: Message, time: float) -> None:
        message.end = time
        if message.dest_waits:
            self._ready.append(self._comms[message.dest])
        if message.source_waits:
            self._ready.append(self._comms[message.source])

    def _check_all_has_ended(self) -> None:
        waiting = [comm for comm in self._comms if comm._waits_for]
        if waiting:
            raise Deadlock(_deadlock(waiting, self._comms))
        left = [message for open_ in self._open.values() for message in open_]
        if left:
            lines = [_left_over(message) for message in left[:SHOWN]]
            raise Unmatched("\n".join([*lines, *_more(len(left)), "→ Each message needs both: count them."]))


def _deadlock(waiting: list[VirtualCommunicator], comms: list[VirtualCommunicator]) -> str:
    """Who waits for whom, where, since when; the circle where there is one; what to do."""
    lines, other = [], {}
    for comm in waiting:
        message, receives = comm._waits_for
        other[comm.rank] = message.source if receives else message.dest
        does = "receives from" if receives else f"sends {message.size} bytes to"
        ended = "" if comms[other[comm.rank]]._waits_for else ", which has ended"
        lines.append(f"rank {comm.rank} {does} rank {other[comm.rank]}{ended}, {_text(comm._line)}")
    if circle := _circle(other):
        sends = all(not comms[rank]._waits_for[1] for rank in circle)
        way = " → ".join(map(str, [*circle, circle[0]])) if len(circle) <= SHOWN else f"{len(circle)} ranks"
        advice = (
            "All of these send, and none receives: take sendreceive, or let some receive first."
            if sends
            else "Each of these waits for the next: change the order on one of them, or take sendreceive."
        )
        advice = f"They wait in a circle, {way}. {advice}"
    else:
        advice = "Who has ended cannot answer: count what each rank sends and receives."
    time = max(comm._clock for comm in waiting)
    head = f"{len(waiting)} of {len(comms)} ranks wait for ever, at {time:.6g} s:"
    return "\n".join([head, *lines[:SHOWN], *_more(len(lines)), f"→ {advice}"])


def _circle(other: dict[int, int]) -> list[int]:
    """The ranks of a circle of {who waits: for whom}; [] where there is none."""
    for start in other:
        path, rank = [], start
        while rank in other and rank not in path:
            path.append(rank)
            rank = other[rank]
        if rank in path:
            return path[path.index(rank) :]
    return []


def _left_over(message: Message) -> str:
    if message.expected is None:
        return (
            f"rank {message.source} sent {message.size} bytes to rank {message.dest}, which did not receive "
            f"them, {_text(message.source_line)}"
        )
    return (
        f"rank {message.dest} expected a message of rank {message.source}, which sent none, "
        f"{_text(message.dest_line)}"
    )


def _more(n: int) -> list[str]:
    return [f"… and {n - SHOWN} more"] if n > SHOWN else []


def _elements(x: Any) -> str:
    shape = np.shape(x)
    if len(shape) == 1:
        return f"{shape[0]} element{'s' * (shape[0] != 1)}"
    return f"an array of shape {shape}"


Line = tuple[CodeType, int]  # a place in the code of whoever called a communicator: its instruction


def _line() -> Line:
    frame = sys._getframe(2)
    while frame.f_code.co_filename in OWN:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _text(line: Line) -> str:
    """A place in words: the line's number in its file or cell, and what stands there."""
    code, instruction = line
    found = [n for start, end, n in code.co_lines() if start <= instruction < end and n]
    number = found[0] if found else code.co_firstlineno
    source = linecache.getline(code.co_filename, number).strip()
    return f"line {number} of {code.co_name}" + (f": {source}" if source else "")
