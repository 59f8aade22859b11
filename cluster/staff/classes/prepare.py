"""From what a student handed in to what is graded: the right notebook, sanitised by nbgrader's own steps.

Nothing here runs a line of the student's. What nbgrader needs of its database is read once for an assignment
(`Source`) and used for the whole class.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .. import work_files
from ..course import CourseError
from ..release import variant_codes
from . import store

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from nbgrader.api import BaseCell, Gradebook, SourceCell
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import OverwriteCells
    from traitlets.config import Config

LARGEST = 50 * 1024 * 1024  # bytes of a notebook: more is no work of a student's, and would fill the memory
CELL = ("name", "cell_type", "locked", "source", "checksum", "max_score")


@dataclass
class Submission:
    """One student's folder: the notebook to grade, or why there is none; notes are for the instructor."""

    student: str
    folder: Path
    name: str
    notebook: NotebookNode | None = None  # sanitised
    problem: str = ""
    notes: list[str] = field(default_factory=list)


class Source:
    """What nbgrader's database knows of the only notebook of an assignment, detached from the database.

    It answers the three questions that nbgrader's OverwriteCells asks a gradebook.
    """

    def __init__(self, book: Gradebook, assignment: str):
        from nbgrader.api import MissingEntry

        try:
            notebooks = book.find_assignment(assignment).notebooks
        except MissingEntry:
            raise CourseError(
                f"the gradebook knows no assignment {assignment!r}: release it first with"
                f" `python -m cluster grade release {assignment[:2]}`, which also fills the gradebook"
            ) from None
        if len(notebooks) != 1:
            raise CourseError(
                f"{assignment} has {len(notebooks)} notebooks; `run` grades assignments with one,"
                f" `nbgrader autograde {assignment}` grades the others"
            )
        found = notebooks[0]
        self.name, self.assignment = found.name, assignment
        self.kernelspec = json.loads(found.kernelspec) if found.kernelspec else None
        self.kinds = {
            kind: [plain(cell) for cell in getattr(found, kind)]
            for kind in ("source_cells", "grade_cells", "solution_cells", "task_cells")
        }
        self.points = {cell.name: cell.max_score for cell in self.kinds["grade_cells"]}
        self.cells = {cell.name: cell for cell in self.kinds["source_cells"]}
        self.released, self.codes = {}, None

    @classmethod
    def from_gradebook(cls, coursedir: CourseDirectory, assignment: str) -> Source:
        """The Source of an assignment from nbgrader's database and the release of a CourseDirectory."""
        from nbgrader.api import Gradebook

        with Gradebook(coursedir.db_url, coursedir.course_id) as book:
            made = cls(book, assignment)
        if variant_codes.CELL in made.cells:
            made.codes = variant_codes.Codes(store.runs(coursedir).parent, assignment)
        made.know_release(coursedir.format_path(coursedir.release_directory, ".", assignment))
        return made

    def order(self) -> list[str]:
        """The names of all cells that nbgrader knows, in the order of the release, else of the database."""
        return [name for name in self.released if name in self.cells] or list(self.cells)

    def role(self, name: str) -> dict[str, Any]:
        """nbgrader's metadata of a cell, as it was released."""
        kinds = {kind: {cell.name: cell for cell in cells} for kind, cells in self.kinds.items()}
        cell, graded = self.cells[name], kinds["grade_cells"].get(name) or kinds["task_cells"].get(name)
        made = {
            "grade_id": name,
            "grade": name in kinds["grade_cells"],
            "solution": name in kinds["solution_cells"],
            "task": name in kinds["task_cells"],
            "locked": bool(cell.locked),
            "cell_type": cell.cell_type,
            "checksum": cell.checksum,
            "schema_version": 3,
        }
        return made | ({"points": graded.max_score} if graded else {})

    def know_release(self, folder: Path | str) -> None:
        """Remember the text of the released checks, so that a change of them can be told."""
        import nbformat

        path = Path(folder) / f"{self.name}.ipynb"
        if path.exists():
            for cell in nbformat.read(path, as_version=4).cells:
                if name := cell.metadata.get("nbgrader", {}).get("grade_id"):
                    self.released[name] = cell.source

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


