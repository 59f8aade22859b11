"""The display of `watch` as text for terminals and HTML for notebooks: pure functions from view to string."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from .card import BAD, CARD, COLOURS
from .curves import Curve, Rank, span, sparkline

ROWS = 16  # maximum number of ranks or jobs shown: the slowest
BAR = 20  # characters of a bar


@dataclass
class Row:
    """One rank or one job: `share` is the fraction of finished steps, and `facts` are the texts shown."""

    label: str
    share: float | None = None
    facts: list[str] = field(default_factory=list)
    state: str = ""  # of a job; a rank has no state


@dataclass
class View:
    """The state of one or more jobs at one moment."""

    title: str
    state: str
    facts: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    metrics: list[tuple[str, str, dict[str, Curve]]] = field(default_factory=list)
    log: str = ""
    error: str = ""
    note: str = ""


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


def slowest(rows: list[Row]) -> tuple[list[Row], str]:
    """Return (the rows to show, a note on the others): all rows, or the ROWS that are least advanced."""
    if len(rows) <= ROWS:
        return rows, ""
    least = sorted(rows, key=lambda r: r.share if r.share is not None else -1.0)[:ROWS]
    kept = [r for r in rows if any(r is x for x in least)]
    return kept, f"The {ROWS} slowest of {len(rows)} are shown."


def text(view: View, columns: int = 100) -> list[str]:
    """Return the view as lines of at most `columns` characters, for a terminal."""
    lines = [": ".join([view.title, ", ".join([view.state, *view.facts])]), *view.words]
    rows, others = slowest(view.rows)
    wide = max((len(r.label) for r in rows), default=0)
    for r in rows:
        parts = [bar(r.share)] if r.share is not None else []
        parts += [f"{r.state}  "] if r.state else []
        lines.append(f"{r.label:{wide}}  {''.join(parts)}{'  '.join(f for f in r.facts if f)}".rstrip())
    lines += [others] if others else []
    wide = max((len(name) for _, name, _ in view.metrics), default=0)
    for axis, name, curves in view.metrics:
        points = next(iter(curves.values())).points()
        label = f" ({next(iter(curves))})" if len(curves) > 1 else ""
        ends = f"{points[0][1]:.4g} → {points[-1][1]:.4g}"
        lines.append(f"{name:{wide}}  {sparkline(points)}  {ends} by {axis}{label}")
    lines += view.log.splitlines() + view.error.splitlines() + ([view.note] if view.note else [])
    return [x if len(x) <= columns else x[: columns - 1] + "…" for x in lines]


def bar(share: float, width: int = BAR) -> str:
    """Return a bar of blocks with its percentage.

    >>> bar(0.5, 10)
    '█████░░░░░  50 %  '
    """
    full = int(width * share)
    return f"{'█' * full}{'░' * (width - full)} {100 * share:3.0f} %  "


def page(view: View, picture: str = "") -> str:
    """Return the view as HTML; `picture` is the <img> of its curves."""
    colour = COLOURS.get(view.state, BAD)
    quiet = html.escape(" · ".join(view.facts))
    parts = [
        f'<div style="{CARD.format(colour)}"><b>{html.escape(view.title)}</b> '
        f'<span style="color:{colour}">&#9679; {html.escape(view.state)}</span> '
        f'<span style="opacity:.7">{quiet}</span>'
    ]
    parts += [f"<div>{html.escape(w)}</div>" for w in view.words]
    rows, others = slowest(view.rows)
    if rows:
        parts.append(
            f'<table style="margin:4px 0;font-size:92%">{"".join(_row(r, view.state) for r in rows)}</table>'
        )
    parts += [f"<div>{html.escape(others)}</div>"] if others else []
    parts.append(picture)
    parts += [_pre(block) for block in (view.log, view.error) if block]
    parts += [f'<div style="opacity:.7">{html.escape(view.note)}</div>'] if view.note else []
    return "".join(parts) + "</div>"


def _row(row: Row, state: str) -> str:
    colour = COLOURS.get(row.state or state, BAD)
    cells = [html.escape(row.label)]
    if row.state:
        cells.append(f'<span style="color:{colour}">&#9679; {html.escape(row.state)}</span>')
    if row.share is None:
        cells.append("")
    else:
        done = f"{100 * row.share:.0f}%"
        inside = f'<div style="background:{colour};width:{done};height:100%"></div>'
        cells.append(f'<div title="{done}" style="background:#8883;width:10em;height:.7em">{inside}</div>')
    style = "text-align:left;padding:1px 8px 1px 0;white-space:"
    parts = [f'<td style="{style}nowrap">{c}</td>' for c in cells + [html.escape(f) for f in row.facts[:-1]]]
    parts += [f'<td colspan="9" style="{style}normal">{html.escape(f)}</td>' for f in row.facts[-1:]]
    return f"<tr>{''.join(parts)}</tr>"


def _pre(block: str) -> str:
    style = "margin:4px 0;padding:6px;background:#8881;overflow-x:auto;font-size:85%"
    return f'<pre style="{style}">{html.escape(block)}</pre>'
