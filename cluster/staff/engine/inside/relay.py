"""Messages between ranks by way of a process that no rank can write to, which writes them down.

Every rank is a process of its own. Each call of its communicator goes to the relay as it happens, and a
message is given to its receiver when that asks for it. So a message that is not written down does not arrive,
and what depends on a message cannot have been sent before that one was received.
"""

from __future__ import annotations

import functools
import select
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from cluster.checks.ranks import attempt
from cluster.network.errors import Deadlock
from cluster.network.ranks import RealRank, Receive
from cluster.network.recorded import MOST

from .ask_ranks import no_data
from .channel import Channel
from .codec import Tree, pack, unpack
from .errors import ChannelError, ProcessLostError
from .messages import RankAnswer

SENDS = {"send": 2, "isend": 2, "sendreceive": 3}  # by the name of a call: how many arguments it has
CALLS = SENDS | {"receive": 1, "ireceive": 1, "wait": 1, "add": 1, "compute": 1}
LATE = "it does not come to an end"
ASKS = ("receive", "sendreceive", "wait")  # calls that have an answer
Note = list[Any]  # [name of a call, its arguments, what was received], arrays as trees

# --- in a rank ---------------------------------------------------------------------------------------------


class RelayedRank(RealRank):
    """One rank's view of the network (see `cluster.network.communicator.Communicator`)."""

    def __init__(self, channel: Channel, writing: threading.Lock, call: int, rank: int, size: int):
        super().__init__(rank, size)
        self._channel, self._writing, self._call = channel, writing, call
        self._one_at_a_time, self._calls, self._requests = threading.Lock(), 0, 0

    def send(self, x: Any, dest: int) -> None:
        self._tell("send", tree_of(x), self._check(dest))

    def receive(self, source: int, into: Any = None) -> Any:
        return self._taken(source, into, self._tell("receive", self._check(source)))

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        places = self._check(dest), self._check(source)
        return self._taken(source, into, self._tell("sendreceive", tree_of(x), *places))

    def isend(self, x: Any, dest: int) -> _Request:
        self._tell("isend", tree_of(x), self._check(dest))
        return self._request(None, None)

    def ireceive(self, source: int, into: Any = None) -> Any:
        self._tell("ireceive", self._check(source))
        return self._request(source, into)

    def add(self, into: Any, x: Any) -> Any:
        self._tell("add", int(np.asarray(x).nbytes))
        return super().add(into, x)

    def compute(self, seconds: float) -> None:
        self._tell("compute", float(seconds))

    def _tell(self, name: str, *arguments: Any) -> Any:
        """Tell a call; what was received, where it has an answer."""
        with self._one_at_a_time:
            self._calls += 1
            if self._calls > MOST:
                raise RuntimeError(
                    f"rank {self.rank} has called its communicator {MOST:,} times, and goes on"
                )
            with self._writing:
                self._channel.send({"call": self._call, "note": [name, *arguments]})
            answer: dict[str, Any] = self._channel.receive() if name in ASKS else {"value": None}
        if "deadlock" in answer:
            raise Deadlock(answer["deadlock"])
        return answer["value"] and unpack(answer["value"], no_data)

    def _taken(self, source: int, into: Any, message: Any) -> Any:
        request = Receive(self, source, into)
        request.message, request.there = message, True
        return request.wait()

    def _request(self, source: int | None, into: Any) -> _Request:
        self._requests += 1
        return _Request(self, source, into, self._requests - 1)

    def _expect(self, request: Receive) -> None:
        """The relay has the requests."""

    def _look(self, source: int) -> None:
        """The relay gives a message when it is asked for one."""


class _Request:
    """A message on its way: told when it is waited for first."""

    def __init__(self, comm: RelayedRank, source: int | None, into: Any, number: int):
        self._comm, self._source, self._into, self._number = comm, source, into, number
        self._ended, self._result = False, None

    def wait(self) -> Any:
        if not self._ended:
            received, self._ended = self._comm._tell("wait", self._number), True
            if self._source is not None:
                self._result = self._comm._taken(self._source, self._into, received)
        return self._result


def tree_of(x: Any) -> Tree:
    return pack(np.array(x), no_data)


def work_off(
    channel: Channel, function: Callable[..., Any], rank: int, calls: Sequence[Sequence[Any]], seconds: float
) -> None:
    """Call `function(comm, *args)` as this rank for each (number, p, args), and tell what came of each.

    After a call that does not end in `seconds` the next ones are not begun: its thread is still there.
    """
    writing, late = threading.Lock(), False
    for number, size, args in calls:
        comm = RelayedRank(channel, writing, number, rank, size)
        found = {} if late else attempt(functools.partial(packed, function, comm, args), seconds)
        late = not {"value", "error"} & set(found)
        with writing:
            channel.send({"call": number, "ended": {"error": LATE} if late else found})


def packed(function: Callable[..., Any], comm: RelayedRank, args: Sequence[Any]) -> Tree:
    return pack(function(comm, *args), no_data)


# --- the process between them ------------------------------------------------------------------------------


