"""Metrics logged by ranks, as curves of bounded size: 100,000 steps take no more memory than 400.

A curve keeps at most `POINTS` points. Beyond that, neighbouring points are merged into their mean. A point
then represents 1, 2, 4, ... logged values. Values that are not finite are reported as text.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from pathlib import Path
from typing import Any

from ..metrics import OWN, Tail, number

POINTS = 400
WINDOW = 30.0  # seconds over which the step rate is averaged
KNOWN = (*OWN, "step", "steps", "epoch", "epochs")  # names that are not metrics
BARS = "▁▂▃▄▅▆▇█"


class Curve:
    """One metric of one rank. Points are means of `stride` values. `first_bad`: x of the first nan or inf."""

    def __init__(self) -> None:
        self.stride = 1
        self.first_bad: float | None = None
        self._points: list[tuple[float, float, int]] = []  # (mean x, mean y, number of values)
        self._newest = -math.inf

    def add(self, x: float, y: float) -> None:
        """Append a value; x may decrease, for example after a restart from a checkpoint."""
        if not math.isfinite(y):
            self.first_bad = x if self.first_bad is None else self.first_bad
            return
        if self._points and self._points[-1][2] < self.stride and x >= self._newest:
            self._points[-1] = _mean(self._points[-1], (x, y, 1))
        else:
            if len(self._points) == POINTS:
                pairs = zip(self._points[::2], self._points[1::2], strict=True)
                self._points = [_mean(a, b) for a, b in pairs]
                self.stride *= 2
            self._points.append((x, y, 1))
        self._newest = x

    def points(self) -> list[tuple[float, float]]:
        """Return the points so far, at most POINTS, in the order they were logged."""
        return [(x, y) for x, y, _ in self._points]


class Rank:
    """Progress of a rank: its step out of `steps`, steps per second, seconds left, and its newest metrics."""

    def __init__(self) -> None:
        self.step: int | None = None
        self.steps: int | None = None
        self.numbers: dict[str, float] = {}
        self.seen = 0.0  # time of the rank's last log call
        self._recent: deque[tuple[float, int]] = deque()

    def add(self, row: dict[str, Any]) -> None:
        self.seen = row["time"]
        for name in ("step", "steps"):
            if number(row.get(name)):
                setattr(self, name, row[name])
        if "step" in row and self.step is not None:
            if self._recent and self._recent[-1][1] > self.step:
                self._recent.clear()  # restarted from a checkpoint
            self._recent.append((self.seen, self.step))
            while len(self._recent) > 2 and self.seen - self._recent[0][0] > WINDOW:
                self._recent.popleft()
        self.numbers |= {k: v for k, v in row.items() if number(v) and k not in KNOWN}

    @property
    def rate(self) -> float | None:
        """Steps per second over the last half minute, or None if unknown."""
        if len(self._recent) < 2:
            return None
        (t0, s0), (t1, s1) = self._recent[0], self._recent[-1]
        return (s1 - s0) / (t1 - t0) if t1 > t0 and s1 > s0 else None

    @property
    def share(self) -> float | None:
        """The fraction of the rank's steps that is done, 0 to 1, or None if unknown."""
        return min(1.0, self.step / self.steps) if self.step is not None and self.steps else None

    @property
    def left(self) -> float | None:
        """Seconds until the rank's last step at the current rate, or None if unknown."""
        if not self.rate or not self.steps or self.step is None:
            return None
        return (self.steps - self.step) / self.rate


class Curves:
    """All metrics that a job's ranks have logged; `update()` reads new ones and returns whether any exist.

    curves: {(axis, metric, rank): Curve}. axis is 'step', 'epoch', or 'line' if neither was logged.
    """

    def __init__(self, folder: Path):
        self._tail = Tail(folder)
        self._lines: dict[int, int] = {}
        self.ranks: dict[int, Rank] = {}
        self.curves: dict[tuple[str, str, int], Curve] = {}

    def update(self) -> bool:
        """Read the new lines; return whether there were any."""
        rows = self._tail.new_rows()
        for row in rows:
            rank = row["rank"]
            self.ranks.setdefault(rank, Rank()).add(row)
            self._lines[rank] = self._lines.get(rank, 0) + 1
            axis = next((a for a in ("step", "epoch") if number(row.get(a))), "line")
            x = row.get(axis, self._lines[rank])
            for name, value in row.items():
                if name not in KNOWN and number(value):
                    self.curves.setdefault((axis, name, rank), Curve()).add(x, value)
        return bool(rows)

    def panels(self) -> list[tuple[str, str]]:
        """Return each (axis, metric) to draw: two or more points on some rank, not all equal."""
        names = dict.fromkeys((axis, name) for axis, name, _ in self.curves)
        order = {"step": 0, "epoch": 1, "line": 2}
        return sorted((p for p in names if self._varies(*p)), key=lambda p: order[p[0]])

    def lines(self, axis: str, name: str) -> dict[int, Curve]:
        """Return {rank: curve} of one metric."""
        return {r: c for (a, n, r), c in sorted(self.curves.items()) if (a, n) == (axis, name)}

    def warnings(self) -> list[str]:
        """Return messages about metrics that are no longer finite."""
        return [
            f"{name} is not finite from {axis} {c.first_bad:g} on (rank {rank}): look at the learning rate."
            for (axis, name, rank), c in sorted(self.curves.items())
            if c.first_bad is not None
        ]

    def _varies(self, axis: str, name: str) -> bool:
        points = [p for c in self.lines(axis, name).values() for p in c.points()]
        return len({x for x, _ in points}) > 1 and len({y for _, y in points}) > 1


def sparkline(points: list[tuple[float, float]], width: int = 24) -> str:
    """Return a curve as one line of `width` block characters, each the mean of a segment.

    >>> sparkline([(0, 4.0), (1, 3.0), (2, 2.0), (3, 0.5)], 4)
    '█▆▄▁'
    """
    n = len(points)
    cuts = [n * i // min(n, width) for i in range(min(n, width) + 1)]
    means = [sum(y for _, y in points[a:b]) / (b - a) for a, b in itertools.pairwise(cuts)]
    if not means:
        return ""
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0
    return "".join(BARS[round((m - low) * scale)] for m in means)


def span(seconds: float) -> str:
    """Return a duration as text in suitable units: '0.8 s', '45 s', '3 min 05 s', '2 h 10 min'."""
    s = round(seconds)
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    if s < 60:
        return f"{s} s"
    return f"{s // 60} min {s % 60:02d} s" if s < 3600 else f"{s // 3600} h {s // 60 % 60:02d} min"


def since(iso: str) -> float:
    """Convert an ISO date, such as run.json's `submitted`, to Unix seconds."""
    import datetime

    return datetime.datetime.fromisoformat(iso).timestamp()


def ago(at: float) -> str:
    """Describe how long ago a time (Unix seconds) was."""
    return span(max(0.0, time.time() - at))


def _mean(a: tuple[float, float, int], b: tuple[float, float, int]) -> tuple[float, float, int]:
    n = a[2] + b[2]
    return (a[0] * a[2] + b[0] * b[2]) / n, (a[1] * a[2] + b[1] * b[2]) / n, n
