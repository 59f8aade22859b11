"""The output of a rank on disk: complete up to a limit, and only its beginning and end beyond it.

`out-R.log` takes half of the limit. Further output goes to parts of a quarter each, `out-R.part-1` and so on.
The newest two are kept. When the rank ends they are joined to the log, after a line with the number of
missing bytes. The disk usage is at most the limit (1.5 times the limit while parts are joined) and the memory
usage is one chunk; a rank that prints indefinitely neither blocks nor is killed.

Before the parts are joined, they are renamed to `out-R.joining-1` and so on. While the first of these exists,
the log is as long as it was before the parts, so a follower can distinguish the two.
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

from cluster.system import settings

from ..options import size

TEXT = 2**16  # maximum number of characters kept of an error message
CHUNK = 2**16  # bytes read at once
PIPE = 2**20  # bytes; the maximum capacity of a pipe
STEPS = 8  # maximum files read per call: enough for all, and finite if a rank keeps printing
LINE = 4096  # bytes searched for the end of a line

PART = re.compile(r"\.(part|joining)-\d+")
CUT = re.compile(rb"\n--- (\d+) bytes are cut out here: .* (\d+) bytes at most \(max_output\)\n")


def cap() -> int:
    """Return a rank's maximum log size in bytes; max_output=... sets it in the rank's environment."""
    name = "CLUSTER_MAX_OUTPUT"
    return size(settings.text(name)) or size(settings.SETTINGS[name].default)


class Log:
    """The log of a running rank, limited to its first and last bytes, `limit` in total."""

    def __init__(self, path: Path, limit: int):
        self._path, self._quarter, self._part, self._lost = path, limit // 4, 0, 0
        join(path)  # parts left by an attempt that was killed
        self._fd, self._room = _open(path, os.O_APPEND), 2 * self._quarter

    def write(self, data: bytes) -> None:
        """Append output; if the disk is full, output is lost, but the rank continues."""
        try:
            while data:
                if not self._room:
                    self._turn()
                written = os.write(self._fd, data[: self._room])
                self._room, data = self._room - written, data[written:]
        except OSError:
            self._lost += len(data)

    def close(self) -> None:
        """Join the parts; afterwards the log is a single file."""
        os.close(self._fd)
        with contextlib.suppress(OSError):  # a full disk: the parts remain, and `read_log` finds them
            join(self._path)
            if self._lost:
                with open(self._path, "ab") as f:
                    f.write(f"\n--- {self._lost} bytes could not be written: the disk was full\n".encode())

    def _turn(self) -> None:
        """Continue in a new part, keeping only the one before it."""
        fd = _open(_part(self._path, self._part + 1), os.O_TRUNC)
        os.close(self._fd)
        self._fd, self._room, self._part = fd, self._quarter, self._part + 1
        _part(self._path, self._part - 2).unlink(missing_ok=True)


def attend(child: int, pipe: int, log: Log) -> tuple[int, Any]:
    """Write a child's output into the log until it ends; return (status, usage) of `os.wait4`.

    Processes left behind by the child may keep the pipe open; their later output is ignored.
    """
    reader, tell = os.pipe()
    for fd in (reader, tell):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)  # each signal interrupts the wait below
    events = select.poll()
    events.register(pipe, select.POLLIN)
    events.register(reader, select.POLLIN)
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        for fd, _ in events.poll():
            data = os.read(fd, CHUNK)
            if fd == pipe and data:
                log.write(data)
            elif fd == pipe:  # the child has closed the pipe, but continues
                events.unregister(pipe)
    os.set_blocking(pipe, False)
    left = PIPE
    with contextlib.suppress(BlockingIOError):
        while left > 0 and (data := os.read(pipe, CHUNK)):
            log.write(data)
            left -= len(data)
    return ended[1:]


def read_log(path: Path) -> bytes:
    """Return the complete log of a rank, even if the rank is still running or was killed."""
    for _ in range(10):
        with contextlib.suppress(FileNotFoundError):  # a part that was just removed to make room
            return b"".join([path.read_bytes() if path.is_file() else b"", *_rest(path)])
    return path.read_bytes()


def end(path: Path) -> bytes:
    """Return the last CHUNK bytes of the log, without reading the rest."""
    tail = b""
    for file in [path, *_parts(path)][-2:]:
        with contextlib.suppress(FileNotFoundError), open(file, "rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - CHUNK))
            tail += f.read()
    return tail[-CHUNK:]


class Follower:
    """The growing log of a rank: each `new_bytes()` returns the output since the previous call.

    path: path of the log. It may be set again if the folder was moved.
    """

    def __init__(self, path: Path):
        self.path = path
        self._part, self._at = 0, 0  # the file being read (0: the log), and the bytes of it read so far
        self._head = 0  # bytes of the log before the first part
        self._before = 0  # bytes printed before the part being read

    def new_bytes(self) -> bytes:
        """Return the new output, with a line in place of output that was removed before it could be read."""
        chunks = []
        for _ in range(STEPS):
            new, more = self._log() if self._part == 0 else self._in_part()
            chunks.append(new)
            if not more:
                break
        return b"".join(chunks)

    def _log(self) -> tuple[bytes, bool]:
        """Return (the new output in the log, whether more output follows in other files)."""
        parted = bool(_numbers(self.path))
        try:
            new = _bytes(self.path, self._at)
        except FileNotFoundError:
            return b"", False
        if parted and not _numbers(self.path):
            return b"", True  # joining began in the meantime: `new` may contain some or all of the parts
        self._at += len(new)
        if parted:
            self._head, self._part, self._at, self._before = self._at, 1, 0, 0
        return new, parted

    def _in_part(self) -> tuple[bytes, bool]:
        """Return (the new output in the part being read, whether more output follows in other files)."""
        numbers = _numbers(self.path)
        try:
            if self.path.stat().st_size > self._head:
                return self._joined(), True
            new = _bytes(_part(self.path, self._part), self._at)
        except FileNotFoundError:
            return self._leap()
        self._at += len(new)
        if not numbers or numbers[-1] <= self._part:
            return new, False
        self._before, self._part, self._at = self._before + self._at, self._part + 1, 0
        return new, True  # a next part existed before this one was read, so this part was full

    def _leap(self) -> tuple[bytes, bool]:
        """Continue in the first remaining part, because the one being read was removed to make room."""
        later = [n for n in _numbers(self.path) if n > self._part]
        if not later:
            return b"", False  # the parts are about to be joined to the log
        try:
            text = _bytes(_part(self.path, later[0]), 0)
        except FileNotFoundError:
            return b"", True
        quarter, start = len(text), _line(text)  # another part follows, so this one is full
        before = (later[0] - 1) * quarter
        lost = before + start - self._before - self._at
        self._part, self._at, self._before = later[0], start, before
        return _cut(lost, quarter), True

    def _joined(self) -> bytes:
        """Continue in the log with the joined parts, and return the line about missing bytes."""
        notice = CUT.match(_bytes(self.path, self._head, 1024))
        missing, quarter, at = (int(notice[1]), int(notice[2]) // 4, notice.end()) if notice else (0, 0, 0)
        unseen = missing - self._before - self._at
        self._part, self._at = 0, self._head + at + max(0, -unseen)
        return _cut(unseen, quarter) if unseen > 0 else b""


def join(path: Path) -> None:
    """Append the parts to the log, and remove them."""
    for n in reversed(_numbers(path)):  # newest first, so no part seems to have been removed to make room
        _part(path, n).rename(path.with_suffix(f".joining-{n}"))
    parts = _parts(path)
    if parts:
        with open(path, "ab") as log:
            log.writelines(_rest(path))
    for part in parts:
        part.unlink(missing_ok=True)


def clip(text: str) -> str:
    """Return a text shortened to about TEXT characters, with its beginning and end."""
    if len(text) <= TEXT:
        return text
    half = TEXT // 2
    return f"{text[:half]}\n--- {len(text) - 2 * half} characters are cut out here\n{text[-half:]}"


def _rest(path: Path) -> Iterator[bytes]:
    """Return the continuation of the log: the number of missing bytes, and the parts."""
    parts = _parts(path)
    start = 0
    if parts and (before := _number(parts[0]) - 1):
        quarter = parts[0].stat().st_size  # another part follows, so this one is full
        start = _line(_bytes(parts[0], 0, LINE))
        yield _cut(before * quarter + start, quarter)
    for part in parts:
        with open(part, "rb") as f:
            f.seek(start)
            while chunk := f.read(CHUNK):
                yield chunk
        start = 0


def _line(text: bytes) -> int:
    """Return the offset of the first complete line of a part; 0 if LINE bytes have no line break."""
    return text[:LINE].find(b"\n") + 1


def _cut(lost: int, quarter: int) -> bytes:
    """Return the line that marks missing bytes; the pattern CUT matches it."""
    return (
        f"\n--- {lost} bytes are cut out here: of what a rank prints, the beginning "
        f"and the end are kept, {4 * quarter} bytes at most (max_output)\n"
    ).encode()


def _part(path: Path, n: int) -> Path:
    return path.with_suffix(f".part-{n}")


def _number(part: Path) -> int:
    return int(part.suffix.rpartition("-")[2])


def _numbers(path: Path) -> list[int]:
    """Return the numbers of the parts that are not being joined to the log."""
    return [_number(p) for p in _parts(path) if p.suffix.startswith(".part-")]


def _parts(path: Path) -> list[Path]:
    named = (p for p in path.parent.glob(f"{path.stem}.*") if PART.fullmatch(p.suffix))
    return sorted(named, key=_number)


def _bytes(path: Path, start: int, most: int = -1) -> bytes:
    with open(path, "rb") as f:
        f.seek(start)
        return f.read(most)


def _open(path: Path, flags: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
