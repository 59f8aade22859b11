"""Whether a function, class or module is the student's or an installed one, which its name identifies."""

from __future__ import annotations

import sys
import types
from typing import Any

from . import modules

HEAP = 1 << 9  # in a class's flags: it was made at run time, and others can have its name


def is_local(v: Any) -> bool:
    """Return whether a function, class or module is the student's: neither installed nor in this package."""
    module = v if isinstance(v, types.ModuleType) else sys.modules.get(_text(v, "__module__"))
    if module is None:
        return isinstance(v, (types.FunctionType, type))
    if module.__name__ == "__main__":
        return True
    path: Any = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", None) or ()), None)
    return bool(path) and not modules.installed(path)


def named(v: Any, name: str = "") -> list[str] | None:
    """Return [module, name] if an installed module has this very object under that name, otherwise None."""
    name = name or _text(v, "__qualname__") or _text(v, "__name__")
    if isinstance(v, type) and not v.__flags__ & HEAP:
        return [v.__module__, name]
    own, family = sys.modules.get(_text(v, "__module__")), type(v).__module__.partition(".")[0]
    places = (
        [own] if own else [sys.modules[m] for m in sorted(sys.modules, key=lambda m: (family not in m, m))]
    )
    for module in places:
        first, *others = name.split(".")
        found = getattr(module, "__dict__", {}).get(first)
        for part in others:
            found = getattr(found, part, None)
        if found is v and not is_local(module):
            return [module.__name__, name]
    return None


def _text(v: Any, attribute: str) -> str:
    found = getattr(v, attribute, None)
    return found if isinstance(found, str) else ""
