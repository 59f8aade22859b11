"""What Validate says of a notebook, as JSON for nbgrader's page:  python -m cluster.pages.validate NOTEBOOK

nbgrader's own Validate calls a right solution wrong where a check warns on stderr, ends in a number ("partial
credit") or takes 30 s, and says nothing of the checks once a given cell has changed. Here a check fails as
in grading: when it raises an error. The error is said in the check's own words.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from html import escape

import nbformat
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, Execute
from nbgrader.validator import Validator
from traitlets.config import Config

from cluster.system.text import encodable

from . import copies

LONGEST = 600  # seconds of one cell
TO_DO = "Still to do: these check a function, or are an answer, that has nothing of yours yet"
EMPTY, UNANSWERED = "no code yet", "no answer yet"
CHANGED = "This cell is given, and has changed. Grading puts the original back."
REPLACED = "Characters of this notebook that are in no encoding are replaced by � when it is graded."
FRAMES = 3  # of a traceback; more says nothing to who has written the innermost


class Checks(Validator):
    """nbgrader's validator, with the rules of the course's grading."""

    preprocessors = [CheckCellMetadata, ClearOutput, Execute]  # noqa: RUF012 (a trait's value)

    def validate(self, filename: str) -> dict[str, list[dict]]:
        """What nbgrader's page shows: {"failed": [...]}, {} where all is well."""
        folder, name = os.path.split(os.path.abspath(filename))
        with utils.chdir(folder):
            notebook = nbformat.read(name, as_version=nbformat.current_nbformat)
            replaced, twins = encodable_cells(notebook), set_apart(notebook)
            if self._get_type_changed_cells(notebook):
                return super().validate(filename)
            notebook = self._preprocess(notebook)
        changed = self._get_changed_cells(notebook)
        failed, to_do, passed = [], [], 0
        words = [copies.sentence(name, what) for name, what in twins.items()]
        notes = [entry(line, "") for line in [*words, *([REPLACED] if replaced else [])]]
        for cell in notebook.cells:
            if utils.is_grade(cell) and (why := error(cell)):
                if why in (EMPTY, UNANSWERED):
                    to_do.append(
                        title(cell) if why == EMPTY else f"The answer {cell.metadata.nbgrader.grade_id}"
                    )
                else:
                    failed.append(entry(title(cell), why))
            elif any(cell is one for one in changed):
                failed.append(entry(cell.source.strip(), CHANGED))
            else:
                passed += utils.is_grade(cell)
        return report(failed, to_do, passed, notes) if failed or to_do or notes else {}


def encodable_cells(notebook: NotebookNode) -> bool:
    """Replace text that is in no encoding, as grading does; whether there was some."""
    before = [cell.source for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source = encodable(cell.source)
    return before != [cell.source for cell in notebook.cells]


def set_apart(notebook: NotebookNode) -> dict[str, str]:
    """Take the names from copies of the course's cells, as grading does; {name: what becomes of them}."""
    named = {name: cell for cell in notebook.cells if (name := copies.name_of(cell))}

    def unchanged(cell: NotebookNode) -> bool:
        return cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)

    return copies.set_apart(notebook, lambda name: utils.is_locked(named[name]), unchanged)


def report(
    failed: list[dict], to_do: list[str], passed: int, notes: list[dict] = ()
) -> dict[str, list[dict]]:
    """How many first, then what is to be known, what fails, and all that is still to do as one list."""
    counts = f"{len(failed)} fail{'s' * (len(failed) == 1)}, {len(to_do)} still to do, {passed} pass"
    entries = [entry(f"{counts}{'es' * (passed == 1)}.", ""), *notes, *failed]
    if to_do:
        entries.append(entry(TO_DO, "\n".join(f"- {words.splitlines()[0]}" for words in to_do)))
    return {"failed": entries}


def entry(source: str, why: str) -> dict[str, str]:
    """What nbgrader's page shows of one cell; it takes `error` for HTML."""
    return {"source": source, "error": escape(why), "raw_error": why}


def error(cell: NotebookNode) -> str:
    """Why a graded cell would have no points now, or ""."""
    if utils.is_solution(cell):
        score, _ = utils.determine_grade(cell)
        return UNANSWERED if score == 0 else ""
    outputs = cell.outputs if cell.cell_type == "code" else []
    raised = next((output for output in outputs if output.output_type == "error"), None)
    if raised is None:
        return ""
    if raised.ename == "NotImplementedError":
        return EMPTY
    if raised.ename == "CellTimeoutError":
        return f"It took longer than {LONGEST // 60} minutes and was stopped."
    if raised.ename == "AssertionError" and raised.evalue.strip():
        return strip_ansi(raised.evalue).strip()
    return shortened([strip_ansi(part) for part in raised.traceback]) or f"{raised.ename}: {raised.evalue}"


def shortened(traceback: list[str]) -> str:
    """The innermost frames of a traceback, and the error itself."""
    return "\n".join(traceback[-FRAMES - 1 :]).strip()


def title(cell: NotebookNode) -> str:
    """A check's first sentence with its points, or its whole text."""
    try:
        words = ast.get_docstring(ast.parse(cell.source)) or ""
    except (SyntaxError, ValueError):
        words = ""
    points = cell.metadata.nbgrader.get("points", 0)
    if not words:
        return cell.source.strip()
    if re.search(r"\d points?\)", words):
        return words
    return f"{words.rstrip('.')} ({points:g} point{'s' * (points != 1)})."


def main(path: str) -> None:
    """Execute a notebook as grading would, and print what nbgrader's page wants to know."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed, by a kernel too, is no part of the answer
    config = Config()
    config.Execute.timeout = LONGEST
    try:
        answer = {"success": True, "value": Checks(config=config).validate(path)}
    except Exception as trouble:
        answer = {
            "success": False,
            "value": f"The notebook could not be run: {type(trouble).__name__}: {trouble}",
        }
    with out:
        json.dump(answer, out)


if __name__ == "__main__":
    main(sys.argv[1])
