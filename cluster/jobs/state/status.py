"""`Status` says how a job stands; here, whether and how it ended, or that it is lost, by its folder.

Whether it waits or runs, which no folder says, the backends tell (`cluster.jobs.backends.status_of`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cluster.slurm.states import Row
from cluster.system import files

from ..folder import layout
from ..folder.run_folder import RunFolder
from . import endings


class Status(str):
    """A state in a word, with what is known about it.

    It is one of 'pending', 'running', 'done', 'failed', 'out of time', 'cancelled' and 'lost', and compares
    equal to that text. `what` says it in words, `next_step` what to do, `as_of` (Unix seconds) when that was
    seen, and `source` by whom. `ended` tells whether it will change no more. Where Slurm said it, `slurm` is
    what it said, and `row` its row in the table of states: whose doing it is, and whether it will never run.

    >>> Status("running", "2 ranks at work") == "running"
    True
    """

    def __new__(
        cls,
        state: str,
        what: str = "",
        next_step: str = "",
        source: str = "folder",
        as_of: float = 0,
        slurm: str = "",
        row: Row | None = None,
    ):
        self = super().__new__(cls, state)
        self.what, self.next_step, self.source, self.as_of = what, next_step, source, as_of or time.time()
        self.slurm, self.row = slurm, row
        return self

    @property
    def never(self) -> bool:
        """Whether Slurm will never start it as it is."""
        return self.row is not None and self.row.never

    @property
    def ended(self) -> bool:
        return self not in ("pending", "running")


def facts(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]], dict[int, dict[str, Any]], str]:
    """(run, rank records, errors by rank, end of the job's log): what a folder knows about an ending."""
    run = files.read_json(RunFolder(folder).run_json)
    records, errors = [], {}
    for rank in range(run["ranks"]):
        if record := files.read_json(RunFolder(folder).rank(rank)):
            records.append(record)
        if error := files.read_json(RunFolder(folder).error(rank)):
            errors[rank] = error
    log = RunFolder(folder).job_log
    text = log.read_text(errors="replace")[-20_000:] if log.is_file() else ""
    return run, records, errors, text.rpartition("--- attempt ")[2]  # what an earlier attempt met is over


def write_end(folder: Path, stopped: str | None = None) -> dict[str, Any]:
    """Write down how the job ended, unless that is written already; returns what is written."""
    run, records, errors, log = facts(folder)
    cancel = files.read_json(RunFolder(folder).cancel)
    if cancel and stopped is None:
        stopped = "Cancelled"
    cancelled_at = cancel["time"] if cancel else float("inf")
    end = endings.decide(run, records, errors, stopped=stopped, cancelled_at=cancelled_at, log=log)
    times = [r["started"] for r in records]
    end |= {
        "started": min(times, default=None),
        "ended": max((r["ended"] for r in records if "ended" in r), default=time.time()),
        "ranks": records,
        "hashes": layout.hashes(folder),
    }
    files.write_json_once(RunFolder(folder).end, end)
    return files.read_json(RunFolder(folder).end)


def ended(folder: Path) -> Status | None:
    """The final status, if the end is written down."""
    end = files.read_json(RunFolder(folder).end)
    return None if end is None else status_of_end(end)


def status_of_end(end: dict[str, Any]) -> Status:
    """The final status that an end.json tells."""
    return Status(endings.state(end), end["what"], end["next_step"], as_of=end["ended"])


def lost(folder: Path) -> Status:
    """The status where no process runs what is in the folder any more: what it wrote at last, or lost."""
    with layout.claim(folder) as free:
        if free:  # else another process has just begun to start it again
            write_end(folder, "Lost")
    return ended(folder) or Status("pending", "It is being started.")
