"""Cells of an assignment that were pasted, deleted or have lost their names: which cell has which name.

A student's Validate button (`cluster.pages`) and grading (`cluster.staff`) follow the same rule. It is part
of neither package, so grades do not depend on a web page.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)

LOCKED = "the course's own cell is graded; the copy counts as a scratch cell"
ANSWER = "the last one that you have changed is your answer; the other counts as a scratch cell"


def set_apart(
    notebook: NotebookNode, locked: Callable[[str], bool], unchanged: Callable[[NotebookNode], bool]
) -> dict[str, str]:
    """Leave the name to one of the cells that share it; return {name: how the copies are treated}.

    For a read-only cell, the first unchanged one keeps the name, or the first one if all have changed. For
    an answer, the last changed one keeps it, or the first one if none has changed. locked: whether the cell
    of this name is read-only. unchanged: whether this cell is as released.
    """
    twins: dict[str, list[NotebookNode]] = {}
    for cell in notebook.cells:
        if name := name_of(cell):
            twins.setdefault(name, []).append(cell)
    reasons = {}
    for name, cells in twins.items():
        if len(cells) == 1:
            continue
        given = locked(name)
        fit = [cell for cell in cells if unchanged(cell) == given]
        kept = (fit[0] if given else fit[-1]) if fit else cells[0]
        for cell in cells:
            if cell is not kept:
                del cell.metadata["nbgrader"]
        reasons[name] = LOCKED if given else ANSWER
    return reasons


def restore_names(
    notebook: NotebookNode, course: Sequence[NotebookNode], unnamed: Collection[str] = ()
) -> list[str]:
    """Give cells that have lost their metadata, as some exports do, their names again; returns the names.

    course: the named cells of the release, in order. unnamed: the sources of its other cells. A cell with
    the course's text is that cell. An answer is found by its neighbours. It is between the two named cells
    that surround it in the release, if there are as many other cells of its kind as answers, or it defines
    the same functions.
    """
    given = [name_of(cell) for cell in course]
    taken = {name_of(cell) for cell in notebook.cells}
    absent = {name_of(cell): cell for cell in course if name_of(cell) not in taken}
    restored: list[str] = []

    def give_name(cell: NotebookNode, name: str) -> None:
        cell.metadata["nbgrader"] = copy.deepcopy(absent.pop(name).metadata["nbgrader"])
        restored.append(name)

    for name, known in list(absent.items()):
        text = known.source.strip()
        same = (c for c in notebook.cells if not name_of(c) and c.source.strip() == text)
        if text and (cell := next(same, None)):
            give_name(cell, name)
    answers = {name: known for name, known in absent.items() if known.metadata["nbgrader"].get("solution")}
    for name, known in answers.items():
        if name not in absent:
            continue
        names, at = [name_of(cell) for cell in notebook.cells], given.index(name)
        first = max((names.index(one) for one in given[:at] if one in names), default=-1) + 1
        end = next((i for i in range(at, len(given)) if given[i] in names), len(given))
        last = names.index(given[end]) if end < len(given) else len(names)
        free = [
            cell
            for cell in notebook.cells[first:last]
            if not name_of(cell) and cell.cell_type == known.cell_type and cell.source.strip() not in unnamed
        ]
        wanted = [
            one for one in given[at:end] if one in answers and answers[one].cell_type == known.cell_type
        ]
        functions = set(DEFINED.findall(known.source))
        defining = [c for c in free if functions and functions <= set(DEFINED.findall(c.source))]
        if len(free) == len(wanted):
            for cell, one in zip(free, wanted, strict=True):
                give_name(cell, one)
        elif defining:
            give_name(defining[-1], name)
    return restored


def insert_missing(notebook: NotebookNode, course: Sequence[NotebookNode]) -> list[str]:
    """Insert missing cells of the course after the cell that preceded them, and return their names."""
    names, at, inserted = [name_of(cell) for cell in notebook.cells], 0, []
    for cell in course:
        name, role = name_of(cell), cell.metadata["nbgrader"]
        if name in names:
            at = names.index(name) + 1
        elif role.get("locked") or role.get("grade") or role.get("task"):
            restored = copy.deepcopy(cell)
            restored.pop("id", None)
            if notebook.nbformat_minor >= 5:
                restored["id"] = f"back-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
            notebook.cells.insert(at, restored)
            names.insert(at, name)
            inserted.append(name)
            at += 1
    return inserted


def name_of(cell: NotebookNode) -> str:
    """Return the name that the course gave a cell, "" if it has none."""
    role = cell.metadata.get("nbgrader")
    name = role.get("grade_id") if isinstance(role, dict) else None
    return name if isinstance(name, str) else ""


def names_restored(number: int) -> str:
    """Return the message to students about cells whose names were lost."""
    cells = "1 cell has" if number == 1 else f"{number} cells have"
    return (
        f"{cells} lost the course's names, as happens with some programs that save notebooks; grading "
        "restores them."
    )


def sentence(name: str, what: str) -> str:
    """Return the message to students about a name that occurs twice."""
    return f"The cell “{name}” occurs more than once: {what}."
