"""The batch script of a job, as text. Pure: the same run gives the same script (pinned by golden files).

Only texts that `spec` has checked get in here, and each is quoted; paths stand in the body alone, where the
shell's own rules of quoting hold.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from .ledger import slug
from .record import variables
from .spec import clock


def script(run: dict[str, Any], folder: Path, python: str = sys.executable) -> str:
    """The sbatch script of a run. `run` is its run.json, `folder` its job folder."""
    o = run["options"]
    lines = {
        "job-name": slug(run["name"]),
        "nodes": o["nodes"],
        "ntasks-per-node": o["ranks_per_node"],
        "cpus-per-task": o["cpus_per_rank"],
        "mem": f"{o['memory'] * o['ranks_per_node']}M",
        "time": clock(o["time"]),
        "output": "job.log",
        "open-mode": "append",
        "export": "ALL",
        "no-requeue": None,
    }
    if o["gpus_per_rank"]:
        lines["gpus-per-task"] = o["gpus_per_rank"]
    if o["partition"]:
        lines["partition"] = o["partition"]
    lines |= o["sbatch"] or {}
    head = "\n".join(
        f"#SBATCH --{k}" + ("" if v is None else f"={shlex.quote(str(v))}") for k, v in lines.items()
    )
    mpi = "pmix" if run["controller"] == "mpi" else "none"
    return f"""#!/bin/bash
{head}
{exports(run)}
export CLUSTER_LAUNCHER=slurm
export SRUN_CPUS_PER_TASK={o["cpus_per_rank"]}   # from Slurm 22.05 on, srun does not take it from sbatch
srun --mpi={mpi} --kill-on-bad-exit=1 {runner(folder, python)}
code=$?
{shlex.quote(python)} -P -m cluster.jobs.finish {shlex.quote(str(folder))}
exit $code
"""


def exports(run: dict[str, Any]) -> str:
    """The lines that set the variables of every rank; values from `env` come with the submission instead."""
    fixed = variables(str(run["options"]["cpus_per_rank"]))
    text = "\n".join(f"export {k}={v}" for k, v in fixed.items() if k not in run["env"])
    return text + (f"\n# and, as submitted: {', '.join(run['env'])}" if run["env"] else "")


def runner(folder: Path, python: str = sys.executable) -> str:
    """The command of one rank."""
    return f"{shlex.quote(python)} -P -u -m cluster.jobs.runner {shlex.quote(str(folder))}"
