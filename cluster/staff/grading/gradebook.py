"""One student's scores in nbgrader's database, written in one transaction, and the notebook for Formgrader.

Scores come from the autograder's verdict. nbgrader itself reads them from the executed notebook, which the
student's code can write. Instructors' entries (scores, extra credit, comments) are never changed.
"""

from __future__ import annotations

import datetime
import os
import shutil
import textwrap
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.system import files
from cluster.system.text import printable

from ..engine.inside.figures import NOT_DRAWN
from ..submissions import notebook_file
from ..work_files import copy_work

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from nbgrader.api import Comment, Grade, Gradebook, SubmittedAssignment

    from ..submissions.grading_folder import GradingFolder
    from ..submissions.prepare import Sanitiser, Source, Submission

Recorded = tuple[datetime.datetime | None, datetime.timedelta | None]  # (time of submission, extension)
TOLD = {
    "output_cut": "The output of your notebook during grading was too long and has been truncated.",
    "output_replaced": (
        "The output of your notebook during grading contained invalid characters, which were replaced by �."
    ),
}
AS_HANDED_IN = "[figures as submitted; grading does not redraw them]\n"
WIDE = 110  # characters per line


def marks(
    source: Source, notebook: NotebookNode, verdict: dict[str, Any], void: Collection[str] = ()
) -> dict[str, float | None]:
    """Return {grade cell: points, or None for manual grading}. void: checks that count as passed for all."""
    given = {name: check["score"] for name, check in verdict["checks"].items()}
    given |= {name: source.points[name] for name in void if name in given}
    for cell in source.kinds["grade_cells"]:
        # a written answer, which needs manual grading, but gets 0 points if it is unchanged
        if cell.name not in given:
            given[cell.name] = 0.0 if unanswered(notebook, cell.name) else None
    return given


def notes_to_student(verdict: dict[str, Any]) -> list[str]:
    """Return notes to the student about how the submission was graded. They are the same however hidden
    tests failed."""
    secret = [name for name, check in verdict["checks"].items() if check["hidden"]]
    slow = [words for words in verdict.get("slow", ()) if not words.startswith("check ")]
    facts = [fact for fact in TOLD if verdict.get(fact) and not (secret and fact == "output_replaced")]
    return [TOLD[fact] for fact in facts] + [f"{words[0].upper()}{words[1:]}." for words in slow]


def graded(submission: Submission, verdict: dict[str, Any]) -> NotebookNode:
    """Return the notebook of a verdict for Formgrader and feedback, with figures and notes to the student."""
    import nbformat

    notebook = wrapped(nbformat.from_dict(verdict["notebook"]))
    if submission.path:
        show_figures(notebook, submission.path)
    notebook.metadata["told"] = submission.for_student + notes_to_student(verdict)
    return notebook


def show_figures(notebook: NotebookNode, path: Path) -> None:
    """Insert, with a note, figures from the submitted notebook at `path` that grading did not draw."""
    import nbformat

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    undrawn = {
        cell.get("id"): found
        for cell in cells
        if (found := [o for o in cell.outputs if o.get("data", {}).get("image/png") == NOT_DRAWN])
    }
    handed_in = notebook_file.handed_in_figures(path) if undrawn else {}
    for cell in cells:
        figures = iter(handed_in.get(cell.get("id"), ()))
        for output in undrawn.get(cell.get("id"), ()):
            if (figure := next(figures, None)) is None:
                del output.data["image/png"]
            else:
                output.data["image/png"] = figure
        if cell.get("id") in undrawn:
            cell.outputs.append(nbformat.v4.new_output("stream", name="stdout", text=AS_HANDED_IN))


def unanswered(notebook: NotebookNode | None, name: str) -> bool:
    """Return whether this cell is unchanged from the release."""
    from nbgrader.utils import compute_checksum

    all_cells = notebook.cells if notebook is not None else ()
    cells = [cell for cell in all_cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name]
    return any(cell.metadata.nbgrader.get("checksum") == compute_checksum(cell) for cell in cells)


