"""What jobs, sweeps, tables and the doctor's report show: a `View`, as text and as HTML (view.html)."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .curves import Curve, Rank, span, sparkline

ROWS = 16  # maximum number of ranks or jobs that `watch` shows: the slowest
BAR = 10  # characters of a bar
COLOURS = {"pending": "#8a6d00", "running": "#0b5cad", "done": "#1a7f37", "ok": "#1a7f37", "note": "#8a6d00"}
BAD = "#b3261e"  # of all other states


@dataclass
class Row:
    """A line about one rank, job or finding. share: the fraction that is done. steps: what to do next."""

    label: str
    share: float | None = None
    facts: list[str] = field(default_factory=list)
    state: str = ""  # a rank has no state
    steps: list[str] = field(default_factory=list)


@dataclass
class View:
    """What is shown at one moment. Without a title, it has no card around it.

    parts: the states of a sweep's items as [(state, fraction)]. metrics: [(axis, name, {label: curve})].
    """

    title: str = ""
    state: str = ""
    facts: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    parts: list[tuple[str, float]] = field(default_factory=list)
    head: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    metrics: list[tuple[str, str, dict[str, Curve]]] = field(default_factory=list)
    log: str = ""
    error: str = ""
    notes: list[str] = field(default_factory=list)
    folder: str = ""


def facts(rank: Rank, ended: bool = False) -> list[str]:
    """Return ['30 of 60 steps', '12 steps/s', '2.4 s left', 'loss 0.25'], each '' if unknown."""
    steps = rate = left = ""
    if rank.step is not None:
        steps = f"{rank.step} of {rank.steps} steps" if rank.steps else f"step {rank.step}"
    if rank.rate:
        rate = f"{rank.rate:.3g} steps/s" if rank.rate < 1000 else f"{rank.rate:.0f} steps/s"
    if rank.left and not ended:
        left = f"{span(rank.left)} left"
    return [steps, rate, left, ", ".join(f"{k} {v:.4g}" for k, v in list(rank.numbers.items())[:4])]


def slowest(view: View) -> View:
    """Return the view with its ROWS least advanced rows and a note, or unchanged if it has no more."""
    if len(view.rows) <= ROWS:
        return view
    shares = [-1.0 if row.share is None else row.share for row in view.rows]
    least = sorted(range(len(shares)), key=shares.__getitem__)[:ROWS]
    note = f"The {ROWS} slowest of {len(shares)} are shown."
    return replace(view, rows=[view.rows[i] for i in sorted(least)], notes=[note, *view.notes])


def text(view: View, columns: int = 100) -> list[str]:
    """Return the view as lines of at most `columns` characters, for a terminal."""
    lines = [f"{view.title}: {', '.join([view.state, *view.facts])}"] if view.title else []
    cells = [list(view.head)]
    for row in view.rows:
        done = "" if row.share is None else bar(row.share)
        cells.append([row.label, row.state, done, *row.facts])
        cells += [[""] * (len(row.facts) + 2) + [f"→ {step}"] for step in row.steps]
    lines += [*view.words, *aligned(cells if view.head else cells[1:])]
    wide = max((len(name) for _, name, _ in view.metrics), default=0)
    for axis, name, curves in view.metrics:
        points = next(iter(curves.values())).points()
        label = f" ({next(iter(curves))})" if len(curves) > 1 else ""
        ends = f"{points[0][1]:.4g} → {points[-1][1]:.4g}"
        lines.append(f"{name:{wide}}  {sparkline(points)}  {ends} by {axis}{label}")
    lines += [*view.log.splitlines(), *view.error.splitlines(), *view.notes]
    return [x if len(x) <= columns else x[: columns - 1] + "…" for x in lines]


def aligned(rows: list[list[str]], right: bool = False) -> list[str]:
    """Return rows of cells as lines, without empty columns; right: align all columns but the first right.

    >>> aligned([["a", "", "b"], ["long", "", "c"]])
    ['a     b', 'long  c']
    """
    columns = [c for c in itertools.zip_longest(*rows, fillvalue="") if any(c)]
    for i, cells in enumerate(columns):
        wide = max(map(len, cells))
        columns[i] = tuple(c.rjust(wide) if right and i else c.ljust(wide) for c in cells)
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def bar(share: float) -> str:
    """Return a bar of blocks with its percentage.

    >>> bar(0.5)
    '█████░░░░░  50 %'
    """
    full = int(BAR * share)
    return f"{'█' * full}{'░' * (BAR - full)} {100 * share:3.0f} %"


def page(view: View, picture: str = "") -> str:
    """Return the view as HTML without scripts; `picture` is HTML, such as the <img> of its curves."""
    from markupsafe import Markup

    return _template().render(view=view, picture=Markup(picture))


@functools.cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    templates = Environment(autoescape=True, undefined=StrictUndefined)
    templates.globals["colour"] = lambda state: COLOURS.get(state, BAD)
    return templates.from_string(Path(__file__).with_name("view.html").read_text())
