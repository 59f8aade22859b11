"""Assignment views: one row per student with submitted, late, collected, graded, feedback released."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pwd
import stat
import statistics
import time
import unicodedata
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..grading import grading_progress
from ..grading.grading_progress import Running, Step
from ..submissions import exchange
from .shares import shares

# minimum lifetime of facts in seconds; maximum fraction of the time spent on reading
FRESH, SHARE = 1.0, 0.05
PATIENCE = 1.5  # seconds that a page waits for newer facts if older ones exist
LARGEST = 65536  # maximum bytes of a student's progress file
REPORT_FILES = {"report": "report.html", "similar": "similar.html"}  # in .grading/reports/<assignment>


@dataclass
class Row:
    """One student's row in an assignment view. Times are timezone-aware, in UTC."""

    student: str
    name: str
    due: datetime.datetime | None = None
    extended: bool = False
    days: int = 0  # additional days for each assignment, from the roster
    at: datetime.datetime | None = None  # time of the newest submission, by the server's clock
    waiting: bool = False  # the newest submission is in the exchange's inbound folder and not collected
    collected: bool = False
    graded: bool = False  # whether the last collected submission is graded
    look: bool = False  # whether the submission needs manual grading
    look_at: str = ""  # URL of the answer that needs manual grading, in the same form as work
    points: float | None = None
    given_back: bool = False  # whether feedback for the current points has been released
    cells: tuple[int, int] | None = None  # (filled, total) blanks, if students share this
    failed: tuple[str, ...] = ()  # names of the checks without full points
    work: str = ""  # URL of the graded or collected submission, below the server's URL
    section: str = ""
    grader: str = ""  # grader of the written answers, or "" if the course has no graders
    by_name: tuple[str, ...] = ()  # its place in an alphabetical list: by last name, without accents

    @property
    def status(self) -> str:
        """'not yet', 'late' or 'in time'."""
        if self.at is None:
            return "not yet"
        return "late" if self.due and self.at > self.due else "in time"

    @property
    def facts(self) -> list[str]:
        """The terms that the page's filters look for."""
        result = {
            "none": self.at is None,
            "late": self.status == "late",
            "collect": self.waiting,
            "grade": self.collected and not self.graded,
            "look": self.look,
            f"section {self.section}": bool(self.section),
            f"look {self.grader}": self.look,
        }
        return [fact for fact, holds in result.items() if holds] + [f"failed {name}" for name in self.failed]

    @property
    def over(self) -> bool:
        """Whether this student's due date is over."""
        return bool(self.due and self.due < datetime.datetime.now(datetime.UTC))


