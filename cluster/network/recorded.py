"""The communication of real ranks, recorded by each rank, and timed on any network.

Each rank records what it sends, receives and adds. The combined records show whether they agree, and the same
messages can be replayed in virtual time. A function that has run once on real ranks can thus be judged by
messages, bytes and seconds on any network, in a process that has never executed it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cluster.checks.calls import ENGINE
from cluster.checks.ranks import crowding, described, on_ranks

from .communicator import Communicator, Request
from .errors import NetworkError
from .run import Run
from .sockets import SocketCommunicator, Sockets, connections
from .topologies import Network
from .virtual import simulate

MOST = 10_000  # maximum number of calls that a rank records, since a loop over messages may be infinite
NO_MORE = "the check keeps no more values for this rank"
Kept = Sequence[Sequence[Sequence[np.ndarray]]]  # per call and rank, the arrays that `ask` returns
Note = list[Any]  # [name of the method, its arguments, the received array]


class NotesDiffer(NetworkError, ValueError):
    """A rank has received something different from what another rank has sent."""


class Recorder:
    """A communicator that forwards all calls to another one, and records them in `notes`.

    kept: arrays for `ask`.
    """

    def __init__(self, comm: Communicator, kept: Sequence[np.ndarray] = ()):
        self.rank, self.size, self.notes = comm.rank, comm.size, list[Note]()
        self._kept = [*kept]
        self.time, self._comm, self._requests = comm.time, comm, 0

    def send(self, x: Any, dest: int) -> None:
        self.note("send", np.array(x), int(dest))
        self._comm.send(x, dest)

    def receive(self, source: int, into: Any = None) -> Any:
        received = self._comm.receive(source, into)
        self.note("receive", int(source), np.array(received))
        return received

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        sent = np.array(x)
        received = self._comm.sendreceive(x, dest, source, into)
        self.note("sendreceive", sent, int(dest), int(source), np.array(received))
        return received

    def isend(self, x: Any, dest: int) -> _Request:
        self.note("isend", np.array(x), int(dest))
        return self._request(self._comm.isend(x, dest))

    def ireceive(self, source: int, into: Any = None) -> _Request:
        self.note("ireceive", int(source))
        return self._request(self._comm.ireceive(source, into))

    def add(self, into: Any, x: Any) -> Any:
        self.note("add", int(np.asarray(x).nbytes))
        return self._comm.add(into, x)

    def compute(self, seconds: float) -> None:
        self.note("compute", float(seconds))

    def ask(self, x: Any) -> np.ndarray:
        """Record x, and return the next array that the check keeps for this rank."""
        if not self._kept:
            raise RuntimeError(NO_MORE)
        self.note("ask", np.array(x), self._kept.pop(0))
        return self.notes[-1][-1].copy()

    def note(self, *note: Any) -> None:
        """Record a call."""
        if len(self.notes) >= MOST:
            raise RuntimeError(f"rank {self.rank} has called its communicator {MOST:,} times, and continues")
        self.notes.append([*note])

    def _request(self, request: Request) -> _Request:
        self._requests += 1
        return _Request(self, request, self._requests - 1)


class _Request:
    """A message in transit, recorded when it is waited for."""

    def __init__(self, recorder: Recorder, request: Request, number: int):
        self._recorder, self._request, self._number = recorder, request, number
        self._ended, self._result = False, None

    def wait(self) -> Any:
        if not self._ended:
            self._result, self._ended = self._request.wait(), True
            received = None if self._result is None else np.array(self._result)
            self._recorder.note("wait", self._number, received)
        return self._result


def recorded_on_ranks(
    function: Callable[..., Any],
    cases: Sequence[Sequence[Sequence[Any]]],
    seconds: float = 90.0,
    instead: str = "",
    kept: Kept = (),
) -> tuple[list[Recording], list[list[str]]]:
    """Call `function(comm, *args)` on real ranks, in each case on as many as there are lists of arguments.

    Returns the Recording of each call, and the names of the files that each process left in its folder. In
    grading, a rank is a separate process, which gets only its own arguments. Its messages pass through a
    process that records them. Then each rank runs once more, alone, and gets the recorded messages. If it
    does not send and return the same, its call has an `error`. In a notebook, rank r runs in process r % 2 of
    a job, and records its own actions. instead: as in `on_ranks`. Raises AssertionError if a process fails.

    kept: arrays of the check for each rank, per case. A rank gets the next one when it calls `comm.ask(x)`,
    and x is recorded. Work whose result is such an array can be done neither before nor unrecorded.
    """
    if engine := sys._getframe(1).f_globals.get(ENGINE):
        calls, files = engine.ranks.relayed(function, list(cases), seconds, instead, kept)
        return recordings([calls]), files
    tasks = []
    for process in range(2):
        calls = [(len(case), {rank: case[rank] for rank in range(process, len(case), 2)}) for case in cases]
        tasks.append({"function": function, "calls": calls, "kept": [[*of_call] for of_call in kept]})
    found = on_ranks(record, tasks, seconds=seconds, instead=instead)
    for process, outcome in enumerate(found):
        assert not outcome.error, f"process {process} ended with {outcome.error}"
        assert not outcome.unfinished, f"process {process} did not end"
    return recordings([outcome.value for outcome in found]), [sorted(outcome.files) for outcome in found]


def record(
    function: Callable[..., Any], calls: Sequence[tuple[int, dict[int, Sequence[Any]]]], kept: Kept = ()
) -> list[dict[int, dict[str, Any]]]:
    """Call `function(comm, *args)` on this process's ranks of each call, in a process started by Horovod.

    calls: [(p, {rank: args})] with the ranks below p that run in this process (see `sockets`). Returns {rank:
    {"value": return value, "notes": …}} per call, with "error", a text, instead of a value if it failed.
    """
    return call_all(Sockets(*connections(), 8.0 * crowding()), function, calls, kept)


def call_all(
    sockets: Sockets,
    function: Callable[..., Any],
    calls: Sequence[tuple[int, dict[int, Sequence[Any]]]],
    kept: Kept = (),
) -> list[dict[int, dict[str, Any]]]:
    """Do what `record` does over open connections; a call that does not end leaves no time for later ones."""
    found, limit = [], 2.5 * sockets.patience
    for number, (size, args) in enumerate(calls):
        sockets.meet(number, limit)
        ranks = []
        for r, own in args.items():
            comm = SocketCommunicator(sockets, number, r, size)
            ranks.append(_Rank(Recorder(comm, kept[number][r] if kept else ()), function, own))
        end = time.monotonic() + limit
        for rank in ranks:
            rank.join(max(0.0, end - time.monotonic()))
        found.append({rank.recorder.rank: rank.outcome() for rank in ranks})
        if any(rank.is_alive() for rank in ranks):
            limit = 0.0
    return found


class _Rank(threading.Thread):
    """A rank of one call, in its own thread."""

    def __init__(self, recorder: Recorder, function: Callable[..., Any], args: Sequence[Any]):
        super().__init__(daemon=True)
        self.comm: Any = recorder._comm
        self.recorder, self.found = recorder, dict[str, Any]()
        self.function, self.args = function, args
        self.start()

    def run(self) -> None:
        try:
            self.found["value"] = self.function(self.recorder, *self.args)
        except BaseException as error:
            self.found["error"] = described(error)
        finally:
            self.comm.end()

    def outcome(self) -> dict[str, Any]:
        """Return the outcome of the function. A Deadlock that it caught is an error, too: MPI would hang."""
        found = self.found or {"error": "it does not end"}
        if "value" in found and self.comm.refused:
            found = {"error": f"Deadlock: {self.comm.refused}"}
        return {**found, "notes": [*self.recorder.notes]}


@dataclass
class Recording:
    """A call on several ranks: return `values`, the first failing rank's `error`, and each rank's `notes`."""

    values: list[Any]
    error: str
    notes: list[list[Note]]

    def replay(self, network: Network) -> Run:
        """Replay the same messages and additions in virtual time.

        Raises NotesDiffer if the ranks' records disagree, and what `simulate` raises: Deadlock, if the
        ranks continued only because a real network had buffered a message without a receiver.
        """
        return simulate(lambda comm: _play(comm, self.notes), ranks=len(self.notes), network=network)

    def sent(self) -> list[list[tuple[int, np.ndarray]]]:
        """Return each rank's sent messages, in order: [(dest, array)]."""
        return [
            [(note[2], note[1]) for note in notes if note[0] in ("send", "sendreceive", "isend")]
            for notes in self.notes
        ]


