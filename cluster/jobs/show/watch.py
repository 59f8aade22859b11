"""`watch`: a live view of jobs, as one updated display in a notebook, or as text in a terminal.

It only reads, so an interrupt stops the display and does not affect the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..run import rank_log, waiting
from ..run.run_folder import RunFolder
from . import render
from .card import took
from .curves import Curves, ago, since, span
from .progress import screen
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
    try:
        _follow(watched, logs)
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


def _follow(watched: list[Source], logs: int) -> None:
    display = screen()
    drawn, cost, seen, new = -1e9, 0.0, None, True
    while True:
        new = any([w.look() for w in watched]) or new
        ended = all(w.over for w in watched)
        now = time.monotonic()
        if ended or now - drawn >= max(EVERY, cost / SHARE):
            state = _seen(watched)
            if ended or new or state != seen:
                display.show(render.slowest(view(watched, logs)), new, ended)
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
    ran = took(w.folder, RunFolder(w.folder).ending())
    facts = [f"{p} rank{'s' * (p > 1)}, {job.backend} backend", ran]
    view = View(w.name, str(status), list(filter(None, facts)))
    view.words = [*_reason(w), *w.curves.warnings()]
    view.rows = [Row(f"rank {r}", *_progress(w, r)) for r in range(p)]
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
            facts[3:] = [w.status.what.splitlines()[0]]
        view.rows.append(Row(w.name, rank.share if rank else None, facts, str(w.status)))
    for axis, name in dict.fromkeys(p for w in watched for p in w.curves.panels()):
        lines = {w.name: w.curves.lines(axis, name) for w in watched}
        firsts = {label: found[min(found)] for label, found in lines.items() if found}
        view.metrics.append((axis, name, {k: c for k, c in firsts.items() if c.points()}))
    view.words = [f"{w.name}: {text}" for w in watched for text in w.curves.warnings()][:3]
    return view


def _reason(w: Source) -> list[str]:
    """Return why a job waits, unless its progress or its error shows it."""
    status = w.status
    step = [f"→ {status.next_step}"] if status.next_step else []
    if status == "pending":
        return [f"Waiting for {ago(w.submitted)}. {status.what}", *step]
    if status == "running" and not w.curves.ranks:
        return [f"{status.what} Nothing has been logged yet.", *step]
    return [status.what, *step] if status == "running" and (step or waiting.now(RunFolder(w.folder))) else []


def _progress(w: Source, r: int) -> tuple[float | None, list[str]]:
    """Return (the fraction of a rank's steps that is done, the facts about the rank)."""
    if rank := w.curves.ranks.get(r):
        return rank.share, render.facts(rank, w.over)
    record = RunFolder(w.folder).rank_record(r)
    if record is None:
        return None, ["not started"]
    if "ended" in record:
        return None, [f"ended after {span(record['ended'] - record['started'])}, logged nothing"]
    return None, [f"started {ago(record['started'])} ago, has logged nothing yet"]
