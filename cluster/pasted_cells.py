"""Cells of an assignment that were pasted, the name that the course gave them too: one of them keeps it.

A student's Validate button (`cluster.pages`) and grading (`cluster.staff`) follow the same rule. It stands in
neither of them, so that no grade depends on a web page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

LOCKED = "the course's own is graded; the copy counts as a cell of your own"
ANSWER = "the last one that you have changed is your answer; the other counts as a cell of your own"


def set_apart(
    notebook: NotebookNode, locked: Callable[[str], bool], unchanged: Callable[[NotebookNode], bool]
) -> dict[str, str]:
    """Take the name from all cells but one that have the same; returns {name: what becomes of the copies}.

    Of a cell that the course gave, the first as it was given keeps the name, else the first; of an answer the
    last that is not as it was given, else the first. locked: is the cell of this name one that is given?
    unchanged: is this cell as it was given?
    """
    twins: dict[str, list[NotebookNode]] = {}
    for cell in notebook.cells:
        if name := name_of(cell):
            twins.setdefault(name, []).append(cell)
    said = {}
    for name, cells in twins.items():
        if len(cells) == 1:
            continue
        given = locked(name)
        fit = [cell for cell in cells if unchanged(cell) == given]
        kept = (fit[0] if given else fit[-1]) if fit else cells[0]
        for cell in cells:
            if cell is not kept:
                del cell.metadata["nbgrader"]
        said[name] = LOCKED if given else ANSWER
    return said


def name_of(cell: NotebookNode) -> str:
    """The name that the course gave a cell, "" where it has none."""
    role = cell.metadata.get("nbgrader")
    name = role.get("grade_id") if isinstance(role, dict) else None
    return name if isinstance(name, str) else ""


def sentence(name: str, what: str) -> str:
    """What a student is told of a name that stands there twice."""
    return f"The cell “{name}” is there more than once: {what}."
