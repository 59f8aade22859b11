"""For checks of how a function does its work, not only of what it returns.

    def tripled(a, b):
        return 3 * (a @ b)

    with watched("gemm", tripled) as calls:
        result = forward(x, w, b)
    assert calls.count == 1  # and `result` is three times what it was, if it came from that call
    with unchanged(x=x, w=w):
        forward(x, w, b)
    with in_place():
        update(weights)  # is meant to change its argument

`watched` replaces a global name of the notebook that runs the check. In the autograder, the notebook's
functions live in another process, which calls back for it. Calls are counted and answered out of reach of
the student's code. The functions get copies of arrays there. A function that changes its arguments outside
of `in_place` fails the check, and `unchanged` detects the same in a notebook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

ENGINE = "__student__"  # the autograder's test process has this name among a check's globals


class Calls:
    """`count`: how often the function was called so far."""

    count = 0


class watched:
    """While the block runs, calls of the global function `name` are counted.

    instead: a function of the same arguments that answers these calls. If it answers with a different value
    (a multiple, the windows of another image), the check sees in the output whether that was used. Raises
    NameError if the notebook has no such function.
    """

    def __init__(self, name: str, instead: Callable | None = None):
        self.name, self.instead, self.calls = name, instead, Calls()
        self.names = sys._getframe(1).f_globals
        self.engine = self.names.get(ENGINE)

    def __enter__(self) -> Calls:
        if self.engine:
            self.function = self.engine.replace(self.name, self.call)
        elif self.name in self.names:
            self.function, self.names[self.name] = self.names[self.name], self.call
        else:
            raise NameError(f"name {self.name!r} is not defined")
        return self.calls

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self.engine:
            self.names[self.name] = self.function
        elif kind is None or issubclass(
            kind, Exception
        ):  # otherwise the check is over, and the autograder restores it
            self.engine.put_back()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Stands for the function."""
        self.calls.count += 1
        return (self.instead or self.function)(*args, **kwargs)


class in_place:
    """While the block runs, arrays handed to the notebook's functions are changed by what these do to them.

    In a notebook that is always so. In the autograder, functions get copies. Only in such a block are the
    changes copied back; anywhere else they fail the check.
    """

    def __init__(self) -> None:
        self.engine = sys._getframe(1).f_globals.get(ENGINE)

    def __enter__(self) -> None:
        if self.engine:
            self.engine.in_place = True

    def __exit__(self, *_: Any) -> None:
        if self.engine:
            self.engine.in_place = False


class unchanged:
    """After the block each of these arrays, given by name, is as it was, or an AssertionError names it.

    In the autograder this always holds, because a call that changes an array is an error by itself.
    """

    def __init__(self, **arrays: np.ndarray):
        self.arrays = arrays

    def __enter__(self) -> None:
        self.before = {name: array.tobytes() for name, array in self.arrays.items()}

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name, array in self.arrays.items():
            if kind is None and array.tobytes() != self.before[name]:
                raise AssertionError(f"the function has changed {name}, which it was given: work on a copy")
