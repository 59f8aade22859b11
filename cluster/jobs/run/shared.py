"""Large arrays sent with a sweep's items, stored once in its folder under a name derived from the content.

An item's call.pkl then contains the names and sizes of its arrays instead of their bytes (pickle protocol 5).
"""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

from cluster.system import files

from ..errors import Damaged, NotYours
from . import private, sweeps
from .run_folder import RunFolder

LEAST = 2**20  # bytes of the smallest array that is stored separately


Stored = tuple[str, int]  # an array in call.pkl: the SHA-256 and the number of its bytes


def dumps(value: Any) -> tuple[bytes, list[memoryview]]:
    """Return (a value, pickled without its large arrays; the bytes of these arrays, not copied)."""
    import cloudpickle

    arrays: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < LEAST:
            return True
        arrays.append(view)
        return False

    return cloudpickle.dumps(value, protocol=5, buffer_callback=stays_inside), arrays


def described(arrays: list[memoryview]) -> list[Stored]:
    """Return the names and sizes of arrays."""
    return [(hashlib.sha256(array).hexdigest(), array.nbytes) for array in arrays]


def store(sweep: Path, stored: list[Stored], arrays: list[memoryview]) -> None:
    """Write the arrays that a sweep's folder does not contain yet, readable only by their owner."""
    folder = RunFolder(sweep).shared
    for (name, size), array in zip(stored, arrays, strict=True):
        path = folder / name
        if path.is_file() and path.stat().st_size == size:
            continue
        folder.mkdir(mode=0o700, exist_ok=True)
        with files.writing(path, mode=0o600) as f:
            f.write(array)


def load(item: Path, stored: list[Stored]) -> list[bytearray]:
    """Return the writable arrays of an item. Raises Damaged if one is missing or was changed."""
    folder = RunFolder(sweeps.sweep_of(item)).shared
    return [_load(folder, name, size) for name, size in stored]


def _load(folder: Path, name: str, size: int) -> bytearray:
    path, data = folder / name, bytearray(size)
    try:
        with private.opened(folder, name) as f:
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
