"""Comparable timings: all sides are measured in turn in one run, after a warm-up, with median and
quartiles.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """Measurements of one side: `values` in `unit`, one per repeat."""

    what: str
    side: str
    unit: str
    values: list[float]

    def summary(self) -> dict[str, Any]:
        """Return the row for the record, with its number of repeats, median, quartiles and extremes."""
        return {"what": self.what, "side": self.side, "unit": self.unit, **spread(self.values)}


@dataclass
class Found:
    """The result of a section: rows of numbers, targets met or missed, and remarks."""

    rows: list[Row] = field(default_factory=list)
    aims: list[tuple[str, bool]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def spread(values: list[float]) -> dict[str, Any]:
    """Return n, median, quartiles, minimum and maximum of some values, and the values themselves.

    >>> spread([4.0, 1.0, 3.0, 2.0])["quartiles"]
    [1.75, 3.25]
    """
    if not values:
        raise ValueError("Nothing was measured: there are no values.")
    low, _, high = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    )
    ends = {"least": min(values), "greatest": max(values)}
    return {
        "n": len(values),
        "median": statistics.median(values),
        "quartiles": [low, high],
        **ends,
        "values": values,
    }


def interleaved(
    sides: Mapping[str, Callable[[], Mapping[str, float]]],
    repeats: int,
    warmup: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> dict[tuple[str, str], list[float]]:
    """Return {(what, side): values}. Each side is called once per round, so disturbances of the machine
    affect all sides.

    sides: {name: function that does the work once and returns {what: seconds}}. The order rotates by one
    position per round, so that no side always follows the same other one. The first `warmup` rounds do not
    count.
    """
    names, values = list(sides), {}
    for n in range(-warmup, repeats):
        turn = n % len(names)
        for name in names[turn:] + names[:turn]:
            for what, value in sides[name]().items():
                if n >= 0:
                    values.setdefault((what, name), []).append(value)
        say(f"round {n + 1} of {repeats}" if n >= 0 else "warm-up")
    return values


def rows(values: Mapping[tuple[str, str], list[float]], unit: str = "s") -> list[Row]:
    """Return the result of `interleaved` as rows, ordered by what was measured, then by side."""
    whats = list(dict.fromkeys(what for what, _ in values))
    return [Row(what, side, unit, v) for w in whats for (what, side), v in values.items() if what == w]
