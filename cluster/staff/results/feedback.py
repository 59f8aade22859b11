"""Feedback for a student: it never shows a hidden test or how one failed, and names the sections to read
again.

Its parts are set in nbgrader_config.py: preprocessors that read scores, hide tests, list checks and explain
failures, and the exporter. Its pages (templates/teach) need no network: there are no scripts, formulas are
MathML, and a policy forbids loading anything.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbconvert.preprocessors import Preprocessor
from nbgrader.preprocessors import GetGrades
from traitlets import Bool

from .. import failures, hidden, limited
from ..course import SubmissionError
from ..hidden import FAILED, has_hidden, hidden_lines, replaced
from .markdown import in_line
from .misconceptions import Failure, explain, source_of
from .student_page import StudentPage

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from traitlets.config import Config

# imported once, before the processes that render pages; otherwise each would import them again
IMPORTED = (
    "nbgrader.converters",
    "nbgrader.api",
    "sqlalchemy.dialects.sqlite",
    "IPython.lib.lexers",
    "mistune",
    "nh3",
)
SECONDS = 20  # seconds of CPU time per page
INSTEAD = "# (hidden checks)"
NOT_GRADED = "NotGraded: "
NOTHING = "No response."  # nbgrader's comment on an empty answer
POINTS = re.compile(r"\s*\(\d+(\.\d+)? points?\)\.?")
HEADING = re.compile(r"^# +(.+)$", re.MULTILINE)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# The first line of IPython's tracebacks, and their mark of a line; the autograder's errors have no traceback.
RULE, ARROW = re.compile(r"-{20,}$"), re.compile(r"-+> (\d+) ")
# errors whose message is sufficient
SAY_IT = ("AssertionError", "HiddenCheck", "NotGraded", "TimeLimit", "NoAnswer")
# the values that AUTOTEST compares with (values.py)
STORED = re.compile(r"""(\.matches\(["'])[\w+/=]{24,}(["'])""")


class Marks(GetGrades):
    """Read nbgrader's scores, and whether one needs manual grading before it counts."""

    def _get_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        super()._get_score(cell, resources)
        name = cell.metadata.nbgrader["grade_id"]
        grade = self.gradebook.find_grade(name, self.notebook_id, self.assignment_id, self.student_id)
        cell.metadata.nbgrader["waiting"] = bool(grade.needs_manual_grade)


class HideHiddenTests(Preprocessor):
    """Hide the hidden tests of a graded notebook, and how one of them failed, for the feedback.

    All failures of hidden tests look the same. The failed part of a check is identified by its location,
    never by its message. A visible failure is therefore kept, whatever it quotes. The autograded notebook
    keeps everything, for the instructor.
    """

    enabled = Bool(True, help="Whether hidden tests are hidden.").tag(config=True)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if not has_hidden(cell.source):
            return cell, resources
        if cell.cell_type == "code" and only_failed(cell):
            output = type(cell)(output_type="error", ename="HiddenCheck", evalue=FAILED, traceback=[FAILED])
            cell.outputs, cell.metadata["failure"] = [output], {"kind": failures.HIDDEN}
        elif cell.cell_type == "code":
            cell.metadata.setdefault("failure", {"kind": failures.kind(error_of(cell))})
            cell.outputs = [without_traceback(output) for output in cell.outputs]
        cell.source = replaced(cell.source, INSTEAD)
        return cell, resources


def only_failed(cell: NotebookNode) -> bool:
    """Return whether the student may learn only that this check has failed.

    The autograder runs the visible tests of all checks before any hidden ones, and marks the cell whose
    hidden tests failed. Nothing of that failure is shown, since the student's code could have put its
    inputs into it. In a notebook that was rerun in Jupyter, an error has a traceback, which quotes lines
    around the failure and whose first frame has the line number.
    """
    if hidden.only_failed(cell.source, error_of(cell), cell.metadata.get("hidden_failure", False)):
        return True
    lines = [line for output in cell.outputs for line in traceback_of(output)]
    if not lines:
        return False
    flags = hidden_lines(cell.source)
    number = next((int(match[1]) for line in lines if (match := ARROW.match(line))), 0)
    return not 0 < number <= len(flags) or flags[number - 1]


def traceback_of(output: NotebookNode) -> list[str]:
    """Return the lines of an error's traceback from Jupyter, without colours; [] for other outputs."""
    text = ANSI.sub("", "\n".join(output.traceback)) if output.output_type == "error" else ""
    lines = text.split("\n")
    return lines if RULE.match(lines[0]) else []


def without_traceback(output: NotebookNode) -> NotebookNode:
    """Return an output of a check; for an error with a traceback only its message."""
    if not traceback_of(output):
        return output
    return type(output)(output | {"traceback": [f"{output.ename}: {output.evalue}"]})


class Contents(Preprocessor):
    """Add the list of checks and comments, and the notes on the whole submission, at the top of the page."""

    enabled = Bool(True, help="show a list of checks").tag(config=True)

    def preprocess(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        about = resources["nbgrader"]
        checks = [listed(cell) for cell in notebook.cells if worth_a_line(cell)]
        about["passed"] = [role for role in checks if passed(role)]
        about["open"] = [role for role in checks if not passed(role)]
        about["banners"] = sorted(
            {
                failure.error.removeprefix(NOT_GRADED)
                for _, failure in failed_checks(notebook)
                if failure.error.startswith(NOT_GRADED)
            }
        )
        about["banners"] += notebook.metadata.get("told", [])
        about["whole"] = not notebook.metadata.get("unreadable")
        own = [cell for cell in notebook.cells if cell.metadata.get("course")]
        title = heading(own) or about["assignment"]
        about["heading"], about["title"] = in_line(title), re.sub(r"[`*]", "", title)
        without_heading(own)
        if not about["whole"]:  # unreadable: only the list of checks is shown
            notebook.cells = []
            about["banners"].append("This submission could not be graded so far; it will be graded manually.")
        return notebook, resources


def worth_a_line(cell: NotebookNode) -> bool:
    """Return whether this cell has points, or a comment written by an instructor."""
    role = cell.metadata.get("nbgrader", {})
    return role.get("grade") or role.get("task") or role.get("comment", NOTHING) not in (None, "", NOTHING)


def passed(role: NotebookNode) -> bool:
    """Return whether a cell has all its points and no comment."""
    full = "points" in role and not role.get("waiting") and role.score >= role.points
    return full and role.get("comment") in (None, "", NOTHING)


def listed(cell: NotebookNode) -> NotebookNode:
    """Return the template's data about a cell: nbgrader's metadata and a title, as one line of HTML."""
    role = cell.metadata.nbgrader
    role["title"] = in_line(title(cell))
    return role


def title(cell: NotebookNode) -> str:
    """Return the first line of a check's docstring (Markdown) without its points, or the kind of the cell."""
    role = cell.metadata.nbgrader
    if not role.get("solution") and cell.cell_type == "code":
        try:
            text = ast.get_docstring(ast.parse(cell.source)) or ""
        except SyntaxError:  # an IPython magic
            text = ""
        return POINTS.sub("", text.partition("\n")[0]).rstrip(".") or role["grade_id"]
    return "Written answer" if role.get("grade") else "Task" if role.get("task") else "Your answer"


def heading(cells: list[NotebookNode]) -> str:
    """Return the first level-1 heading in a notebook's text cells, or ""."""
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    match = HEADING.search(text)
    return match.group(1).strip() if match else ""


def without_heading(cells: list[NotebookNode]) -> None:
    """Remove the first heading from the notebook, because it is shown above the list of checks."""
    texts = (cell for cell in cells if cell.cell_type == "markdown" and HEADING.search(cell.source))
    if cell := next(texts, None):
        cell.source = HEADING.sub("", cell.source, count=1).lstrip("\n")


class Explain(Preprocessor):
    """Add to each failed check its error, the misconception it may show, and the sections to read again.

    Encoded expected values in the text of a check are shortened, because they are not readable.
    """

    enabled = Bool(True, help="explain failed checks").tag(config=True)

    def preprocess(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        root = Path(self.config.CourseDirectory.root)
        assignment = resources["nbgrader"]["assignment"]
        failed = dict(failed_checks(notebook))
        for cell in notebook.cells:
            role = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "code" and role.get("grade") and not role.get("solution"):
                name = role["grade_id"]
                role["error"] = in_words(failed[name].error) if name in failed else ""
                role["hint"] = explain(root, assignment, name, failed) if name in failed else ""
                cell.outputs = [output for output in cell.outputs if output.output_type != "error"]
                cell.source = STORED.sub(r"\1…\2", cell.source)
        return notebook, resources


def failed_checks(notebook: NotebookNode) -> Iterator[tuple[str, Failure]]:
    """Yield (name, Failure) of each check that failed."""
    for cell in notebook.cells:
        role, error = cell.metadata.get("nbgrader", {}), error_of(cell)
        if role.get("grade") and error:
            kind = cell.metadata.get("failure", {}).get("kind", "")
            secret = cell.metadata.get("hidden_failure", False)
            yield role["grade_id"], Failure.from_error(error, kind, secret)


def in_words(error: str) -> str:
    """Format an error for a student: only the message if it is an assertion."""
    name, _, text = error.partition(": ")
    if name in SAY_IT and text.strip():
        return text
    return error.rstrip(": \n") if name not in SAY_IT else "An assertion of this check failed."


def error_of(cell: NotebookNode) -> str:
    """Return the error ("Name: text") that a cell ended with, or ""."""
    errors = [o for o in cell.get("outputs", ()) if o.output_type == "error"]
    return f"{errors[0].ename}: {errors[0].evalue}" if errors else ""


class Feedback(StudentPage):
    """A self-contained page, without scripts or anything that needs a network."""

    def __init__(self, **kw: Any):
        # As an argument, this overrides the template that nbgrader sets in the configuration.
        super().__init__(**kw | {"template_name": "teach"})

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Return the page, rendered in a process with limits.

        If the student's cells cannot be rendered within them, the page states this and has only the checks.
        """
        limited.preload(__name__, *IMPORTED)
        steps = [type(step) for step in self._preprocessors]
        try:
            page = limited.call(rendered, self.config, steps, nb, resources, seconds=SECONDS)
        except SubmissionError as why:
            left_out = f"Your own cells are not shown here: the page with them {why}."
            page = limited.call(rendered, self.config, steps, nb, resources, left_out)
        return page, self._init_resources(resources)


def rendered(
    config: Config, steps: list[type], notebook: NotebookNode, resources: dict[str, Any], left_out: str = ""
) -> str:
    """Return a graded notebook's page (HTML). left_out: why the student's own cells are missing, or ""."""
    warnings.simplefilter("ignore")  # nbgrader 0.9.6 warns about its own use of datetime.utcnow
    exporter = Feedback(config=config)
    exporter._preprocessors = []
    for step in steps:
        exporter.register_preprocessor(step, enabled=True)
    mark_course(notebook, Path(config.CourseDirectory.root), resources["nbgrader"]["assignment"])
    if left_out:
        notebook.metadata["told"] = [*notebook.metadata.get("told", []), left_out]
        for cell in notebook.cells:
            leave_out(cell)
    return StudentPage.from_notebook_node(exporter, notebook, resources)[0]


def mark_course(notebook: NotebookNode, root: Path, assignment: str) -> None:
    """Mark cells whose source is the course's with `course` in their metadata; others are the student's."""
    source = source_of(root, assignment)
    texts = {cell.source.strip() for cell in source.cells} if source else set()
    for cell in notebook.cells:
        role = cell.metadata.get("nbgrader", {})
        locked = role.get("locked") and not role.get("solution")
        cell.metadata["course"] = bool(locked or (not role.get("solution") and cell.source.strip() in texts))


def leave_out(cell: NotebookNode) -> None:
    """Remove a student's text and the outputs of the student's code."""
    if not cell.metadata["course"]:
        cell.source = ""
        cell.pop("attachments", None)
    if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade"):
        cell.outputs = []
