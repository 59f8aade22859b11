"""A job's card in a notebook. The HTML is self-contained."""

from __future__ import annotations

import html
import os
import time
from pathlib import Path

from cluster.system import files

from ..metrics import last
from ..run import waiting
from ..run.run_folder import RunFolder
from .protocols import ShownJob

COLOURS = {"pending": "#8a6d00", "running": "#0b5cad", "done": "#1a7f37"}
BAD = "#b3261e"
CARD = "border:1px solid #8884;border-left:4px solid {};border-radius:4px;padding:6px 12px;max-width:60em"


def card(job: ShownJob) -> str:
    """Return a job's card: state, name, ranks, backend, time, progress, error, folder."""
    now = job.status
    end = files.read_json(RunFolder(job.folder).end) or {}
    colour = COLOURS.get(now, BAD)
    ranks = f"{job.ranks} rank{'s' * (job.ranks > 1)}, {job.backend} backend, {job.spec['controller']}"
    facts = [ranks, duration(job), progress(job)]
    lines = [
        f'<div style="{CARD.format(colour)}">'
        f'<b>{html.escape(job.name)}</b> <span style="color:{colour}">&#9679; {html.escape(now)}</span> '
        f'<span style="opacity:.7">{html.escape(" · ".join(f for f in facts if f))}</span>'
    ]
    if now not in ("done", "running") or (now == "running" and waiting.now(job.folder)):
        lines.append(f"<div>{html.escape(now.what)}</div>")
    if end.get("traceback"):
        text = html.escape(end["traceback"].rstrip())
        style = "margin:4px 0;padding:6px;background:#8881;overflow-x:auto;font-size:85%"
        lines.append(f'<pre style="{style}">{text}</pre>')
    if now.next_step:
        lines.append(f"<div>&rarr; {html.escape(now.next_step)}</div>")
    path = html.escape(relative(job.folder))
    lines.append(f'<div><code style="font-size:85%;opacity:.7">{path}</code></div></div>')
    return "".join(lines)


def duration(job: ShownJob) -> str:
    """Return how long the ranks have been running, or ran, such as '3.2 s'; '' before they start."""
    end = files.read_json(RunFolder(job.folder).end)
    first = end or files.read_json(RunFolder(job.folder).rank(0)) or {}
    if not first.get("started"):
        return ""
    return length((end["ended"] if end else time.time()) - first["started"])


def length(seconds: float) -> str:
    """Return a duration as text, such as '3.2 s', '12.5 min', '7.1 h'."""
    s = max(0.0, seconds)
    return f"{s:.1f} s" if s < 100 else f"{s / 60:.1f} min" if s < 6000 else f"{s / 3600:.1f} h"


def progress(job: ShownJob) -> str:
    """Return 'step 30 of 100' from rank 0's last log call; '' if it logged no steps."""
    done = steps(job.folder)
    return f"step {done[0]} of {done[1]}" if done else ""


def steps(folder: Path) -> tuple[float, float] | None:
    """Return (steps done, total steps) as last logged by rank 0, or None."""
    line = last(RunFolder(folder).metrics(0), having="step")
    known = all(isinstance(line.get(n), int | float) for n in ("step", "steps"))
    return (line["step"], line["steps"]) if known else None


def relative(path: Path) -> str:
    """Return a path relative to the current directory if it lies inside, otherwise unchanged."""
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here
