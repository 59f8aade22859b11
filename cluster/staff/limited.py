"""Run a function of this package on a student's data, in a process with limits on time and memory.

A text short enough to be submitted can make a parser, a decompressor or a renderer take hours, or all memory.
Other submissions must not depend on the process that handles such a text. One server (multiprocessing's
forkserver) imports the modules and forks a process per call; the first call starts it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import resource
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from .course import CourseError, SubmissionError

SECONDS = 60  # seconds of CPU time
MEMORY = 2 * 2**30  # bytes of memory for data
STRETCH = 10  # wall-clock limit, as a multiple of the CPU limit: other processes may use the processors
LARGEST = 2**28  # maximum bytes of a result as JSON
OWN = {kind.__name__: kind for kind in (SubmissionError, CourseError)}  # exceptions that are raised again
SERVER_LOST = 255  # exit code reported by multiprocessing if the server was killed
FORKS = multiprocessing.get_context("forkserver")
STARTING = threading.Lock()  # one thread at a time may start a process or read an exit code


def call(function: Callable, *arguments: Any, seconds: int = SECONDS, memory: int = MEMORY) -> Any:
    """Return `function(*arguments)`, computed in a separate process.

    function: a module-level function; its value must be plain JSON data. arguments: picklable values.
    seconds: limit of CPU time. memory: limit in bytes. Raises SubmissionError if a limit is reached or the
    function fails, OSError if the machine fails, and exceptions of the function that are in OWN.
    """
    answers, reply = FORKS.Pipe(duplex=False)
    worker = FORKS.Process(target=_work, args=(reply, function, arguments, seconds, memory), daemon=True)
    with answers:
        with reply, STARTING:
            worker.start()
        try:
            data = answers.recv_bytes(LARGEST)  # never a pickle
        except (EOFError, OSError):  # no answer, or one that is too large
            data = b""
    wait([worker.sentinel])
    with STARTING:
        worker.join()
    code = worker.exitcode
    if code in (-signal.SIGKILL, SERVER_LOST):
        raise OSError(
            errno.ENOMEM, "the process that handled a submission was killed, perhaps because memory ran out"
        )
    if code in (-signal.SIGXCPU, -signal.SIGALRM):
        raise SubmissionError(f"takes more than {seconds} s to process")
    if code or not data:
        raise SubmissionError(f"cannot be processed: the process ended with exit status {code}")
    kind, value = json.loads(data)
    if kind == "value":
        return value
    raise OSError(*value) if kind == "machine" else OWN[kind](value)


def preload(*modules: str) -> None:
    """Have the server import modules once for all calls, if it has not started yet."""
    FORKS.set_forkserver_preload(["__main__", __name__, *modules])


def _work(
    reply: Connection, function: Callable, arguments: tuple[Any, ...], seconds: int, memory: int
) -> None:
    """Set the limits, call the function, and send its value or its error."""
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
        if error.errno is None:  # of a decompressor or a parser, not of the machine
            message = ["SubmissionError", f"cannot be processed: {error}"[:1000]]
        else:
            message = ["machine", [error.errno, error.strerror, error.filename and str(error.filename)]]
    except MemoryError:
        message = ["SubmissionError", f"takes more than {memory >> 20} MiB of memory to process"]
    except Exception as error:  # parsers can raise anything
        message = ["SubmissionError", f"cannot be processed: {type(error).__name__}: {error}"[:1000]]
    with contextlib.suppress(OSError):
        reply.send_bytes(json.dumps(message).encode())
