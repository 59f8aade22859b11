"""The instructor's report on a class, the export of scores, and the regrading of checks."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys

import pytest

from cluster.slurm import client
from cluster.staff import __main__ as command
from cluster.staff import platforms, spreadsheet
from cluster.staff.course import CourseError
from cluster.staff.grading import grade, regrade
from cluster.staff.release.wrong_solutions import Mutant
from cluster.staff.results import class_report, export, report_page
from cluster.staff.results.core_hours import used
from cluster.staff.results.misconceptions import Failure
from cluster.staff.submissions import roster_file

from .classes import ENGINE, FULL, NAME
from .conftest import a_class

FORMS = ("plain", "canvas", "moodle", "blackboard")

A, B, C, D = "thinks A", "thinks B", "thinks C", "thinks D"
MUTANTS = [
    Mutant("a", A, set("pqr")),
    Mutant("b", B, set("qr")),
    Mutant("c", C, set("st")),
    Mutant("d", D, set("st")),
    Mutant("e", "thinks E", set("u")),
]
WRONG = "AssertionError: f(1) is 3, which is not the expected value"


LIKELY = WRONG + ". Likely: thinks B"


@pytest.mark.parametrize(
    ("recognised", "failed", "shown"),
    [
        ("", "", []),
        ("", "qr", [class_report.UNKNOWN]),  # failing the same checks as a mutant proves nothing
        ("q", "qr", [B]),
        ("q", "qrst", [B, class_report.UNKNOWN]),
        ("q", "qx", [B, class_report.UNKNOWN]),
    ],
)
def test_misconceptions_that_a_check_has_recognised(recognised, failed, shown):
    """Does the report name only misconceptions that a check recognised? Are failures that these do not
    explain reported as unknown?"""
    results = {name: Failure.from_error(LIKELY if name in recognised else WRONG) for name in failed}
    assert class_report.shows(results, MUTANTS) == shown


def test_students_with_the_same_failed_checks_are_one_group():
    """Do all students with exactly the same failed checks form one group, with the misconceptions they share?
    Is the largest group first?"""
    students = [
        {"student": name, "name": name.title(), "failed": dict.fromkeys(failed, WRONG), "shows": shows}
        for name, failed, shows in [
            ("ada", "qr", [B]),
            ("bob", "rq", [B, class_report.UNKNOWN]),
            ("cem", "q", []),
            ("dora", "", []),
            ("eve", "st", [C]),
            ("finn", "st", [D]),
            ("gil", "st", []),
        ]
    ]
    groups = class_report.groups(students)
    assert [(group["checks"], group["students"], group["shows"]) for group in groups] == [
        (["s", "t"], ["eve", "finn", "gil"], []),
        (["q", "r"], ["ada", "bob"], [B]),
    ]
    assert all(group["error"] == WRONG for group in groups)
    lines = [line.split()[4:] for line in report_page.command("99_doubling", groups[1]).splitlines()]
    some = ["--student", "ada", "--student", "bob"]
    assert lines == [["regrade", "99", "--check", check, *some] for check in "qr"]


def test_an_empty_blank_is_not_a_misconception():
    """Is a check that reached an empty blank left out of the misconceptions? Are other failures reported as
    usual?"""
    empty, wrong = (
        Failure.from_error("NotImplementedError: "),
        Failure.from_error(WRONG),
    )
    assert class_report.shows({"q": empty}, MUTANTS) == []
    assert class_report.shows({"q": wrong, "t": empty}, MUTANTS) == [class_report.UNKNOWN]


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ([None, None], {"mean": None, "failed": 0, "rate": 0.0, "waiting": 2, "error": "2 ungraded"}),
        ([None, 1.0, 2.0], {"mean": 1.5, "failed": 1, "rate": 0.5, "waiting": 1, "error": "1 ungraded"}),
        ([0.0, 2.0], {"mean": 1.0, "failed": 1, "rate": 0.5, "waiting": 0, "error": ""}),
    ],
)
def test_an_ungraded_answer_is_not_lost(scores, shown):
    """Does a written answer that needs manual grading count neither as right nor as wrong?"""
    students = [{"scores": {"why": s}, "failed": {}, "seconds of checks": {}} for s in scores]
    result = class_report.check("why", 2.0, students)
    assert {name: result[name] for name in shown} == shown


@pytest.fixture(scope="module")
def graded_once(released, tmp_path_factory):
    """A folder with a graded class, which the tests copy. One student fails the last check, and one submitted
    no notebook."""
    folder = tmp_path_factory.mktemp("graded")
    shutil.copytree(released, folder / "course")
    with pytest.MonkeyPatch.context() as patch:
        many = a_class(folder, patch)
        for name, answer in (("ada", "x = 1"), ("bob", "HALF"), ("=cmd|x", "x = 2")):
            many.hand_in(name, answer)
        many.hand_in("eve", text="{")
        many.run()
    return folder


@pytest.fixture
def graded(graded_once, tmp_path, monkeypatch):
    """A test's own copy of the graded class."""
    return a_class(shutil.copytree(graded_once, tmp_path / "graded"), monkeypatch)


