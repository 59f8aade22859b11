"""`watch`: a live view of jobs, as one updated display in a notebook, or as text in a terminal.

It only reads, so an interrupt stops the display and does not affect the job.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster.system import files

from ..run import rank_log, waiting
from ..run.run_folder import RunFolder
from ..run.status import Status
from . import render
from .card import duration
from .curves import Curves, ago, since, span
from .progress import notebook
from .protocols import ShownJob
from .render import Row, View

POLL = 0.25  # seconds between updates of the data
EVERY = 1.0  # minimum seconds between drawings
SHARE = 0.1  # maximum fraction of the time spent on drawing, since on a laptop the ranks need the same cores


def watch(jobs: ShownJob | Iterable[Any], logs: int = 0) -> None:
    """Show a job until it ends: each rank's progress, its metrics' curves, why it waits, and its error.

    jobs: a job, or several (a list, the result of `map`, `jobs(active=True)`), with one row per job. logs:
    the number of recent output lines of the ranks that are shown, too.

    A notebook keeps the last display. An interrupt (the stop button) stops the display, not the job. If a job
    has already ended, its final state is shown.

    >>> watch(submit(train, epochs=5))                                              # doctest: +SKIP
    """
    watched = [Source(job) for given in _each(jobs) for job in _each(given)]  # some may be sweeps
    if not watched:
        print("There is no job to watch.")
        return
    screen = _screen()
    try:
        _follow(watched, logs, screen)
    except KeyboardInterrupt:
        first = watched[0].job
        them = f"{first.id} continues" if len(watched) == 1 else f"{len(watched)} jobs continue"
        again = f"attach({first.id!r}).watch()" if len(watched) == 1 else "watch(jobs(active=True))"
        print(f"Watching has ended; {them}. To watch again: {again}")


def _each(given: Any) -> Iterable[Any]:
    """Return the jobs of a list, a sweep or a table of jobs; for a job, return the job itself."""
    return given if hasattr(given, "__iter__") or hasattr(given, "__getitem__") else [given]


class Source:
    """A job and the data read from it so far."""

    def __init__(self, job: ShownJob):
        self.job, self.name, self.folder, self.status = job, job.id, job.folder, job.status
        self.curves = Curves(self.folder)
        self.submitted = since(job.spec["submitted"])

    @property
    def over(self) -> bool:
        """Whether nothing more will follow: the job has ended, or Slurm reports that it can never run."""
        return self.status.ended or self.status.never

    def look(self) -> bool:
        """Read new data; return whether anything was logged."""
        if not self.status.ended:  # checked before the metrics, to miss nothing at the end
            self.folder, self.status = self.job.folder, self.job.status
        return self.curves.update()


def view(watched: list[Source], logs: int = 0) -> View:
    """Return the view of one job (a row for each rank) or of several (a row for each job)."""
    return _one(watched[0], logs) if len(watched) == 1 else _many(watched)


def _follow(watched: list[Source], logs: int, screen: Any) -> None:
    drawn, cost, seen, new = -1e9, 0.0, None, True
    while True:
        new = any([w.look() for w in watched]) or new
        ended = all(w.over for w in watched)
        now = time.monotonic()
        if ended or now - drawn >= max(EVERY, cost / SHARE):
            state = _seen(watched)
            if ended or new or state != seen:
                screen.show(view(watched, logs), new, ended)
                seen, new, drawn = state, False, now
                cost = time.monotonic() - now
        if ended:
            return
        time.sleep(POLL)


def _seen(watched: list[Source]) -> list[Any]:
    """Return what a redraw depends on: states, reasons and, while a job is pending, the clock in seconds."""
    waits = any(w.status == "pending" for w in watched)
    return [int(time.time() / (1 if waits else 10)), [(str(w.status), w.status.what) for w in watched]]


def _one(w: Source, logs: int) -> View:
    job, status = w.job, w.status
    p = job.ranks
    facts = [f"{p} rank{'s' * (p > 1)}, {job.backend} backend", duration(job)]
    view = View(w.name, str(status), [f for f in facts if f], _reason(w))
    view.words += w.curves.warnings()
    view.rows = [_rank(w, r) for r in range(p)]
    view.metrics = [
        (axis, name, {f"rank {r}": c for r, c in w.curves.lines(axis, name).items()})
        for axis, name in w.curves.panels()
    ]
    if logs:
        view.log = "\n".join(_printed(w.folder, p)[-logs:])
    error = job.error() if status.ended else None
    view.error = f"{type(error).__name__}: {error}" if error else ""
    return view


def _printed(folder: Path, ranks: int) -> list[str]:
    """Return the last lines of each rank, as in `job.logs()`, or of the process that starts the ranks."""
    texts = [(r, rank_log.end(RunFolder(folder).log(r)).decode(errors="replace")) for r in range(ranks)]
    lines = [x for r, text in texts if text for x in (f"--- rank {r}", *text.rstrip().splitlines())]
    return lines or rank_log.end(RunFolder(folder).job_log).decode(errors="replace").splitlines()


def _many(watched: list[Source]) -> View:
    states = [str(w.status) for w in watched]
    order = ("running", "pending", *sorted(set(states) - {"running", "pending", "done"}), "done")
    counts = [f"{states.count(s)} {s}" for s in order if s in states]
    worst = next(s for s in order if s in states)
    view = View(f"{len(watched)} jobs", worst, counts)
    for w in watched:
        ranks = [w.curves.ranks[r] for r in sorted(w.curves.ranks)]
        rank = min(ranks, key=lambda r: r.share if r.share is not None else -1.0, default=None)
        facts = render.facts(rank, w.over) if rank else ["", "", ""]
        if w.status != "done" and (w.over or not rank):
            facts = [*facts[:3], w.status.what.splitlines()[0]]
        view.rows.append(Row(w.name, rank.share if rank else None, facts, str(w.status)))
    for axis, name in dict.fromkeys(p for w in watched for p in w.curves.panels()):
        lines = {w.name: w.curves.lines(axis, name) for w in watched}
        firsts = {label: found[min(found)] for label, found in lines.items() if found}
        view.metrics.append((axis, name, {k: c for k, c in firsts.items() if c.points()}))
    view.words = [f"{w.name}: {text}" for w in watched for text in w.curves.warnings()][:3]
    return view


def _reason(w: Source) -> list[str]:
    status = w.status
    if status == "pending":
        return [f"Waiting for {ago(w.submitted)}. {status.what}", *_step(status)]
    if status == "running" and not w.curves.ranks:
        return [f"{status.what} Nothing has been logged yet.", *_step(status)]
    if status == "running" and (status.next_step or waiting.now(w.folder)):
        return [status.what, *_step(status)]
    return []  # the progress or the error already shows it


def _step(status: Status) -> list[str]:
    return [f"→ {status.next_step}"] if status.next_step else []


def _rank(w: Source, r: int) -> Row:
    if rank := w.curves.ranks.get(r):
        return Row(f"rank {r}", rank.share, render.facts(rank, w.over))
    record = files.read_json(RunFolder(w.folder).rank(r))
    if record is None:
        return Row(f"rank {r}", None, ["not started"])
    if "ended" in record:
        return Row(
            f"rank {r}", None, [f"ended after {span(record['ended'] - record['started'])}, logged nothing"]
        )
    return Row(f"rank {r}", None, [f"started {ago(record['started'])} ago, has logged nothing yet"])


class _Page:
    """A single notebook display, replaced in place."""

    def __init__(self, display: Any):
        self._display, self._handle, self._picture = display, None, ""

    def show(self, view: View, new: bool, ended: bool) -> None:
        if view.metrics and (new or not self._picture):
            from . import picture

            self._picture = picture.image(*picture.panels(view.metrics, busy=not ended))
        shown = _Html("\n".join(render.text(view)), render.page(view, self._picture))
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)


class _Terminal:
    """Terminal lines that are overwritten in place."""

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


class _Pipe:
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


class _Html:
    """HTML for a notebook, with text for front ends that do not show HTML."""

    def __init__(self, text: str, page: str):
        self._text, self._page = text, page

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._page


def _screen() -> Any:
    display = notebook()
    if display:
        return _Page(display)
    return _Terminal() if sys.stdout.isatty() else _Pipe()
