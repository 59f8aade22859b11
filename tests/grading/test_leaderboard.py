"""The leaderboard: students who opted in, with numbers from the test process, on a page that is safe to
publish."""

import json
import re

import pytest

from cluster.staff import __main__ as command
from cluster.staff.course import assignments
from cluster.staff.results import leaderboard as board
from cluster.staff.submissions import grading_folder

from .. import ROOT

NUMBERS = dict(
    zip(board.NUMBERS, (43.77, 84.62, 84.53, 260, 8, 256, 24, 1.348, 29120, 144.959, 0.5), strict=True)
)


def verdict(name="Ada", passed=board.VERIFIED, lines=None, student_prints="", **numbers):
    """Return a verdict as the autograder writes it, with a student's cell and a check that prints `lines`."""
    if lines is None:
        lines = [board.NAME_LINE + json.dumps(name), board.ENTRY_LINE + json.dumps(NUMBERS | numbers)]
    names = [*board.VERIFIED, "medal-bronze"]
    checks = {n: {"score": float(n in passed), "max_score": 1.0, "error": ""} for n in names}
    role = {"grade_id": "medal-bronze", "grade": True, "locked": True, "solution": False}
    cells = [
        {"metadata": {}, "outputs": [{"name": "stdout", "text": student_prints}]},
        {"metadata": {"nbgrader": role}, "outputs": [{"name": "stdout", "text": "\n".join(lines) + "\n"}]},
    ]
    return {"outcome": "graded", "checks": checks, "notebook": {"cells": cells}}


def page_of(*verdicts):
    ranking = board.ranked([e for i, v in enumerate(verdicts) if (e := board.of_verdict(f"s{i}", v))])
    return ranking, board.page(ROOT, ASSIGNMENT, ranking)


ASSIGNMENT = next(name for name in assignments(ROOT) if name.startswith("10"))


def test_the_rank_is_by_modelled_cost_alone():
    """Is the cheapest entry first, whatever its accuracy and seconds? Do equal costs have equal ranks?"""
    found, page = page_of(
        verdict("dear", milliseconds=90.0, accuracy=88.0, seconds=0.1),
        verdict("cheap", milliseconds=30.0, accuracy=84.1, seconds=9.0),
        verdict("equal", milliseconds=90.0),
    )
    assert [(e.rank, e.shown) for e in found] == [(1, "cheap"), (2, "dear"), (2, "equal")]
    assert page.index("cheap") < page.index("dear")
    assert page.count("✓ verified") == 3


def test_only_students_who_opted_in_are_shown():
    """Is a student left out if the line with the name is missing or null? Are account names left out of the
    page?"""
    found, page = page_of(verdict(None), verdict("Ada"), verdict(lines=[]))
    assert [e.shown for e in found] == ["Ada"]
    assert "s1" not in re.sub(r"<(style|img).*?>", "", page).split("</style>")[1]


@pytest.mark.parametrize("lost", board.VERIFIED)
def test_an_entry_is_verified_by_both_checks(lost):
    """Does an entry that fails one of the two checks get no rank, no verified mark and no numbers, whatever
    its line contains?"""
    found, page = page_of(verdict("Ada", passed={*board.VERIFIED} - {lost}, milliseconds=0.001))
    assert [(e.rank, e.numbers) for e in found] == [(0, {})]
    assert "✓ verified" not in page and "0.001" not in page and "Not verified" in page


def test_what_a_students_own_cell_prints_is_not_read():
    """If a student's own cell prints a line in the format of an entry, is the line ignored?"""
    forged = board.NAME_LINE + '"first"\n' + board.ENTRY_LINE + json.dumps(NUMBERS | {"milliseconds": 0.001})
    found, _ = page_of(verdict("Ada", student_prints=forged), verdict(None, student_prints=forged))
    assert [(e.shown, e.numbers["milliseconds"]) for e in found] == [("Ada", 43.77)]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a\u202eb", r"a\u202eb"),
        ("a\nb\x1b[31m", r"a\nb\x1b[31m"),
        ("x" * 500, "x" * 39 + "…"),
        ("  ", "anonymous"),
        ("{{ 7 * 7 }}", "{{ 7 * 7 }}"),
        ("$\\frac{", "$\\frac{"),
        ("\ud800", r"\ud800"),
    ],
)
def test_a_name_is_safe_to_show(name, shown):
    """Is each name shown as one line of escaped text of limited length?"""
    _, page = page_of(verdict(name), verdict("Ada"))
    assert f"<bdi>{shown}</bdi>" in page
    page.encode()


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 1e300, "1", None, True, [1]])
def test_an_entry_with_an_odd_number_is_not_ranked(odd):
    """Is an entry left unranked if one of its values is not a plain number, and is the page still
    generated?"""
    found, page = page_of(verdict("Ada", milliseconds=odd), verdict("Grace"))
    assert [(e.rank, e.shown) for e in found] == [(1, "Grace"), (0, "Ada")] and "Grace" in page


