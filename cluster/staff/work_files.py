"""The files of a submission that are the student's work."""

from __future__ import annotations

import shutil
from pathlib import Path

NOT_WORK = ("timestamp.txt", "submission_secret.txt", "received.json")  # written by the exchange


def work_files(folder: Path | str) -> dict[str, Path]:
    """{relative path: path} of a submission's files, less notebooks' checkpoints and the exchange's own."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        hidden = ".ipynb_checkpoints" in path.parts or "__pycache__" in path.parts
        if path.is_file() and not path.is_symlink() and not hidden and name not in NOT_WORK:
            found[name] = path
    return found


def copy_work(folder: Path, target: Path, source_files: dict[str, Path]) -> None:
    """Copy a submission's files, the assignment's own over them; notebooks stay out: one is graded."""
    target.mkdir(mode=0o700)
    chosen = {n: p for n, p in work_files(folder).items() if not n.endswith(".ipynb")} | source_files
    for name, path in chosen.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
