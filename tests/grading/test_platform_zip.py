"""A class without a hub imports submissions from a platform's download, and packs feedback for its upload."""

import csv
import io
import random
import re
import shutil
import stat
import tempfile
import zipfile
from pathlib import Path

import hypothesis
import nbformat
import pytest
from hypothesis import strategies

from cluster.staff import __main__ as command
from cluster.staff import platforms
from cluster.staff.course import CourseError
from cluster.staff.submissions import import_zip as platform_zip

from . import test_archives as archives
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
    """Write a ZIP file of {name: text or bytes}, or of such pairs, and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in members.items() if isinstance(members, dict) else members:
            zipped.writestr(name, content)
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


def inner(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
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
                f"{ATTEMPT.format(1)}.txt": "Name: Ada (ada)\n",
                f"{ATTEMPT.format(1)}_{WANTED}": "first",
                f"{ATTEMPT.format(2)}.txt": "Name: Ada (ada)\n",
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
    members = {"lovelaceada_LATE_123_9001_doubling-2.ipynb": "1", "lovelaceada_LATE_123_9002_x.ipynb": "2"}
    notes = take(many, archive(tmp_path / "canvas.zip", members), people(CANVAS)).notes["ada"]
    for word in ("late", "doubling-2.ipynb", "1 more", "x.ipynb"):
        assert sum(word in note.split(";")[0] for note in notes) >= 1, word
    shutil.rmtree(many.course.folder("submitted", "ada", NAME))
    members = {f"{ATTEMPT.format(i)}_{WANTED}": str(i) for i in (2, 1)}
    members[f"{ATTEMPT.format(1)}.txt"] = "Name: Ada (ada)\n"
    [note] = take(many, archive(tmp_path / "b.zip", members), people(BLACKBOARD)).notes["ada"]
    assert "2026-11-02-12-30-00" in note and content(many, "ada") == {WANTED: "2"}


LINK = zipfile.ZipInfo("ada/secret")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16
HOSTILE = {
    "link": {LINK: "/etc/passwd"},
    "upwards": {"ada/../../../x.ipynb": "ada"},
    "upwards in the student's own": {"ada.zip": inner({"../../x.ipynb": "ada"})},
    "bomb": {"ada/zeros": b"\0" * 3_000_000},
    "bomb in the student's own": {"ada.zip": inner({"zeros": "0" * 3_000_000}, zipfile.ZIP_DEFLATED)},
    "many files": {f"ada/{i}": "x" for i in range(60)},
    "cut off": {"ada.zip": inner({WANTED: "ada"})[:40]},
    "damaged bzip2": {"ada.zip": bytes(archives.BAD["damaged bzip2"])},
    "damaged lzma": {"ada.zip": bytes(archives.BAD["damaged lzma"])},
    "deflate64": {"ada.zip": bytes(archives.BAD["deflate64"])},
    "encrypted": {"ada.zip": bytes(archives.BAD["encrypted"])},
    "file and folder": {"ada.zip": inner({"doubling (1).ipynb": "x", f"{WANTED}/a.txt": "x"})},
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_hostile_archives_do_not_affect_others(many, tmp_path, monkeypatch, members):
    """Is a student's hostile upload refused, without writing elsewhere or replacing an earlier submission?
    Are the other students' submissions imported?"""
    monkeypatch.setattr(platform_zip, "LARGEST", 1_000_000)
    monkeypatch.setattr(platform_zip, "MOST", 50)
    before = archive(tmp_path / "before.zip", {f"ada/{WANTED}": "before"})
    known = people("", [("ada", "Ada"), ("ben", "Ben")])
    take(many, before, known)
    result = take(many, archive(tmp_path / "x.zip", {f"ben/{WANTED}": "ben"} | members), known)
    assert result.students == ["ben"] and list(result.refused) == ["ada"]
    assert content(many, "ada") == {WANTED: "before"} and content(many, "ben") == {WANTED: "ben"}
    assert not list(tmp_path.rglob("x.ipynb")) and not list(many.root.rglob("x.ipynb"))
    assert not list(many.course.private.rglob(f".{NAME}.new"))


def test_what_is_no_zip_is_said(many, tmp_path):
    """Is a file that is not a ZIP archive refused, with its path?"""
    (tmp_path / "x.zip").write_text("no zip")
    with pytest.raises(CourseError, match=r"x\.zip"):
        take(many, tmp_path / "x.zip", people())


# Attacks by names. Each file contains "work of USER", so that a wrong folder is recognised by its content.

ADA, JOSE, MALLORY = (
    ("ada", "Ada", "Lovelace"),
    ("jose", "José", "de la Cruz"),
    ("mallory", "Mallory", "Evil"),
)
NUMBERS = {"ada": "11", "jose": "12", "mallory": "13"}
IDS = {"ada": "123", "jose": "456", "mallory": "789"}
TIME = "_attempt_2026-11-01-12-30-00"
COPY = "doubling-2.ipynb"  # the honest students' files, which a file with the right name could displace


def work(user):
    return f"work of {user}"


