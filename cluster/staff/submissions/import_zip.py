"""Submissions from the bulk download of a learning platform, and feedback as a zip file for its upload.

Nothing in a platform's zip file is trusted, because it contains students' data. platform_names.py identifies
the student of each file. Sizes are counted while reading, links and names that lead out of the folder are
refused, and errors affect only their submission. An import never overwrites a submission: one that was not
imported from the same person's uploads stays, and a replaced one is kept in `.grading/replaced/`.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from cluster.system import files
from cluster.system.text import printable

from .. import limited
from ..course import Course, CourseError, SubmissionError
from ..work_files import DEEPEST, LARGEST, LONGEST, MOST, NOT_KEPT, NOT_WORK
from . import grading_folder, platform_names
from .platform_names import People, Reading

MEMBERS = 200_000  # maximum files in the whole download
WHOLE = 20 * 2**30  # maximum bytes of the whole download, unpacked
NESTED = 2**28  # maximum bytes of a student's own zip file
PIECE = 2**20  # bytes read at a time
SUMMARY = 4096  # bytes read from Blackboard's summary of an attempt; its first line ends with (LOGIN)
# What platforms, browsers and people add to the name of a notebook, one at a time.
ADDED = re.compile(r"(?i)^(?:late_|copy of )|(?:\(\d+\)|- ?copy(?: ?\d+)?|-\d{1,2}| +)(?=\.ipynb$)")
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass
class Part:
    """One student's part of a download.

    prefix and id: the platform's identifiers of the submission and of the person.
    """

    prefix: str
    platform: str
    id: str
    order: str = ""  # time of the attempt, in Blackboard's names
    late: bool = False
    members: list[tuple[str, zipfile.ZipInfo]] = field(default_factory=list)  # (path in the part, member)


@dataclass
class Imported:
    """The outcome of an import: names of students; `refused` contains folders or files, with the reason."""

    students: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)  # the students who already had the same submission
    notes: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # about the whole import

    def refuse(self, name: str, why: str) -> None:
        """Add a folder or file with a reason. Several reasons have an entry each."""
        key, number = printable(name), 1
        while self.refused.setdefault(key, why) != why:
            number += 1
            key = f"{printable(name)} ({number})"


def is_rubbish(path: PurePosixPath) -> bool:
    """Return whether macOS, Windows or Jupyter, rather than the student, added this file to the archive."""
    return (
        any(part in (*NOT_KEPT, *NOT_WORK, "__MACOSX") for part in path.parts)
        or path.name.startswith("._")
        or path.name in (".DS_Store", "Thumbs.db", "desktop.ini")
    )


def path_of(member: zipfile.ZipInfo) -> PurePosixPath:
    """Return a member's path. Some platforms write UTF-8 without the flag for it, which reads as code page
    437."""
    name = member.filename
    if not member.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return PurePosixPath(name.replace("\\", "/"))


def parts(
    archive: zipfile.ZipFile, people: People, chosen: str | None, result: Imported
) -> dict[str, list[Part]]:
    """Return {student: parts, newest last} of a download; what is refused is added to `result`."""
    members = [(path_of(one), one) for one in archive.infolist() if not one.is_dir()]
    members = [(path, one) for path, one in members if not is_rubbish(path)]
    platform, depth = platform_names.recognise([path.parts for path, _ in members], people, chosen)
    if platform == "moodle" and not people.numbered(platform):
        result.remarks.append(
            "people are matched by name, which they may change: prefer Moodle's grading worksheet with --like"
        )
    named: list[tuple[list[Reading], str, zipfile.ZipInfo]] = []
    summaries: dict[str, set[str]] = {}
    for path, member in members:
        if not (ways := platform_names.read(platform, path.parts, depth)):
            form = f"the form of {platform_names.CALLED[platform]}"
            if platform == "logins":
                form = "the form of Moodle, Canvas or Blackboard, nor in a folder or zip named by a login"
            result.refuse(str(path), f"this name matches no student: it is not in {form}")
            continue
        below = "/".join(path.parts[depth + 1 :])
        named.append((ways, below, member))
        if platform == "blackboard" and not below and not ways[0].rest:
            summaries.setdefault(ways[0].name, set()).update(login_in(archive, member))
    found: dict[tuple[str, str], Part] = {}
    owners = platform_names.identify(platform, [ways for ways, *_ in named], summaries, people)
    for (ways, below, member), (one, student, why) in zip(named, owners, strict=True):
        if why:
            result.refuse(one.prefix, why)
            continue
        part = found.setdefault((student, one.order), Part(one.prefix, platform, one.id, one.order))
        part.prefix, part.late = one.prefix, part.late or one.late
        name = "/".join(filter(None, [one.rest, below]))
        if name and not is_rubbish(PurePosixPath(name)):
            part.members.append((name, member))
        others = sorted({other.id for other in ways} - {one.id}) if len(ways) > 1 else ()
        if others:  # the form of Canvas
            result.remarks.append(
                f"{printable(one.prefix, 80)}: if the table is older than the download, this could be from"
                f" {' or '.join(others)} instead of {one.id}"
            )
    students: dict[str, list[Part]] = {}
    for (student, _), part in sorted(found.items()):
        students.setdefault(student, []).append(part)
    return students


def login_in(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> set[str]:
    """Return the login in Blackboard's own summary of an attempt, if there is one, or "" for a summary that
    cannot be read."""
    try:
        check(member)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return {""}  # others can take much memory
        with archive.open(member) as read:
            text = read.read(SUMMARY)
    except (OSError, SubmissionError, *BROKEN):
        return {""}
    line, end, _ = text.decode("utf-8-sig", "replace").partition("\n")
    if not end and len(text) == SUMMARY:  # the end of the line is missing
        return {""}
    return {match[1]} if (match := re.search(r"\(([^()]+)\)\s*$", line)) else set()


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
                        name_inside = item.filename.replace("\\", "/")
                        if not name_inside.endswith("/") and not is_rubbish(PurePosixPath(name_inside)):
                            put(own, item, f"{safe(name).with_suffix('')}/{item.filename}")
                inner.unlink()
    except BROKEN as error:
        raise SubmissionError(f"its archive cannot be read: {printable(str(error), 100)}") from None
    except OSError as error:
        if grading_folder.of_the_machine(error):
            raise
        raise SubmissionError(f"it cannot be unpacked: {printable(str(error), 100)}") from None
    return {str(one.relative_to(target)): time for one, time in written.items()}, budget.whole


def original(name: str) -> str:
    """Return a notebook's name without what platforms, browsers and people add to it."""
    while (shorter := ADDED.sub("", name, count=1)) != name:
        name = shorter
    return name


