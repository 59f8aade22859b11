"""Collect students' submissions through nbgrader's exchange, without trusting anything they could forge.

nbgrader's own collect follows links, takes the student and the time from the folder's name, and leaves copies
that all users can write. Here, the student is the folder's owner, and the time is the server's (ctime, which
users cannot set). Links and special files are refused, and only the grader can read the copies.

`received.json` next to a copy records when each folder was received, and a digest of its files. A folder that
is found again with the same files keeps its time, because ctime changes with permissions, too. With other
files, it is a new submission. A collected submission is never replaced by one that was received earlier,
unless a due date decides between them; the replaced one is then kept in `.grading/replaced/`.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from cluster.system import files
from cluster.system.text import printable

from ..course import Course, CourseError, SubmissionError
from ..work_files import LARGEST, NOT_KEPT, NOT_WORK, TooMuchWork, entries
from . import exchange, grading_folder, import_zip

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

ALWAYS = ("runs", "timestamp.txt")  # collected even from a folder that is too large
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}")


@dataclass
class Handed:
    """A submission in the exchange, or one that was collected and is no longer there.

    student: from its name. when: last change by the server's clock, or when these files were first received.
    left_out: what lies next to the notebook and is not collected, because the folder is too large with it.
    """

    folder: Path
    student: str
    owner: str
    when: datetime.datetime
    left_out: tuple[str, ...] = ()
    digest: str = ""

    def has(self, name: str) -> bool:
        """Return whether a name directly in the folder belongs to the submission."""
        return name not in self.left_out


class Collected(NamedTuple):
    """The outcome: {student: Handed} of new submissions, the students with nothing new, {folder: why it is
    refused}, and {student: what an instructor should know}."""

    new: dict[str, Handed]
    same: list[str]
    refused: dict[str, str]
    notes: dict[str, list[str]]


def found(
    inbox: Path, assignment: str, check_owner: bool = True, known: Collection[str] = ()
) -> tuple[list[Handed], dict[str, str]]:
    """Return ([Handed], {folder: why it is refused}) of an assignment, from STUDENT+ASSIGNMENT+TIME… in the
    inbound folder.

    A name with a leading dot is a submission that is still being written. known: names of the assignment's
    own files, which are collected even if the folder is too large.
    """
    if why := exchange.shut(inbox):
        raise CourseError(why)
    try:
        names = sorted(name for name in os.listdir(inbox) if f"+{assignment}+" in name and name[0] != ".")
    except OSError:
        raise CourseError(
            f"there is no folder {inbox}; use --inbox to name the folder that students submit to"
        ) from None
    taken, refused = [], {}
    for name in names:
        try:
            taken.append(examine(inbox / name, assignment, check_owner, known))
        except (SubmissionError, OSError) as why:
            refused[printable(name)] = printable(str(why))
    return taken, refused


def examine(folder: Path, assignment: str, check_owner: bool, known: Collection[str] = ()) -> Handed:
    student = folder.name.partition(f"+{assignment}+")[0]
    if not NAME.fullmatch(student):
        raise SubmissionError(f"“{printable(student)}” is not a student's name")
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise SubmissionError("it is a link or a file, not a folder")
    owner = exchange.user(about.st_uid)
    if check_owner and owner != student:
        raise SubmissionError(f"it claims to be {student}'s, but belongs to {owner}")
    one = Handed(folder, student, owner, datetime.datetime.now(datetime.UTC))
    try:
        contents = list(walk(one))
    except TooMuchWork:
        others = (name for name in os.listdir(folder) if name not in known and not name.endswith(".ipynb"))
        one.left_out = tuple(sorted(name for name in others if name not in ALWAYS))
        contents = list(walk(one))
        if not any(name.endswith(".ipynb") for name, _ in contents):
            raise  # nothing could be graded
    for _, entry in contents:
        if check_owner and entry.st_uid != about.st_uid:
            raise SubmissionError(f"it contains a file that belongs to {exchange.user(entry.st_uid)}")
    # The last step of submitting writes timestamp.txt, so on a full disk the file is missing or empty.
    stamp = folder / "timestamp.txt"
    if not stamp.is_file() or not stamp.stat().st_size:
        raise SubmissionError(
            "it is incomplete: timestamp.txt is missing, because submitting was interrupted or is still "
            "running; an earlier complete submission counts until the student submits again"
        )
    last = max([about.st_ctime, *(entry.st_ctime for _, entry in contents)])
    one.when = datetime.datetime.fromtimestamp(last, datetime.UTC)
    return one


def walk(one: Handed) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (relative path, lstat) of the contents. Raises SubmissionError for links and special files, and
    TooMuchWork."""
    size = 0
    for name, entry in entries(one.folder, only=one.has):
        about, shown = entry.stat(follow_symlinks=False), printable(name)
        if stat.S_ISLNK(about.st_mode):
            raise SubmissionError(f"{shown} is a link to {printable(os.readlink(entry.path))}")
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            raise SubmissionError(f"{shown} is neither a file nor a folder")
        if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
            raise SubmissionError(f"{shown} has more than one hard link")
        if (size := size + about.st_size) > LARGEST:
            raise TooMuchWork(f"its files have more than {LARGEST >> 20} MiB in total")
        yield name, about


