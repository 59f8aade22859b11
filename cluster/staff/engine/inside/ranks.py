"""Ranks on which a check calls a function of the notebook: the third kind of sandbox.

Its first process never runs a line of the student's. For each call it makes one that supervises: this forks
the ranks, hands each its own inputs when all have met, collects what they say, looks at their files and ends
them. Ranks either meet in Horovod, or their messages pass through the supervisor, which writes them down
(`relay`); these have a network and a view of the file system of their own. No process here lets another read
its memory, and none is forked from one that has seen inputs. A rank makes the function from the text of the
notebook (`names.needed_by`); what it says is data to be judged.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import linecache
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn, cast

from cluster.checks.ranks import GRACE, attempt, crowding, files_in
from cluster.jobs.backends.forked_ranks import LIBRARIES
from cluster.jobs.rank import rendezvous

from ..sandbox import namespaces
from . import names
from .ask_ranks import MEETING, no_data
from .channel import Channel
from .codec import Tree, pack, unpack
from .errors import AnswerTimeoutError, ProcessLostError
from .messages import NotebookTask, RankAnswer, RankInputs, RankRequest
from .relay import Relay, work_off
from .student import TimeLimit, limit

DUMPABLE = 4  # of prctl(2)
PRIVATE = ("/tmp", "/dev/shm", "/submission")
TERMINALS = "/dev/pts"
CALL = 20.0  # seconds for one call of several on ranks with a relay, on an idle machine


def main(fds: list[int]) -> None:
    keep_memory_private()
    channel = Channel.of_this_process()
    for name in LIBRARIES:  # of a child of the fork server the parent has them
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.displayhook, sys.excepthook = sys.__displayhook__, sys.__excepthook__
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    channel.send({"hello": True})
    task = channel.receive()
    while select.select([channel.source], [], []):
        supervisor = os.fork()
        if supervisor == 0:
            supervise(channel, task)
        if os.waitpid(supervisor, 0)[1]:  # the referee has gone, or a rank has ended the supervisor
            return
        end_all()


def keep_memory_private() -> None:
    """No other process of this user may read this one's memory, trace it or take its open files."""
    namespaces.call("prctl", DUMPABLE, 0, 0, 0, 0)


def end_all() -> None:
    """End whatever a call has left: processes that its ranks have started, and their files."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all that this process may end, but not itself
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            pass
    for folder in PRIVATE:
        os.chmod(folder, 0o700)
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def supervise(channel: Channel, task: NotebookTask) -> NoReturn:
    """One call, in a process of its own, which ends with 0 when it has answered."""
    status = 1
    try:
        request = channel.receive()
        request["seconds"] *= crowding()
        folder = Path(tempfile.mkdtemp())
        with contextlib.suppress(PermissionError):  # what is mounted here ends with this process
            namespaces.call("unshare", namespaces.MOUNTS)
        ranks = [Rank(r, request, task, folder) for r in range(request["ranks"])]
        (relay if request["sizes"] else call)(channel, ranks, request)
        status = 0
    except ProcessLostError:
        pass
    finally:
        os._exit(status)


def call(channel: Channel, ranks: list[Rank], request: RankRequest) -> None:
    """Send what each of the ranks came to, as one message."""
    if not begun(channel, ranks):
        return
    end = time.monotonic() + request["seconds"] + GRACE
    found = [rank.answer(end) for rank in ranks]
    for answer, files in zip(found, left(ranks), strict=True):
        answer["files"] = files
    try:
        channel.send({"ranks": found})
    except ValueError as error:  # too large together
        why = f"RankEnded: the results of the ranks cannot be sent: {error}"
        channel.send({"ranks": [{"error": why, "files": answer["files"]} for answer in found]})


def relay(channel: Channel, ranks: list[Rank], request: RankRequest) -> None:
    """Hand on the ranks' messages; send what each call came to on each rank, and then the ranks' files."""
    if not begun(channel, ranks):
        return
    between = Relay([rank.channel for rank in ranks], request["sizes"])
    between.run(time.monotonic() + request["seconds"] + GRACE)
    for number, size in enumerate(request["sizes"]):
        for rank in range(size):
            found = between.found(number, rank)
            try:
                channel.send(found)
            except ValueError as error:  # too large
                channel.send({"error": f"the messages cannot be judged: {error}", "notes": []})
    channel.send({"files": left(ranks)})


def begun(channel: Channel, ranks: list[Rank]) -> bool:
    """Give the ranks their inputs, the next messages on the channel; or say that they have not met."""
    inputs = [channel.receive() for _ in ranks]
    end = time.monotonic() + MEETING
    met = [rank.answer(end) for rank in ranks]
    if any(answer != {"met": True} for answer in met):  # before a line of the student's has run
        channel.send({"unmet": f"the ranks have not met in {MEETING} s: {met}"})
        return False
    for rank, given in zip(ranks, inputs, strict=True):
        with contextlib.suppress(ProcessLostError):  # it has ended, and its answer will say so
            rank.channel.send(given)
    return True


def left(ranks: list[Rank]) -> list[dict[str, tuple[int, str, int]]]:
    """The files of each rank, which is stopped first, so that they stay as they are."""
    for rank in ranks:
        os.kill(rank.pid, signal.SIGSTOP)
    return [files_in(rank.folder) for rank in ranks]


class Rank:
    """A rank as its supervisor sees it."""

    def __init__(self, number: int, request: RankRequest, task: NotebookTask, folder: Path):
        """Fork it, before the supervisor has seen anybody's inputs."""
        self.folder = folder / f"rank-{number}"
        self.folder.mkdir()
        source, theirs_out = os.pipe()
        theirs_in, target = os.pipe()
        self.channel = Channel(source, target)
        self.pid = self.fork(task["limits"]["size"] if request["sizes"] else 0)
        if self.pid == 0:
            work(Channel(theirs_in, theirs_out), number, request, task, folder, self.folder)
        os.close(theirs_in)
        os.close(theirs_out)

    def fork(self, size: int) -> int:
        """As os.fork(); with a size, on a disk of that size and with process ids of its own."""
        try:
            if size:
                namespaces.empty(size, [str(self.folder)])
                return namespaces.fork_apart()
        except PermissionError:  # a sandbox without the fork server: see the README
            pass
        return os.fork()

    def answer(self, end: float) -> RankAnswer:
        """Its next message, a dict, or why there is none. Waits until `end` on the clock."""
        try:
            reply = self.channel.receive(max(0.0, end - time.monotonic()))
        except AnswerTimeoutError:
            return {"unfinished": "a function"}
        except ProcessLostError as error:
            return {"error": f"RankEnded: the rank cannot be asked any more: {error}"}
        if not isinstance(reply, dict):
            return {"error": "RankEnded: what the rank sent is no answer"}
        return cast(RankAnswer, reply)


