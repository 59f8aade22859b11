"""Rebuild a damaged gradebook from the stored verdicts, without executing anything.

The checks come from the released assignments, students from the roster, points from the verdicts, due dates
from due.json. They are replaced by the damaged gradebook's readable parts: names, due dates, and what
instructors have entered. The new gradebook is written next to the old one, which is kept.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader import api
from sqlalchemy import make_url
from sqlalchemy.exc import DatabaseError

from ..course import Course, CourseError, alone, assignments, opened
from ..release import release
from ..submissions import due_dates, grading_folder, roster_file
from ..submissions.grading_folder import GradingFolder
from . import gradebook
from .grade import Coordinator, Local
from .regrade import same_answers

ENTERED = ("manual_score", "extra_credit", "needs_manual_grade")  # of a score, by a person in Formgrader
JOURNALS = ("-journal", "-wal", "-shm")  # SQLite's, which belong to one file only


@dataclass
class Old:
    """What can be read of the damaged gradebook: {student: names}, {assignment: due date}, and
    {(assignment, student, cell): what a person entered} for scores and comments."""

    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    due: dict[str, Any] = field(default_factory=dict)
    scores: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    comments: dict[tuple[str, str, str], str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)  # the parts that could not be read, or not to their end


@dataclass
class Rebuilt:
    """kept: the damaged gradebook. points: {assignment: students with points}. left: {assignment: {student:
    why there are none}}. unread: as in Old."""

    kept: Path
    points: dict[str, list[str]] = field(default_factory=dict)
    left: dict[str, dict[str, str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def rebuild(course: Course) -> Rebuilt:
    """Replace the gradebook by one made from the stored verdicts, and keep the old one.

    Raises CourseError if it is on a server, or if an assignment is being graded; nothing is changed then.
    """
    url = make_url(course.coursedir.db_url)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise CourseError(
            "the gradebook is in a database on a server: repair it there, or restore the last backup"
        )
    path, runs = Path(url.database), grading_folder.runs(course.coursedir)
    old = read(course) if path.exists() else Old(unread=["the whole gradebook"])
    known = {folder.parent.name for folder in runs.glob("*/items")} | {*old.due, *due_dates.known(course)}
    names = [name for name in assignments(course.root) if name in known]
    kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    result = Rebuilt(kept, unread=old.unread)
    with contextlib.ExitStack() as held, alone(course.private / "rebuild") as scratch:
        for name in names:
            release.generate(course.root, name, scratch / "release", scratch, whole=False)
        for name in names:
            held.enter_context(GradingFolder(runs, name).alone())
        new = Course(course.root)
        new.config.CourseDirectory.db_url = url.set(database=str(scratch / path.name)).render_as_string()
        new.coursedir.db_url = new.config.CourseDirectory.db_url
        fill(new, old, names, result)
        for end in ("", *JOURNALS):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(result.kept.with_name(result.kept.name + end))
        (scratch / path.name).rename(path)
    return result


def read(course: Course) -> Old:
    """Return what can still be read of a gradebook, part by part."""
    old, who, assignment = Old(), api.SubmittedAssignment.student_id, api.Assignment

    def part(name: str, take: Callable[[Any], None], *columns: Any, path: tuple = ()) -> None:
        try:
            with opened(course) as book:
                query = book.db.query(*columns)
                if path:
                    query = query.select_from(path[0])
                    for table, on in path[1:]:
                        query = query.join(table, on)
                for row in query.yield_per(1):
                    take(row)
        except (DatabaseError, ValueError, TypeError, LookupError):
            old.unread.append(name)

    def scored(row: Any) -> None:
        facts = dict(zip(ENTERED, row[3:], strict=True))
        if facts["manual_score"] is not None or facts["extra_credit"]:
            old.scores[tuple(row[:3])] = facts

    def commented(row: Any) -> None:
        if row[3]:
            old.comments[tuple(row[:3])] = row[3]

    def of(kind: Any) -> tuple:
        work = api.SubmittedNotebook
        return (
            kind, (work, work.id == kind.notebook_id),
            (api.SubmittedAssignment, api.SubmittedAssignment.id == work.assignment_id),
            (assignment, assignment.id == api.SubmittedAssignment.assignment_id),
            (api.BaseCell, api.BaseCell.id == kind.cell_id),
        )  # fmt: skip

    where = (assignment.name, who, api.BaseCell.name)
    part("names of students", lambda row: old.names.update({row[0]: (row[1] or "", row[2] or "")}),
         api.Student.id, api.Student.first_name, api.Student.last_name)  # fmt: skip
    part("due dates", lambda row: old.due.update({row[0]: row[1]}), assignment.name, assignment.duedate)
    entered = [getattr(api.Grade, name) for name in ENTERED]
    part("points entered by hand", scored, *where, *entered, path=of(api.Grade))
    part("comments", commented, *where, api.Comment.manual_comment, path=of(api.Comment))
    return old


def fill(course: Course, old: Old, names: list[str], result: Rebuilt) -> None:
    """Enter people, due dates and points into a new gradebook that has the assignments' cells."""
    roster = roster_file.read(course) or {}
    people = {one.user: (one.first, one.last) for one in roster.values() if one.role == "student"}
    people |= {user: two for user, two in old.names.items() if not any(people.get(user, ()))}
    with opened(course) as book:
        for user, (first, last) in people.items():
            book.update_or_create_student(user, first_name=first, last_name=last)
        for name in names:
            due = old.due.get(name) or due_dates.known(course).get(name)
            book.find_assignment(name).duedate = due
            book.db.commit()
    for name in names:
        head = Coordinator(course, name, Local())
        result.points[name], result.left[name] = [], {}
        with opened(course) as book:
            for student in sorted(folder.name for folder in head.on_disk.items.iterdir()):
                if why := enter(head, book, student):
                    result.left[name][student] = why
                else:
                    result.points[name].append(student)
            enter_by_hand(book, old, name, set(result.points[name]))
            due_dates.charge_all(book, course, result.points[name])


def enter(head: Coordinator, book: api.Gradebook, student: str) -> str:
    """Enter the points of a student's stored verdict; return why not, or ""."""
    noted, submission = head.on_disk.recorded(student), head.read(student)
    when, _ = gradebook.handed_in(submission.folder)
    more = due_dates.extension(head.coursedir, book, student, head.assignment)
    key = noted.get("key") or ""
    if noted and not key and submission.problem:
        points: dict[str, float | None] = dict.fromkeys(head.source.points, 0.0)
        gradebook.record(book, head.source, student, points, when=when, extension=more, look=True)
        return ""
    verdict = head.on_disk.verdict(student, key)
    if not verdict or verdict["outcome"] != "graded":
        return "it has no stored verdict"
    if not same_answers(head, submission, key):
        return "another submission has been collected since it was graded"
    notebook = gradebook.graded(submission, verdict)
    points = gradebook.marks(head.source, notebook, verdict, head.on_disk.void())
    gradebook.record(book, head.source, student, points, notebook, when=when, extension=more)
    return ""


def enter_by_hand(book: api.Gradebook, old: Old, name: str, students: set[str]) -> None:
    """Enter what people had entered in Formgrader, where it could be read."""
    for row in book.assignment_submissions(name):
        for work in row.notebooks if row.student_id in students else ():
            for grade in work.grades:
                for key, value in old.scores.get((name, row.student_id, grade.name), {}).items():
                    setattr(grade, key, value)
            for comment in work.comments:
                text = old.comments.get((name, row.student_id, comment.name))
                comment.manual_comment = text or comment.manual_comment
    book.db.commit()
