"""`python -m cluster doctor --site`: the batch script of an example, where each line comes from, and a trial.

The trial is `sbatch --test-only`: Slurm checks the request and says when it would start; nothing is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.slurm import client, site

from ..backends import batch_script
from ..folder import layout
from ..folder.run_folder import RunFolder
from ..submission import plan
from .findings import ask

WIDTH = 44  # columns of a line of the script, before its origin


def example() -> None:
    """The function of the example; it is not run."""


def check(**options: Any) -> tuple[str, bool]:
    """(text to print, whether Slurm accepts the example); `options` are further ones of `submit`.

    Raises OptionValueError for a site file that cannot be used.
    """
    requested = {"ranks_per_node": 2, "time": "00:01:00", "name": "site-check"} | options
    run = plan(example, (), requested).run_json("slurm")
    folder = layout.root() / "site-check"
    script = batch_script.script(run, folder)
    text = "\n".join([*_files(), "", *_annotated(run, script, folder), ""])
    missing = client.no_slurm(remembered=False)
    if missing:
        return f"{text}\nNot tried: {missing}.", False
    good, answer = ask("sbatch", "--test-only", text=script)
    return f"{text}\nsbatch --test-only {'accepts it' if good else f'refuses it: {answer.strip()}'}.", good


def _files() -> list[str]:
    """The site files, in the order in which they are read."""
    read = site.load().read
    rows = [f"  {'read' if str(p) in read else 'not there':9}  {p}" for p in site.places()]
    variables = ", ".join(f"${v}" for v in site.VARIABLES)
    return ["Site files; the later one wins:", *rows, f"  then {variables}, and the arguments of submit"]


def _annotated(run: dict[str, Any], script: str, folder: Path) -> list[str]:
    """The lines of the script, those of sbatch and of the site with their origin."""
    log = RunFolder(folder).job_log.name
    origins = {name: where for name, _, where in batch_script.requests(run, output=log)}
    wishes = run["site"]
    lines = []
    for line in script.splitlines():
        where = ""
        if line.startswith("#SBATCH --"):
            where = origins[line.removeprefix("#SBATCH --").partition("=")[0]]
            form = "gpus" if "gpu" in line or "gres" in line else "memory" if "--mem" in line else ""
            where = wishes["origin"].get(form, where) if where == "submit" else where
        elif line in wishes.get("before", []):
            where = wishes["origin"]["before"]
        elif line.endswith(batch_script.rank_command(folder)) and "launcher" in wishes:
            where = wishes["origin"]["launcher"]
        lines.append(f"{line:{WIDTH}}  ← {where}" if where else line)
    return lines