def rows(*lines):
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue()


def participants(*more, changed=MALLORY, address="mallory@uni.example"):
    """Moodle's participants: first name, last name, e-mail address."""
    own = [[first, last, f"{user}@uni.example"] for user, first, last in (ADA, JOSE)]
    return rows(["First name", "Last name", "Email address"], *own, [*changed[1:], address], *more)


def worksheet(*more, changed=MALLORY, address="mallory@uni.example"):
    """Moodle's grading worksheet, with the participants' numbers."""
    people = [(user, f"{first} {last}", f"{user}@uni.example") for user, first, last in (ADA, JOSE)]
    people.append((MALLORY[0], " ".join(changed[1:]), address))
    head = ["Identifier", "Full name", "Email address", "Status", "Grade"]
    own = [[f"Participant {NUMBERS[user]}", name, mail, "Submitted", ""] for user, name, mail in people]
    return rows(head, *own, *more)


def gradebook(*more, name="Evil, Mallory", ids=IDS):
    """Canvas's gradebook: name for sorting, ID and login."""
    named = {"ada": "Lovelace, Ada", "jose": "de la Cruz, José", "mallory": name}
    own = [[named[user], ids[user], "", user, "01"] for user in ids]
    return rows(["Student", "ID", "SIS User ID", "SIS Login ID", "Section"], *own, *more)


def grades(*more):
    """Blackboard's grade download."""
    return rows(
        ["Last Name", "First Name", "Username", "Student ID"],
        *([last, first, user, ""] for user, first, last in (ADA, JOSE, MALLORY)),
        *more,
    )


def moodles(name, number, file=WANTED, flat=False):
    """Return the name that Moodle gives to a file, as its downloader.php does."""
    name = re.sub(r"\s{2,}", " ", name, flags=re.ASCII).strip().replace("_", " ")
    name, file = (re.sub(r"[\x00-\x1f\x7f&<>\"`|':\\]", "", text) for text in (name.replace("/", ""), file))
    return f"{name}_{number}_assignsubmission_file_{file if flat else '/' + file}"


def canvases(name, number, attachment, file=WANTED, late=False):
    """Return the name that Canvas gives to a file, as its content_zipper.rb does."""
    name = re.sub(r"_([0-9]+)_", r"\1", name).lower()
    start = re.sub(r"[^\w]", "", "_".join([name, *["LATE"] * late, number]))
    file = re.sub(r"[\x00/\\:*?\"<>|]+", "_", file)
    return f"{start}_{attachment}_{file}"


def blackboards(login, file=WANTED, title="01 Convolution", time=TIME):
    return f"{title}_{login}{time}_{file}"


def summary(name, login, title="01 Convolution", time=TIME, file_login=None):
    """Return Blackboard's summary of an attempt as a member: its name and its text."""
    text = (
        f"Name: {name} ({login})\nAssignment: {title}\nCurrent Grade: Needs Grading\n\nComments:\n(mallory)\n"
    )
    return f"{title}_{file_login or login}{time}.txt", text


MALLORYS_SUMMARY = (summary("Mallory Evil", "mallory"),)


def in_moodle(*hostile, flat=False):
    """The files of Ada and José, and those that Mallory made, in Moodle's form."""
    honest = [("Ada Lovelace", "11", "ada"), ("José de la Cruz", "12", "jose")]
    return [*((moodles(n, i, COPY, flat), work(u)) for n, i, u in honest), *hostile]


def in_canvas(*hostile):
    honest = [("Lovelace, Ada", "123", "9001", "ada"), ("de la Cruz, José", "456", "9002", "jose")]
    return [*((canvases(n, i, a, COPY), work(u)) for n, i, a, u in honest), *hostile]


def in_blackboard(*hostile, more=MALLORYS_SUMMARY):
    own = [(blackboards(user, COPY), work(user)) for user in ("ada", "jose")]
    return [*own, summary("Ada Lovelace", "ada"), summary("José de la Cruz", "jose"), *hostile, *more]


def in_folders(*hostile):
    return [(f"ada/{COPY}", work("ada")), ("jose.zip", inner({COPY: work("jose")})), *hostile]


def evil(name, text="mallory"):
    return name, work(text)


def by_file(file, flat=False):
    return evil(moodles("Mallory Evil", "13", file, flat))


def by_name(name, file=WANTED):
    return evil(moodles(name, "13", file))


def by_file_in_canvas(file):
    return evil(canvases("Evil, Mallory", "789", "9003", file))


def by_name_in_canvas(name, file=WANTED):
    return evil(canvases(name, "789", "9003", file))


def by_file_in_blackboard(file):
    return evil(blackboards("mallory", file))


MALLORYS = by_file(WANTED)
EVERYONE = "ada jose mallory"
HONEST = "ada jose"
OWNED = f"lovelaceada_123_9001_{WANTED}"  # names that other platforms give to a file of Ada
ATTEMPTED = f"01 Convolution_ada_attempt_2027-11-01-12-30-00_{WANTED}"
ASSIGNED = f"Ada Lovelace_11_assignsubmission_file_{WANTED}"
TRICK = "Lovelace, Ada_1-23_90-01_x"  # Canvas makes lovelaceada_123_9001_x of this name

