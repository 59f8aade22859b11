"""Ranks forked from a process that holds TensorFlow already, where one offers that: seconds saved for each.

Whoever has the libraries imported and runs no other code may `serve` on a socket and put its path into
`CLUSTER_WARM`: the launcher then asks there for its ranks. A grader does it inside a student's sandbox. Where
nobody answers, ranks are started as ever.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from . import runner

VARIABLE = "CLUSTER_WARM"


class Rank:
    """A rank as its launcher sees it: the `pid` and `poll` of a subprocess.Popen."""

    def __init__(self, folder: Path, env: dict[str, str]):
        """Ask for a rank of the job in `folder`. Raises OSError where nobody answers."""
        self.code: int | None = None
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.line.connect(env[VARIABLE])
            self.line.send(json.dumps({"folder": str(folder), "env": env}).encode())
            self.pid = int(self.line.recv(100) or b"0")
        except OSError:
            self.line.close()
            raise
        if not self.pid:
            self.line.close()
            raise ConnectionError("no rank was forked")

    def poll(self) -> int | None:
        """None while it runs, then its exit code, -n for signal n."""
        if self.code is None and select.select([self.line], [], [], 0)[0]:
            said = self.line.recv(100)
            self.code = int(said) if said else -signal.SIGKILL  # who watched it has gone, and it with them
            self.line.close()
        return self.code


def serve(listener: socket.socket) -> None:
    """Fork a rank for each that asks, until this process ends. Runs nothing of theirs itself."""
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
    """Fork one rank, tell its process id and its end; end it where the launcher has gone."""
    runner.die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked = json.loads(line.recv(2**20))
    child = os.fork()
    if child == 0:
        line.close()
        os._exit(_run(Path(asked["folder"]), asked["env"]))
    line.send(str(child).encode())
    handle = os.pidfd_open(child)
    if line in select.select([line, handle], [], [])[0]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    line.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(folder: Path, env: dict[str, Any]) -> int:
    """What `python -u -m cluster.jobs.runner FOLDER` does, in a process of one's own."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = ["cluster.jobs.runner", str(folder)]
    for name, fd in (("stdout", 1), ("stderr", 2)):  # what the notebook's process had turned elsewhere
        setattr(sys, name, io.TextIOWrapper(io.FileIO(fd, "wb", closefd=False), "utf-8", write_through=True))
    for module in filter(None, (random, sys.modules.get("numpy.random"))):
        module.seed()  # or all ranks would draw the same numbers
    return runner.main(folder)
