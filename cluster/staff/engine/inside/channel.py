"""Messages between processes that do not trust each other: four bytes of length, then JSON."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from typing import Any

from .errors import AnswerTimeoutError, ProcessLostError

LARGEST = 64 * 2**20  # bytes of one message; made into Python's lists it can be twenty times as large
PART = LARGEST // 16  # bytes of a part of a file: in base64, with its name, far less than a message may have


class Channel:
    """Two file descriptors; `receive` never trusts a length, a text or a pause of the other side.

    largest: bytes of one message that is received. What is sent may have LARGEST.
    """

    def __init__(self, source: int, target: int, largest: int = LARGEST):
        self.source, self.target, self.largest = source, target, largest

    @classmethod
    def of_this_process(cls) -> Channel:
        """Take standard input and output as a channel, and give this process empty ones instead."""
        channel = cls(os.dup(0), os.dup(1))
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        return channel

    def send(self, message: Any) -> None:
        """Raises ProcessLostError if the other process has ended, ValueError if the message is too large.

        message: what JSON can hold.
        """
        data = json.dumps(message).encode()
        if len(data) > LARGEST:
            raise ValueError(f"{len(data) / 2**20:.0f} MiB in one value; at most {LARGEST >> 20} are sent")
        rest = memoryview(len(data).to_bytes(4, "big") + data)
        try:
            while rest:
                rest = rest[os.write(self.target, rest) :]
        except OSError as error:
            raise ProcessLostError("it has ended") from error

    def receive(self, seconds: float | None = None, more: Callable[[], float] | None = None) -> Any:
        """The next message. Raises ProcessLostError or AnswerTimeoutError.

        What has arrived when the time is over is read: the reader may be the one who is late.
        more: a function that is called when the time is over; returns the seconds more that are waited.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while more and end is not None:
            if select.select([self.source], [], [], max(0, end - time.monotonic()))[0]:
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
            raise ProcessLostError("what it sent is no message") from error

    def _read(self, size: int, end: float | None) -> bytes:
        parts = []
        while size:
            if end is not None:
                rest = max(0.0, end - time.monotonic())
                if not select.select([self.source], [], [], rest)[0]:
                    raise AnswerTimeoutError("no answer in time")
            part = os.read(self.source, min(size, 2**20))
            if not part:
                raise ProcessLostError("it has ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
