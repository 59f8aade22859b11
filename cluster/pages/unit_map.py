"""The units of the course as a drawing: a row of numbers, and an arc from each to what builds on it.

As SVG, with a text for those who cannot see it; colours come from the style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .course_map import Unit

STEP, RADIUS, MARGIN = 40, 14, 20  # of the circles, in the drawing's units


def svg(units: list[Unit], here: Iterable[str], done: Iterable[str]) -> str:
    """An <svg> of all units. here: the numbers of lectures that can be opened; done: of what is handed in."""
    at = {unit.number: MARGIN + STEP * i for i, unit in enumerate(units)}
    leaps = [(need, unit.number) for unit in units for need in unit.needs if need in at]
    rise = max((abs(at[b] - at[a]) for a, b in leaps if at[b] - at[a] > STEP), default=0) / 2
    y, width = rise + MARGIN, 2 * MARGIN + STEP * (len(units) - 1)
    parts = [arrow(at[a], at[b], y) for a, b in leaps]
    parts += [circle(unit, at[unit.number], y, unit.number in here, unit.number in done) for unit in units]
    return (
        f'<svg class="chart unit-map" viewBox="0 0 {width} {y + MARGIN:g}" role="img"'
        f' aria-label="{escape(in_words(units))}">{"".join(parts)}</svg>'
    )


def arrow(a: float, b: float, y: float) -> str:
    """A line between neighbours, above others an arc."""
    if b - a <= STEP:
        return f'<path class="leads" d="M{a + RADIUS} {y}H{b - RADIUS}"/>'
    top, half = y - RADIUS, (b - a) / 2
    return f'<path class="leads" d="M{a} {top}A{half} {half - RADIUS} 0 0 1 {b} {top}"/>'


def circle(unit: Unit, x: float, y: float, here: bool, done: bool) -> str:
    """A unit: filled when its assignment is handed in, dashed as long as its lecture is to come."""
    looks = "unit done" if done else "unit" if here else "unit to-come"
    shape = f'<circle class="{looks}" cx="{x}" cy="{y}" r="{RADIUS}"/>'
    words = f'<text class="{looks}" x="{x}" y="{y + 4}" text-anchor="middle">{escape(unit.number)}</text>'
    return f"<g><title>{escape(unit.number)} {escape(unit.title)}</title>{shape}{words}</g>"


def in_words(units: list[Unit]) -> str:
    """'02 builds on 01; 03 builds on 01 and 02; …'"""
    built = [f"{unit.number} builds on {' and '.join(unit.needs)}" for unit in units if unit.needs]
    return f"The {len(units)} units in a row: " + "; ".join(built) + "."
