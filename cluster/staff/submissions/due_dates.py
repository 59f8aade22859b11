"""Due dates, extensions, and late penalties: a fraction of the score per day begun, after free days.

Extensions are kept in .grading/extensions.json, because they are granted before submission. Grading copies
them into nbgrader's database. nbgrader's own autograde uses the same policy through its plug-in point.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float, Integer

from ..course import Course, CourseError
from . import grading_folder

if TYPE_CHECKING:
    from nbgrader.api import Assignment, Gradebook, SubmittedAssignment
    from nbgrader.coursedir import CourseDirectory

ONE_DAY = datetime.timedelta(days=1)
DUE = "due.json"  # {assignment: due date as text}, for a gradebook that has to be rebuilt
EACH = "*"  # key of the extensions that apply to each assignment
FORM = re.compile(r"(\d{4}-\d{2}-\d{2})[ T](\d{1,2}:\d{2}(?::\d{2})?)\s*(\S+)")
EXAMPLES = (
    "give date, time and zone, such as '2026-12-01 23:59 Europe/Berlin', '2026-12-01 23:59 +01:00' or '… UTC'"
)


class LatePenalty(LateSubmissionPlugin):
    """nbgrader's plug-in for late penalties, such as c.LatePenalty.per_day = 0.1 in nbgrader_config.py."""

    per_day = Float(0.1, min=0, max=1, help="fraction of the score lost per started day").tag(config=True)
    free_days = Integer(0, min=0, help="total late days per student without a penalty").tag(config=True)
    grace = Integer(0, min=0, help="minutes after the due date that do not count as late").tag(config=True)
    zones: Mapping[str, str] = MappingProxyType({})  # {assignment: time zone for counting its days}

    @classmethod
    def of(cls, course: Course) -> LatePenalty:
        """Return the policy of a course, with the time zones of its due dates."""
        policy = cls(config=course.config)
        policy.zones = zones(course.coursedir)
        return policy

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return the points that nbgrader subtracts from one notebook."""
        asking = self.parent
        self.zones = zones(asking.parent.parent.coursedir)  # the course of the enclosing Autograde
        days = self.charged(asking.gradebook, student_id).get(asking.assignment_id, 0)
        return self.share(days) * score

    def charged(self, book: Gradebook, student: str) -> dict[str, int]:
        """Return {assignment: charged late days}; free days are used in the order of the due dates."""
        submitted = submissions(book, student)
        late = sorted((row.duedate, row.name, row.timestamp) for row in submitted if row.duedate)
        free, days_charged = self.free_days, {}
        for limit, name, when in late:
            days = days_begun(limit, when or limit, zone_of(self.zones, name), self.grace)
            days_charged[name] = max(0, days - free)
            free = max(0, free - days)
        return days_charged

    def share(self, days: int) -> float:
        """Return the fraction of the score lost for this number of charged days."""
        return min(1.0, self.per_day * days)


def submissions(book: Gradebook, student: str) -> list[SubmittedAssignment]:
    from nbgrader.api import MissingEntry

    try:
        return book.find_student(student).submissions
    except MissingEntry:
        return []


def days_begun(
    limit: datetime.datetime, when: datetime.datetime, zone: datetime.tzinfo, grace: int = 0
) -> int:
    """Return the number of calendar days of lateness in `zone`; each day counts in full once it has begun.

    limit, when: naive UTC. grace: minutes after the limit that do not count as late. A day has 23 or 25 hours
    when the clocks change, so 23:30 on the day after a due date at 23:59 is one day late, not two.
    """
    if (when - limit).total_seconds() <= 60 * grace:
        return 0
    return max(1, math.ceil((local(when, zone) - local(limit, zone)) / ONE_DAY))


def local(when: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """Return the wall-clock time, naive, of a naive UTC moment."""
    return when.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None)


def later(when: datetime.datetime, days: int, zone: datetime.tzinfo) -> datetime.datetime:
    """Return the same wall-clock time this many calendar days later; both are naive UTC."""
    there = (local(when, zone) + days * ONE_DAY).replace(tzinfo=zone)
    return there.astimezone(datetime.UTC).replace(tzinfo=None)


def zones(coursedir: CourseDirectory) -> dict[str, str]:
    """Return {assignment: the time zone that its due date was given in}."""
    return grading_folder.load(grading_folder.runs(coursedir).with_name("zones.json")) or {}


def zone_of(known: Mapping[str, str], assignment: str) -> datetime.tzinfo:
    """Return the time zone of an assignment's due date. If the date has none, such as one entered in
    Formgrader, return the common zone of all other due dates, or UTC."""
    others = set(known.values())
    zone = known.get(assignment) or (others.pop() if len(others) == 1 else "UTC")
    try:
        return named(zone)
    except ValueError:
        return datetime.UTC


def charge_all(book: Gradebook, course: Course, students: Iterable[str]) -> dict[tuple[str, str], int]:
    """Set the penalty of all these students' submissions; return {(student, assignment): charged days}."""
    policy, days_charged = LatePenalty.of(course), {}
    for student in students:
        charged = policy.charged(book, student)
        for row in submissions(book, student):
            days = charged.get(row.name, 0)
            for work in row.notebooks:
                penalty = policy.share(days) * (work.score or 0) if days else None
                if work.late_submission_penalty != penalty:
                    work.late_submission_penalty = penalty
            if days:
                days_charged[student, row.name] = days
    book.db.commit()
    return days_charged


