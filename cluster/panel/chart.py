"""Curves as SVG, drawn by hand: the server that shows them need not load matplotlib."""

from __future__ import annotations

import html
import math
from typing import Any

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 28, 40
LINES = 7  # that the style sheet tells apart, by colour and by dash


def svg(axis: str, name: str, curves: dict[str, Any]) -> str:
    """One metric by `axis` ('step', 'epoch' or 'line'), a line for each {label: Curve}; safe HTML.

    A title says in words what the picture shows.
    """
    from markupsafe import Markup

    lines = [(label, curve.points()) for label, curve in curves.items()]
    lines = [(label, points) for label, points in lines if points][:LINES]
    if not lines:
        return Markup("")
    xs = [x for _, points in lines for x, _ in points]
    ys = [y for _, points in lines for _, y in points]
    across = scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    up = scale(min(ys), max(ys), HEIGHT - BOTTOM, TOP)
    parts = [f'<text class="name" x="{LEFT}" y="16">{html.escape(name)}</text>']
    for y in ticks(min(ys), max(ys)):
        parts.append(f'<path class="grid" d="M{LEFT} {up(y):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>'
        )
    for x in ticks(min(xs), max(xs)):
        place = f'x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 16}"'
        parts.append(f'<text class="tick" {place} text-anchor="middle">{x:.6g}</text>')
    said = {"line": "logged line"}.get(axis, axis)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="tick" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{said}</text>')
    for i, (_, points) in enumerate(lines):
        way = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in points)
        parts.append(f'<path class="line line-{i}" d="M{way}"/>')
        x, y = points[-1]
        parts.append(f'<circle class="dot line-{i}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.5"/>')
    words = html.escape(spoken(said, name, lines))
    about = f'role="img" aria-label="{words}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return Markup(f'<svg class="chart" {about}>{"".join(parts)}</svg>')


def spoken(axis: str, name: str, lines: list[tuple[str, list[tuple[float, float]]]]) -> str:
    """The curves in words."""
    parts = []
    for label, points in lines:
        (x0, y0), (x1, y1) = points[0], points[-1]
        parts.append(f"{label} from {y0:.4g} at {x0:.6g} to {y1:.4g} at {x1:.6g}")
    return f"{name} by {axis}: {'; '.join(parts)}."


def scale(low: float, high: float, start: float, end: float) -> Any:
    """A function from [low, high] to [start, end]; a single value lies in the middle."""
    if high == low:
        return lambda _: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


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
