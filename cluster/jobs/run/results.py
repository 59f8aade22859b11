"""The ranks' results: what has an encoding (see `encoding`), and the rest as text next to it.

result-R.json, .npz   the value of rank R as plain data, and its arrays
result-R.txt          the text of each part that is not stored, with its place and the reason
value-R.pkl           then also the rank's own copy: a pickle of the value, or of the parts that can be
                      pickled, as {place: part}. Only its owner may load it; this package never does.
"""

from __future__ import annotations

import contextlib
import json
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

from cluster.system import files

from ..errors import Damaged, ResultError, ResultTooLarge
from ..options import number_set
from .encoding import HINT, Packer, Unpacker, Unstored
from .run_folder import Run

COPY = 16  # the rank's own copy may be so many times as large as the largest result
LARGE = "it is too large"


def cap() -> int:
    """Return the maximum size of a rank's result in bytes, of JSON and arrays together."""
    return number_set("CLUSTER_MAX_RESULT")


def save(run: Run, rank: int, value: Any) -> list[Unstored]:
    """Write a rank's result, and return the parts that are only text. Raises OSError if the disk is full."""
    with _deep():
        text, packer = _packed(value)
        if _size(text, packer) > cap():
            whole = {id(value): _large(_size(text, packer))}
            text, packer = _packed(value, _too_large(value))
            if _size(text, packer) > cap():
                text, packer = _packed(value, whole)
    if packer.arrays:
        import numpy as np

        with files.writing(run.arrays(rank)) as f:
            np.savez(f, **packer.arrays)
    parts = [part for part, _ in packer.unstored]
    if parts:
        shown = (f"--- {p.place} ({p.type}): {p.why}\n{p.text}\n" for p in parts)
        files.write(run.result_text(rank), "".join(shown).encode(errors="backslashreplace"))
    files.write(run.result(rank), text)
    if parts:
        with _deep():
            _copy(run, rank, value, packer)
    return parts


def _packed(value: Any, skip: dict[int, str] | None = None) -> tuple[str, Packer]:
    """Return (JSON text, packer), which is verified to be readable; if it is not, the value is left out."""
    packer = Packer({}, skip=skip)
    try:
        text = json.dumps(packer.pack(value))
        if packer.tagged:
            Unpacker(packer.arrays).unpack(json.loads(text))
    except Exception as e:
        packer = Packer({}, skip={id(value): f"it could not be stored ({type(e).__name__})"})
        text = json.dumps(packer.pack(value))
    return text, packer


def _size(text: str, packer: Packer) -> int:
    return len(text) + sum(a.nbytes for a in packer.arrays.values())


def _large(size: int) -> str:
    return f"{LARGE} ({size / 2**20:.1f} MiB, and at most {cap() / 2**20:g} MiB are kept)"


def _too_large(value: Any) -> dict[int, str]:
    """Return the elements of a container that do not fit after those before them: {id: why}."""
    parts = (
        list(value.values() if isinstance(value, dict) else value)
        if type(value) in (dict, list, tuple)
        else []
    )
    left, skip = cap() - 1000 * len(parts), {}
    for part in parts:
        size = _size(*_packed(part))
        if size > left:
            skip[id(part)] = _large(size)
        else:
            left -= size
    return skip


def _copy(run: Run, rank: int, value: Any, packer: Packer) -> None:
    """Write the rank's own copy, if anything in it can be pickled."""
    import cloudpickle

    copy = run.result_copy(rank)
    with contextlib.suppress(Exception, SystemExit), files.writing(copy, mode=0o600) as f:
        cloudpickle.dump(value, _Limited(f))
        return
    parts = {}
    for part, v in packer.unstored:
        with contextlib.suppress(Exception, SystemExit):
            if len(cloudpickle.dumps(v)) <= cap():
                parts[part.place] = v
    with contextlib.suppress(Exception, SystemExit):
        if parts:
            with files.writing(copy, mode=0o600) as f:
                cloudpickle.dump(parts, _Limited(f))


class _Limited:
    """A file that refuses to grow beyond COPY results."""

    def __init__(self, file: Any):
        self._file, self._left = file, COPY * cap()

    def write(self, data: Any) -> int:
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise OSError("too large")
        return self._file.write(data)


def load(run: Run, rank: int, expected: dict[str, str] | None = None, *, partial: bool = False) -> Any:
    """Return a rank's result.

    partial: with an `Unstored` in place of each part that is only text; otherwise these raise ResultError, or
    ResultTooLarge. Raises Damaged if it differs from `expected`, the hashes from the run's end.
    """
    text = run.result(rank)
    if expected is not None:
        check_hashes(run, f"{text.stem}.", expected)
    if not text.is_file():
        raise Damaged(
            f"{run.path} contains no result of rank {rank}.", "Run it again: submit(..., rerun=True)."
        )
    arrays: dict[str, Any] = {}
    npz = run.arrays(rank)
    if npz.is_file():
        import numpy as np

        with zipfile.ZipFile(npz) as z:
            if sum(i.file_size for i in z.infolist()) > cap() + 2**20:
                raise ResultTooLarge(
                    f"{npz} unpacks to more than {cap()} bytes.",
                    "If you trust its origin, set CLUSTER_MAX_RESULT to a larger number of bytes.",
                )
        with np.load(npz, allow_pickle=False) as z:
            arrays = {k: z[k] for k in z.files}
    with _deep():
        unpacker = Unpacker(arrays)
        value = unpacker.unpack(json.loads(text.read_text()))
    if unpacker.unstored and not partial:
        raise _error(run, rank, unpacker.unstored)
    return value


def _error(run: Run, rank: int, parts: list[Unstored]) -> ResultError | ResultTooLarge:
    kind = ResultTooLarge if all(p.why.startswith(LARGE) for p in parts) else ResultError
    what = [f"{p.place} is of type {p.type}, which was not stored: {p.why}." for p in parts[:3]]
    what += [f"{len(parts) - 3} other parts were not stored either."] if len(parts) > 3 else []
    steps = [
        "The run is done, and the rest of the result is stored: job.result(partial=True) returns it, with "
        "the text (.text) and what could be read (.content) of each part that is missing.",
        f"The texts are in {run.result_text(rank)}.",
    ]
    if (copy := run.result_copy(rank)).exists():
        steps.append(f"Your own copy is {copy}: if this run is yours, pickle.load(open(..., 'rb')) reads it.")
    if kind is ResultTooLarge:
        steps.append(
            "Next time return a summary, write the arrays to a file in cluster.jobs.run_folder(), or allow "
            "more bytes: env={'CLUSTER_MAX_RESULT': ...}."
        )
    else:
        steps.append(f"Next time: {HINT}")
    return kind(" ".join(what), "\n".join(steps))


@contextlib.contextmanager
def _deep() -> Iterator[None]:
    """Allow the recursion that `encoding.DEPTH` nested containers need."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 5000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def check_hashes(run: Run, start: str, expected: dict[str, str]) -> None:
    """Raise Damaged if files whose names begin with `start` have changed since the run ended."""
    actual, expected = run.hashes(start), {n: h for n, h in expected.items() if n.startswith(start)}
    names = sorted(n for n in actual | expected if actual.get(n) != expected.get(n))
    if names:
        raise Damaged(
            f"{names[0]} in {run.path} is missing, or was changed after the run ended.",
            "Run it again: submit(..., rerun=True).",
        )
