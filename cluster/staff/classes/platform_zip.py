"""Submissions from the bulk download of a learning platform, and feedback as a zip file for its upload.

The beginning of each file name identifies the student, as documented by the platforms:

    Moodle      Ada Lovelace_123456_assignsubmission_file_/…   or …_file_NAME without folders
    Canvas      lovelaceada_LATE_123_4567_NAME                 user and attachment, LATE only for late ones
    Blackboard  TITLE_ada_attempt_2026-11-01-12-30-00_NAME     next to a TITLE_ada_attempt_….txt of its own
    others      ada/… or ada.zip                               by the login

Nothing in a platform's zip file is trusted, because it contains students' data. Sizes are counted while
reading, links and names that lead out of the folder are refused, and errors affect only their submission.
"""

from __future__ import annotations

import json
import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from cluster.system import files
from cluster.system.text import printable

from .. import limited
from ..course import Course, CourseError, SubmissionError
from ..platforms import Table
from ..work_files import DEEPEST, LARGEST, LONGEST, MOST, NOT_KEPT, NOT_WORK
from . import grading_folder

MEMBERS = 200_000  # maximum files in the whole download
WHOLE = 20 * 2**30  # maximum bytes of the whole download, unpacked
NESTED = 2**28  # maximum bytes of a student's own zip file
PIECE = 2**20  # bytes read at a time
MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<rest>.*))?")
CANVAS = re.compile(
    r"(?P<name>[^_]+)_(?:late_)?(?P<number>\d+)_(?P<attachment>\d+)_(?P<rest>.+)", re.IGNORECASE
)
BLACKBOARD = re.compile(r"(?P<who>.+)_attempt_(?P<when>\d{4}(?:-\d\d){5})(?:_(?P<rest>.+)|\.txt)")
# Suffixes that platforms, browsers and people add to the name of a notebook.
ADDED = re.compile(r"(?i)^(?:late_|copy of )+|(?:\s*\(\d+\)|\s*-\s*copy\s*\d*|-\d{1,2})+(?=\.ipynb$)")
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass
class Part:
    """One student's part of a download. prefix: the platform's identifier of the submission."""

    prefix: str
    platform: str
    order: str = ""  # time of the attempt, in Blackboard's names
    late: bool = False
    members: list[tuple[str, zipfile.ZipInfo]] = field(default_factory=list)  # (path in the part, member)


@dataclass
class Imported:
    """The outcome of an import: names of students; `refused` contains folders or files, with the reason."""

    students: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class People:
    """Students by login, platform number and name; the logins are from the gradebook or an export."""

    def __init__(self, known: Iterable[tuple[str, str]], like: Table | None):
        self.logins: dict[str, str] = {}
        self.numbers: dict[str, str] = {}
        self.names: dict[str, set[str]] = {}
        for login, name in known:
            self._add(login, login, name)
        number = next((i for i, h in enumerate(like.header) if h.lower() == "id"), None) if like else None
        for entry in like.people if like else ():
            self._add(entry.user, entry.login, " ".join(entry.names))
            if number is not None:
                self.numbers[entry.fields[number].strip()] = entry.user

    def _add(self, user: str, login: str, name: str) -> None:
        self.logins |= {user.casefold(): user, login.casefold(): user}
        if name.strip():
            self.names.setdefault(plain(name), set()).add(user)

    def find(self, part: Part) -> str:
        """Return the login of a part's student. Raises SubmissionError, which states what is missing."""
        if part.platform == "moodle":
            name = matched(MOODLE, part.prefix)["name"]
            students = self.names.get(plain(name), set())
            if len(students) > 1:
                raise SubmissionError(
                    f"{len(students)} people are called {printable(name)}: put the file into a folder that is"
                    " named by the login, and import that zip"
                )
            if students:
                return next(iter(students))
            raise SubmissionError(
                f"no student is called {printable(name)}; give the participants with --like"
            )
        if part.platform == "canvas":
            number = matched(CANVAS, f"{part.prefix}_x")["number"]
            if number in self.numbers:
                return self.numbers[number]
            raise SubmissionError(f"no student has the Canvas ID {number}; give its gradebook with --like")
        if part.platform == "blackboard":
            who = matched(BLACKBOARD, f"{part.prefix}.txt")["who"].casefold()
            if logins := [login for login in self.logins if who.endswith(f"_{login}")]:
                return self.logins[max(logins, key=len)]
            raise SubmissionError("no student has this login; use --like to name Blackboard's grade download")
        return self.logins[part.prefix.casefold()]


