"""Messages between ranks, forwarded and recorded by a process that is protected from the ranks.

Every rank is a separate process. Each call of its communicator is sent to the relay as it happens, and a
receiver gets a message when it requests one. So a message that depends on another one was sent after it was
received. A rank is what it received: afterwards each rank runs again alone, in a new process, and gets the
recorded messages. It has to send the same messages in the same order and to return the same values, bit by
bit. What a rank learned in any other way is missing then. Both runs draw the same random numbers and have one
thread, so nothing else makes them differ, except the clock.
"""

from __future__ import annotations

import functools
import json
import math
import os
import random
import select
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cluster.checks.ranks import attempt
from cluster.network.errors import Deadlock
from cluster.network.real_rank import RealRank, Receive
from cluster.network.recorded import MOST, NO_MORE

from .ask_ranks import no_data
from .channel import Channel
from .codec import Tree, pack, unpack
from .errors import ChannelError, ProcessLostError

CALLS = {  # {name of a call: its arguments}
    "send": ["x", "dest"],
    "isend": ["x", "dest"],
    "sendreceive": ["x", "dest", "source"],
    "receive": ["source"],
    "ireceive": ["source"],
    "wait": ["number"],
    "add": ["bytes"],
    "compute": ["seconds"],
    "ask": ["x"],
}
LATE = "the call did not return in time"
ASKS = ("receive", "sendreceive", "wait", "ask")  # calls that expect an answer
VARIES = (
    "NotRepeatable: the rank ran again, alone and with the same messages, and {}. What a rank sends and "
    "returns may depend on its arguments and on what it receives, but not on the clock or on anything else"
)
Note = list[Any]  # [name of a call, its arguments, what was received], arrays as trees; or {"deadlock": why}

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

    def ask(self, x: Any) -> Any:
        return self._tell("ask", tree_of(x))

    def _tell(self, name: str, *arguments: Any) -> Any:
        """Report a call to the relay, and return the received message if the call has an answer."""
        with self._one_at_a_time:
            self._calls += 1
            if self._calls > MOST:
                raise RuntimeError(f"rank {self.rank} called its communicator more than {MOST:,} times")
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
        """Do nothing, because the relay has the requests."""

    def _look(self, source: int) -> None:
        """Do nothing, because the relay sends a message when `wait` requests it."""


class _Request:
    """A message in transit, which the first `wait` requests from the relay."""

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
    """Call `function(comm, *args)` as this rank for each (number, p, args), and send the result of each.

    If a call does not return within `seconds`, its thread is still running and no further call starts.
    """
    writing, late = threading.Lock(), False
    draw_alike(rank)
    for number, size, args in calls:
        comm = RelayedRank(channel, writing, number, rank, size)
        result = {} if late else attempt(functools.partial(packed, function, comm, args), seconds)
        late = not {"value", "error"} & set(result)
        with writing:
            channel.send({"call": number, "ended": {"error": LATE} if late else result})


def draw_alike(seed: int) -> None:
    """Let unseeded generators draw the same numbers whenever this rank runs."""
    random._urandom = os.urandom = random.Random(seed).randbytes  # type: ignore[attr-defined]
    random.seed(seed)
    np.random.seed(seed)


def packed(function: Callable[..., Any], comm: RelayedRank, args: Sequence[Any]) -> Tree:
    return pack(function(comm, *args), no_data)


# --- the process between them ------------------------------------------------------------------------------


