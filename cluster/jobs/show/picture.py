"""Figures of jobs in the course's style: PNG inside HTML, without scripts, kept in a saved notebook."""

from __future__ import annotations

import base64
import contextlib
import html
import io
from collections.abc import Iterator
from typing import Any

from .curves import Curve

STYLE = "cluster.course"
COLUMNS, PANELS = 3, 6
COLOURS = 7  # number of distinct colours in the course's colour cycle


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Use the course's style for figures drawn in this context, whatever the notebook has set."""
    import matplotlib.style

    with matplotlib.style.context(["default", STYLE]):
        yield


def figure(width: float, height: float) -> Any:
    """Return a matplotlib Figure, sized in inches, that a notebook does not display by itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig


def shown(fig: Any) -> Any:
    """Make a figure display itself in a notebook without pyplot, and return it."""

    fig._repr_png_ = lambda: _png(fig, dpi=100)
    return fig


def _png(fig: Any, dpi: int) -> bytes:
    data = io.BytesIO()
    with style():
        fig.savefig(data, format="png", dpi=dpi, bbox_inches=None)
    return data.getvalue()


def image(fig: Any, words: str) -> str:
    """Return a figure as an <img> with its alternative text, rendered at twice its size to stay sharp."""
    code = base64.b64encode(_png(fig, dpi=160)).decode()
    size = f"width:{fig.get_figwidth():.1f}in;max-width:100%;height:auto"
    return f'<img src="data:image/png;base64,{code}" alt="{html.escape(words)}" style="{size}"/>'


def panels(metrics: list[tuple[str, str, dict[str, Curve]]], busy: bool) -> tuple[Any, str]:
    """Return (figure, alternative text) of up to PANELS adjacent metrics (axis, name, {label: curve}).

    busy: more points will follow, so the axes have labels with the current range.
    """
    shown = metrics[:PANELS]
    columns = 2 if len(shown) in (2, 4) else min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    with style():
        fig = figure(3.1 * columns + (0.9 if columns == 1 else 0), 2.3 * rows + 0.35)
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for ax, (axis, name, curves) in zip(axes, shown, strict=False):
            _panel(ax, axis, name, curves)
        for ax in axes[len(shown) :]:
            ax.remove()
        handles, labels = axes[0].get_legend_handles_labels()
        if len(labels) > 1:
            fig.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 2 * columns))
    return fig, _words(shown, busy)


def _panel(ax: Any, axis: str, name: str, curves: dict[str, Curve]) -> None:
    for i, (label, curve) in enumerate(curves.items()):
        x, y = zip(*(curve.points() or [(float("nan"), float("nan"))]), strict=True)
        look: dict[str, Any] = {
            "label": label,
            "marker": "" if len(x) > 12 else None,
            "markersize": 3.5,
            "lw": 1.4,
        }
        if len(curves) > COLOURS:  # too many colours to distinguish, so the first line is highlighted
            look |= {"color": "0.6" if i else "C0", "ls": "-", "marker": "", "zorder": 2 if i else 3}
            look["label"] = {0: label, 1: "the others"}.get(i)
        ax.plot(x, y, **look)
    ax.set_title(name)
    stride = max(c.stride for c in curves.values())
    means = f" (each point is the mean of {stride})" if stride > 1 else ""
    ax.set_xlabel({"line": "logged line"}.get(axis, axis) + means)
    ax.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    ax.ticklabel_format(useOffset=False)


def _words(metrics: list[tuple[str, str, dict[str, Curve]]], busy: bool) -> str:
    parts = []
    for axis, name, curves in metrics:
        label, curve = next(iter(curves.items()))
        points = curve.points()
        (x0, y0), (x1, y1) = points[0], points[-1]
        low = min(y for _, y in points)
        parts.append(
            f"{name} by {axis}: {label} from {y0:.4g} at {x0:.4g} to {y1:.4g} at {x1:.4g}, least {low:.4g}"
        )
    return f"Curves{' so far' if busy else ''}. " + "; ".join(parts) + "."
