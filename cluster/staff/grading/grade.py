"""Grade a class: read the submissions, have those graded that must be executed, write the gradebook.

It can be killed at any moment: each verdict is on disk as soon as it is known, as are the gradebook's current
contents. The next run reads both, finds the killed run's array in the queue, and continues.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DatabaseError

from cluster.system.text import printable

from ..course import Course, CourseError, opened
from ..engine import Limits
from ..submissions import due_dates, grading_folder, prepare
from ..submissions.grading_folder import GradingFolder, Item
from . import gradebook, grading_limits
from .driver import ENGINE, Backend, drive
from .grading_progress import Progress
from .on_this_machine import Local

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

LONGEST = 128  # maximum characters of a student's name in the gradebook


@dataclass
class Result:
    """The outcome for a class: names of students; `unreadable`, `ungraded` and `notes` give reasons."""

    students: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    graded: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    ungraded: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    stopped: int = 0  # number of submissions not graded because grading was stopped


class Coordinator:
    """One run over the submissions of an assignment.

    backend (Local or Array): where the workers run. limits: those that differ from nbgrader_config.py's.
    """

    def __init__(
        self,
        course: Course,
        assignment: str,
        backend: Backend,
        *,
        engine: str = ENGINE,
        limits: dict[str, float] | None = None,
    ):
        self.course, self.coursedir, self.assignment = course, course.coursedir, assignment
        self.backend, self.engine = backend, engine
        self.limits = grading_limits.of(course, assignment, limits)
        self.on_disk = GradingFolder(grading_folder.runs(self.coursedir), assignment)
        self.source = prepare.Source.from_gradebook(self.coursedir, assignment)
        self.files = source_files(self.coursedir, assignment)
        self.environment = environment(engine, self.limits)
        self.sanitiser = prepare.Sanitiser(course.config, self.source)
        self.only: str | None = None  # the name of a check to regrade; the points of all others are kept
        self.result = Result()
        self.waiting: dict[Item, prepare.Submission] = {}

    def grade(
        self,
        students: Collection[str] | None = None,
        before: Callable[[Coordinator], list[str]] | None = None,
    ) -> Result:
        """Grade all students, or the named ones, and return the Result.

        before: a function of this coordinator that is called under the lock and returns the students.
        """
        with self.on_disk.alone(), opened(self.course) as self.book:
            self.result.students = before(self) if before else self.chosen(students)
            known = gradebook.recorded(self.book, self.assignment)
            for student in self.result.students:
                with self.record_errors(student):
                    self.survey(student, known.get(student))
            path = self.on_disk.folder / "progress.json"
            with Progress(len(self.waiting), path=path) as progress:
                items = list(self.waiting)
                drive(
                    self.on_disk, self.backend, items, self.settle, self.engine, self.limits or None, progress
                )
            self.result.stopped = len(self.waiting)
            due_dates.charge_all(self.book, self.course, self.result.students)
        return self.result

    def chosen(self, students: Collection[str] | None) -> list[str]:
        """Return the students with submissions, limited to `students`.

        A folder whose name is not valid in the gradebook belongs to no student, and is reported.
        """
        pattern = self.course.folder("submitted", "*", self.assignment)
        there = sorted(path.parent.name for path in pattern.parents[1].glob(f"[!.]*/{self.assignment}"))
        for name in [name for name in there if name != printable(name, LONGEST)]:
            there.remove(name)
            self.result.ungraded[printable(name)] = "this folder's name is not a student's name"
        if unknown := sorted(set(students or ()) - set(there)):
            raise CourseError(f"{', '.join(map(printable, unknown))}: no submission at {pattern}")
        if not there:
            raise CourseError(
                f"there is no submission of {self.assignment}: no {pattern}; see `grade collect`"
            )
        return [student for student in there if not students or student in students]

    def read(self, student: str) -> prepare.Submission:
        """Read and prepare one student's submission."""
        folder = self.course.folder("submitted", student, self.assignment)
        return prepare.read_submission(student, folder, self.source, self.sanitiser)

    def key(self, submission: prepare.Submission) -> str:
        """Return the cache key of a readable submission's verdict."""
        return grading_folder.key(submission, self.files, self.environment)

    def survey(self, student: str, known: gradebook.Recorded | None) -> None:
        """Read one submission; record it if it needs no execution, otherwise stage it as a waiting one."""
        submission = self.read(student)
        submission.when, note = gradebook.handed_in(submission.folder)
        key = None if submission.problem else self.key(submission)
        if notes := [*submission.notes, *filter(None, [note])]:
            self.result.notes[student] = notes
        submission.extension = due_dates.extension(self.coursedir, self.book, student, self.assignment)
        stands = self.published(submission).is_file() and known == (submission.when, submission.extension)
        stands = stands and self.only is None and gradebook.entered(self.on_disk, submission, key)
        if key is None:
            self.result.unreadable[student] = submission.problem
            if not stands:
                self.refuse(submission)
            return
        verdict = self.on_disk.verdict(student, key)
        if verdict and verdict["outcome"] == "graded":
            self.result.unchanged.append(student)
            if not stands:
                self.record(submission, key, verdict)
            return
        self.on_disk.again(student, key)
        self.on_disk.stage(submission, key, self.files)
        self.waiting[student, key] = submission

    @contextlib.contextmanager
    def record_errors(self, student: str) -> Iterator[None]:
        """Record an error of one submission without stopping the grading of others."""
        try:
            yield
        # an error of the assignment or the gradebook affects all submissions
        except (CourseError, DatabaseError):
            raise
        except Exception as error:
            if grading_folder.of_the_machine(error):
                raise
            what = "its folder cannot be read" if isinstance(error, OSError) else type(error).__name__
            self.result.ungraded[student] = f"{what}: {printable(str(error))}"

    def settle(self, item: Item, verdict: dict[str, Any]) -> None:
        """Record the verdict on a waiting submission, or leave it ungraded if there is none.

        Then its points for checks changed since it was graded are withdrawn.
        """
        submission, (student, key) = self.waiting.pop(item), item
        with self.record_errors(student):
            if verdict["outcome"] == "graded":
                self.record(submission, key, verdict)
                self.result.graded.append(student)
                return
            self.result.ungraded[student] = verdict["why"]
            names = gradebook.withdraw(self.book, self.source, self.on_disk, submission, self.only)
            if names:
                note = f"its points for changed checks have been withdrawn: {', '.join(names)}"
                self.result.ungraded[student] = f"{verdict['why']}; {note}"

    def record(self, found: prepare.Submission, key: str, verdict: dict[str, Any]) -> None:
        """Write a verdict to the graded folder and to the gradebook, and then record that both are done."""
        if slow := verdict.get("slow"):
            self.result.notes[found.student] = [*self.result.notes.get(found.student, ()), *slow]
        notebook = gradebook.graded(found, verdict)
        points = gradebook.marks(self.source, notebook, verdict, self.on_disk.void())
        points = {name: points[name] for name in points if self.only in (None, name)}
        gradebook.publish(self.published(found).parent, found, notebook, self.files)
        gradebook.enter(self.book, self.source, self.on_disk, found, points, key, notebook)

    def refuse(self, found: prepare.Submission) -> None:
        """Record an unreadable submission with 0 points for now and as needing manual grading."""
        notebook = gradebook.unreadable(found, self.sanitiser)
        gradebook.publish(self.published(found).parent, found, notebook, self.files)
        points: dict[str, float | None] = dict.fromkeys(self.source.points, 0.0)
        gradebook.enter(self.book, self.source, self.on_disk, found, points)

    def published(self, found: prepare.Submission) -> Path:
        """Return the path of a student's graded notebook."""
        return self.course.folder("autograded", found.student, self.assignment) / f"{self.source.name}.ipynb"