# {attack: (table, members, whose work is imported, names that the messages must contain)}
ATTACKS = {
    # Mallory chooses the name of a file
    "moodle-file-as-moodle": (
        worksheet(), in_moodle(by_file(ASSIGNED)), EVERYONE, ""),
    "moodle-file-as-moodle-flat": (
        worksheet(), in_moodle(by_file(ASSIGNED, True), flat=True), EVERYONE, ""),
    "moodle-file-as-canvas": (
        participants(), in_moodle(by_file(OWNED, True)), EVERYONE, ""),
    "moodle-file-as-blackboard": (
        participants(), in_moodle(by_file(ATTEMPTED, True)), EVERYONE, ""),
    "moodle-folder-as-moodle": (
        participants(), in_moodle(by_file(f"{ASSIGNED[:-14]}/{WANTED}")),
        EVERYONE, ""),
    "moodle-folder-as-login": (
        participants(), in_moodle(by_file(f"ada/{WANTED}")), EVERYONE, ""),
    "canvas-file-as-canvas": (
        gradebook(), in_canvas(by_file_in_canvas(OWNED)), EVERYONE, ""),
    "canvas-file-as-late-canvas": (
        gradebook(), in_canvas(by_file_in_canvas("lovelaceada_LATE_123_1_x.ipynb")),
        EVERYONE, ""),
    "canvas-file-as-blackboard": (
        gradebook(), in_canvas(by_file_in_canvas(ATTEMPTED)), EVERYONE, ""),
    "canvas-file-as-moodle": (
        gradebook(), in_canvas(by_file_in_canvas(ASSIGNED)), EVERYONE, ""),
    "canvas-file-as-canvas-without-ada": (
        gradebook(), [by_file_in_canvas(OWNED)], "", "Ada Mallory"),
    "canvas-file-of-digits": (
        gradebook(), in_canvas(by_file_in_canvas("_1_2_3_4_5.ipynb")), EVERYONE, ""),
    "canvas-file-of-a-date": (
        gradebook(), in_canvas(evil(canvases("Lovelace, Ada", "123", "9004", "x_2026_11_05.txt"), "ada")),
        HONEST, ""),
    "blackboard-file-as-blackboard": (
        grades(), in_blackboard(by_file_in_blackboard(ATTEMPTED)), EVERYONE, ""),
    "blackboard-without-a-summary": (
        grades(), in_blackboard(by_file_in_blackboard(f"x_{ATTEMPTED}"), more=()), HONEST, "mallory"),
    "blackboard-file-as-login": (
        grades(), in_blackboard(by_file_in_blackboard(f"x_ada_attempt_2027-01-01-01-01-01_{WANTED}")),
        EVERYONE, ""),
    "blackboard-file-as-summary": (
        grades(), in_blackboard(by_file_in_blackboard(f"_ada{TIME}.txt")), EVERYONE, ""),
    "blackboard-file-as-canvas": (
        grades(), in_blackboard(by_file_in_blackboard(OWNED)), EVERYONE, ""),
    "blackboard-file-as-moodle": (
        grades(), in_blackboard(by_file_in_blackboard(ASSIGNED)), EVERYONE, ""),
    "folder-in-an-unknown-folder": (
        participants(), in_folders(evil(f"eve/ada/{WANTED}")), HONEST, "eve"),
    "folder-in-a-known-folder": (
        participants(), in_folders(evil(f"mallory/ada/{WANTED}"), evil("mallory/ada.zip", "mallory")),
        HONEST, "mallory"),
    "moodle-in-an-unknown-folder": (
        participants(), in_folders(evil(f"eve/{ASSIGNED[:-14]}/{WANTED}")), HONEST, "eve"),
    "canvas-in-an-unknown-folder": (
        gradebook(), in_folders(evil(f"eve/{OWNED}")), HONEST, "eve"),
    "blackboard-in-a-known-folder": (
        grades(), in_folders(evil(f"mallory/{ATTEMPTED}")), EVERYONE, ""),
    "folder-in-capitals": (
        participants(), in_folders(evil(f"ADA/{WANTED}")), "jose", "ADA ada"),
    "folder-outside": (
        participants(), in_folders(evil(f"../ada/{WANTED}"), evil(f"/ada/{WANTED}")), HONEST, ".."),
    # Mallory chooses the name that the platform shows
    "moodle-name-of-ada": (
        participants(), in_moodle(by_name("Ada Lovelace")), "jose", "11 13"),
    "moodle-name-of-ada-with-worksheet": (
        worksheet(), in_moodle(by_name("Ada Lovelace")), HONEST, "Mallory Ada"),
    "moodle-name-of-ada-in-both": (
        participants(changed=ADA), in_moodle(by_name("Ada Lovelace")), "jose",
        "ada@uni.example mallory@uni.example"),
    "moodle-name-of-ada-in-both-with-worksheet": (
        worksheet(changed=ADA), in_moodle(by_name("Ada Lovelace")), EVERYONE, ""),
    "moodle-names-of-all-kinds": (
        worksheet(["Participant 14", "Nguyễn Şule O'Neil-Öz", "eve@uni.example", "", ""]),
        in_moodle(evil(moodles("Nguyễn Şule O'Neil-Öz", "14"), "eve")), f"{HONEST} eve", ""),
    "canvas-names-of-all-kinds": (
        gradebook(["O'Neil-Öz, Nguyễn Şule", "14", "", "eve", "01"]),
        in_canvas(evil(canvases("O'Neil-Öz, Nguyễn Şule", "14", "9003", late=True), "eve")),
        f"{HONEST} eve", ""),
    "blackboard-a-title-with-underscores": (
        grades(), [evil(blackboards("ada", title="01_Convolution"), "ada"),
                   summary("Ada Lovelace", "ada", "01_Convolution")], "ada", ""),
    "moodle-name-reversed": (
        participants(), in_moodle(by_name("Lovelace Ada")), "jose", "11 13"),
    "moodle-name-in-capitals": (
        participants(), in_moodle(by_name("ADA LOVELACE")), HONEST, "LOVELACE"),
    "moodle-name-with-an-accent": (
        participants(), in_moodle(by_name("Adá Lovelace")), HONEST, "Adá"),
    "moodle-name-in-wide-letters": (
        participants(changed=("", "Ａｄａ", "Lovelace")), in_moodle(by_name("Ａｄａ Lovelace")),
        EVERYONE, ""),
    "moodle-name-with-spaces": (
        participants(), in_moodle(by_name("Ada\N{NO-BREAK SPACE}Lovelace")), HONEST, ""),
    "moodle-name-with-punctuation": (
        participants(), in_moodle(by_name("Ada; Lovelace!")), HONEST, "Lovelace!"),
    "moodle-name-as-moodle": (
        worksheet(), in_moodle(by_name("Ada Lovelace_11_assignsubmission_file_")), HONEST, "Mallory"),
    "moodle-names-of-punctuation": (
        participants(["?", "?", "eve@uni.example"], changed=("", "!", "!")),
        in_moodle(by_name("! !"), evil(moodles("? ?", "14"), "eve")), f"{EVERYONE} eve", ""),
    "moodle-name-of-nothing": (
        participants(["<", ">", "eve@uni.example"], changed=("", "'", "'")),
        in_moodle(by_name("' '")), HONEST, ""),
    "canvas-name-of-ada": (
        gradebook(), in_canvas(by_name_in_canvas("Lovelace, Ada")), HONEST, "lovelaceada Mallory"),
    "canvas-name-of-ada-in-both": (
        gradebook(name="Lovelace, Ada"), in_canvas(by_name_in_canvas("Lovelace, Ada")), EVERYONE, ""),
    "canvas-name-as-canvas": (
        gradebook(name=TRICK), in_canvas(by_name_in_canvas(TRICK)), HONEST, "Ada 789"),
    "canvas-name-as-canvas-after-the-export": (
        gradebook(), in_canvas(by_name_in_canvas(TRICK)), HONEST, "Ada Mallory"),
    "canvas-name-as-canvas-without-ada": (
        gradebook(), [by_name_in_canvas(TRICK)], "", "Ada Mallory"),
    "canvas-name-with-underscores": (
        gradebook(name="Evil__1__2_, M_"), in_canvas(by_name_in_canvas("Evil__1__2_, M_")),
        EVERYONE, ""),
    "canvas-name-as-moodle": (
        gradebook(name="Ada_1-1_assignsubmission_file_"),
        in_canvas(by_name_in_canvas("Ada_1-1_assignsubmission_file_")), EVERYONE, ""),
    "canvas-name-late": (
        gradebook(name="Evil_LATE"), in_canvas(by_name_in_canvas("Evil_LATE")), EVERYONE, ""),
    "canvas-name-of-punctuation": (
        gradebook(name="!!!"), in_canvas(by_name_in_canvas("!!!")), EVERYONE, ""),
    "blackboard-name-in-parentheses": (
        grades(), in_blackboard(by_file_in_blackboard(WANTED), more=[summary("Mallory (ada)", "mallory")]),
        EVERYONE, ""),
    # Logins, addresses and numbers that are not unique
    "moodle-address-of-ada": (
        participants(address="ada@evil.example"), in_moodle(MALLORYS), "jose",
        "ada@uni.example ada@evil.example"),
    "moodle-address-of-ada-with-worksheet": (
        worksheet(address="ADA@evil.example"), in_moodle(MALLORYS), "jose",
        "ada@uni.example ADA@evil.example"),
    "moodle-address-as-path": (
        worksheet(address=f"ada/{NAME}@evil.example"), in_moodle(MALLORYS), HONEST,
        "Mallory"),
    "moodle-address-as-parent": (
        worksheet(address="..@evil.example"), in_moodle(MALLORYS), HONEST, "Mallory"),
    "moodle-address-as-pattern": (
        worksheet(address="*@evil.example"), in_moodle(MALLORYS), HONEST, "Mallory"),
    "moodle-address-with-an-invisible-character": (
        worksheet(address="ada\N{ZERO WIDTH SPACE}@evil.example"),
        in_moodle(MALLORYS), HONEST, "Mallory"),
    "moodle-address-with-a-space": (
        worksheet(address="ada @evil.example"), in_moodle(MALLORYS), HONEST,
        "Mallory"),
    "canvas-one-id-twice": (
        gradebook(ids=IDS | {"mallory": "123"}), in_canvas(), "jose", "Ada Mallory"),
    "canvas-one-login-twice": (
        gradebook(["Lovelace, Ada", "999", "", "Ada", "02"]),
        in_canvas(evil(canvases("Lovelace, Ada", "999", "9003"))), "jose", "123 999"),
    "blackboard-login-in-a-login": (
        grades(["Ada", "Van", "van_ada", ""]),
        in_blackboard(evil(blackboards("van_ada"), "van_ada"), more=[summary("Van Ada", "van_ada")]),
        f"{HONEST} van_ada", ""),
    "blackboard-unknown-login-with-a-known-one": (
        grades(), in_blackboard(evil(blackboards("van_ada"), "eve"), more=[summary("Van Ada", "van_ada")]),
        HONEST, "van_ada"),
    "blackboard-summary-of-another": (
        grades(),
        in_blackboard(
            by_file_in_blackboard(WANTED), more=[summary("Ada Lovelace", "ada", file_login="mallory")]),
        HONEST, "mallory ada"),
    "blackboard-summary-with-two-logins": (
        grades(),
        in_blackboard(
            by_file_in_blackboard(WANTED), summary("Ada", "ada", time=TIME[:-1] + "1", file_login="mallory")),
        HONEST, "mallory ada"),
    "blackboard-summary-that-is-cut-off": (
        grades(),
        in_blackboard(by_file_in_blackboard(WANTED), more=[summary("(mallory)" * 455 + "x", "mallory")]),
        HONEST, "mallory"),
    # Names that nobody or several have, and what the gradebook knows
    "unknown-and-shared-names": (
        MOODLE + "Ada,Lovelace,ada2@uni.example\nMallory,Evil,mallory@uni.example\n",
        [*in_moodle(MALLORYS), evil(moodles("Participant 14", "14"), "?"), evil("readme.txt", "?")],
        "jose mallory", "Lovelace Participant readme.txt --like"),
    "an-address-of-somebody-else": (
        worksheet(address="ada@evil.example").replace("Lovelace,ada@", "Lovelace,a.lovelace@"),
        [evil(moodles("Ada Lovelace", "11"), "a.lovelace"), evil(moodles("Mallory Evil", "13"), "ada")],
        "a.lovelace ada", ""),
    "an-address-of-somebody-in-the-gradebook": (
        worksheet(address="ada@evil.example").replace("Lovelace,ada@", "Lovelace,a.lovelace@"),
        [evil(moodles("Ada Lovelace", "11"), "a.lovelace"), MALLORYS],
        "a.lovelace", "Mallory Byron", [("mallory", "Mallory Evil"), ("ada", "Ada Byron"), ("jose", "")]),
    "an-address-that-the-gradebook-knows": (
        worksheet(address="ada@evil.example"), in_moodle(MALLORYS), HONEST, "Evil",
        [("ada", "Ada King Lovelace")]),
    "a-former-name": (
        participants().replace("Ada,Lovelace", "Ada,King"), [evil(moodles("Ada Lovelace", "13"))], "",
        "Lovelace", [("ada", "Ada Lovelace")]),
    "a-former-name-of-somebody-else": (
        participants(), in_moodle(MALLORYS), HONEST, "Evil", [("mallory", "Ada Lovelace")]),
    "logins-that-differ-in-case": (
        "", [evil(f"{user}/{WANTED}", user.lower()) for user in ("ada", "Ada", "ben")], "ben",
        "Lovelace Byron", [("ada", "Ada Lovelace"), ("Ada", "Ada Byron"), ("ben", "Ben Ola")]),
    "a-group-before-the-name": (
        worksheet(), [evil(moodles("Group A-Ada Lovelace", "11"), "ada")], "ada", ""),
    "a-login-in-two-spellings": (
        "Last Name,First Name,Username\nLang,Jörg,jörg\n",
        [evil(f"jo\N{COMBINING DIAERESIS}rg/{WANTED}", "Jörg")], "Jörg", "", [("Jörg", "Jörg Lang")]),
    "a-name-that-is-slow-to-compare": (
        participants(), in_moodle(by_file("-copy " * 36 + "x.ipynb")), EVERYONE, ""),
    # Mallory's name reads like Ada's number, and Eve, who has no row, uses Mallory's number in a file's name
    "an-accomplice-in-canvas": (
        gradebook(ids=IDS | {"mallory": "9"}, name="lovelaceada_1-23"),
        in_canvas(evil(canvases("lovelaceada_1-23", "9", "9003")),
                  evil(canvases("Student, Test", "77", "9004", "f_9_5_g.txt"), "eve")), HONEST, "Lovelace"),
}  # fmt: skip


