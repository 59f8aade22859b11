"""Validate a notebook and print the result as JSON:  python -m cluster.pages.validate NOTEBOOK [RELEASED]

nbgrader's own Validate rejects a correct solution if a check warns on stderr, ends in a number ("partial
credit") or takes 30 s, and does not report the checks once a read-only cell has changed. Here a check fails
if it raises an error, as in grading. The error message is the check's own. `checks` and `notes` of the result
are for the course's own page, `value` for nbgrader's. RELEASED is the notebook as it was released. With it,
deleted and changed cells of the course are restored as in grading.
"""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

import nbformat
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, Execute
from nbgrader.validator import Validator
from traitlets.config import Config

from cluster import pasted_cells
from cluster.system.text import encodable

from . import old_runs

LONGEST = 600  # maximum seconds per cell
TO_DO = "Still to do: you have not written this function or answer yet"
EMPTY, UNANSWERED = "no code yet", "no answer yet"
NO_NAMES = (
    "This notebook contains no cells of the course, so nothing was checked. If it is an assignment, fetch "
    "it again into a new folder and copy your answers into it."
)
PUT_BACK = "{names}: these cells were deleted or changed. The originals were checked, as in grading."
TURNED = "{names}: these cells were turned into text or code. They were turned back, as in grading."
CHANGED = "This read-only cell has been changed. Grading restores the original."
REPLACED = "Characters of this notebook without a valid encoding are replaced by � when it is graded."
CONVERTED = (
    "The cell “{}” was turned from code into text, or from text into code. Turn it back with the list of "
    "cell types above the notebook (Code, Markdown), then validate again."
)
HOLE = "NotImplementedError"
# A rank's error reaches a check only as text: from checked results of ranks, or from a failed job.
OF_A_RANK = re.compile(rf"\bended with {HOLE}\b|\brank \d+: {HOLE} in ")
UNDEFINED = re.compile(r"name '(\w+)' is not defined")
FRAMES = 3  # maximum frames of a traceback; the author of the innermost one needs no more


@dataclass
class Found:
    """One check or written answer. cell: its number in the notebook. state: passed, failed, to do, or "by
    hand" for a written answer that needs manual grading."""

    state: str
    title: str
    why: str
    cell: int
    name: str
    fill: int | None = None  # the number of the cell to fill in, and its name
    fill_name: str = ""


class Checks(Validator):
    """nbgrader's validator, with the rules of the course's grading."""

    preprocessors = [CheckCellMetadata, ClearOutput, Execute]  # noqa: RUF012 (a trait's value)

    def look(self, filename: str, released: str = "") -> tuple[list[Found], list[str]]:
        """Run a notebook; return (checks in order, notes). released: its path as released, if it exists."""
        folder, name = os.path.split(os.path.abspath(filename))
        with utils.chdir(folder):
            notebook = nbformat.read(name, as_version=nbformat.current_nbformat)
            replaced, (course, unnamed) = encodable_cells(notebook), released_cells(released)
            notes = restore_names(notebook, course, unnamed)
            copies = set_apart(notebook)
            notes += [pasted_cells.sentence(cell, what) for cell, what in copies.items()]
            notes += put_back(notebook, course)
            if not any(map(pasted_cells.name_of, notebook.cells)):
                return [], [*notes, NO_NAMES]
            if changed := self._get_type_changed_cells(notebook):
                return [], [CONVERTED.format(pasted_cells.name_of(cell)) for cell in changed]
            notebook = self._preprocess(notebook)
            old_runs.keep_names(Path(folder), notebook)
        changed = self._get_changed_cells(notebook)
        checks, waiting = [], unfilled(notebook)
        for number, cell in enumerate(notebook.cells):
            name = pasted_cells.name_of(cell)
            if utils.is_grade(cell) and (why := EMPTY if number in waiting else error(cell)):
                state = "to do" if why in (EMPTY, UNANSWERED) else "failed"
                what = f"The answer {name}" if why == UNANSWERED else title(cell)
                checks.append(Found(state, what, "" if state == "to do" else why, number, name))
                if state == "to do":
                    checks[-1].fill = number if why == UNANSWERED else waiting[number]
            elif any(cell is item for item in changed):
                checks.append(Found("failed", cell.source.strip(), CHANGED, number, name))
            elif utils.is_grade(cell) and utils.is_solution(cell):
                checks.append(Found("by hand", f"The answer {name}", "", number, name))
            elif utils.is_grade(cell):
                checks.append(Found("passed", title(cell), "", number, name))
            if checks and checks[-1].fill is not None:
                checks[-1].fill_name = pasted_cells.name_of(notebook.cells[checks[-1].fill])
        return checks, notes + [REPLACED] * replaced