def source_files(coursedir: CourseDirectory, assignment: str) -> dict[str, Path]:
    """Return {relative path: path} of the assignment's files, which replace a student's of the same name."""
    from nbgrader.utils import find_all_files

    # Spelt with /./, as in nbgrader, because the check that protects the solutions compares it literally.
    folder = coursedir.format_path(coursedir.source_directory, ".", assignment)
    relative_paths = find_all_files(folder, [*coursedir.ignore, "*.ipynb"])
    return {Path(path).relative_to(folder).as_posix(): Path(path) for path in sorted(relative_paths)}


def environment(engine: str, limits: dict[str, float]) -> dict[str, Any]:
    """Return everything besides the submission that affects a verdict."""
    whole = Limits(**limits)  # type: ignore[arg-type]  # ints for the fields that are ints
    return grading_folder.environment() | {"engine": engine, "limits": dataclasses.asdict(whole)}


def grade_class(
    root: Path | str,
    assignment: str,
    students: Collection[str] | None = None,
    *,
    private: Path | str | None = None,
    backend: Backend | None = None,
    engine: str = ENGINE,
    limits: dict[str, float] | None = None,
) -> Result:
    """Grade an assignment's class and return the Result. backend: Local() by default."""
    head = Coordinator(Course(root, private), assignment, backend or Local(), engine=engine, limits=limits)
    return head.grade(students)


__all__ = ["Coordinator", "Local", "Result", "grade_class"]
