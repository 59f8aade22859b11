"""Functions that find the job or the sweep for an ID, a folder or a Slurm job ID."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cluster.system import files

from .errors import NoSuchJob
from .job import Job
from .run import layout
from .run.run_folder import Run
from .sweep import Sweep


def attach(job: str | os.PathLike, folder: str | os.PathLike | None = None) -> Any:
    """Return an existing job or sweep, in any process: a `Job`, or what `map` returned.

    job: its id or the id's beginning, its folder, or Slurm's job id. `train-3fa9/4` is item 4 of a sweep.
    folder: the parent of the job folders, if neither `runs` here nor $CLUSTER_RUNS. Raises NoSuchJob.

    >>> attach("train-3fa9")                                                        # doctest: +SKIP
    """
    text, runs = os.fspath(job), layout.root(folder)
    if Run(Path(text)).run_json.is_file():
        return handle(Path(text))
    whole, sign, item = text.rpartition("/")
    if sign and item.isdigit():
        return _item(attach(whole, folder), int(item))
    all_ids = [p.name for p in layout.folders(runs)]
    hits = [i for i in all_ids if i == text] or [i for i in all_ids if text and i.startswith(text)]
    hits = [i for i in hits if not re.search(r"\.\d+$", i)] or hits  # without runs that were set aside
    number, _, item = text.partition("_")
    if not hits and number.isdigit():
        records = [p for i in all_ids for p in [runs / i, *Run(runs / i).rounds().values()]]
        known = ((p, files.read_json(Run(p).backend) or {}) for p in records)
        hits = [p.relative_to(runs).parts[0] for p, backend in known if str(backend.get("job_id")) == number]
    if len(hits) == 1:
        job_or_sweep = handle(runs / hits[0])
        return _item(job_or_sweep, int(item)) if item.isdigit() and number.isdigit() else job_or_sweep
    if hits:
        raise NoSuchJob(
            f"{text!r} matches {len(hits)} jobs: {', '.join(hits[:5])}.", "Give more characters of the ID."
        )
    listed = ", ".join(all_ids[-5:]) or "none"
    raise NoSuchJob(f"No job {text!r} in {runs}.", f"Jobs in this folder: {listed}. See also jobs().")


def handle(folder: Path) -> Any:
    """Return the `Job` of a folder, or the `Sweep` if it is a sweep's."""
    return Sweep(folder) if "items" in Run(folder).check_owner().record else Job(folder)


def _item(sweep: Any, item: int) -> Job:
    if isinstance(sweep, Job) or item >= len(sweep):
        n = "it is not a sweep" if isinstance(sweep, Job) else f"its items are 0 to {len(sweep) - 1}"
        raise NoSuchJob(f"{sweep.id} has no item {item}: {n}.", "See jobs().")
    return sweep[item]