def test_the_report_is_right_and_stands_alone(graded):
    """Do the report's rates, means and misconceptions equal those counted by hand? Is its page
    self-contained?"""
    with graded.book() as book:
        book.update_or_create_student("eve", first_name="Eve", last_name="Example")
    result = class_report.facts(graded.root, graded.course, NAME)
    rows = {row["check"]: (row["mean"], row["failed"], row["rate"]) for row in result["checks"]}
    assert rows == {"double-of-one": (0.75, 1, 0.25), "double-of-others": (1.0, 2, 0.5)}
    assert result["misunderstandings"] == [("it was tripled", 1)] and result["of"] == 3
    assert [row["student"] for row in result["students"] if row["look"]] == ["eve"]
    assert result["time"]["seconds"] == 1.5 and result["time"]["core hours"]["local"] > 0
    group = {"checks": ["q", "r"], "students": ["<a>"], "names": ["<A>"], "error": WRONG, "shows": [B]}
    text = report_page.page(result | {"groups": [group]})
    assert "<td>q, r</td>" in text and "&lt;A&gt;" in text and "&lt;a&gt;" in text and "<a>" not in text
    assert text.count("data:image/svg+xml") == 2 and "=cmd|x" in text
    assert "<h1>99 · Doubling</h1>" in text and "<td>Eve Example</td><td>eve</td>" in text
    assert not re.search(r'(src|href)="(?!data:)|<script|@import|url[(]', text)
    tables = class_report.tables(result)
    [head_row, first, *_] = csv.reader(io.StringIO(tables["students.csv"]))
    assert first[0] == "'=cmd|x" and head_row[-2:] == ["double-of-one", "double-of-others"]
    assert len(tables["checks.csv"].splitlines()) == 3


ARRAYS = [
    {"job": "grade-a", "kind": "slurm", "sent": 1e9, "parts": 3, "told": 1},
    {"job": "grade-b", "kind": "slurm", "sent": 2e9, "parts": 1, "told": 1},
    {"job": "grade-c", "kind": "local", "sent": 3e9, "parts": 2, "told": 1},
    {"part": 0, "kind": "slurm", "cores": 2, "began": 0.0, "ended": 1800.0},
]
SACCT = "grade-a|7200|COMPLETED\ngrade-a|3600|NODE_FAIL\ngrade-a|0|CANCELLED by 0\n"


@pytest.mark.parametrize(
    ("answer", "hours", "note"),
    [
        (SACCT + "grade-b|3600|TIMEOUT\n", 4.0, "accounting, killed tasks included: 2; without 1 worker"),
        (SACCT, 1.0, "without 3 workers"),  # the accounting lacks one array
        (client.SlurmError("Slurm accounting storage is disabled"), 1.0, "without 3 workers"),
    ],
)
def test_hours_of_killed_tasks_are_in_the_report(tmp_path, monkeypatch, answer, hours, note):
    """If Slurm's accounting knows all arrays, does the report include the hours of killed tasks? If not, does
    it state that these hours are missing?"""

    def ask(*command, **_):
        if isinstance(answer, Exception):
            raise answer
        assert command[0] == "sacct" and "--name=grade-a,grade-b" in command
        return answer

    monkeypatch.setattr(client, "ask", ask)
    (tmp_path / "journal").write_text("\n".join(map(json.dumps, ARRAYS)))
    found, text = used(tmp_path / "journal")
    assert found == {"slurm": hours} and note in text
    assert used(tmp_path / "none") == ({}, "")


