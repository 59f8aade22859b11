"""A job's card in a notebook, and what it shows of the job's folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from cluster.system import files

from ..metrics import last
from ..run import waiting
from ..run.run_folder import RunFolder
from .curves import span
from .protocols import ShownJob
from .render import View, page


def card(job: ShownJob) -> str:
    """Return a job's card: state, name, ranks, backend, time, progress, error, folder."""
    now = job.status
    end = files.read_json(RunFolder(job.folder).end) or {}
    ranks = f"{job.ranks} rank{'s' * (job.ranks > 1)}, {job.backend} backend, {job.spec['controller']}"
    done = steps(job.folder)
    facts = [ranks, took(job.folder, end), f"step {done[0]} of {done[1]}" if done else ""]
    view = View(job.name, str(now), list(filter(None, facts)), folder=relative(job.folder))
    if now not in ("done", "running") or (now == "running" and waiting.now(job.folder)):
        view.words.append(now.what)
    view.error = end.get("traceback", "").rstrip()
    view.notes += [f"→ {now.next_step}"] if now.next_step else []
    return page(view)


def took(folder: Path, end: dict[str, Any] | None) -> str:
    """Return how long the ranks have been running, or ran, such as '3.2 s'; '' before they start.

    end: the run's end.json; empty or None if the run has not ended.
    """
    first = end or files.read_json(RunFolder(folder).rank(0)) or {}
    if not first.get("started"):
        return ""
    return span((end["ended"] if end else time.time()) - first["started"])


def steps(folder: Path) -> tuple[float, float] | None:
    """Return (steps done, total steps) as last logged by rank 0, or None."""
    line = last(RunFolder(folder).metrics(0), having="step")
    known = all(isinstance(line.get(n), int | float) for n in ("step", "steps"))
    return (line["step"], line["steps"]) if known else None


def relative(path: Path) -> str:
    """Return a path relative to the current directory if it lies inside, otherwise unchanged."""
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here
