"""A job's card in a notebook, and what it shows of the job's folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ..metrics import last, number
from ..run import waiting
from ..run.run_folder import RunFolder
from .curves import span
from .protocols import ShownJob
from .render import View, page


def card(job: ShownJob) -> str:
    """Return a job's card: state, name, ranks, backend, time, progress, error, folder."""
    now = job.status
    run = RunFolder(job.folder)
    end = run.ending() or {}
    ranks = f"{job.ranks} rank{'s' * (job.ranks > 1)}, {job.backend} backend, {job.spec['controller']}"
    _, done = steps(job.folder)
    facts = [ranks, took(job.folder, end), f"step {done}" if done else ""]
    view = View(job.name, str(now), list(filter(None, facts)), folder=relative(job.folder))
    if now not in ("done", "running") or (now == "running" and waiting.now(run)):
        view.words.append(now.what)
    view.error = end.get("traceback", "").rstrip()
    view.notes += [f"→ {now.next_step}"] if now.next_step else []
    if any(run.result_text(r).exists() for r in range(job.ranks)):
        view.notes.append("→ A part of the result is only text: `job.result(partial=True)` returns the rest.")
    return page(view)


def took(folder: Path, end: dict[str, Any] | None) -> str:
    """Return how long the ranks have been running, or ran, such as '3.2 s'; '' before they start.

    end: the run's end.json; empty or None if the run has not ended.
    """
    first = end or RunFolder(folder).rank_record(0) or {}
    if not first.get("started"):
        return ""
    return span((end["ended"] if end else time.time()) - first["started"])


def steps(folder: Path) -> tuple[float | None, str]:
    """Return (fraction of the steps that is done, '30 of 60'), as last logged by rank 0, or (None, '')."""
    line = last(RunFolder(folder).metrics(0), having="step")
    done, total = line.get("step"), line.get("steps")
    if not number(done) or not number(total):
        return None, ""
    return min(1.0, done / total) if total else None, f"{done} of {total}"


def relative(path: Path) -> str:
    """Return a path relative to the current directory if it lies inside, otherwise unchanged."""
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here
