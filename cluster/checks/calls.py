"""Checks of how a function obtains its result, not only of what it returns.

    def tripled(a, b):
        return 3 * (a @ b)

    with watched("gemm", tripled) as calls:
        result = forward(x, w, b)
    assert calls.count == 1  # and `result` is three times what it was, if it came from that call
    with unchanged(x=x, w=w):
        forward(x, w, b)
    with in_place():
        update(weights)  # is meant to change its argument
    recipe = once("recipe", choose_recipe)  # the same value in all checks, whatever further calls return

`watched` replaces a global name in the notebook that runs the check. In the autograder, the notebook's
functions run in another process, which calls back for the replaced function. Calls are counted and answered
where the student's code cannot interfere. In the autograder, functions get copies of arrays. A function that
changes its arguments outside of `in_place` fails the check, and `unchanged` detects this in a notebook.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

ENGINE = "__student__"  # in the autograder's test process, this name is among a check's globals


class Calls:
    """The calls that `watched` has counted; `count` is their number so far."""

    count = 0


class watched:
    """Count calls of the global function `name` while the block runs.

    instead: a function with the same arguments that answers these calls. If it returns a different value (a
    multiple, the windows of another image), the output shows the check whether that value was used. Raises
    NameError if the notebook does not have this function.
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
        ):  # any other exception ends the check, and the autograder restores the function
            self.engine.put_back()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Count a call and answer it; in the notebook, this method replaces the function."""
        self.calls.count += 1
        return (self.instead or self.function)(*args, **kwargs)


def once(name: str, function: Callable, *args: Any) -> Any:
    """Return what the first call of this name with equal arguments returned, in all checks that ask for it.

    What one check has judged is then what the others judge. If the autograder judges one of them again, it
    judges all of them again, and the points of one run count. In a notebook, the function is always called.
    """
    engine = sys._getframe(1).f_globals.get(ENGINE)
    if not engine:
        return function(*args)
    engine.judged.add(name)
    known = engine.pinned.setdefault(name, {})
    if repr(args) not in known:
        known[repr(args)] = function(*args)
    return copy.deepcopy(known[repr(args)])


class in_place:
    """While the block runs, let the notebook's functions change the arrays that are passed to them.

    In a notebook they always can. In the autograder, functions get copies. The changes are copied back only
    in such a block; elsewhere they fail the check.
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
    """Verify after the block that these arrays are unchanged; otherwise raise AssertionError with the name.

    In the autograder this always holds, because there a call that changes an array raises an error anyway.
    """

    def __init__(self, **arrays: np.ndarray):
        self.arrays = arrays

    def __enter__(self) -> None:
        self.before = {name: array.tobytes() for name, array in self.arrays.items()}

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name, array in self.arrays.items():
            if kind is None and array.tobytes() != self.before[name]:
                raise AssertionError(f"the function has changed its argument {name}: work on a copy")
