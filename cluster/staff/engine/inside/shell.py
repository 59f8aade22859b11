"""An IPython without a kernel, which runs cells and records their outputs up to a size limit."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from .figures import leave_undrawn

CUT = "[output truncated: it is too long]\n"


class Record:
    """The outputs of the running cell, in nbformat's format; `room` is the number of bytes left."""

    def __init__(self, room: int):
        self.room, self.cut = room, False
        self.outputs: list[dict[str, Any]] = []
        self.undrawn = False  # the figures of this cell need not be drawn

    def add(self, output: dict[str, Any]) -> None:
        """Record an output if it fits."""
        if self.cut:
            return
        self.room -= len(json.dumps(output, default=str))
        if self.room < 0:
            self.cut = True
            output = {"output_type": "stream", "name": "stderr", "text": CUT}
        last = self.outputs[-1] if self.outputs else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["parts"].append(output.pop("text"))
        else:
            if output["output_type"] == "stream":
                output["parts"] = [output.pop("text")]
            self.outputs.append(output)

    def take(self) -> list[dict[str, Any]]:
        """Return the outputs since the last call."""
        taken, self.outputs = self.outputs, []
        for output in taken:
            if "parts" in output:
                output["text"] = "".join(output.pop("parts"))
        return taken


class Stream(io.TextIOBase):
    """A replacement for sys.stdout or sys.stderr."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, name: str, record: Record):
        self.name, self.record = name, record

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() takes text, not {type(text).__name__}")
        if text:
            self.record.add({"output_type": "stream", "name": self.name, "text": text})
        return len(text)

    def writable(self) -> bool:
        return True


class Result(DisplayHook):
    """Record the value of a cell's last expression."""

    shell: Any  # a Shell

    def write_output_prompt(self) -> None:
        """Do nothing: `write_format_data` writes the number."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        self.shell.record.add(
            {
                "output_type": "execute_result",
                "execution_count": self.prompt_count,
                "data": format_dict,
                "metadata": md_dict or {},
            }
        )


class Publisher(DisplayPublisher):
    """Record the outputs of display() and figures."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        source: str | None = None,
        **others: Any,
    ) -> None:
        self.shell.record.add({"output_type": "display_data", "data": data, "metadata": metadata or {}})


class Shell(InteractiveShell):
    """An IPython shell whose `record` contains the outputs."""

    displayhook_class = Result
    display_pub_class = Publisher
    record = Record(0)

    def _showtraceback(self, etype: type, evalue: BaseException, stb: Iterable[str]) -> None:
        self.record.add(
            {
                "output_type": "error",
                "ename": getattr(etype, "__name__", str(etype)),
                "evalue": str(evalue),
                "traceback": list(stb),
            }
        )


def prepare() -> Shell:
    """Return this process's shell, warmed up by an empty cell; a fork server calls this."""
    shell = Shell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.record = Record(0)
    leave_undrawn(lambda: shell.record.undrawn)
    shell.run_cell("pass", silent=True)
    return shell


def make(room: int) -> Shell:
    """Return this process's shell, with sys.stdout and sys.stderr redirected to its record."""
    shell = Shell.instance() if Shell.initialized() else prepare()
    shell.record = Record(room)
    sys.stdout, sys.stderr = Stream("stdout", shell.record), Stream("stderr", shell.record)
    return shell
