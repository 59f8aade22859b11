"""The attempts of one run: after an interruption, the next attempt continues in the same folder.

Files of attempt N that would mislead the next attempt (the ranks' records and errors, the store's address,
the recorded end) are moved to `attempts/N/`. Logs, metrics and checkpoints continue. A batch script begins
with `python -m cluster.jobs.rank.on_restart FOLDER` after Slurm has requeued its job.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from io import BufferedWriter
from pathlib import Path

from cluster.system import settings
from cluster.system.files import read_json, write, write_json_once

from . import status
from .run_folder import RUN_JSON, SCRIPT, Run, RunRecord

HOW = {"preempted": "DUE TO PREEMPTION", "stopped by a failed node": "DUE TO NODE FAILURE"}
LIMIT = 10  # maximum number of times that Slurm starts one job before its user must submit it again
SOON = 120  # seconds for Slurm to requeue such a job
MARK = "--- attempt "  # begins the line that separates the attempts in a log

# Endings of a run that can resume, because it was interrupted and did not fail by itself.
INTERRUPTED = {"NodeFailed", "Preempted", "Lost", "OutOfTime", "OutOfMemory", "Cancelled", "RankKilled"}

REQUEUED = {"NodeFailed", "Preempted"}  # endings after which Slurm itself requeues a job


def current() -> int:
    """Return the number of this attempt, from 1, as seen by a rank."""
    return settings.whole_number("CLUSTER_ATTEMPT")


def superseded(run: Run) -> bool:
    """Return whether a later attempt than this rank's own has begun.

    A node that lost its connection does not know that its job restarted elsewhere, so its ranks continue.
    """
    return run.attempt(current()).is_dir()


def goes_on(run: Run) -> bool:
    """Return whether a run ended in a way that allows resuming it."""
    end = run.ending()
    return end is not None and end["ending"] in INTERRUPTED


def expected(run: Run, answered_at: float) -> bool:
    """Return whether Slurm will requeue, or has just requeued, a job that it reported as ended."""
    if not run.record["options"].get("requeue"):
        return False
    if any(p.stat().st_mtime > answered_at - 2 for p in run.attempts()[-1:]):
        return True  # the next attempt has begun since Slurm answered
    write_json_once(run.interrupted, {"time": time.time()})
    return time.time() - read_json(run.interrupted)["time"] < SOON


def waiting(run: Run) -> str:
    """Return the message that a job was interrupted and is in the queue again."""
    records, _, log = status.facts(run)
    how = next((w for w, phrase in HOW.items() if phrase in log), "interrupted")
    if records and all(r.get("ended") for r in records):
        how += time.strftime(" at %H:%M", time.localtime(max(r["ended"] for r in records)))
    return f"It was {how} and waits to resume (attempt {run.latest_attempt() + bool(records)})."


def following(former: Run, record: RunRecord) -> RunRecord:
    """Return the run.json of the next attempt: a new submission of a former run."""
    again = record.copy()
    again["attempt"] = former.latest_attempt() + 1
    again["submitted"], again["resumed"] = former.record["submitted"], record["submitted"]
    if "own" in former.record:
        again["own"] = former.record["own"]
    return again


def resume(run: Run, contents: dict[str, str | bytes]) -> BufferedWriter:
    """Prepare an ended run for its next attempt; return the lock, which its new process needs.

    If this process is killed half-way, the run still counts as ended and can be resumed.
    """
    held = run.hold()
    try:
        history = keep(run, run.latest_attempt(), run.backend, run.end)
        for name in (RUN_JSON, SCRIPT):
            if not (history / name).exists():
                shutil.copy2(run.path / name, history / name)
        for name, content in contents.items():
            write(run.path / name, content, mode=0o600)
        return held
    except BaseException:
        held.close()
        raise


def keep(run: Run, attempt: int, *marks: Path) -> Path:
    """Move an attempt's files to `attempts/N`, `marks` last; cut incomplete metrics lines, mark the log."""
    history = run.attempt(attempt)
    history.mkdir(parents=True, exist_ok=True)
    for path in (*run.left_behind(), *marks):
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, history / path.name)
    for path in run.all_metrics():
        with open(path, "r+b") as f:
            text = f.read()
            f.truncate(text.rfind(b"\n") + 1)
    with open(run.job_log, "a") as log:
        log.write(f"{MARK}{attempt + 1}\n")
    return history
