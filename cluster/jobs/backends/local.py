"""The local backend: ranks as processes of this machine, under a launcher that outlives the kernel.

The launcher holds a lock on the job's folder as long as it lives, so any process can test whether it is
alive, across restarts and containers, without a process ID. Memory limits are not enforced.
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

from cluster.system import files

from ..errors import BackendError, TooManyRanks
from ..options import number_set
from ..run import layout, sweeps, waiting
from ..run.run_folder import RunFolder, RunRecord
from ..run.status import Status, ended, lost


def max_ranks() -> int:
    """Return the maximum number of ranks of one job on this machine.

    It is $CLUSTER_MAX_RANKS or, by default, the number of cores, but at least 4. Raises OptionValueError if
    the variable is not a positive whole number.
    """
    return number_set("CLUSTER_MAX_RANKS", least=1) or max(4, len(os.sched_getaffinity(0)))


def check(run: RunRecord) -> None:
    """Raise TooManyRanks or BackendError for a job that this machine cannot run."""
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


def start(folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
    """Start the launcher and return after it has taken over the lock and detached itself."""
    _detach("local_launcher", folder, env, held)
    return ""


def check_round(items: range) -> None:
    """Do nothing: this machine's queue accepts any number of items."""


def start_round(folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
    """Start the queue for a round's items and return after it has taken over the sweep's lock."""
    _detach("local_queue", folder, env, held)
    return ""


def at_once(run: RunRecord, requested: int | None) -> int | None:
    """Return how many items of a sweep run at once: as requested, but at most `max_ranks` ranks in total.

    The default is one item per available set of cores.
    """
    cores = len(os.sched_getaffinity(0)) // run["options"]["cpus_per_rank"]
    return max(1, min(requested or cores // run["ranks"], max_ranks() // run["ranks"]))


def _detach(module: str, folder: Path, env: dict[str, str], held: BufferedWriter) -> None:
    with open(RunFolder(folder).job_log, "ab") as log:
        started = subprocess.run(
            [sys.executable, "-P", "-m", f"cluster.jobs.backends.{module}", str(folder), str(held.fileno())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=folder,
            start_new_session=True, pass_fds=[held.fileno()],
        )  # fmt: skip
    if started.returncode:
        output = RunFolder(folder).job_log.read_text(errors="replace").strip()
        raise BackendError(f"The local backend did not start: {output}", "See doctor().")


def status(folder: Path, backend: dict[str, Any]) -> Status:
    """Return running while the launcher holds its lock, pending if queued, else the recorded end or lost."""
    # checked before the launcher's lock, because the item may start between the two checks
    waits = sweeps.is_item(folder) and layout.held(sweeps.sweep_of(folder))
    if layout.held(folder):
        what, step = waiting.now(folder) or (f"It runs on {backend['host']}.", "")
        return Status("running", what, step, source="launcher")
    if waits and not RunFolder(folder).backend.exists():
        return ended(folder) or Status("pending", "It waits for its turn in the sweep.", source="queue")
    return lost(folder)


def recover(folder: Path) -> bool | None:
    """Return False: the launcher itself writes backend.json, so without this file it has not started."""
    return False


def cancel(folder: Path, backend: dict[str, Any]) -> None:
    """Ask the launcher to terminate its ranks. It checks for this request about 20 times per second."""
    files.write_json_once(RunFolder(folder).cancel, {"time": time.time()})


def cancel_items(folder: Path, backend: dict[str, Any], items: list[int]) -> None:
    """Request cancellation of a round's items; the queue skips pending ones."""
    for i in items:
        cancel(RunFolder(folder).item(i), backend)


def script(run: RunRecord, folder: Path) -> str:
    """Return the commands that the local backend runs, as a shell script."""
    from .batch_script import exports, rank_command

    p = run["ranks"]
    start = f"mpirun -n {p} --oversubscribe --bind-to none " if run["controller"] == "mpi" else ""
    times = "" if start or p == 1 else f"   # {p} times, with CLUSTER_RANK=0 to {p - 1}"
    head = "#!/bin/bash\n# Runs on this machine, without a scheduler."
    return f"{head}\n{exports(run)}\n{start}{rank_command(folder)}{times}\n"


def array(run: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
    """Return the commands that the local backend runs for a round of a sweep, as a shell script."""
    from cluster.slurm.words import ranges

    each = f"# Items {ranges(items)}, {at_once(run, requested)} at a time, each according to its own job.sh."
    return f"#!/bin/bash\n# Runs on this machine, without a scheduler.\n{each}\n"