def moment(text: str) -> datetime.datetime:
    """Convert text with date, time and zone to naive UTC, nbgrader's form. Raises CourseError."""
    match = FORM.fullmatch(text.strip())
    if not match:
        raise CourseError(f"{text!r} is not a date: {EXAMPLES}")
    day, clock, zone = match.groups()
    try:
        naive = datetime.datetime.fromisoformat(f"{day} {clock.zfill(5 if clock.count(':') == 1 else 8)}")
        aware = naive.replace(tzinfo=named(zone))
    except ValueError as error:
        raise CourseError(f"{text!r}: {error}; {EXAMPLES}") from None
    there = aware.astimezone(datetime.UTC).astimezone(aware.tzinfo).replace(tzinfo=None)
    if there != naive:
        raise CourseError(f"{text!r} does not exist, because the clocks go forward at that time")
    if aware.replace(fold=1).utcoffset() != aware.utcoffset():
        raise CourseError(
            f"{text!r} is ambiguous, because the clocks go back at that time; give an offset, such as +01:00"
        )
    return aware.astimezone(datetime.UTC).replace(tzinfo=None)


def named(zone: str) -> datetime.tzinfo:
    """Return the tzinfo for Z, UTC, +01:00 or a name such as Europe/Berlin. Raises ValueError."""
    if zone in ("Z", "UTC", "GMT"):
        return datetime.UTC
    if offset := re.fullmatch(r"([+-])(\d{2}):?(\d{2})", zone):
        sign, hours, minutes = offset.groups()
        if int(hours) > 14 or int(minutes) > 59:
            raise ValueError(f"{zone!r} is not an offset from UTC")
        away = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-away if sign == "-" else away)
    if "/" in zone and zone in zoneinfo.available_timezones():
        return zoneinfo.ZoneInfo(zone)
    raise ValueError(f"{zone!r} is not a time zone (abbreviations such as PST or CET are ambiguous)")


def extensions(coursedir: CourseDirectory) -> tuple[Path, dict[str, dict[str, dict[str, Any]]]]:
    """Return the extensions' path, and {assignment or EACH: {student: {"days": n} or {"until": text}}}."""
    path = grading_folder.runs(coursedir).with_name("extensions.json")
    return path, grading_folder.load(path) or {}


def known(course: Course) -> dict[str, datetime.datetime]:
    """Return {assignment: due date, naive UTC} as `set_due` has kept them outside the gradebook."""
    kept = grading_folder.load(grading_folder.runs(course.coursedir).with_name(DUE)) or {}
    return {name: moment(text) for name, text in kept.items()}


def extension(
    coursedir: CourseDirectory, book: Gradebook, student: str, assignment: str
) -> datetime.timedelta | None:
    """Return the extension of a student as a timedelta, or None."""
    return extension_of(coursedir, book, assignment)(student)


def extension_of(
    coursedir: CourseDirectory, book: Gradebook, assignment: str
) -> Callable[[str], datetime.timedelta | None]:
    """Return a function from student to extension or None. The class's data are read only once."""
    known, due = extensions(coursedir)[1], book.find_assignment(assignment).duedate
    zone = zone_of(zones(coursedir), assignment)

    def of(student: str) -> datetime.timedelta | None:
        given = [one for name in (assignment, EACH) if (one := known.get(name, {}).get(student))]
        if due is None:
            return None
        until = [moment(row["until"]) if "until" in row else later(due, row["days"], zone) for row in given]
        return max([datetime.timedelta(0), *(when - due for when in until)]) or None

    return of


