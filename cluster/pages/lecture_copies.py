"""A student's own copies of lectures, which lie where only the course may write."""

from __future__ import annotations

from pathlib import Path

from cluster.system import files

BESIDE = ("figures", "runs")  # what a lecture shows, and the records that its cells read


def copy_lecture(lecture: Path, folder: Path) -> Path:
    """Copy a lecture with what lies beside it to `folder`; what is there already stays. Returns the copy.

    Raises OSError, as where the disk is full; no file is left half-written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in BESIDE:
        for path in sorted((lecture.parent / name).rglob("*")):
            if path.is_file():
                copy_file(path, folder / path.relative_to(lecture.parent))
    return copy_file(lecture, folder / lecture.name)


def copy_file(path: Path, target: Path) -> Path:
    """Copy one file, its user may write it; never over another."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write(target, path.read_bytes())
    return target
