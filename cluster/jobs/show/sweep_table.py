"""A sweep as a table, as a figure and as a card in a notebook."""

from __future__ import annotations

import math
from typing import Any

from ..errors import OptionValueError
from ..metrics import last
from ..run.run_folder import RunFolder
from . import render
from .card import relative, steps
from .curves import KNOWN, span
from .protocols import ShownSweep
from .render import Row, View

OWN = ("status", "result", "seconds", "error")  # columns of each table
SHOWN = 20  # items in a card; failed and running items come first


def metrics(sweep: ShownSweep) -> Any:
    """See `Sweep.metrics`."""
    import pandas as pd

    frames = {i: sweep[i].metrics() for i in range(len(sweep)) if sweep.here(i)}
    frames = {i: frame for i, frame in frames.items() if len(frame)}
    if not frames:
        return pd.DataFrame(columns=["item", "rank", "time"])
    return pd.concat(frames, names=["item"]).reset_index("item").reset_index(drop=True)


def table(sweep: ShownSweep) -> Any:
    """See `Sweep.table`."""
    import pandas as pd

    rows = [row(sweep, i, status) for i, status in enumerate(sweep.statuses)]
    order = list(dict.fromkeys(name for r in rows for name in r))
    order = [n for n in order if n not in ("seconds", "error")] + ["seconds", "error"]
    return pd.DataFrame(rows, columns=order, index=pd.RangeIndex(len(rows), name="item"))


def row(sweep: ShownSweep, i: int, status: Any) -> dict[str, Any]:
    """Return {column: value} of one item; returned values take precedence over equally named metrics."""
    values = inputs(sweep, i) | {"status": str(status)}
    if not sweep.here(i):
        return values | {"error": f"Lost: {status.what}"}
    job = sweep[i]
    if status == "done":
        value = job.result(partial=True)
        if isinstance(value, dict) and all(isinstance(k, str) for k in value):
            values |= {k: v for k, v in value.items() if k not in values and _single(v)}
        elif value is not None:
            values["result"] = value
    logged = last(RunFolder(job.folder).metrics(0))
    values |= {k: v for k, v in logged.items() if k not in values and k not in KNOWN}
    if end := RunFolder(job.folder).ending():
        if end["started"]:
            values["seconds"] = round(end["ended"] - end["started"], 3)
        if error := job.error():
            values["error"] = f"{type(error).__name__}: {error.what}"
    return values


def inputs(sweep: ShownSweep, i: int) -> dict[str, Any]:
    """Return {column: value} of an item: one column, or one for each key if all items are dictionaries.

    An underscore is added to a name that another column has.
    """
    items = list(sweep.items)
    if not all(isinstance(v, dict) for v in items):
        items = [{sweep.spec["parameter"]: v} for v in items]
    keys = dict.fromkeys(k for v in items for k in v)
    return {f"{k}_" if k in OWN else k: items[i].get(k) for k in keys}


def figure(sweep: ShownSweep, y: str | None, x: str | None) -> Any:
    """See `Sweep.figure`."""
    from . import picture

    frame = table(sweep)
    given = list(inputs(sweep, 0))
    numbers = [c for c in frame.columns if any(_number(v) for v in frame[c])]
    x = _chosen(x or next((c for c in given if c in numbers), None), numbers, "x")
    y = _chosen(y or next((c for c in numbers if c not in (*given, "seconds")), None), numbers, "y")
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
    ranks = f"{sweep.ranks} rank{'s' * (sweep.ranks > 1)} each, {sweep.backend} backend"
    view = View(sweep.name, str(now), [now.what, ranks], folder=relative(sweep.folder))
    order = {"done": 0, "failed": 1, "running": 2, "pending": 3}
    for state in sorted(set(statuses), key=lambda s: order.get(s, 1)):
        view.parts.append((str(state), statuses.count(state) / len(statuses)))
    urgent = {"running": 1, "done": 2, "pending": 3}
    chosen = sorted(range(len(sweep)), key=lambda i: (urgent.get(statuses[i], 0), i))[:SHOWN]
    view.rows = [_row(sweep, i, statuses[i]) for i in sorted(chosen)]
    if len(sweep) > SHOWN:
        view.notes.append(f"{SHOWN} of {len(sweep)} items; sweep.table() has all.")
    view.notes += [f"→ {now.next_step}"] if now.next_step else []
    return render.page(view)


def _row(sweep: ShownSweep, i: int, status: Any) -> Row:
    shown = Row(str(i), None, [_short(sweep.items[i])], str(status))
    if status == "pending":
        return shown
    if not sweep.here(i):
        shown.facts.append(status.what)
    elif status == "running":
        shown.share, done = steps(sweep[i].folder)
        shown.facts.append(f"{done} steps" if done else "")
    else:
        values = row(sweep, i, status)
        skip = {*inputs(sweep, i), "status", "seconds"}
        rest = ", ".join(f"{k} {_short(v)}" for k, v in values.items() if k not in skip)
        ran = span(values["seconds"]) if "seconds" in values else ""
        shown.facts += [ran, (values.get("error") or rest).partition("\n")[0]]
    return shown


def _chosen(name: str | None, numbers: list[str], axis: str) -> str:
    if name in numbers:
        return name
    there = ", ".join(numbers) or "none"
    step = f"Columns of numbers: {there}. sweep.table() shows all."
    raise OptionValueError(f"{axis}={name!r} is not a column of numbers.", step)


def _single(v: Any) -> bool:
    return v is None or isinstance(v, (bool, int, float, str)) or getattr(v, "shape", None) == ()


def _number(v: Any) -> bool:
    single = isinstance(v, (int, float)) or (getattr(v, "shape", None) == () and v.dtype.kind in "iuf")
    return single and not isinstance(v, bool) and math.isfinite(v)


def _short(v: Any) -> str:
    text = f"{v:.4g}" if isinstance(v, float) else " ".join(str(v).split())
    return text if len(text) <= 40 else text[:37] + "..."