def extend_each(book: Gradebook, course: Course, days: dict[str, int]) -> list[str]:
    """Extend each assignment by {student: days} and return a description of the changes."""
    path, known = extensions(course.coursedir)
    old, new = known.get(EACH, {}), {student: {"days": n} for student, n in days.items() if n}
    if old == new:
        return []
    grading_folder.write(path, json.dumps(known | {EACH: new}, indent=1))
    for assignment in book.assignments:
        settle(book, course, assignment.name)
    changed = sorted(s for s in old.keys() | new.keys() if old.get(s) != new.get(s))
    now = {s: new.get(s, {"days": 0})["days"] for s in changed}
    return [f"{s}: {n} day{'s' * (n != 1)} more for each assignment" for s, n in now.items()]


def found(book: Gradebook, assignment: str) -> Assignment:
    """Return nbgrader's Assignment. Raises CourseError if it has not been released yet."""
    from nbgrader.api import MissingEntry

    try:
        return book.find_assignment(assignment)
    except MissingEntry:
        raise CourseError(f"the gradebook lacks {assignment!r}; run `make exercises` first") from None


def set_due(book: Gradebook, course: Course, assignment: str, text: str) -> None:
    """Set the due date ("none" removes it), and update the penalties of all submissions."""
    found(book, assignment).duedate = None if text == "none" else moment(text)
    zone = "" if text == "none" else FORM.fullmatch(text.strip())[3]  # type: ignore[index]  # moment() has read it
    for file, value in (("zones.json", zone), (DUE, zone and text.strip())):
        path = grading_folder.runs(course.coursedir).with_name(file)
        kept = (grading_folder.load(path) or {}) | {assignment: value}
        grading_folder.write(path, json.dumps({name: one for name, one in kept.items() if one}, indent=1))
    book.db.commit()
    settle(book, course, assignment)


def settle(book: Gradebook, course: Course, assignment: str) -> None:
    """Update the extensions and penalties in the gradebook for the current due dates."""
    rows, more = book.assignment_submissions(assignment), extension_of(course.coursedir, book, assignment)
    for row in rows:
        row.extension = more(row.student_id)
    book.db.commit()
    charge_all(book, course, [row.student_id for row in rows])


def extend(
    book: Gradebook,
    course: Course,
    student: str,
    assignment: str,
    *,
    days: int | None = None,
    until: str | None = None,
) -> str:
    """Grant, replace or (days=0) revoke an extension, and return the new due date as text."""
    due = found(book, assignment).duedate
    if due is None:
        raise CourseError(f"{assignment} has no due date. Set it first with grade due {assignment[:2]} WHEN")
    zone = zone_of(zones(course.coursedir), assignment)
    if days is not None and not 0 <= days <= 366:
        raise CourseError(f"--days {days}: must be between 0 (which revokes the extension) and 366")
    if until is not None and moment(until) <= due:
        raise CourseError(f"{until!r} is not after the due date, {shown(due, zone)}")
    path, known = extensions(course.coursedir)
    if days == 0:
        known.get(assignment, {}).pop(student, None)
    else:
        known.setdefault(assignment, {})[student] = {"days": days} if until is None else {"until": until}
    grading_folder.write(path, json.dumps(known, indent=1))
    settle(book, course, assignment)
    until_now = deadlines(book, course, assignment)(student)
    submitted = assignment in {row.name for row in submissions(book, student)}
    new = "" if submitted else " (nothing submitted so far)"
    return f"{student} may submit {assignment} until {shown(until_now or due, zone)}{new}"


def describe_due_date(book: Gradebook, course: Course, assignment: str) -> str:
    """Describe the due date and the extensions."""
    due = found(book, assignment).duedate
    if due is None:
        return f"{assignment} has no due date"
    zone = zone_of(zones(course.coursedir), assignment)
    lines = [f"{assignment} is due {shown(due, zone)}"]
    until, known = deadlines(book, course, assignment), extensions(course.coursedir)[1]
    for student in sorted(known.get(assignment, {}).keys() | known.get(EACH, {}).keys()):
        lines.append(f"  {student}: until {shown(until(student) or due, zone)}")
    return "\n".join(lines)


def deadlines(book: Gradebook, course: Course, assignment: str) -> Callable[[str], datetime.datetime | None]:
    """Return a function that maps a student to the deadline (naive, UTC), or None if there is no due date."""
    due, more = found(book, assignment).duedate, extension_of(course.coursedir, book, assignment)
    return lambda student: due and due + (more(student) or datetime.timedelta(0))


def shown(when: datetime.datetime, zone: datetime.tzinfo = datetime.UTC) -> str:
    """Return a naive UTC moment as text, in the zone of the due date and in UTC."""
    utc = f"{when:%Y-%m-%d %H:%M} UTC"
    there = local(when, zone)
    return utc if there == when else f"{there:%Y-%m-%d %H:%M} {zone} ({utc})"
