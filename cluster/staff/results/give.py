"""Release an assignment, and the feedback on graded submissions, through nbgrader's exchange."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Collection
from pathlib import Path

from nbgrader.exchange.default import ExchangeReleaseAssignment

from cluster.system import files
from cluster.system.text import printable

from ..course import Course, CourseError
from ..grading.grading_progress import Progress
from ..grading.prove_release import faults
from ..release import release
from ..submissions.exchange import course_folder, no_exchange


def hand_out(course: Course, assignment: str, grade: bool = True) -> str:
    """Generate an assignment and release it to the exchange; return a description.

    The solution is executed to its end only if the release differs from the one in exercises/. If a release
    contains a solution, it is refused, and the previous one is kept. A second call changes nothing. grade:
    refuse a release whose solution does not get all points, or whose unsolved version gets any.
    """
    there = course_folder(course) / "outbound" / assignment
    # release() prints messages about exercises/, not about the students' version.
    with contextlib.redirect_stdout(io.StringIO()):
        release.release(course.root, assignment, whole=None, faults=faults if grade else None)
    if there.is_dir() and release.same_files(course.root / "exercises" / assignment, there):
        return "students have it already, unchanged"
    again = there.is_dir()
    course.give(HandOut, assignment)
    count = sum(path.is_file() for path in there.rglob("*"))
    written = f"{count} file{'s' * (count != 1)} in {there}"
    if again:
        return (
            f"released again, {written}; students who have fetched it see on their start page that it was"
            " corrected, and keep their answers when they fetch it again"
        )
    return f"released, {written}; students can fetch it"


def give_back(
    course: Course, assignment: str, students: Collection[str] | None = None
) -> tuple[int, dict[str, str], list[str]]:
    """Write and release the feedback on all graded submissions, or only for the named students.

    Without an exchange it is only written, for the instructor to distribute (`to_fetch`). Returns (number of
    students who received it, {student: why not}, further notes).
    """
    from nbgrader.exchange.default import ExchangeReleaseFeedback

    lacking = no_exchange(course)
    graded = those_with(course, "autograded", assignment)
    if unknown := sorted(set(students or ()) - set(graded)):
        raise CourseError(f"{', '.join(unknown)}: not graded in {assignment}")
    if not graded:
        raise CourseError(f"{assignment} has no graded submission: grade run {assignment[:2]}")
    chosen, failed = [item for item in graded if not students or item in students], {}
    apart: list[str] = []
    with Progress(len(chosen), "feedback released") as progress:
        for student in chosen:
            try:
                course.feedback(assignment, student)
                if not (lacking or from_exchange(course, assignment, student)):
                    apart.append(student)
                elif not lacking:
                    course.give(ExchangeReleaseFeedback, assignment, student)
            except CourseError as error:
                failed[student] = str(error)
            progress.done += 1
            progress.show()
    remarks = notes(course, assignment, set(chosen) - set(failed), graded)
    if lacking:
        remarks.insert(0, f"students cannot fetch it by themselves: {lacking}")
    if apart:
        where = course.folder("feedback", "STUDENT", assignment)
        remarks.append(f"not submitted through the exchange, so it is only in {where}: {', '.join(apart)}")
    return len(chosen) - len(failed), failed, remarks


def from_exchange(course: Course, assignment: str, student: str) -> bool:
    """Return whether a graded submission has what the exchange needs to release its feedback."""
    folder = course.folder("autograded", student, assignment)
    return all((folder / name).is_file() for name in ("timestamp.txt", "submission_secret.txt"))


def to_fetch(course: Course, assignment: str) -> str:
    """Describe where the released feedback is."""
    if no_exchange(course):
        return f"in {course.folder('feedback', 'STUDENT', assignment)}"
    return "to fetch"


def notes(course: Course, assignment: str, given: Collection[str], graded: Collection[str]) -> list[str]:
    """Return notes on submissions that still need grading, manual or automatic."""
    from ..course import opened

    with opened(course) as book:
        rows = book.assignment_submissions(assignment)
        looks = sorted(row.student_id for row in rows if row.needs_manual_grade and row.student_id in given)
    ungraded = sorted(set(map(printable, those_with(course, "submitted", assignment))) - set(graded))
    waits = "answers that still need manual grading (Formgrader › Manual Grading) are marked as such for "
    return [
        *([waits + ", ".join(looks)] if looks else []),
        *([f"submitted but not graded: {', '.join(ungraded)}; run `grade run` first"] if ungraded else []),
    ]


def those_with(course: Course, step: str, assignment: str) -> list[str]:
    """Return the students who have a folder for this step."""
    pattern = course.folder(step, "*", assignment)
    return sorted(path.parent.name for path in pattern.parents[1].glob(f"[!.]*/{assignment}"))


class HandOut(ExchangeReleaseAssignment):
    """nbgrader's plug-in (ExchangeFactory.release_assignment), which replaces a release atomically.

    nbgrader's own plug-in deletes the old release first, so students who fetch meanwhile get nothing, or half
    of it. Any release with a check that must not appear in the feedback is refused here, too.
    """

    def copy_files(self) -> None:
        if shown := release.not_hidden_in_feedback(
            self.coursedir, self.coursedir.assignment_id, Path(self.src_path)
        ):
            self.fail("\n".join(shown))
        final = Path(self.dest_path)  # type: ignore[has-type]  # from nbgrader, which has no types
        if final.is_dir() and not self.force:
            return super().copy_files()  # which refuses and explains how to continue
        new = final.with_name(f".{final.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        self.dest_path = str(new)
        super().copy_files()
        files.replace_folder(new, final)
        self.dest_path = str(final)
