"""Preparation of a submission for grading: choose the right notebook and sanitise it with nbgrader's own
steps.

This module never executes students' code. The needed parts of nbgrader's database are read once per
assignment (`Source`) and used for the whole class.
"""

from __future__ import annotations

import copy
import datetime
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cluster import pasted_cells
from cluster.system.text import printable

from ..course import CourseError, SubmissionError
from ..engine.inside import names
from ..work_files import work_files
from . import notebook_file

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from nbgrader.api import BaseCell, Gradebook, SourceCell
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import OverwriteCells
    from traitlets.config import Config

NAMED = 20  # maximum number of names in one sentence
CELL = ("name", "cell_type", "locked", "source", "checksum", "max_score")
MEASURED = "measured"  # the tag of a scratch cell that only measures


@dataclass
class Submission:
    """One student's folder: the notebook to grade, or why there is none. files: {relative path: path} of the
    submission, {} if it cannot be copied. notes are for the instructor, for_student for the student."""

    student: str
    folder: Path
    name: str
    notebook: NotebookNode | None = None  # sanitised
    path: Path | None = None  # path of the submitted notebook
    problem: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    when: datetime.datetime | None = None  # time of submission: naive, UTC
    extension: datetime.timedelta | None = None
    notes: list[str] = field(default_factory=list)
    for_student: list[str] = field(default_factory=list)


class Source:
    """The contents of nbgrader's database about an assignment's only notebook, detached from the database.

    It implements the three queries that nbgrader's OverwriteCells makes to a gradebook.
    """

    def __init__(self, book: Gradebook, assignment: str):
        from nbgrader.api import MissingEntry

        try:
            notebooks = book.find_assignment(assignment).notebooks
        except MissingEntry:
            raise CourseError(
                f"the gradebook has no assignment {assignment!r}: release it first with"
                f" `python -m cluster grade release {assignment[:2]}`, which also fills the gradebook"
            ) from None
        if len(notebooks) != 1:
            raise CourseError(
                f"{assignment} has {len(notebooks)} notebooks, but an assignment has one: give each one"
                " another folder in solutions/, and release them"
            )
        notebook = notebooks[0]
        self.name, self.assignment = notebook.name, assignment
        self.kernelspec = json.loads(notebook.kernelspec) if notebook.kernelspec else None
        self.kinds = {
            kind: [plain(cell) for cell in getattr(notebook, kind)]
            for kind in ("source_cells", "grade_cells", "solution_cells", "task_cells")
        }
        self.points = {cell.name: cell.max_score for cell in self.kinds["grade_cells"]}
        self.cells = {cell.name: cell for cell in self.kinds["source_cells"]}
        self.released: dict[str, str] = {}
        self.unnamed: set[str] = set()  # sources of the released cells without a name
        self.measured: set[str] = set()  # sources of the scratch cells that only measure
        self.imports: dict[str, str] = {}  # {name: the release's import that binds it}

    @classmethod
    def from_gradebook(cls, coursedir: CourseDirectory, assignment: str) -> Source:
        """Return an assignment's Source from nbgrader's database and the release of a CourseDirectory."""
        from nbgrader.api import Gradebook

        with Gradebook(coursedir.db_url, coursedir.course_id) as book:
            source = cls(book, assignment)
        source.know_release(coursedir.format_path(coursedir.release_directory, ".", assignment))
        return source

    def order(self) -> list[str]:
        """Return the names of all cells known to nbgrader, in the order of the release or of the database."""
        return [name for name in self.released if name in self.cells] or list(self.cells)

    def role(self, name: str) -> dict[str, Any]:
        """Return nbgrader's metadata of a cell as released."""
        kinds = {kind: {cell.name: cell for cell in cells} for kind, cells in self.kinds.items()}
        cell, graded = self.cells[name], kinds["grade_cells"].get(name) or kinds["task_cells"].get(name)
        metadata = {
            "grade_id": name,
            "grade": name in kinds["grade_cells"],
            "solution": name in kinds["solution_cells"],
            "task": name in kinds["task_cells"],
            "locked": bool(cell.locked),
            "cell_type": cell.cell_type,
            "checksum": cell.checksum,
            "schema_version": 3,
        }
        return metadata | ({"points": graded.max_score} if graded else {})

    def released_cells(self) -> list[NotebookNode]:
        """Return the named cells as released, with nbgrader's metadata, in order."""
        from nbformat import from_dict

        roles = [self.role(name) for name in self.order() if name in self.released]
        return [
            from_dict(
                {
                    "cell_type": role["cell_type"],
                    "source": self.released[role["grade_id"]],
                    "metadata": {"nbgrader": role},
                }
            )
            for role in roles
        ]

    def know_release(self, folder: Path | str) -> None:
        """Remember the source of the released checks, to detect changes, and of cells that only measure."""
        import nbformat

        path = Path(folder) / f"{self.name}.ipynb"
        if path.exists():
            cells = nbformat.read(path, as_version=4).cells
            theirs = [c.source for c in cells if c.cell_type == "code" and not is_check(c)]
            self.imports = names.imported(theirs)
            for cell in cells:
                if name := cell.metadata.get("nbgrader", {}).get("grade_id"):
                    self.released[name] = cell.source
                    continue
                self.unnamed.add(cell.source.strip())
                if MEASURED in cell.metadata.get("tags", ()):
                    self.measured.add(cell.source.strip())

    def find_notebook(self, name: str, assignment: str) -> SimpleNamespace:
        return SimpleNamespace(**self.kinds)

    def find_source_cell(self, name: str, notebook: str, assignment: str) -> SimpleNamespace:
        from nbgrader.api import MissingEntry

        if name not in self.cells:
            raise MissingEntry(name)
        return self.cells[name]

    def find_graded_cell(self, name: str, notebook: str, assignment: str) -> SimpleNamespace:
        from nbgrader.api import MissingEntry

        for cell in self.kinds["grade_cells"]:
            if cell.name == name:
                return cell
        raise MissingEntry(name)


