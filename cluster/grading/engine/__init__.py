"""Grades one submission: no student code runs outside a sandbox, and no mark is decided inside it.

grader    the engine: starts the two processes, watches the clock, writes the verdict
work      one submission on its way through it
sandbox   the bubblewrap around each process; privileges: never as root; groups: limits of all together
leftovers   what an engine that was killed has left, removed by the next
warm      the fork server that holds the libraries imported, as the engine sees it
fork, namespaces   the same inside its sandbox: each child makes itself a sandbox of its own
student   runs in the sandbox: the notebook's cells but the checks, then what the referee asks for
referee   runs in a second sandbox, on the instructor's text only: the checks
remote    what the referee has of the student's functions and objects
channel, codec   how the two talk: length-limited JSON, plain data, never a pickle

with Engine(workers=2, limits=Limits(cell=60)) as engine:
    verdict = engine.grade(notebook, files)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster.grading.engine.grader import Engine
    from cluster.grading.engine.verdict import Check, Limits, Verdict

__all__ = ["Check", "Engine", "Limits", "Verdict"]


def __getattr__(name: str) -> Any:
    # Inside the sandboxes only the modules that run there exist, so nothing is imported before it is used.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Engine":
        from cluster.grading.engine.grader import Engine

        return Engine
    from cluster.grading.engine import verdict

    return getattr(verdict, name)
