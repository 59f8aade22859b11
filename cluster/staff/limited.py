"""Run a function of this package on a student's data, in a process with limits on time and memory.

A text short enough to be submitted can make a parser, a decompressor or a renderer take hours, or all memory.
Other submissions must not depend on the process that handles such a text. One server imports the modules and
forks a process per call; the first call starts it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib
import json
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from .course import CourseError, SubmissionError

SECONDS = 60  # seconds of CPU time
MEMORY = 2 * 2**30  # bytes of memory for data
STRETCH = 10  # wall-clock limit, as a multiple of the CPU limit: other processes may use the processors
LARGEST = 2**28  # maximum bytes of a result as JSON
OWN = {kind.__name__: kind for kind in (SubmissionError, CourseError)}  # exceptions that are raised again
CODE = 4  # bytes for the exit status


def call(function: Callable, *arguments: Any, seconds: int = SECONDS, memory: int = MEMORY) -> Any:
    """Return `function(*arguments)`, computed in a separate process.

    function: a module-level function; its value must be plain JSON data. arguments: picklable values.
    seconds: limit of CPU time. memory: limit in bytes. Raises SubmissionError if a limit is reached or the
    function fails, OSError if the machine fails, and exceptions of the function that are in OWN.
    """
    with _guard:
        request, reply = _server.start()
    with open(request, "wb") as asks, open(reply, "rb") as answers:
        with contextlib.suppress(BrokenPipeError):
            asks.write(pickle.dumps((seconds, memory, function, arguments)))
            asks.close()
        data = answers.read(LARGEST + CODE)
    code = int.from_bytes(data[-CODE:], "big", signed=True)
    if len(data) < CODE or code == -signal.SIGKILL:
        raise OSError(
            errno.ENOMEM, "the process that handled a submission was killed, perhaps because memory ran out"
        )
    if code in (-signal.SIGXCPU, -signal.SIGALRM):
        raise SubmissionError(f"takes more than {seconds} s to process")
    if code or len(data) == LARGEST + CODE:
        raise SubmissionError(f"cannot be processed: the process ended with exit status {code}")
    kind, value = json.loads(data[:-CODE])
    if kind == "value":
        return value
    raise OSError(*value) if kind == "machine" else OWN[kind](value)


def preload(*modules: str) -> None:
    """Have the server import modules once for all calls, if it has not started yet."""
    _server.modules = (__name__, *modules)


class _Server:
    """The server process, which forks a process per call."""

    def __init__(self) -> None:
        self.modules: tuple[str, ...] = ()
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None

    def start(self) -> tuple[int, int]:
        """Have the server fork a process; return the descriptors to write its request and read its answer."""
        if self.process is None or self.process.poll() is not None:
            self.stop()
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            command = [sys.executable, "-m", __name__, str(theirs.fileno()), *self.modules]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            theirs.close()
        assert self.socket is not None
        theirs_in, request = os.pipe()
        reply, theirs_out = os.pipe()
        try:
            socket.send_fds(self.socket, [b"work"], [theirs_in, theirs_out])
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return request, reply

    def stop(self) -> None:
        """End the server; processes that it has forked finish their work."""
        if self.socket:
            self.socket.close()
        if self.process:
            self.process.wait()
        self.socket = self.process = None


_server, _guard = _Server(), threading.Lock()
atexit.register(_server.stop)


def main(fd: int, *modules: str) -> None:
    """Run the server, which forks a process per message until the other side ends."""
    for name in modules:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.socket(fileno=fd)
    while True:
        message, fds, _, _ = socket.recv_fds(server, 16, 2)
        if not message:
            return
        if os.fork() == 0:
            server.close()
            _watch(*fds)
        for one in fds:
            os.close(one)


def _watch(request: int, reply: int) -> NoReturn:
    """Run the request in a child, and append its exit status to the answer."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    worker = os.fork()
    if worker == 0:
        _work(request, reply)
    os.close(request)
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    with contextlib.suppress(OSError):  # the reader has ended
        os.write(reply, code.to_bytes(CODE, "big", signed=True))
    os._exit(0)


def _work(request: int, reply: int) -> NoReturn:
    """Read the request, set the limits, call the function, and write its value or its error."""
    with open(request, "rb") as asks:
        seconds, memory, function, arguments = pickle.load(asks)
    signal.alarm(STRETCH * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    message: list[Any]
    try:
        message = ["value", function(*arguments)]
    except (SubmissionError, CourseError) as error:
        message = [type(error).__name__, str(error)]
    except OSError as error:
        message = ["machine", [error.errno, error.strerror, error.filename and str(error.filename)]]
    except MemoryError:
        message = ["SubmissionError", f"takes more than {memory >> 20} MiB of memory to process"]
    except Exception as error:  # parsers can raise anything
        message = ["SubmissionError", f"cannot be processed: {type(error).__name__}: {error}"[:1000]]
    with contextlib.suppress(OSError), open(reply, "wb") as answers:
        answers.write(json.dumps(message).encode())
    os._exit(0)


if __name__ == "__main__":
    from cluster.staff import limited  # the same module object that the functions' own modules import

    limited.main(int(sys.argv[1]), *sys.argv[2:])
