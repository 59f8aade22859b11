"""Job folders on disk: created atomically by renaming, private, and verified before use.

A folder `runs/<name>-<key12>/` contains these files, in the order they appear (their paths: `run_folder`):

    lock             held by the process that starts the job, then by its launcher; free if neither runs
    run.json         the request, versions, machine, time, and the command that repeats it
    code.py          the code as submitted, for people
    call.pkl         the function and its arguments, for the ranks only
    job.sh           the executed script; job.log its output
    backend.json     what runs the job: the launcher, or Slurm under this job id
    rank-R.json      each rank: host, start, end, exit code, signal, memory; error-R.json its exception
    location-R.json  since when rank R makes no progress, and where; stacks-R.txt the stacks of its threads
    ready-R.json     when rank R called the function; timeline.json Horovod's operations, if requested
    out-R.log        rank R's output; metrics-R.jsonl its metrics; result-R.json and .npz its result
    out-R.part-N     the latest output of rank R once its log has reached its limit, and
    out-R.joining-N  the same while it is appended to the log (see `rank_log`)
    interrupted.json when Slurm was first seen to have stopped the job and to be about to restart it
    cancel.json      a request to cancel the job
    end.json         how the job ended, written once, with the hashes of the results
    attempts/N/      files of an earlier, interrupted attempt of the run
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path

from cluster.system import files, settings

from ..errors import Damaged, NoSuchJob
from . import private
from .run_folder import RUN_JSON, RunFolder


def root(folder: str | os.PathLike | None = None) -> Path:
    """Return the folder of job folders: the argument, $CLUSTER_RUNS, or `runs` in the current directory.

    If that is a relative path that can neither be read nor created, because the folder is read-only (such as
    the lectures on a course server), it is `runs` in the home directory.
    """
    named = Path(folder or settings.text("CLUSTER_RUNS") or "runs").expanduser()
    chosen = named.absolute()
    if folder is None and not named.is_absolute() and not chosen.exists():
        above = next(parent for parent in chosen.parents if parent.exists())
        return chosen if os.access(above, os.W_OK) else Path.home() / "runs"
    return chosen


def slug(name: str) -> str:
    """Convert a name for use in a path or a script, with letters, digits, dot, dash and underscore.

    >>> slug("my net; rm -rf /")
    'my-net-rm-rf'
    """
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:40] or "job"


def find(runs: Path, key: str) -> Path | None:
    """Return the folder of the run with this key under any name, or None. Raises NotYours or Damaged."""
    folder = next((p for p in folders(runs) if p.name.endswith(f"-{key[:12]}")), None)
    if folder and RunFolder(check_owner(folder)).read_run().get("key") != key:
        raise Damaged(
            f"{folder} does not contain the run that its name states.",
            "Move the folder elsewhere, and submit again.",
        )
    return folder


def folders(runs: Path) -> list[Path]:
    """Return the job folders, sorted by name, without those that are still being created (`.new-...`).

    Raises NotYours if other users can create folders there.
    """
    private.check_runs(runs)
    return sorted(p.parent for p in runs.glob(f"*/{RUN_JSON}") if not p.parent.name.startswith("."))


@contextlib.contextmanager
def lock(runs: Path, key: str) -> Iterator[None]:
    """Lock a key, so that only one process at a time replaces its run and creates its folder."""
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    private.check_runs(runs)
    # on a file system without locks, `create` still has exactly one winner
    with files.lock(runs / f".{key[:12]}.lock"):
        yield


def name(title: str, key: str) -> str:
    """Return the name of a job folder."""
    return f"{slug(title)}-{key[:12]}"


def create(
    runs: Path, title: str, key: str, contents: dict[str, str | bytes]
) -> tuple[Path, BufferedWriter | None]:
    """Create a complete, locked job folder; return (folder, lock, or None if another process was first)."""
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = runs / name(title, key)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=runs))  # created with mode 0700
    for file, content in contents.items():
        write_private(temporary / file, content)
    held = hold(temporary)
    try:
        os.rename(temporary, target)  # fails if a folder with content exists
    except OSError:
        held.close()
        shutil.rmtree(temporary)
        if not target.is_dir():
            raise
        return target, None
    return target, held


def write_private(path: Path, content: str | bytes) -> None:
    """Write a new file that only its owner can read and write, regardless of umask and the folder's mode."""
    path.touch(mode=0o600)
    path.write_bytes(files.as_bytes(content))


def hold(folder: Path) -> BufferedWriter:
    """Return the lock of a folder, held until the returned file and each copy of it are closed.

    It is not a context manager, because the launcher or sbatch holds it longer than this process.
    """
    return files.hold(RunFolder(folder).lock)


def held(folder: Path) -> bool:
    """Return whether a process that starts or runs the job of this folder is alive.

    On a file system without locks this is unknown. The result is then False, and Slurm is queried.
    """
    return files.is_held(RunFolder(folder).lock)


def claim(folder: Path) -> contextlib.AbstractContextManager[bool]:
    """Hold a folder's lock while the body runs; yield False if a process is starting or running the job."""
    return files.lock(RunFolder(folder).lock, wait=False)


def remove_half_made(runs: Path, age: float = 3600) -> None:
    """Remove the incomplete folders of interrupted submissions if they are older than `age` seconds."""
    for temporary in runs.glob(".new-*"):
        with contextlib.suppress(OSError):
            if time.time() - temporary.stat().st_mtime > age:
                shutil.rmtree(temporary)


def set_aside(folder: Path) -> Path:
    """Rename a folder to its first unused numbered sibling, `<folder>.1`, `<folder>.2`, ..."""
    n = 1
    while (aside := folder.with_name(f"{folder.name}.{n}")).exists():
        n += 1
    os.rename(folder, aside)
    return aside


def check_owner(folder: Path) -> Path:
    """Return the folder if only this user or root can have written to it. Raises NotYours or NoSuchJob."""
    if not RunFolder(folder).run_json.is_file():
        raise NoSuchJob(f"{folder} is not a job folder (it has no run.json).", "List the jobs with jobs().")
    return private.check(folder)


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the code and of each result and metrics file, by file name."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in RunFolder(folder).hashed()}
