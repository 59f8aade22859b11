"""Conversion of a verdict to a student's view: each check's points, and one of the known misconceptions.

The student's own code sees the hidden values while hidden tests run, and could put them into everything it
influences: an error's text and kind, printed text, the duration. If hidden tests fail, only this fact is
therefore used here. Two verdicts that agree in this have the same answer, as a test verifies. Messages of
visible tests, which run before any hidden ones, are harmless, but not repeated, because Validate shows them.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from .. import failures
from ..hidden import FAILED, as_released, only_failed
from ..results import feedback, misconceptions

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from ..engine import Check, Verdict
    from ..release.wrong_solutions import Mutant

PASSED, TO_DO, SHOWN, HIDDEN, BY_HAND = "passed", "to do", "shown", "hidden", "by hand"
WORDS = {
    PASSED: "",
    TO_DO: "You have not filled this in yet, or it calls a function that you have not filled in.",
    SHOWN: "Its visible tests fail: Validate shows how.",
    HIDDEN: FAILED,
    BY_HAND: "This answer is graded manually.",
}


def answer(verdict: Verdict, mutants: Collection[Mutant] = (), void: Collection[str] = ()) -> dict[str, Any]:
    """Return {points, of, trouble, checks: [{name, title, points, of, state, words, misunderstanding}]}, as
    plain data.

    verdict: graded; its notebook has the course's own checks, including hidden tests. mutants: the mutants,
    each with its misconception. void: checks that count as passed for all students.
    """
    source = verdict.notebook
    assert source is not None  # a graded submission has one
    cells = [cell for cell in source.cells if graded(cell)]
    states = {c.metadata.nbgrader.grade_id: state(c, verdict.checks, void) for c in cells}
    beliefs = misunderstandings(verdict.checks, states, sentences(source, mutants), mutants)
    rows = [row(cell, states, beliefs) for cell in cells]
    counted = [row for row in rows if row["state"] != BY_HAND]
    points, most = (sum(item[key] for item in counted) for key in ("points", "of"))
    return {"points": points, "of": most, "trouble": trouble(verdict.checks), "checks": rows}


def graded(cell: NotebookNode) -> bool:
    """Return whether this cell has points."""
    role = cell.metadata.get("nbgrader", {})
    return bool(role.get("grade") or role.get("task"))


def state(cell: NotebookNode, checks: dict[str, Check], void: Collection[str]) -> str:
    """Return a check's state. With hidden tests, a failure is visible only if visible tests report it."""
    name = cell.metadata.nbgrader.grade_id
    check = checks.get(name)
    if check is None:
        return BY_HAND
    if name in void or not check.error:
        return PASSED
    if only_failed(cell.source, check.error, check.hidden):
        return HIDDEN
    return TO_DO if check.kind == failures.EMPTY else SHOWN


def row(cell: NotebookNode, states: dict[str, str], beliefs: dict[str, str]) -> dict[str, Any]:
    """Return the row for one check. Its title is the first line of its visible part."""
    role = cell.metadata.nbgrader
    released = type(cell)(cell | {"source": as_released(cell.source)})
    how, most = states[role.grade_id], float(role.points)
    return {
        "name": role.grade_id,
        "title": feedback.title(released),
        "points": most if how == PASSED else 0.0,
        "of": most,
        "state": how,
        "words": WORDS[how],
        "misunderstanding": beliefs.get(role.grade_id, ""),
    }


def trouble(checks: dict[str, Check]) -> str:
    """Return why nothing could be checked, as one of a few sentences; "" if something was checked.

    A notebook that stops before the checks begin has not seen hidden values.
    """
    errors = {check.error for check in checks.values()}
    if len(errors) != 1 or any(check.hidden for check in checks.values()):
        return ""
    if errors.pop().startswith("your notebook"):
        return (
            "Your notebook did not reach its end: a cell ended its process, or took too long. Restart the"
            " kernel and run all cells to find out which."
        )
    return ""


def misunderstandings(
    checks: dict[str, Check], states: dict[str, str], written: Collection[str], mutants: Iterable[Mutant]
) -> dict[str, str]:
    """Return {check: one of the `written` sentences} that the visible part of this check has recognised."""
    failed = {
        name: misconceptions.Failure.from_error(checks[name].error, checks[name].kind)
        for name, how in states.items()
        if how in (SHOWN, TO_DO)
    }
    result = {}
    for item in misconceptions.find(failed, mutants):
        for name in item.checks & failed.keys():
            if item.words in written and failed[name].likely == item.words:
                result[name] = item.words
    return result


def sentences(source: NotebookNode, mutants: Iterable[Mutant]) -> set[str]:
    """Return all sentences that may be shown: mutants' misconceptions, and the texts visible to students."""
    result = {mutant.misunderstanding.rstrip(".") for mutant in mutants}
    for cell in source.cells:
        if cell.cell_type != "code" or not cell.metadata.get("nbgrader", {}).get("locked"):
            continue
        with contextlib.suppress(SyntaxError):
            tree = ast.parse(as_released(cell.source))
            texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            result |= {text.rstrip(".") for text in texts if isinstance(text, str)}
    return result
