"""Checks of what ranks do together: a function of the notebook is called on each of several ranks.

    found = on_ranks(try_metric, [{"right": 3, "seen": 4}, {"right": 1, "seen": 6}])
    assert [rank.value for rank in found] == [0.4, 0.4]

A rank gets only its own inputs. A result that depends on all inputs must therefore come from communication
between the ranks. In a notebook the ranks are a job on this machine, and outcomes are cached while functions
and inputs stay the same. In the autograder they are processes in a sandbox that the notebook's process cannot
access, and their code is generated from the notebook's source (see the autograder's README).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import io
import os
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from .calls import ENGINE

SECONDS = 20.0  # seconds after which a rank's function counts as hanging, on an idle machine
SLOWEST = 4.0  # maximum factor by which a crowded machine extends SECONDS
GRACE = 5.0  # maximum seconds between the first and the last rank's report
LONGEST = 2000  # maximum characters of an error's text
TOGETHER = "together"  # folder where the ranks of a job announce that they have ended


@dataclass
class Outcome:
    """The outcome of a call on one rank: one of `value`, `error` and `unfinished` is set.

    value: the function's return value. error: "Name in function(): text" with the innermost function of the
    notebook. unfinished: the notebook's innermost function that had not returned in time.
    files: {name: (bytes, SHA-256, inode)} of the files in the rank's folder after all ranks have ended.
    """

    value: Any = None
    error: str = ""
    unfinished: str = ""
    files: dict[str, tuple[int, str, int]] = field(default_factory=dict)


def on_ranks(
    function: Callable,
    inputs: list[dict[str, Any]],
    seconds: float = SECONDS,
    again: bool = False,
    instead: str = "",
) -> list[Outcome]:
    """Call `function(**inputs[r])` on rank r of len(inputs) ranks; return the Outcome of each, in rank order.

    The ranks have connected through Horovod before the call, and each has a separate empty folder as its
    working directory. function: one of the notebook's functions, which returns plain data (numbers, text,
    arrays, lists of them). inputs: plain data, too, or functions of the notebook. again: repeat the call even
    if the outcome is cached. instead: source of functions that replace the notebook's, for hidden tests that
    must not fail because of another check; only in grading, ValueError elsewhere.
    """
    if engine := sys._getframe(1).f_globals.get(ENGINE):
        return engine.ranks(function, inputs, seconds, again, instead)
    if instead:
        raise ValueError("a notebook calls its own functions: leave `instead` empty")
    return _as_a_job(function, inputs, seconds, again)


def has_failed(check: str) -> bool:
    """Return whether `check` has already failed. In a notebook this is not recorded, so it returns False.

    A check that would fail only because of another one can then report this without further cost.
    """
    engine = sys._getframe(1).f_globals.get(ENGINE)
    return engine is not None and check in engine.failed


# --- on a rank, wherever it runs ---------------------------------------------------------------------------


def crowding() -> float:
    """Return the slowdown caused by other programs, from the load per core, between 1 and SLOWEST."""
    return min(SLOWEST, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def attempt(call: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Return {"value": …}, {"error": …} or {"unfinished": …} of a call, as in Outcome.

    The call runs in a separate thread, because a call in a collective can be abandoned, but not interrupted.
    """
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            found["value"] = call()
        except BaseException as error:
            found["error"] = described(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(seconds)
    if found or not worker.is_alive():
        return found
    frame = sys._current_frames().get(worker.ident or 0)
    outwards = [frame for frame, _ in traceback.walk_stack(frame)]
    return {"unfinished": innermost(reversed(outwards)) or "a function"}


def described(error: BaseException) -> str:
    """Describe an error, or the one that made TensorFlow raise it, by name, function and text."""
    while error.__cause__ is not None:
        error = error.__cause__
    where = innermost(frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return f"{type(error).__name__}{f' in {where}()' if where else ''}: {error}"[:LONGEST]


def innermost(frames: Iterable[FrameType]) -> str:
    """Return the name of the innermost function that belongs to the notebook, or ""."""
    names = [f.f_code.co_name for f in frames if f.f_globals.get("__name__") == "__main__"]
    plain = [name.removeprefix("tf__") for name in names if not name.startswith("<")]  # tf__: AutoGraph's
    return plain[-1] if plain else ""


def files_in(folder: Path) -> dict[str, tuple[int, str, int]]:
    """Return {name: (bytes, SHA-256, inode)} of the regular files in a folder, without following links."""
    try:
        paths = sorted(folder.iterdir()) if not folder.is_symlink() else []
    except OSError:  # the folder has been removed or is not accessible
        return {}
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(fd, "rb") as file:
                about = os.fstat(fd)
                if stat.S_ISREG(about.st_mode):
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                    found[path.name] = (about.st_size, digest, about.st_ino)
    return found


# --- in a notebook -----------------------------------------------------------------------------------------


def _as_a_job(
    function: Callable, inputs: list[dict[str, Any]], seconds: float, again: bool = False
) -> list[Outcome]:
    """Run the ranks as a job on this machine. Raises a JobError if it cannot be submitted."""
    from cluster.jobs import JobFailed, submit

    options = {"ranks_per_node": len(inputs), "backend": "local", "time": "00:04:00", "rerun": again}
    with _forked(), contextlib.redirect_stdout(io.StringIO()):
        job = submit(_on_rank, function, inputs, seconds, **options, folder=_folder())
        try:
            ended = job.results(progress=False)
        except JobFailed as error:  # a rank was killed, or returned something other than plain data
            ended = [{"error": f"{type(error).__name__}: {error}"[:LONGEST]}] * len(inputs)
    folders = [job.folder / _own(rank) for rank in range(len(inputs))]
    seen = [files_in(folder) for folder in folders]
    return [Outcome(**one, files=files) for one, files in zip(ended, seen, strict=True)]


def _on_rank(function: Callable, inputs: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Run the job's function on a rank and stay until all are done, because an exit would wake the others."""
    import horovod.tensorflow as hvd

    from cluster.jobs import run_folder

    hvd.init()
    rank, ended = hvd.rank(), run_folder() / TOGETHER
    own = run_folder() / _own(rank)
    own.mkdir(parents=True)
    os.chdir(own)
    seconds *= crowding()
    found = attempt(functools.partial(function, **inputs[rank]), seconds)
    ended.mkdir(exist_ok=True)
    (ended / str(rank)).touch()
    end = time.monotonic() + seconds + GRACE
    while len(list(ended.iterdir())) < len(inputs) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def _own(rank: int) -> str:
    return f"rank-{rank}"


@functools.cache
def _folder() -> str:
    """Return the folder of these jobs, which is removed when the notebook's process ends."""
    made = tempfile.TemporaryDirectory(prefix="on-ranks-")
    atexit.register(made.cleanup)
    return made.name


@functools.cache
def _offered() -> str:
    """Start a process once that has imported the libraries and forks ranks from itself; return its socket."""
    from cluster.jobs.backends import forked_ranks

    keep = contextlib.ExitStack()
    atexit.register(keep.close)
    keep.enter_context(forked_ranks.offered(forked_ranks.LIBRARIES))
    return os.environ.pop(forked_ranks.VARIABLE)  # other jobs of the notebook are started as usual


@contextlib.contextmanager
def _forked() -> Iterator[None]:
    from cluster.jobs.backends import forked_ranks

    if forked_ranks.VARIABLE in os.environ:  # ranks are already offered
        yield
        return
    os.environ[forked_ranks.VARIABLE] = _offered()
    try:
        yield
    finally:
        os.environ.pop(forked_ranks.VARIABLE, None)
