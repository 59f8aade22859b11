"""For checks of how a function does its work, not only of what it returns.

    with watched("im2col") as calls, forbidden("convolve_loops", "use one product instead of the loops"):
        result = forward(x, w, b)
    assert calls.count == 1
    with in_place():
        update(weights)  # changes its argument, or must not

The first two work on global names of the notebook that runs the check. In the grading engine the notebook's
functions live in another process; there the names are replaced in that process.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

ENGINE = "__student__"  # the engine's referee has this name among a check's globals


class Calls:
    """`count`: how often the function was called; right once the `with` block has ended."""

    count = 0


def recorder(function: Callable, calls: Calls) -> Callable:
    """`function`, counting its calls."""

    @functools.wraps(function)
    def counted(*args, **kwargs):
        calls.count += 1
        return function(*args, **kwargs)

    return counted


def refusal(words: str) -> Callable:
    """A function that raises AssertionError(words)."""

    def refuse(*args, **kwargs):
        raise AssertionError(words)

    return refuse


class watched:
    """While the block runs, calls of the global function `name` are counted."""

    words: str | None = None

    def __init__(self, name: str):
        self.name, self.names, self.calls = name, sys._getframe(1).f_globals, Calls()
        self.engine = self.names.get(ENGINE)

    def __enter__(self) -> Calls:
        if self.engine:
            self.engine.watch(self.name, self.words)
            return self.calls
        if self.name not in self.names:
            raise NameError(f"name {self.name!r} is not defined")
        self.function = self.names[self.name]
        counted = recorder(self.function, self.calls)
        self.names[self.name] = refusal(self.words) if self.words else counted
        return self.calls

    def __exit__(self, *_: Any) -> None:
        if self.engine:
            self.calls.count = self.engine.unwatch()
        else:
            self.names[self.name] = self.function


class forbidden(watched):
    """While the block runs, a call of the global function `name` raises AssertionError(words)."""

    def __init__(self, name: str, words: str):
        self.name, self.names, self.calls = name, sys._getframe(1).f_globals, Calls()
        self.engine, self.words = self.names.get(ENGINE), words


class in_place:
    """While the block runs, arrays handed to the notebook's functions are changed by what these do to them.

    In a notebook that is always so. In the grading engine functions get copies, and only in such a block the
    changes are copied back: a function that overwrites its input with zeros must not change what the check
    computes from that input afterwards.
    """

    def __init__(self):
        self.engine = sys._getframe(1).f_globals.get(ENGINE)

    def __enter__(self) -> None:
        if self.engine:
            self.engine.in_place = True

    def __exit__(self, *_: Any) -> None:
        if self.engine:
            self.engine.in_place = False