def plain(name: str) -> str:
    """Return a name without word order, accents, case and punctuation, to compare spellings."""
    letters = unicodedata.normalize("NFKD", name)
    letters = "".join(c for c in letters if not unicodedata.combining(c)).casefold()
    return " ".join(sorted(re.findall(r"\w+", letters.replace("_", " "))))


def is_rubbish(path: PurePosixPath) -> bool:
    """Return whether macOS, Windows or Jupyter, rather than the student, added this file to the archive."""
    return (
        any(part in (*NOT_KEPT, "__MACOSX") for part in path.parts)
        or path.name.startswith("._")
        or path.name in (".DS_Store", "Thumbs.db", "desktop.ini", *NOT_WORK)
    )


def split(name: str, people: People) -> tuple[Part, str] | None:
    """Return (student's part, path below it) for a member's name, or None if it matches no student."""
    parts = PurePosixPath(name).parts
    for i, word in enumerate(parts):
        below = "/".join(parts[i + 1 :])
        if match := MOODLE.fullmatch(word):
            prefix = word[: match.start("rest")] if match["rest"] else word
            return Part(prefix, "moodle"), "/".join(filter(None, [match["rest"], below]))
        if match := BLACKBOARD.fullmatch(word):
            if match["rest"] is None:  # Blackboard's summary, not a file of the student
                return Part(word.removesuffix(".txt"), "blackboard", match["when"]), ""
            prefix = word[: match.start("rest") - 1]
            return Part(prefix, "blackboard", match["when"]), "/".join(filter(None, [match["rest"], below]))
        if match := CANVAS.fullmatch(word):
            prefix, late = word[: match.start("rest") - 1], "_late_" in word.lower()
            return Part(prefix, "canvas", late=late), "/".join(filter(None, [match["rest"], below]))
        login = word if below else word.removesuffix(".zip")
        if login.casefold() in people.logins and (below or word.endswith(".zip")):
            return Part(login, "plain"), below or word
    return None


def parts(archive: zipfile.ZipFile, people: People) -> tuple[dict[str, list[Part]], dict[str, str]]:
    """Return ({student: parts, newest last}, {name: why it is refused}) for a download."""
    result: dict[str, Part] = {}
    refused: dict[str, str] = {}
    for member in archive.infolist():
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if member.is_dir() or is_rubbish(path):
            continue
        whose = split(str(path), people)
        if whose is None:
            refused[printable(str(path), 80)] = (
                "this name matches no student: it follows neither Moodle, Canvas nor Blackboard, and "
                "contains no known login"
            )
            continue
        part = result.setdefault(whose[0].prefix, whose[0])
        if whose[1]:
            part.members.append((whose[1], member))
    students: dict[str, list[Part]] = {}
    for part in result.values():
        try:
            students.setdefault(people.find(part), []).append(part)
        except SubmissionError as why:
            refused[printable(part.prefix, 80)] = str(why)
    for own in students.values():
        own.sort(key=lambda part: part.order)
    return students, refused


def matched(form: re.Pattern[str], name: str) -> re.Match[str]:
    """Return the match of a name whose form `split` has already verified."""
    match = form.fullmatch(name)
    assert match is not None
    return match


class Budget:
    """Bytes and files that may still be unpacked, per student and in total."""

    def __init__(self, whole: int):
        self.whole, self.own, self.count = whole, LARGEST, MOST

    def file(self) -> None:
        self.count -= 1
        if self.count < 0:
            raise SubmissionError(f"it contains more than {MOST} files")

    def take(self, size: int) -> None:
        self.own, self.whole = self.own - size, self.whole - size
        if self.own < 0:
            raise SubmissionError(f"its files have more than {LARGEST >> 20} MiB in total")
        if self.whole < 0:
            raise CourseError(f"the unpacked download exceeds {WHOLE >> 30} GiB: import it in parts")