def choose(found: dict[Path, tuple[int, ...]], wanted: str) -> tuple[Path | None, list[Path]]:
    """Return (the notebook that counts, the others): the exact name; otherwise the newest whose name was
    `wanted` before a platform or a browser renamed it; otherwise the only one."""
    notebooks = sorted(path for path in found if path.suffix == ".ipynb")
    named = [path for path in notebooks if wanted in (path.name, original(path.name))]
    ranked = sorted(named, key=lambda path: (path.name == wanted, found[path])) or notebooks
    if not named and len(notebooks) != 1:
        return None, notebooks
    return ranked[-1], [path for path in notebooks if path != ranked[-1]]


def import_zip(
    course: Course, assignment: str, wanted: str, path: Path, people: People, platform: str | None = None
) -> Imported:
    """Import a platform's bulk download into the folder of submissions, replacing earlier ones of the same
    person.

    wanted: the file name of the assignment's notebook. platform: a key of `platform_names.FORMS`, or None to
    recognise it. Raises CourseError if the zip file cannot be read or its platform is uncertain.
    """
    result, room = Imported(), WHOLE
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, *BROKEN) as error:
        raise CourseError(f"{path} is not a readable zip file: {error}") from None
    with archive:
        if len(archive.infolist()) > MEMBERS:
            raise CourseError(f"{path} contains more than {MEMBERS:,} files: import it in parts")
        for student, own in sorted(parts(archive, people, platform, result).items()):
            try:
                notes, changed, room = take(course, assignment, wanted, path, student, own, room)
                result.notes[student] = notes
                result.students.append(student)
                if not changed:
                    result.unchanged.append(student)
            except (SubmissionError, OSError) as why:
                if grading_folder.of_the_machine(why):
                    raise
                result.refuse(student, printable(str(why), 2000))
    return result


def take(
    course: Course, assignment: str, wanted: str, path: Path, student: str, own: list[Part], room: int
) -> tuple[list[str], bool, int]:
    """Put a student's newest attempt in place; return (remarks for the instructor, whether it differs from
    the submission that was there, bytes left of `room`)."""
    last = own[-1]
    target = course.folder("submitted", student, assignment)
    facts = {"folder": last.prefix, "platform": last.platform, "id": last.id}
    replaced = target.with_name(f".{target.name}.old")
    if replaced.exists() and not target.exists():  # an earlier command was killed while replacing it
        replaced.rename(target)
    refuse_another(target, facts)
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
        if len(own) > 1:
            notes.append(f"{len(own)} attempts, of which the one of {last.order} counts")
        if any(part.late for part in own):
            notes.append("late by the platform's clock; no points are taken off here")
        grading_folder.write(made / "received.json", json.dumps(facts))
        if target.exists():
            if same(made, target):
                return notes, False, room
            notes.append(
                f"differs from the submission imported before, which is kept in {keep(course, target)}"
            )
        files.replace_folder(made, target)
        return notes, True, room
    finally:
        shutil.rmtree(new, ignore_errors=True)


def refuse_another(target: Path, facts: dict[str, str]) -> None:
    """Raise SubmissionError if a submission is in place that does not have the same platform and ID."""
    if not target.exists():
        return
    before = grading_folder.load(target / "received.json")
    before = before if isinstance(before, dict) else {}
    if f"_{facts['id']}_" in f"_{before.get('folder')}_":  # earlier versions wrote no ID
        before = {"id": facts["id"]} | before
        if before.get("platform") == "plain":
            before["platform"] = "logins"
    if any(before.get(key) != facts[key] for key in ("platform", "id")):
        origin = f"from {printable(str(before['folder']), 80)}" if "folder" in before else "by other means"
        raise SubmissionError(
            f"{target} contains a submission received {origin}, and this one is"
            f" {printable(facts['folder'], 80)}. The former stays; to import the latter, move it away"
        )


def same(one: Path, other: Path) -> bool:
    """Return whether two folders contain the same files."""
    names, others = (
        {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}
        for folder in (one, other)
    )
    return names == others and all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)


def keep(course: Course, submission: Path) -> Path:
    """Copy a submission to a folder that nbgrader does not search, and return its path."""
    folder = course.private / "replaced" / submission.parent.name / submission.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = 1 + max((int(old.name) for old in folder.iterdir() if old.name.isdecimal()), default=0)
    new = folder / f".{number}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(submission, new, symlinks=True)
    files.replace_folder(new, folder / str(number))
    return folder / str(number)


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
