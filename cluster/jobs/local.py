"""The local backend: ranks as processes of this machine, under a launcher that outlives the kernel.

The launcher holds a lock on the job's folder for as long as it lives, so that any process can tell whether
it does, across restarts and containers, without trusting a process id. Memory limits are not enforced.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from io import BufferedWriter
from pathlib import Path
from typing import Any

from . import ledger, state
from .errors import BackendError, TooManyRanks
from .state import Status


def max_ranks() -> int:
    """The most ranks this machine starts for one job: $CLUSTER_MAX_RANKS, or its cores, but at least 4."""
    return int(os.environ.get("CLUSTER_MAX_RANKS") or max(4, len(os.sched_getaffinity(0))))


def check(run: dict[str, Any]) -> None:
    """Refuse what this machine cannot run: TooManyRanks or BackendError."""
    if run["ranks"] > max_ranks():
        raise TooManyRanks(
            f"{run['ranks']} ranks are too many for this machine: the limit here is {max_ranks()}.",
            f"Use fewer ranks, or raise the limit: CLUSTER_MAX_RANKS={run['ranks']}.",
        )
    if run["options"]["gpus_per_rank"]:
        raise BackendError(
            "The local backend gives no GPUs to ranks.", "Use gpus_per_rank=0, or backend='slurm'."
        )
    if run["controller"] == "mpi" and not shutil.which("mpirun"):
        raise BackendError("controller='mpi' needs mpirun, which is not on PATH.", "Use controller='gloo'.")


def start(folder: Path, run: dict[str, Any], env: dict[str, str], held: BufferedWriter) -> None:
    """Start the launcher, which takes over the lock and detaches itself; returns when it has."""
    with open(folder / "job.log", "ab") as log:
        started = subprocess.run(
            [sys.executable, "-P", "-m", "cluster.jobs.launch", str(folder), str(held.fileno())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=folder,
            start_new_session=True, pass_fds=[held.fileno()],
        )  # fmt: skip
    if started.returncode:
        said = (folder / "job.log").read_text(errors="replace").strip()
        raise BackendError(f"The local backend did not start: {said}", "See doctor().")


def status(folder: Path, backend: dict[str, Any]) -> Status:
    """Running for as long as the launcher holds its lock; Lost when it let go without writing an end."""
    if ledger.held(folder):
        return Status("running", f"Ranks at work on {backend['host']}.", source="launcher")
    return state.lost(folder)


def recover(folder: Path) -> bool:
    """Nothing to recover: the launcher itself writes backend.json."""
    return False


def cancel(folder: Path, backend: dict[str, Any]) -> None:
    """Ask the launcher to end its ranks; it looks ten times a second."""
    ledger.write_once(folder / "cancel.json", {"time": time.time()})


def script(run: dict[str, Any], folder: Path) -> str:
    """What the local backend runs, as a shell script."""
    from .sbatch import exports, runner

    p = run["ranks"]
    start = f"mpirun -n {p} --oversubscribe --bind-to none " if run["controller"] == "mpi" else ""
    times = "" if start or p == 1 else f"   # {p} times, with CLUSTER_RANK=0 to {p - 1}"
    head = "#!/bin/bash\n# Runs on this machine, without a scheduler."
    return f"{head}\n{exports(run)}\n{start}{runner(folder)}{times}\n"
