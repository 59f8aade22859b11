"""Messages between processes that do not trust each other: the length in four bytes, then JSON."""

from __future__ import annotations

import base64
import json
import os
import select
import time
from collections.abc import Callable
from typing import Any

from .errors import AnswerTimeoutError, ProcessLostError

Message = dict[str, Any]
LARGEST = 64 * 2**20  # bytes of one message; as Python lists it can be twenty times as large
PART = LARGEST // 16  # bytes of a part of a file; with base64 and its name, still far below LARGEST


def keep(file: str, data: str) -> None:
    """Append a part of a file to it; an empty part creates the file."""
    os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
    with open(file, "ab") as target:
        target.write(base64.b64decode(data))


def readable(fd: int, seconds: float) -> bool:
    """Return whether a file descriptor of any number can be read within `seconds`."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


class Channel:
    """Two file descriptors; `receive` does not trust the length, the syntax or the speed of the other side.

    largest: maximum bytes of a received message; the maximum of a sent message is LARGEST.
    """

    def __init__(self, source: int, target: int, largest: int = LARGEST):
        self.source, self.target, self.largest = source, target, largest

    @classmethod
    def of_this_process(cls) -> Channel:
        """Turn standard input and output into a channel, and replace them with /dev/null."""
        channel = cls(os.dup(0), os.dup(1))
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        return channel

    def send(self, message: Any) -> None:
        """Send JSON. Raises ProcessLostError if the other process ended, ValueError if it is too large."""
        data = json.dumps(message).encode()
        if len(data) > LARGEST:
            raise ValueError(f"a value has {len(data) / 2**20:.0f} MiB; the limit is {LARGEST >> 20} MiB")
        rest = memoryview(len(data).to_bytes(4, "big") + data)
        try:
            while rest:
                rest = rest[os.write(self.target, rest) :]
        except OSError as error:
            raise ProcessLostError("it has ended") from error

    def receive(self, seconds: float | None = None, more: Callable[[], float] | None = None) -> Any:
        """Return the next message. Raises ProcessLostError or AnswerTimeoutError.

        A message that has arrived when the time is over is still read, since the reader may be late.
        more: called when the time is over; returns how many more seconds to wait.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while more and end is not None:
            if readable(self.source, end - time.monotonic()):
                break
            if (further := more()) <= 0:
                break
            end = time.monotonic() + further
        size = int.from_bytes(self._read(4, end), "big")
        if size > self.largest:
            raise ProcessLostError(f"it sent {size / 2**20:.0f} MiB in one message")
        try:
            return json.loads(self._read(size, end))
        except (ValueError, RecursionError, MemoryError) as error:
            raise ProcessLostError("it sent an invalid message") from error

    def receive_task(self) -> Message:
        """Write the files that arrive to the working folder; return the next message that is not a file."""
        while "file" in (task := self.receive()):
            keep(**task)
        return task

    def _read(self, size: int, end: float | None) -> bytes:
        parts = []
        while size:
            if end is not None and not readable(self.source, end - time.monotonic()):
                raise AnswerTimeoutError("no answer in time")
            part = os.read(self.source, min(size, 2**20))
            if not part:
                raise ProcessLostError("it has ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
