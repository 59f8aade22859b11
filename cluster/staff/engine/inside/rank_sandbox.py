"""The third kind of sandbox: ranks that run a function of the notebook for a check.

The first process never runs student code. For each call it forks a supervisor. The supervisor forks the
ranks, sends each its own inputs when all have connected, collects their answers, inspects their files and
kills them. Ranks either communicate through Horovod, or through the supervisor, which records their messages
(`relay`). In the second case each rank has a separate network and view of the file system, and runs again
alone when all others have ended. No process lets another read its memory, and none is forked from one that
has seen inputs. A rank creates the function from the source of the notebook (`names.needed_by`); the test
process judges its answers, which are plain data.
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
from typing import Any, NoReturn

from cluster.checks.ranks import GRACE, attempt, crowding, files_in
from cluster.jobs.backends.forked_ranks import LIBRARIES
from cluster.jobs.rank import rendezvous
from cluster.jobs.run.run_folder import Run

from ..sandbox import namespaces
from . import names
from .ask_ranks import MEETING, no_data
from .channel import Channel, Message
from .codec import Tree, pack, unpack
from .errors import AnswerTimeoutError, ProcessLostError
from .relay import Relay, work_off
from .student import TimeLimit, limit

CALL = 20.0  # seconds for one call of several on ranks with a relay, on an idle machine


def main(fds: list[int]) -> None:
    keep_memory_private()
    channel = Channel.of_this_process()
    for name in LIBRARIES:  # a child of the fork server has already imported them
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
        if os.waitpid(supervisor, 0)[1]:  # the test process has ended, or a rank has killed the supervisor
            return
        end_all()


def keep_memory_private() -> None:
    """Prevent other processes of this user from reading this one's memory, tracing it or using its files."""
    namespaces.call("prctl", namespaces.DUMPABLE, 0, 0, 0, 0)


def end_all() -> None:
    """Kill the processes that the ranks of a call have started, and remove their files."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all processes that this one can kill, except itself
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            pass
    for folder in namespaces.WRITABLE:
        os.chmod(folder, 0o700)
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def supervise(channel: Channel, task: Message) -> NoReturn:
    """Make one call in this process, and exit with status 0 after the answer."""
    status = 1
    try:
        request = channel.receive()
        request["seconds"] *= crowding()
        folder = Path(tempfile.mkdtemp())
        with contextlib.suppress(PermissionError):  # mounts end with this process
            namespaces.call("unshare", namespaces.MOUNTS)
        ranks = [Rank(r, request, task, folder) for r in range(request["ranks"])]
        if request["sizes"]:
            again = [Rank(r, request, task, folder / "again") for r in range(request["ranks"])]
            relay(channel, ranks, again, request)
        else:
            call(channel, ranks, request)
        status = 0
    except ProcessLostError:
        pass
    finally:
        os._exit(status)


def call(channel: Channel, ranks: list[Rank], request: Message) -> None:
    """Send the results of all ranks as one message."""
    if not begun(channel, ranks, ranks):
        return
    end = time.monotonic() + request["seconds"] + GRACE
    answers = [rank.answer(end) for rank in ranks]
    for answer, files in zip(answers, left(ranks), strict=True):
        answer["files"] = files
    try:
        channel.send({"ranks": answers})
    except ValueError as error:  # the results together are too large
        why = f"RankEnded: the results of the ranks are too large: {error}"
        channel.send({"ranks": [{"error": why, "files": answer["files"]} for answer in answers]})


def relay(channel: Channel, ranks: list[Rank], again: list[Rank], request: Message) -> None:
    """Forward the ranks' messages, and run each rank again, alone, in the process that waits in `again`.

    Send the result of each call on each rank, then the ranks' files.
    """
    inputs = begun(channel, ranks, [*ranks, *again])
    if not inputs:
        return
    between = Relay([rank.channel for rank in ranks], request["sizes"], channel.receive()["kept"])
    between.run(time.monotonic() + request["seconds"] + GRACE)
    files = left(ranks)
    for rank in ranks:
        rank.end()
    end = time.monotonic() + request["seconds"] + GRACE
    for number, rank in enumerate(again):
        with contextlib.suppress(ProcessLostError):  # then it does not come to its end
            rank.channel.send(inputs[number])
        between.again(rank.channel, number, end)
        rank.end()
    for number, size in enumerate(request["sizes"]):
        for place in range(size):
            try:
                channel.send(between.found(number, place))
            except ValueError as error:
                channel.send({"error": f"the messages are too large: {error}", "notes": []})
    channel.send({"files": files})


def begun(channel: Channel, ranks: list[Rank], all_ranks: list[Rank]) -> list[Message]:
    """Forward the inputs to `ranks` and return them, or report that not all ranks connected."""
    inputs = [channel.receive() for _ in ranks]
    end = time.monotonic() + MEETING
    met = [rank.answer(end) for rank in all_ranks]
    if any(answer != {"met": True} for answer in met):  # no student code has run yet
        channel.send({"unmet": f"the ranks did not connect within {MEETING} s: {met}"})
        return []
    for rank, given in zip(ranks, inputs, strict=True):
        with contextlib.suppress(ProcessLostError):  # `answer` will report that the rank has ended
            rank.channel.send(given)
    return inputs


def left(ranks: list[Rank]) -> list[dict[str, tuple[int, str, int]]]:
    """Stop all ranks, so that their files no longer change, and return the files of each rank."""
    for rank in ranks:
        os.kill(rank.pid, signal.SIGSTOP)
    return [files_in(rank.folder) for rank in ranks]


class Rank:
    """The supervisor's side of a rank."""

    def __init__(self, number: int, request: Message, task: Message, folder: Path):
        """Fork the rank, before the supervisor has received any inputs."""
        self.folder = folder / f"rank-{number}"
        self.folder.mkdir(parents=True)
        source, theirs_out = os.pipe()
        theirs_in, target = os.pipe()
        self.channel = Channel(source, target)
        self.pid = self.fork(task["limits"]["size"] if request["sizes"] else 0)
        if self.pid == 0:
            work(Channel(theirs_in, theirs_out), number, request, task, folder, self.folder)
        os.close(theirs_in)
        os.close(theirs_out)

    def fork(self, size: int) -> int:
        """Fork like os.fork(); with a `size` in bytes, the child has its own disk and process IDs."""
        try:
            if size:
                namespaces.empty(size, [str(self.folder)])
                return namespaces.fork_apart()
        except PermissionError:  # a sandbox without the fork server (README)
            pass
        return os.fork()

    def end(self) -> None:
        """Kill the rank and wait until nothing of it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def answer(self, end: float) -> Message:
        """Return the rank's next message, or the reason why there is none by `end` (monotonic clock)."""
        try:
            reply = self.channel.receive(max(0.0, end - time.monotonic()))
        except AnswerTimeoutError:
            return {"unfinished": "a function"}
        except ProcessLostError as error:
            return {"error": f"RankEnded: the rank no longer answers: {error}"}
        if not isinstance(reply, dict):
            return {"error": "RankEnded: the rank sent an invalid answer"}
        return reply