def hold(many):
    """Return {student: the works in the student's folder}, and verify that folders contain only their own."""
    held = {}
    for folder in sorted(many.course.folder("submitted", "x", NAME).parents[1].glob("*")):
        texts = [path.read_text() for path in folder.rglob("*") if path.is_file()]
        if works := {text for text in texts if text.startswith("work of ")}:
            held[folder.name] = works
            assert {text.split()[2] for text in works} == {folder.name}
    return held


def check_messages(result, names):
    """Verify that the messages about what is refused contain these names."""
    text = " ".join([*result.refused, *result.refused.values()])
    assert not names or result.refused
    assert [name for name in names.split() if name not in text] == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_names_do_not_move_work_to_another_student(many, tmp_path, attack):
    """Is each student's own work in the own folder, whatever names a student has chosen, and do the messages
    about the rest contain both names?"""
    table, members, imported, names, *known = ATTACKS[attack]
    result = take(many, archive(tmp_path / "all.zip", members), people(table, *known))
    assert hold(many) == {user: {work(user)} for user in imported.split()}
    assert result.students == sorted(imported.split())
    check_messages(result, names)


def test_an_archive_of_one_platform_or_none(many, tmp_path):
    """Is an archive whose only name has the form of two platforms refused, unless the table or the command
    states the platform?"""
    path = archive(tmp_path / "all.zip", [by_file(OWNED, flat=True)])
    known = [(user, f"{first} {last}") for user, first, last in (ADA, JOSE, MALLORY)]
    with pytest.raises(CourseError) as error:
        take(many, path, people("", known))
    assert "Moodle" in str(error.value) and "Canvas" in str(error.value)
    assert hold(many) == {}
    assert take(many, path, people(worksheet())).students == ["mallory"]
    shutil.rmtree(many.course.folder("submitted", "mallory", NAME))
    result = platform_zip.import_zip(many.course, NAME, WANTED, path, people("", known), "moodle")
    assert result.students == ["mallory"] and list(hold(many)) == ["mallory"]