def is_check(cell: NotebookNode) -> bool:
    """Return whether this released cell decides points."""
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def plain(cell: BaseCell | SourceCell) -> SimpleNamespace:
    """Return a row of nbgrader's database as an object that is detached from the database."""
    return SimpleNamespace(**{key: getattr(cell, key, None) for key in CELL})


def read_submission(student: str, folder: Path | str, source: Source, sanitiser: Sanitiser) -> Submission:
    """Read one student's Submission, with `problem` set if no notebook can be graded."""
    submission = Submission(student, Path(folder), source.name)
    try:
        submission.files = work_files(submission.folder)
    except SubmissionError as why:
        submission.problem = f"the submission cannot be graded: {why}"
        return submission
    path = choose(submission)
    if path is None:
        return submission
    submission.path, notebook = path, parse(submission, path)
    if notebook is None:
        return submission
    submission.notes += remarks(notebook, source, submission)
    try:
        submission.notebook = sanitiser(notebook)
    except CourseError:  # a fault of the assignment, not of this submission
        raise
    except Exception as error:  # no submission may stop the grading of the class
        reason = printable(
            str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        )
        submission.problem = f"{printable(path.name)} is not a notebook that nbgrader can read: {reason}"
    return submission


def choose(found: Submission) -> Path | None:
    """Return the path of the notebook to grade, or None after setting the problem."""
    path = found.folder / f"{found.name}.ipynb"
    others = [p for name, p in found.files.items() if name.endswith(".ipynb")]
    if path in others:
        extra = [name for name, p in found.files.items() if p in others and p != path]
        if extra:
            found.notes.append(f"other notebooks, which were ignored: {listed(extra)}")
        return path
    if len(others) == 1:
        found.notes.append(f"submitted as {printable(others[0].name)}; graded as {path.name}")
        return others[0]
    if others:
        names = listed([p.name for p in others])
        found.problem = f"no {path.name}, but {names}: rename the one that counts and run again"
    else:
        found.problem = f"no notebook: {path.name} is missing"
    return None


