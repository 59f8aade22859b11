"""The state of a job: from its folder first, then from the backend, and never guessed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from . import endings, ledger, rounds
from .states import Row

CUT_OFF = 30.0  # seconds within which Slurm lists a job whose submission was cut off, if it has it


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
    run = ledger.read(folder / "run.json")
    records, errors = [], {}
    for rank in range(run["ranks"]):
        if record := ledger.read(folder / f"rank-{rank}.json"):
            records.append(record)
        if error := ledger.read(folder / f"error-{rank}.json"):
            errors[rank] = error
    log = folder / "job.log"
    text = log.read_text(errors="replace")[-20_000:] if log.is_file() else ""
    return run, records, errors, text.rpartition("--- attempt ")[2]  # what an earlier attempt met is over


def finish(folder: Path, stopped: str | None = None) -> dict[str, Any]:
    """Write down how the job ended, unless that is written already; returns what is written."""
    run, records, errors, log = facts(folder)
    cancel = ledger.read(folder / "cancel.json")
    if cancel and stopped is None:
        stopped = "Cancelled"
    asked = cancel["time"] if cancel else float("inf")
    end = endings.decide(run, records, errors, stopped=stopped, asked=asked, log=log)
    times = [r["started"] for r in records]
    end |= {
        "started": min(times, default=None),
        "ended": max((r["ended"] for r in records if "ended" in r), default=time.time()),
        "ranks": records,
        "hashes": ledger.hashes(folder),
    }
    ledger.write_once(folder / "end.json", end)
    return ledger.read(folder / "end.json")


def ended(folder: Path) -> Status | None:
    """The final status, if the end is written down."""
    end = ledger.read(folder / "end.json")
    return None if end is None else said(end)


def said(end: dict[str, Any]) -> Status:
    """The final status that an end.json tells."""
    return Status(endings.state(end), end["what"], end["next_step"], as_of=end["ended"])


def of(folder: Path) -> Status:
    """The status of the job in a folder."""
    from . import backends

    final = ended(folder)
    if final:
        return final
    backend = rounds.backend(folder)
    if backend is None:
        run = ledger.read(folder / "run.json")
        if ledger.held(rounds.sweep_of(folder)):  # between the folder's making and the launcher's first word
            return Status("pending", "It is being started.")
        found = backends.get(run["backend"]).recover(folder.parent if rounds.is_item(folder) else folder)
        backend = rounds.backend(folder)
    if backend is None:
        if final := ended(folder):
            return final
        if found is None:
            what = "Its submission was cut off, and Slurm does not answer whether it has the job."
            return Status("pending", what, "Wait: the job itself may be running.", source="slurm")
        if run["backend"] == "slurm" and time.time() - (folder / "run.json").stat().st_mtime < CUT_OFF:
            what = "Its submission was cut off; Slurm may still be about to list it."
            return Status("pending", what, source="cut off")
        return lost(folder)
    return backends.get(backend["backend"]).status(folder, backend)


def decided(folder: Path) -> Status:
    """The status, once it is known whether a submission that was cut off reached Slurm."""
    while (now := of(folder)).source == "cut off":
        time.sleep(0.1)
    return now


def lost(folder: Path) -> Status:
    """The status where no process runs what is in the folder any more: what it wrote at last, or lost."""
    with ledger.claim(folder) as free:
        if free:  # else another process has just begun to start it again
            finish(folder, "Lost")
    return ended(folder) or Status("pending", "It is being started.")
