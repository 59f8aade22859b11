"""The student's own files of a submission."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from cluster.system.text import printable

from .course import SubmissionError

# files written by the exchange, and what nbgrader would execute
NOT_WORK = ("timestamp.txt", "submission_secret.txt", "received.json", "nbgrader_config.py")
NOT_KEPT = (".ipynb_checkpoints", "__pycache__")
LARGEST = 500 * 2**20  # maximum bytes of one submission; holes in sparse files count in full
MOST = 5000  # maximum files and folders of one submission
DEEPEST = 50  # maximum depth of folders
LONGEST = 1000  # maximum bytes of a path below the folder; Linux allows 4,096 for a complete path


class TooMuchWork(SubmissionError):
    """A folder has more files, bytes or levels than a submission may have."""


def work_files(folder: Path | str) -> dict[str, Path]:
    """Return {relative path: path} of a submission's files, without checkpoints and the exchange's own.

    Links, pipes and devices are left out, and nothing is read. Raises SubmissionError if a limit is exceeded.
    """
    result, size = {}, 0
    for name, entry in entries(folder, NOT_KEPT):
        if not entry.is_file(follow_symlinks=False):
            continue
        size += entry.stat(follow_symlinks=False).st_size
        if size > LARGEST:
            raise TooMuchWork(f"its files have more than {LARGEST >> 20} MiB in total")
        if name not in NOT_WORK:
            result[name] = Path(entry.path)
    return dict(sorted(result.items()))


def entries(
    folder: Path | str, passed_over: tuple[str, ...] = (), only: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, os.DirEntry]]:
    """Yield (relative path, os.DirEntry) for everything in a folder, without following links. Raises
    TooMuchWork or OSError.

    passed_over: names of folders that are not searched. only: which names directly in the folder count.
    """
    waiting, count = [("", folder, 1)], 0
    while waiting:
        above, here, depth = waiting.pop()
        with os.scandir(here) as inside:
            for entry in inside:
                if not above and not only(entry.name):
                    continue
                name, count = above + entry.name, count + 1
                if count > MOST:
                    raise TooMuchWork(f"it contains more than {MOST} files and folders")
                if len(os.fsencode(name)) > LONGEST:
                    raise TooMuchWork(f"the path {printable(name, 60)} is longer than {LONGEST} bytes")
                if entry.is_dir(follow_symlinks=False):
                    if depth == DEEPEST:
                        raise TooMuchWork(f"it contains more than {DEEPEST} nested folders")
                    if entry.name not in passed_over:
                        waiting.append((f"{name}/", Path(entry.path), depth + 1))
                yield name, entry


def beside_notebook(files: dict[str, Path], source_files: dict[str, Path]) -> dict[str, Path]:
    """Return the files to copy: a student's files, overridden by the assignment's own; notebooks are left
    out.

    A student's file is left out if the assignment has a folder of that name, or vice versa; so are files in a
    folder named like a notebook, or like a file of the exchange.
    """
    folders = {str(above) for name in source_files for above in PurePosixPath(name).parents}
    own = {}
    for name, path in files.items():
        above = [str(part) for part in PurePosixPath(name).parents]
        taken = name in folders or any(part in source_files or part in NOT_WORK for part in above)
        if not taken and not any(part.endswith(".ipynb") for part in (name, *above)):
            own[name] = path
    return own | source_files


def copy_work(files: dict[str, Path], target: Path, source_files: dict[str, Path]) -> None:
    """Create the folder `target` with a student's files and the assignment's files."""
    target.mkdir(mode=0o700)
    for name, path in beside_notebook(files, source_files).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
