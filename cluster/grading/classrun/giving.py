"""What students are given by nbgrader's exchange: an assignment, and the feedback of what was graded."""

from __future__ import annotations

from pathlib import Path

from cluster.grading import release, store
from cluster.grading.classrun import exchange
from cluster.grading.classrun.progress import Progress
from cluster.grading.course import CourseError


def course_folder(course):
    """The course's folder in the exchange. Raises CourseError where there is no exchange."""
    from nbgrader.exchange.default import ExchangeCollect

    root = Path(ExchangeCollect(coursedir=course.coursedir, config=course.config).root)
    if not root.is_dir():
        raise CourseError(
            f"there is no exchange at {root}: make the folder, or name it in nbgrader_site.py with"
            " c.Exchange.root = …"
        )
    return root / course.coursedir.course_id


def hand_out(course, assignment):
    """Generate an assignment, and put it where students fetch it; returns what was done, in words.

    What leaks a solution is refused, and the release that was there stays. A second time changes nothing.
    """
    there = course_folder(course) / "outbound" / assignment
    release.release(course.root, assignment)
    if there.is_dir() and release.same_files(course.root / "exercises" / assignment, there):
        return "students have it already, unchanged"
    again = there.is_dir()
    course.give(exchange.HandOut, assignment)
    return "handed out anew; who has fetched it keeps that" if again else "students can fetch it"


def give_back(course, assignment, students=None):
    """Write the feedback of all that is graded, or of the named students, and let them fetch it.

    Returns (how many were given theirs, {student: why not}, what else there is to say).
    """
    from nbgrader.exchange.default import ExchangeReleaseFeedback

    course_folder(course)
    graded = those_with(course, "autograded", assignment)
    if unknown := sorted(set(students or ()) - set(graded)):
        raise CourseError(f"{', '.join(unknown)}: not graded in {assignment}")
    if not graded:
        raise CourseError(f"nobody is graded in {assignment}: grade run {assignment[:2]}")
    chosen, failed = [one for one in graded if not students or one in students], {}
    with Progress(len(chosen), "given back") as progress:
        for student in chosen:
            try:
                course.feedback(assignment, student)
                course.give(ExchangeReleaseFeedback, assignment, student)
            except CourseError as error:
                failed[student] = str(error)
            progress.done += 1
            progress.show()
    return len(chosen) - len(failed), failed, notes(course, assignment, set(chosen) - set(failed), graded)


def notes(course, assignment, given, graded):
    """Who waits for a person's look, and who for grading."""
    from cluster.grading.classrun.cli import opened

    with opened(course) as book:
        rows = book.assignment_submissions(assignment)
        looks = sorted(row.student_id for row in rows if row.needs_manual_grade and row.student_id in given)
    ungraded = sorted(set(those_with(course, "submitted", assignment)) - set(graded))
    return [
        *([f"points that a person has yet to give are marked so for {', '.join(looks)}"] if looks else []),
        *([f"handed in and not graded: {', '.join(ungraded)}; grade run first"] if ungraded else []),
    ]


def those_with(course, step, assignment):
    """The students who have a folder of this step."""
    pattern = course.folder(step, "*", assignment)
    return sorted(path.parent.name for path in pattern.parents[1].glob(f"[!.]*/{assignment}"))


def given(course, student, assignment, notebooks):
    """Can the student fetch feedback that is not older than the marks?"""
    from nbgrader.utils import notebook_hash

    marks = store.Store(store.runs(course.coursedir), assignment).recorded(student).get("time", 0)
    path = course.folder("autograded", student, assignment) / "submission_secret.txt"
    try:
        secret, folder = path.read_text(errors="replace"), course_folder(course) / "feedback"
        pages = [folder / f"{notebook_hash(secret=secret, notebook_id=name)}.html" for name in notebooks]
        return bool(pages) and all(page.stat().st_mtime >= marks for page in pages)
    except (OSError, CourseError):
        return False