def safe(name: str) -> PurePosixPath:
    """Return a path below the student's folder. Raises SubmissionError for a path that leads out of it."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in name or re.match(r"[A-Za-z]:", name):
        raise SubmissionError(f"the path {printable(name, 60)} points outside its folder")
    if len(path.parts) > DEEPEST or len(str(path).encode(errors="replace")) > LONGEST:
        raise SubmissionError(f"the path {printable(name, 60)} is too long")
    return path


def check(member: zipfile.ZipInfo) -> None:
    """Raise SubmissionError unless it is an unencrypted regular file."""
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise SubmissionError(f"{printable(member.filename, 60)} is a link or a special file")
    if member.flag_bits & 1:
        raise SubmissionError(f"{printable(member.filename, 60)} is encrypted")


def copy_member(read: IO[bytes], target: Path, budget: Budget) -> None:
    """Unpack one file, counting its bytes while reading, whatever size the archive declares."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(target, "xb") as written:
        while piece := read.read(PIECE):
            budget.take(len(piece))
            written.write(piece)


def unpack(path: Path, part: Part, target: Path, room: int) -> tuple[dict[Path, tuple[int, ...]], int]:
    """Write a part's files below `target`; return ({path: time in the archive}, bytes left of `room`).

    path: path of the download. room: bytes that all submissions together may still use.
    """
    written, left = limited.call(unpack_here, path, part, target, Budget(room))
    return {target / name: tuple(time) for name, time in written.items()}, left


def unpack_here(
    path: Path, part: Part, target: Path, budget: Budget
) -> tuple[dict[str, tuple[int, ...]], int]:
    """Unpack as `unpack` does, in this process, below `target`; a student's own zip file is unpacked one
    level. Raises SubmissionError."""
    written: dict[Path, tuple[int, ...]] = {}

    def put(opened: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
        check(member)
        budget.file()
        path = target / safe(name)
        if path in written:
            raise SubmissionError(f"it contains two files named {printable(name, 60)}")
        with opened.open(member) as read:
            copy_member(read, path, budget)
        written[path] = member.date_time

    try:
        with zipfile.ZipFile(path) as archive:
            for name, member in part.members:
                if not name.lower().endswith(".zip"):
                    put(archive, member, name)
                    continue
                if member.file_size > NESTED:
                    raise SubmissionError(f"{printable(name, 60)} is larger than {NESTED >> 20} MiB")
                inner = target / ".own.zip"
                check(member)
                with archive.open(member) as read:
                    copy_member(read, inner, budget)
                with zipfile.ZipFile(inner) as own:
                    for item in own.infolist():
                        if not item.is_dir() and not is_rubbish(PurePosixPath(item.filename)):
                            put(own, item, f"{safe(name).with_suffix('')}/{item.filename}")
                inner.unlink()
    except BROKEN as error:
        raise SubmissionError(f"its archive cannot be read: {printable(str(error), 100)}") from None
    except OSError as error:
        if grading_folder.of_the_machine(error):
            raise
        raise SubmissionError(f"it cannot be unpacked: {printable(str(error), 100)}") from None
    return {str(one.relative_to(target)): time for one, time in written.items()}, budget.whole


def choose(found: dict[Path, tuple[int, ...]], wanted: str) -> tuple[Path | None, list[Path]]:
    """Return (the notebook that counts, the others): the exact name; otherwise the newest whose name was
    `wanted` before a platform or a browser renamed it; otherwise the only one."""
    notebooks = sorted(path for path in found if path.suffix == ".ipynb")
    named = [path for path in notebooks if wanted in (path.name, ADDED.sub("", path.name))]
    ranked = sorted(named, key=lambda path: (path.name == wanted, found[path])) or notebooks
    if not named and len(notebooks) != 1:
        return None, notebooks
    return ranked[-1], [path for path in notebooks if path != ranked[-1]]


def import_zip(course: Course, assignment: str, wanted: str, path: Path, people: People) -> Imported:
    """Import a platform's bulk download into the folder of submissions, replacing earlier ones.

    wanted: the file name of the assignment's notebook. Raises CourseError if the zip file cannot be read.
    """
    result, room = Imported(), WHOLE
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, *BROKEN) as error:
        raise CourseError(f"{path} is not a readable zip file: {error}") from None
    with archive:
        if len(archive.infolist()) > MEMBERS:
            raise CourseError(f"{path} contains more than {MEMBERS:,} files: import it in parts")
        students, result.refused = parts(archive, people)
        for student, own in sorted(students.items()):
            try:
                result.notes[student], room = take(course, assignment, wanted, path, student, own, room)
                result.students.append(student)
            except SubmissionError as why:
                result.refused[student] = str(why)
    return result


