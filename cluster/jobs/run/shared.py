"""Large arrays sent with a sweep's items, stored once in its folder under a name derived from the content.

An item's call.pkl then contains the names and sizes of its arrays instead of their bytes (pickle protocol 5).
"""

from __future__ import annotations

import hashlib
import os

from cluster.system import files

from ..errors import Damaged, NotYours
from . import private
from .run_folder import Run

Stored = tuple[str, int]  # an array in call.pkl: the SHA-256 and the number of its bytes


def store(sweep: Run, stored: list[Stored], arrays: list[memoryview]) -> None:
    """Write the arrays that a sweep's folder does not contain yet, readable only by their owner."""
    for (name, size), array in zip(stored, arrays, strict=True):
        path = sweep.shared / name
        if path.is_file() and path.stat().st_size == size:
            continue
        sweep.shared.mkdir(mode=0o700, exist_ok=True)
        with files.writing(path, mode=0o600) as f:
            f.write(array)


def load(item: Run, stored: list[Stored]) -> list[bytearray]:
    """Return the writable arrays of an item. Raises Damaged if one is missing or was changed."""
    return [_load(item.whole_sweep, name, size) for name, size in stored]


def _load(sweep: Run, name: str, size: int) -> bytearray:
    path, data = sweep.shared / name, bytearray(size)
    try:
        with private.opened(sweep.shared, name) as f:
            complete = f.readinto(data) == size and not f.read(1)
    except NotYours:
        raise
    except OSError as e:
        raise Damaged(
            f"An array of this run is missing: {path} ({os.strerror(e.errno or 0)}).",
            "Copy the whole folder of the sweep, or run it again: map(..., rerun=True).",
        ) from None
    if not complete or hashlib.sha256(data).hexdigest() != name:
        raise Damaged(f"{path} was changed after submission.", "Run it again: map(..., rerun=True).")
    return data
