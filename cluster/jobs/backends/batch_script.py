"""The batch script of a job, as text; the same run always gives the same script (golden files verify this).

Values are checked by `options` and quoted. Paths appear only in the body, where the shell's own quoting rules
apply. A site's launcher and lines before it are its administrator's, and are copied.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from cluster.slurm import site
from cluster.slurm.words import clock, ranges

from ..run.endings import SITE_FAILED
from ..run.layout import slug
from ..run.provenance import variables
from ..run.run_folder import JOB_LOG, RunRecord


def script(run: RunRecord, folder: Path, python: str = sys.executable) -> str:
    """Return the sbatch script of a run. `run` is its run.json, `folder` its job folder."""
    mpi = "pmix" if run["controller"] == "mpi" else "none"
    launcher = run.get("site", {}).get("launcher", site.LAUNCHER).replace("{mpi}", mpi)
    before = _before(run.get("site", {}).get("before", []))
    quoted, cpus = shlex.quote(str(folder)), run["options"]["cpus_per_rank"]
    return f"""#!/bin/bash
{header(run, output=JOB_LOG)}
{before}{exports(run)}
export CLUSTER_LAUNCHER=slurm
export SRUN_CPUS_PER_TASK={cpus}   # from Slurm 22.05 on, srun does not take it from sbatch
{_attempt(run, quoted, python)}{launcher} {rank_command(folder, python)}
code=$?
{shlex.quote(python)} -P -m cluster.jobs.rank.on_end {quoted}
exit $code
"""


def array(run: RunRecord, folder: Path, items: list[int], at_once: int | None) -> str:
    """Return the sbatch script of a sweep's round: each task of the array runs the job.sh of one item.

    run: the sweep's run.json. folder: the round's folder. items: the indices to run, in ascending order.
    """
    tasks = ranges(items) + (f"%{at_once}" if at_once else "")
    return f"""#!/bin/bash
{header(run, array=tasks, output=f"%a/{JOB_LOG}")}
exec bash {shlex.quote(str(folder))}/"$SLURM_ARRAY_TASK_ID"/job.sh
"""


def header(run: RunRecord, **special: Any) -> str:
    """Return the lines that state the job's requests; `special` holds further sbatch options."""
    return "\n".join(
        f"#SBATCH --{k}" + ("" if v is None else f"={shlex.quote(str(v))}")
        for k, v, _ in requests(run, **special)
    )


def requests(run: RunRecord, **special: Any) -> list[tuple[str, Any, str]]:
    """Return [(sbatch option, value, origin of the value)] in the order of the script."""
    o, wishes = run["options"], run.get("site", {})
    lines: dict[str, Any] = {
        "job-name": slug(run["name"]),
        "nodes": o["nodes"],
        "ntasks-per-node": o["ranks_per_node"],
        "cpus-per-task": o["cpus_per_rank"],
        **_memory(o, wishes.get("memory", "mem")),
        "time": clock(o["time"]),
        **special,
        "open-mode": "append",
        "export": "ALL",
        "requeue" if o.get("requeue") else "no-requeue": None,
    }
    lines |= _gpus(o, wishes.get("gpus", "gpus-per-task"), wishes.get("gpu_type", ""))
    origin = dict.fromkeys(lines, "submit")
    for name, value in wishes.get("sbatch", {}).items():
        if o["gpus_per_rank"] or not site.about_gpus(name, value):
            where = wishes["origin"].get(name, "the site")
            site.put(lines, origin, name, True if value is None else value, where)
    own = {"partition": o["partition"]} if o["partition"] else {}
    for name, value in (own | (o["sbatch"] or {})).items():
        site.put(lines, origin, name, True if value is None else value, "submit")
    return [(name, value, origin[name]) for name, value in lines.items()]


def _before(lines: list[str]) -> str:
    """Return the site's lines; one that fails is named in the job's log, and the job continues."""
    if not lines:
        return ""
    # $BASH_COMMAND would be the last command of a function such as `module`.
    line = '$(sed -n "${LINENO}p" "$0")'
    named = f"trap 'echo \"{SITE_FAILED} (exit code $?): {line}\" >&2' ERR"
    return "\n".join([named, *lines, "trap - ERR", ""])


# Requests in the form that the site requires.
def _memory(o: dict[str, Any], form: str) -> dict[str, str]:
    if o["memory"] is None or form == "none":
        return {}
    if form == "mem-per-cpu":
        return {form: f"{-(-o['memory'] // o['cpus_per_rank'])}M"}
    return {form: f"{o['memory'] * o['ranks_per_node']}M"}


def _gpus(o: dict[str, Any], form: str, kind: str) -> dict[str, Any]:
    if not o["gpus_per_rank"] or form == "none":
        return {}
    n, named = o["gpus_per_rank"], f"{kind}:" if kind else ""
    if form == "gpus-per-task":
        return {form: f"{named}{n}" if named else n}
    return {form: f"{'gpu:' if form == 'gres' else ''}{named}{n * o['ranks_per_node']}"}


def _attempt(run: RunRecord, quoted: str, python: str) -> str:
    first = run.get("attempt", 1)
    if not run["options"].get("requeue"):
        return f"export CLUSTER_ATTEMPT={first}\n" if first > 1 else ""
    return f"""export CLUSTER_ATTEMPT=$(({first} + ${{SLURM_RESTART_COUNT:-0}}))
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
  {shlex.quote(python)} -P -m cluster.jobs.rank.on_restart {quoted} || exit
fi
"""


def exports(run: RunRecord) -> str:
    """Return the lines that set every rank's variables; the values in `env` are sent with the submission."""
    fixed = variables(str(run["options"]["cpus_per_rank"]))
    text = "\n".join(f"export {k}={v}" for k, v in fixed.items() if k not in run["env"])
    return text + (f"\n# and, as submitted: {', '.join(run['env'])}" if run["env"] else "")


def rank_command(folder: Path, python: str = sys.executable) -> str:
    """Return the command of one rank."""
    return f"{shlex.quote(python)} -P -u -m cluster.jobs.rank.main {shlex.quote(str(folder))}"