def recordings(processes: Sequence[Sequence[dict[int, dict[str, Any]]]]) -> list[Recording]:
    """Combine the results of `record` from all processes, call by call."""
    made = []
    for of_processes in zip(*processes, strict=True):
        ranks = dict(sorted(one for of_process in of_processes for one in of_process.items()))
        errors = [f"rank {rank}: {one['error']}" for rank, one in ranks.items() if "error" in one]
        # errors of ranks that only waited for another one come last
        errors.sort(key=lambda text: ": Deadlock" in text)
        values = [one.get("value") for one in ranks.values()]
        made.append(Recording(values, errors[0] if errors else "", [one["notes"] for one in ranks.values()]))
    return made


def _play(comm: Communicator, notes: Sequence[Sequence[Note]]) -> None:
    """Repeat the recorded actions of a rank, and verify that it receives the same messages."""
    requests: list[Request] = []
    for name, *args in notes[comm.rank]:
        if name in ("isend", "ireceive"):
            requests.append(getattr(comm, name)(*args))
        elif name == "wait":
            _compare(comm.rank, requests[args[0]].wait(), args[1])
        elif name == "add":
            comm.add(np.zeros(args[0], np.uint8), np.zeros(args[0], np.uint8))
        elif name in ("receive", "sendreceive"):
            _compare(comm.rank, getattr(comm, name)(*args[:-1]), args[-1])
        elif name in ("send", "compute"):
            getattr(comm, name)(*args)
        elif name != "ask":  # takes no time
            raise ValueError(f"rank {comm.rank} has recorded {name!r}, which a communicator never does")


def _compare(rank: int, received: Any, noted: Any) -> None:
    if received is None and noted is None:
        return
    same = np.shape(received) == np.shape(noted) and np.asarray(received).dtype == np.asarray(noted).dtype
    if not same or np.asarray(received).tobytes() != np.asarray(noted).tobytes():
        raise NotesDiffer(f"rank {rank} has recorded a message different from the one sent to it")
