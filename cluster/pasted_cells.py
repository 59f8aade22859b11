"""Cells of an assignment that were pasted, deleted or have lost their names: which cell has which name.

A student's Validate button (`cluster.pages`) and grading (`cluster.staff`) follow the same rule. It stands in
neither of them, so that no grade depends on a web page.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)

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


def restore_names(notebook: NotebookNode, course: Sequence[NotebookNode]) -> list[str]:
    """Give cells that have lost their metadata, as some exports do, their names again; returns the names.

    course: the named cells of the release, in order. A cell with the course's text is that cell. An answer
    is found by its neighbours: it lies between the two named cells between which the course has it, if there
    are as many unnamed cells of its kind as answers, or it defines the same functions.
    """
    given = [name_of(cell) for cell in course]
    taken = {name_of(cell) for cell in notebook.cells}
    absent = [cell for cell in course if name_of(cell) not in taken]
    restored = []

    def name(cell: NotebookNode, known: NotebookNode) -> None:
        cell.metadata["nbgrader"] = copy.deepcopy(known.metadata["nbgrader"])
        restored.append(name_of(known))
        absent.remove(known)

    for known in list(absent):
        text = known.source.strip()
        same = (c for c in notebook.cells if not name_of(c) and c.source.strip() == text)
        if text and (cell := next(same, None)):
            name(cell, known)
    for known in [cell for cell in absent if cell.metadata["nbgrader"].get("solution")]:
        if known not in absent:
            continue
        names = [name_of(cell) for cell in notebook.cells]
        at = given.index(name_of(known))
        first = max((names.index(one) for one in given[:at] if one in names), default=-1) + 1
        last = min((names.index(one) for one in given[at:] if one in names), default=len(names))
        free = [c for c in notebook.cells[first:last] if not name_of(c) and c.cell_type == known.cell_type]
        end = next((i for i in range(at, len(given)) if given[i] in names), len(given))
        wanted = [one for one in course[at:end] if one in absent and one.cell_type == known.cell_type]
        pairs = list(zip(free, wanted, strict=False)) if len(free) == len(wanted) else []
        functions = set(DEFINED.findall(known.source))
        pairs = (
            pairs
            or [(c, known) for c in free if functions and functions <= set(DEFINED.findall(c.source))][:1]
        )
        for cell, one in pairs:
            if one.metadata["nbgrader"].get("solution"):
                name(cell, one)
    return restored


def insert_missing(notebook: NotebookNode, course: Sequence[NotebookNode]) -> list[str]:
    """Put missing cells of the course behind the cell that stood before them; returns their names."""
    names, at, inserted = [name_of(cell) for cell in notebook.cells], 0, []
    for cell in course:
        name, role = name_of(cell), cell.metadata["nbgrader"]
        if name in names:
            at = names.index(name) + 1
        elif role.get("locked") or role.get("grade") or role.get("task"):
            made = copy.deepcopy(cell)
            made.pop("id", None)
            if notebook.nbformat_minor >= 5:
                made["id"] = f"back-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
            notebook.cells.insert(at, made)
            names.insert(at, name)
            inserted.append(name)
            at += 1
    return inserted


def name_of(cell: NotebookNode) -> str:
    """The name that the course gave a cell, "" where it has none."""
    role = cell.metadata.get("nbgrader")
    name = role.get("grade_id") if isinstance(role, dict) else None
    return name if isinstance(name, str) else ""


def names_restored(number: int) -> str:
    """What a student reads about cells whose names were lost."""
    cells = "1 cell has" if number == 1 else f"{number} cells have"
    return f"{cells} lost the course's names, as some programs do when they save; grading gives them back."


def sentence(name: str, what: str) -> str:
    """What a student is told of a name that stands there twice."""
    return f"The cell “{name}” is there more than once: {what}."
