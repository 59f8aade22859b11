"""Ranks in virtual time: the same function runs on every rank of a simulated network.

The ranks run in turn, each until it waits for a message. When all of them wait, time advances to the next
message that ends on the shared links. Computation takes only the time that a rank declares. Nothing depends
on the machine: the same program and the same network give the same times, to the last bit.
"""

from __future__ import annotations

import contextvars
import copy
import operator
from collections import deque
from collections.abc import Callable
from typing import Any

import greenlet
import numpy as np

from .arrays import Placeholder, message_bytes
from .communicator import Communicator
from .diagnosis import SHOWN, Line, Wait, calling_line, deadlock, elements, left_over, line_text, more
from .errors import Deadlock, NoSuchRank, SizeMismatch, Unmatched
from .links import Links
from .run import Counts, Message, Run, Span
from .topologies import HERE, Network


def simulate(
    function: Callable[..., Any],
    *args: Any,
    ranks: int,
    network: Network,
    record: bool = True,
    watch: Callable[[int, float, tuple[Any, ...]], None] | None = None,
) -> Run:
    """Call `function(comm, *args)` on each of `ranks` ranks of a network, in virtual time.

    Each rank gets a separate copy of the arguments, as in a job. Differences between ranks must be derived
    from `comm.rank`. record: keep messages and spans, for drawings. watch: called as watch(rank, time, args)
    with a rank's own arguments whenever it calls its communicator and when it ends.

    Raises Deadlock if ranks wait for each other, Unmatched if messages are left over, SizeMismatch, and any
    error of the function, with a note that names the rank.

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


class VirtualCommunicator(Communicator):
    """One rank's view of the network in virtual time."""

    def __init__(self, rank: int, size: int, engine: _Engine):
        self.rank, self.size = rank, size
        self.counts = Counts(rank)
        self._engine, self._network = engine, engine.network
        self._clock = 0.0
        self._line: Line = None  # type: ignore[assignment]  # line of the rank's latest call
        self._waits_for: tuple[Message, bool] | None = None  # (message, whether this rank receives it)
        self._greenlet: Any = None
        self._args: tuple[Any, ...] = ()

    def send(self, x: Any, dest: int) -> None:
        self._called()
        self._wait(self._send(x, dest), False)

    def receive(self, source: int, into: Any = None) -> Any:
        self._called()
        return self._take(self._receive(source), into)

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        self._called()
        sent = self._send(x, dest)
        taken = self._take(self._receive(source), into)
        self._wait(sent, False)
        return taken

    def isend(self, x: Any, dest: int) -> _Request:
        self._called()
        return _Request(self, self._send(x, dest), False, None)

    def ireceive(self, source: int, into: Any = None) -> _Request:
        self._called()
        return _Request(self, self._receive(source), True, into)

    def add(self, into: Any, x: Any) -> Any:
        """Add x to `into` in place; takes γ seconds per byte of x."""
        if getattr(into, "shape", None) != getattr(x, "shape", ()):
            raise SizeMismatch(
                f"rank {self.rank} adds {elements(x)} to {elements(into)}, {line_text(calling_line())}\n"
                "→ Cut the array in the same way on all ranks: a message has the sender's size."
            )
        into += x
        self._spend("add", self._network.reduction * x.nbytes)
        return into

    def compute(self, seconds: float) -> None:
        if not seconds >= 0:
            raise ValueError(f"seconds is {seconds}: a computation takes 0 or more.")
        self._spend("compute", seconds)

    def time(self) -> float:
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
        """Send a message: the rank is busy for the overhead; transfer begins when both sides are ready."""
        self._check(dest, "sends to")
        payload = x.copy() if isinstance(x, (np.ndarray, Placeholder)) else np.array(x)
        size = message_bytes(payload)
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
        """Run the other ranks until the message has ended."""
        if message.end is None:
            self._waits_for = message, receives
            self._engine.hub.switch()
            self._waits_for = None
        if message.end > self._clock:
            self._clock = message.end

    def _take(self, message: Message, into: Any) -> Any:
        """Wait for a message, and store it in its target."""
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
                f"rank {message.source} sends {elements(payload)}, {line_text(message.source_line)}\n"
                f"rank {self.rank} has room for {elements(into)}, {line_text(message.dest_line)}\n"
                "→ Cut the array in the same way on all ranks, also if p does not divide n."
            )
        into[...] = payload
        return into

    def _called(self) -> None:
        self._line = calling_line()
        if self._engine.watch:
            self._engine.watch(self.rank, self._clock, self._args)

    def _check(self, other: int, does: str) -> None:
        if not 0 <= operator.index(other) < self.size:
            raise NoSuchRank(
                f"rank {self.rank} {does} rank {other}, {line_text(self._line)}\n"
                f"→ The ranks are 0 … {self.size - 1}: a ring closes with (rank + 1) % size."
            )


