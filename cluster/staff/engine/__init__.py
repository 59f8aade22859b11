"""Grades one submission: no student code runs outside a sandbox, and no mark is decided inside it.

engine       starts the processes, watches the clock, writes the verdict
pace         whether a limit of time was the submission's own, or others had the processors
submission   one submission on its way through it; inputs, outputs: the files it gets, the cells' outputs
sandbox/     the sandboxes: bubblewrap, the fork server, their limits (its own docstring lists the modules)
inside/      what runs in the sandboxes
             student: the notebook's cells but the checks, then what the referee asks for
             referee: in a second sandbox, on the instructor's text only: the checks
             ranks: in a third, where a check needs some: functions of the notebook on ranks
             ask_ranks: the same as the referee asks for it; names: what a cell or a function needs
             remote: what the referee has of the student's functions and objects
             channel, codec: how the two talk: length-limited JSON, plain data, never a pickle

with Engine(workers=2, limits=Limits(cell=60)) as engine:
    verdict = engine.grade(notebook, files)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import Engine
    from .verdict import Check, Limits, Verdict

__all__ = ["Check", "Engine", "Limits", "Verdict"]


def __getattr__(name: str) -> Any:
    # Inside the sandboxes only the modules that run there exist, so nothing is imported before it is used.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Engine":
        from .engine import Engine

        return Engine
    from . import verdict

    return getattr(verdict, name)