def for_nbgrader(found: list[Found], notes: list[str]) -> dict[str, list[dict]]:
    """Format the counts first, then the notes, then the failures, and all checks still to do as one list."""
    those = {state: [row for row in found if row.state == state] for state in ("failed", "to do", "passed")}
    if not (those["failed"] or those["to do"] or notes):
        return {}
    failed, passed = len(those["failed"]), len(those["passed"])
    counts = f"{failed} fail{'s' * (failed == 1)}, {len(those['to do'])} still to do, {passed} pass"
    by_hand = sum(row.state == "by hand" for row in found)
    read = f", {by_hand} to be graded manually" if by_hand else ""
    entries = [entry(f"{counts}{'es' * (passed == 1)}{read}.", ""), *(entry(text, "") for text in notes)]
    entries += [entry(row.title, row.why) for row in those["failed"]]
    if those["to do"]:
        entries.append(entry(TO_DO, "\n".join(f"- {row.title.splitlines()[0]}" for row in those["to do"])))
    return {"failed": entries}


def encodable_cells(notebook: NotebookNode) -> bool:
    """Replace text without an encoding, as in grading; return whether there was any."""
    before = [cell.source for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source = encodable(cell.source)
    return before != [cell.source for cell in notebook.cells]


def released_cells(path: str) -> tuple[list[NotebookNode], set[str]]:
    """Return (the released notebook's named cells, the sources of the others); none if there is no path."""
    cells = nbformat.read(path, as_version=4).cells if path else []
    named = [cell for cell in cells if pasted_cells.name_of(cell)]
    return named, {cell.source.strip() for cell in cells if not pasted_cells.name_of(cell)}


def restore_names(notebook: NotebookNode, course: list[NotebookNode], unnamed: set[str]) -> list[str]:
    """Give each cell the course's metadata for its name, as in grading; return messages about changes."""
    if not course:
        return []
    roles = {pasted_cells.name_of(cell): cell.metadata["nbgrader"] for cell in course}
    for cell in notebook.cells:
        role = cell.metadata.pop("nbgrader", None)
        name = role.get("grade_id") if isinstance(role, dict) else None
        if isinstance(name, str) and name in roles:
            cell.metadata["nbgrader"] = copy.deepcopy(roles[name])
    restored = pasted_cells.restore_names(notebook, course, unnamed)
    return [pasted_cells.names_restored(len(restored))] if restored else []


def put_back(notebook: NotebookNode, course: list[NotebookNode]) -> list[str]:
    """Restore changed or deleted course cells, as in grading; return messages about them."""
    known = {pasted_cells.name_of(cell): cell for cell in course}
    turned, changed = [], []
    for cell in notebook.cells:
        if (given := known.get(name := pasted_cells.name_of(cell))) is None:
            continue
        if cell.cell_type != given.cell_type:
            turned.append(name)
            for key in ("outputs", "execution_count", "attachments"):
                cell.pop(key, None)
            cell.cell_type = given.cell_type
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        if utils.is_locked(cell) and cell.source.strip() != given.source.strip():
            changed.append(name)
            cell.source = given.source
    if any(map(pasted_cells.name_of, notebook.cells)):
        changed += pasted_cells.insert_missing(notebook, course)
    messages = ((PUT_BACK, changed), (TURNED, turned))
    return [text.format(names=", ".join(names)) for text, names in messages if names]


def set_apart(notebook: NotebookNode) -> dict[str, str]:
    """Remove the names of copies of the course's cells, as in grading; return {name: how it is treated}."""
    named = {name: cell for cell in notebook.cells if (name := pasted_cells.name_of(cell))}

    def unchanged(cell: NotebookNode) -> bool:
        return cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)

    return pasted_cells.set_apart(notebook, lambda name: utils.is_locked(named[name]), unchanged)


def entry(source: str, why: str) -> dict[str, str]:
    """Return the entry for one cell on nbgrader's page, which interprets `error` as HTML."""
    return {"source": source, "error": escape(why), "raw_error": why}


def error(cell: NotebookNode) -> str:
    """Return why a graded cell would currently get no points, or ""."""
    if utils.is_solution(cell):
        score, _ = utils.determine_grade(cell)
        return UNANSWERED if score == 0 else ""
    if (raised := raised_by(cell)) is None:
        return ""
    if raised.ename == "CellTimeoutError":
        return f"This check took longer than {LONGEST // 60} minutes and was stopped."
    if raised.ename == "AssertionError" and raised.evalue.strip():
        return strip_ansi(raised.evalue).strip()
    return shortened([strip_ansi(part) for part in raised.traceback]) or f"{raised.ename}: {raised.evalue}"