class Relay:
    """Hands on messages of `ranks` (their channels, in order) in calls of `sizes` ranks each.

    notes: of each call those of each rank. ended: of each call {rank: what came of it}.
    """

    def __init__(self, ranks: Sequence[Channel], sizes: Sequence[int]):
        self.ranks, self.sizes = ranks, sizes
        self.notes: list[list[list[Note]]] = [[[] for _ in range(p)] for p in sizes]
        self.ended: list[dict[int, Any]] = [{} for _ in sizes]
        self.sent: defaultdict[tuple[int, int, int], list[Tree]] = defaultdict(list)  # call, source, dest
        self.taken: defaultdict[tuple[int, int, int], int] = defaultdict(int)
        self.requests: defaultdict[tuple[int, int], list[tuple[int, int] | None]] = defaultdict(list)
        self.waiting: dict[int, tuple[int, int, int, Note]] = {}  # rank: call, source, which message, note
        self.lost: dict[int, str] = {}

    def run(self, end: float) -> None:
        """Hand on messages until every call has ended on its ranks, at most until `end` on the clock."""
        sources = {channel.source: rank for rank, channel in enumerate(self.ranks)}
        while busy := {r for r in range(len(self.ranks)) if r not in self.lost and not self.has_ended(r)}:
            rest = end - time.monotonic()
            stuck = busy <= set(self.waiting)
            wait = 0 if stuck else max(rest, 0)
            ready = select.select([c for c, r in sources.items() if r in busy], [], [], wait)[0]
            for source in ready:
                self.hear(sources[source], end)
            if rest <= 0:
                return
            if not ready and stuck:
                self.give_up(min(call for call, *_ in self.waiting.values()))
            self.hand_on()

    def has_ended(self, rank: int) -> bool:
        return all(rank in self.ended[call] for call, p in enumerate(self.sizes) if rank < p)

    def hear(self, rank: int, end: float) -> None:
        """Take a message of a rank's process. What is no message of a rank's ends it."""
        try:
            message = self.ranks[rank].receive(max(0.0, end - time.monotonic()))
            call = message["call"]
            if not isinstance(call, int) or not 0 <= call < len(self.sizes) or rank >= self.sizes[call]:
                raise ValueError("there is no such call")
            if rank in self.ended[call]:  # a thread that was left behind
                return
            if "ended" in message:
                self.ended[call][rank] = message["ended"]
                self.waiting.pop(rank, None)
            elif rank in self.waiting:
                raise ValueError("it goes on while it waits")
            else:
                self.note(rank, call, message["note"])
        except (ChannelError, ValueError, TypeError, LookupError) as error:
            self.lose(rank, error)

    def note(self, rank: int, call: int, note: Note) -> None:
        """Write down what a rank does, and do it. Raises ValueError or TypeError if it cannot do that."""
        name, *arguments = note
        of_rank, p = self.notes[call][rank], self.sizes[call]
        if len(arguments) != CALLS.get(name) or len(of_rank) >= MOST:
            raise ValueError(f"a communicator does not do {str(name)[:20]!r}, or not so often")
        others = {"send": arguments[1:], "isend": arguments[1:], "sendreceive": arguments[1:]}
        others |= {"receive": arguments, "ireceive": arguments}
        if any(not isinstance(other, int) or not 0 <= other < p for other in others.get(name, ())):
            raise ValueError("there is no such rank")
        of_rank.append(note)
        requests = self.requests[call, rank]
        if name in SENDS:
            self.sent[call, rank, arguments[1]].append(arguments[0])
        if name in ("receive", "sendreceive"):
            self.waiting[rank] = (call, *self.next_of(call, arguments[-1], rank), note)
        elif name == "ireceive":
            requests.append(self.next_of(call, arguments[0], rank))
        elif name == "isend":
            requests.append(None)
        elif name == "wait":
            wanted = requests[range(len(requests))[arguments[0]]]
            if wanted:
                self.waiting[rank] = (call, *wanted, note)
            else:
                self.answer(rank, note, None)

    def next_of(self, call: int, source: int, dest: int) -> tuple[int, int]:
        """(source, number of its message) for the next request: they go to requests in their order."""
        self.taken[call, source, dest] += 1
        return source, self.taken[call, source, dest] - 1

    def hand_on(self) -> None:
        """Give the ranks that wait what has been sent to them, or say that it never will be."""
        for rank, (call, source, number, note) in [*self.waiting.items()]:
            messages = self.sent[call, source, rank]
            if number < len(messages):
                self.answer(rank, note, messages[number])
            elif source in self.ended[call] or source in self.lost:
                self.refuse(rank, source, "has ended")

    def give_up(self, call: int) -> None:
        """All ranks wait: those of this call wait for ever."""
        for rank, (of_call, source, *_) in [*self.waiting.items()]:
            if of_call == call:
                self.refuse(rank, source, "sends none")

    def answer(self, rank: int, note: Note, message: Tree | None) -> None:
        """Give a rank a message, and write down that it has it."""
        self.waiting.pop(rank, None)
        note.append(message)
        self.send(rank, {"value": message})

    def refuse(self, rank: int, source: int, why: str) -> None:
        call = self.waiting.pop(rank)[0]
        self.notes[call][rank].pop()  # the call that has waited
        self.send(rank, {"deadlock": f"rank {rank} waits for a message of rank {source}, which {why}"})

    def send(self, rank: int, message: dict[str, Any]) -> None:
        try:
            self.ranks[rank].send(message)
        except ProcessLostError as error:
            self.lose(rank, error)

    def lose(self, rank: int, why: Exception) -> None:
        self.lost[rank] = f"RankEnded: the rank cannot be asked any more: {why}"
        self.waiting.pop(rank, None)

    def found(self, call: int, rank: int) -> RankAnswer:
        """What came of a call on a rank: {"value" or "error", "notes"}."""
        found: Any = self.ended[call].get(rank, {"error": self.lost.get(rank, LATE)})
        right = isinstance(found, dict) and {"value", "error"} & set(found)
        answer: Any = (found if right else {"error": LATE}) | {"notes": self.notes[call][rank]}
        return cast(RankAnswer, answer)
