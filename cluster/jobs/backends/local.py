"""The local backend: ranks as processes of this machine, under a launcher that outlives the kernel.

The launcher holds a lock on the job's folder as long as it lives, so any process can test whether it is
alive, across restarts and containers, without a process ID. Memory limits are not enforced.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path

from cluster.slurm.words import ranges
from cluster.system import files

from ..errors import BackendError, TooManyRanks
from ..options import number_set
from ..run import waiting
from ..run.run_folder import Run, RunRecord
from ..run.status import Status, ended, lost
from .base import Backend
from .batch_script import exports, rank_command

GPUS = "CUDA_VISIBLE_DEVICES"
HEAD = "#!/bin/bash\n# Runs on this machine, without a scheduler.\n"


def max_ranks() -> int:
    """Return the maximum number of ranks of one job on this machine.

    It is $CLUSTER_MAX_RANKS or, by default, the number of cores, but at least 4. Raises OptionValueError if
    the variable is not a positive whole number.
    """
    return number_set("CLUSTER_MAX_RANKS", least=1) or max(4, len(os.sched_getaffinity(0)))


def gpus() -> list[str]:
    """Return this machine's GPUs as $CUDA_VISIBLE_DEVICES names them: those listed there, or all."""
    if (chosen := os.environ.get(GPUS)) is not None:
        names = (name.strip() for name in chosen.split(","))
        return list(itertools.takewhile(lambda name: name and not name.startswith("-"), names))
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in listed.stdout.splitlines() if line.strip().isdigit()]


def gpus_wanted(record: RunRecord) -> int:
    """Return the number of GPUs of all ranks of a job."""
    return record["ranks"] * (record["options"].get("gpus_per_rank") or 0)


class Local(Backend):
    """This machine: a launcher per job, and a queue per sweep (see `local_launcher`, `local_queue`)."""

    def check(self, record: RunRecord) -> None:
        if record["ranks"] > max_ranks():
            raise TooManyRanks(
                f"{record['ranks']} ranks are too many for this machine: the limit here is {max_ranks()}.",
                f"Use fewer ranks, or raise the limit: CLUSTER_MAX_RANKS={record['ranks']}.",
            )
        wanted = gpus_wanted(record)
        if wanted and wanted > len(gpus()) and GPUS not in record["env"]:
            here = f"{len(gpus())} GPUs" if gpus() else "no GPU that nvidia-smi lists"
            share = f"env={{{GPUS!r}: '0'}} without gpus_per_rank lets all ranks share GPU 0 (not with NCCL)"
            raise BackendError(
                f"The job needs {wanted} GPUs ({record['ranks']} ranks with "
                f"{record['options']['gpus_per_rank']} each), and this machine has {here}.",
                f"Use fewer ranks, gpus_per_rank=0, or backend='slurm'. {share if gpus() else ''}".rstrip(),
            )
        if record["controller"] == "mpi" and not shutil.which("mpirun"):
            raise BackendError(
                "controller='mpi' needs mpirun, which is not on PATH.", "Use controller='gloo'."
            )

    def script(self, record: RunRecord, folder: Path) -> str:
        p = record["ranks"]
        mpi = f"mpirun -n {p} --oversubscribe --bind-to none " if record["controller"] == "mpi" else ""
        times = "" if mpi or p == 1 else f"   # {p} times, with CLUSTER_RANK=0 to {p - 1}"
        return f"{HEAD}{exports(record)}\n{mpi}{rank_command(folder)}{times}\n"

    def array(self, record: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
        limit = self.at_once(record, requested)
        return f"{HEAD}# Items {ranges(items)}, {limit} at a time, each according to its own job.sh.\n"

    def at_once(self, record: RunRecord, requested: int | None) -> int:
        """Return at most `max_ranks` ranks and all GPUs in total; by default one item per set of cores."""
        cores = len(os.sched_getaffinity(0)) // record["options"]["cpus_per_rank"]
        most = max_ranks() // record["ranks"]
        if wanted := gpus_wanted(record):
            most = min(most, len(gpus()) // wanted)
        return max(1, min(requested or cores // record["ranks"], most))

    def start(self, run: Run, env: dict[str, str], held: BufferedWriter) -> str:
        """Start the launcher or the queue, and return once it has taken over the lock and detached itself."""
        module = "local_queue" if run.round_json.exists() else "local_launcher"
        with open(run.job_log, "ab") as log:
            started = subprocess.run(
                [sys.executable, "-P", "-m", f"{__package__}.{module}", str(run.path), str(held.fileno())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=run.path,
                start_new_session=True, pass_fds=[held.fileno()],
            )  # fmt: skip
        if started.returncode:
            output = run.job_log.read_text(errors="replace").strip()
            raise BackendError(f"The local backend did not start: {output}", "See doctor().")
        return ""

    def recover(self, run: Run) -> bool:
        """Return False: the launcher itself writes backend.json, so without this file it has not started."""
        return False

    def status(self, run: Run) -> Status:
        """Return running while the launcher holds its lock, pending if queued, else the end or lost."""
        # checked before the launcher's lock, because the item may start between the two checks
        waits = run.is_item and run.whole_sweep.is_held()
        if run.is_held():
            host = (run.backend_record() or {}).get("host")
            what, step = waiting.now(run) or (f"It runs on {host}.", "")
            return Status("running", what, step, source="launcher")
        if waits and not run.backend.exists():
            return ended(run) or Status("pending", "It waits for its turn in the sweep.", source="queue")
        return lost(run)

    def cancel(self, runs: Sequence[Run]) -> None:
        """Ask the launchers to terminate their ranks, and the queue to skip pending items.

        They check for this request about 20 times per second.
        """
        for run in runs:
            files.write_json_once(run.cancel, {"time": time.time()})
