"""Processes started by this package, recorded by process ID and start time, so a reused ID is never
affected."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from . import files

if TYPE_CHECKING:
    import psutil

Record = dict[str, Any]  # pid; start: clock ticks after boot; boot: the kernel's boot id
PROC = Path("/proc")


def identify(pid: int) -> Record | None:
    """Return the record of a living process, or None if it has ended or is a zombie.

    Ticks after boot, together with the boot's id, do not depend on the clock and can be stored, unlike
    psutil's `create_time` (in seconds of the clock).
    """
    try:
        stat = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return None if stat[0] in "ZX" else {"pid": pid, "start": int(stat[19]), "boot": boot}


def alive(record: Record | None) -> TypeGuard[Record]:
    """Return whether exactly the recorded process is alive."""
    return record is not None and identify(record["pid"]) == record


def end(records: list[Record], patience: float = 15.0) -> None:
    """Send SIGTERM, and SIGKILL to processes that are left after `patience` seconds. Returns when all have
    ended, or after 5 s more."""
    for sig, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        for record in records:
            _send(record, sig)
        deadline = time.monotonic() + seconds
        while any(map(alive, records)) and time.monotonic() < deadline:
            time.sleep(0.05)


def _send(record: Record, sig: signal.Signals) -> None:
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(record["pid"])  # psutil compares start times before it signals
        if alive(record):
            process.send_signal(sig)


def spawn(argv: list[str], env: dict[str, str], log: Path) -> Record:
    """Start a daemon in a separate session, with its output appended to `log`. It outlives the caller."""
    if log.exists() and log.stat().st_size > 5_000_000:
        log.replace(log.with_suffix(".old"))
    with open(log, "ab", opener=lambda p, flags: os.open(p, flags, 0o600)) as out:
        child = subprocess.Popen(
            argv, env=env, cwd="/", umask=0o022, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    child.returncode = 0  # this process never calls wait(), which must not cause a warning
    return identify(child.pid) or {"pid": child.pid, "start": -1, "boot": ""}


def with_environment(chosen: Callable[[psutil.Process, dict[str, str]], bool]) -> list[Record]:
    """Return the records of all other processes for which `chosen(process, environment)` is true.

    A process whose environment cannot be read, or that ends meanwhile, is left out.
    """
    import psutil

    result = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and chosen(process, _environment(process.pid)):
                result.append(identify(process.pid))
    return [record for record in result if record]


def _environment(pid: int) -> dict[str, str]:
    """Return the initial environment of a process. psutil stops at the first gap, which slurmstepd's title
    leaves."""
    entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def slurm_processes(conf: Path) -> list[Record]:
    """Return Slurm's own processes and the tasks of jobs, identified by the SLURM_CONF that slurmd passes
    on."""

    def chosen(process: psutil.Process, env: dict[str, str]) -> bool:
        if env.get("SLURM_CONF") != str(conf):
            return False
        return "SLURM_JOB_ID" in env or Path(process.exe()).name.startswith("slurm")

    return with_environment(chosen)


class Ledger:
    """Records of processes by name, in a file that is written atomically."""

    def __init__(self, path: Path):
        self.path = path

    def all(self) -> dict[str, Record]:
        """Return {name: record}, or {} if nothing was recorded."""
        return files.read_json(self.path) or {}

    def put(self, name: str, record: Record) -> None:
        """Record a process under its name."""
        files.write_json(self.path, self.all() | {name: record})

    def drop(self, name: str) -> None:
        """Remove a name, if it is present."""
        files.write_json(self.path, {k: v for k, v in self.all().items() if k != name})


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends, so that no rank is left behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