def work(
    channel: Channel, number: int, request: RankRequest, task: NotebookTask, folder: Path, own: Path
) -> NoReturn:
    """In the rank: meet the others, learn the inputs, call the function, say what came of it, and stay."""
    try:
        keep_memory_private()
        os.setsid()
        for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
            if fd > 2 and fd not in (channel.source, channel.target):
                with contextlib.suppress(OSError):
                    os.close(fd)
        limit(**task["limits"])
        if request["sizes"]:
            with contextlib.suppress(PermissionError):
                namespaces.part(own, task["limits"]["size"], (*PRIVATE, TERMINALS))
        namespaces.drop()
        if request["sizes"]:
            namespaces.deny_meeting()
        os.chdir(own)
        if not request["sizes"]:
            meet(folder, number, request["ranks"])
        channel.send({"met": True})
        given = channel.receive()
        if request["sizes"]:
            calls = unpack(given["inputs"], no_data)["calls"]
            make = functools.cache(lambda: function_of(request, {}, task["cells"])[0])
            explain = explained([request["function"]], task["cells"])
            work_off(channel, explain(lambda *args: make()(*args)), number, calls, CALL * crowding())
        else:
            call = functools.partial(run, request, given, task["cells"])
            channel.send(attempt(call, request["seconds"]))
        signal.pause()  # who leaves wakes the ranks that wait for it
    finally:
        os._exit(1)


def meet(folder: Path, number: int, ranks: int) -> None:
    """Horovod's rendezvous."""
    for name in [name for name in os.environ if name.startswith(("CLUSTER_", "HOROVOD_"))]:
        del os.environ[name]
    os.environ["CLUSTER_LAUNCHER"] = "local"
    stop = rendezvous.meet(folder, rendezvous.Position(number, (ranks,), "1"), set())
    rendezvous.start_horovod(ranks)
    stop()


def run(request: RankRequest, given: RankInputs, cells: Sequence[Sequence[Any]]) -> Tree:
    """Make the functions from the notebook's cells, and call the one of that name: its value, packed."""
    function, functions = function_of(request, given["functions"], cells)
    with explained([request["function"], *given["functions"].values()], cells):
        return pack(function(**unpack(given["inputs"], no_data), **functions), no_data)


def function_of(
    request: RankRequest, arguments: dict[str, str], cells: Sequence[Sequence[Any]]
) -> tuple[Any, dict[str, Any]]:
    """(the function of the notebook that is asked for, {argument: function} of those that it is given)."""
    instead = compile(request["instead"], "<instead>", "exec")
    known = notebook([request["function"], *arguments.values(), *names.used(instead)], cells, instead)
    functions = {argument: find(name, known) for argument, name in arguments.items()}
    return find(request["function"], known), functions


def notebook(
    wanted: Iterable[str], cells: Sequence[Sequence[Any]], instead: CodeType | None = None
) -> dict[str, Any]:
    """The names of a notebook, as far as the functions `wanted` need them; cells: [(text, kind)].

    The read-only cells are run once more when all have run, so that their values win, and then `instead`.
    What raises an error ends its cell, as in a notebook.
    """
    module = sys.modules["__main__"] = ModuleType("__main__")
    for number, (text, _) in enumerate(cells):  # for who looks at sources, as AutoGraph
        file = names.file_of(number)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    chosen = names.needed_by(wanted, cells)
    for part in (chosen, [(number, code) for number, code in chosen if cells[number][1] == names.PROVIDED]):
        ended = set()
        for number, code in part:
            if number not in ended:
                try:
                    exec(code, vars(module))
                except TimeLimit:
                    raise
                except BaseException:
                    ended.add(number)
    if instead:
        exec(instead, vars(module))
    return vars(module)


@contextlib.contextmanager
def explained(wanted: Iterable[str], cells: Sequence[Sequence[Any]]) -> Iterator[None]:
    """Have the error of an unsolved blank name the functions that a scratch cell defines in vain."""
    try:
        yield
    except NotImplementedError as error:
        if again := ", ".join(names.bound_again(wanted, cells)):
            why = f"{again}: the cell marked YOUR CODE HERE is used here, not the other cell that defines it"
            error.args = (why,)
        raise


def find(name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise NameError(f"name {name!r} is not defined")
    return known[name]


if __name__ == "__main__":
    main(list(map(int, sys.argv[1:])))
