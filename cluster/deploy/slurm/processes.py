"""Processes this package started, recorded by pid and start time: a reused pid is never touched."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

Record = dict[str, Any]  # pid; start: clock ticks after boot; boot: the kernel's id of this boot
PROC = Path("/proc")


def identify(pid: int) -> Record | None:
    """The record of a living process, or None for one that is gone or a zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return None if stat[0] in "ZX" else {"pid": pid, "start": int(stat[19]), "boot": boot}


def alive(record: Record | None) -> bool:
    """Whether the very process of the record lives."""
    return record is not None and identify(record["pid"]) == record


def end(records: list[Record], patience: float = 15.0) -> None:
    """SIGTERM, and SIGKILL to what is left after `patience` seconds. Returns when all are gone."""
    for sig, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        for record in records:
            _send(record, sig)
        deadline = time.monotonic() + seconds
        while any(map(alive, records)) and time.monotonic() < deadline:
            time.sleep(0.05)


def _send(record: Record, sig: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(record["pid"])  # holds on to the process: it cannot be another one afterwards
        try:
            if alive(record):
                signal.pidfd_send_signal(fd, sig)
        finally:
            os.close(fd)


def spawn(argv: list[str], env: dict[str, str], log: Path) -> Record:
    """Start a daemon in a session of its own, its output appended to `log`. It outlives the caller."""
    if log.exists() and log.stat().st_size > 5_000_000:
        log.replace(log.with_suffix(".old"))
    with open(log, "ab", opener=lambda p, flags: os.open(p, flags, 0o600)) as out:
        child = subprocess.Popen(
            argv, env=env, cwd="/", umask=0o022, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    child.returncode = 0  # nobody waits for it here: no warning when the handle goes
    return identify(child.pid) or {"pid": child.pid, "start": -1, "boot": ""}


def of_jobs(conf: Path) -> list[Record]:
    """Slurm's own processes and the tasks of jobs, known by the SLURM_CONF that slurmd hands down."""
    found = []
    for folder in PROC.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                entries = (folder / "environ").read_bytes().split(b"\0")
                if f"SLURM_CONF={conf}".encode() not in entries:
                    continue
                of_slurm = Path(os.readlink(folder / "exe")).name.startswith("slurm")
                if of_slurm or any(e.startswith(b"SLURM_JOB_ID=") for e in entries):
                    found.append(identify(int(folder.name)))
    return [r for r in found if r]


class Ledger:
    """The records by name, in a file that is never half written."""

    def __init__(self, path: Path):
        self.path = path

    def all(self) -> dict[str, Record]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def put(self, name: str, record: Record) -> None:
        self._write(self.all() | {name: record})

    def drop(self, name: str) -> None:
        self._write({k: v for k, v in self.all().items() if k != name})

    def _write(self, records: dict[str, Record]) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(records, indent=1) + "\n")
        beside.replace(self.path)
