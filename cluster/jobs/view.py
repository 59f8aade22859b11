"""How jobs look: the card of a job, the table of jobs, the bar while one waits. HTML here is self-contained."""

from __future__ import annotations

import html
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from . import ledger
from .metrics import Tail

if TYPE_CHECKING:
    from .job import Job
    from .state import Status

COLOURS = {"pending": "#8a6d00", "running": "#0b5cad", "done": "#1a7f37"}  # all else is a bad end


class Progress:
    """A bar on standard output: in a notebook a line that is replaced, on a terminal too, elsewhere nothing.

    It is made of text, not of widgets, so that a saved notebook shows its last state.
    """

    def __init__(self, job: Job, wanted: bool):
        self._job, self._tail, self._last = job, Tail(job.folder), {}
        self._shell = _notebook() if wanted else None
        self._tty = wanted and not self._shell and sys.stdout.isatty()
        self._handle, self._text, self._start = None, None, time.time()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._tty and self._text:
            sys.stdout.write("\n")

    def show(self, status: Status) -> None:
        """Draw the state, if it has changed."""
        if not (self._shell or self._tty):
            return
        for row in self._tail.read():
            self._last.setdefault(row["rank"], {}).update(row)
        text = self._line(status)
        if text == self._text:
            return
        self._text = text
        if self._tty:
            sys.stdout.write(f"\r\x1b[K{text}")
            sys.stdout.flush()
        elif self._handle is None:
            self._handle = self._shell(text)
        else:
            self._handle.update(_Text(text))

    def _line(self, status: Status) -> str:
        from tqdm.std import tqdm

        text, elapsed = f"{self._job.id}: {status}", time.time() - self._start
        rows = [r for r in self._last.values() if "step" in r and "steps" in r]
        if rows:
            slowest = min(rows, key=lambda r: r["step"])
            begun = min((r["started"] for r in self._records()), default=self._start)
            bar = tqdm.format_meter(
                slowest["step"], slowest["steps"], slowest["time"] - begun, ncols=60, unit="step"
            )
            numbers = {k: v for k, v in slowest.items() if isinstance(v, float) and k != "time"}
            return f"{text} {bar}" + "".join(f" {k}={v:.4g}" for k, v in list(numbers.items())[:3])
        return text if status.ended else f"{text} ({int(elapsed)} s)"

    def _records(self) -> list[dict[str, Any]]:
        files = (ledger.read(self._job.folder / f"rank-{r}.json") for r in range(self._job.ranks))
        return [r for r in files if r]


class _Text:
    """A text that a notebook shows as it is."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _notebook() -> Any:
    """What shows a text in this notebook and lets it be replaced, or None outside one."""
    if "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display

    return lambda text: display(_Text(text), display_id=True)


def card(job: Job) -> str:
    """A job as a small card of HTML."""
    s = job.status
    end = ledger.read(job.folder / "end.json") or {}
    rows = [
        ("state", f'<b style="color:{COLOURS.get(s, "#b3261e")}">{html.escape(s)}</b>'),
        ("ranks", f"{job.ranks} on the {job.backend} backend, {job.spec['controller']}"),
    ]
    if end.get("started"):
        rows.append(("time", f"{end['ended'] - end['started']:.1f} s"))
    if s not in ("done",):
        rows.append(("what", html.escape(s.what)))
    if s.next_step:
        rows.append(("next", html.escape(s.next_step)))
    if end.get("traceback"):
        rows.append(("rank " + str(end["rank"]), f"<pre>{html.escape(end['traceback'])}</pre>"))
    rows.append(("folder", f"<code>{html.escape(os.path.relpath(job.folder))}</code>"))
    cells = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in rows)
    return f"<table><caption>{html.escape(job.id)}</caption>{cells}</table>"