def listed(names: list[str]) -> str:
    """Return names from a submission for use in a sentence, only the first ones if there are many."""
    shown = ", ".join(printable(name, 60) for name in names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def parse(found: Submission, path: Path) -> NotebookNode | None:
    """Return the notebook at a path (NotebookNode), or None after setting the problem."""
    try:
        notebook, changed = notebook_file.read(path)
    except SubmissionError as why:
        found.problem = f"{printable(path.name)} {why}"
        return None
    found.notes += changed
    found.for_student += [f"In your notebook, {sentence}." for sentence in changed]
    return notebook


def remarks(notebook: NotebookNode, source: Source, found: Submission) -> list[str]:
    """Return notes for the instructor about a readable submission; names of copied cells are removed."""
    notes, again = [], keep_known_roles(notebook, source)
    if again:
        notes.append(f"cells that had lost their names, which were restored: {', '.join(again)}")
        found.for_student.append(pasted_cells.names_restored(len(again)))
    notes += differences(notebook, source)
    found.for_student += [
        pasted_cells.sentence(name, what) for name, what in set_apart(notebook, source).items()
    ]
    return notes


def set_apart(notebook: NotebookNode, source: Source) -> dict[str, str]:
    """Keep each name on one cell and return {name: treatment of its copies}; see `pasted_cells.set_apart`."""

    def unchanged(cell: NotebookNode) -> bool:
        name = cell.metadata["nbgrader"]["grade_id"]
        return cell.source.strip() == source.released.get(name, source.cells[name].source).strip()

    keep_known_roles(notebook, source)
    return pasted_cells.set_apart(notebook, lambda name: source.cells[name].locked, unchanged)


def keep_known_roles(notebook: NotebookNode, source: Source) -> list[str]:
    """Remove nbgrader's metadata from cells that the course does not know, and restore it in the others.

    Returns the names of the cells whose metadata was missing.
    """
    from nbformat import from_dict

    for cell in notebook.cells:
        role = cell.metadata.pop("nbgrader", None)
        name = role.get("grade_id") if isinstance(role, dict) else None
        if isinstance(name, str) and name in source.cells:
            cell.metadata["nbgrader"] = from_dict(source.role(name))
    return pasted_cells.restore_names(notebook, source.released_cells(), source.unnamed)


def differences(notebook: NotebookNode, source: Source) -> list[str]:
    """Describe changes to the cells: deleted, duplicated, or with a source that differs from the release."""
    seen: dict[str, list[str]] = {}
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in source.cells:
            seen.setdefault(name, []).append(cell.source.strip())
    notes, locked = [], [name for name, cell in source.cells.items() if cell.locked]
    if given := [name for name in locked if name not in seen and name not in source.points]:
        notes.append(f"deleted read-only cells, restored: {', '.join(given)}")
    if gone := [name for name in source.points if name not in seen]:
        notes.append(f"deleted checks, restored: {', '.join(gone)}")
    holes = [cell.name for cell in source.kinds["solution_cells"] if cell.name not in source.points]
    if empty := [name for name in holes if name not in seen]:
        notes.append(f"deleted answer cells, not restored: {', '.join(empty)}")
    if twice := [name for name, texts in seen.items() if len(texts) > 1]:
        notes.append(f"cells that occur more than once, of which only one counts: {', '.join(twice)}")
    changed = [
        name
        for name, texts in seen.items()
        if name in source.released
        and source.cells[name].locked
        and source.released[name].strip() not in texts
    ]
    if changed:
        notes.append(f"changed read-only cells, restored: {', '.join(changed)}")
    return notes


class Sanitiser:
    """nbgrader's sanitising of a notebook, as in its Autograde, but with a Source instead of a database."""

    def __init__(self, config: Config, source: Source):
        from nbgrader.preprocessors import ClearOutput

        self.source = source
        # CheckCellMetadata, which takes four fifths of the time for reading a submission, is left out,
        # because keep_known_roles has already restored all roles.
        kinds = (ClearOutput, overwrite_with(source))
        self.steps = [kind(config=config) for kind in kinds]

    def __call__(self, notebook: NotebookNode) -> NotebookNode:
        """Return a sanitised copy of the notebook."""
        notebook = copy.deepcopy(notebook)
        for word in ("unreadable", "told", "data"):  # the course's own keys, which a student may have set
            notebook.metadata.pop(word, None)
        figures = {cell["id"]: len(cell.metadata.get("figures", ())) for cell in notebook.cells}
        notebook.metadata["undrawn"] = {name: number for name, number in figures.items() if number}
        set_apart(notebook, self.source)
        free = [cell for cell in notebook.cells if "nbgrader" not in cell.metadata]
        measured = [cell["id"] for cell in free if cell.source.strip() in self.source.measured]
        notebook.metadata["measured"] = measured
        notebook.metadata["imports"] = dict(self.source.imports)
        if self.source.kernelspec:
            notebook.metadata["kernelspec"] = self.source.kernelspec
        resources = {"nbgrader": {"notebook": self.source.name, "assignment": self.source.assignment}}
        for step in self.steps:
            notebook, resources = step.preprocess(notebook, resources)
        for cell in notebook.cells:
            names = set(cell.metadata) - {"nbgrader"} if cell.cell_type == "code" else ()
            for name in names:  # like nbconvert's ClearMetadata after the execution
                del cell.metadata[name]
        return notebook


def overwrite_with(source: Source) -> type[OverwriteCells]:
    """Return nbgrader's OverwriteCells, with `source` instead of a gradebook. It also restores other
    read-only cells, because nbgrader restores only checks, and fails if the preceding cell is missing, too.
    """
    from nbformat import from_dict
    from nbgrader.preprocessors import NbGraderPreprocessor, OverwriteCells

    class Overwrite(OverwriteCells):
        def preprocess(
            self, notebook: NotebookNode, resources: dict[str, Any]
        ) -> tuple[NotebookNode, dict[str, Any]]:
            self.notebook_id, self.assignment_id = source.name, source.assignment
            self.gradebook = source
            notebook, resources = NbGraderPreprocessor.preprocess(self, notebook, resources)
            self.restore(notebook)
            return notebook, resources

        def preprocess_cell(
            self, cell: NotebookNode, resources: dict[str, Any], index: int
        ) -> tuple[NotebookNode, dict[str, Any]]:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in source.cells and source.cells[name].cell_type == "code":
                cell.pop("attachments", None)  # attachments of a text cell that replaced this code
            return super().preprocess_cell(cell, resources, index)

        def report_change(self, *_: object) -> None:
            """Do nothing: nbgrader would report hidden tests as changes; `differences` reports real ones."""

        def restore(self, notebook: NotebookNode) -> None:
            """Insert missing locked cells and tasks after the cell that preceded them."""
            cells = []
            for name in source.order():
                role = source.role(name)
                restored = self.missing_cell_transform(source.cells[name], source.points.get(name, 0))
                restored.metadata["nbgrader"].update(
                    {key: role[key] for key in role if key != "task" or role[key]}
                )
                if not role["grade"]:
                    restored.metadata["nbgrader"].pop("points", None)
                cells.append(from_dict(restored))
            pasted_cells.insert_missing(notebook, cells)

    return Overwrite
