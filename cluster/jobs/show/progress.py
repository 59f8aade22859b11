"""The progress bar shown while waiting for a job.

It is text on standard output, overwritten on a terminal and replaced in a notebook, and not shown elsewhere.
Widgets would leave an empty bar in a saved notebook; stderr would be an error in a graded cell.
"""

from __future__ import annotations

import time
from typing import Any

from ..run.status import Status
from . import render
from .curves import Curves
from .protocols import ShownJob, ShownSweep
from .screens import Pipe, screen


class Progress:
    """A context manager whose `show(status)` draws the state when it has changed."""

    def __init__(self, job: ShownJob | ShownSweep, wanted: bool):
        self._job: Any = job
        self._start, self._text = time.time(), ""
        self._curves = Curves(job.folder)
        self._screen = screen() if wanted else Pipe()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def show(self, status: Status) -> None:
        """Draw the state of the job and the progress of its slowest rank."""
        if isinstance(self._screen, Pipe) or (status.ended and not self._text):
            return  # nowhere to draw, or nothing to wait for
        text = f"{self._job.name}: {status}  {self._line(status)}".rstrip()
        if text != self._text:
            self._screen.show(render.View(words=[text]), True, status.ended)
        self._text = text

    def _line(self, status: Status) -> str:
        self._curves.update()
        ranks = [r for r in self._curves.ranks.values() if r.share is not None]
        if not ranks:
            return "" if status.ended else f"({time.time() - self._start:.0f} s) {status.what}"
        least = min(ranks, key=lambda r: r.step or 0)
        return "  ".join([render.bar(least.share or 0), *filter(None, render.facts(least, status.ended))])


class Items(Progress):
    """The progress bar of a sweep, over its items."""

    def _line(self, status: Status) -> str:
        now = self._job.statuses
        return f"{render.bar(sum(s.ended for s in now) / len(now))}  {status.what}"
