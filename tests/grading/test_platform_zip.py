"""A class without a hub imports submissions from a platform's download, and packs feedback for its upload."""

import csv
import io
import stat
import zipfile

import nbformat
import pytest

from cluster.staff import __main__ as command
from cluster.staff import platforms
from cluster.staff.classes import platform_zip
from cluster.staff.course import CourseError

from .classes import NAME

WANTED = "doubling.ipynb"
MOODLE = (
    "First name,Last name,Email address\nAda,Lovelace,ada@uni.example\nJosé,de la Cruz,jose@uni.example\n"
)
CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section\n"
    '"Lovelace, Ada",123,,ada,01\n"de la Cruz, José",456,,jose,01\n'
)
BLACKBOARD = '"Last Name","First Name","Username"\n"Lovelace","Ada","ada"\n"de la Cruz","José","jose"\n'


def people(text=MOODLE, known=()):
    return platform_zip.People(known, platforms.table(text, "people.csv") if text else None)


def archive(path, members):
    """Write a ZIP file of {name: text or bytes, or None for a folder}, and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content or "")
    return path


def take(many, path, who):
    return platform_zip.import_zip(many.course, NAME, WANTED, path, who)


def content(many, student):
    folder = many.course.folder("submitted", student, NAME)
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "received.json"
    }


def inner(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


ATTEMPT = "01 Convolution_ada_attempt_2026-11-0{}-12-30-00"


@pytest.mark.parametrize(
    ("table", "members", "expected"),
    [
        (
            MOODLE,
            {
                f"Ada Lovelace_11_assignsubmission_file_/{WANTED}": "ada",
                "Ada Lovelace_11_assignsubmission_file_/runs/run.json": "1",
                "José de la Cruz_12_assignsubmission_file_/doubling (1).ipynb": "josé",
            },
            {"ada": {WANTED: "ada", "runs/run.json": "1"}, "jose": {WANTED: "josé"}},
        ),
        (
            MOODLE,
            {
                f"Ada Lovelace_11_assignsubmission_file_{WANTED}": "ada",
                f"José de la Cruz_12_assignsubmission_file_late_{WANTED}": "josé",
            },
            {"ada": {WANTED: "ada"}, "jose": {WANTED: "josé"}},
        ),
        (
            MOODLE,
            {
                f"all/Lovelace Ada_11_assignsubmission_file/x/{NAME}/{WANTED}": "ada",
                f"all/Lovelace Ada_11_assignsubmission_file/x/{NAME}/runs/run.json": "1",
                "__MACOSX/all/Lovelace Ada_11_assignsubmission_file/._doubling.ipynb": "\0",
                "all/Lovelace Ada_11_assignsubmission_file/x/._doubling.ipynb": "\0",
                f"all/Lovelace Ada_11_assignsubmission_file/.ipynb_checkpoints/{WANTED}": "old",
            },
            {"ada": {WANTED: "ada", "runs/run.json": "1"}},
        ),
        (
            CANVAS,
            {
                "lovelaceada_LATE_123_9001_doubling-2.ipynb": "ada",
                "delacruzjosé_456_9002_doubling.ipynb": "j",
            },
            {"ada": {WANTED: "ada"}, "jose": {WANTED: "j"}},
        ),
        (
            BLACKBOARD,
            {
                f"{ATTEMPT.format(1)}.txt": "Name: Ada",
                f"{ATTEMPT.format(1)}_{WANTED}": "first",
                f"{ATTEMPT.format(2)}.txt": "Name: Ada",
                f"{ATTEMPT.format(2)}_{WANTED}": "second",
            },
            {"ada": {WANTED: "second"}},
        ),
        (
            CANVAS,
            {
                "lovelaceada_123_9001_work.zip": inner(
                    {f"{NAME}/{WANTED}": "ada", f"{NAME}/runs/a.json": "1", "__MACOSX/._doubling.ipynb": "x"}
                )
            },
            {"ada": {WANTED: "ada", "runs/a.json": "1"}},
        ),
        (BLACKBOARD, {"ada.zip": inner({WANTED: "ada"})}, {"ada": {WANTED: "ada"}}),
        (BLACKBOARD, {f"ada/{WANTED}": "ada", "ada/doubling (1).ipynb": "2"}, {"ada": {WANTED: "ada"}}),
        (BLACKBOARD, {"ada/mine.ipynb": "ada"}, {"ada": {WANTED: "ada"}}),
    ],
    ids=["moodle", "moodle-flat", "moodle-nested", "canvas", "blackboard", "own-zip", "zips", "two", "other"],
)
def test_downloads_as_they_are(many, tmp_path, table, members, expected):
    """Is each student's notebook found, whatever names platforms, browsers and macOS have given to files and
    folders?"""
    result = take(many, archive(tmp_path / "all.zip", members), people(table))
    assert result.refused == {} and result.students == sorted(expected)
    assert {student: content(many, student) for student in expected} == expected


def test_what_an_instructor_should_know(many, tmp_path):
    """Do the notes for the instructor mention late submissions, changed file names, more notebooks and
    earlier attempts?"""
    path = archive(
        tmp_path / "canvas.zip",
        {"lovelaceada_LATE_123_9001_doubling-2.ipynb": "1", "lovelaceada_LATE_123_9002_x.ipynb": "2"},
    )
    notes = " ".join(take(many, path, people(CANVAS)).notes["ada"])
    assert "late by the platform's clock" in notes and "submitted as doubling-2.ipynb" in notes
    assert "1 more notebooks, not imported: x.ipynb" in notes
    members = {f"{ATTEMPT.format(i)}_{WANTED}": str(i) for i in (2, 1)}
    notes = take(many, archive(tmp_path / "b.zip", members), people(BLACKBOARD)).notes["ada"]
    assert notes == ["2 attempts, of which the one of 2026-11-02-12-30-00 counts"]


def test_unknown_names_are_reported(many, tmp_path):
    """Are unknown names, names that two people share, and stray files each refused? Are the other submissions
    imported?"""
    twice = MOODLE + "Ada,Lovelace,ada2@uni.example\nBen,Ola,ben@uni.example\n"
    members = {
        f"Ada Lovelace_11_assignsubmission_file_/{WANTED}": "?",
        f"Participant 13_13_assignsubmission_file_/{WANTED}": "?",
        "readme.txt": "?",
        f"Ben Ola_14_assignsubmission_file_/{WANTED}": "ben",
    }
    result = take(many, archive(tmp_path / "all.zip", members), people(twice))
    assert result.students == ["ben"] and len(result.refused) == 3
    text = " ".join(result.refused.values())
    assert (
        "2 people are called" in text
        and "participants with --like" in text
        and "no student is called" in text
    )


def link(tmp_path):
    info = zipfile.ZipInfo("ada/secret")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return archive(tmp_path / "x.zip", {f"ben/{WANTED}": "ben", info: "/etc/passwd"})


def upwards(tmp_path):
    return archive(tmp_path / "x.zip", {f"ben/{WANTED}": "ben", "ada/../../../x.ipynb": "ada"})


def upwards_inside(tmp_path):
    own = inner({"../../x.ipynb": "ada"})
    return archive(tmp_path / "x.zip", {f"ben/{WANTED}": "ben", "ada.zip": own})


def bomb(tmp_path):
    return archive(tmp_path / "x.zip", {f"ben/{WANTED}": "ben", "ada/zeros": b"\0" * 3_000_000})


def many_files(tmp_path):
    files = {f"ada/{i}": "x" for i in range(60)}
    return archive(tmp_path / "x.zip", {f"ben/{WANTED}": "ben"} | files)


def cut(tmp_path):
    return archive(tmp_path / "x.zip", {f"ben/{WANTED}": "ben", "ada.zip": inner({WANTED: "ada"})[:40]})


@pytest.mark.parametrize("make", [link, upwards, upwards_inside, bomb, many_files, cut])
def test_hostile_archives_do_not_affect_others(many, tmp_path, monkeypatch, make):
    """Is a student's hostile upload refused, without writing elsewhere or replacing an earlier submission?
    Are the other students' submissions imported?"""
    monkeypatch.setattr(platform_zip, "LARGEST", 1_000_000)
    monkeypatch.setattr(platform_zip, "MOST", 50)
    many.hand_in("ada")
    before = content(many, "ada")
    result = take(many, make(tmp_path), people("", [("ada", "Ada"), ("ben", "Ben")]))
    assert result.students == ["ben"] and list(result.refused) == ["ada"]
    assert content(many, "ada") == before and content(many, "ben") == {WANTED: "ben"}
    assert not list(tmp_path.rglob("x.ipynb")) and not list(many.root.rglob("x.ipynb"))
    assert not list(many.course.private.rglob(f".{NAME}.new"))


