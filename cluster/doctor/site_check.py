"""`python -m cluster doctor --site`: two example scripts, the origin of each line, and a trial.

The trial is `sbatch --test-only`: Slurm checks the request and reports when it would start, but runs nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.jobs.backends import batch_script
from cluster.jobs.run import layout, provenance
from cluster.jobs.run.run_folder import RunFolder, RunRecord
from cluster.jobs.submission import Plan, plan
from cluster.slurm import client, site

from .findings import ask

WIDTH = 44  # columns of a script line, before its origin
EXAMPLES = {
    "Two ranks on one node, for one minute": {},
    "The same with one GPU per rank": {"gpus_per_rank": 1},
}
# The arguments of submit that determine an sbatch option.
ARGUMENTS = {
    "job-name": "name", "nodes": "nodes", "ntasks-per-node": "ranks_per_node", "time": "time",
    "cpus-per-task": "cpus_per_rank", "requeue": "requeue", "no-requeue": "requeue", "partition": "partition",
    "mem": "memory", "mem-per-cpu": "memory", "gres": "gpus_per_rank", "gpus-per-task": "gpus_per_rank",
    "gpus-per-node": "gpus_per_rank",
}  # fmt: skip
LEGEND = """\
← names the site file, the variable or the argument of submit that sets a line. An argument is given in the
student's notebook or has a default. Lines without ← are the same in every job."""
LIMITS = """\
Not tested: limits of accounts and QOS (without DenyOnLimit, a job that exceeds one waits in the queue), and
the site's own lines and launcher, which --test-only does not run. `python -m cluster doctor --run` runs small
jobs. Administrators find all settings in cluster/staff/SITE.md."""


def example() -> None:
    """Do nothing: the function of the examples, which is never run."""


def check(**options: Any) -> tuple[str, bool]:
    """Return (text to print, whether Slurm accepts the examples); `options` are further options of `submit`.

    Raises OptionValueError if a site file cannot be used.
    """
    missing = client.no_slurm(remembered=False)
    parts, good, shown = [_files(), LEGEND], not missing, ""
    for title, more in EXAMPLES.items():
        if more and not _has_gpus():
            parts.append(
                f"{title}: not shown. Slurm lists no GPUs, and no site file defines how to request them."
            )
            continue
        requested = {"ranks_per_node": 2, "time": "00:01:00", "name": "site-check"} | more | options
        p = plan(example, (), requested)
        run, folder = p.run_json("slurm"), layout.root() / "site-check"
        script = batch_script.script(run, folder)
        lines = _annotated(run, script, folder)
        differ = "\n".join(line for line in lines if line not in shown)
        shown = shown or "\n".join(lines)
        accepted, answer = (False, f"Not tried: {missing}.") if missing else _trial(script, p)
        good = good and accepted
        parts.append(f"{title}{' (only lines that differ)' if more else ''}:\n\n{differ}\n\n{answer}")
    return "\n\n".join([*parts, LIMITS]), good


def _trial(script: str, p: Plan) -> tuple[bool, str]:
    """Return (whether Slurm accepts a script, its message), with a submission's environment variables."""
    good, answer = ask(
        "sbatch", "--test-only", text=script, env=provenance.environment(p.options), stderr=True
    )
    text = " ".join(line.removeprefix("sbatch: ") for line in answer.strip().splitlines())
    text = f"sbatch --test-only {'accepts' if good else 'refuses'} it: {text or 'without a message'}"
    if not good:
        text += "\nIn the line that Slurm rejects, change the setting named after ←."
    return good, text


def _has_gpus() -> bool:
    wishes = site.load().values
    return "gpus" in wishes or "gpu_type" in wishes or "gpu" in ask("sinfo", "--noheader", "--format=%G")[1]


def _files() -> str:
    read = site.load().read
    rows = [f"  {'read' if str(p) in read else 'not found':9}  {p}" for p in site.places()]
    variables = ", ".join(f"${v}" for v in site.VARIABLES)
    rows += [f"  then {variables}", "  then the arguments of submit"]
    return "\n".join(["Site files; later files take precedence, setting by setting:", *rows])


def _annotated(run: RunRecord, script: str, folder: Path) -> list[str]:
    log = RunFolder(folder).job_log.name
    origins = {name: where for name, _, where in batch_script.requests(run, output=log)}
    wishes = run["site"]
    lines = []
    for line in script.splitlines():
        where = ""
        if line.startswith("#SBATCH --"):
            name = line.removeprefix("#SBATCH --").partition("=")[0]
            where = origins[name]
            if where == "submit":
                argument = ARGUMENTS.get(name)
                where = f"submit's {argument}" if argument else ""
                form = {"memory": "memory", "gpus_per_rank": "gpus"}.get(argument or "")
                if form:
                    each = "per rank" if form == "memory" else "and gpu_type"
                    where += f" ({each}), written as {form}={wishes.get(form, site.FORMS[form][0])!r}"
                    where += f" of {wishes['origin'][form]}" if form in wishes else ", the default"
        elif line in wishes.get("before", []):
            where = wishes["origin"]["before"]
        elif line.endswith(batch_script.rank_command(folder)):
            where = wishes["origin"].get("launcher", "the default launcher; a site file can set another")
        lines.append(f"{line:{WIDTH}}  ← {where}" if where else line)
    return lines