def test_the_export(graded):
    """Does each format have its columns, with late penalties subtracted? Is a submission that needs manual
    grading named and left empty, unless the instructor wants preliminary points?"""
    with graded.book() as book:
        book.find_submission(NAME, "ada").notebooks[0].late_submission_penalty = 0.5
        book.update_or_create_student("zoe", first_name="Zoe", last_name="Z")
        book.db.commit()
        results = {form: export.export(book, [NAME], form) for form in FORMS}
        partial, output = export.export(book, [NAME], "moodle", partial=True)
    rows = {form: list(csv.reader(io.StringIO(text))) for form, (text, _) in results.items()}
    assert {row[0]: row[-1] for row in rows["moodle"]} == {
        "username": NAME, "'=cmd|x": "3.0", "ada": "2.5", "bob": "1.0", "eve": "-", "zoe": "-",
    }  # fmt: skip
    assert "eve,,0.0\n" in partial and output[0].startswith("eve,")
    assert rows["canvas"][0][3] == "SIS Login ID" and rows["canvas"][1][-1] == "3.0"
    assert rows["plain"][0][-1] == f"{NAME} (of 3)" and rows["canvas"][-1][0] == "Z, Zoe"
    assert [phrase.partition(",")[0] for phrase in results["plain"][1]] == ["eve"]


AWKWARD = {
    "amo": ("O'Ne\"ill, Jr.", "Séan"),
    "bel": ('=HYPERLINK("http://x","y")', "+1"),
    "cem": ("\u200f=1+1", "\u200fעדה"),
    "dun": ("Öztürk", None),
    "eni": ("\uff1dA1", " @SUM(A1)"),
    "-z": ("Minus", "Zed"),
}


@pytest.mark.parametrize("form", FORMS)
def test_awkward_names_come_back_as_they_are(graded, form):
    """Does a student whose name contains commas, quotes, a formula, umlauts or direction marks have exactly
    one row in the export, and never a formula?"""
    with graded.book() as book:
        for name, (last, first) in AWKWARD.items():
            book.update_or_create_student(name, last_name=last, first_name=first)
        text, warnings = export.export(book, [NAME], form)
    head, *rows = csv.reader(io.StringIO(text))
    assert {len(row) for row in rows} == {len(head)}
    assert not [f for row in rows for f in row if f != "-" and spreadsheet.is_formula(f)]
    column = head.index({"plain": "student", "canvas": "SIS Login ID"}.get(form) or next(
        name for name in head if name.lower() == "username"
    ))  # fmt: skip
    results = {row[column].lstrip("'"): row for row in rows}
    assert set(AWKWARD) <= set(results)
    if form != "moodle":
        shown = ", ".join(results["amo"][:3] + results["dun"][:3] + results["cem"][:3])
        assert "O'Ne\"ill, Jr." in shown and "Séan" in shown and "Öztürk" in shown and "עדה" in shown
    if form != "plain":
        assert [w.partition(":")[0] for w in warnings if "formula" in w] == ["'-z'", "'=cmd|x'"]
    if form == "blackboard":
        assert all(f.startswith('"') for line in text.splitlines() for f in line.split('","')[:1])


CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Other (4),99 Doubling (17),Final Score
    Points Possible,,,,,5,3,(read only)
