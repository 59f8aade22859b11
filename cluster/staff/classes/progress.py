"""How far the grading of a class is: one line drawn over itself on a terminal, else a line now and then."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from cluster.system.processes import alive, identify

from ..course import say
from . import grading_folder


class Progress:
    """Of `total` submissions; `what` is done to them. Use as a context.

    path: a file that says the same to others while this process lives: {done, total, process}.
    """

    def __init__(self, total: int, what: str = "graded", path: Path | None = None):
        self.total, self.done, self.again, self.what, self.path = total, 0, 0, what, path
        self.noted = self.told = None
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
        """Draw the line anew if something has changed; `status`: what there is to say of the workers."""
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
        """Write the file, where something has changed."""
        if self.path and self.noted != self.done:
            self.noted = self.done
            facts = {"done": self.done, "total": self.total, "process": identify(os.getpid())}
            grading_folder.write(self.path, json.dumps(facts))

    def line(self, status: str) -> str:
        from tqdm.std import tqdm

        prefix, took = f"  {self.what}", time.monotonic() - self.begun
        bar = tqdm.format_meter(self.done, self.total, took, ncols=64, unit="sub", prefix=prefix)
        again = f", {self.again} once more" if self.again else ""
        return bar + again + (f"; {status}" if status else "")


def running(path: Path) -> tuple[int, int] | None:
    """(done, total) of the process that keeps this file, or None where it has ended."""
    facts = grading_folder.load(path)
    return (facts["done"], facts["total"]) if facts and alive(facts["process"]) else None