def record(
    book: Gradebook,
    source: Source,
    student: str,
    points: dict[str, float | None],
    notebook: NotebookNode | None = None,
    *,
    when: datetime.datetime | None = None,
    extension: datetime.timedelta | None = None,
    new: bool = True,
    look: bool = False,
) -> None:
    """Write the scores of a student's notebook in one transaction.

    points: {grade cell: points or None}; cells that are not named keep their points. when: the time of
    submission (naive, UTC). extension: a timedelta or None. new: the submission differs from the one for
    which an instructor gave scores, so these need another look. look: all cells need manual grading.
    """
    db = book.db
    try:
        submitted = rows(book, source, student)
        submitted.timestamp, submitted.extension = when, extension
        [work] = submitted.notebooks
        for grade in work.grades:
            if grade.cell.name in points:
                mark(grade, points[grade.cell.name], new, look)
        for comment in work.comments if notebook is not None else ():
            empty = not of_task(comment) and unanswered(notebook, comment.cell.name)
            comment.auto_comment = "No response." if empty else None
        db.commit()
    except BaseException:
        db.rollback()
        raise


def enter(
    book: Gradebook,
    source: Source,
    on_disk: GradingFolder,
    found: Submission,
    points: dict[str, float | None],
    key: str | None = None,
    notebook: NotebookNode | None = None,
) -> None:
    """Write a submission's scores to the gradebook, and then record in the grading folder that this is done.

    key: its verdict's key. Without a verdict, all its cells need manual grading. The rest is as in `record`.
    """
    new = not entered(on_disk, found, key)
    when, extension = found.when, found.extension
    record(
        book, source, found.student, points, notebook, when=when, extension=extension, new=new, look=not key
    )
    on_disk.note(found.student, {"key": key, "problem": found.problem, "time": time.time()})
    if key:
        on_disk.tidy(found.student, key)


def entered(on_disk: GradingFolder, found: Submission, key: str | None) -> bool:
    """Return whether this submission's verdict, or its problem, is what was entered last for its student."""
    last = on_disk.recorded(found.student)
    return (last.get("key"), last.get("problem")) == (key, found.problem)


def withdraw(
    book: Gradebook, source: Source, on_disk: GradingFolder, submission: Submission, only: str | None = None
) -> list[str]:
    """Withdraw a submission's points for checks that changed after it was graded, if it cannot be regraded.

    They wait for manual grading or for the next grading run. Returns the names of these checks. only: the
    check that is regraded; all others keep their points.
    """
    noted = on_disk.recorded(submission.student)
    if not noted.get("key"):
        return []
    names = changed_checks(source, submission.notebook, on_disk.prepared(submission.student, noted["key"]))
    if names := [name for name in names if only in (None, name)]:
        when, extension = recorded(book, source.assignment)[submission.student]
        points = dict.fromkeys(names)
        record(book, source, submission.student, points, when=when, extension=extension)
        on_disk.note(submission.student, noted | {"problem": "its checks have changed", "time": time.time()})
    return names


def changed_checks(source: Source, today: NotebookNode | None, before: NotebookNode | None) -> list[str]:
    """Return the autograded checks that differ between two prepared notebooks of one submission.

    If the course's own code has changed, all checks differ, because any of them may use it.
    """
    written = {cell.name for cell in source.kinds["solution_cells"]}
    checks = [cell.name for cell in source.kinds["grade_cells"] if cell.name not in written]

    def texts(notebook: NotebookNode) -> dict[str, str]:
        roles = ((cell, cell.metadata.get("nbgrader", {})) for cell in notebook.cells)
        return {
            role["grade_id"]: cell.source
            for cell, role in roles
            if cell.cell_type == "code" and role.get("locked")
        }

    if today is None or before is None:
        return checks
    new, old = texts(today), texts(before)
    if any(new.get(name) != old.get(name) for name in {*new, *old} - set(checks)):
        return checks
    return [name for name in checks if new.get(name) != old.get(name)]


def mark(grade: Grade, points: float | None, new: bool, look: bool) -> None:
    """Set a check's automatic score; as in nbgrader, a manual score that this outdates needs another look."""
    changed = new or grade.auto_score != points
    grade.auto_score = points
    if grade.manual_score is None:
        grade.needs_manual_grade = look or points is None
    elif changed:
        grade.needs_manual_grade = True


def of_task(comment: Comment) -> bool:
    from nbgrader.api import TaskCell

    return isinstance(comment.cell, TaskCell)


