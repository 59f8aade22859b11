"""Results as plain data, which cannot run code: JSON for the structure, npz for the arrays.

Tuples, integer keys and NumPy scalars are restored as such; a tensor is restored as an array.
"""

from __future__ import annotations

import json
import zipfile
from typing import Any

from cluster.system import files

from ..errors import Damaged, ResultError, ResultTooLarge
from ..options import number_set
from .run_folder import Run


def cap() -> int:
    """Return the maximum size of a rank's result in bytes, of JSON and arrays together."""
    return number_set("CLUSTER_MAX_RESULT")


def save(run: Run, rank: int, value: Any) -> None:
    """Write a rank's result. Raises ResultTooLarge, or ResultError with the type and its location in it."""
    arrays: dict[str, Any] = {}
    text = json.dumps(pack(value, "the result", arrays))
    size = len(text) + sum(a.nbytes for a in arrays.values())
    if size > cap():
        raise ResultTooLarge(
            f"The result of rank {rank} has {size / 2**20:.1f} MiB; at most {cap() / 2**20:g} MiB are kept.",
            "Return a summary, or write the arrays to a file in cluster.jobs.run_folder().",
        )
    if arrays:
        import numpy as np

        with files.writing(run.arrays(rank)) as f:
            np.savez(f, **arrays)
    files.write(run.result(rank), text)


def load(run: Run, rank: int, expected: dict[str, str] | None = None) -> Any:
    """Return a rank's result. Raises Damaged if it differs from `expected`, the hashes from the run's end."""
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
                raise ResultTooLarge(f"{npz} unpacks to more than {cap()} bytes.", "Check its origin.")
        with np.load(npz, allow_pickle=False) as z:
            arrays = {k: z[k] for k in z.files}
    return unpack(json.loads(text.read_text()), arrays)


def check_hashes(run: Run, start: str, expected: dict[str, str]) -> None:
    """Raise Damaged if files whose names begin with `start` have changed since the run ended."""
    actual, expected = run.hashes(start), {n: h for n, h in expected.items() if n.startswith(start)}
    names = sorted(n for n in actual | expected if actual.get(n) != expected.get(n))
    if names:
        raise Damaged(
            f"{names[0]} in {run.path} is missing, or was changed after the run ended.",
            "Run it again: submit(..., rerun=True).",
        )


def pack(v: Any, where: str, arrays: dict[str, Any]) -> Any:
    """Convert a value to JSON types, adding its arrays to `arrays`. Raises ResultError with the location."""
    if v is None or type(v) in (bool, int, float, str):
        return v
    if type(v) is list:
        return [pack(x, f"{where}[{i}]", arrays) for i, x in enumerate(v)]
    if type(v) is tuple:
        return {"__tuple__": [pack(x, f"{where}[{i}]", arrays) for i, x in enumerate(v)]}
    if type(v) is dict:
        for k in v:
            if type(k) not in (str, int, float, bool):
                raise _refuse(f"a key of {where}", k)
        pairs = [(k, pack(x, f"{where}[{k!r}]", arrays)) for k, x in v.items()]
        plain = all(type(k) is str and not k.startswith("__") for k in v)
        return dict(pairs) if plain else {"__dict__": pairs}
    import numpy as np

    if not isinstance(v, (np.ndarray, np.generic)):
        if not (type(v).__module__.startswith(("tensorflow", "keras")) and hasattr(v, "numpy")):
            raise _refuse(where, v)
        v = v.numpy()
    if np.asarray(v).dtype.kind not in "biufcUS":
        raise _refuse(where, v)
    arrays[f"a{len(arrays)}"] = np.asarray(v)
    return {"__array__" if isinstance(v, np.ndarray) else "__scalar__": f"a{len(arrays) - 1}"}


def unpack(v: Any, arrays: dict[str, Any]) -> Any:
    """Convert the result of `pack` and its arrays back to the original value."""
    if isinstance(v, list):
        return [unpack(x, arrays) for x in v]
    if not isinstance(v, dict):
        return v
    if len(v) == 1:
        ((tag, inside),) = v.items()
        if tag == "__tuple__":
            return tuple(unpack(inside, arrays))
        if tag == "__dict__":
            return {k: unpack(x, arrays) for k, x in inside}
        if tag in ("__array__", "__scalar__"):
            return arrays[inside] if tag == "__array__" else arrays[inside][()]
    return {k: unpack(x, arrays) for k, x in v.items()}


def _refuse(where: str, v: Any) -> ResultError:
    name = f"{type(v).__module__}.{type(v).__qualname__}".removeprefix("builtins.")
    steps = {
        "History": "Return history.history, a dictionary of lists.",
        "DataFrame": "Return df.to_dict('list').",
        "ndarray": "Convert it to a numeric dtype first.",
    }
    usual = "Return numbers, strings, NumPy arrays, or lists and dictionaries of these."
    detail = f" of dtype {v.dtype}" if hasattr(v, "dtype") else ""
    what = f"{where} is of type {name}{detail}, which cannot be sent back."
    return ResultError(what, steps.get(type(v).__name__, usual))
