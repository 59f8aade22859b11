"""Trusted folders: folders that no other user can have written to.

A run's folder contains code that ranks execute and results that are reused. On a shared machine, another user
may have created a folder or a link with that name earlier.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from ..errors import NotYours, OptionValueError


def check_folder(folder: Path) -> None:
    """Raise NotYours unless only this user (or root) can have written to a job's folder."""
    _owner(os.lstat(folder), folder)  # the owner of the link itself
    _contents(os.stat(folder), folder)
    above = folder.parent
    mode = os.stat(above).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise NotYours(
            f"Every user can replace {folder}, because {above} is world-writable: nothing in it is loaded.",
            f"If you trust its contents, run chmod o-w '{above}'",
        )


def check_runs(runs: Path) -> Path:
    """Return a folder of runs, which need not exist, if no other user can add or replace runs in it.

    Raises NotYours, or OptionValueError for a path that Slurm does not support. A world-writable folder above
    it without the sticky bit is refused, too, unless it contains the current directory, because users who can
    replace the working directory could do harm in any case.
    """
    if not str(runs).isprintable() or "\\" in str(runs):
        raise OptionValueError(
            f"The folder of runs {str(runs)!r} has a path with characters that Slurm does not accept.",
            "Choose a path without backslashes and control characters: folder=... or CLUSTER_RUNS.",
        )
    if not os.path.lexists(runs):
        return runs
    yours = f"Set CLUSTER_RUNS to a folder that only you can write to, for example {Path.home() / 'runs'}"
    owners = [os.lstat(runs).st_uid] + [os.stat(runs).st_uid] * runs.exists()
    if stranger := next((uid for uid in owners if uid not in (os.getuid(), 0)), None):
        raise NotYours(f"The folder of runs {runs} belongs to {_user(stranger)}, not to you.", f"{yours}.")
    if runs.exists() and (who := writers(s := os.stat(runs))):
        step = f"chmod go-w '{runs}'" if s.st_uid == os.getuid() and not s.st_mode & stat.S_ISVTX else yours
        raise NotYours(f"{who} can write to the folder of runs {runs}: no run in it is safe.", f"{step}.")
    near = {Path.cwd(), *Path.cwd().parents}
    for above in {*runs.parents, *Path(os.path.realpath(runs)).parents} - near:
        mode = os.stat(above).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise NotYours(
                f"{above} is world-writable, so any user can replace the runs in {runs}.", f"{yours}."
            )
    return runs


def read_file(folder: Path, name: str) -> bytes:
    """Return the bytes of a file in a job's folder; raises as `opened` does."""
    with opened(folder, name) as f:
        return f.read()


@contextlib.contextmanager
def opened(folder: Path, name: str) -> Iterator[BufferedReader]:
    """Open a file in a job's folder if only this user can write to folder and file. Raises NotYours.

    The checked folder is the one that is read, because it cannot be replaced in between.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _contents(os.fstat(at), folder)
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at), "rb") as f:
            _contents(os.fstat(f.fileno()), folder / name)
            yield f
    finally:
        os.close(at)


def writers(s: os.stat_result) -> str:
    """Describe who besides the owner can write ("": no one); groups without other members do not count."""
    if s.st_mode & stat.S_IWOTH:
        return "Every user"
    return f"The group {_group(s.st_gid)}" if s.st_mode & stat.S_IWGRP and not _alone(s) else ""


def _owner(s: os.stat_result, path: Path) -> None:
    if s.st_uid not in (os.getuid(), 0):
        raise NotYours(
            f"{path} belongs to {_user(s.st_uid)}, not to you: nothing in it is loaded.",
            "If you trust its contents, copy the folder, which makes it yours.",
        )


def _contents(s: os.stat_result, path: Path) -> None:
    _owner(s, path)
    if who := writers(s):
        raise NotYours(
            f"{who} can write to {path}: nothing in it is loaded.",
            f"If you trust its contents, run chmod go-w '{path}'",
        )


def _alone(s: os.stat_result) -> bool:
    """Return whether the group has no other members, like the group that many systems create per user."""
    try:
        owner, group = pwd.getpwuid(s.st_uid).pw_name, grp.getgrgid(s.st_gid)
    except KeyError:
        return False
    return group.gr_name == owner and not set(group.gr_mem) - {owner}


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