def rows(book: Gradebook, source: Source, student: str) -> SubmittedAssignment:
    """Return nbgrader's SubmittedAssignment with a row for each current cell, without committing the rows."""
    from nbgrader import api

    db, assignment = book.db, book.find_assignment(source.assignment)
    person = db.get(api.Student, student)
    if person is None:
        person = api.Student(id=student)
        db.add(person)
    submission = db.query(api.SubmittedAssignment).filter_by(assignment_id=assignment.id, student_id=student)
    submitted = submission.one_or_none()
    if submitted is None:
        submitted = api.SubmittedAssignment(assignment=assignment, student=person)
        db.add(submitted)
    works = {work.notebook_id: work for work in submitted.notebooks}
    for notebook in assignment.notebooks:
        work = works.get(notebook.id) or api.SubmittedNotebook(notebook=notebook, assignment=submitted)
        db.add(work)
        db.flush()
        graded, commented = ({row.cell_id for row in part} for part in (work.grades, work.comments))
        for cell in [*notebook.grade_cells, *notebook.task_cells]:
            if cell.id not in graded:
                db.add(api.Grade(cell_id=cell.id, notebook=work))
        for cell in [*notebook.solution_cells, *notebook.task_cells]:
            if cell.id not in commented:
                db.add(api.Comment(cell_id=cell.id, notebook=work))
    db.flush()
    return submitted


def publish(
    target: Path, submission: Submission, notebook: NotebookNode, source_files: dict[str, Path]
) -> None:
    """Write the graded notebook, its files and the time of submission to nbgrader's folder `target`."""
    import nbformat

    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new-{os.getpid()}")
    for left in target.parent.glob(f".{target.name}.*-*"):
        shutil.rmtree(left, ignore_errors=True)
    copy_work(submission.files, new, source_files)
    (new / f"{submission.name}.ipynb").write_text(nbformat.v4.writes(notebook), encoding="utf-8")
    for name in ("timestamp.txt", "submission_secret.txt"):  # nbgrader uses the secret to release feedback
        path = submission.folder / name
        if path.is_file() and not path.is_symlink():
            shutil.copyfile(path, new / name)
    for path in new.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    files.replace_folder(new, target)


def wrapped(notebook: NotebookNode) -> NotebookNode:
    """Wrap long lines in the errors of a notebook's checks, because Formgrader cuts them off."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            for output in cell.outputs:
                if output.output_type == "error":
                    lines = "\n".join(output.traceback).splitlines()
                    output.traceback = [part for line in lines for part in textwrap.wrap(line, WIDE) or [""]]
    return notebook


def unreadable(submission: Submission, sanitiser: Sanitiser) -> NotebookNode:
    """Return a notebook that replaces an unreadable one and contains the reason, with all checks failed."""
    import nbformat

    text = f"**This submission could not be graded.** {submission.problem}"
    notebook = sanitiser(nbformat.v4.new_notebook())
    notebook.metadata["unreadable"] = submission.problem
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text))
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata["nbgrader"]["grade"]:
            error = nbformat.v4.new_output("error", ename="NotGraded", evalue=submission.problem)
            error.traceback = [f"NotGraded: {submission.problem}"]
            cell.outputs = [error]
    return wrapped(notebook)


def recorded(book: Gradebook, assignment: str) -> dict[str, Recorded]:
    """Return {student: (time of submission, extension)} for the submissions in nbgrader's database."""
    from nbgrader import api

    query = book.db.query(api.SubmittedAssignment).join(api.Assignment)
    query = query.filter(api.Assignment.name == assignment).all()
    return {row.student_id: (row.timestamp, row.extension) for row in query}


def handed_in(folder: Path | str) -> tuple[datetime.datetime | None, str]:
    """Return (time, note) from a submission's timestamp.txt as nbgrader reads it: naive UTC, or None."""
    from nbgrader.utils import parse_utc

    path = Path(folder) / "timestamp.txt"
    if path.is_symlink() or not path.is_file():
        return None, ""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read(200).strip()
    try:
        return (parse_utc(text) if text else None), ""
    except (ValueError, OverflowError, TypeError):
        return None, (
            f"timestamp.txt contains {printable(text, 40)}, which is not a time; the submission counts as "
            "on time"
        )
