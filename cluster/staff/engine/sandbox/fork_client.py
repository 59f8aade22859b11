"""The autograder's side of the fork server: a sandbox with loaded libraries, and children forked from it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from cluster.jobs.backends.forked_ranks import LIBRARIES

from ..inside.channel import readable
from ..inside.errors import AnswerTimeoutError, ProcessLostError
from ..verdict import Limits
from . import unprivileged
from .bubblewrap import ENVIRONMENT, Sandbox, Started, within
from .cgroups import Group
from .namespaces import WRITABLE

LIGHT = (
    *("numpy", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "PIL.PngImagePlugin"),
    *("cluster.staff.engine.inside.student", "cluster.staff.engine.inside.test_process", "cluster.jobs"),
)
HEAVY = (*LIBRARIES, "cluster.training.models", "cluster.staff.engine.inside.trials")
NEED_HEAVY = ("tensorflow", "keras", "horovod", "on_ranks")
STARTING = 120  # time limit for a server or a child to report that it runs, in s
CREDENTIALS = struct.Struct("3i")  # process id, user, group


class Servers:
    """The fork servers of an Engine, each started for the first submission that needs it."""

    def __init__(self, sandbox: Sandbox):
        self.sandbox, self.lock = sandbox, threading.Lock()
        self.running: dict[tuple[str, ...], Server] = {}  # {imported modules: server}

    def trial(self, text: str) -> str:
        """Return why this machine cannot fork a sandbox, or "". text: code of the first notebook.

        Raises AnswerTimeoutError if the machine is too busy for an answer.
        """
        for path in self.sandbox.python:
            if within(path, WRITABLE):  # each child mounts an empty folder over it
                return f"Python is in {path}"
        try:
            self.server_for(text).start("student").stop()
            return ""
        except ProcessLostError as error:
            return str(error)

    def server_for(self, text: str) -> Server:
        """Return the server for a notebook with this code. Raises ProcessLostError or AnswerTimeoutError."""
        modules = LIGHT + HEAVY if any(name in text for name in NEED_HEAVY) else LIGHT
        with self.lock:
            server = self.running.get(modules)
            if server and server.process.poll() is not None:
                server.close()
                server = None
            if server is None:
                self.running[modules] = server = Server(self.sandbox, modules)
            return server

    def close(self) -> None:
        for server in self.running.values():
            server.close()


class Server:
    """One fork server, which has imported `modules`."""

    def __init__(self, sandbox: Sandbox, modules: tuple[str, ...]):
        self.limits, self.users, self.lock = sandbox.limits, sandbox.users, threading.Lock()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.thread = ThreadPoolExecutor(1)  # a sandbox ends with the thread that started it
        with theirs:
            self.process = self._begin(sandbox, modules, theirs.fileno())
        assert self.process.stderr
        self.stderr = self.process.stderr
        self.socket.settimeout(STARTING)
        try:
            reply = self.socket.recv(100)
        except TimeoutError as error:
            self.close()
            raise AnswerTimeoutError(
                f"the fork server has not imported its modules in {STARTING} s"
            ) from error
        if reply != b"ready":
            self.process.kill()
            why = self.stderr.read().decode(errors="replace").strip()
            self.close()
            raise ProcessLostError(f"the fork server did not start: {why}")

    def _begin(self, sandbox: Sandbox, modules: Sequence[str], fd: int) -> subprocess.Popen[bytes]:
        """Start the process with its socket `fd`, and give it a range of users. Raises OSError."""
        (about, about_theirs), (go_theirs, go) = os.pipe(), os.pipe()
        options = ["--info-fd", str(about_theirs), "--userns-block-fd", str(go_theirs)]
        options += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if unprivileged.shared():
            options = []
        module = "cluster.staff.engine.sandbox.fork_server"
        process = self.thread.submit(
            subprocess.Popen,
            sandbox.command(module, fd, *modules, options=options),
            pass_fds=[fd, *([about_theirs, go_theirs] if options else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        ).result()
        os.close(about_theirs)
        os.close(go_theirs)
        with os.fdopen(about, "rb") as file, os.fdopen(go, "wb") as told:
            if text := file.read():
                unprivileged.give_range(json.loads(text)["child-pid"])
                told.write(b"1")
        return process

    def start(self, module: str, fds: Sequence[int] = ()) -> Forked:
        """Run `main(fds)` of a module of inside/ in a new sandbox. Raises ChannelError."""
        theirs_in, stdin = os.pipe()
        stdout, theirs_out = os.pipe()
        stderr, theirs_err = os.pipe()
        reports, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reports.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        theirs = [theirs_in, theirs_out, theirs_err, tells.detach()]
        user = self.users.take()
        child = Forked(reports, (stdin, stdout, stderr), self.limits, lambda: self.users.free(user))
        request = json.dumps({"module": module, "disk": self.limits.disk, "user": user}).encode()
        with contextlib.ExitStack() as stack:
            stack.callback(child.stop)
            try:
                with self.lock:
                    socket.send_fds(self.socket, [request], [*theirs, *fds])
            except OSError as error:
                raise ProcessLostError(f"the fork server has ended: {error}") from error
            finally:
                for fd in theirs:
                    os.close(fd)
            child.meet()
            stack.pop_all()
        return child

    def close(self) -> None:
        """Kill the server and all its children."""
        self.process.kill()
        self.process.wait()
        self.stderr.close()
        self.socket.close()
        self.thread.shutdown()


class Forked(Started):
    """A child of a fork server, identified by a pidfd."""

    def __init__(self, told: socket.socket, pipes: Sequence[int], limits: Limits, free: Callable[[], None]):
        streams = [os.fdopen(fd, mode, 0) for fd, mode in zip(pipes, ("wb", "rb", "rb"), strict=True)]
        super().__init__(0, streams, Group([]), free)
        self.told, self.limits = told, limits
        self.handle: int | None = None

    def meet(self) -> None:
        """Get the child's process ID and limit the child. Raises ProcessLostError, AnswerTimeoutError."""
        self.told.settimeout(STARTING)
        try:
            reply, extra, _, _ = self.told.recvmsg(100, socket.CMSG_SPACE(CREDENTIALS.size))
        except TimeoutError as error:
            raise AnswerTimeoutError(f"the fork server did not fork a child within {STARTING} s") from error
        if reply != b"here":
            told = readable(self.stderr.fileno(), 1)
            why = self.stderr.read(2000).decode(errors="replace") if told else ""
            raise ProcessLostError(f"the fork server did not fork a child: {why or 'it has ended'}")
        self.pid = next(CREDENTIALS.unpack(data[: CREDENTIALS.size])[0] for _, _, data in extra)
        self.handle = os.pidfd_open(self.pid)
        self.group = Group.make(self.limits)
        self.group.add(self.pid)

    def killed(self) -> bool:
        """Return whether another process of the machine killed the sandbox.

        Process 1 of a namespace cannot be killed from inside. False if its own CPU or memory limit killed it.
        """
        self.told.settimeout(1)
        try:
            reply = self.told.recv(100)
        except TimeoutError:
            return False
        if not reply:  # the child's parent or the server has ended
            return True
        code, computed = json.loads(reply)
        own = computed >= self.limits.of_process()["cpu"] - 1 or self.group.out_of_memory()
        return code == -signal.SIGKILL and not own

    def stop_now(self) -> None:
        if self.handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
            readable(self.handle, STARTING)
            os.close(self.handle)
            self.handle = None

    def stop(self) -> None:
        super().stop()
        self.told.close()