def plain(cell: BaseCell | SourceCell) -> SimpleNamespace:
    """A row of nbgrader's database as an object without one."""
    return SimpleNamespace(**{key: getattr(cell, key, None) for key in CELL})


def read_submission(student: str, folder: Path | str, source: Source, sanitiser: Sanitiser) -> Submission:
    """The Submission of one student; with `problem` set where there is no notebook that can be graded."""
    found = Submission(student, Path(folder), source.name)
    path = choose(found)
    if path is None:
        return found
    notebook = parse(found, path)
    if notebook is None:
        return found
    found.notes += remarks(notebook, source, found)
    try:
        found.notebook = sanitiser(notebook, student)
    except CourseError:  # the assignment's own fault, or a key that is missing
        raise
    except Exception as error:  # whatever nbgrader stumbles over, the class goes on
        found.problem = f"{path.name} is no notebook that nbgrader can read: {str(error).splitlines()[-1]}"
    return found


def choose(found: Submission) -> Path | None:
    """The path of the notebook to grade, or None with the problem said."""
    path = found.folder / f"{found.name}.ipynb"
    others = sorted(p for p in work_files.work_files(found.folder).values() if p.suffix == ".ipynb")
    if path in others:
        extra = [p.relative_to(found.folder).as_posix() for p in others if p != path]
        if extra:
            found.notes.append(f"also holds {', '.join(extra)}, which nobody looked at")
        return path
    if len(others) == 1:
        found.notes.append(f"handed in as {others[0].name}; graded as {path.name}")
        return others[0]
    if others:
        names = ", ".join(p.name for p in others)
        found.problem = f"no {path.name}, but {names}: rename the one that counts and run again"
    else:
        found.problem = f"no notebook: {path.name} is missing"
    return None


def parse(found: Submission, path: Path) -> NotebookNode | None:
    """The notebook of a path (NotebookNode), or None with the problem said."""
    import nbformat

    if not path.stat().st_size:
        found.problem = f"{path.name} is empty (0 bytes)"
        return None
    if path.stat().st_size > LARGEST:
        found.problem = f"{path.name} has {path.stat().st_size / 2**20:.0f} MiB; at most 50 are read"
        return None
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        nbformat.validate(notebook)
        if not notebook.cells:
            raise ValueError("it has no cells")
        without_broken_roles(notebook)
        return notebook
    except OSError:  # a disk's failure says nothing of the work
        raise
    except Exception as error:  # json, unicode, nbformat: whatever a broken file brings up
        found.problem = f"{path.name} is no notebook: {str(error).splitlines()[0][:200]}"
        return None


def remarks(notebook: NotebookNode, source: Source, found: Submission) -> list[str]:
    """What an instructor should know of a submission that can be read, in words."""
    code_note = source.codes.entered(found.student, found.folder) if source.codes else ""
    return differences(notebook, source) + ([code_note] if code_note else [])


def differences(notebook: NotebookNode, source: Source) -> list[str]:
    """What happened to the cells, in words: deleted, doubled, or with another text than was released."""
    seen = {}
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if isinstance(name, str):
            seen.setdefault(name, []).append(cell.source)
    notes, locked = [], [name for name, cell in source.cells.items() if cell.locked]
    if given := [name for name in locked if name not in seen and name not in source.points]:
        notes.append(f"deleted cells that were given, put back: {', '.join(given)}")
    if gone := [name for name in source.points if name not in seen]:
        notes.append(f"deleted checks, put back: {', '.join(gone)}")
    holes = [cell.name for cell in source.kinds["solution_cells"] if cell.name not in source.points]
    if empty := [name for name in holes if name not in seen]:
        notes.append(f"deleted cells of answers, not put back: {', '.join(empty)}")
    if twice := [name for name, texts in seen.items() if len(texts) > 1]:
        notes.append(f"cells that are there twice, of which the last counts: {', '.join(twice)}")
    changed = [
        name
        for name, texts in seen.items()
        if name in source.released
        and source.cells[name].locked
        and texts[-1].strip() != source.released[name].strip()
    ]
    if changed:
        notes.append(f"changed cells that are read-only, put back: {', '.join(changed)}")
    return notes