class _Request:
    """A message in virtual time that its rank has not waited for yet."""

    __slots__ = ("_comm", "_into", "_message", "_receives", "_result")

    def __init__(self, comm: VirtualCommunicator, message: Message, receives: bool, into: Any):
        self._comm: Any
        self._comm, self._message, self._receives, self._into = comm, message, receives, into

    def wait(self) -> Any:
        """Wait until the message has ended and return the received array, or None for a sent message."""
        if self._comm is not None:  # a repeated wait returns the same result
            self._comm._line = calling_line()
            if self._receives:
                self._result = self._comm._take(self._message, self._into)
            else:
                self._result = self._comm._wait(self._message, False)
            self._comm = None
        return self._result


class _Engine:
    """The simulator: runs the ranks, matches sends and receives, and advances time on shared links."""

    def __init__(self, ranks: int, network: Network, record: bool, watch: Any):
        self.network, self.record, self.watch = network, record, watch
        self.hub = greenlet.getcurrent()
        self.messages: list[Message] = []
        self.spans: list[Span] = []
        self._comms = [VirtualCommunicator(rank, ranks, self) for rank in range(ranks)]
        self._open: dict[tuple[int, int], list[Message]] = {}  # messages with only a sender or a receiver
        self._ready = deque(self._comms)
        self._links = Links(network)

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Run:
        """Call the function on all ranks until they end."""
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
            # the context determines which cell the output belongs to
            comm._greenlet.gr_context = contextvars.copy_context()
        try:
            self._go()
            self._check_all_has_ended()
        finally:
            for comm in self._comms:
                if comm._greenlet:  # started, but not ended
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
        """Return the oldest message between two ranks that lacks this side, or a new one if there is none."""
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
        """Begin the transfer, since both sides are ready."""
        start = message.start = max(message.sent, message.expected)
        if self.record:
            self.messages.append(message)
        route = HERE if message.source == message.dest else self.network.route(message.source, message.dest)
        if route.links and route.time_per_byte:  # messages without duration do not need to share
            self._links.begin(message, message.size, route, start)
        else:
            self._end(message, start + route.latency + message.size * route.time_per_byte)

    def _end(self, message: Message, time: float) -> None:
        message.end = time
        for rank, receives in ((message.dest, True), (message.source, False)):
            if self._comms[rank]._waits_for == (message, receives):
                self._ready.append(self._comms[rank])

    def _check_all_has_ended(self) -> None:
        waiting = [comm for comm in self._comms if comm._waits_for]
        if waiting:
            waits = [
                Wait(comm.rank, *comm._waits_for, comm._line)  # type: ignore[call-arg, misc]
                for comm in waiting
            ]
            time = max(comm._clock for comm in waiting)
            raise Deadlock(deadlock(waits, len(self._comms), time))
        left = [message for open_ in self._open.values() for message in open_]
        if left:
            lines = [left_over(message) for message in left[:SHOWN]]
            raise Unmatched("\n".join([*lines, *more(len(left)), "→ Each message needs both: count them."]))
