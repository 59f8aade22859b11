"""The fork server: a process in a sandbox that has imported the libraries and forks the other sandboxes.

It never runs student code and reads only the autograder's requests. A request is one message on its socket,
{"module", "disk", "user"}, with file descriptors: the child's standard input, output and error, a socket that
reports the child's process ID and end, and the arguments of the module's `main`.
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

MOST = 10  # maximum file descriptors per request


def main() -> None:
    server = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    shell.prepare()
    gc.collect()
    gc.freeze()  # otherwise the children's garbage collectors would write to these shared pages
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
    """Become a sandbox in a child of the server, and report how it ended."""
    sock = socket.socket(fileno=fds[3])
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        namespaces.leave(request["user"])
        inside = os.fork()
        if inside == 0:
            run(request, fds, sock)
        for fd in (*fds[:3], *fds[4:]):
            os.close(fd)
        _, status, usage = os.wait4(inside, 0)
        sock.send(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime]).encode())
        os._exit(0)
    except BaseException as error:
        fail(fds[2], error)


def run(request: dict[str, Any], fds: list[int], sock: socket.socket) -> NoReturn:
    """Run the module of a request in process 1 of the new namespaces."""
    try:
        namespaces.enter(request["disk"], rights=request["module"] == "rank_sandbox")
        sock.send(b"here")  # the kernel adds the process ID for the autograder
        sock.close()
        for number, fd in enumerate(fds[:3]):
            os.dup2(fd, number)
        for fd in fds[:3]:
            os.close(fd)
        os.chdir("/submission")
        for module in filter(None, (random, sys.modules.get("numpy.random"))):
            module.seed()  # otherwise all children would draw the same numbers
        importlib.import_module(f"..inside.{request['module']}", __package__).main(fds[4:])
        os._exit(0)
    except BaseException as error:
        fail(2, error)


def fail(fd: int, error: BaseException) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(fd, f"{type(error).__name__}: {error}".encode())
    os._exit(1)


if __name__ == "__main__":
    main()
