"""A damaged gradebook is named, and rebuilt from the stored verdicts."""

import os

import pytest
from sqlalchemy.exc import DatabaseError

from cluster.staff import __main__ as command
from cluster.staff.class_page import handlers, sheets
from cluster.staff.course import CourseError
from cluster.staff.grading import rebuild
from cluster.staff.submissions import due_dates, roster_file
from cluster.staff.submissions.grading_folder import GradingFolder

from .classes import FULL, NAME


def overwritten(path):
    path.write_bytes(b"not a database at all" * 200)


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def holes(path):
    """Destroy the pages in the middle, as a failing disk does."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 3)
        file.write(os.urandom(path.stat().st_size // 3))


def removed(path):
    path.unlink()


def emptied(path):
    path.write_bytes(b"")


@pytest.fixture
def graded(many):
    """A graded class: full points, fewer points, an unreadable submission; one is late."""
    roster_file.write(many.course, [{"user": "ada", "role": "student", "first": "Ada", "last": "Example"}])
    many.hand_in("ada")
    many.hand_in("bob", "HALF", when="2026-01-03 00:00:00")
    many.hand_in("cyd", text="not a notebook")
    many.run()
    with many.book() as book:
        due_dates.set_due(book, many.course, NAME, "2026-01-02 12:00 Europe/Berlin")
    return many


def state(many):
    """Return all that a person sees of the gradebook."""
    with many.book() as book:
        rows = {
            row.student_id: (row.score, row.needs_manual_grade, row.timestamp, row.total_seconds_late,
                             [work.late_submission_penalty for work in row.notebooks])
            for row in book.assignment_submissions(NAME)
        }  # fmt: skip
        return many.points(), rows, book.find_assignment(NAME).duedate


@pytest.mark.parametrize("damage", [overwritten, truncated, holes, removed, emptied])
def test_a_damaged_gradebook_is_rebuilt(graded, damage, monkeypatch, capsys):
    """Are points, late penalties and due dates the same after a rebuild, without executing anything, and is
    the damaged file kept?"""
    monkeypatch.chdir(graded.root)
    before, executed = state(graded), graded.executed()
    path = graded.root / ".grading/gradebook.db"
    damage(path)
    content = path.read_bytes() if path.exists() else b""
    assert command.main(["rebuild"]) == 0
    assert state(graded) == before and graded.executed() == executed
    assert before[0]["ada"] == FULL
    with graded.book() as book:
        assert book.find_student("ada").last_name == "Example"
    if content:
        [kept] = path.parent.glob("gradebook.db.damaged-*")
        assert kept.stat().st_size >= len(content)
    again = graded.run()
    assert again.unchanged == ["ada", "bob"] and graded.executed() == executed, "the next run grades nothing"


def test_what_a_person_entered_is_kept_where_it_can_be_read(graded):
    """Do points and comments entered in Formgrader survive the rebuild of a readable gradebook?"""
    with graded.book() as book:
        work = book.find_submission_notebook("doubling", NAME, "bob")
        grade = next(grade for grade in work.grades if grade.name == "double-of-others")
        grade.manual_score, grade.extra_credit = 1.5, 0.25
        work.comments[0].manual_comment = "Well argued."
        book.db.commit()
        due_dates.settle(book, graded.course, NAME)
    before = state(graded)
    result = rebuild.rebuild(graded.course)
    assert not result.unread and state(graded) == before
    with graded.book() as book:
        work = book.find_submission_notebook("doubling", NAME, "bob")
        assert [one.manual_comment for one in work.comments if one.manual_comment] == ["Well argued."]
        assert {grade.extra_credit for grade in work.grades} >= {0.25}


@pytest.mark.parametrize("damage", [overwritten, holes])
@pytest.mark.parametrize("words", [["run", "99"], ["report", "99"], ["due", "99"], ["export"]])
def test_a_command_names_the_damage_and_the_remedy(graded, damage, words, monkeypatch, capsys):
    """Does each command that reads a damaged gradebook end with an error that names the remedy?"""
    monkeypatch.chdir(graded.root)
    damage(graded.root / ".grading/gradebook.db")
    capsys.readouterr()
    assert command.main(words) == 1
    assert "grade rebuild" in capsys.readouterr().err


def test_what_has_no_verdict_is_named(graded):
    """Is a submission that was collected after the last grading named, and are the others rebuilt?"""
    graded.hand_in("ada", "x = 2")
    overwritten(graded.root / ".grading/gradebook.db")
    result = rebuild.rebuild(graded.course)
    assert list(result.left[NAME]) == ["ada"] and result.points[NAME] == ["bob", "cyd"]
    assert graded.run().graded == ["ada"]


def test_nothing_is_replaced_while_an_assignment_is_graded(graded):
    """Is a rebuild refused during a grading, and is the gradebook untouched then?"""
    path = graded.root / ".grading/gradebook.db"
    before = path.read_bytes()
    with GradingFolder(graded.root / ".grading/runs", NAME).alone(), pytest.raises(CourseError):
        rebuild.rebuild(graded.course)
    assert path.read_bytes() == before and not list(path.parent.glob("*.damaged-*"))


def test_the_class_page_names_the_damage_and_the_remedy(graded, monkeypatch):
    """Does the class page answer 503 with the remedy, instead of an error without a reason?"""
    overwritten(graded.root / ".grading/gradebook.db")
    with pytest.raises(DatabaseError) as caught:
        sheets.Sheets(graded.root, None).all()
    shown, handler = [], object.__new__(handlers.Class)
    monkeypatch.setattr(handlers.Page, "show", lambda self, page, **values: shown.append(values))
    monkeypatch.setattr(handler, "set_status", shown.append, raising=False)
    handler.write_error(500, exc_info=(type(caught.value), caught.value, None))
    assert shown[0] == 503 and "grade rebuild" in shown[1]["words"]
