"""Remove the folders and control groups of a killed autograder when the next one starts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import TextIO

from .cgroups import CGROUPS

PREFIX = "grading-"
HOUR = 3600 * 10**9  # ns; a younger group without processes may be one that another process just created


def claim(folder: Path) -> TextIO:
    """Mark a folder as used while the returned file is open."""
    lock = open(folder / "in-use", "w")  # noqa: SIM115 (held until the engine closes it)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def sweep() -> None:
    """Remove folders that no autograder uses any more, and empty control groups.

    Only this user's folders are opened; another user's could contain a pipe that blocks this process.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        about = folder.lstat()
        if about.st_uid != os.geteuid() or not stat.S_ISDIR(about.st_mode):
            continue
        with contextlib.suppress(OSError), open(folder / "in-use") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    for hierarchy in (CGROUPS, CGROUPS / "pids", CGROUPS / "memory"):
        for group in hierarchy.glob(f"{PREFIX}*-*"):
            created = group.name.rpartition("-")[2]
            if created.isdigit() and int(created) < time.monotonic_ns() - HOUR:
                with contextlib.suppress(OSError):
                    group.rmdir()
