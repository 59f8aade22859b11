"""Where a view is shown while it changes, and the progress bar shown while waiting for a job.

A view is one display of a notebook, replaced in place, or lines of a terminal, overwritten in place, or text
in a pipe, which gets no progress bar. All of it is on standard output: widgets would leave an empty bar in a
saved notebook, and stderr would be an error in a graded cell.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from ..run.status import Status
from . import render
from .curves import Curves
from .protocols import Shown
from .render import View


class Notebook:
    """A single display, replaced in place: text and, of a view with a title, HTML."""

    def __init__(self, display: Any):
        self._display, self._handle, self._picture = display, None, ""

    def show(self, view: View, new: bool, ended: bool) -> None:
        if view.metrics and (new or not self._picture):
            from . import picture

            self._picture = picture.image(*picture.panels(view.metrics, busy=not ended))
        shown = {"text/plain": "\n".join(render.text(view))}
        if view.title:
            shown["text/html"] = render.page(view, self._picture)
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


class Terminal:
    """Lines that are overwritten in place."""

    def __init__(self) -> None:
        self._drawn = 0

    def show(self, view: View, new: bool, ended: bool) -> None:
        size = shutil.get_terminal_size()
        lines = render.text(view, size.columns - 1)
        # lines that have scrolled off the screen cannot be overwritten
        if not ended and len(lines) >= size.lines:
            lines = [*lines[: size.lines - 2], "…"]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stdout.write(up + "".join(f"\r\x1b[K{x}\n" for x in lines) + "\x1b[J")
        sys.stdout.flush()
        self._drawn = len(lines)


class Pipe:
    """One line per change and, at the end, the complete view."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, view: View, new: bool, ended: bool) -> None:
        least = min(view.rows, key=lambda r: r.share if r.share is not None else 2.0)
        facts = ", ".join(f for f in least.facts if f)
        parts = [view.state, *([f"{least.label}: {facts}"] if facts else []), *view.words]
        line = f"{view.title}: {'; '.join(parts)}"
        if ended:
            print("\n".join(render.text(view, 10_000)), flush=True)
        elif line != self._last:
            print(line, flush=True)
        self._last = line


def screen() -> Notebook | Terminal | Pipe:
    """Return where this process shows things."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and hasattr(shell, "kernel"):
        from IPython.display import display

        return Notebook(display)
    return Terminal() if sys.stdout.isatty() else Pipe()


class Progress:
    """A context manager whose `show(status)` draws the state when it has changed."""

    def __init__(self, job: Shown, wanted: bool):
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
            self._screen.show(View(words=[text]), True, status.ended)
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
