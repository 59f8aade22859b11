"""A student's own copies of lectures, which lie where only the course may write."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

BESIDE = ("figures", "runs")  # what a lecture shows, and the records that its cells read


def make(lecture: Path, folder: Path) -> Path:
    """Copy a lecture with what lies beside it to `folder`; what is there already stays. Returns the copy.

    Raises OSError, as where the disk is full; no file is left half-written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in BESIDE:
        for path in sorted((lecture.parent / name).rglob("*")):
            if path.is_file():
                place(path, folder / path.relative_to(lecture.parent))
    return place(lecture, folder / lecture.name)


def place(path: Path, target: Path) -> Path:
    """Copy one file, its user may write it; never over another."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            shutil.copyfile(path, beside)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    return target