def work(channel: Channel, number: int, request: Message, task: Message, folder: Path, own: Path) -> NoReturn:
    """Run in the rank: connect to the others, receive the inputs, call the function, send the result."""
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
                namespaces.part(own, task["limits"]["size"])
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
        signal.pause()  # exiting would wake the ranks that wait for this one
    finally:
        os._exit(1)


def meet(folder: Path, number: int, ranks: int) -> None:
    """Connect the ranks through Horovod's rendezvous."""
    for name in [name for name in os.environ if name.startswith(("CLUSTER_", "HOROVOD_"))]:
        del os.environ[name]
    os.environ["CLUSTER_LAUNCHER"] = "local"
    stop = rendezvous.meet(Run(folder), rendezvous.Position(number, (ranks,), "1"), set())
    rendezvous.start_horovod(ranks)
    stop()


def run(request: Message, given: Message, cells: Sequence[Sequence[Any]]) -> Tree:
    """Create the functions from the notebook's cells, call the requested one and return its packed value."""
    function, functions = function_of(request, given["functions"], cells)
    with explained([request["function"], *given["functions"].values()], cells):
        return pack(function(**unpack(given["inputs"], no_data), **functions), no_data)


def function_of(
    request: Message, arguments: dict[str, str], cells: Sequence[Sequence[Any]]
) -> tuple[Any, dict[str, Any]]:
    """Return the requested function of the notebook, and {argument: function} for its function arguments."""
    instead = compile(request["instead"], "<instead>", "exec")
    wanted = [request["function"], *arguments.values()]
    known = notebook([*wanted, *names.used(instead)], cells, instead)
    for name in wanted:
        if name not in known:
            raise NameError(f"name {name!r} is not defined")
    return known[request["function"]], {argument: known[name] for argument, name in arguments.items()}


def notebook(
    wanted: Iterable[str], cells: Sequence[Sequence[Any]], instead: CodeType | None = None
) -> dict[str, Any]:
    """Run the cells that the functions `wanted` need, and return their namespace; cells: [(text, kind)].

    After all cells, the read-only cells run again, because their values take precedence, and then `instead`.
    An error ends its cell, as in a notebook.
    """
    module = sys.modules["__main__"] = ModuleType("__main__")
    for number, (text, _) in enumerate(cells):  # for code that reads sources, such as AutoGraph
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
    """Add to the error of an unsolved blank the functions that a scratch cell defines without effect."""
    try:
        yield
    except NotImplementedError as error:
        if again := ", ".join(names.bound_again(wanted, cells)):
            why = f"{again}: the cell marked YOUR CODE HERE is used here, not the other cell that defines it"
            error.args = (why,)
        raise
