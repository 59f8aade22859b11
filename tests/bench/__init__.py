"""Measured overhead of the course's own tools: `python -m tests.bench PART`, or `make bench PART=...`.

A part is a module of this package and is found by its name, so a new part needs only one new file. A part has
`ABOUT` (a line), `SECTIONS` ({name: function of the options that returns a `measure.Found`}) and
`arguments(parser)`. Optionally, it has `versions()` ({name: version} of other measured software) and `README`
(the page for its table).
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

__all__ = ["part", "parts"]

TOOLS = ("classroom", "measure", "record", "rivals", "scheduler", "traffic", "__main__")


def parts() -> list[str]:
    """Return the names of the existing parts."""
    return sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name not in TOOLS)


def part(name: str) -> ModuleType:
    """Return the module of a part."""
    return importlib.import_module(f"{__name__}.{name}")