"Lovelace, Ada",101,S-1,Ada@uni.edu,A,1,,
"Not, Here",102,S-2,nobody,A,,,
"Student, Test",103,,4f1c,A,,,
"""
BLACKBOARD = '"Last Name"\t"First Name"\t"Username"\t"Student ID"\t"99_doubling [Total Pts: 3 Score] |123"\n'
BLACKBOARD += '"Lovelace"\t"Ada"\t"ada"\t"S-1"\t""\n'
MOODLE = "First name;Last name;Email address\nAda;Lovelace;ada@uni.edu\n"


@pytest.mark.parametrize(
    ("form", "encoding", "given", "expected"),
    [
        (
            "canvas",
            "utf-8",
            CANVAS,
            [
                ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "99 Doubling (17)"],
                ["    Points Possible", "", "", "", "", "3.0"],
                ["Lovelace, Ada", "101", "S-1", "Ada@uni.edu", "A", "3.0"],
            ],
        ),
        (
            "blackboard",
            "utf-16",
            BLACKBOARD,
            [
                ["Last Name", "First Name", "Username", "Student ID", f"{NAME} [Total Pts: 3 Score] |123"],
                ["Lovelace", "Ada", "ada", "S-1", "3.0"],
            ],
        ),
        (
            "moodle",
            "utf-8-sig",
            MOODLE,
            [["First name", "Last name", "Email address", NAME], ["Ada", "Lovelace", "ada@uni.edu", "3.0"]],
        ),
    ],
)
def test_the_platforms_own_numbers_are_kept(graded, monkeypatch, capsys, form, given, expected, encoding):
    """Given the platform's own export, does the course's export keep the platform's people, columns and
    column numbers?"""
    like = graded.root / "theirs.csv"
    like.write_bytes(given.encode(encoding))
    monkeypatch.chdir(graded.root)
    assert command.main(["export", "99", "--for", form, "--like", str(like)]) == 0
    text = (graded.root / ".grading" / f"grades-{form}.csv").read_text()
    assert list(csv.reader(io.StringIO(text))) == expected
    notes = re.findall(r"note: (\S+): ", capsys.readouterr().out)
    assert ("nobody" in notes) == (form == "canvas") and (NAME in notes) == (form == "moodle")
    assert "bob" in notes and "ada" not in notes


def test_the_export_follows_the_roster(graded):
    """Is a student who dropped the course omitted, with a message? Does the roster map user names to
    logins?"""
    with graded.book() as book:
        everybody = [student.id for student in book.students]
    stays, gone = everybody[0], everybody[1:]
    roster_file.write(graded.course, [{"user": stays, "platform": "1234567", "days": 0}])
    people = roster_file.read(graded.course)
    like = platforms.table("Username,First name,Last name\n1234567,A,B\n", "theirs.csv")
    try:
        with graded.book() as book:
            text, output = export.export(book, [NAME], "moodle", people=people)
            mapped, more = export.export(book, [NAME], "moodle", like, people=people)
    finally:
        (graded.course.private / roster_file.NAME).unlink()
    assert [line.split(",")[0] for line in text.splitlines()[1:]] == [stays]
    assert {line.partition(":")[0] for line in output} >= set(gone)
    assert "1234567" in mapped.splitlines()[1]
    assert not [line for line in more if line.startswith("1234567")]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "Username\nada\n", "Vorname,Nachname\nAda,L\n", "\0"])
def test_what_is_no_export_of_a_platform_is_refused(graded, monkeypatch, capsys, text):
    """If the file is not a platform's export, does the message name the required columns?"""
    (graded.root / "theirs.csv").write_text(text)
    monkeypatch.chdir(graded.root)
    assert command.main(["export", "--for", "canvas", "--like", "theirs.csv"]) == 1
    error = capsys.readouterr().err
    assert ("Username" in error and "Email" in error) or text == "\0"
    assert command.main(["export", "--like", "theirs.csv"]) == 1
    with pytest.raises(CourseError, match="UTF-16"):
        (graded.root / "latin").write_bytes(b"\x81\x8d")
        platforms.read(graded.root / "latin")


def test_moodles_limit_of_100_points_is_reported(graded):
    """If an assignment has more than 100 points, which Moodle refuses by default, is this reported?"""
    with graded.book() as book:
        book.find_grade_cell("double-of-one", "doubling", NAME).max_score = 99.5
        book.db.commit()
        assert [w for w in export.export(book, [NAME], "moodle")[1] if "101.5 points" in w]
        assert not [w for w in export.export(book, [NAME], "canvas")[1] if "points;" in w]


def again(graded, check="double-of-others", void=None, students=None):
    this = grade.Coordinator(graded.course, NAME, grade.Local(2), engine=ENGINE)
    return regrade.regrade(this, check, void, students)


