"""The progress bar shown while waiting for a job.

It is text on standard output, overwritten on a terminal and replaced in a notebook, and not shown elsewhere.
Widgets would leave an empty bar in a saved notebook; stderr would be an error in a graded cell.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from cluster.system import files

from ..metrics import OWN, Tail
from ..run.run_folder import RunFolder
from ..run.status import Status
from .protocols import ShownJob, ShownSweep


class Progress:
    """A context manager whose `show(status)` draws the state when it has changed."""

    def __init__(self, job: ShownJob | ShownSweep, wanted: bool):
        self._name, self._folder, self._start = job.name, job.folder, time.time()
        self._tail = Tail(job.folder)
        self._first: dict[int, dict[str, Any]] = {}
        self._last: dict[int, dict[str, Any]] = {}
        self._display: Any = notebook() if wanted else None
        self._tty = wanted and not self._display and sys.stdout.isatty()
        self._handle: Any = None
        self._text: str | None = None
        self._begun: float | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._tty and self._text:
            sys.stdout.write("\n")

    def show(self, status: Status) -> None:
        """Draw the state of the job and the progress of its slowest rank."""
        if not (self._display or self._tty) or (status.ended and self._text is None):
            return  # nowhere to draw, or nothing to wait for
        for row in self._tail.new_rows():
            self._last.setdefault(row["rank"], {}).update(row)
            self._first.setdefault(row["rank"], row)
        text = self._line(status)
        if text == self._text:
            return
        self._text = text
        if self._tty:
            sys.stdout.write(f"\r\x1b[K{text}")
            sys.stdout.flush()
        elif self._handle is None:
            self._handle = self._display(_Plain(text), display_id=True)
        else:
            self._handle.update(_Plain(text))

    def _line(self, status: Status) -> str:
        rows = [r for r in self._last.values() if "step" in r and "steps" in r]
        if not rows:
            waited = "" if status.ended else f" ({time.time() - self._start:.0f} s) {status.what}"
            return f"{self._name}: {status}{waited}"
        from tqdm.std import tqdm

        if self._begun is None:
            self._begun = (files.read_json(RunFolder(self._folder).rank(0)) or {}).get("started", self._start)
        slowest = min(rows, key=lambda r: r["step"])
        first = self._first[slowest["rank"]]  # the rank was starting until its first log call
        steps, seconds = slowest["step"] - first.get("step", 0), slowest["time"] - first["time"]
        rate = steps / seconds if steps > 0 and seconds > 0 else None
        meter = tqdm.format_meter(
            slowest["step"], slowest["steps"], slowest["time"] - self._begun, ncols=72, unit="step", rate=rate
        )
        known = (*OWN, "step", "steps")
        numbers = [
            f"{k} {v:.4g}" for k, v in slowest.items() if isinstance(v, (int, float)) and k not in known
        ]
        return f"{self._name}: {status} {meter} {', '.join(numbers[:3])}".rstrip()


class Items(Progress):
    """The progress bar of a sweep, over its items."""

    def __init__(self, sweep: ShownSweep, wanted: bool):
        super().__init__(sweep, wanted)
        self._sweep = sweep

    def _line(self, status: Status) -> str:
        from tqdm.std import tqdm

        sweep, now = self._sweep, self._sweep.statuses
        over = sum(s.ended for s in now)
        meter = tqdm.format_meter(over, len(sweep), time.time() - self._start, ncols=60, unit="item")
        return f"{sweep.name}: {status} {meter} {status.what}"


class _Plain:
    """Text that a notebook displays without quotes."""

    def __init__(self, text: str):
        self._text = text

    def __repr__(self) -> str:
        return self._text


def notebook() -> Any:
    """Return IPython's `display` in a notebook, otherwise None."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display
