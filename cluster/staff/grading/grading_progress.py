"""Progress of grading a class: one line redrawn on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.system.processes import Record, alive, identify

from ..course import say
from ..submissions import grading_folder

STOP = "stop.json"  # file next to the progress file, which asks the process to stop
EVERY = 0.5  # seconds between two readings of the workers' reports


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
        self.steps: list[dict[str, Any]] = []
        self.heard = 0.0
        self.begun, self.shown, self.text = time.monotonic(), 0.0, ""
        self.tty = sys.stdout.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.path:
            self.path.unlink(missing_ok=True)
        if self.tty and self.text:
            sys.stdout.write("\n")

    def show(self, status: str = "") -> None:
        """Redraw the line if something has changed. `status`: description of the workers."""
        self.note()
        now, every = time.monotonic(), 0.5 if self.tty else 20.0
        last = self.done == self.total and self.done != self.told
        if not self.total or (now - self.shown < every and not last):
            return
        text = self.line(status)
        if text == self.text:
            return
        self.shown, self.text, self.told = now, text, self.done
        if self.tty:
            sys.stdout.write(f"\r\x1b[K{text[:110]}")
            sys.stdout.flush()
        else:
            say(text)

    def note(self) -> None:
        """Write the file if something has changed."""
        facts = {"done": self.done, "total": self.total, "steps": self.steps}
        if self.path and self.noted != facts:
            self.noted = facts
            grading_folder.write(self.path, json.dumps(facts | {"process": identify(os.getpid())}))

    def hear(self, steps: Callable[[], list[dict[str, Any]]]) -> None:
        """Ask a function for the running steps, at most once per `EVERY` seconds."""
        if time.monotonic() - self.heard > EVERY:
            self.heard, self.steps = time.monotonic(), steps()

    def line(self, status: str) -> str:
        from tqdm.std import tqdm

        prefix, took = f"  {self.what}", time.monotonic() - self.begun
        bar = tqdm.format_meter(self.done, self.total, took, ncols=64, unit="sub", prefix=prefix)
        again = f", {self.again} repeated" if self.again else ""
        return bar + again + (f"; {status}" if status else "")


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
        grading_folder.write(path.with_name(STOP), json.dumps(progress.process))
    return progress is not None


def to_stop(path: Path) -> bool:
    """Return whether this process, which owns the file, has been asked to stop."""
    asked = grading_folder.load(path.with_name(STOP))
    return asked is not None and asked == identify(os.getpid())