def is_empty(name: str, text: str, traceback: list[str]) -> bool:
    """Return whether an error comes from a function that is not filled in yet, here or on a rank."""
    if name == "AssertionError":
        return bool(OF_A_RANK.search(text))
    return name == HOLE or any(HOLE in part for part in (text, *traceback[-1:]))


def raised_by(cell: NotebookNode) -> NotebookNode | None:
    """Return the error that a cell ended with."""
    outputs = cell.outputs if cell.cell_type == "code" else []
    return next((output for output in outputs if output.output_type == "error"), None)


def unfilled(notebook: NotebookNode) -> dict[int, int | None]:
    """Return {number of a cell that needs an empty function: number of the cell to fill, if known}.

    A cell needs an empty function in three cases. It has called one. It uses a name that another such cell
    would have set. It is a check that calls an empty function and has failed with an uninformative message.
    """
    result: dict[int, int | None] = {}
    empty = holes(notebook)
    lacking: dict[str, int | None] = {}
    for number, cell in enumerate(notebook.cells):
        if (raised := raised_by(cell)) is None:
            continue
        name = UNDEFINED.match(strip_ansi(raised.evalue)) if raised.ename == "NameError" else None
        used = names(cell.source, ast.Load) & empty.keys()
        if is_empty(raised.ename, raised.evalue, raised.traceback):
            result[number] = hole(empty, raised)
        elif name and name[1] in lacking:
            result[number] = lacking[name[1]]
        elif raised.ename == "AssertionError" and used and utils.is_grade(cell):
            result[number] = max(empty[item] for item in used)
        if number in result:
            lacking |= dict.fromkeys(names(cell.source, ast.Store), result[number])
    return result


def holes(notebook: NotebookNode) -> dict[str, int]:
    """Return {function: number of its cell} for functions that are still empty."""
    return {
        function: number
        for number, cell in enumerate(notebook.cells)
        if utils.is_solution(cell) and f"raise {HOLE}" in cell.source
        for function in re.findall(r"^def (\w+)", cell.source, re.MULTILINE)
    }


def hole(empty: dict[str, int], raised: NotebookNode) -> int | None:
    """Return the number of the blank that an error points to, by the last function that it names."""
    text = strip_ansi("\n".join([*raised.traceback, raised.evalue]))
    last, nearest = -1, None
    for function, number in empty.items():
        where = max((m.start() for m in re.finditer(rf"\bin {function}\b", text)), default=-1)
        if where > last:
            last, nearest = where, number
    return nearest


def names(source: str, context: type[ast.expr_context]) -> set[str]:
    """Return the names that code reads (ast.Load) or sets (ast.Store); none if it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, context)}


def shortened(traceback: list[str]) -> str:
    """Return a traceback's innermost frames and the error itself, without the header."""
    frames = [part for part in traceback if not part.startswith("-----") and "(most recent call" not in part]
    return "\n".join(frames[-FRAMES - 1 :]).strip()


def title(cell: NotebookNode) -> str:
    """Return a check's first sentence with its points, or its whole text."""
    try:
        text = ast.get_docstring(ast.parse(cell.source)) or ""
    except (SyntaxError, ValueError):
        text = ""
    points = cell.metadata.nbgrader.get("points", 0)
    if not text:
        return cell.source.strip()
    if re.search(r"\d points?\)", text):
        return text
    return f"{text.rstrip('.')} ({points:g} point{'s' * (points != 1)})."


def main(path: str, released: str = "") -> None:
    """Execute a notebook as in grading, and print the result for the pages."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # any other output, including a kernel's, is not part of the result
    config = Config()
    config.Execute.timeout = LONGEST
    try:
        checks, notes = Checks(config=config).look(path, released)
        answer = {"success": True, "value": for_nbgrader(checks, notes)}
        answer |= {"checks": [asdict(item) for item in checks], "notes": notes}
    except Exception as trouble:
        answer = {"success": False, "value": unreadable(trouble)}
    with out:
        json.dump(answer, out)


def unreadable(trouble: Exception) -> str:
    """Explain why a notebook could not be run."""
    if isinstance(trouble, (nbformat.reader.NotJSONError, nbformat.ValidationError, UnicodeDecodeError)):
        return "This file can no longer be read as a notebook. Fetch the assignment again."
    return f"The notebook could not be run: {type(trouble).__name__}: {trouble}"


if __name__ == "__main__":
    main(*sys.argv[1:])