def opened(one: Handed, check_owner: bool) -> Iterator[tuple[str, BinaryIO]]:
    """Yield (relative path, open file), sorted, even if a file is replaced by a link meanwhile.

    Raises SubmissionError if the folder changes or cannot be read.
    """
    owner = one.folder.lstat().st_uid if check_owner else None

    def inside(source: Path | str, above: str) -> Iterator[tuple[str, BinaryIO]]:
        descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in sorted(os.listdir(descriptor)):
                if name in NOT_KEPT or (not above and not one.has(name)):
                    continue
                about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    yield from inside(f"/proc/self/fd/{descriptor}/{name}", f"{above}{name}/")
                    continue
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
                with open(fd, "rb") as read:
                    about = os.fstat(fd)
                    own = owner in (None, about.st_uid)
                    if not (stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and own):
                        raise SubmissionError(f"{printable(name)} was replaced while it was being copied")
                    yield above + name, read
        finally:
            os.close(descriptor)

    try:
        yield from inside(one.folder, "")
    except OSError as error:
        if grading_folder.of_the_machine(error):
            raise
        raise SubmissionError(f"it changed or could not be read while it was being copied: {error}") from None


def digest(one: Handed, check_owner: bool) -> str:
    """Return a digest of the names and contents of a submission's files, apart from the exchange's own."""
    whole = hashlib.sha256()
    for name, read in opened(one, check_owner):
        if name not in NOT_WORK:
            content = hashlib.file_digest(read, "sha256").hexdigest()  # type: ignore[arg-type]
            whole.update(f"{content} {os.fsencode(name).hex()}\n".encode())
    return whole.hexdigest()