@dataclass
class Sheet:
    """One assignment."""

    name: str
    title: str
    due: datetime.datetime | None = None
    handed_out: bool = False
    max_points: float = 0.0
    rows: list[Row] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    exchange_error: str = ""  # why the exchange cannot be read
    sections: dict[str, str] = field(default_factory=dict)  # {grader: section}
    grading: Running | None = None  # a running `grade run`
    reports: frozenset[str] = frozenset()  # the keys of REPORT_FILES whose files exist
    read: float = 0.0  # time of reading, in Unix seconds
    older: bool = False  # the view is being reread

    @property
    def number(self) -> str:
        """Its number in the course: '01'."""
        return self.name[:2]

    def those(self, status: str) -> list[Row]:
        """Return the rows with this status."""
        return [row for row in self.rows if row.status == status]

    def count(self, what: str) -> int:
        """Count the rows with this fact, such as 'graded'."""
        return sum(bool(getattr(row, what)) for row in self.rows)

    def looks(self, grader: str) -> int:
        """Count the submissions that this grader must grade manually."""
        return sum(row.look and row.grader == grader for row in self.rows)

    def ordered(self, grader: str) -> list[Row]:
        """Return the rows, the grader's section first."""
        section = self.sections.get(grader)
        return sorted(self.rows, key=lambda row: row.section != section) if section else self.rows

    @property
    def to_do(self) -> dict[str, int]:
        """{action: the number of submissions that wait for it}."""
        return {
            "collect": self.count("waiting"),
            "grade": self.ungraded,
            "give-back": self.count("graded") - self.count("given_back"),
        }

    @property
    def student_sections(self) -> list[str]:
        """The names of all sections with students."""
        return sorted({row.section for row in self.rows if row.section})

    @property
    def failed_checks(self) -> list[str]:
        """Return the names of all checks that at least one student failed."""
        return sorted({name for row in self.rows for name in row.failed})

    @property
    def still_open(self) -> list[Row]:
        """The rows whose due date is in the future, latest last."""
        open_rows = [row for row in self.rows if row.due and not row.over]
        return sorted(open_rows, key=lambda row: (row.due, row.student))

    @property
    def step(self) -> Step | None:
        """The submission that has taken longest in a running grading."""
        return self.grading.steps[0] if self.grading and self.grading.steps else None

    def row(self, student: str) -> Row | None:
        """Return the row of a student."""
        return next((row for row in self.rows if row.student == student), None)

    def named(self, student: str) -> str:
        """Return the name of a student."""
        row = self.row(student)
        return row.name if row else student

    @property
    def handed_in(self) -> int:
        """Count the students who have submitted."""
        return self.count("at")

    @property
    def ungraded(self) -> int:
        """Count the submissions that were collected but not graded."""
        return sum(row.collected and not row.graded for row in self.rows)

    @property
    def points(self) -> tuple[float, float] | None:
        """Return (mean, median) of graded submissions, before late penalties, or None if there are none."""
        got = [row.points for row in self.rows if row.graded and row.points is not None]
        return (statistics.fmean(got), statistics.median(got)) if got else None


