"""The output of a rank on disk: complete up to a limit, and only its beginning and end beyond it.

`out-R.log` takes half of the limit. Further output goes to `out-R.log.N`, where N is the number of bytes
before it, each a quarter of the limit long, and the newest two of these files are kept. The disk usage is
therefore at most the limit, and a rank that prints indefinitely neither blocks nor is killed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
from pathlib import Path
from typing import Any

from cluster.system import settings

from ..options import size

TEXT = 2**16  # maximum number of characters kept of an error message
CHUNK = 2**16  # bytes read at once
PIPE = 2**20  # bytes; the maximum capacity of a pipe
POLL = 0.25  # seconds between checks whether a silent rank has ended


def cap() -> int:
    """Return a rank's maximum log size in bytes; max_output=... sets it in the rank's environment."""
    name = "CLUSTER_MAX_OUTPUT"
    return size(settings.text(name)) or size(settings.SETTINGS[name].default)


class Log:
    """The log of a running rank, limited to its first and last bytes, `limit` in total.

    It continues the log of an earlier attempt.
    """

    def __init__(self, path: Path, limit: int):
        self._path, self._limit, self._lost = path, limit, 0
        self._open(*(_segments(path) or [(0, path)])[-1])

    def write(self, data: bytes) -> None:
        """Append output; if the disk is full, output is lost, but the rank continues."""
        try:
            while data:
                room = self._limit // (4 if self._start else 2) - self._file.tell()
                if room > 0:
                    data = data[self._file.write(data[:room]) :]
                else:
                    self._begin_next()
        except OSError:
            self._lost += len(data)

    def printed(self) -> int:
        """Return the number of bytes in all, also those that are no longer kept."""
        return self._start + self._file.tell()

    def close(self) -> None:
        """Report what was lost, and close the file."""
        with contextlib.suppress(OSError):
            if self._lost:
                text = f"\n--- {self._lost} bytes could not be written: the disk was full\n"
                self._file.write(text.encode())
        self._file.close()

    def _open(self, start: int, path: Path) -> None:
        opener = functools.partial(os.open, mode=0o600)
        self._start, self._file = start, open(path, "ab", buffering=0, opener=opener)  # noqa: SIM115

    def _begin_next(self) -> None:
        full, start = self._file, self.printed()
        self._open(start, self._path.with_name(f"{self._path.name}.{start}"))
        full.close()
        for _, old in _segments(self._path)[1:-2]:
            old.unlink()


def attend(child: int, pipe: int, log: Log) -> tuple[int, Any]:
    """Write a child's output into the log until it ends; return (status, usage) of `os.wait4`.

    Processes left behind by the child may keep the pipe open; their later output is ignored.
    """
    ended: tuple[int, int, Any] = (0, 0, None)
    left = PIPE
    while left > 0:
        if select.select([pipe], [], [], POLL)[0]:
            data = os.read(pipe, CHUNK)
            log.write(data)
            if not data:  # it is closed, although the child may continue
                break
        elif ended[0]:  # the child has ended, and the pipe is empty
            break
        if ended[0]:
            left -= len(data)
        else:
            ended = os.wait4(child, os.WNOHANG)
    return (ended if ended[0] else os.wait4(child, 0))[1:]


def read_log(path: Path, at: int = 0) -> tuple[bytes, int]:
    """Return (a rank's output from byte `at` on, the number of bytes that it has printed).

    A line takes the place of bytes that are no longer kept. It works while the rank is running, too.
    """
    chunks = []
    for start, segment in _segments(path):
        with contextlib.suppress(FileNotFoundError):  # removed to make room
            new = _bytes(segment, max(0, at - start))
            if new and start > at:
                chunks.append(f"\n--- {start - at} bytes are left out here (max_output)\n".encode())
            chunks.append(new)
            at = max(at, start) + len(new)
    return b"".join(chunks), at


def end(path: Path) -> bytes:
    """Return the last CHUNK bytes of a log, without reading the rest."""
    tail = b""
    for _, segment in _segments(path)[-2:]:
        with contextlib.suppress(FileNotFoundError):
            tail += _bytes(segment, max(0, segment.stat().st_size - CHUNK))
    return tail[-CHUNK:]


def clip(text: str) -> str:
    """Return a text shortened to about TEXT characters, with its beginning and end."""
    if len(text) <= TEXT:
        return text
    half = TEXT // 2
    return f"{text[:half]}\n--- {len(text) - 2 * half} characters are cut out here\n{text[-half:]}"


def _segments(path: Path) -> list[tuple[int, Path]]:
    """Return [(bytes printed before, file)] of the log, in order."""
    later = ((p.suffix[1:], p) for p in path.parent.glob(f"{path.name}.*"))
    first = [(0, path)] if path.is_file() else []
    return first + sorted((int(start), p) for start, p in later if start.isdigit())


def _bytes(path: Path, start: int) -> bytes:
    with open(path, "rb") as f:
        f.seek(start)
        return f.read()
