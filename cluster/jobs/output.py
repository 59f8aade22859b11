"""What a rank prints, on disk: all of it up to a cap, and of more the beginning and the end.

`out-R.log` takes half of the cap. What follows goes to parts of a quarter each, `out-R.part-1` and so on, of
which the newest two stay; when the rank ends they are joined to the log, behind a line that says how much is
missing. So the disk holds no more than the cap (half of it again while they are joined), the memory a chunk,
and a rank that prints for ever neither waits nor is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .spec import size

CAP = "50M"  # of a rank's log; $CLUSTER_MAX_OUTPUT and submit(..., max_output=...) change it
TEXT = 2**16  # characters that are kept of an error's message
CHUNK = 2**16  # bytes read at once
PIPE = 2**20  # bytes, the most that a pipe holds


def cap() -> int:
    """The most bytes that a rank's log keeps, as seen by the rank."""
    return size(os.environ.get("CLUSTER_MAX_OUTPUT") or CAP) or size(CAP)


class Log:
    """A rank's log as it is written; at most `limit` bytes of it stay."""

    def __init__(self, path: Path, limit: int):
        self._path, self._quarter, self._part, self._lost = path, limit // 4, 0, 0
        join(path)  # what an attempt that was killed has left
        self._fd, self._room = _open(path, os.O_APPEND), 2 * self._quarter

    def write(self, data: bytes) -> None:
        """Append; a full disk costs what is printed, not the rank."""
        try:
            while data:
                if not self._room:
                    self._turn()
                written = os.write(self._fd, data[: self._room])
                self._room, data = self._room - written, data[written:]
        except OSError:
            self._lost += len(data)

    def close(self) -> None:
        """Join the parts; after this the log is one file."""
        os.close(self._fd)
        with contextlib.suppress(OSError):  # a full disk: the parts stay, and `read` finds them
            join(self._path)
            if self._lost:
                with open(self._path, "ab") as f:
                    f.write(f"\n--- {self._lost} bytes could not be written: the disk was full\n".encode())

    def _turn(self) -> None:
        """Go on in a new part; only the one before it stays."""
        fd = _open(_part(self._path, self._part + 1), os.O_TRUNC)
        os.close(self._fd)
        self._fd, self._room, self._part = fd, self._quarter, self._part + 1
        _part(self._path, self._part - 2).unlink(missing_ok=True)


def attend(child: int, pipe: int, log: Log) -> tuple[int, Any]:
    """Write what a child prints into the log until it ends; returns (status, usage) of `os.wait4`.

    Processes that the child leaves behind may hold the pipe open: what they print later is not waited for.
    """
    told, tell = os.pipe()
    for fd in (told, tell):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)  # each signal ends the waiting below
    events = select.poll()
    events.register(pipe, select.POLLIN)
    events.register(told, select.POLLIN)
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        for fd, _ in events.poll():
            data = os.read(fd, CHUNK)
            if fd == pipe and data:
                log.write(data)
            elif fd == pipe:  # closed by the child, which goes on
                events.unregister(pipe)
    os.set_blocking(pipe, False)
    left = PIPE
    with contextlib.suppress(BlockingIOError):
        while left > 0 and (data := os.read(pipe, CHUNK)):
            log.write(data)
            left -= len(data)
    return ended[1:]


def read(path: Path) -> bytes:
    """All there is of a rank's log, also of a rank that still prints or was killed."""
    for _ in range(10):
        with contextlib.suppress(FileNotFoundError):  # a part that has just made room for another
            return b"".join([path.read_bytes() if path.is_file() else b"", *_rest(path)])
    return path.read_bytes()


def end(path: Path) -> bytes:
    """The last CHUNK bytes of it, without reading the rest."""
    found = b""
    for file in [path, *_parts(path)][-2:]:
        with contextlib.suppress(FileNotFoundError), open(file, "rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - CHUNK))
            found += f.read()
    return found[-CHUNK:]


def join(path: Path) -> None:
    """Append the parts to the log, and remove them."""
    parts = _parts(path)
    if parts:
        with open(path, "ab") as log:
            log.writelines(_rest(path))
    for part in parts:
        part.unlink(missing_ok=True)


def clip(text: str) -> str:
    """A text of at most TEXT characters and a few: of a longer one the beginning and the end."""
    if len(text) <= TEXT:
        return text
    half = TEXT // 2
    return f"{text[:half]}\n--- {len(text) - 2 * half} characters are cut out here\n{text[-half:]}"


def _rest(path: Path) -> Iterator[bytes]:
    """What follows the log itself: how much is missing, and the parts."""
    parts = _parts(path)
    start = 0
    if parts and (before := int(parts[0].suffix[6:]) - 1):
        quarter = parts[0].stat().st_size  # it is full: there is one after it
        with open(parts[0], "rb") as f:
            start = f.read(4096).find(b"\n") + 1  # begin with a whole line, where lines are lines
        yield (
            f"\n--- {before * quarter + start} bytes are cut out here: of what a rank prints, the beginning "
            f"and the end are kept, {4 * quarter} bytes at most (max_output)\n"
        ).encode()
    for part in parts:
        with open(part, "rb") as f:
            f.seek(start)
            while chunk := f.read(CHUNK):
                yield chunk
        start = 0


def _part(path: Path, n: int) -> Path:
    return path.with_suffix(f".part-{n}")


def _parts(path: Path) -> list[Path]:
    named = (p for p in path.parent.glob(f"{path.stem}.part-*") if re.fullmatch(r"\.part-\d+", p.suffix))
    return sorted(named, key=lambda p: int(p.suffix[6:]))


def _open(path: Path, flags: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
