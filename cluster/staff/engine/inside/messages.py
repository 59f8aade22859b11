"""The messages between the engine's own processes. What a student's process sends has no such type."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, final

from .codec import Tree


@final
class CheckReply(TypedDict):
    """From the test process to the engine: what came of one check."""

    check: str
    error: str  # "Name: text", "" if it has passed
    students: bool  # the error was raised in the student's process
    called: bool
    seconds: float
    printed: str
    gone: bool  # a process of the submission cannot be asked any more


@final
class BrokenChecks(TypedDict):
    """From the test process to the engine: no check can be run, whatever was submitted."""

    broken: str


class NotebookTask(TypedDict):
    """From the engine to ranks and trials: how they make the functions of a notebook."""

    cells: list[tuple[str, str]]  # (text, kind: see `names`)
    provided: list[str]
    limits: dict[str, int]
    cell: float  # seconds


class RankRequest(TypedDict):
    """From the test process to the ranks' sandbox: a function to call."""

    function: str
    ranks: int
    seconds: float
    instead: str
    sizes: list[int]  # with a relay: how many ranks each call has; else empty


class RankInputs(TypedDict):
    """From the test process to one rank."""

    inputs: Tree
    functions: dict[str, str]  # arguments that are functions of the notebook: their names there


class RankAnswer(TypedDict):
    """From the ranks' sandbox to the test process: what came of one rank. A student made the value."""

    value: NotRequired[Tree]
    error: NotRequired[str]
    unfinished: NotRequired[str]
    files: NotRequired[Any]  # {name: (size, hash, time)}
    notes: NotRequired[list[list[Tree]]]


class RankResult(TypedDict):
    """What one rank returned to a check in a call with a relay."""

    value: NotRequired[object]
    error: NotRequired[str]
    notes: list[list[object]]
