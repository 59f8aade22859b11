"""A class's results in an assignment, as plain rows: students, checks, misconceptions, time.

Points come from the gradebook, including manual scores; everything else comes from the verdicts.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import failures
from ..course import Course, CourseError, opened
from ..spreadsheet import text
from ..submissions import due_dates, grading_folder
from . import core_hours, misconceptions

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, SubmittedAssignment

    from ..release.wrong_solutions import Mutant

UNKNOWN = "something else"


def facts(root: Path, course: Course, assignment: str) -> dict[str, Any]:
    """Return all that the report shows, as plain data. Raises CourseError if nothing has been graded."""
    where = grading_folder.GradingFolder(grading_folder.runs(course.coursedir), assignment)
    mutants = misconceptions.mutants_of(root, assignment)
    with opened(course) as book:
        rows = sorted(book.assignment_submissions(assignment), key=lambda row: row.student_id)
        policy = due_dates.LatePenalty.of(course)
        students = [student(book, policy, where, row, mutants) for row in rows]
        if not students:
            raise CourseError(f"{assignment} has no graded submission: grade run {assignment[:2]}")
        [work] = book.find_assignment(assignment).notebooks
        worth = {cell.name: cell.max_score for cell in work.grade_cells}
    order = next((list(s["seconds of checks"]) for s in students if s["seconds of checks"]), [])
    checks = sorted(worth, key=lambda name: (order.index(name) if name in order else len(order), name))
    return {
        "assignment": assignment,
        "title": f"{assignment[:2]} · {title(root, assignment)}",
        "of": sum(worth.values()),
        "students": students,
        "checks": [check(name, worth[name], students) for name in checks],
        "misunderstandings": counted(students),
        "groups": groups(students),
        "time": time_used(where, students),
    }


def title(root: Path, assignment: str) -> str:
    """Return the assignment's title as shown to students."""
    from cluster.pages import course_map

    notebooks = sorted((root / "exercises" / assignment).glob("*.ipynb"))
    text = course_map.bare(course_map.head(notebooks[0])[0]) if notebooks else ""
    return text or course_map.spoken(assignment)


def student(
    book: Gradebook,
    policy: due_dates.LatePenalty,
    where: grading_folder.GradingFolder,
    row: SubmittedAssignment,
    mutants: Iterable[Mutant],
) -> dict[str, Any]:
    """Return the facts about one student: points, lateness, time, failed checks and their misconceptions."""
    key = where.recorded(row.student_id).get("key")
    verdict = (key and where.verdict(row.student_id, key)) or {"checks": {}, "seconds": None}
    grades = {grade.cell.name: grade for work in row.notebooks for grade in work.grades}
    penalty = row.late_submission_penalty or 0.0
    failed = {
        name: misconceptions.Failure(check["error"], check["kind"], check["hidden"])
        for name, check in verdict["checks"].items()
        if check["error"]
    }
    return {
        "student": row.student_id,
        "name": " ".join(filter(None, [row.student.first_name, row.student.last_name])) or row.student_id,
        "points": row.score,
        "penalty": round(penalty, 4),
        "final": round(max(0.0, row.score - penalty), 4),
        "late days": policy.charged(book, row.student_id).get(row.name, 0),
        "look": bool(row.needs_manual_grade),
        "seconds": verdict["seconds"],
        "scores": {name: None if waits(grade) else grade.score for name, grade in grades.items()},
        "failed": {name: failure.error for name, failure in failed.items()},
        "seconds of checks": {n: outcome.get("seconds") for n, outcome in verdict["checks"].items()},
        "shows": shows(failed, mutants),
    }


def waits(grade: Any) -> bool:
    """Return whether this is an ungraded written answer, which is neither right nor wrong."""
    return grade.auto_score is None and grade.manual_score is None


def shows(failed: dict[str, misconceptions.Failure], mutants: Iterable[Mutant]) -> list[str]:
    """Describe the misconceptions behind failed checks {name: Failure}, as in the feedback, or UNKNOWN."""
    recognised = misconceptions.find(failed, mutants)
    known = frozenset().union(*(item.checks for item in recognised))
    wrong = {name for name, one in failed.items() if one.kind != failures.EMPTY}
    return [*dict.fromkeys(item.words for item in recognised), *([UNKNOWN] if wrong - known else [])]


