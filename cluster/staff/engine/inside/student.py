"""The student process, in a sandbox: runs the cells, then answers the requests of the test process.

After the first cell, nothing in this process, this module included, can be trusted: its messages are data.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any, NoReturn

from IPython.core.interactiveshell import InteractiveShell

from cluster.jobs.backends import forked_ranks

from ..sandbox import namespaces
from . import names
from . import shell as shells
from .channel import Channel, Message
from .codec import Tree, arrays_in, pack, unpack
from .own_time import OwnTime

RANKS = "/tmp/.ranks"
MOST_NAMES = 2**20  # maximum bytes of a notebook's names, as JSON


class TimeLimit(KeyboardInterrupt):
    """A cell or a call took too long; not an Exception, because `except Exception` must not catch it."""


def main(fds: list[int]) -> None:
    channel = Channel.of_this_process()
    channel.send({"hello": True})
    task = channel.receive_task()
    limit(**task["limits"])
    namespaces.deny_own_kill()
    if "tensorflow" in sys.modules:
        warm_ranks()
    sys.path.insert(0, "")
    Notebook(channel, shells.make(task["output"])).serve()


def limit(memory: int, processes: int, size: int, cpu: int) -> None:
    """Set hard limits for this process and its children; sizes in bytes, `cpu` in seconds."""
    for kind, value in [
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024),
    ]:
        resource.setrlimit(kind, (value, value))


def warm_ranks() -> None:
    """Fork a process that forks the ranks of jobs: the libraries are imported, but no cell has run in it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(RANKS)
    listener.listen(64)
    os.environ[forked_ranks.VARIABLE] = RANKS
    if os.fork() == 0:
        os.closerange(3, listener.fileno())
        os.closerange(listener.fileno() + 1, 1024)
        InteractiveShell.clear_instance()
        sys.displayhook, sys.excepthook = sys.__displayhook__, sys.__excepthook__
        try:
            forked_ranks.serve(listener)
        finally:
            os._exit(1)
    listener.close()


def too_long(signum: int, frame: FrameType | None) -> NoReturn:
    raise TimeLimit("the time limit was reached")