def test_a_folder_around_everything(many, tmp_path):
    """Is a folder around all files, which can be the folder of an unknown login, only skipped if the table or
    the command states the platform?"""
    path = archive(tmp_path / "all.zip", [evil(f"eve/{ASSIGNED[:-14]}/{WANTED}", "ada")])
    known = [("ada", "Ada Lovelace")]
    with pytest.raises(CourseError):
        take(many, path, people("", known))
    result = platform_zip.import_zip(many.course, NAME, WANTED, path, people("", known), "logins")
    assert result.students == [] and hold(many) == {}
    result = platform_zip.import_zip(many.course, NAME, WANTED, path, people("", known), "moodle")
    assert result.students == ["ada"] and list(hold(many)) == ["ada"]
    path = archive(tmp_path / "all.zip", [evil(f"eve/{ATTEMPTED}", "ada")])
    with pytest.raises(CourseError):
        take(many, path, people(rows(["Username", "First name", "Last name"], ADA)))


def test_names_without_the_flag_for_utf_8(many, tmp_path):
    """Is a name in UTF-8 recognised in an archive that does not declare its encoding?"""
    path = archive(tmp_path / "all.zip", [(canvases("de la Cruz, José", "456", "9002"), work("jose"))])
    raw = path.read_bytes()
    for start, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = raw.index(start) + flags
        raw = raw[:at] + b"\0\0" + raw[at + 2 :]
    path.write_bytes(raw)
    assert take(many, path, people(gradebook())).students == ["jose"]


