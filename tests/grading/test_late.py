"""Dates with time zones, extensions, and late penalties."""

import datetime

import pytest

from cluster.staff import commands
from cluster.staff.course import CourseError
from cluster.staff.submissions import due_dates

from .classes import ENGINE, FULL, NAME


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-12-01 23:59 UTC", "2026-12-01 23:59:00"),
        ("2026-12-01T23:59Z", "2026-12-01 23:59:00"),
        ("2026-12-01 23:59:30 +01:00", "2026-12-01 22:59:30"),
        ("2026-12-01 9:05 -0530", "2026-12-01 14:35:00"),
        ("2026-12-01 23:59 Europe/Berlin", "2026-12-01 22:59:00"),
        ("2026-07-01 23:59 Europe/Berlin", "2026-07-01 21:59:00"),
    ],
)
def test_moments(text, utc):
    """Is a date with a zone converted correctly to UTC, including summer time?"""
    assert str(due_dates.moment(text)) == utc


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-12-01 23:59", "is not a date"),
        ("2026-12-01", "is not a date"),
        ("1.12.2026 23:59 UTC", "is not a date"),
        ("2026-02-30 12:00 UTC", "day is out of range|day 30 must be in range"),
        ("2026-12-01 23:59 PST", "not a time zone"),
        ("2026-12-01 23:59 Europe/Berln", "not a time zone"),
        ("2026-12-01 23:59 +25:00", "not an offset"),
        ("2026-03-29 02:30 Europe/Berlin", "does not exist"),
        ("2026-10-25 02:30 Europe/Berlin", "is ambiguous"),
    ],
)
def test_what_is_no_moment_is_refused(text, message):
    """Is a date refused if it is invalid or ambiguous, or if its time zone is missing or unknown?"""
    with pytest.raises(CourseError, match=message):
        due_dates.moment(text)


@pytest.mark.parametrize(("seconds", "days"), [(0, 0), (600, 0), (601, 1), (86400, 1), (86401, 2)])
def test_days_are_counted_once_begun(seconds, days):
    """Is a submission late only after ten minutes of grace, and does each day begun count as one day?"""
    due = datetime.datetime(2026, 5, 1, 12)
    assert due_dates.days_begun(due, due + datetime.timedelta(seconds=seconds), datetime.UTC, 10) == days


@pytest.mark.parametrize(
    ("due", "days", "until"),
    [
        ("2026-10-24 23:59 Europe/Berlin", 1, "2026-10-25 22:59"),  # the last day has 25 hours
        ("2026-03-28 23:59 Europe/Berlin", 1, "2026-03-29 21:59"),  # the last day has 23 hours
        ("2026-10-20 23:59 Europe/Berlin", 7, "2026-10-27 22:59"),
        ("2026-10-24 23:59 +02:00", 1, "2026-10-25 21:59"),
        ("2026-10-31 23:59 America/New_York", 1, "2026-11-02 04:59"),
    ],
)
def test_an_extension_keeps_the_wall_clock_time(due, days, until, many):
    """Does an extension move the due date by whole days, to the same time of day in the course's time
    zone?"""
    with many.book() as book:
        due_dates.set_due(book, many.course, NAME, due)
        text = due_dates.extend(book, many.course, "ada", NAME, days=days)
        limit = due_dates.deadlines(book, many.course, NAME)("ada")
    assert f"{limit:%Y-%m-%d %H:%M}" == until
    assert due[11:16] in text


def test_extensions_of_a_whole_class_are_read_once(many, monkeypatch):
    """Is each file with extensions read only once for a whole class? Are all extensions correct?"""
    students = {f"s{n:03}": 1 + n % 2 for n in range(450)}
    load, paths = due_dates.grading_folder.load, []
    with many.book() as book:
        due_dates.set_due(book, many.course, NAME, "2026-12-01 12:00 UTC")
        due_dates.extend_each(book, many.course, students)
        with monkeypatch.context() as counted:
            counted.setattr(due_dates.grading_folder, "load", lambda path: paths.append(path) or load(path))
            limit = due_dates.deadlines(book, many.course, NAME)
            until = {student: limit(student).day for student in students}
        due_dates.extend_each(book, many.course, {})
    assert until == {student: 1 + days for student, days in students.items()}
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(
    ("due", "when", "days"),
    [
        ("2026-10-24 23:59 Europe/Berlin", "2026-10-25 23:30 Europe/Berlin", 1),
        ("2026-10-24 23:59 Europe/Berlin", "2026-10-25 23:59:30 Europe/Berlin", 2),
        ("2026-03-28 23:59 Europe/Berlin", "2026-03-30 00:30 Europe/Berlin", 2),
        ("2026-10-25 02:30 +02:00", "2026-10-25 02:30 +01:00", 1),
    ],
)
def test_late_days_are_calendar_days(due, when, days):
    """Is the number of late days unaffected when the clocks change?"""
    limit, moment = due_dates.moment(due), due_dates.moment(when)
    assert due_dates.days_begun(limit, moment, due_dates.named("Europe/Berlin")) == days


