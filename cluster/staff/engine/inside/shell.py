"""An IPython without a kernel: runs cells and keeps what they show, up to so many bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from .figures import leave_undrawn

CUT = "[the output was cut here: it is too long]\n"


class Record:
    """The outputs of the running cell, as nbformat writes them."""

    def __init__(self, room: int):
        self.room, self.cut = room, False
        self.outputs: list[dict[str, Any]] = []
        self.undrawn = False  # the figures of this cell need not be drawn

    def add(self, output: dict[str, Any]) -> None:
        """Keep an output if there is room for it."""
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
        """The outputs since the last call."""
        taken, self.outputs = self.outputs, []
        for output in taken:
            if "parts" in output:
                output["text"] = "".join(output.pop("parts"))
        return taken


class Stream:
    """Stands for sys.stdout or sys.stderr."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, name: str, record: Record):
        self.name, self.record = name, record

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() takes text, not {type(text).__name__}")
        if text:
            self.record.add({"output_type": "stream", "name": self.name, "text": text})
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Nothing waits."""

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class Result(DisplayHook):
    """Keeps the value of a cell's last expression."""

    shell: Any  # a Shell

    def write_output_prompt(self) -> None:
        """The number of the result is written with it."""

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
    """Keeps what display() and pictures show."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        source: str | None = None,
        **others: Any,
    ) -> None:
        self.shell.record.add({"output_type": "display_data", "data": data, "metadata": metadata or {}})


class Shell(InteractiveShell):
    """Its `record` has the outputs."""

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
    """The shell of this process, with all that IPython loads for a first cell; a fork server calls this."""
    shell = Shell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.record = Record(0)
    leave_undrawn(lambda: shell.record.undrawn)
    shell.run_cell("pass", silent=True)
    return shell


def make(room: int) -> Shell:
    """The shell of this process, with sys.stdout and sys.stderr turned to its record."""
    shell = Shell.instance() if Shell.initialized() else prepare()
    shell.record = Record(room)
    sys.stdout, sys.stderr = Stream("stdout", shell.record), Stream("stderr", shell.record)
    return shell