# Repeated imports


def kept(many, user):
    folder = many.course.private / "replaced" / user / NAME
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.ipynb")}


def test_imports_of_the_same_person(many, tmp_path):
    """Does a repeated import leave an equal submission unchanged, and keep each different one that it
    replaces, where nbgrader does not find it?"""

    def again(text, attachment="9001"):
        members = [(canvases("Lovelace, Ada", "123", attachment), text)]
        return take(many, archive(tmp_path / "all.zip", members), people(gradebook()))

    again("first")
    folder = many.course.folder("submitted", "ada", NAME)
    inode = folder.stat().st_ino
    result = again("first")
    assert result.students == result.unchanged == ["ada"] and folder.stat().st_ino == inode
    for number, text in enumerate(["second", "third"], 1):
        result = again(text, str(9001 + number))
        assert result.students == ["ada"] and result.unchanged == []
        [note] = result.notes["ada"]
        assert note.endswith(str(many.course.private / "replaced" / "ada" / NAME / str(number)))
    assert content(many, "ada") == {WANTED: "third"}
    assert kept(many, "ada") == {f"1/{WANTED}": "first", f"2/{WANTED}": "second"}
    [(student, facts)] = platform_zip.imported(many.course, NAME)
    assert student == "ada" and facts["id"] == "123" and facts["folder"] == "lovelaceada_123_9003"