class Sanitiser:
    """nbgrader's sanitising of a notebook, as its Autograde does it, that asks a Source, not a database."""

    def __init__(self, config: Config, source: Source):
        from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, DeduplicateIds

        self.source = source
        kinds = (ClearOutput, DeduplicateIds, overwrite_with(source), CheckCellMetadata)
        self.steps = [kind(config=config) for kind in kinds]

    def __call__(self, notebook: NotebookNode, student: str | None = None) -> NotebookNode:
        """A sanitised copy of the notebook, with the student's own numbers where there are variants."""
        notebook = copy.deepcopy(notebook)
        notebook.metadata.pop("unreadable", None)  # a word of ours
        without_broken_roles(notebook)
        if self.source.kernelspec:
            notebook.metadata["kernelspec"] = self.source.kernelspec
        resources = {"nbgrader": {"notebook": self.source.name, "assignment": self.source.assignment}}
        for step in self.steps:
            notebook, resources = step.preprocess(notebook, resources)
        for cell in notebook.cells:
            names = set(cell.metadata) - {"nbgrader"} if cell.cell_type == "code" else ()
            for name in names:  # as nbconvert's ClearMetadata does after the execution
                del cell.metadata[name]
        if student is not None and self.source.codes:
            variant_codes.stamp(notebook, self.source.codes.code_of(student))
        return notebook


def without_broken_roles(notebook: NotebookNode) -> None:
    """Take nbgrader's metadata from cells where it is no role: nbgrader would stumble over them."""
    for cell in notebook.cells:
        role = cell.metadata.get("nbgrader")
        if role is not None and not (isinstance(role, dict) and isinstance(role.get("grade_id"), str)):
            del cell.metadata["nbgrader"]


def overwrite_with(source: Source) -> type[OverwriteCells]:
    """nbgrader's OverwriteCells, asking `source`. It also gives known cells their role back and restores
    given cells: nbgrader restores checks only, and stumbles where the cell before one is gone too.
    """
    from nbgrader.preprocessors import NbGraderPreprocessor, OverwriteCells

    order = source.order()

    class Overwrite(OverwriteCells):
        def preprocess(self, notebook, resources):
            self.notebook_id, self.assignment_id = source.name, source.assignment
            self.gradebook = source
            notebook, resources = NbGraderPreprocessor.preprocess(self, notebook, resources)
            self.restore(notebook)
            return notebook, resources

        def preprocess_cell(self, cell, resources, index):
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in source.cells:
                cell.metadata.nbgrader.update(source.role(name))
            return super().preprocess_cell(cell, resources, index)

        def report_change(self, *_):
            """Nothing: it takes hidden checks for changes; `prepare.differences` says what was changed."""

        def restore(self, notebook):
            """Put missing locked cells and tasks behind the cell that stood before them."""
            names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
            at = 0
            for name in order:
                role = source.role(name)
                if name in names:
                    at = names.index(name) + 1
                elif role["locked"] or role["grade"] or role["task"]:
                    made = self.missing_cell_transform(source.cells[name], source.points.get(name, 0))
                    made.metadata["nbgrader"].update(
                        {key: role[key] for key in role if key != "task" or role[key]}
                    )
                    if not role["grade"]:
                        made.metadata["nbgrader"].pop("points", None)
                    if notebook.nbformat_minor >= 5:
                        made["id"] = f"back-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
                    notebook.cells.insert(at, made)
                    names.insert(at, name)
                    at += 1

    return Overwrite