def test_a_void_check_counts_for_all_and_nothing_is_executed(graded):
    """Do all students get the points of a void check, also in later runs, until the check counts again? Does
    this work without executing a submission?"""
    before = graded.executed()
    again(graded, void=True)
    assert {name: p["double-of-others"] for name, p in graded.points().items() if name != "eve"} == {
        name: 2.0 for name in ("ada", "bob", "=cmd|x")
    }
    graded.run()
    assert graded.points()["bob"] == FULL and graded.executed() == before
    again(graded, void=False)
    assert graded.points()["bob"]["double-of-others"] == 0.0 and graded.executed() == before


def test_other_points_are_counted_and_another_text_is_executed(graded):
    """Do new points for a check take effect without any execution? Does a new text require only this check to
    be executed, and are other scores unchanged?"""
    before = graded.executed()
    with graded.book() as book:
        book.find_grade_cell("double-of-others", "doubling", NAME).max_score = 5.0
        book.db.commit()
    graded.change_check("double-of-others", lambda text: text)
    _, anew = again(graded)
    assert sorted(anew) == ["=cmd|x", "ada", "bob"] and graded.executed() == before
    assert graded.points()["ada"] == FULL | {"double-of-others": 5.0}
    assert graded.run().graded == [] and graded.executed() == before
    with graded.book() as book:
        book.find_grade("double-of-one", "doubling", NAME, "ada").auto_score = 0.25
        book.db.commit()
    graded.change_check("double-of-others", lambda text: f"{text}\n# another text")
    graded.hand_in("bob", "y = 7")
    result, anew = again(graded)
    assert anew == [] and sorted(result.graded) == ["=cmd|x", "ada"] and "bob" in result.notes
    assert graded.points()["ada"]["double-of-one"] == 0.25


def test_only_some_students_are_regraded(graded, monkeypatch, capsys):
    """Does a corrected check count for the chosen students, and do all others keep their points?"""
    with graded.book() as book:
        for student in ("ada", "bob"):
            book.find_grade("double-of-others", "doubling", NAME, student).auto_score = 0.25
        book.db.commit()
    graded.change_check("double-of-others", lambda text: f"{text}\n# another text")
    result, anew = again(graded, students=["bob"])
    assert (result.graded, anew) == (["bob"], [])
    assert [graded.points()[name]["double-of-others"] for name in ("ada", "bob")] == [0.25, 0.0]
    with pytest.raises(CourseError, match="nobody: no submission"):
        again(graded, students=["nobody"])
    monkeypatch.chdir(graded.root)
    with pytest.raises(SystemExit):
        command.main(["regrade", "99", "--check", "double-of-others", "--void", "--student", "bob"])
    assert "not allowed with" in capsys.readouterr().err


def test_a_misspelt_check_lists_the_existing_ones(graded):
    """Does the message for a misspelt check list the existing ones?"""
    with pytest.raises(CourseError, match="double-of-one, double-of-others"):
        again(graded, "double")


def test_the_commands(graded, monkeypatch, capsys):
    """Do the commands write their files and print the results, or print what is wrong?"""
    monkeypatch.chdir(graded.root)
    assert command.main(["report", "99"]) == 0
    assert command.main(["due", "99", "2026-12-01 12:00 UTC"]) == 0
    assert command.main(["extend", "bob", "99", "--until", "2026-12-02 12:00 UTC"]) == 0
    assert command.main(["export", "--format", "moodle"]) == 0
    printed = capsys.readouterr()
    assert "report.html" in printed.out and "bob may submit" in printed.out and "note: eve" in printed.out
    assert (graded.root / ".grading/reports" / NAME / "report.html").stat().st_mode & 0o077 == 0
    assert command.main(["extend", "bob", "99", "--until", "tomorrow"]) == 1
    assert "'tomorrow'" in capsys.readouterr().err
    assert command.main(["run", "42"]) == 1
    error = capsys.readouterr().err
    assert "'42'" in error and NAME in error


@pytest.mark.parametrize("words", ["release", "run 01"])
def test_outside_of_a_checkout_a_command_says_so_at_once(words, tmp_path):
    """Outside a checkout, does a command print a single message at once, before it spends seconds importing
    nbgrader?"""
    code = "import sys; from cluster.staff.__main__ import main; assert main(sys.argv[1:]) == 1"
    code += "; assert 'nbgrader' not in sys.modules"
    command = [sys.executable, "-c", code, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [line] = done.stderr.splitlines()
    assert "nbgrader_config.py" in line and str(tmp_path) in line
