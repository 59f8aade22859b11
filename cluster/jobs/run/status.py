"""`Status`: the state of a job, and how its end is recorded in its folder."""

from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any, Self

from cluster.slurm.states import Row
from cluster.system import files

from . import endings, waiting
from .run_folder import Run


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


def facts(run: Run) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]], str]:
    """Return (rank records, errors by rank, end of the job's log) as the evidence of an ending."""
    records, errors = [], {}
    for rank in range(run.ranks):
        if record := run.rank_record(rank):
            records.append(record)
        if error := files.read_json(run.error(rank)):
            errors[rank] = error
    text = run.job_log.read_text(errors="replace")[-20_000:] if run.job_log.is_file() else ""
    # events of an earlier attempt no longer matter
    return records, errors, text.rpartition("--- attempt ")[2]


def write_end(run: Run, stopped: str | None = None) -> dict[str, Any]:
    """Record how the job ended, unless this is already recorded; return the recorded ending."""
    records, errors, log = facts(run)
    cancel = files.read_json(run.cancel)
    if cancel and stopped is None:
        stopped = "Cancelled"
    late = stopped == "OutOfTime" or "TIME LIMIT" in log
    end = endings.decide(
        run.record, records, errors, stopped=stopped,
        cancelled_at=cancel["time"] if cancel else float("inf"), log=log,
        locations=waiting.locations(run), checkpoint=_checkpoint(run) if late else "",
    )  # fmt: skip
    end |= {
        "started": min((r["started"] for r in records), default=None),
        "ended": max((r["ended"] for r in records if "ended" in r), default=time.time()),
        "ranks": records,
        "hashes": run.hashes(),
    }
    files.write_json_once(run.end, end)
    return files.read_json(run.end)


def _checkpoint(run: Run) -> str:
    """Return the checkpoint from which the run would resume, as text; "" if the run's folder has none."""
    result = run.result(0).name.partition("-")[0]
    saved_files = (p for p in run.path.glob("*.npz") if not p.name.startswith(f"{result}-"))
    paths = sorted(saved_files, key=os.path.getmtime)
    if not paths:
        return ""
    saved = _saved(paths[-1])
    counted = next((name for name in ("epoch", "step") if isinstance(saved.get(name), int)), None)
    where = f"at {counted} {saved[counted] + 1}" if counted else f"from {paths[-1].name}"
    requeue = run.record["options"].get("requeue")
    again = "Submit the same call again" if requeue else "Submit it with requeue=True"
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


def ended(run: Run) -> Status | None:
    """Return the final status, or None if no end is recorded."""
    end = run.ending()
    return None if end is None else status_of_end(end)


def status_of_end(end: dict[str, Any]) -> Status:
    """Return the final status recorded in an end.json."""
    return Status(endings.state(end), end["what"], end["next_step"], as_of=end["ended"])


def lost(run: Run) -> Status:
    """Return the status of a folder without a process: its last recorded state, or lost."""
    with run.claim() as free:
        if free:  # otherwise another process has just begun to restart the job
            write_end(run, "Lost")
    return ended(run) or Status("pending", "It is being started.")
