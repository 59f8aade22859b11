"""Messages between the autograder's own processes; a student process may send anything."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, final

from .codec import Tree


@final
class CheckReply(TypedDict):
    """From the test process to the autograder: the result of one check."""

    check: str
    error: str  # "Name: text", "" if it passed
    students: bool  # the error was raised in the student process
    called: bool
    seconds: float
    printed: str
    gone: bool  # a process of the submission no longer answers


@final
class BrokenChecks(TypedDict):
    """From the test process to the autograder: no check can run, independently of the submission."""

    broken: str


class NotebookTask(TypedDict):
    """From the autograder to ranks and trials: the cells from which they create the notebook's functions."""

    cells: list[tuple[str, str]]  # (text, kind: see `names`)
    provided: list[str]
    limits: dict[str, int]
    cell: float  # time limit of a cell, in seconds


class RankRequest(TypedDict):
    """From the test process to the ranks' sandbox: the function to call."""

    function: str
    ranks: int
    seconds: float
    instead: str
    sizes: list[int]  # number of ranks of each call with a relay; otherwise empty


class RankInputs(TypedDict):
    """From the test process to one rank."""

    inputs: Tree
    functions: dict[str, str]  # {argument: name in the notebook} of arguments that are functions


class RankAnswer(TypedDict):
    """From the ranks' sandbox to the test process: the result of one rank, with a value from student code."""

    value: NotRequired[Tree]
    error: NotRequired[str]
    unfinished: NotRequired[str]
    files: NotRequired[Any]  # {name: (size, hash, time)}
    notes: NotRequired[list[list[Tree]]]


class RankResult(TypedDict):
    """The result of one rank for a check, in a call with a relay."""

    value: NotRequired[object]
    error: NotRequired[str]
    notes: list[list[object]]
