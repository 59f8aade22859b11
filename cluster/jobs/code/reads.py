"""What a program reads besides its code: files that its values name, and environment variables.

A file counts by its content, a folder by the files in it. Files that exceed the limit of all contents count
by size and time of change.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import math
import os
import re
import stat
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..run import layout
from ..run.run_folder import Run

CONTENT = 100_000_000  # bytes of all files whose content counts
FILES = 10_000  # files of a folder that are looked at
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "expandvars"}  # names in code that reads variables
OF_THE_RANK = ("CLUSTER_", "CUDA_VISIBLE_DEVICES")  # variables that each rank gets from its launcher
SETTLED = 2.0  # seconds after which a change of a file must have changed its time

FOLDER = "folder"
State = list[Any]  # of a file: [size, time of change in ns, SHA-256 or None]


def files(texts: Iterable[str], leave_out: str = "") -> tuple[dict[str, State], list[str]]:
    """Return ({path: state} of the files and folders that these texts name, notes for the user).

    leave_out: a folder that does not count, the one of the runs, since each run changes it.
    """
    found: dict[str, State] = {}
    notes, left = [], CONTENT
    for text in sorted(set(texts)):
        path = os.path.expanduser(text)
        try:
            folder = stat.S_ISDIR(os.stat(path).st_mode)
        except (OSError, ValueError):  # not a file, as for most texts
            continue
        if folder and os.path.abspath(path) == leave_out:
            continue
        inside = _inside(path, leave_out) if folder else iter([path])
        by_time = 0
        for file in itertools.islice(inside, FILES):
            with contextlib.suppress(OSError):
                size, at = _size_and_time(file)
                by_time += size > left
                content = _digest(file, size, at) if size <= left else None
                left -= size if content else 0
                found[file] = [size, at, content]
        if folder:
            found[path] = [FOLDER, None, None]
        if next(inside, None):
            notes.append(
                f"The folder {text} has more than {FILES} files; only the first of them are compared."
            )
        if by_time:
            what = f"{by_time} files in {text} are" if folder else f"The file {text} is"
            notes.append(
                f"{what} compared by size and time, not by content (over {CONTENT // 10**6} MB in all)."
            )
    return found, notes


def form(states: dict[str, State]) -> Any:
    """Return what counts in the cache key: sizes, and contents, or times for files without."""
    return [[p, state[:1], state[2] or state[1]] for p, state in sorted(states.items()) if state]


@dataclass(frozen=True)
class Recorded:
    """A recorded run or item of a sweep; `target` is its function's name, `worked` returns its interval."""

    key: str
    target: str
    files: dict[str, State]
    run: Run
    worked: Callable[[], tuple[float, float]]


def recorded(runs: Path) -> dict[str, list[Recorded]]:
    """Return {key without files: its recorded runs} of all runs and sweeps in a folder, newest first."""
    found: dict[str, list[Recorded]] = {}
    known: list[tuple[str, Any, Any, dict[str, Any], Path]] = []
    for folder in layout.folders(runs) if runs.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # jobs() reports damaged ones
            record = Run(folder).record
            keys = record.get("keys", [record["key"]])
            bases = record.get("bases", [record["base"]] if "base" in record else keys)
            known.append((record["submitted"], bases, keys, dict(record), folder))
    for _, bases, keys, of_run, folder in sorted(known, key=lambda row: row[0], reverse=True):
        run, states = Run(folder), of_run.get("files", {})
        worked = functools.cache(functools.partial(_interval, run))
        for base, key in zip(bases, keys, strict=True):
            found.setdefault(base, []).append(Recorded(key, of_run["target"], states, run, worked))
    return found


def written(now: dict[str, State], former: Recorded, index: Mapping[str, list[Recorded]]) -> list[str] | None:
    """Return the files that a run wrote itself; None if other files have changed since it was submitted.

    Files in a folder may also have been written by other recorded runs of the function.
    """
    then, outputs = former.files, []
    folders = tuple(f"{path}{os.sep}" for path, state in now.items() if state[0] == FOLDER)
    for path in now.keys() | then.keys():
        if path in now and (
            now[path][0] == FOLDER or form({path: now[path]}) == form({path: then.get(path, [])})
        ):
            continue
        if path not in now:
            return None
        also = (one for some in index.values() for one in some if one.target == former.target)
        writers = itertools.chain([former], also if path.startswith(folders) else [])
        if not any(start <= now[path][1] / 1e9 <= end for start, end in (one.worked() for one in writers)):
            return None
        outputs.append(path)
    return sorted(outputs)


