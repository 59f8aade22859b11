"""Atomic file writes and locks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path
from typing import Any, BinaryIO


@contextlib.contextmanager
def writing(path: Path, *, mode: int | None = None, sync: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` after the body has ended without an error.

    A reader sees the old or the new file, never part of it. mode: its permission bits, whatever the umask
    (default: according to the umask). sync: it also survives a crash of the machine. If the body raises an
    error, or the disk is full (OSError), the old file remains.
    """
    temp = _temporary(path)
    try:
        with open(
            temp, "wb", opener=lambda p, flags: os.open(p, flags, 0o666 if mode is None else 0o600)
        ) as f:
            yield f
            if mode is not None:
                os.fchmod(f.fileno(), mode)
            if sync:
                f.flush()
                os.fsync(f.fileno())
        os.replace(temp, path)
        if sync:
            _sync(path.parent)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise


def write(path: Path, content: str | bytes, *, mode: int | None = None, sync: bool = False) -> None:
    """Write a file atomically, so that a reader sees the old or the new one; see `writing`."""
    with writing(path, mode=mode, sync=sync) as f:
        f.write(as_bytes(content))


def move_into_place(made: Path, path: Path) -> None:
    """Rename a file that another library has completely written, in the same folder, so that it survives a
    crash.

    Raises OSError, and then the old file remains.
    """
    _sync(made)  # otherwise a crash could keep the new name and lose the contents
    os.replace(made, path)
    _sync(path.parent)  # the folder stores the name


def write_json(path: Path, value: Any, *, mode: int | None = None, sync: bool = False) -> None:
    """Write a value as JSON, otherwise like `write`."""
    write(path, json.dumps(value, indent=1) + "\n", mode=mode, sync=sync)


def write_json_once(path: Path, value: Any) -> bool:
    """Write JSON unless the file exists, and return whether it was written; the first writer wins."""
    temp = _temporary(path)
    temp.write_text(json.dumps(value, indent=1) + "\n")
    try:
        os.link(temp, path)
        return True
    except FileExistsError:
        return False
    finally:
        temp.unlink()


def read_json(path: Path) -> Any:
    """Return the JSON of a file, or None if it does not exist yet; symbolic links are not followed."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def replace_folder(new: Path, target: Path) -> None:
    """Rename a new folder to its final name, and remove the older one if there is one.

    Between the two renames nothing is at `target`; if the process is killed then, the older one stays as
    `.<name>.old`.
    """
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.rename(target, old)
    os.rename(new, target)
    shutil.rmtree(old, ignore_errors=True)


def hold(path: Path) -> BufferedWriter:
    """Lock a file until the returned file, and each inherited copy of it, is closed.

    On a file system without locks, it has no effect.
    """
    held = open(path, "ab")  # noqa: SIM115
    with contextlib.suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX)
    return held


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file; False on a file system without locks."""
    with open(path, "ab") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, so readers do not block each other
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False


@contextlib.contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file, which is created if missing, while the body runs.

    Yields whether the lock is held: always, unless `wait` is False and another process holds it. On a file
    system without locks it counts as held.
    """
    with lock_file(path, wait=wait) as file:
        yield file is not None


@contextlib.contextmanager
def lock_file(path: Path, *, wait: bool = True, mode: int = 0o666) -> Iterator[BinaryIO | None]:
    """Lock like `lock`, but yield the open file, or None if the lock is held elsewhere.

    A process that inherits this file (`pass_fds=[file.fileno()]`) also holds the lock, as long as it lives.
    mode: permission bits of a file that is created, less the umask.
    """
    with open(path, "ab", opener=lambda p, flags: os.open(p, flags, mode)) as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield None
            return
        except OSError:
            pass
        yield f


def as_bytes(content: str | bytes) -> bytes:
    """Return text as UTF-8."""
    return content.encode() if isinstance(content, str) else content


def _sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}")