def test_a_penalty_an_extension_and_nbgraders_own_way(many, monkeypatch):
    """Does a submission that is 25 hours late lose two tenths of the points? Do free days and extensions,
    granted before or after grading, reduce this penalty?"""
    with many.book() as book, pytest.raises(CourseError, match="grade due 99"):
        due_dates.extend(book, many.course, "ada", NAME, days=1)
    with many.book() as book:
        due_dates.set_due(book, many.course, NAME, "2026-01-01 00:00 UTC")
        due_dates.extend(book, many.course, "bob", NAME, until="2026-01-02 02:00 +01:00")
    for name in ("ada", "bob"):
        many.hand_in(name, when="2026-01-02 01:00:00")
    many.run()

    def penalties():
        with many.book() as book:
            submission = {name: book.find_submission(NAME, name) for name in ("ada", "bob")}
            return {name: row.late_submission_penalty for name, row in submission.items()}

    worth = sum(FULL.values())
    assert penalties() == {"ada": pytest.approx(0.2 * worth), "bob": 0}
    with many.book() as book:
        text = due_dates.extend(book, many.course, "ada", NAME, days=1)
        assert text == f"ada may submit {NAME} until 2026-01-02 00:00 UTC"
    assert penalties()["ada"] == pytest.approx(0.1 * worth)
    many.course.config.LatePenalty.free_days = 1
    with many.book() as book:
        due_dates.charge_all(book, many.course, ["ada"])
    assert penalties()["ada"] == 0
    many.course.config.LatePenalty.free_days = 0
    monkeypatch.setattr("cluster.staff.grading.grade.ENGINE", ENGINE)
    many.course.autograde(NAME, "ada")
    assert penalties() == {"ada": pytest.approx(0.1 * worth), "bob": 0}
    with many.book() as book:
        due_dates.extend(book, many.course, "ada", NAME, days=0)
        told = due_dates.describe_due_date(book, many.course, NAME)
    assert "bob: until 2026-01-02 01:00 UTC" in told and "ada" not in told
    assert penalties()["ada"] == pytest.approx(0.2 * worth)


def test_free_days_go_in_the_order_of_the_due_dates():
    """Are free days used in the order of the due dates: of three, two for the first assignment and the last
    one for the second?"""
    day = datetime.timedelta(days=1)

    class Row:
        def __init__(self, name, due, days):
            self.name, self.duedate, self.timestamp = name, due, due and due + days * due_dates.ONE_DAY

    class Book:
        def find_student(self, student):
            start = datetime.datetime(2026, 1, 1)
            rows = [Row("02", start + day, 2), Row("01", start, 2), Row("03", start + 2 * day, 1)]
            return type("Student", (), {"submissions": [*rows, Row("04", None, 0)]})

    assert due_dates.LatePenalty(free_days=3).charged(Book(), "ada") == {"01": 0, "02": 1, "03": 1}


@pytest.mark.parametrize("text", ["cells=1", "cell=fast", "cell=-1", "memory=G"])
def test_misspelt_limits_are_refused(text):
    """Is a misspelt limit refused, with a list of the valid ones?"""
    with pytest.raises(Exception, match=r"limits are cell|positive number"):
        commands.limit(text)


def test_limits():
    """Does the option for limits accept a memory size with a unit, and a time in seconds?"""
    assert commands.limit("memory=2G") == ("memory", 2 * 2**30) and commands.limit("cell=90") == (
        "cell",
        90.0,
    )
