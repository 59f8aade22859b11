"""Grade a class: read the submissions, dispatch those that must be executed, write the gradebook.

It can be killed at any moment: each verdict is on disk as soon as it is known, as are the gradebook's current
contents. The next run reads both, finds the killed run's array in the queue, and continues.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DatabaseError

from cluster.system.text import printable

from ..course import Course, CourseError, say
from ..submissions import due_dates, grading_folder, prepare
from . import gradebook
from .dispatch import ATTEMPTS, Backend, Dispatch
from .grading_progress import Progress, to_stop
from .on_slurm import Array
from .on_this_machine import Local

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from nbgrader.coursedir import CourseDirectory

ENGINE = "cluster.staff.engine:Engine"
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
    """One run over the submissions of an assignment. `backend` (Local or Array): where the workers run."""

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
        self.backend, self.engine, self.limits = backend, engine, limits
        self.on_disk = grading_folder.GradingFolder(grading_folder.runs(self.coursedir), assignment)
        self.source = prepare.Source.from_gradebook(self.coursedir, assignment)
        self.files = source_files(self.coursedir, assignment)
        self.environment = environment(engine, limits)
        self.sanitiser = prepare.Sanitiser(course.config, self.source)
        self.only: str | None = None  # the name of a check to regrade; the points of all others are kept
        self.result = Result()
        self.waiting: dict[grading_folder.Item, prepare.Submission] = {}
        self.tries: Counter[grading_folder.Item] = Counter()
        self.live: list[Dispatch] = []
        self.alone: list[grading_folder.Item] = []  # items that must wait for the others to end

    def grade(
        self,
        students: Collection[str] | None = None,
        before: Callable[[Coordinator], list[str]] | None = None,
    ) -> Result:
        """Grade all students, or the named ones, and return the Result.

        before: a function of this coordinator that is called under the lock and returns the students.
        """
        from nbgrader.api import Gradebook

        with self.on_disk.alone(), Gradebook(self.coursedir.db_url, self.coursedir.course_id) as self.book:
            self.result.students = before(self) if before else self.chosen(students)
            known = gradebook.recorded(self.book, self.assignment)
            for student in self.result.students:
                with self.record_errors(student):
                    self.survey(student, known.get(student))
            self.resume_dispatches()
            if self.waiting or self.live:
                self.execute()
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

    def survey(self, student: str, known: gradebook.Recorded | None) -> None:
        """Read one submission; record it if it needs no execution, otherwise add it to the waiting ones."""
        folder = self.course.folder("submitted", student, self.assignment)
        submission = prepare.read_submission(student, folder, self.source, self.sanitiser)
        submission.when, note = gradebook.handed_in(folder)
        key = "" if submission.problem else grading_folder.key(submission, self.files, self.environment)
        if notes := [*submission.notes, *filter(None, [note])]:
            self.result.notes[student] = notes
        submission.extension = due_dates.extension(self.coursedir, self.book, student, self.assignment)
        mark = {"key": key or None, "problem": submission.problem}
        stands = self.published(submission).is_file() and known == (submission.when, submission.extension)
        stands = stands and self.only is None
        stands = stands and mark == {name: self.on_disk.recorded(student).get(name) for name in mark}
        if submission.problem:
            self.result.unreadable[student] = submission.problem
            if not stands:
                self.refuse(submission, mark)
            return
        verdict = self.on_disk.verdict(student, key)
        if verdict and verdict["outcome"] == "graded":
            self.result.unchanged.append(student)
            if not stands:
                self.record(submission, key, verdict)
            return
        self.on_disk.again(student, key)
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

    def resume_dispatches(self) -> None:
        """Find a killed coordinator's dispatches; follow arrays that may still run, cancel the others."""
        for folder in sorted(self.on_disk.dispatches.iterdir()):
            plan = grading_folder.load(folder / "plan.json")
            if plan and plan["kind"] == "slurm" and self.backend.kind == "slurm":
                self.live.append(Dispatch(folder, plan, self.backend))
                for attempt, part in zip(plan["attempts"], plan["parts"], strict=True):
                    # the maximum over all arrays
                    self.tries |= Counter({tuple(item): attempt for item in part})
                say(f"  following the array {plan['job']} of an earlier run")
            elif plan:
                Dispatch(folder, plan, Local(1)).close(self.on_disk)
            else:
                shutil.rmtree(folder, ignore_errors=True)

    def execute(self) -> None:
        """Dispatch waiting items, record verdicts as they arrive, and retry after infrastructure failures."""
        ready = [item for item in self.waiting if not self.sent(item)]
        try:
            path = self.on_disk.folder / "progress.json"
            with Progress(len(self.waiting), path=path) as progress:
                while ready or self.live or self.alone:
                    if to_stop(path):
                        return self.stop()
                    if ready:
                        self.send(ready)
                    if self.alone and not self.live:
                        self.send_alone()
                    failed = self.verdicts() | self.losses()
                    again = [item for item in failed if self.tries[item] < ATTEMPTS]
                    for item in failed.keys() - set(again):
                        self.give_up(item, failed[item])
                    progress.done = progress.total - len(self.waiting)
                    progress.again += len(again)
                    progress.hear(lambda: [step for dispatch in self.live for step in dispatch.steps()])
                    progress.show(self.backend.status())
                    ready = [item for item in again if item not in self.alone]
                    if self.live and not ready:
                        time.sleep(0.1 if self.backend.kind == "local" else 0.5)
        except BaseException:
            self.leave()
            raise

    def send_alone(self) -> None:
        """Dispatch items that other processes starved: one at a time or, on Slurm, all in separate tasks."""
        chosen = self.alone if self.backend.kind == "slurm" else self.alone[:1]
        self.alone = self.alone[len(chosen) :]
        self.send(chosen, alone=True)

    def send(self, items: list[grading_folder.Item], alone: bool = False) -> None:
        """Stage items and send them as one dispatch. alone: each item is a separate part."""
        groups: dict[int, list[list[str]]] = {}
        for item in items:
            with self.record_errors(item[0]):
                self.on_disk.stage(self.waiting[item], item[1], self.files)
                self.tries[item] += 1
                groups.setdefault(ATTEMPTS if alone else self.tries[item], []).append(list(item))
                continue
            self.waiting.pop(item)
        if not groups:
            return
        self.live.append(
            Dispatch.send(self.on_disk, self.backend, sorted(groups.items()), self.engine, self.limits)
        )

    def verdicts(self) -> dict[grading_folder.Item, str]:
        """Record new verdicts and return {item: why} of those that must be graded again."""
        failed = {}
        for item in list(self.waiting):
            verdict = self.on_disk.verdict(*item)
            if verdict is None:
                continue
            for dispatch in self.live:
                dispatch.settle(item)
            if verdict["outcome"] == "graded":
                submission = self.waiting.pop(item)
                with self.record_errors(item[0]):
                    self.record(submission, item[1], verdict)
                    self.result.graded.append(item[0])
            else:
                failed[item] = self.on_disk.again(*item)
                if verdict.get("alone") and self.tries[item] < ATTEMPTS:
                    self.alone.append(item)
        return failed

    def give_up(self, item: grading_folder.Item, why: str) -> None:
        """Leave a submission ungraded; withdraw its points for checks changed since it was graded."""
        submission = self.waiting.pop(item)
        self.result.ungraded[item[0]] = why
        with self.record_errors(item[0]):
            names = gradebook.withdraw(self.book, self.source, self.on_disk, submission, self.only)
            if names:
                note = f"its points for changed checks have been withdrawn: {', '.join(names)}"
                self.result.ungraded[item[0]] = f"{why}; {note}"

    def losses(self) -> dict[grading_folder.Item, str]:
        """Return {item: why} for items whose worker has disappeared, and close finished dispatches."""
        failed: dict[grading_folder.Item, str] = {}
        for dispatch in list(self.live):
            # A resumed array may contain items that have since been graded, or submitted again.
            for part in dispatch.open:
                part.intersection_update(self.waiting)
            failed |= dispatch.lost()
            if dispatch.through():
                dispatch.close(self.on_disk)
                self.live.remove(dispatch)
        # An item that the killed coordinator had dispatched twice is lost only when the second attempt is.
        return {item: why for item, why in failed.items() if not self.sent(item)}

    def sent(self, item: grading_folder.Item) -> bool:
        """Return whether some dispatch still has to deliver this item."""
        return any(item in part for dispatch in self.live for part in dispatch.open)

    def stop(self) -> None:
        """Record the verdicts so far and end every dispatch; the next run continues."""
        self.verdicts()
        self.result.stopped = len(self.waiting)
        for dispatch in self.live:
            dispatch.close(self.on_disk)

    def leave(self) -> None:
        """Handle an interrupt: end local workers; leave an array running, which the next run resumes."""
        for dispatch in self.live:
            if dispatch.plan["kind"] == "local":
                dispatch.close(self.on_disk)

    def record(self, found: prepare.Submission, key: str, verdict: dict[str, Any]) -> None:
        """Write a verdict to the graded folder and to the gradebook, and then record that both are done."""
        import nbformat

        notebook = nbformat.from_dict(verdict["notebook"])
        if found.path:
            gradebook.show_figures(notebook, found.path)
        if slow := verdict.get("slow"):
            self.result.notes[found.student] = [*self.result.notes.get(found.student, ()), *slow]
        notebook.metadata["told"] = found.for_student + gradebook.notes_to_student(verdict)
        points = gradebook.marks(self.source, notebook, verdict, self.on_disk.void())
        points = {name: points[name] for name in points if self.only in (None, name)}
        gradebook.publish(self.published(found).parent, found, notebook, self.files)
        self.write(found, points, notebook, {"key": key, "problem": ""})
        self.on_disk.tidy(found.student, key)

    def refuse(self, found: prepare.Submission, mark: dict[str, str | None]) -> None:
        """Record an unreadable submission with 0 points for now and as needing manual grading."""
        notebook = gradebook.unreadable(found, self.sanitiser)
        gradebook.publish(self.published(found).parent, found, notebook, self.files)
        points: dict[str, float | None] = {cell.name: 0.0 for cell in self.source.kinds["grade_cells"]}
        self.write(found, points, None, mark, look=True)

    def write(
        self,
        found: prepare.Submission,
        points: dict[str, float | None],
        notebook: NotebookNode | None,
        mark: dict[str, str | None],
        look: bool = False,
    ) -> None:
        old = self.on_disk.recorded(found.student)
        new = {name: old.get(name) for name in mark} != mark
        gradebook.record(
            self.book, self.source, found.student, points, notebook,
            when=found.when, extension=found.extension, new=new, look=look,
        )  # fmt: skip
        self.on_disk.note(found.student, mark | {"time": time.time()})

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


def environment(engine: str, limits: dict[str, float] | None) -> dict[str, Any]:
    """Return everything besides the submission that affects a verdict."""
    return grading_folder.environment() | {"engine": engine, "limits": limits}


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


__all__ = ["Array", "Coordinator", "Local", "Result", "grade_class"]