def take(
    course: Course, assignment: str, wanted: str, path: Path, student: str, own: list[Part], room: int
) -> tuple[list[str], int]:
    """Put a student's newest attempt in place; return (remarks for the instructor, bytes left of `room`)."""
    last = Part(own[-1].prefix, own[-1].platform, own[-1].order, any(part.late for part in own))
    last.members = [item for part in own if part.order == last.order for item in part.members]
    target = course.folder("submitted", student, assignment)
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700, parents=True)
    target.parent.chmod(0o700)
    try:
        unpacked = new / "unpacked"
        times, room = unpack(path, last, unpacked, room)
        if not times:
            raise SubmissionError("it contains no files")
        chosen, others = choose(times, wanted)
        made, notes = new / "made", []
        root = chosen.parent if chosen else unpacked
        made.mkdir(mode=0o700)
        for one in times:
            if one.is_relative_to(root) and one not in others:
                name = Path(wanted) if one == chosen else one.relative_to(root)
                (made / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                one.replace(made / name)
        if chosen is None:
            notes.append(f"no notebook {wanted}" + (f" among {len(others)}" if others else ""))
            for one in others:
                (made / one.relative_to(root)).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                one.replace(made / one.relative_to(root))
        elif chosen.name != wanted:
            notes.append(f"submitted as {printable(chosen.name, 80)}")
        if chosen and others:
            names = ", ".join(printable(str(item.relative_to(unpacked)), 60) for item in others[:5])
            notes.append(f"{len(others)} more notebooks, not imported: {names}")
        if len(own) > 1 and own[0].order != last.order:
            notes.append(f"{len(own)} attempts, of which the one of {last.order} counts")
        if last.late:
            notes.append("late by the platform's clock; no points are taken off here")
        facts = {"folder": last.prefix, "platform": last.platform}
        grading_folder.write(made / "received.json", json.dumps(facts))
        files.replace_folder(made, target)
        return notes, room
    finally:
        shutil.rmtree(new, ignore_errors=True)


def feedback_zip(course: Course, assignment: str, path: Path) -> tuple[list[str], dict[str, str]]:
    """Write the feedback under the names given by the platform and return (students, {student: why not}).

    Moodle accepts the zip file in *Upload multiple feedback files in a zip*, Canvas in *Re-upload
    submissions*. Blackboard has no such upload, so its zip file contains a folder per login.
    """
    given, left, known = [], {}, list(imported(course, assignment))
    if not known:
        raise CourseError(
            f"no submission of {assignment} was imported: grade import {assignment[:2]} FILE.zip"
        )
    on_disk = grading_folder.GradingFolder(grading_folder.runs(course.coursedir), assignment)
    with files.writing(path, mode=0o600) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, facts in known:
            pages = sorted(course.folder("feedback", student, assignment).glob("*.html"))
            if not pages:
                left[student] = f"has no feedback; run `grade run` and `give-back {assignment[:2]}` first"
                continue
            if min(page.stat().st_mtime for page in pages) < on_disk.recorded(student).get("time", 0):
                left[student] = (
                    f"has feedback older than the points; run `grade give-back {assignment[:2]}` again"
                )
                continue
            prefix = facts["folder"]
            for page in pages:
                joined = {"moodle": f"{prefix}/{page.name}", "canvas": f"{prefix}_{page.name}"}
                archive.write(page, joined.get(facts["platform"], f"{student}/{page.name}"))
            given.append(student)
    return given, left


def imported(course: Course, assignment: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (student, facts of the import) for all submissions imported from a platform's zip file."""
    pattern = course.folder("submitted", "*", assignment)
    for folder in sorted(pattern.parents[1].glob(f"[!.]*/{assignment}")):
        facts = grading_folder.load(folder / "received.json")
        if facts and facts.get("platform"):
            yield folder.parent.name, facts
