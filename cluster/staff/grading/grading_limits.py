"""The limits of an assignment's grading, from the course, the assignment, and a command's --limit.

    c.Grading.limits = {"cell": 90}  # of all assignments; names and defaults: engine.Limits
    c.Grading.limits_of = {"10": {"total": 600, "memory": "6G"}}  # of those whose name begins with 10

`grade run`, `grade regrade`, nbgrader's and Formgrader's Autograde and the official check use them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..course import Course, CourseError, assignments
from ..engine import Limits

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def limit(name: object, value: object) -> float:
    """Return the value of a limit in seconds, or in bytes with suffix K, M, G. Raises CourseError."""
    known = {field.name: field.default for field in dataclasses.fields(Limits)}
    if name not in known:
        raise CourseError(f"{name!r} is not a known limit; the limits are {', '.join(known)}")
    text = str(value)
    unit = UNITS.get(text[-1:].upper(), 0)
    try:
        number = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        number = 0
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise CourseError(f"{name}={text}: give a positive number, for bytes with K, M or G")
    return int(number) if isinstance(known[str(name)], int) else number


def of(course: Course, assignment: str, given: dict[str, float] | None = None) -> dict[str, float]:
    """Return the limits that differ from the defaults, {name: value}. given: by a command.

    Raises CourseError if nbgrader_config.py names an unknown limit or assignment.
    """
    settings = course.config.get("Grading", {})
    tables: list[Any] = [settings.get("limits", {})]
    for wanted, own in settings.get("limits_of", {}).items():
        tables += [own] if assignment in assignments(course.root, str(wanted)) else []
    found: dict[str, float] = {}
    for table in tables:
        if not isinstance(table, dict):
            raise CourseError(
                f"Grading in nbgrader_config.py: {table!r} is not a table, such as {{'cell': 90}}"
            )
        found |= {str(name): limit(name, value) for name, value in table.items()}
    default = dataclasses.asdict(Limits())
    return {name: value for name, value in (found | (given or {})).items() if value != default[name]}


def described(limits: dict[str, float]) -> str:
    """Return limits as `--limit` takes them."""
    return " ".join(f"{name}={value:g}" for name, value in sorted(limits.items())) or "the defaults"
