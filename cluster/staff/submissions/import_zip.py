"""Submissions from the bulk download of a learning platform, and feedback as a zip file for its upload.

Nothing in a platform's zip file is trusted, because it contains students' data. platform_names.py identifies
the student of each file, safe_zip.py unpacks it, and errors affect only their submission. An import never
overwrites a submission: one that was not imported from the same person's uploads stays, and a replaced one is
kept in `.grading/replaced/`.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cluster.system import files
from cluster.system.text import printable

from ..course import Course, CourseError, SubmissionError
from ..work_files import LARGEST, MOST
from . import grading_folder, platform_names, safe_zip
from .platform_names import People, Reading
from .safe_zip import is_rubbish

MEMBERS = 200_000  # maximum files in the whole download
WHOLE = 20 * 2**30  # maximum bytes of the whole download, unpacked
SUMMARY = 4096  # bytes read from Blackboard's summary of an attempt; its first line ends with (LOGIN)
# What platforms, browsers and people add to the name of a notebook, one at a time.
ADDED = re.compile(r"(?i)^(?:late_|copy of )|(?:\(\d+\)|- ?copy(?: ?\d+)?|-\d{1,2}| +)(?=\.ipynb$)")


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
            form = platform_names.names([platform])
            result.refuse(str(path), f"this name matches no student: it is not in the form of {form}")
            continue
        below = "/".join(path.parts[depth + 1 :])
        named.append((ways, below, member))
        if platform == "blackboard" and not below and not ways[0].rest:
            summaries.setdefault(ways[0].name, set()).add(login_in(archive, member))
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


def login_in(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    """Return the login in Blackboard's own summary of an attempt, or "" if it cannot be read."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return ""  # others can take much memory
    try:
        start = next(safe_zip.pieces(archive, member), b"")[:SUMMARY]
    except SubmissionError:
        return ""
    text = start.decode("utf-8-sig", "replace")
    match = re.match(r"[^\n]*\(([^()\n]+)\)\s*\n", text)
    return match[1] if match else ""


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
        archive = safe_zip.opened(path)
    except (OSError, SubmissionError) as error:
        raise CourseError(f"{path} is not a readable zip file: {error}") from None
    with archive:
        if len(archive.infolist()) > MEMBERS:
            raise CourseError(f"{path} contains more than {MEMBERS:,} files: import it in parts")
        everyone = parts(archive, people, platform, result)
    for student, own in sorted(everyone.items()):
        try:
            notes, changed, size = take(course, assignment, wanted, path, student, own)
        except (SubmissionError, OSError) as why:
            if grading_folder.of_the_machine(why):
                raise
            result.refuse(student, printable(str(why), 2000))
            continue
        result.notes[student] = notes
        result.students.append(student)
        if not changed:
            result.unchanged.append(student)
        room -= size
        if room < 0:
            raise CourseError(f"the unpacked download exceeds {WHOLE >> 30} GiB: import it in parts")
    return result


def take(
    course: Course, assignment: str, wanted: str, path: Path, student: str, own: list[Part]
) -> tuple[list[str], bool, int]:
    """Put a student's newest attempt in place; return (remarks for the instructor, whether it differs from
    the submission that was there, its size in bytes)."""
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
        notes, made, size = unpack(path, last, new, wanted)
        if len(own) > 1:
            notes.append(f"{len(own)} attempts, of which the one of {last.order} counts")
        if any(part.late for part in own):
            notes.append("late by the platform's clock; no points are taken off here")
        grading_folder.write(made / "received.json", json.dumps(facts))
        if target.exists():
            if same(made, target):
                return notes, False, size
            notes.append(
                f"differs from the submission imported before, which is kept in {keep(course, target)}"
            )
        files.replace_folder(made, target)
        return notes, True, size
    finally:
        shutil.rmtree(new, ignore_errors=True)


def unpack(path: Path, part: Part, new: Path, wanted: str) -> tuple[list[str], Path, int]:
    """Unpack a part of a download; return (remarks, the folder in `new` with the submission, its bytes).

    The submission is the folder of the notebook that counts, or everything if there is none.
    """
    unpacked, made, notes = new / "unpacked", new / "made", []
    found = safe_zip.unpack(path, unpacked, part.members, largest=LARGEST, most=MOST, nested=True)
    if not found:
        raise SubmissionError("it contains no files")
    times = {unpacked / name: time for name, time in found.items()}
    size = sum(one.stat().st_size for one in times)
    chosen, others = choose(times, wanted)
    if chosen is None:
        notes.append(f"no notebook {wanted}" + (f" among {len(others)}" if others else ""))
    elif chosen.name != wanted:
        notes.append(f"submitted as {printable(chosen.name, 80)}")
    if chosen and others:
        names = ", ".join(printable(str(item.relative_to(unpacked)), 60) for item in others[:5])
        notes.append(f"{len(others)} more notebook{'s' * (len(others) > 1)}, not imported: {names}")
    root = chosen.parent if chosen else unpacked
    for one in times:
        if one.is_relative_to(root) and not (chosen and one in others):
            name = Path(wanted) if one == chosen else one.relative_to(root)
            (made / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            one.replace(made / name)
    return notes, made, size


def refuse_another(target: Path, facts: dict[str, str]) -> None:
    """Raise SubmissionError if a submission is in place that does not have the same platform and ID."""
    if not target.exists():
        return
    before = grading_folder.load(target / "received.json")
    before = before if isinstance(before, dict) else {}
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
