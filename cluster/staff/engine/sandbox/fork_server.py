"""The fork server, in a sandbox: holds the libraries imported and forks a process for each side of a grading.

It never runs a line of a student's and reads only what the engine sends. A request is one message on its
socket, {"module", "disk"}, with file descriptors: the child's standard input, output and errors, a socket on
which its process id and its end are told, and those that are for `main` of the module.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
from typing import Any, NoReturn

from ..inside import shell
from . import namespaces

PRIVATE = ("/dev/shm", "/tmp", "/submission")
MOST = 10  # file descriptors


def main() -> None:
    server = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    shell.prepare()
    gc.collect()
    gc.freeze()  # what is here now is shared by all children: their collector shall not touch its pages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server.send(b"ready")
    while True:
        request, fds, _, _ = socket.recv_fds(server, 65536, MOST)
        if not request:
            return
        if os.fork() == 0:
            server.close()
            child(json.loads(request), fds)
        for fd in fds:
            os.close(fd)


def child(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """In a child of the server's: become a sandbox, tell how it ended, never return."""
    told = socket.socket(fileno=fds[3])
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        namespaces.leave()
        inside = os.fork()
        if inside == 0:
            run(request, fds, told)
        for fd in (*fds[:3], *fds[4:]):
            os.close(fd)
        _, status, usage = os.wait4(inside, 0)
        told.send(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime]).encode())
        os._exit(0)
    except BaseException as error:
        fail(fds[2], error)


def run(request: dict[str, Any], fds: list[int], told: socket.socket) -> NoReturn:
    """In the first process of the new namespaces."""
    try:
        namespaces.enter(request["disk"], PRIVATE, rights=request["module"].endswith(".ranks"))
        told.send(b"here")  # the kernel tells the engine whose message this is
        told.close()
        for number, fd in enumerate(fds[:3]):
            os.dup2(fd, number)
        for fd in fds[:3]:
            os.close(fd)
        os.chdir("/submission")
        for module in filter(None, (random, sys.modules.get("numpy.random"))):
            module.seed()  # or all children would draw the same numbers
        importlib.import_module(request["module"]).main(fds[4:])
        os._exit(0)
    except BaseException as error:
        fail(2, error)


def fail(fd: int, error: BaseException) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(fd, f"{type(error).__name__}: {error}".encode())
    os._exit(1)


if __name__ == "__main__":
    main()