def copy(one: Handed, target: Path, check_owner: bool) -> None:
    """Copy a submission with modes 0700 and 0600."""
    target.mkdir(mode=0o700)
    for name, read in opened(one, check_owner):
        for folder in reversed(PurePath(name).parents[:-1]):
            (target / folder).mkdir(mode=0o700, exist_ok=True)
        with open(target / name, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as written:
            shutil.copyfileobj(read, written)


def newest(
    taken: list[Handed], due: Callable[[str], datetime.datetime | None] | None = None
) -> dict[str, Handed]:
    """Return {student: Handed that counts}: the newest, or with `due` (per student) the newest on time."""
    chosen = {}
    for item in sorted(taken, key=lambda one: one.when):
        limit = due(item.student) if due else None
        late = limit is not None and item.when.replace(tzinfo=None) > limit
        if item.student not in chosen or not late:
            chosen[item.student] = item
    return chosen


def record(target: Path) -> dict[str, Any]:
    """Return what is known of a collected submission: folder, owner, received, digest, and `seen`, which is
    {folder: [when its files were first received, their digest, its last ctime]}; {} if there is none."""
    facts = grading_folder.load(target / "received.json")
    if not isinstance(facts, dict) or "received" not in facts:
        return {}
    if "digest" not in facts:  # collected by an earlier version
        when = datetime.datetime.fromisoformat(facts["received"])
        facts["digest"] = digest(Handed(target, target.parent.name, "", when), check_owner=False)
        facts["seen"] = {facts["folder"]: [facts["received"], facts["digest"], facts["received"]]}
    return facts


def settle(one: Handed, facts: dict[str, Any], check_owner: bool) -> list[str]:
    """Give a submission its digest, and the time when its files were first received; record both.

    facts: `record` of the student. Returns what an instructor should know.
    """
    changed = one.when.isoformat()
    first, content, last = facts["seen"].get(one.folder.name, (changed, "", ""))
    one.digest = content if last == changed else digest(one, check_owner)
    notes = []
    if one.digest == content:
        one.when = datetime.datetime.fromisoformat(first)
        if last != changed:
            name = printable(one.folder.name)
            notes.append(f"{name} has a later time now, but the same files: its time stays")
    facts["seen"][one.folder.name] = [one.when.isoformat(), one.digest, changed]
    return notes


def identity(one: Handed) -> tuple[str, str]:
    return one.folder.name, one.digest


def take(course: Course, target: Path, one: Handed, facts: dict[str, Any], check_owner: bool) -> None:
    """Copy a submission into the course's folder; keep one that was received later than it."""
    if target.exists() and facts.get("received", "9") > one.when.isoformat():
        import_zip.keep(course, target)
    now = {"folder": one.folder.name, "owner": one.owner, "received": one.when.isoformat()}
    now |= {"digest": one.digest, "seen": facts["seen"]}
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for parent in (target.parents[2], target.parents[1], target.parent):
        parent.mkdir(mode=0o700, exist_ok=True)
    target.parent.chmod(0o700)
    try:
        copy(one, new, check_owner)
        (new / "timestamp.txt").unlink(missing_ok=True)
        grading_folder.write(new / "timestamp.txt", one.when.strftime("%Y-%m-%d %H:%M:%S.%f UTC"))
        grading_folder.write(new / "received.json", json.dumps(now))
        files.replace_folder(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def collect(
    coursedir: CourseDirectory,
    assignment: str,
    where: Path | str,
    *,
    student: str | None = None,
    check_owner: bool = True,
    due: Callable[[str], datetime.datetime | None] | None = None,
) -> Collected:
    """Collect the submissions of all students, or of one, from `where`."""
    release = Path(coursedir.format_path(coursedir.release_directory, ".", assignment))
    known = os.listdir(release) if release.is_dir() else ()
    taken, refused = found(Path(where), assignment, check_owner, known)
    result = Collected({}, [], refused, {})
    of_each: dict[str, list[Handed]] = {}
    for item in taken:
        if student in (None, item.student):
            of_each.setdefault(item.student, []).append(item)
    for name, own in sorted(of_each.items()):
        target = Path(coursedir.format_path(coursedir.submitted_directory, name, assignment))
        facts = {"seen": {}} | record(target)
        notes, candidates = [], []
        for one in own:
            with refusing(one, refused):
                notes += settle(one, facts, check_owner)
                candidates.append(one)
        collected = facts.get("folder"), facts.get("digest")
        if "digest" in facts and collected not in [identity(one) for one in candidates]:
            gone, when = Path(facts["folder"]), datetime.datetime.fromisoformat(facts["received"])
            candidates.append(Handed(gone, name, facts["owner"], when, digest=facts["digest"]))
            notes.append(f"{printable(gone.name)}, collected before, is gone or was changed in the exchange")
        chosen = newest(candidates, due).get(name)
        if chosen and identity(chosen) != collected:
            with refusing(chosen, refused):
                take(Course(coursedir.root), target, chosen, facts, check_owner)
                result.new[name] = chosen
        elif chosen:
            grading_folder.write(target / "received.json", json.dumps(facts))
            result.same.append(name)
        if chosen and chosen.left_out:
            notes.append(f"left out: {', '.join(map(printable, chosen.left_out[:10]))}")
        if notes:
            result.notes[name] = notes
    return result


@contextlib.contextmanager
def refusing(one: Handed, refused: dict[str, str]) -> Iterator[None]:
    """Enter a submission that cannot be read into `refused`. Raises CourseError if the machine failed."""
    try:
        yield
    except (SubmissionError, OSError) as why:
        if grading_folder.of_the_machine(why):
            raise CourseError(f"{why}. Nothing is lost. Fix the problem and collect again") from why
        refused[printable(one.folder.name)] = printable(str(why))
