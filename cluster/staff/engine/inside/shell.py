"""Jupyter's kernel without a connection: it runs cells and records their outputs up to a size limit."""

from __future__ import annotations

import contextvars
import fcntl
import json
import os
import sys
import threading
from typing import Any

import comm
from ipykernel import iostream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.zmqshell import ZMQInteractiveShell
from jupyter_client import session
from traitlets.config import Config

from .figures import leave_undrawn

CUT = "[output truncated: it is too long]\n"
LARGE = 2**20  # bytes that processes have written, above which their file is emptied
CONFIG = Config(HistoryManager={"enabled": False}, IPKernelApp={"connection_file": ""})  # as a kernel has it


class Record:
    """The outputs of the running cell, in nbformat's format; `room` is the number of bytes left.

    files: {name of a stream: file in memory that its file descriptor writes to}.
    """

    def __init__(self, room: int, files: dict[str, int] | None = None):
        self.room, self.cut, self.files = room, False, files or {}
        self.read = dict.fromkeys(self.files, 0)  # bytes already read of each file
        self.outputs: list[dict[str, Any]] = []
        self.undrawn = False  # the figures of this cell need not be drawn
        self.clearing = False  # before the next output

    def publish(self, kind: str, content: dict[str, Any]) -> None:
        """Do what a notebook does with one of the kernel's messages."""
        name = content.get("transient", {}).get("display_id")
        output = {key: value for key, value in content.items() if key != "transient"}
        self.collect()
        if kind == "clear_output":
            self.clearing = bool(content.get("wait"))
            return None if self.clearing else self.clear()
        for shown in [o for o in self.outputs if name is not None and o.get("display_id") == name]:
            self.room += size(shown)
            shown.update({key: output[key] for key in ("data", "metadata")})
            self.spend(shown)
        if kind in ("display_data", "execute_result", "error", "stream"):
            self.add({"output_type": kind, "display_id": name} | output)

    def spend(self, output: dict[str, Any]) -> None:
        """Take the room for an output. If there is too little, the output becomes a note."""
        self.room -= size(output)
        if self.room < 0:
            self.cut = True
            output.clear()
            output.update(output_type="stream", name="stderr", text=CUT)

    def add(self, output: dict[str, Any]) -> None:
        if self.clearing:
            self.clear()
        if self.cut:
            return
        self.spend(output)
        last = self.outputs[-1] if self.outputs else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["parts"].append(output["text"])
        else:
            if output["output_type"] == "stream":
                output = {key: output[key] for key in ("output_type", "name")} | {"parts": [output["text"]]}
            self.outputs.append(output)

    def collect(self) -> None:
        """Record what processes and C code have written to the file descriptors."""
        for name, fd in self.files.items():
            written = os.fstat(fd).st_size
            if written > self.read[name]:
                text = os.pread(fd, min(written - self.read[name], max(self.room, 0) + 1), self.read[name])
                self.read[name] = written
                self.add({"output_type": "stream", "name": name, "text": text.decode(errors="replace")})

    def clear(self) -> None:
        if not self.cut:
            self.room += sum(map(size, self.outputs))
        self.outputs, self.clearing = [], False

    def take(self) -> list[dict[str, Any]]:
        """Return the outputs since the last call."""
        self.collect()
        taken, self.outputs, self.clearing = self.outputs, [], False
        for output in taken:
            output.pop("display_id", None)
            if "parts" in output:
                output["text"] = "".join(output.pop("parts"))
        for name, fd in self.files.items():
            if self.read[name] > LARGE:
                os.ftruncate(fd, 0)
                self.read[name] = 0
        return taken


def size(output: dict[str, Any]) -> int:
    return len(json.dumps(output, default=str))


class OutStream(iostream.OutStream):
    """sys.stdout or sys.stderr: text goes to the record, and from a forked process to descriptor 1 or 2."""

    def __init__(self, name: str, record: Record, parent: session.Session):
        # Jupyter's own __init__ starts threads, so its state is set here.
        self.name, self.record, self.session, self.echo = name, record, parent, None
        self.topic, self.pub_thread = b"stream." + name.encode(), True  # True: not closed
        self._parent_header = contextvars.ContextVar[dict[str, Any]]("parent_header")
        self._parent_header_global: dict[str, Any] = {}
        self._local, self._should_watch, self._isatty = threading.local(), False, False
        self._master_pid = os.getpid()

    def fileno(self) -> int:
        return 1 if self.name == "stdout" else 2

    def write(self, string: str) -> int:
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if self.pub_thread is None:
            raise ValueError("I/O operation on closed file")
        if os.getpid() != self._master_pid:
            os.write(self.fileno(), string.encode(errors="replace"))
        elif string:
            self.record.publish("stream", {"name": self.name, "text": string})
        return len(string)

    def flush(self) -> None:
        """Do nothing: all text is recorded at once."""


class Session(session.Session):
    """Gives the kernel's messages to the record of its shell."""

    def send(self, stream: Any, msg_or_type: Any, content: Any = None, *args: Any, **kwargs: Any) -> Any:
        message = msg_or_type if isinstance(msg_or_type, dict) else self.msg(msg_or_type, content)
        if os.getpid() == self.pid:
            Shell.instance().record.publish(message["header"]["msg_type"], message["content"])
        return message


class Shell(ZMQInteractiveShell):
    """A kernel's IPython whose `record` contains the outputs."""

    record = Record(0)

    def enable_gui(self, *_: Any) -> None:
        """Do nothing: no window can be opened."""

    def run(self, text: str) -> None:
        """Run a cell."""
        self.kernel.set_parent([b""], self.kernel.session.msg("execute_request", {"code": text}))
        self.run_cell(text, store_history=True)


class Kernel(IPythonKernel):
    """A kernel that is not connected to anything."""

    def __init__(self, **traits: Any):
        super(IPythonKernel, self).__init__(**traits)  # IPythonKernel's own __init__ starts a debugger
        self.session = Session(parent=self)
        self.shell = Shell.instance(parent=self, kernel=self, user_ns={}, compiler_class=self.compiler_class)
        for part in (self.shell.displayhook, self.shell.display_pub):
            part.session = self.session  # type: ignore[union-attr]
        self.comm_manager = comm.get_comm_manager()


def prepare() -> Shell:
    """Return this process's shell, warmed up by an empty cell; a fork server calls this."""
    shell: Any = Kernel.instance(config=CONFIG).shell
    shell.record = Record(0)
    leave_undrawn(lambda: shell.record.undrawn)
    shell.run_cell("pass", silent=True)
    return shell


def make(room: int) -> Shell:
    """Return this process's shell, whose record gets all that is written to file descriptors 1 and 2, too."""
    shell = Shell.instance() if Shell.initialized() else prepare()
    files = {}
    for fd, name in ((1, "stdout"), (2, "stderr")):
        files[name] = os.memfd_create(name)
        fcntl.fcntl(files[name], fcntl.F_SETFL, os.O_APPEND)
        os.dup2(files[name], fd)
    shell.record, shell.kernel.session.pid = Record(room, files), os.getpid()
    sys.stdout, sys.stderr = (OutStream(name, shell.record, shell.kernel.session) for name in files)
    shell.kernel._forward_input(allow_stdin=False)
    return shell
