"""Calls of the scheduler, counted by scripts that come before Slurm's commands on PATH."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rivals import executor, stamps

COMMANDS = ("squeue", "sacct", "scontrol", "sinfo", "sbatch", "scancel", "srun")
SCRIPT = """\
#!/bin/sh
echo begin {name} >>"$CALLS"
{real} "$@"
code=$?
echo end {name} >>"$CALLS"
exit $code
"""


@dataclass(frozen=True)
class Counted:
    """Calls per minute, the maximum number at the same time, and the number of calls of each command."""

    a_minute: float
    at_once: int
    by_command: Counter[str]


def count(
    side: Callable[[int, Path], Any], n: int, window: float, folder: Path, settle: float = 3
) -> Counted:
    """Let `side` submit n held jobs and watch them, and count calls of Slurm's commands for `window` seconds.

    settle: seconds before counting begins, while the watchers start.
    """
    log = folder / f"calls-{time.monotonic_ns()}"
    with _counted(folder, log), side(n, folder):
        time.sleep(settle)
        log.write_text("")
        time.sleep(window)
        text = log.read_text()
    return evaluate(text, window)


def evaluate(text: str, window: float) -> Counted:
    """Evaluate the log of `window` seconds. Each call has a line for its start and one for its end."""
    lines = [x.split() for x in text.splitlines()]
    begun = Counter(name for what, name in lines if what == "begin")
    running, most = 0, 0
    for what, _ in lines:
        running = max(0, running + (1 if what == "begin" else -1))
        most = max(most, running)
    return Counted(60 * sum(begun.values()) / window, most, begun)


@contextlib.contextmanager
def _counted(folder: Path, log: Path) -> Iterator[None]:
    """Make Slurm's commands write a line to `log` when they are called and when they return."""
    bin_, path = folder / "bin", os.environ["PATH"]
    bin_.mkdir(exist_ok=True)
    for name in COMMANDS:
        real = shutil.which(name)
        if real and Path(real).parent != bin_:
            (bin_ / name).write_text(SCRIPT.format(name=name, real=real))
            (bin_ / name).chmod(0o755)
    log.touch()
    os.environ.update(PATH=f"{bin_}:{path}", CALLS=str(log))
    try:
        yield
    finally:
        os.environ["PATH"] = path
        del os.environ["CALLS"]


def _ours(n: int, folder: Path) -> tuple[list[Any], list[str]]:
    """Submit n held jobs; return them and their job IDs."""
    from cluster.jobs import submit

    runs = folder / f"held-{time.monotonic_ns()}"
    held = {"memory": "512M", "backend": "slurm", "sbatch": {"hold": True}, "folder": runs}
    jobs = [submit(stamps, 1.0 + i, **held) for i in range(n)]
    return jobs, [json.loads((job.folder / "backend.json").read_text())["job_id"] for job in jobs]


def _theirs(n: int, folder: Path) -> tuple[list[Any], list[str]]:
    result = executor(folder, slurm_additional_parameters={"hold": True})
    jobs = [result.submit(stamps) for _ in range(n)]
    return jobs, [job.job_id for job in jobs]


@contextlib.contextmanager
def waits(n: int, folder: Path) -> Iterator[None]:
    """Wait in n threads of one process, each in `job.wait()`."""
    jobs, numbers = _ours(n, folder)
    with _threads([functools.partial(job.wait, progress=False) for job in jobs], numbers):
        yield


@contextlib.contextmanager
def watches(n: int, folder: Path) -> Iterator[None]:
    """Wait in one `watch` of all jobs."""
    from cluster.jobs import watch

    jobs, numbers = _ours(n, folder)
    with _threads([functools.partial(watch, jobs)], numbers):
        yield


@contextlib.contextmanager
def submitit(n: int, folder: Path) -> Iterator[None]:
    """Wait in n threads, each in submitit's `job.wait()`."""
    jobs, numbers = _theirs(n, folder)
    with _threads([job.wait for job in jobs], numbers):
        yield


ONE = {"cluster.jobs, wait()": waits, "submitit, wait()": submitit}  # sides that watch only one job
MANY = {
    "cluster.jobs, wait() in threads": waits,
    "cluster.jobs, watch() of all": watches,
    "submitit, wait() in threads": submitit,
}


@contextlib.contextmanager
def _threads(work: list[Callable[[], Any]], numbers: list[str]) -> Iterator[None]:
    """Run each function in a thread, end the threads as an interrupt would, and cancel the jobs."""
    threads = [threading.Thread(target=_until_told, args=(w,), daemon=True) for w in work]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        for t in threads:
            while t.is_alive():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(t.ident), ctypes.py_object(KeyboardInterrupt)
                )
                t.join(1.5)
        subprocess.run(["scancel", *numbers], check=True)


def _until_told(work: Callable[[], Any]) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        work()
