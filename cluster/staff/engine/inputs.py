"""Submitted files as messages: a sandbox receives the bytes of files, never access to a folder."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .inside.channel import PART
from .inside.errors import FilesTooLargeError


def files_of(folder: Path | str | None, largest: int) -> Iterator[dict[str, str]]:
    """Yield {"file": relative path, "data": base64} for the regular files (not links) in a folder.

    Files are sent in parts of PART bytes. Raises FilesTooLargeError above `largest` bytes in all.
    """
    room = largest
    for here, _, names in os.walk(folder) if folder else ():
        for name in sorted(names):
            try:
                fd = os.open(os.path.join(here, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:  # a link, a socket
                continue
            with open(fd, "rb") as file:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    continue
                path, first = os.path.relpath(os.path.join(here, name), folder), True
                while (data := file.read(PART)) or first:
                    room, first = room - len(data), False
                    if room < 0:
                        raise FilesTooLargeError(
                            f"the submitted files have more than {largest >> 20} MiB in total"
                        )
                    yield {"file": path, "data": base64.b64encode(data).decode()}
