"""Folders of runs: where they are, and how one is created (at once, by renaming), found and replaced."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path

from cluster.system import files, settings

from ..errors import Damaged
from . import private
from .run_folder import RUN_JSON, Run


def root(folder: str | os.PathLike | None = None) -> Path:
    """Return the folder of job folders: the argument, $CLUSTER_RUNS, or `runs` in the current directory.

    If that is a relative path that can neither be read nor created, because the folder is read-only (such as
    the lectures on a course server), it is `runs` in the home directory.
    """
    named = Path(folder or settings.text("CLUSTER_RUNS") or "runs").expanduser()
    chosen = named.absolute()
    if folder is None and not named.is_absolute() and not chosen.exists():
        above = next(parent for parent in chosen.parents if parent.exists())
        return chosen if os.access(above, os.W_OK) else Path.home() / "runs"
    return chosen


def slug(name: str) -> str:
    """Convert a name for use in a path or a script, with letters, digits, dot, dash and underscore.

    >>> slug("my net; rm -rf /")
    'my-net-rm-rf'
    """
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:40] or "job"


def name(title: str, key: str) -> str:
    """Return the name of a job folder."""
    return f"{slug(title)}-{key[:12]}"


def folders(runs: Path) -> list[Path]:
    """Return the job folders, sorted by name, without those that are still being created (`.new-...`).

    Raises NotYours if other users can create folders there.
    """
    private.check_runs(runs)
    return sorted(p.parent for p in runs.glob(f"*/{RUN_JSON}") if not p.parent.name.startswith("."))


def find(runs: Path, key: str) -> Path | None:
    """Return the folder of the run with this key under any name, or None. Raises NotYours or Damaged."""
    folder = next((p for p in folders(runs) if p.name.endswith(f"-{key[:12]}")), None)
    if folder and Run(folder).check_owner().record.get("key") != key:
        raise Damaged(
            f"{folder} does not contain the run that its name states.",
            "Move the folder elsewhere, and submit again.",
        )
    return folder


@contextlib.contextmanager
def lock(runs: Path, key: str) -> Iterator[None]:
    """Lock a key, so that only one process at a time replaces its run and creates its folder."""
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    private.check_runs(runs)
    # on a file system without locks, `create` still has exactly one winner
    with files.lock(runs / f".{key[:12]}.lock"):
        yield


def create(
    runs: Path, title: str, key: str, contents: dict[str, str | bytes]
) -> tuple[Path, BufferedWriter | None]:
    """Create a complete, locked job folder; return (folder, lock, or None if another process was first)."""
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = runs / name(title, key)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=runs))  # created with mode 0700
    write_private(temporary, contents)
    held = Run(temporary).hold()
    try:
        os.rename(temporary, target)  # fails if a folder with content exists
    except OSError:
        held.close()
        shutil.rmtree(temporary)
        if not target.is_dir():
            raise
        return target, None
    return target, held


def write_private(folder: Path, contents: dict[str, str | bytes]) -> None:
    """Write new files that only their owner can read and write, regardless of umask and the folder's mode."""
    for file, content in contents.items():
        path = folder / file
        path.touch(mode=0o600)
        path.write_bytes(files.as_bytes(content))


def remove_half_made(runs: Path, age: float = 3600) -> None:
    """Remove the incomplete folders of interrupted submissions if they are older than `age` seconds."""
    for temporary in runs.glob(".new-*"):
        with contextlib.suppress(OSError):
            if time.time() - temporary.stat().st_mtime > age:
                shutil.rmtree(temporary)


def set_aside(folder: Path) -> Path:
    """Rename a folder to its first unused numbered sibling, `<folder>.1`, `<folder>.2`, ..."""
    n = 1
    while (aside := folder.with_name(f"{folder.name}.{n}")).exists():
        n += 1
    os.rename(folder, aside)
    return aside


def discard(folder: Path) -> None:
    """Remove a folder so that it disappears for all readers at once, however long the removal takes."""
    gone = tempfile.mkdtemp(prefix=".new-", dir=folder.parent)
    os.rename(folder, gone)
    shutil.rmtree(gone)