@contextlib.contextmanager
def within(seconds: float, own: OwnTime | None = None) -> Iterator[None]:
    """Interrupt the body after `seconds`, then every second; with `own`, delays by others do not count."""

    def ring(signum: int, frame: FrameType | None) -> None:
        if own and (more := own.rest()):
            signal.setitimer(signal.ITIMER_REAL, more, 1)
        else:
            too_long(signum, frame)

    with contextlib.suppress(TimeLimit):
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01), 1)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class Server:
    """Answer requests of the test process for names, calls, attributes and items.

    names: the notebook's global names.
    """

    def __init__(self, channel: Channel, names: dict[str, Any]):
        self.channel, self.names = channel, names
        self.objects: list[Any] = []  # objects with a handle in the test process, which is their index here

    def serve(self) -> dict[str, Any]:
        """Answer requests until the test process ends, or sends the result of a callback; return that."""
        while "do" in (request := self.channel.receive()):
            reply = self.reply(request)
            try:
                self.channel.send(reply or {"error": ["TimeLimit", ""]})
            except (ValueError, RecursionError, MemoryError) as error:  # before any byte was sent
                self.channel.send(
                    {"error": [type(error).__name__, f"the result cannot be sent: {error}"[:4000]]}
                )
        return request

    def reply(self, request: Message) -> Message | None:
        """Return the answer to a request, or None if it took too long."""
        with within(request["seconds"]):
            return self.answer(request)
        return None

    def answer(self, request: Message) -> Message:
        try:
            return getattr(self, request["do"])(request)
        except BaseException as error:
            return {"error": [type(error).__name__, str(error)[:4000]]}

    def fetch(self, request: Message) -> Message:
        name = request["name"]
        if name not in self.names:
            return {"missing": True}
        return self.value(self.names[name])

    def call(self, request: Message) -> Message:
        args, kwargs = self.unpack(request["args"]), self.unpack(request["kwargs"])
        given = list(arrays_in([args, kwargs]))
        before = [(a.shape, a.tobytes()) for a in given]
        result = self.objects[request["object"]](*args, **kwargs)
        changed = [[i, self.pack(a)] for i, a in enumerate(given) if (a.shape, a.tobytes()) != before[i]]
        return self.value(result) | {"changed": changed}

    def get(self, request: Message) -> Message:
        return self.value(getattr(self.objects[request["object"]], request["name"]))

    def item(self, request: Message) -> Message:
        return self.value(self.objects[request["object"]][self.unpack(request["key"])])

    def length(self, request: Message) -> Message:
        return self.value(len(self.objects[request["object"]]))

    def signature(self, request: Message) -> Message:
        function = self.objects[request["object"]]
        return self.value([function.__name__, list(inspect.signature(function).parameters)])

    def replace(self, request: Message) -> Message:
        """Bind a global name to a function of the check, or to its previous value."""
        self.names[request["name"]] = self.unpack(request["value"])
        return self.value(None)

    def remove(self, request: Message) -> Message:
        """Delete a global name until it is bound to its value again."""
        del self.names[request["name"]]
        return self.value(None)

    def value(self, value: Any) -> dict[str, Any]:
        return {"value": self.pack(value)}

    def pack(self, value: Any) -> Tree:
        return pack(value, self.wrap)

    def wrap(self, value: Any) -> list[Any]:
        if isinstance(value, ModuleType):
            raise TypeError(f"{value.__name__} is a module; a check must import the modules it uses")
        self.objects.append(value)
        return ["object", len(self.objects) - 1, type(value).__name__, callable(value)]

    def unpack(self, tree: Tree) -> Any:
        return unpack(tree, self.unwrap)

    def unwrap(self, tree: list[Any]) -> Any:
        kind, number, *_ = tree
        if kind == "object":
            return self.objects[number]
        return lambda *args, **kwargs: self.back(number, args, kwargs)

    def back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have the test process call a function that the check passed in; return the result."""
        self.channel.send({"back": number, "args": self.pack(args), "kwargs": self.pack(kwargs)})
        answer = self.serve()
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return self.unpack(answer["result"])


class Notebook(Server):
    """Run the notebook's cells for the autograder, and answer the test process between them.

    While the test process asks, the names in `ours` have the values of the provided cells, which the student
    may have bound again; they are the names that functions marked `names.IN_NOTEBOOK` need.
    """

    def __init__(self, channel: Channel, shell: shells.Shell):
        super().__init__(channel, shell.user_ns)
        self.shell, self.ours = shell, dict[str, Any]()
        self.theirs: dict[str, Any] | None = None  # the student's own values of `ours` during a check

    def reply(self, request: Message) -> Message | None:
        if request["do"] == "cell":
            return self.cell(**request)
        if self.theirs is None:
            self.theirs = {name: self.names[name] for name in self.ours.keys() & self.names.keys()}
            self.names.update(self.ours)
        return super().reply(request)

    def cell(self, do: str, text: str, undrawn: bool, binds: list[str], seconds: float) -> Message:
        """Run a cell and return its outputs; `binds`: the names to keep in `ours`."""
        self.names.update(self.theirs or {})
        self.theirs = None
        record, own = self.shell.record, OwnTime(seconds)
        record.take()  # what functions have printed while a check called them
        record.undrawn = undrawn
        with within(seconds, own):
            self.shell.run(text)
        self.ours |= {name: self.names[name] for name in binds if name in self.names}
        return {"outputs": record.take(), "cut": record.cut, "over": own.over}

    def needs(self, request: Message) -> Message:
        """Return the names that cells need and define, before any of them has run (`names.of_cells`)."""
        pairs = names.of_cells(request["cells"])
        return {"pairs": pairs if len(json.dumps(pairs)) < MOST_NAMES else None}
