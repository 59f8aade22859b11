"""Unpacking of the ZIP archive of an assignment's folder, sent by a student's server."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from cluster.system.text import printable

from .. import limited
from ..course import SubmissionError
from ..work_files import DEEPEST, LONGEST, MOST

SENT = 32 * 2**20  # maximum bytes of an archive
LARGEST = 200 * 2**20  # maximum bytes of all its files, the autograder's limit
SECONDS = 30  # seconds of CPU time for unpacking


def unpack(data: bytes, target: Path) -> None:
    """Create the folder `target` from an archive, whose entries must be regular files below it.

    Raises OSError, or SubmissionError, whose text follows “What was sent”, if it cannot be checked.
    """
    with tempfile.NamedTemporaryFile(suffix=".zip") as archive:
        archive.write(data)
        archive.flush()
        limited.call(extract, Path(archive.name), target, seconds=SECONDS)


def extract(path: Path, target: Path) -> None:
    """Like `unpack`, for an archive in a file. Declared sizes are not trusted: reading ends at the limits."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MOST:
                raise SubmissionError(f"contains more than {MOST:,} files")
            if sum(entry.file_size for entry in entries) > LARGEST:
                raise SubmissionError(f"contains more than {LARGEST >> 20} MiB")
            target.mkdir(mode=0o700)
            room = LARGEST
            for entry in entries:
                path = target / place(entry.filename)
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with archive.open(entry) as file, open(path, "xb") as out:
                    while piece := file.read(2**20):
                        room -= len(piece)
                        if room < 0:
                            raise SubmissionError(f"contains more than {LARGEST >> 20} MiB")
                        out.write(piece)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise SubmissionError(f"is not a readable folder: {printable(str(error), 100)}") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise SubmissionError("contains two files with the same name") from None


def place(name: str) -> PurePosixPath:
    """Return the path of a file below the folder. Raises SubmissionError for a path that leads out of it."""
    path = PurePosixPath(name)
    odd = path.is_absolute() or not path.parts or ".." in path.parts or "\\" in name or "\0" in name
    if odd or len(path.parts) > DEEPEST or len(name.encode(errors="replace")) > LONGEST:
        raise SubmissionError(f"contains a file whose name points outside it: {printable(name, 60)}")
    return path
