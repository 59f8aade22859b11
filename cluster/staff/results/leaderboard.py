"""The class's leaderboard of an assignment with solutions compared by modelled cost: one HTML file.

A check of such an assignment prints two lines computed by the test process (assignment 10, medal-bronze):

    leaderboard name: "the name that the student has chosen", or null: not on it
    leaderboard line: {"milliseconds": …, "accuracy": …, "accuracies": [of the five public seeds], …}

An entry is *verified* if the checks listed in VERIFIED have full points: seeds and images that students have
not seen, and ranks that train like one process. Only verified entries have a rank and numbers. Outputs of
students' own cells are not read. The name, chosen by a student, is shortened, and its unprintable characters
are escaped.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.system.text import printable

from ..course import Course, CourseError
from ..submissions import grading_folder
from .class_report import title
from .report_page import drawing, picture, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME_LINE, ENTRY_LINE = "leaderboard name: ", "leaderboard line: "
VERIFIED = ("target-reached", "recipe-on-ranks")
LONGEST = 40  # maximum characters of a name
NUMBERS = {  # the numbers of an entry, and their columns
    "milliseconds": "modelled cost, ms",
    "accuracy": "accuracy, %",
    "bound": "lower bound, %",
    "steps": "steps",
    "ranks": "ranks",
    "batch": "images per step",
    "width": "width",
    "gflop": "GFLOP",
    "messages": "messages",
    "megabytes": "MB sent",
    "seconds": "s",
}


@dataclass
class Entry:
    """A student who opted in. numbers: {name of NUMBERS: value}, empty if unverified."""

    student: str
    shown: str
    numbers: dict[str, float] = field(default_factory=dict)
    rank: int = 0

    @property
    def values(self) -> list[str]:
        """The numbers as text, in column order."""
        return [f"{self.numbers[name]:,.10g}" for name in NUMBERS]


def entries(course: Course, assignment: str) -> list[Entry]:
    """Return the entries of students who opted in: the verified ones by rank, then the others. Equal costs
    have equal ranks.

    Raises CourseError if nothing has been graded.
    """
    from nbgrader.api import Gradebook, MissingEntry

    where = grading_folder.GradingFolder(grading_folder.runs(course.coursedir), assignment)
    with Gradebook(course.coursedir.db_url, course.coursedir.course_id) as book:
        try:
            students = sorted(row.student_id for row in book.assignment_submissions(assignment))
        except MissingEntry:
            students = []
    if not students:
        raise CourseError(f"{assignment} has no graded submission: grade run {assignment[:2]}")
    result = []
    for student in students:
        key = where.recorded(student).get("key")
        verdict = key and where.verdict(student, key)
        if verdict and (entry := of_verdict(student, verdict)):
            result.append(entry)
    return ranked(result)


def of_verdict(student: str, verdict: dict[str, Any]) -> Entry | None:
    """Return a student's entry from the verdict (`Verdict.to_json`); None if the student did not opt in."""
    checks = verdict.get("checks") or {}
    name, numbers = None, None
    for line in printed(verdict):
        if line.startswith(NAME_LINE):
            name = read(line.removeprefix(NAME_LINE))
        elif line.startswith(ENTRY_LINE):
            numbers = read(line.removeprefix(ENTRY_LINE))
    if not isinstance(name, str):
        return None
    passed = all(c in checks and checks[c]["score"] >= checks[c]["max_score"] > 0 for c in VERIFIED)
    entry = Entry(student, printable(name.strip(), LONGEST) or "anonymous")
    if passed and isinstance(numbers, dict):
        numbers.setdefault("bound", lower_bound(numbers.get("accuracies")))
    if passed and isinstance(numbers, dict) and all(is_number(numbers.get(n)) for n in NUMBERS):
        entry.numbers = {n: numbers[n] for n in NUMBERS}
    return entry


def lower_bound(accuracies: Any) -> float | None:
    """Return the lower end of the one-sided 95% confidence interval for five accuracies' mean, else None."""
    if not isinstance(accuracies, list) or len(accuracies) != 5 or not all(map(is_number, accuracies)):
        return None
    return round(statistics.fmean(accuracies) - 2.132 * statistics.stdev(accuracies) / math.sqrt(5), 2)


def printed(verdict: dict[str, Any]) -> list[str]:
    """Return the lines printed by the checks in the test process, without other cells' output."""
    lines = []
    for cell in (verdict.get("notebook") or {}).get("cells", []):
        role = cell.get("metadata", {}).get("nbgrader", {})
        if not (role.get("grade") and role.get("locked") and role.get("grade_id") in verdict["checks"]):
            continue
        for output in cell.get("outputs", []):
            text = output.get("text", "") if output.get("name") == "stdout" else ""
            lines += "".join(text).splitlines()
    return lines


def read(text: str) -> Any:
    """Return the JSON in a line, or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_number(value: Any) -> bool:
    """Return whether this is a number that can be shown in a table and a plot."""
    return type(value) in (int, float) and abs(value) < 1e15 and math.isfinite(value)


def ranked(found: list[Entry]) -> list[Entry]:
    """Return the verified entries by cost, with ranks, then the others by name."""
    verified = sorted((e for e in found if e.numbers), key=lambda e: (e.numbers["milliseconds"], e.shown))
    for place, entry in enumerate(verified, 1):
        before = verified[place - 2] if place > 1 else None
        same = before and before.numbers["milliseconds"] == entry.numbers["milliseconds"]
        entry.rank = before.rank if before and same else place
    return verified + sorted((e for e in found if not e.numbers), key=lambda e: e.shown)


def plot(verified: list[Entry]) -> Figure:
    """Plot cost against accuracy. Labels are ranks, because matplotlib could read a name as a formula."""
    figure, axes = drawing(7.2, 3.4)
    costs, accuracies = ([e.numbers[n] for e in verified] for n in ("milliseconds", "accuracy"))
    axes.plot(costs, accuracies, "o", color="#0072B2")
    for entry in verified:
        at = entry.numbers["milliseconds"], entry.numbers["accuracy"]
        axes.annotate(str(entry.rank), at, xytext=(5, 4), textcoords="offset points")
    axes.set(xlabel="modelled cost (ms)", ylabel="accuracy (%)", xscale="log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    return figure


def page(root: Path, assignment: str, found: list[Entry]) -> str:
    """Return the HTML."""
    verified, name = [e for e in found if e.numbers], f"{assignment[:2]} · {title(root, assignment)}"
    description = "Modelled cost in ms against accuracy in %, one point per entry, labelled with its rank"
    return render(
        "leaderboard.html",
        title=f"{name}: leaderboard",
        columns=list(NUMBERS.values()),
        ranked=verified,
        rest=[e for e in found if not e.numbers],
        plot=picture(plot(verified), description) if verified else "",
    )
