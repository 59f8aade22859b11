"""How jobs look in a notebook: the card of a job, the table of jobs. The HTML needs nothing from outside."""

from __future__ import annotations

import html
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import ledger
from .metrics import last

if TYPE_CHECKING:
    from .job import Job

COLOURS = {"pending": "#8a6d00", "running": "#0b5cad", "done": "#1a7f37"}
BAD = "#b3261e"
CARD = "border:1px solid #8884;border-left:4px solid {};border-radius:4px;padding:6px 12px;max-width:60em"


def card(job: Job) -> str:
    """A job as a small card: state, name, ranks, backend, time, progress, what went wrong, folder."""
    now = job.status
    end = ledger.read(job.folder / "end.json") or {}
    colour = COLOURS.get(now, BAD)
    ranks = f"{job.ranks} rank{'s' * (job.ranks > 1)}, {job.backend} backend, {job.spec['controller']}"
    facts = [ranks, duration(job), progress(job)]
    lines = [
        f'<div style="{CARD.format(colour)}">'
        f'<b>{html.escape(job.name)}</b> <span style="color:{colour}">&#9679; {html.escape(now)}</span> '
        f'<span style="opacity:.7">{html.escape(" · ".join(f for f in facts if f))}</span>'
    ]
    if now not in ("done", "running"):
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


def duration(job: Job) -> str:
    """How long the ranks have been, or were, at work: '3.2 s', or '' before they start."""
    end = ledger.read(job.folder / "end.json")
    first = end or ledger.read(job.folder / "rank-0.json") or {}
    if not first.get("started"):
        return ""
    s = (end["ended"] if end else time.time()) - first["started"]
    return f"{s:.1f} s" if s < 100 else f"{s / 60:.1f} min"


def progress(job: Job) -> str:
    """'step 30 of 100', from what rank 0 logged last; '' where it logged no steps."""
    line = last(job.folder / "metrics-0.jsonl")
    return f"step {line['step']} of {line['steps']}" if "step" in line and "steps" in line else ""


def relative(path: Path) -> str:
    """A path as seen from here, if it lies below; else whole."""
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here


class JobTable:
    """The jobs of a folder of runs, newest first: a sequence of `Job`, which prints as a table."""

    def __init__(self, active: bool | None = None, name: str | None = None, folder: Any = None):
        from .job import Job

        self.folder = ledger.root(folder)
        found = [Job(p) for p in ledger.folders(self.folder)]
        found = [j for j in found if name is None or name in j.name]
        found.sort(key=lambda j: (j.spec["submitted"], j.id), reverse=True)
        self._rows = [(j, j.status) for j in found]
        if active is not None:
            self._rows = [(j, s) for j, s in self._rows if s.ended != active]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> Job:
        return self._rows[i][0]

    def _cells(self) -> list[list[str]]:
        rows = [["job", "state", "ranks", "backend", "time", "submitted", "what"]]
        for j, s in self._rows:
            what = (s.what if s != "done" else progress(j)).splitlines() or [""]
            at = j.spec["submitted"].replace("T", " ").removesuffix("+00:00")
            rows.append([j.id, str(s), str(j.ranks), j.backend, duration(j), f"{at} UTC", what[0][:70]])
        return rows

    def __repr__(self) -> str:
        if not self._rows:
            return f"No jobs in {relative(self.folder)}."
        rows = self._cells()
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows)

    def _repr_html_(self) -> str:
        if not self._rows:
            return html.escape(repr(self))
        head, *body = self._cells()
        rows = []
        for r in body:
            r = [html.escape(c) for c in r]
            r[1] = f'<span style="color:{COLOURS.get(r[1], BAD)}">&#9679; {r[1]}</span>'
            style = "text-align:left;white-space:nowrap"
            rows.append("".join(f'<td style="{style}">{c}</td>' for c in r))
        top = "".join(f'<th style="text-align:left">{c}</th>' for c in head)
        return f"<table><tr>{top}</tr>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"