def counted(students: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return [(misconception, number of students who show it)], the most frequent first."""
    counts = Counter(text for row in students for text in set(row["shows"]))
    empty = sum(any(map(is_empty, row["failed"].values())) for row in students)
    known = [(text, n) for text, n in counts.most_common() if text != UNKNOWN]
    return known + [(text, n) for text, n in [(UNKNOWN, counts[UNKNOWN]), ("a blank left empty", empty)] if n]


def groups(students: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return groups of at least two students with the same failed checks, the largest first.

    One remark, or one corrected check, serves a whole group.
    """
    by_checks: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in students:
        if row["failed"]:
            by_checks.setdefault(tuple(sorted(row["failed"])), []).append(row)
    result: list[dict[str, Any]] = []
    for checks, rows in by_checks.items():
        errors = Counter(first_line(row["failed"][checks[0]]) for row in rows)
        shown = Counter(text for row in rows for text in set(row["shows"]) - {UNKNOWN})
        result.append(
            {
                "checks": list(checks),
                "students": [row["student"] for row in rows],
                "names": [row["name"] for row in rows],
                "error": errors.most_common(1)[0][0][:200],
                "shows": [text for text, count in shown.most_common() if count == len(rows)],
            }
        )
    result.sort(key=lambda group: (-len(group["students"]), group["checks"]))
    return [group for group in result if len(group["students"]) > 1]


def check(name: str, worth: float, students: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts of one check over the class; ungraded answers are neither right nor wrong."""
    given = [row["scores"].get(name, 0.0) for row in students]
    scores = [score for score in given if score is not None]
    lost = sum(score < worth for score in scores)
    waiting = len(given) - len(scores)
    errors = Counter(first_line(row["failed"][name]) for row in students if name in row["failed"])
    took = [s for row in students if (s := row["seconds of checks"].get(name)) is not None]
    return {
        "check": name,
        "points": worth,
        "mean": round(statistics.fmean(scores), 3) if scores else None,
        "failed": lost,
        "rate": round(lost / len(scores), 4) if scores else 0.0,
        "waiting": waiting,
        "seconds": round(statistics.median(took), 3) if took else None,
        "error": errors.most_common(1)[0][0][:200] if errors else f"{waiting} ungraded" if waiting else "",
    }


def first_line(error: str) -> str:
    """Return a check's error in one line."""
    return "a blank left empty" if is_empty(error) else error.partition("\n")[0]


def is_empty(error: str) -> bool:
    """Return whether a check reached a blank that is still empty."""
    return failures.kind(error) == failures.EMPTY


def time_used(where: grading_folder.GradingFolder, students: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the seconds used by students' code, and the workers' reserved core hours by location."""
    took = [row["seconds"] for row in students if row["seconds"] is not None]
    hours, note = core_hours.used(where.folder / "journal.jsonl")
    return {
        "seconds": round(sum(took), 1),
        "median": round(statistics.median(took), 2) if took else None,
        "longest": round(max(took), 2) if took else None,
        "core hours": hours,
        "note": note,
    }


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return {file name: CSV} of the students and of the checks."""
    checks = [row["check"] for row in found["checks"]]
    head = ["student", "points", "of", "late days", "penalty", "final", "seconds", "to look at", "shows"]
    students: list[list[object]] = [[*head, *checks]]
    for row in found["students"]:
        points = [row["points"], found["of"], row["late days"], row["penalty"], row["final"]]
        about = [row["seconds"], "yes" if row["look"] else "", "; ".join(row["shows"])]
        students.append([row["student"], *points, *about, *(row["scores"].get(name) for name in checks)])
    columns = ["check", "points", "mean", "failed", "rate", "seconds", "error"]
    by_check: list[list[object]] = [
        [*columns],
        *([row.get(name) for name in columns] for row in found["checks"]),
    ]
    return {"students.csv": text(students), "checks.csv": text(by_check)}
