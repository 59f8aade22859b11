"""Grade one folder like `grade run`, for its student only: nothing is written to the gradebook."""

from __future__ import annotations

import dataclasses
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import from_dict

from ..course import Course, CourseError, SubmissionError, assignments
from ..engine import Check, Limits, Verdict
from ..grading import grade, grading_limits
from ..grading.driver import drive_one
from ..release.student_files import package
from ..results import misconceptions
from ..submissions import exchange, grading_folder, prepare, safe_zip
from ..work_files import MOST
from . import answers
from .attempt_limits import Records
from .fixed_time import FixedTime, shown_at

CHECK = 60.0  # seconds for a check: fewer than in grading, because others wait for their turn
SECONDS = 30  # seconds of CPU time for unpacking an upload


@dataclass
class Attempt:
    """A request. asked: its time. due: when it is answered, on the monotonic clock, or 0 for at once."""

    asked: float = field(default_factory=time.time)
    due: float = 0.0

    def wait(self) -> float:
        """Return the seconds until the answer may be shown, if it is ready now."""
        now = time.monotonic()
        return shown_at(self.due, now) - now if self.due else 0.0


class Checker:
    """The checks of the course at `root`, `workers` at a time; any number of threads may call `check`."""

    def __init__(self, root: Path, workers: int):
        self.root, self.workers = root, workers
        self.checks = root / ".grading" / "checks"
        self.checks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._opened, self._guard = ExitStack(), threading.Lock()
        self._engines: dict[Limits, FixedTime] = {}

    def close(self) -> None:
        """Stop the autograder and its processes with loaded libraries; the next check starts another."""
        with self._guard:
            self._opened.close()
            self._engines.clear()

    def known(self, assignment: str) -> bool:
        """Return whether this is an assignment that has been released to students."""
        if assignment not in assignments(self.root):
            return False
        try:
            return (exchange.course_folder(Course(self.root)) / "outbound" / assignment).is_dir()
        except CourseError:
            return False

    def check(
        self, student: str, assignment: str, data: bytes, attempt: Attempt | None = None
    ) -> dict[str, Any]:
        """Return the answer (answers.answer) on an archive. Raises SubmissionError or limits.Refused. The
        answer, or the exception, may be shown when the attempt is due, and not before."""
        attempt, records = attempt or Attempt(), Records(self.checks, assignment)
        # Not in .grading, which backups read and restores replace.
        course = Course(self.root)
        limits = limits_of(course, assignment)
        with tempfile.TemporaryDirectory(prefix="official-check-") as work:
            sent = Path(work, "sent")
            sent.mkdir()
            sent.with_suffix(".zip").write_bytes(data)
            try:
                safe_zip.unpack(
                    sent.with_suffix(".zip"), sent, largest=limits.files, most=MOST, seconds=SECONDS
                )
            except SubmissionError as why:
                raise SubmissionError(f"The upload cannot be graded: {why}.") from None
            source = prepare.Source.from_gradebook(course.coursedir, assignment)
            sanitiser = prepare.Sanitiser(course.config, source)
            submission = prepare.read_submission(student, sent, source, sanitiser)
            if submission.problem:
                raise SubmissionError(submission.problem[0].upper() + submission.problem[1:] + ".")
            own = grade.source_files(course.coursedir, assignment)
            environment = grade.environment(grade.ENGINE, dataclasses.asdict(limits))
            key = grading_folder.key(submission, own, environment)
            before = records.of(student)
            if before.get("key") == key and before.get("answer"):
                return before["answer"]
            records.begin(student, attempt.asked)
            folder = grading_folder.GradingFolder(Path(work, "runs"), assignment)
            folder.stage(submission, key, own)
            verdict = self._graded(folder, (student, key), attempt, limits)
            answer = self._answer(verdict, assignment)
        records.end(student, key, answer, time.time() + attempt.wait())
        return answer

    def _graded(
        self,
        folder: grading_folder.GradingFolder,
        item: grading_folder.Item,
        attempt: Attempt,
        limits: Limits,
    ) -> Verdict:
        engine, hidden = self._running(limits), None
        try:
            facts = drive_one(folder, grade.Local(engine=engine), item, grade.ENGINE)
        finally:
            if hidden := engine.hidden.pop(str(folder.item(*item) / "files"), None):
                attempt.due = hidden.due
        if facts["outcome"] == "graded":
            checks = {name: Check(**check) for name, check in facts["checks"].items()}
            return Verdict("graded", checks=checks, notebook=from_dict(facts["notebook"]))
        if hidden:  # nothing that happens in hidden tests has a special answer
            return hidden.known
        raise SubmissionError("The course's machine is too busy to finish the check. Try again later.")

    def _answer(self, verdict: Verdict, assignment: str) -> dict[str, Any]:
        void = grading_folder.load(self.root / ".grading" / "runs" / assignment / "void.json") or ()
        return answers.answer(verdict, misconceptions.mutants_of(self.root, assignment), void)

    def _running(self, limits: Limits) -> FixedTime:
        with self._guard:
            if limits not in self._engines:
                engine = FixedTime(package(), self.workers, limits)
                self._opened.enter_context(engine)
                self._engines[limits] = engine
            return self._engines[limits]


def limits_of(course: Course, assignment: str) -> Limits:
    """Return the limits of an assignment's official check: as for grading it, with less time per check."""
    usual = Limits(**grading_limits.of(course, assignment))  # type: ignore[arg-type]  # ints where it has ints
    return dataclasses.replace(usual, check=min(CHECK, usual.check))