class Relay:
    """Forward messages between `ranks` (their channels, in order) in calls of `sizes` ranks each.

    kept: per call and rank, the arrays that `ask` returns. notes: the recorded calls of each rank, per call.
    ended: {rank: result}, per call. varies: {(call, rank): how it differed when it ran again}.
    """

    def __init__(self, ranks: Sequence[Channel], sizes: Sequence[int], kept: Sequence[Any] = ()):
        self.ranks, self.sizes = ranks, sizes
        self.kept = kept or [[[] for _ in range(p)] for p in sizes]
        self.notes: list[list[list[Note]]] = [[[] for _ in range(p)] for p in sizes]
        self.ended: list[dict[int, Any]] = [{} for _ in sizes]
        self.sent: defaultdict[tuple[int, int, int], list[Tree]] = defaultdict(list)  # call, source, dest
        self.taken: defaultdict[tuple[int, int, int], int] = defaultdict(int)
        self.requests: defaultdict[tuple[int, int], list[tuple[int, int] | None]] = defaultdict(list)
        self.waiting: dict[int, tuple[int, int, int, Note]] = {}  # rank: call, source, message number, note
        self.lost: dict[int, str] = {}
        self.varies: dict[tuple[int, int], str] = {}

    def run(self, end: float) -> None:
        """Forward messages until every call has ended on its ranks, or until `end` (monotonic clock)."""
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
        """Receive a message of a rank's process, and drop the rank if the message is invalid."""
        try:
            message = self.ranks[rank].receive(max(0.0, end - time.monotonic()))
            call = message["call"]
            if not isinstance(call, int) or not 0 <= call < len(self.sizes) or rank >= self.sizes[call]:
                raise ValueError("there is no such call")
            if rank in self.ended[call]:  # sent by a thread that is still running
                return
            if "ended" in message:
                self.ended[call][rank] = message["ended"]
                self.waiting.pop(rank, None)
            elif rank in self.waiting:
                raise ValueError("it continued before its call returned")
            else:
                self.note(rank, call, message["note"])
        except (ChannelError, ValueError, TypeError, LookupError) as error:
            self.lose(rank, error)

    def note(self, rank: int, call: int, note: Note) -> None:
        """Record a rank's call, and execute it. Raises ValueError or TypeError if it is invalid."""
        name, *values = note
        of_rank, ranks = self.notes[call][rank], range(self.sizes[call])
        if len(values) != len(CALLS.get(name, ())) or not values or len(of_rank) >= MOST:
            raise ValueError(f"{str(name)[:20]!r} is an invalid communicator call, or one too many")
        given = dict(zip(CALLS[name], values, strict=True))
        for other in given.keys() & {"dest", "source"}:
            if not isinstance(given[other], int) or given[other] not in ranks:
                raise ValueError("there is no such rank")
        for amount in given.keys() & {"bytes", "seconds"}:
            if not isinstance(given[amount], int | float) or not 0 <= given[amount] < math.inf:
                raise ValueError(f"{amount} is {str(given[amount])[:20]}, not a number of at least 0")
        if name == "ask" and not self.kept[call][rank]:
            raise ValueError(NO_MORE)
        of_rank.append(note)
        requests = self.requests[call, rank]
        if "dest" in given:
            self.sent[call, rank, given["dest"]].append(given["x"])
        if name in ("receive", "sendreceive"):
            self.waiting[rank] = (call, *self.next_of(call, given["source"], rank), note)
        elif name == "ireceive":
            requests.append(self.next_of(call, given["source"], rank))
        elif name == "isend":
            requests.append(None)
        elif name == "ask":
            self.answer(rank, note, self.kept[call][rank].pop(0))
        elif name == "wait":
            wanted = requests[range(len(requests))[given["number"]]]
            if wanted:
                self.waiting[rank] = (call, *wanted, note)
            else:
                self.answer(rank, note, None)

    def next_of(self, call: int, source: int, dest: int) -> tuple[int, int]:
        """Return (source, message number) for the next request; messages are matched in order."""
        self.taken[call, source, dest] += 1
        return source, self.taken[call, source, dest] - 1

    def hand_on(self) -> None:
        """Send waiting ranks their messages, or report that these will never arrive."""
        for rank, (call, source, number, note) in [*self.waiting.items()]:
            messages = self.sent[call, source, rank]
            if number < len(messages):
                self.answer(rank, note, messages[number])
            elif source in self.ended[call] or source in self.lost:
                self.refuse(rank, source, "has ended")

    def give_up(self, call: int) -> None:
        """Report a deadlock to the ranks of a call."""
        for rank, (of_call, source, *_) in [*self.waiting.items()]:
            if of_call == call:
                self.refuse(rank, source, "sends none")

    def answer(self, rank: int, note: Note, message: Tree | None) -> None:
        """Send a rank a message, and record that it was received."""
        self.waiting.pop(rank, None)
        note.append(message)
        self.send(rank, {"value": message})

    def refuse(self, rank: int, source: int, why: str) -> None:
        """Tell a rank that its message will not arrive; its next request gets the message in its place."""
        call, _, _, note = self.waiting.pop(rank)
        if note[0] != "wait":  # a request can be waited for again
            self.taken[call, source, rank] -= 1
        note.append({"deadlock": f"rank {rank} waits for a message from rank {source}, which {why}"})
        self.send(rank, note[-1])

    def send(self, rank: int, message: dict[str, Any]) -> None:
        try:
            self.ranks[rank].send(message)
        except ProcessLostError as error:
            self.lose(rank, error)

    def lose(self, rank: int, why: Exception) -> None:
        self.lost[rank] = f"RankEnded: the rank no longer answers: {why}"
        self.waiting.pop(rank, None)

    def again(self, channel: Channel, rank: int, end: float) -> None:
        """Compare the process of `channel`, which runs a rank's calls again, alone, with the recorded run.

        After the first difference, this call and all later ones of the rank are in `varies`.
        """
        why = ""
        for call in (call for call, p in enumerate(self.sizes) if rank < p and rank in self.ended[call]):
            try:
                why = why or self.difference(channel, call, rank, end)
            except (ChannelError, AttributeError, TypeError, LookupError) as error:
                why = f"did not come to its end: {error}"
            if why:
                self.varies[call, rank] = VARIES.format(why)

    def difference(self, channel: Channel, call: int, rank: int, end: float) -> str:
        """Answer a call from the record; return how it differs from the record, or ""."""
        for number, note in enumerate(self.notes[call][rank], 1):
            made = note[: len(CALLS[note[0]]) + 1]
            if not alike(next_of(channel, call, end).get("note"), made):
                return f"its call {number} of the communicator was not the same {note[0]}"
            if note[0] in ASKS:
                channel.send(note[-1] if isinstance(note[-1], dict) else {"value": note[-1]})
        first, second = self.ended[call][rank], next_of(channel, call, end).get("ended")
        if second is None:
            return "it called its communicator more often"
        same = "value" not in first or alike(first["value"], second.get("value"))
        return "" if same else "it returned another value"

    def found(self, call: int, rank: int) -> dict[str, Any]:
        """Return the result of a call on a rank: {"value" or "error", "notes"}.

        A Deadlock that the rank caught is an error, too, because on a real network it would wait forever.
        """
        result: Any = self.ended[call].get(rank, {"error": self.lost.get(rank, LATE)})
        if not isinstance(result, dict) or not {"value", "error"} & set(result):
            result = {"error": LATE}
        notes = [note for note in self.notes[call][rank] if not isinstance(note[-1], dict)]
        refused = [note[-1]["deadlock"] for note in self.notes[call][rank] if isinstance(note[-1], dict)]
        if "error" not in result and refused:
            result = {"error": f"Deadlock: {refused[0]}"}
        elif "error" not in result and (call, rank) in self.varies:
            result = {"error": self.varies[call, rank]}
        return result | {"notes": notes}


def next_of(channel: Channel, call: int, end: float) -> dict[str, Any]:
    """Return the next message about a call; earlier calls may have left threads behind."""
    while (message := channel.receive(max(0.0, end - time.monotonic())))["call"] < call:
        pass
    return message if message["call"] == call else {}


def alike(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)