@pytest.mark.parametrize("earlier", ["another number", "a folder by login", "collected"])
def test_an_import_from_elsewhere(many, tmp_path, earlier):
    """Does a submission stay that was received from another number, by login or by other means, and does the
    message contain both?"""
    if earlier == "collected":
        many.hand_in("ada", text="first")
    else:
        before = moodles("Ada Lovelace", "11") if earlier == "another number" else f"ada/{WANTED}"
        take(many, archive(tmp_path / "1.zip", {before: "first"}), people(participants()))
    path = archive(tmp_path / "2.zip", {moodles("Ada Lovelace", "12"): "second"})
    result = take(many, path, people(participants()))
    assert result.students == [] and content(many, "ada")[WANTED] == "first" and kept(many, "ada") == {}
    check_messages(result, "Lovelace_12_ " + {"another number": "Lovelace_11_"}.get(earlier, "ada"))
    folder = many.course.folder("submitted", "ada", NAME)
    assert str(folder) in result.refused["ada"]
    shutil.rmtree(folder)
    assert take(many, path, people(participants())).students == ["ada"]


@pytest.mark.parametrize("moment", ["keeping", "unpacking", "comparing", "before", "between", "after"])
def test_an_interrupted_import_loses_nothing(many, tmp_path, monkeypatch, moment):
    """Are the earlier submission and the new one available after an interruption at any moment?"""
    first = archive(tmp_path / "1.zip", {moodles("Ada Lovelace", "11"): "first"})
    second = archive(tmp_path / "2.zip", {moodles("Ada Lovelace", "11"): "second"})
    take(many, first, people(participants()))
    folder = many.course.folder("submitted", "ada", NAME)

    def stop(*_, **__):
        raise KeyboardInterrupt

    def replace(new, target):
        if target != folder:
            return real(new, target)
        if moment == "between":
            target.rename(target.with_name(f".{target.name}.old"))
        if moment == "after":
            real(new, target)
        raise KeyboardInterrupt

    real = platform_zip.files.replace_folder
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if moment in ("keeping", "unpacking", "comparing"):
            target = {"keeping": "keep", "unpacking": "unpack", "comparing": "same"}[moment]
            patch.setattr(platform_zip, target, stop)
        else:
            patch.setattr(platform_zip.files, "replace_folder", replace)
        take(many, second, people(participants()))
    assert "first" in [
        *kept(many, "ada").values(),
        *(content(many, "ada").values() if folder.exists() else ()),
    ]
    assert moment == "between" or folder.exists()
    assert take(many, second, people(participants())).students == ["ada"]
    assert content(many, "ada") == {WANTED: "second"} and "first" in kept(many, "ada").values()
    assert not list(many.course.private.rglob(f".{NAME}.new"))


def test_files_with_the_courses_own_names_are_left_out(many, tmp_path):
    """Can a student not write the files that say whose the submission is, and when it was received?"""
    own = {"received.json/a.txt": "x", "a\\received.json": "{}", "timestamp.txt": "2020-01-01 00:00:00 UTC"}
    members = {"jose.zip": inner({WANTED: work("jose")} | own), f"ada/{WANTED}": "", "ada/timestamp.txt": "x"}
    result = take(many, archive(tmp_path / "all.zip", members), people(participants()))
    assert result.students == ["ada", "jose"] and result.refused == {}
    assert content(many, "jose") == {WANTED: work("jose")} and content(many, "ada") == {WANTED: ""}


# Names made of the pieces that platforms use

PIECES = ["_", "_", " ", "-", "1", "123", "456", "789", "11", "13", "9001", "ada", "Ada", "Lovelace", "jose",
          "lovelaceada", "mallory", "LATE", "late", "assignsubmission", "_assignsubmission_file_", "attempt",
          TIME, "2026-11-01-12-30-00", "01 Convolution", ".txt", ".zip", ".ipynb", "(ada)", ",", "'", "é",
          "Ａ", "/", "\\", "..", "\N{ZERO WIDTH SPACE}", "ﬁ", "²", "x"]  # fmt: skip
LETTERS = strategies.characters(exclude_categories=["Cs", "Cc"])
TEXTS = strategies.lists(strategies.sampled_from(PIECES) | LETTERS, min_size=1, max_size=9).map("".join)


def assigned(members, who):
    """Return {student: works} of an archive, without unpacking to a folder, and the refusals."""
    result = platform_zip.Imported()
    with tempfile.TemporaryDirectory() as folder:
        path = archive(Path(folder) / "all.zip", members)
        with zipfile.ZipFile(path) as opened:
            try:
                found = platform_zip.parts(opened, who, None, result)
            except CourseError as error:
                return {}, {"": str(error)}
            works = {
                student: {opened.read(member).decode() for part in own for _, member in part.members}
                for student, own in found.items()
            }
    return works, result.refused


def only_their_own(works):
    return all(user in IDS and texts <= {work(user)} for user, texts in works.items())


