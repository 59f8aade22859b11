"""Sweeps on disk: `runs/<name>-<key12>/round-R/I/` is the job folder of item I, run in round R.

    run.json         of the sweep: the request, the items, and the cache key of each item's run
    shared/          large arrays that are sent with the items, each once, named by its content
    lock             held by the process that submits a round, then by the queue on this machine
    round-R/         one submission, created completely and then renamed
        job.sh       the executed script of the Slurm array; job.log the output of the local queue
        backend.json what runs it: the queue on this machine, or the id of the Slurm array
        I/           a job folder like any other, of each item of this round

The first round contains all items. A later round contains the items that are rerun, and the newest run of
each item counts. Equal items are one run, and the first of them has the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.system import files

from .run_folder import ROUND, RunFolder


def is_item(folder: Path) -> bool:
    """Return whether a job folder belongs to an item of a sweep."""
    return folder.name.isdigit() and folder.parent.name.startswith(ROUND)


def sweep_of(folder: Path) -> Path:
    """Return the folder whose lock shows whether a job is being started: its sweep's, or the job's own."""
    return folder.parent.parent if is_item(folder) else folder


def backend(folder: Path) -> dict[str, Any] | None:
    """Return the contents of a job's backend.json or, for an item, of its round's; None if there is none."""
    record = files.read_json(RunFolder(folder).backend)
    if record is None and is_item(folder):
        record = files.read_json(RunFolder(folder.parent).backend)
        if record and "job_id" in record:
            record |= {"job_id": f"{record['job_id']}_{folder.name}"}
    return record


def latest(sweep: Path) -> int:
    """Return the number of the newest round, from 1; 0 if there is none."""
    return max(RunFolder(sweep).rounds(), default=0)


def items(sweep: Path, last: int) -> dict[int, Path]:
    """Return {item: its newest job folder} up to round `last`."""
    folders: dict[int, Path] = {}
    for r in range(1, last + 1):
        folders |= RunFolder(RunFolder(sweep).round(r)).items()
    return folders


def first(keys: list[str]) -> list[int]:
    """Return, for each item, the index of the first item that is equal to it, whose folder they share.

    >>> first(["a", "b", "a"])
    [0, 1, 0]
    """
    seen: dict[str, int] = {}
    return [seen.setdefault(k, i) for i, k in enumerate(keys)]
