"""`Status`: the state of a job. `status_of` reads it from the job's folder, or queries the job's backend."""

from __future__ import annotations

import importlib
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any, Self

from cluster.slurm.states import Row
from cluster.system import files

from . import endings, layout, sweeps, waiting
from .run_folder import RunFolder, RunRecord

CUT_OFF = 30.0  # seconds until Slurm lists an accepted job whose submission was interrupted


class Status(str):
    """A state and what is known about it.

    It is one of 'pending', 'running', 'done', 'failed', 'out of time', 'cancelled' and 'lost', and compares
    equal to that text. `what` describes it, `next_step` is the action to take, `as_of` (Unix seconds) is when
    it was observed, and `source` is who reported it. `ended` is True if it can no longer change. If Slurm
    reported it, `slurm` is Slurm's text, and `row` its row in the table of states, which shows who can act on
    it and whether the job will never run.

    >>> Status("running", "2 ranks are running") == "running"
    True
    """

    what: str
    next_step: str
    source: str
    as_of: float
    slurm: str
    row: Row | None

    def __new__(
        cls,
        state: str,
        what: str = "",
        next_step: str = "",
        source: str = "folder",
        as_of: float = 0,
        slurm: str = "",
        row: Row | None = None,
    ) -> Self:
        self = super().__new__(cls, state)
        self.what, self.next_step, self.source, self.as_of = what, next_step, source, as_of or time.time()
        self.slurm, self.row = slurm, row
        return self

    @property
    def never(self) -> bool:
        """Whether Slurm will never start the job in its current form."""
        return self.row is not None and self.row.never

    @property
    def ended(self) -> bool:
        return self not in ("pending", "running")


def facts(folder: Path) -> tuple[RunRecord, list[dict[str, Any]], dict[int, dict[str, Any]], str]:
    """Return (run, rank records, errors by rank, end of the job's log) as the evidence of an ending."""
    run = RunFolder(folder).read_run()
    records, errors = [], {}
    for rank in range(run["ranks"]):
        if record := files.read_json(RunFolder(folder).rank(rank)):
            records.append(record)
        if error := files.read_json(RunFolder(folder).error(rank)):
            errors[rank] = error
    log = RunFolder(folder).job_log
    text = log.read_text(errors="replace")[-20_000:] if log.is_file() else ""
    # events of an earlier attempt no longer matter
    return run, records, errors, text.rpartition("--- attempt ")[2]


def write_end(folder: Path, stopped: str | None = None) -> dict[str, Any]:
    """Record how the job ended, unless this is already recorded; return the recorded ending."""
    run, records, errors, log = facts(folder)
    cancel = files.read_json(RunFolder(folder).cancel)
    if cancel and stopped is None:
        stopped = "Cancelled"
    cancelled_at = cancel["time"] if cancel else float("inf")
    late = stopped == "OutOfTime" or "TIME LIMIT" in log
    end = endings.decide(
        run, records, errors, stopped=stopped, cancelled_at=cancelled_at, log=log,
        locations=waiting.locations(folder, run["ranks"]),
        checkpoint=_checkpoint(folder, run) if late else "",
    )  # fmt: skip
    times = [r["started"] for r in records]
    end |= {
        "started": min(times, default=None),
        "ended": max((r["ended"] for r in records if "ended" in r), default=time.time()),
        "ranks": records,
        "hashes": layout.hashes(folder),
    }
    files.write_json_once(RunFolder(folder).end, end)
    return files.read_json(RunFolder(folder).end)


def _checkpoint(folder: Path, run: RunRecord) -> str:
    """Return the checkpoint from which the run would resume, as text; "" if the run's folder has none."""
    result = RunFolder(folder).result(0).name.partition("-")[0]
    saved_files = (p for p in folder.glob("*.npz") if not p.name.startswith(f"{result}-"))
    paths = sorted(saved_files, key=os.path.getmtime)
    if not paths:
        return ""
    saved = _saved(paths[-1])
    named = next((name for name in ("epoch", "step") if isinstance(saved.get(name), int)), None)
    where = f"at {named} {saved[named] + 1}" if named else f"from {paths[-1].name}"
    again = "Submit the same call again" if run["options"].get("requeue") else "Submit it with requeue=True"
    return f"{again}: it resumes {where}."


def _saved(path: Path) -> dict[str, Any]:
    """Return the plain values of a checkpoint (see `cluster.training.checkpoint`); {} for any other file."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            result = json.loads(arrays["json"].tobytes())
    except (OSError, ValueError, LookupError, zipfile.BadZipFile):
        return {}
    return result if isinstance(result, dict) else {}


def ended(folder: Path) -> Status | None:
    """Return the final status, or None if no end is recorded."""
    end = files.read_json(RunFolder(folder).end)
    return None if end is None else status_of_end(end)


def status_of_end(end: dict[str, Any]) -> Status:
    """Return the final status recorded in an end.json."""
    return Status(endings.state(end), end["what"], end["next_step"], as_of=end["ended"])


def lost(folder: Path) -> Status:
    """Return the status of a folder without a process: its last recorded state, or lost."""
    with layout.claim(folder) as free:
        if free:  # otherwise another process has just begun to restart the job
            write_end(folder, "Lost")
    return ended(folder) or Status("pending", "It is being started.")


def status_of(folder: Path) -> Status:
    """Return the status of the job in a folder."""
    final = ended(folder)
    if final:
        return final
    backend = sweeps.backend(folder)
    if backend is None:
        run = RunFolder(folder).read_run()
        # the folder exists, but the launcher has not recorded itself in it yet
        if layout.held(sweeps.sweep_of(folder)):
            return Status("pending", "It is being started.")
        recovered = _backend(run["backend"]).recover(folder.parent if sweeps.is_item(folder) else folder)
        backend = sweeps.backend(folder)
    if backend is None:
        if final := ended(folder):
            return final
        if recovered is None:
            what = "Its submission was interrupted, and Slurm does not report whether it has the job."
            return Status("pending", what, "Wait: the job itself may be running.", source="slurm")
        if run["backend"] == "slurm" and time.time() - RunFolder(folder).run_json.stat().st_mtime < CUT_OFF:
            what = "Its submission was interrupted; Slurm may list it soon."
            return Status("pending", what, source="cut off")
        return lost(folder)
    return _backend(backend["backend"]).status(folder, backend)


def settled_status(folder: Path) -> Status:
    """Return `status_of` after waiting until it is known whether an interrupted submission reached Slurm."""
    while (now := status_of(folder)).source == "cut off":
        time.sleep(0.1)
    return now


def _backend(name: str) -> Any:
    """Return the module of a backend, found by name like a plug-in, since backends import this module."""
    return importlib.import_module(f"cluster.jobs.backends.{name}")
