"""Curves as SVG, drawn by hand: the server that shows them need not load matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from jinja2 import Environment
from markupsafe import Markup

if TYPE_CHECKING:
    from cluster.jobs.show.curves import Curve

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 28, 40
LINES = 7  # that the style sheet tells apart, by colour and by dash
SVG = Environment(autoescape=True).from_string("""\
<svg class="chart" role="img" aria-label="{{ words }}" viewBox="0 0 {{ width }} {{ height }}">
<text class="name" x="{{ left }}" y="16">{{ name }}</text>
{%- for y, label in rows %}
<path class="grid" d="M{{ left }} {{ y }}H{{ right }}"/>
<text class="tick" x="{{ left - 6 }}" y="{{ y }}" dy="4" text-anchor="end">{{ label }}</text>
{%- endfor %}
{%- for x, label in columns %}
<text class="tick" x="{{ x }}" y="{{ bottom + 16 }}" text-anchor="middle">{{ label }}</text>
{%- endfor %}
<text class="tick" x="{{ (left + right) / 2 }}" y="{{ height - 6 }}" text-anchor="middle">{{ axis }}</text>
{%- for points in lines %}
<path class="line line-{{ loop.index0 }}" d="M{% for x, y in points %}{{ "" if loop.first else "L" }}{{ x }} {{ y }}{% endfor %}"/>
<circle class="dot line-{{ loop.index0 }}" cx="{{ points[-1][0] }}" cy="{{ points[-1][1] }}" r="2.5"/>
{%- endfor %}
</svg>""")  # noqa: E501


def svg(axis: str, name: str, curves: dict[str, Curve]) -> Markup:
    """One metric by `axis` ('step', 'epoch' or 'line'), a line for each {label: Curve}; safe HTML.

    A title says in words what the picture shows. Empty where no curve has a point.
    """
    lines = [(label, curve.points()) for label, curve in curves.items()]
    lines = [(label, points) for label, points in lines if points][:LINES]
    if not lines:
        return Markup("")
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    xs = [x for _, points in lines for x, _ in points]
    ys = [y for _, points in lines for _, y in points]
    across, up = scale(min(xs), max(xs), LEFT, right), scale(min(ys), max(ys), bottom, TOP)
    axis = {"line": "logged line"}.get(axis, axis)
    return Markup(
        SVG.render(
            name=name, axis=axis, words=spoken(axis, name, lines),
            width=WIDTH, height=HEIGHT, left=LEFT, right=right, bottom=bottom,
            rows=[(up(y), f"{y:.4g}") for y in ticks(min(ys), max(ys))],
            columns=[(across(x), f"{x:.6g}") for x in ticks(min(xs), max(xs))],
            lines=[[(across(x), up(y)) for x, y in points] for _, points in lines],
        )
    )  # fmt: skip


def spoken(axis: str, name: str, lines: list[tuple[str, list[tuple[float, float]]]]) -> str:
    """The curves in words."""
    parts = []
    for label, points in lines:
        (x0, y0), (x1, y1) = points[0], points[-1]
        parts.append(f"{label} from {y0:.4g} at {x0:.6g} to {y1:.4g} at {x1:.6g}")
    return f"{name} by {axis}: {'; '.join(parts)}."


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """A function from [low, high] to [start, end] in tenths of a pixel; a single value lies in the middle."""
    if high == low:
        return lambda _: round((start + end) / 2, 1)
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def ticks(low: float, high: float) -> list[float]:
    """Two to six round numbers between low and high.

    >>> ticks(0, 10)
    [0, 2, 4, 6, 8, 10]
    """
    if high <= low:
        return [low]
    raw = (high - low) / 4
    power = 10 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * 0.8)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)] or [low, high]
