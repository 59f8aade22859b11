"""Where a view is shown while it changes: one display of a notebook, lines of a terminal, or a pipe."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from . import render
from .render import View


class Notebook:
    """A single display, replaced in place. It has HTML, and text for front ends that do not show HTML."""

    def __init__(self, display: Any):
        self._display, self._handle, self._picture = display, None, ""

    def show(self, view: View, new: bool, ended: bool) -> None:
        if view.metrics and (new or not self._picture):
            from . import picture

            self._picture = picture.image(*picture.panels(view.metrics, busy=not ended))
        shown = {"text/plain": "\n".join(render.text(view)), "text/html": render.page(view, self._picture)}
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