def test_damaged_lines_are_skipped():
    """Do damaged lines, and a verdict without a notebook, leave the other entries unaffected?"""
    broken = verdict(lines=[board.NAME_LINE + "{", board.ENTRY_LINE + "[" * 5000])
    found, _ = page_of(broken, verdict() | {"notebook": None}, verdict("Ada", lines=None))
    assert [e.shown for e in found] == ["Ada"]


def test_the_check_prints_what_the_leaderboard_reads():
    """Does the assignment's text contain the checks' names, the lines and the numbers that the leaderboard
    reads?"""
    text = next((ROOT / "solutions" / ASSIGNMENT).glob("*.py")).read_text()
    assert board.NAME_LINE in text and board.ENTRY_LINE in text
    assert all(f'check="{name}"' in text for name in board.VERIFIED)
    entry = text[text.index("def entry(") : text.index('check="medal-bronze"')]
    names = set(re.findall(r'^        "(\w+)":', entry, re.M))
    assert names == {*board.NUMBERS, "accuracies"} - {"bound"}


def test_the_bound_is_computed_from_the_accuracies():
    """If an entry has no bound, is it computed from its five accuracies? Without these, is the entry
    unranked?"""
    five = [84.0, 85.0, 85.5, 87.0, 88.5]
    found, _ = page_of(verdict("Ada", bound=None), verdict("Grace"))
    assert [e.rank for e in found] == [1, 0]
    assert board.lower_bound(five) == round(86 - 2.132 * 0.625**0.5, 2)
    assert board.lower_bound(five[1:]) is None and board.lower_bound([*five[1:], "1"]) is None


def test_the_command_says_what_is_missing(many, monkeypatch, tmp_path, capsys):
    """If nothing has been graded, does the command name the one that grades, and write nothing?"""
    monkeypatch.chdir(many.root)
    target = tmp_path / "board.html"
    assert command.main(["leaderboard", "99", "--to", str(target)]) == 1
    assert "grade run 99" in capsys.readouterr().err and not target.exists()


def test_the_command_writes_the_page(monkeypatch, tmp_path, capsys):
    """Is the page readable only by its owner? Does the command tell the instructor which entry belongs to
    which account?"""
    ranking = board.ranked([board.of_verdict("ada", verdict("Comet"))])
    monkeypatch.setattr(board, "entries", lambda course, assignment: ranking)
    monkeypatch.chdir(ROOT)
    target = tmp_path / "board.html"
    assert command.main(["leaderboard", "--to", str(target)]) == 0
    assert "Comet  (account ada)" in capsys.readouterr().out
    assert (
        "Comet" in target.read_text() and "ada" not in target.read_text().split("<main>")[1].split("<img")[0]
    )
    assert target.stat().st_mode & 0o77 == 0


def test_verdicts_of_a_graded_class_are_found(many):
    """Does the leaderboard find the verdicts that grading has written? Does it have no entries if no student
    opted in?"""
    many.hand_in("ada")
    many.run()
    assert board.entries(many.course, "99_doubling") == []
    where = grading_folder.GradingFolder(grading_folder.runs(many.course.coursedir), "99_doubling")
    key = where.recorded("ada")["key"]
    (where.item("ada", key) / "verdict.json").write_text(
        json.dumps({"key": key, "verdict": verdict("Comet")})
    )
    assert [(e.rank, e.shown) for e in board.entries(many.course, "99_doubling")] == [(1, "Comet")]
