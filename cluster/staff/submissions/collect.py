"""Collect students' submissions through nbgrader's exchange, without trusting anything they could forge.

nbgrader's own collect follows links, takes the student and the time from the folder's name, and leaves copies
that all users can write. Here, the student is the folder's owner, and the time is the server's (ctime, which
users cannot set). Links and special files are refused, and only the grader can read the copies.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.system import files
from cluster.system.text import printable

from ..course import CourseError, SubmissionError
from ..work_files import LARGEST, NOT_KEPT, entries
from . import exchange, grading_folder

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}")


@dataclass
class Handed:
    """A submission in the exchange. student: from its name. when: last change by the server's clock."""

    folder: Path
    student: str
    owner: str
    when: datetime.datetime


def found(inbox: Path, assignment: str, check_owner: bool = True) -> tuple[list[Handed], dict[str, str]]:
    """Return ([Handed], {folder: why it is refused}) of an assignment, from STUDENT+ASSIGNMENT+TIME… in the
    inbound folder.

    A name with a leading dot is a submission that is still being written.
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
            taken.append(examine(inbox / name, assignment, check_owner))
        except (SubmissionError, OSError) as why:
            refused[printable(name)] = printable(str(why))
    return taken, refused


def examine(folder: Path, assignment: str, check_owner: bool) -> Handed:
    student = folder.name.partition(f"+{assignment}+")[0]
    if not NAME.fullmatch(student):
        raise SubmissionError(f"“{printable(student)}” is not a student's name")
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise SubmissionError("it is a link or a file, not a folder")
    owner = exchange.user(about.st_uid)
    if check_owner and owner != student:
        raise SubmissionError(f"it claims to be {student}'s, but belongs to {owner}")
    times = [about.st_ctime]
    for _, entry in walk(folder):
        if check_owner and entry.st_uid != about.st_uid:
            raise SubmissionError(f"it contains a file that belongs to {exchange.user(entry.st_uid)}")
        times.append(entry.st_ctime)
    # The last step of submitting writes timestamp.txt, so on a full disk the file is missing or empty.
    stamp = folder / "timestamp.txt"
    if not stamp.is_file() or not stamp.stat().st_size:
        raise SubmissionError(
            "it is incomplete: timestamp.txt is missing, because submitting was interrupted or is still "
            "running; an earlier complete submission counts until the student submits again"
        )
    when = datetime.datetime.fromtimestamp(max(times), datetime.UTC)
    return Handed(folder, student, owner, when)


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (relative path, lstat) for all contents. Raises SubmissionError for links and special files."""
    size = 0
    for name, entry in entries(folder):
        about, shown = entry.stat(follow_symlinks=False), printable(name)
        if stat.S_ISLNK(about.st_mode):
            raise SubmissionError(f"{shown} is a link to {printable(os.readlink(entry.path))}")
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            raise SubmissionError(f"{shown} is neither a file nor a folder")
        if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
            raise SubmissionError(f"{shown} has more than one hard link")
        if (size := size + about.st_size) > LARGEST:
            raise SubmissionError(f"its files have more than {LARGEST >> 20} MiB in total")
        yield name, about


def copy(source: Path | str, target: Path, owners: set[int] | None) -> None:
    """Copy with modes 0700 and 0600 and without following links, even if a file is replaced by a link
    meanwhile.

    owners: the user IDs whose files are accepted, or None for any.
    """
    target.mkdir(mode=0o700)
    descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in sorted(os.listdir(descriptor)):
            if name in NOT_KEPT:
                continue
            about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                copy(f"/proc/self/fd/{descriptor}/{name}", target / name, owners)
                continue
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
            with open(fd, "rb") as read:
                about = os.fstat(fd)
                own = owners is None or about.st_uid in owners
                if not (stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and own):
                    raise SubmissionError(f"{printable(name)} was replaced while it was being copied")
                with open(target / name, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as written:
                    shutil.copyfileobj(read, written)
    except OSError as error:
        if grading_folder.of_the_machine(error):
            raise
        raise SubmissionError(f"it changed or could not be read while it was being copied: {error}") from None
    finally:
        os.close(descriptor)


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


def take(coursedir: CourseDirectory, assignment: str, one: Handed, check_owner: bool = True) -> bool:
    """Copy one submission into the course's folder; return False if the same one is already there."""
    target = Path(coursedir.format_path(coursedir.submitted_directory, one.student, assignment))
    facts = {"folder": one.folder.name, "owner": one.owner, "received": one.when.isoformat()}
    if grading_folder.load(target / "received.json") == facts:
        return False
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for parent in (target.parents[2], target.parents[1], target.parent):
        parent.mkdir(mode=0o700, exist_ok=True)
    target.parent.chmod(0o700)
    try:
        copy(one.folder, new, {one.folder.lstat().st_uid} if check_owner else None)
        (new / "timestamp.txt").unlink(missing_ok=True)
        grading_folder.write(new / "timestamp.txt", one.when.strftime("%Y-%m-%d %H:%M:%S.%f UTC"))
        grading_folder.write(new / "received.json", json.dumps(facts))
        files.replace_folder(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return True


def collect(
    coursedir: CourseDirectory,
    assignment: str,
    where: Path | str,
    *,
    student: str | None = None,
    check_owner: bool = True,
    due: Callable[[str], datetime.datetime | None] | None = None,
) -> tuple[dict[str, Handed], list[str], dict[str, str]]:
    """Collect the submissions of all students, or of one, from `where`. Returns {student: Handed} of new
    submissions, the students with nothing new, and {folder: why it is refused}."""
    taken, refused = found(Path(where), assignment, check_owner)
    taken = [item for item in taken if student in (None, item.student)]
    new, same = {}, []
    for student, one in sorted(newest(taken, due).items()):
        try:
            if take(coursedir, assignment, one, check_owner):
                new[student] = one
            else:
                same.append(student)
        except (SubmissionError, OSError) as why:
            if grading_folder.of_the_machine(why):
                raise CourseError(f"{why}. Nothing is lost. Fix the problem and collect again") from why
            refused[printable(one.folder.name)] = printable(str(why))
    return new, same, refused
