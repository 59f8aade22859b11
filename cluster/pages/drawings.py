"""Curves of jobs as SVG, with descriptions for screen readers.

The server that shows them therefore need not load matplotlib. The colours come from the CSS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from jinja2 import Environment
from markupsafe import Markup

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 28, 40
LINES = 7  # the CSS has this many distinct colours and dashes
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


Range = tuple[float, float]


Curves = Mapping[str, list[tuple[float, float]]]  # {label: points}


def chart(
    axis: str,
    name: str,
    curves: Curves,
    across: Range | None = None,
    up: Range | None = None,
) -> Markup:
    """Draw one metric against `axis` ('step', 'epoch' or 'line'), with a line for each {label: curve}, as
    safe HTML.

    A title describes the figure as text. The result is empty if no curve has a point. across, up: the axis
    ranges, with ticks at whole numbers. By default they follow from the points.
    """
    lines = [(label, points) for label, points in curves.items() if points][:LINES]
    if not lines:
        return Markup("")
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    xs = [x for _, points in lines for x, _ in points]
    ys = [y for _, points in lines for _, y in points]
    low_high = across or (min(xs), max(xs)), up or (min(ys), max(ys))
    at_x, at_y = scale(*low_high[0], LEFT, right), scale(*low_high[1], bottom, TOP)
    columns, rows = (
        ticks(*ends, least=1 if given else 0) for ends, given in zip(low_high, (across, up), strict=True)
    )
    axis = {"line": "logged line"}.get(axis, axis)
    return Markup(
        SVG.render(
            name=name, axis=axis, words=spoken(axis, name, lines),
            width=WIDTH, height=HEIGHT, left=LEFT, right=right, bottom=bottom,
            rows=[(at_y(y), f"{y:.4g}") for y in rows], columns=[(at_x(x), f"{x:.6g}") for x in columns],
            lines=[[(at_x(x), at_y(y)) for x, y in points] for _, points in lines],
        )
    )  # fmt: skip


def spoken(axis: str, name: str, lines: list[tuple[str, list[tuple[float, float]]]]) -> str:
    """Describe the curves as text."""
    parts = []
    for label, points in lines:
        (x0, y0), (x1, y1) = points[0], points[-1]
        parts.append(f"{label} from {y0:.4g} at {x0:.6g} to {y1:.4g} at {x1:.6g}")
    return f"{name} by {axis}: {'; '.join(parts)}."


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return a function from [low, high] to [start, end], rounded to 0.1 px. A single value is centred."""
    if high == low:
        return lambda _: round((start + end) / 2, 1)
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def ticks(low: float, high: float, least: float = 0) -> list[float]:
    """Return two to six round numbers between low and high, at least `least` apart.

    >>> ticks(0, 10)
    [0, 2, 4, 6, 8, 10]
    """
    if high <= low:
        return [low]
    raw = max((high - low) / 4, least)
    power = 10 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * 0.8)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)] or [low, high]