def _interval(run: Run) -> tuple[float, float]:
    """Return when a run's ranks worked; until infinity if they still do."""
    of_sweep = "items" in run.record
    members = list(run.newest_items(max(run.rounds(), default=0)).values()) if of_sweep else [run]
    ranks = [member.rank_record(r) or {} for member in members for r in range(member.ranks)]
    started = [r["started"] for r in ranks if "started" in r]
    over = all("ended" in r for r in ranks) or all(member.ending() for member in members)
    return min(started, default=math.inf), max(
        (r.get("ended", 0.0) for r in ranks), default=0
    ) if over else math.inf


def changed(run: Run) -> list[str]:
    """Return what a run found changed when it started; its result belongs to another request.

    Files that other items of its sweep wrote before it started are their output.
    """
    try:
        found: dict[str, float | None] = json.loads(run.changed.read_text())
    except (OSError, ValueError):
        return []
    worked = []
    if any(found.values()) and run.is_item:
        worked = [_interval(Run(p)) for p in Run(run.path.parent).items().values() if p != run.path]
    return [n for n, at in found.items() if not (at and any(begin <= at <= end for begin, end in worked))]


def prepare(run: Run, call: Mapping[str, Any]) -> None:
    """On a rank: record the variables and files that are not as they were submitted.

    A variable that the node or the site sets, such as TMPDIR, keeps its value there.
    """
    submitted = call.get("environment", {})
    other: dict[str, float | None] = {
        name: None for name, value in submitted.items() if os.environ.setdefault(name, value) != value
    }  # and {file: time of its change in seconds, None if it is gone}
    for file, (size, at, content) in call.get("files", {}).items():
        if size == FOLDER:
            continue
        try:
            now = list(_size_and_time(file))
            if now != [size, at] and not (content and now[0] == size and _digest(file, *now) == content):
                other[file] = now[1] / 1e9
        except OSError:
            other[file] = None
    if other:
        print(f"Changed since the submission: {', '.join(other)}. This run will not be replayed.", flush=True)
        run.changed.write_text(json.dumps(other))


def is_name(text: str) -> bool:
    """Return whether a text may name a file: on one line, and more than dots and slashes."""
    return len(text) < 1024 and "\0" not in text and "\n" not in text and bool(text.strip("./~\\ "))


def strings(code: types.CodeType) -> Iterator[str]:
    """Yield the strings in a code object, and in those inside it."""
    todo: list[Any] = [code]
    while todo:
        v = todo.pop()
        if isinstance(v, (str, bytes)):
            yield os.fsdecode(v)
        elif isinstance(v, types.CodeType):
            todo += v.co_consts
        elif isinstance(v, (tuple, frozenset)):
            todo += v


def asks_environment(code: types.CodeType) -> bool:
    """Return whether a code object, or one inside it, reads environment variables."""
    nested = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return not ENVIRONMENT.isdisjoint(code.co_names + code.co_varnames) or any(map(asks_environment, nested))


def variables(texts: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that these texts name, such as "RATE" or "$RATE/x", as the ranks get them."""
    named = set(texts)
    named |= {name for text in named if "$" in text for name in re.findall(r"\$\{?(\w+)", text)}
    named = {n for n in named & environment.keys() if n == "CLUSTER_DATA" or not n.startswith(OF_THE_RANK)}
    return {name: environment[name] for name in sorted(named)}


def _inside(path: str, leave_out: str) -> Iterator[str]:
    """Yield the files in a folder, in a fixed order."""
    for folder, inside, others in os.walk(path):
        above = os.path.abspath(folder)
        inside[:] = sorted(d for d in inside if d != "__pycache__" and os.path.join(above, d) != leave_out)
        yield from (os.path.join(folder, file) for file in sorted(others))


def _size_and_time(file: str) -> tuple[int, int]:
    """Return (bytes, time of change in ns) of a regular file. Raises OSError for others."""
    found = os.stat(file)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{file} is not a regular file")
    return found.st_size, found.st_mtime_ns


def _digest(file: str, size: int, changed: int) -> str:
    """Return the SHA-256 of a file's content; remembered, unless it may change without changing its time."""
    if time.time() - changed / 1e9 < SETTLED:
        return _content.__wrapped__(file, size, changed)
    return _content(file, size, changed)


@functools.lru_cache(1000)
def _content(file: str, size: int, changed: int) -> str:
    with open(file, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