def test_what_is_no_zip_is_said(many, tmp_path):
    """Is a file that is not a ZIP archive refused with a message?"""
    (tmp_path / "x.zip").write_text("no zip")
    with pytest.raises(CourseError, match="not a readable zip file"):
        take(many, tmp_path / "x.zip", people())


def test_from_the_download_to_points_and_feedback(many, tmp_path, monkeypatch, capsys):
    """Do the commands work in sequence for a class: import, run, give-back, feedback-zip and export?"""
    monkeypatch.chdir(many.root)
    many.released.cells[1].source = "x = 1"
    text = nbformat.writes(many.released)
    prefix = "Ada Lovelace_11_assignsubmission_file_"
    path = archive(tmp_path / "all.zip", {f"{prefix}/doubling (1).ipynb": text})
    (tmp_path / "people.csv").write_text(MOODLE)
    like = ["--like", str(tmp_path / "people.csv")]
    assert command.main(["feedback-zip", "99"]) == 1
    assert "no submission of" in capsys.readouterr().err
    assert command.main(["import", "99", str(path), *like]) == 0
    with many.book() as book:
        assert book.find_student("ada").last_name == "Lovelace"
    many.run()
    assert command.main(["feedback-zip", "99"]) == 1
    assert "ada has no feedback" in capsys.readouterr().err
    assert command.main(["give-back", "99"]) == 0
    assert command.main(["feedback-zip", "99"]) == 0
    with zipfile.ZipFile(many.course.private / f"feedback-{NAME}.zip") as zipped:
        assert zipped.namelist() == [f"{prefix}/doubling.html"]
        assert b"<html" in zipped.read(zipped.namelist()[0])
    assert command.main(["export", "99", "--for", "moodle", *like]) == 0
    text = (many.course.private / "grades-moodle.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["Email address"] for row in rows] == ["ada@uni.example"] and rows[0][NAME] == "3.0"