class Sheets:
    """The assignment views of the course at `root`, read in a separate thread. Not thread-safe.

    Reading a view takes time on a busy machine, so after `PATIENCE` the previous one is shown. people: the
    folder with the students' progress, or None if the course does not use it.
    """

    def __init__(self, root: Path, people: Path | None):
        self.root, self.people = root, people
        self.pool = futures.ThreadPoolExecutor(1, thread_name_prefix="class-sheets")
        self._known: dict[str, tuple[float, Sheet]] = {}  # {name: (expiry time, view)}
        self._reading: dict[str, futures.Future[tuple[float, Sheet]]] = {}

    def all(self) -> list[Sheet]:
        """Return one view per assignment, in course order."""
        from ..course import assignments

        return self._fresh(assignments(self.root))

    def one(self, name: str) -> Sheet | None:
        """Return the view of an assignment, or None if it does not exist."""
        from ..course import assignments

        return self._fresh([name])[0] if name in assignments(self.root) else None

    def renew(self) -> None:
        """Discard all known views and those being read, because something has changed."""
        self._known.clear()
        self._reading.clear()

    def _fresh(self, names: list[str]) -> list[Sheet]:
        """Return the views of these assignments, reread if they are old and reading is fast enough."""
        end = time.monotonic() + PATIENCE
        for name in names:
            until, _ = self._known.get(name, (0.0, None))
            if time.monotonic() > until and name not in self._reading:
                self._reading[name] = self.pool.submit(self._read, name)
        return [self._shown(name, end) for name in names]

    def _shown(self, name: str, end: float) -> Sheet:
        """Return the newest view of an assignment, waiting until `end` if it is being read."""
        if reading := self._reading.get(name):
            known = name in self._known
            futures.wait([reading], timeout=max(0.0, end - time.monotonic()) if known else None)
            if reading.done():
                del self._reading[name]
                self._known[name] = reading.result()
        view = self._known[name][1]
        view.older, before = name in self._reading, view.grading
        view.grading = grading_progress.running(self.root / ".grading" / "runs" / name / "progress.json")
        if before and not view.grading:  # a grading, started in a terminal or by the button, has ended
            self._known[name] = 0.0, view
        return view

    def _read(self, name: str) -> tuple[float, Sheet]:
        """Return (expiry time, view)."""
        from ..course import Course, opened

        began, course = time.monotonic(), Course(self.root)
        with opened(course) as book:
            view = self._sheet(course, book, name)
        ended, view.read = time.monotonic(), time.time()
        return ended + max(FRESH, (ended - began) / SHARE), view

    def _sheet(self, course: Any, book: Any, name: str) -> Sheet:
        from ..course import CourseError
        from ..results.class_report import title
        from ..submissions import due_dates

        view = Sheet(name, title(self.root, name))
        folder = course.private / "reports" / name
        view.reports = frozenset(one for one, file in REPORT_FILES.items() if (folder / file).is_file())
        with contextlib.suppress(CourseError):
            view.handed_out = os.path.isdir(exchange.course_folder(course) / "outbound" / name)
        known = next((row for row in book.assignments if row.name == name), None)
        view.due, view.max_points = aware(known and known.duedate), known.max_score if known else 0.0
        deadline = due_dates.deadlines(book, course, name) if known else lambda student: None
        each = due_dates.extensions(course.coursedir)[1].get(due_dates.EACH, {})
        view.exchange_error = exchange.shut(exchange.inbox(course.coursedir, course.config))
        newest, view.refused = inbox(course, name)
        pages, looks, failed = scores(book, name)
        marks, notebooks = graded(book, name), [row.name for row in known.notebooks] if known else []
        sections, view.sections = sections_of(course, [student.id for student in book.students])
        graders = shares(name, sections, view.sections)
        for student in book.students:
            full_name = " ".join(filter(None, [student.first_name, student.last_name]))
            due = aware(deadline(student.id))
            days = each.get(student.id, {}).get("days", 0)
            place = alphabetical(student.last_name, student.first_name, student.id)
            row = Row(student.id, full_name or student.id, due, due != view.due, days, by_name=place)
            row.section, row.grader = sections[student.id], graders.get(student.id, "")
            follow(course, row, name, newest.get(student.id), marks.get(student.id), notebooks)
            row.work = pages.get(student.id, "") if row.graded else collected_at(course, student.id, name)
            row.failed = failed.get(student.id, ()) if row.graded else ()
            row.look_at = looks.get(student.id, "") if row.graded else ""
            row.cells = filled(self.people, student.id, name) if self.people else None
            view.rows.append(row)
        view.rows.sort(key=lambda row: (["not yet", "late", "in time"].index(row.status), row.by_name))
        return view


def alphabetical(*names: str | None) -> tuple[str, ...]:
    """Return a key that sorts names, the most important first, like a list of people: capitals and accents
    decide only between names that are equal without them."""
    given = [name or "" for name in names]
    plain = [unicodedata.normalize("NFKD", name.casefold()) for name in given]
    return *("".join(c for c in name if not unicodedata.combining(c)) for name in plain), *given


