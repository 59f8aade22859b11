"""A sweep as a table, as a figure and as a card in a notebook."""

from __future__ import annotations

import html
import math
from typing import Any

from cluster.system import files

from ..errors import OptionValueError
from ..metrics import last
from ..run.run_folder import RunFolder
from .card import BAD, CARD, COLOURS, length, relative, steps
from .curves import KNOWN
from .protocols import ShownSweep

SHOWN = 20  # items in a card; failed and running items come first
STYLE = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;white-space:"


def metrics(sweep: ShownSweep) -> Any:
    """See `Sweep.metrics`."""
    import pandas as pd

    frames = []
    for i in range(len(sweep)):
        if not sweep.here(i):
            continue
        frame = sweep[i].metrics()
        frame.insert(0, "item", i)
        frames += [frame] if len(frame) else []
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["item", "rank", "time"])


def table(sweep: ShownSweep) -> Any:
    """See `Sweep.table`."""
    import pandas as pd

    rows = [row(sweep, i, status) for i, status in enumerate(sweep.statuses)]
    order = list(dict.fromkeys(name for r in rows for name in r))
    order = [n for n in order if n not in ("seconds", "error")] + ["seconds", "error"]
    return pd.DataFrame(rows, columns=order, index=pd.RangeIndex(len(rows), name="item"))


def row(sweep: ShownSweep, i: int, status: Any) -> dict[str, Any]:
    """Return {column: value} of one item; returned values take precedence over equally named metrics."""
    named = columns(sweep)
    item = sweep.items[i]
    values = {c: item.get(k) for k, c in named.items()} if named else {parameter(sweep): item}
    values["status"] = str(status)
    if not sweep.here(i):
        return values | {"error": f"Lost: {status.what}"}
    job = sweep[i]
    if status == "done":
        value = job.result()
        if isinstance(value, dict) and all(isinstance(k, str) for k in value):
            values |= {k: v for k, v in value.items() if k not in values and _single(v)}
        elif value is not None:
            values["result"] = value
    logged = last(RunFolder(job.folder).metrics(0))
    values |= {k: v for k, v in logged.items() if k not in values and k not in KNOWN}
    if end := files.read_json(RunFolder(job.folder).end):
        if end["started"]:
            values["seconds"] = round(end["ended"] - end["started"], 3)
        if error := job.error():
            values["error"] = f"{type(error).__name__}: {error.what}"
    return values


def parameter(sweep: ShownSweep) -> str:
    """Return the column of the items: the parameter's name, unless another column has it."""
    name = sweep.spec["parameter"]
    return f"{name}_" if name in ("status", "result", "seconds", "error") else name


def columns(sweep: ShownSweep) -> dict[str, str]:
    """Return {key: column} if all items are dictionaries, otherwise {}."""
    if not all(isinstance(v, dict) for v in sweep.items):
        return {}
    keys = dict.fromkeys(k for v in sweep.items for k in v)
    return {k: f"{k}_" if k in ("status", "result", "seconds", "error") else k for k in keys}


def figure(sweep: ShownSweep, y: str | None, x: str | None) -> Any:
    """See `Sweep.figure`."""
    from . import picture

    frame = table(sweep)
    inputs = list(columns(sweep).values()) or [parameter(sweep)]
    numbers = [c for c in frame.columns if any(_number(v) for v in frame[c])]
    x = _chosen(x or next((c for c in inputs if c in numbers), None), numbers, "x")
    y = _chosen(y or next((c for c in numbers if c not in (*inputs, "seconds")), None), numbers, "y")
    points = sorted((a, b) for a, b in zip(frame[x], frame[y], strict=True) if _number(a) and _number(b))
    without = [a for a, b in zip(frame[x], frame[y], strict=True) if _number(a) and not _number(b)]
    with picture.style():
        fig = picture.figure(4.8, 3.2)
        ax = fig.subplots()
        ax.plot([a for a, _ in points], [b for _, b in points], marker="o")
        for spread, set_scale in ((frame[x], ax.set_xscale), (frame[y], ax.set_yscale)):
            values = [v for v in spread if _number(v)]
            if values and min(values) > 0 and max(values) > 30 * min(values):
                set_scale("log")
        if without:
            ax.plot(without, [0.03] * len(without), "x", color="k", transform=ax.get_xaxis_transform(),
                    label=f"no {y}")  # fmt: skip
            ax.legend()
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.set_title(f"{sweep.name}: {len(sweep)} items")
    return picture.shown(fig)


