"""Unpack an archive filled by students, without trusting its names, its sizes or its kinds of files."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from cluster.system.text import printable

from .. import limited
from ..course import SubmissionError
from ..work_files import DEEPEST, LONGEST, NOT_KEPT, NOT_WORK
from . import grading_folder

PIECE = 2**20  # bytes read at a time
REMEDY = "pack the folder again as an ordinary ZIP file, without a password"
Members = Sequence[tuple[str, zipfile.ZipInfo]]  # files of an archive, and the paths to write them to


def unpack(
    path: Path,
    target: Path,
    members: Members | None = None,
    *,
    largest: int,
    most: int,
    nested: bool = False,
    seconds: int = limited.SECONDS,
) -> dict[str, tuple[int, ...]]:
    """Write files of an archive below `target` and return {path below it: time in the archive}.

    members: what to unpack (default: all files). largest: maximum bytes of all files together, counted while
    reading. most: maximum number of files. nested: unpack archives in the archive, too, one level, each into
    a folder of its name. seconds: limit of CPU time. Raises SubmissionError.
    """
    times = limited.call(extract, path, target, members, largest, most, nested, seconds=seconds)
    return {name: tuple(time) for name, time in times.items()}


def extract(
    path: Path, target: Path, members: Members | None, largest: int, most: int, nested: bool
) -> dict[str, tuple[int, ...]]:
    """Do what `unpack` does, in this process."""
    files = Unpacking(target, largest, most)
    with opened(path) as archive:
        if members is None:
            members = [(one.filename, one) for one in archive.infolist() if not one.is_dir()]
        for name, member in members:
            add = files.add_archive if nested and name.lower().endswith(".zip") else files.add
            try:
                add(archive, member, name)
            except OSError as error:
                if grading_folder.of_the_machine(error):
                    raise
                what = f"{printable(name, 60)} cannot be written: {printable(str(error.strerror), 100)}"
                raise SubmissionError(what) from None
    return files.times


class Unpacking:
    """The files written so far: their times, and how many bytes may follow."""

    def __init__(self, target: Path, room: int, most: int):
        self.target, self.room, self.most = target, room, most
        self.largest = room
        self.times: dict[str, tuple[int, ...]] = {}

    def add(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
        """Write a file."""
        path = safe(name)
        if str(path) in self.times:
            raise SubmissionError(f"it contains two files named {printable(name, 60)}")
        if len(self.times) == self.most:
            raise SubmissionError(f"it contains more than {self.most} files")
        self.write(archive, member, self.target / path)
        self.times[str(path)] = member.date_time

    def add_archive(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
        """Write the files of an archive in the archive."""
        inner = self.target / ".own.zip"
        self.write(archive, member, inner)
        with opened(inner, name) as own:
            for item in own.infolist():
                path = item.filename.replace("\\", "/")
                if not path.endswith("/") and not is_rubbish(PurePosixPath(path)):
                    self.add(own, item, f"{safe(name).with_suffix('')}/{item.filename}")
        inner.unlink()

    def write(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
        """Write a member of an archive to a new file, whatever size the archive declares."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "xb") as written:
            for piece in pieces(archive, member):
                self.room -= len(piece)
                if self.room < 0:
                    raise SubmissionError(f"its files have more than {self.largest >> 20} MiB in total")
                written.write(piece)


def opened(path: Path, name: str = "") -> zipfile.ZipFile:
    """Open an archive. name: in a message. Raises SubmissionError, or OSError if the machine fails."""
    try:
        return zipfile.ZipFile(path)
    except Exception as error:
        raise unreadable(error, name) from None


def pieces(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the bytes of a member. Raises SubmissionError, or OSError if the machine fails."""
    check(member)
    try:
        with archive.open(member) as read:
            while piece := read.read(PIECE):
                yield piece
    except Exception as error:
        raise unreadable(error, member.filename) from None


def unreadable(error: Exception, name: str) -> Exception:
    """Return the error for an archive that cannot be read: zipfile and its decompressors raise any kind."""
    if isinstance(error, MemoryError) or grading_folder.of_the_machine(error):
        return error
    at = f" at {printable(name, 60)}" if name else ""
    why = printable(str(error), 100) or type(error).__name__
    return SubmissionError(f"its archive cannot be read{at} ({why}): {REMEDY}")


def safe(name: str) -> PurePosixPath:
    """Return a path below the student's folder. Raises SubmissionError for a path that leads out of it."""
    path = PurePosixPath(name.replace("\\", "/"))
    out = path.is_absolute() or not path.parts or ".." in path.parts
    if out or "\0" in name or re.match(r"[A-Za-z]:", name):
        raise SubmissionError(f"the path {printable(name, 60)} points outside its folder")
    if len(path.parts) > DEEPEST or len(str(path).encode(errors="replace")) > LONGEST:
        raise SubmissionError(f"the path {printable(name, 60)} is too long")
    return path


def check(member: zipfile.ZipInfo) -> None:
    """Raise SubmissionError unless it is an unencrypted regular file."""
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        raise SubmissionError(f"{printable(member.filename, 60)} is a link or a special file")
    if member.flag_bits & 1:
        raise SubmissionError(f"{printable(member.filename, 60)} is encrypted: {REMEDY}")


def is_rubbish(path: PurePosixPath) -> bool:
    """Return whether macOS, Windows or Jupyter, rather than the student, added this file to the archive."""
    return (
        any(part in (*NOT_KEPT, *NOT_WORK, "__MACOSX") for part in path.parts)
        or path.name.startswith("._")
        or path.name in (".DS_Store", "Thumbs.db", "desktop.ini")
    )
