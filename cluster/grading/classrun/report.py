"""What a class has shown in an assignment, as plain rows: students, checks, misunderstandings, time.

Points come from the gradebook (what a person entered included), all else from the verdicts.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections import Counter

from cluster.grading import codes, store
from cluster.grading.classrun import hours, late
from cluster.grading.course import CourseError

EMPTY = "NotImplementedError"
UNKNOWN = "something else"


def facts(root, course, assignment):
    """All that the report shows, as plain data. Raises CourseError where nothing is graded."""
    from nbgrader.api import Gradebook

    where = store.Store(store.runs(course.coursedir), assignment)
    mutants = wrong_solutions(root, assignment)
    with Gradebook(course.coursedir.db_url, course.coursedir.course_id) as book:
        rows = sorted(book.assignment_submissions(assignment), key=lambda row: row.student_id)
        policy = late.LatePenalty(config=course.config)
        students = [student(book, policy, where, row, mutants) for row in rows]
        if not students:
            raise CourseError(f"nobody is graded in {assignment}: grade run {assignment[:2]}")
        [work] = book.find_assignment(assignment).notebooks
        worth = {cell.name: cell.max_score for cell in work.grade_cells}
        if codes.CELL in {cell.name for cell in work.source_cells}:
            known = codes.Codes(store.runs(course.coursedir).parent, assignment)
            for found in students:
                found["variant"] = known.of(found["student"])
    order = next((s["order"] for s in students if s["order"]), [])
    names = sorted(worth, key=lambda name: (order.index(name) if name in order else len(order), name))
    for row in students:
        row.pop("order")
    return {
        "assignment": assignment,
        "of": sum(worth.values()),
        "students": students,
        "checks": [check(name, worth[name], students) for name in names],
        "misunderstandings": counted(students),
        "time": time_used(where, students),
    }


def student(book, policy, where, row, mutants):
    """One student: points, lateness, time, what failed and what that points to."""
    key = where.recorded(row.student_id).get("key")
    verdict = (key and where.verdict(row.student_id, key)) or {"checks": {}, "seconds": None}
    grades = {grade.cell.name: grade for work in row.notebooks for grade in work.grades}
    penalty = row.late_submission_penalty or 0.0
    failed = {n: said["error"] for n, said in verdict["checks"].items() if said["error"]}
    return {
        "student": row.student_id,
        "points": row.score,
        "penalty": round(penalty, 4),
        "final": round(max(0.0, row.score - penalty), 4),
        "late days": policy.charged(book, row.student_id).get(row.name, 0),
        "look": bool(row.needs_manual_grade),
        "seconds": verdict["seconds"],
        "scores": {name: grade.score for name, grade in grades.items()},
        "failed": failed,
        "seconds of checks": {n: said.get("seconds") for n, said in verdict["checks"].items()},
        "shows": shows(failed, mutants),
        "order": list(verdict["checks"]),
    }


def wrong_solutions(root, assignment):
    """[(misunderstanding, the checks it loses)] of the assignment's wrong solutions."""
    import nbformat

    from cluster.grading.mutants import load_all

    paths = sorted((root / "solutions" / assignment).glob("*.ipynb"))
    if len(paths) != 1:
        return []
    loaded = load_all(root, assignment, nbformat.read(paths[0], as_version=4))
    return [(mutant.misunderstanding, frozenset(mutant.fails)) for mutant in loaded]


def shows(failed, mutants):
    """The misunderstandings that together explain the failed checks ({check: error}), in words.

    One fits when all its checks failed; the one that explains most comes first, until nothing is left that
    one explains. Those that fit equally well cannot be told apart and are one entry.
    """
    rest = {name for name, error in failed.items() if not error.startswith(EMPTY)}
    wrong, found = frozenset(rest), []
    fitting = [(text, fails) for text, fails in mutants if fails <= wrong]
    while rest:
        best = max((len(fails & rest) for _, fails in fitting), default=0)
        if not best:
            return [*found, UNKNOWN]
        chosen = [(text, fails) for text, fails in fitting if len(fails & rest) == best]
        tightest = min(len(fails) for _, fails in chosen)
        _, first = next(pair for pair in chosen if len(pair[1]) == tightest)
        found.append("; or: ".join(text.rstrip(".") for text, fails in chosen if fails == first))
        rest -= first
    return found


def counted(students):
    """[(misunderstanding, how many students show it)], the most frequent first."""
    counts = Counter(text for row in students for text in set(row["shows"]))
    empty = sum(any(e.startswith(EMPTY) for e in row["failed"].values()) for row in students)
    known = [(text, n) for text, n in counts.most_common() if text != UNKNOWN]
    return known + [(text, n) for text, n in [(UNKNOWN, counts[UNKNOWN]), ("a hole left empty", empty)] if n]


def check(name, worth, students):
    """One check over the class."""
    scores = [row["scores"].get(name) or 0.0 for row in students]
    errors = Counter(first_line(row["failed"][name]) for row in students if name in row["failed"])
    took = [s for row in students if (s := row["seconds of checks"].get(name)) is not None]
    return {
        "check": name,
        "points": worth,
        "mean": round(statistics.fmean(scores), 3),
        "failed": sum(score < worth for score in scores),
        "rate": round(sum(score < worth for score in scores) / len(scores), 4),
        "seconds": round(statistics.median(took), 3) if took else None,
        "error": errors.most_common(1)[0][0][:200] if errors else "",
    }


def first_line(error):
    """What a check said, in one line."""
    return "a hole left empty" if error.startswith(EMPTY) else error.partition("\n")[0]


def time_used(where, students):
    """Seconds of students' work, and the hours of cores that workers had reserved, by where they ran."""
    took = [row["seconds"] for row in students if row["seconds"] is not None]
    core_hours, note = hours.used(where.folder / "journal.jsonl")
    return {
        "seconds": round(sum(took), 1),
        "median": round(statistics.median(took), 2) if took else None,
        "longest": round(max(took), 2) if took else None,
        "core hours": core_hours,
        "note": note,
    }


def tables(found):
    """{file name: CSV} of the students and of the checks."""
    checks = [row["check"] for row in found["checks"]]
    own = any("variant" in row for row in found["students"])  # numbers of their own
    students = [
        [
            "student",
            "points",
            "of",
            "late days",
            "penalty",
            "final",
            "seconds",
            "to look at",
            "shows",
            *checks,
            *(["variant"] if own else []),
        ]
    ]
    for row in found["students"]:
        students.append(
            [row["student"], row["points"], found["of"], row["late days"], row["penalty"], row["final"]]
            + [row["seconds"], "yes" if row["look"] else "", "; ".join(row["shows"])]
            + [row["scores"].get(name) for name in checks]
            + ([row["variant"]] if own else [])
        )
    columns = ["check", "points", "mean", "failed", "rate", "seconds", "error"]
    by_check = [columns, *([row[name] for name in columns] for row in found["checks"])]
    return {"students.csv": text(students), "checks.csv": text(by_check)}


def text(rows):
    """CSV that a spreadsheet opens without taking a student's text for a formula."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    for row in rows:
        writer.writerow([f"'{x}" if isinstance(x, str) and x[:1] in "=+-@\t" and x else x for x in row])
    return made.getvalue()