def page(sweep: ShownSweep) -> str:
    """Return the sweep's card: state, a progress bar, and a row for each item, failed items first."""
    statuses, now = sweep.statuses, sweep.status
    colour = COLOURS.get(now, BAD)
    ranks = f"{sweep.ranks} rank{'s' * (sweep.ranks > 1)} each, {sweep.backend} backend"
    lines = [
        f'<div style="{CARD.format(colour)}"><b>{html.escape(sweep.name)}</b> '
        f'<span style="color:{colour}">&#9679; {html.escape(now)}</span> '
        f'<span style="opacity:.7">{html.escape(f"{now.what} · {ranks}")}</span>',
        _bar(statuses),
    ]
    rank = {"done": 2, "pending": 3, "running": 1}
    order = sorted(range(len(sweep)), key=lambda i: (rank.get(statuses[i], 0), i))[:SHOWN]
    body = "".join(_row(sweep, i, statuses[i]) for i in sorted(order))
    lines.append(f'<table style="margin:4px 0;font-size:92%">{body}</table>')
    if len(sweep) > SHOWN:
        lines.append(f"<div>{SHOWN} of {len(sweep)} items; sweep.table() has all.</div>")
    if now.next_step:
        lines.append(f"<div>&rarr; {html.escape(now.next_step)}</div>")
    path = html.escape(relative(sweep.folder))
    return "".join(lines) + f'<div><code style="font-size:85%;opacity:.7">{path}</code></div></div>'


def _bar(statuses: list[Any]) -> str:
    """Return the items as one bar with a segment for each state."""
    parts = ""
    for state in sorted(set(statuses), key=lambda s: {"done": 0, "running": 2, "pending": 3}.get(s, 1)):
        share = 100 * statuses.count(state) / len(statuses)
        colour = "#8883" if state == "pending" else COLOURS.get(state, BAD)
        parts += f'<div title="{html.escape(state)}" style="background:{colour};width:{share:.1f}%"></div>'
    return f'<div style="display:flex;height:.6em;max-width:30em;margin:4px 0">{parts}</div>'


def _row(sweep: ShownSweep, i: int, status: Any) -> str:
    cells = [str(i), _short(sweep.items[i]), str(status)]
    if status == "pending" or not sweep.here(i):
        rest = "" if status == "pending" else status.what
    elif status == "running":
        done = steps(sweep[i].folder)
        rest = f"{done[0]} of {done[1]} steps" if done else ""
    else:
        named = row(sweep, i, status)
        skip = {parameter(sweep), *columns(sweep).values(), "status", "seconds"}
        cells.append(length(named["seconds"]) if "seconds" in named else "")
        rest = named.get("error") or ", ".join(f"{k} {_short(v)}" for k, v in named.items() if k not in skip)
    cells += [""] * (4 - len(cells)) + [rest.splitlines()[0] if rest else ""]
    values = [html.escape(c) for c in cells]
    values[2] = f'<span style="color:{COLOURS.get(status, BAD)}">&#9679; {values[2]}</span>'
    return (
        "<tr>"
        + "".join(f'<td style="{STYLE}{"normal" if c == values[-1] else "nowrap"}">{c}</td>' for c in values)
        + "</tr>"
    )


def _chosen(name: str | None, numbers: list[str], axis: str) -> str:
    if name in numbers:
        return name
    there = ", ".join(numbers) or "none"
    what = (
        f"{axis}={name!r} is not a column of numbers."
        if name
        else f"There is no column of numbers for {axis}."
    )
    raise OptionValueError(what, f"Columns of numbers: {there}. sweep.table() shows all.")


def _single(v: Any) -> bool:
    return v is None or isinstance(v, (bool, int, float, str)) or getattr(v, "shape", None) == ()


def _number(v: Any) -> bool:
    single = isinstance(v, (int, float)) or (getattr(v, "shape", None) == () and v.dtype.kind in "iuf")
    return single and not isinstance(v, bool) and math.isfinite(v)


def _short(v: Any) -> str:
    text = f"{v:.4g}" if isinstance(v, float) else " ".join(str(v).split())
    return text if len(text) <= 40 else text[:37] + "..."
