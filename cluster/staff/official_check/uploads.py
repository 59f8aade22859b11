"""The folder that a student's server sends, a ZIP archive of what would be handed in, is unpacked here."""

from __future__ import annotations

import io
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from cluster.system.text import printable

from ..work_files import DEEPEST, LONGEST, MOST

SENT = 32 * 2**20  # bytes of an archive
LARGEST = 200 * 2**20  # bytes of all its files, as the engine takes them


class Unfit(Exception):
    """This is no archive of a folder that can be checked; why, in a sentence."""


def unpack(data: bytes, target: Path) -> None:
    """Make the folder `target` of an archive's files, each a regular one below it. Raises Unfit, OSError.

    What an archive says of sizes is not believed: reading ends at the bounds.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MOST:
                raise Unfit(f"It holds more than {MOST:,} files.")
            if sum(entry.file_size for entry in entries) > LARGEST:
                raise Unfit(f"Its files have more than {LARGEST >> 20} MiB.")
            target.mkdir(mode=0o700)
            for entry in entries:
                path = target / place(entry.filename)
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with archive.open(entry) as file, open(path, "xb") as made:
                    shutil.copyfileobj(file, made)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise Unfit(f"What was sent is no folder that can be read: {printable(str(error), 100)}.") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise Unfit("It holds two files of the same name.") from None


def place(name: str) -> PurePosixPath:
    """The path of a file below the folder. Raises Unfit for one that leads elsewhere."""
    path = PurePosixPath(name)
    odd = path.is_absolute() or not path.parts or ".." in path.parts or "\\" in name or "\0" in name
    if odd or len(path.parts) > DEEPEST or len(name.encode(errors="replace")) > LONGEST:
        raise Unfit(f"It holds a file whose name leads elsewhere: {printable(name, 60)}.")
    return path