def sections_of(course: Any, students: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return ({student: section}, {grader: section}) for these students from the roster; "" if none."""
    from ..submissions import roster_file

    people = roster_file.read(course) or {}
    section_of = {student: people[student].section if student in people else "" for student in students}
    return section_of, {person.user: person.section for person in people.values() if person.role == "grader"}


def follow(course: Any, row: Row, assignment: str, arrived: Any, mark: Any, notebooks: list[str]) -> None:
    """Fill in the state of a student's submission: submitted, collected, graded, feedback released."""
    from ..submissions import notices

    received = notices.received(course, row.student, assignment)
    collected = datetime.datetime.fromisoformat(received) if received else None
    row.collected, row.at = collected is not None, max(filter(None, [arrived, collected]), default=None)
    row.waiting = arrived is not None and (collected is None or arrived > collected)
    if mark is None:
        return
    when, row.points, row.look = mark
    row.graded = collected is None or aware(when) == collected
    row.collected = True
    row.at = row.at or aware(when)
    row.given_back = row.graded and bool(exchange.given_back_at(course, row.student, assignment, notebooks))


def graded(book: Any, assignment: str) -> dict[str, tuple[Any, float, bool]]:
    """Return {student: (when submitted, points, whether it needs manual grading)} from the gradebook."""
    from nbgrader import api

    row = api.SubmittedAssignment
    query = book.db.query(row.student_id, row.timestamp, row.score, row.needs_manual_grade)
    rows = query.join(api.Assignment, api.Assignment.id == row.assignment_id)
    return {row[0]: tuple(row[1:]) for row in rows.filter(api.Assignment.name == assignment)}


def scores(book: Any, assignment: str) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, ...]]]:
    """Return {student: URL of the graded notebook in Formgrader}, {student: URL of the first score there that
    needs manual grading}, and {student: names of the checks without full points}.

    The URLs are below the server's.
    """
    from nbgrader import api

    row, notebook, grade, cell = api.SubmittedAssignment, api.SubmittedNotebook, api.Grade, api.BaseCell
    worth = api.GradeCell.__table__.c
    lost = grade.auto_score < worth.max_score
    query = book.db.query(row.student_id, notebook.id, cell.name, grade.needs_manual_grade, lost)
    query = query.select_from(grade).join(notebook, notebook.id == grade.notebook_id)
    query = query.join(row, row.id == notebook.assignment_id).join(cell, cell.id == grade.cell_id)
    query = query.outerjoin(api.GradeCell.__table__, worth.id == cell.id)
    query = query.join(api.Assignment, api.Assignment.id == row.assignment_id)
    pages: dict[str, str] = {}
    looks: dict[str, str] = {}
    failed: dict[str, tuple[str, ...]] = {}
    rows = query.filter(api.Assignment.name == assignment).order_by(cell.name)
    for student, number, name, look, is_lost in rows:
        pages[student] = f"formgrader/submissions/{number}/"
        if look:
            looks.setdefault(student, f"{pages[student]}#{quote(name)}")
        if is_lost:
            failed[student] = (*failed.get(student, ()), name)
    return pages, looks, failed


def collected_at(course: Any, student: str, assignment: str) -> str:
    """Return the URL of the collected notebook in the server's Lab, or "" if none was collected."""
    folder, root = course.folder("submitted", student, assignment).resolve(), course.root.resolve()
    notebook = next(iter(sorted(folder.glob("*.ipynb"))), None)
    if notebook is None or not folder.is_relative_to(root):
        return ""
    return f"lab/tree/{quote(os.fsencode(notebook.relative_to(root)))}"


def inbox(course: Any, assignment: str) -> tuple[dict[str, datetime.datetime], dict[str, str]]:
    """Return ({student: time of the newest submission in the exchange}, {folder: why it is refused})."""
    from ..course import CourseError
    from ..submissions import collect

    try:
        taken, refused = collect.found(exchange.inbox(course.coursedir, course.config), assignment)
    except CourseError:
        return {}, {}
    return {student: one.when for student, one in collect.newest(taken).items()}, refused


def filled(people: Path, student: str, assignment: str) -> tuple[int, int] | None:
    """Return (cells filled, cells to fill) from the student's server; files of other users are ignored."""
    try:
        done, whole = students_file(people / student / "progress.json", student, LARGEST)[assignment]
    except (ValueError, KeyError, TypeError):
        return None
    return (done, whole) if type(done) is type(whole) is int and 0 <= done <= whole < 1000 else None


def students_file(path: Path, student: str, largest: int) -> Any:
    """Return the JSON in a student server's file; None if it is a link, another user's, or too large."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            about = os.fstat(file.fileno())
            own = stat.S_ISREG(about.st_mode) and about.st_uid == pwd.getpwnam(student).pw_uid
            return json.load(file) if own and about.st_size <= largest else None
    except (OSError, ValueError, KeyError, RecursionError):
        return None


def aware(when: datetime.datetime | None) -> datetime.datetime | None:
    """Convert nbgrader's naive UTC time to an aware one."""
    return when.replace(tzinfo=datetime.UTC) if when else None
