"""Progress of grading a class: one line redrawn on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.system import files
from cluster.system.processes import Record, alive, identify

from ..course import say
from ..submissions import grading_folder

STOP = "stop.json"  # file next to the progress file, which asks the process to stop


@dataclass(frozen=True)
class Step:
    """A submission that is being graded. Times are in Unix seconds, limits in seconds."""

    student: str
    what: str  # the running cell or check
    since: float  # when the cell or check began
    limit: float  # time limit of the cell or check
    began: float  # when the grading of the submission began
    budget: float  # time limit of the submission


@dataclass(frozen=True)
class Running:
    """A running grading: how many submissions are done, and which are in progress, longest first."""

    done: int
    total: int
    process: Record
    steps: list[Step]


class Progress:
    """The progress of `total` submissions; `what` names the operation. A context manager.

    path: a file with the same information for other processes while this process lives; see `running`.
    """

    def __init__(self, total: int, what: str = "graded", path: Path | None = None):
        self.total, self.done, self.again, self.what, self.path = total, 0, 0, what, path
        self.noted: dict[str, Any] | None = None
        self.told: int | None = None
        self.begun, self.shown, self.text = time.monotonic(), 0.0, ""
        self.tty = sys.stdout.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.path:
            self.path.unlink(missing_ok=True)
        if self.tty and self.text:
            sys.stdout.write("\n")

    def show(self, status: str = "", steps: list[dict[str, Any]] | None = None) -> None:
        """Redraw the line, and write the file, if something has changed.

        status: description of the workers. steps: the running steps, as workers report them.
        """
        facts = {"done": self.done, "total": self.total, "steps": steps or []}
        if self.path and self.noted != facts:
            self.noted = facts
            files.write_json(self.path, facts | {"process": identify(os.getpid())}, mode=0o600)
        now, every = time.monotonic(), 0.5 if self.tty else 20.0
        last = self.done == self.total and self.done != self.told
        if not self.total or (now - self.shown < every and not last):
            return
        self.shown, self.text, self.told = now, self.line(status), self.done
        if self.tty:
            sys.stdout.write(f"\r\x1b[K{self.text[:110]}")
            sys.stdout.flush()
        else:
            say(self.text)

    def line(self, status: str) -> str:
        from tqdm.std import tqdm

        prefix, took = f"  {self.what}", time.monotonic() - self.begun
        bar = tqdm.format_meter(self.done, self.total, took, ncols=64, unit="sub", prefix=prefix)
        again = f", {self.again} repeated" if self.again else ""
        return bar + again + (f"; {status}" if status else "")

    def to_stop(self) -> bool:
        """Return whether this process has been asked to stop."""
        asked = self.path and grading_folder.load(self.path.with_name(STOP))
        return bool(asked) and asked == identify(os.getpid())


def running(path: Path) -> Running | None:
    """Return the progress of the process that owns this file, or None if it has ended."""
    facts = grading_folder.load(path)
    if not facts or not alive(facts["process"]):
        return None
    steps = sorted((Step(**item) for item in facts.get("steps", ())), key=lambda step: step.began)
    return Running(facts["done"], facts["total"], facts["process"], steps)


def stop(path: Path) -> bool:
    """Ask the process that owns this file to stop; return whether there is such a process."""
    progress = running(path)
    if progress:
        files.write_json(path.with_name(STOP), progress.process, mode=0o600)
    return progress is not None