THOROUGH = hypothesis.settings(max_examples=400, deadline=None, derandomize=True)


@THOROUGH
@hypothesis.given(file=TEXTS, flat=strategies.booleans())
def test_any_file_name(file, flat):
    """Is all work assigned to its author on each platform, whatever the name of Mallory's file is?"""
    single = file.replace("/", "_") + "x"  # a name without folders
    everyone = {user: {work(user)} for user in EVERYONE.split()}
    hypothesis.assume(not re.search(r"(^|[/\\])[^\w.]*\.[\W_]", file))  # could begin with ._, as macOS writes
    for table in (participants(), worksheet()):
        members = in_moodle(
            evil(moodles("Mallory Evil", "13", file.replace("..", ""), flat) + "x"), flat=flat
        )
        works, refused = assigned(members, people(table))
        assert works == everyone and refused == {}
    works, refused = assigned(
        in_canvas(evil(canvases("Evil, Mallory", "789", "9003", file))), people(gradebook())
    )
    assert works == everyone and refused == {}
    works, refused = assigned(in_blackboard(evil(blackboards("mallory", single))), people(grades()))
    assert works == everyone and refused == {}


@THOROUGH
@hypothesis.given(name=TEXTS, before=TEXTS, file=TEXTS, alone=strategies.booleans())
def test_any_name_of_a_person(name, before, file, alone):
    """Is no work assigned to another student, whatever Mallory's name is, and was when the table was
    exported?"""
    for shown in (name, before):
        own = evil(moodles(name, "13", file))
        members = [own] if alone else in_moodle(own)
        works, _ = assigned(members, people(worksheet(changed=("", "", shown))))
        assert only_their_own(works) and (alone or works.keys() >= {"ada", "jose"})
        works, refused = assigned(in_moodle(own), people(participants(changed=("", "", shown))))
        assert only_their_own(works) and (works.keys() >= {"ada", "jose"} or "13" in str(refused))
        own = evil(canvases(name, "789", "9003", file))
        works, _ = assigned([own] if alone else in_canvas(own), people(gradebook(name=shown)))
        assert only_their_own(works) and (alone or works.keys() >= {"ada", "jose"})


def test_any_shuffled_class(many, tmp_path):
    """Does the result not depend on the order of the files and the rows?"""
    draw = random.Random(1)
    for attack in ("canvas-file-as-canvas", "moodle-name-of-ada", "blackboard-login-in-a-login"):
        table, members, imported, _ = ATTACKS[attack]
        head, *lines = table.splitlines(keepends=True)
        for _ in range(10):
            draw.shuffle(lines)
            draw.shuffle(members)
            works, _ = assigned(members, people("".join([head, *lines])))
            assert works == {user: {work(user)} for user in imported.split()}


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
    assert "grade import 99" in capsys.readouterr().err
    assert command.main(["import", "99", str(path), *like]) == 0
    with many.book() as book:
        assert book.find_student("ada").last_name == "Lovelace"
    many.run()
    assert command.main(["feedback-zip", "99"]) == 1
    assert "`give-back 99`" in capsys.readouterr().err
    assert command.main(["give-back", "99"]) == 0
    assert command.main(["feedback-zip", "99"]) == 0
    with zipfile.ZipFile(many.course.private / f"feedback-{NAME}.zip") as zipped:
        assert zipped.namelist() == [f"{prefix}/doubling.html"]
        assert b"<html" in zipped.read(zipped.namelist()[0])
    assert command.main(["export", "99", "--for", "moodle", *like]) == 0
    text = (many.course.private / "grades-moodle.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["Email address"] for row in rows] == ["ada@uni.example"] and rows[0][NAME] == "3.0"


def test_the_command_changes_no_other_name(many, tmp_path, monkeypatch, capsys):
    """Does the import write only the names of the imported students, keep names that the table only spells in
    one field, and use the option for the platform?"""
    monkeypatch.chdir(many.root)
    with many.book() as book:
        book.update_or_create_student("jose", first_name="José", last_name="de la Cruz")
        book.update_or_create_student("ada", first_name="Ada", last_name="Lovelace")
    path = archive(tmp_path / "all.zip", in_moodle(evil(moodles("Mallory Evil", "13"))))
    (tmp_path / "people.csv").write_text(worksheet(address="ada@evil.example"))
    command_line = ["import", "99", str(path), "--like", str(tmp_path / "people.csv")]
    assert command.main(command_line) == 1
    error = capsys.readouterr().err
    assert "Lovelace" in error and "Evil" in error
    (tmp_path / "people.csv").write_text(worksheet())
    assert command.main([*command_line, "--platform", "canvas"]) == 1
    assert command.main([*command_line, "--platform", "moodle"]) == 0
    with many.book() as book:
        names = {student.id: (student.first_name, student.last_name) for student in book.students}
    assert names["ada"] == ("Ada", "Lovelace") and names["jose"] == ("José", "de la Cruz")
    assert names["mallory"] == ("Mallory", "Evil")
