"""Ranks forked from a process that has already imported TensorFlow, which saves seconds per rank.

A process that has imported the libraries and runs no other code may call `serve` on a socket and put its path
into `CLUSTER_WARM`. The launcher then requests its ranks from that process. The autograder does this inside
the sandbox. A process that executes several notebooks in sequence starts such a server with `offered`. If the
server does not answer, ranks are started as usual.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cluster.system import processes, settings

from ..options import check_options
from ..rank.main import main as run_rank
from ..run import provenance

VARIABLE = "CLUSTER_WARM"
LIBRARIES = ("pandas", "keras", "tensorflow", "horovod.tensorflow")  # their import takes seconds


class Rank:
    """A forked rank, with the `pid` and `poll` of a subprocess.Popen for its launcher."""

    def __init__(self, folder: Path, env: dict[str, str]):
        """Request a rank of the job in `folder`. Raises OSError if the server does not answer."""
        self.code: int | None = None
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.line.connect(settings.required(VARIABLE, env))
            self.line.send(json.dumps({"folder": str(folder), "env": env}).encode())
            self.pid = int(self.line.recv(100) or b"0")
        except OSError:
            self.line.close()
            raise
        if not self.pid:
            self.line.close()
            raise ConnectionError("no rank was forked")

    def poll(self) -> int | None:
        """Return None while the rank is running, then its exit code, or -n for signal n."""
        if self.code is None and select.select([self.line], [], [], 0)[0]:
            answer = self.line.recv(100)
            # no answer: the process that watched the rank has exited, and killed it
            self.code = int(answer) if answer else -signal.SIGKILL
            self.line.close()
        return self.code


@contextlib.contextmanager
def offered(modules: Iterable[str]) -> Iterator[subprocess.Popen]:
    """Fork the ranks of jobs from a process that has imported `modules`, while the context is active.

    This covers jobs of this process and of its children; ranks that are still running at the end are
    terminated. At import, libraries see the same environment variables as in a rank with one core.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path := f"{folder}/socket")
            listener.listen(64)  # clients wait while the modules are being imported
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(listener.fileno()), str(os.getpid()), *modules],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()], env=provenance.environment(check_options({})),
            )  # fmt: skip
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = path
        try:
            yield process
        finally:
            os.environ.pop(VARIABLE, None) if before is None else os.environ.update({VARIABLE: before})
            process.kill()
            process.wait()


def main(listener: int, parent: int, modules: list[str]) -> None:
    """Import the modules, then serve on this socket until the parent ends; `offered` starts this process."""
    processes.die_with_parent()
    if os.getppid() != parent:  # the parent had already exited
        return
    for name in modules:
        with contextlib.suppress(ImportError):  # a rank that needs the module reports the error
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the ranks share these pages unless the garbage collector writes to them
    serve(socket.socket(fileno=listener))


def serve(listener: socket.socket) -> None:
    """Fork a rank per request, until this process ends. This process runs none of the ranks' code itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        line, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            with contextlib.suppress(OSError):
                _attend(line)
            os._exit(0)
        line.close()


def _attend(line: socket.socket) -> None:
    processes.die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = json.loads(line.recv(2**20))
    child = os.fork()
    if child == 0:
        line.close()
        os._exit(_run_rank(Path(request["folder"]), request["env"]))
    line.send(str(child).encode())
    handle = os.pidfd_open(child)
    if line.fileno() in select.select([line.fileno(), handle], [], [])[0]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    line.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run_rank(folder: Path, env: dict[str, Any]) -> int:
    """Run a rank in this forked process, as `python -u -m cluster.jobs.rank.main FOLDER` would."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = ["cluster.jobs.rank.main", str(folder)]
    for name, fd in (("stdout", 1), ("stderr", 2)):  # the parent may have redirected them
        setattr(sys, name, io.TextIOWrapper(io.FileIO(fd, "wb", closefd=False), "utf-8", write_through=True))
    for module in filter(None, (random, sys.modules.get("numpy.random"))):
        module.seed()  # otherwise all forked ranks would draw the same numbers
    return run_rank(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
