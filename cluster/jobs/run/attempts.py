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

from . import layout, status
from .run_folder import RUN_JSON, SCRIPT, RunFolder, RunRecord

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


def superseded(folder: Path) -> bool:
    """Return whether a later attempt than this rank's own has begun.

    A node that lost its connection does not know that its job restarted elsewhere, so its ranks continue.
    """
    return RunFolder(folder).attempt(current()).is_dir()


def goes_on(folder: Path) -> bool:
    """Return whether the run in a folder ended in a way that allows resuming it."""
    end = read_json(RunFolder(folder).end)
    return bool(end) and end["ending"] in INTERRUPTED


def latest(folder: Path) -> int:
    """Return the number of a folder's current attempt."""
    kept = [int(p.name) for p in RunFolder(folder).attempts()]
    return max(RunFolder(folder).read_run().get("attempt", 1), 1 + max(kept, default=0))


def expected(folder: Path, answered_at: float) -> bool:
    """Return whether Slurm will requeue, or has just requeued, a job that it reported as ended."""
    if not RunFolder(folder).read_run()["options"].get("requeue"):
        return False
    if any(p.stat().st_mtime > answered_at - 2 for p in RunFolder(folder).attempts()[-1:]):
        return True  # the next attempt has begun since Slurm answered
    write_json_once(RunFolder(folder).interrupted, {"time": time.time()})
    return time.time() - read_json(RunFolder(folder).interrupted)["time"] < SOON


def waiting(folder: Path) -> str:
    """Return the message that a job was interrupted and is in the queue again."""
    log = status.facts(folder)[3]
    how = next((w for w, phrase in HOW.items() if phrase in log), "interrupted")
    records = status.facts(folder)[1]
    ended = [r["ended"] for r in records if r.get("ended")]
    at = (
        time.strftime(" at %H:%M", time.localtime(max(ended))) if ended and len(ended) == len(records) else ""
    )
    return f"It was {how}{at} and waits to resume (attempt {latest(folder) + bool(records)})."


def following(folder: Path, run: RunRecord) -> RunRecord:
    """Return the run.json of the next attempt: a new submission of the run that is in the folder."""
    former = RunFolder(folder).read_run()
    again = run.copy()
    again.update(
        {"attempt": latest(folder) + 1, "submitted": former["submitted"], "resumed": run["submitted"]}
    )
    if "own" in former:
        again["own"] = former["own"]
    return again


def resume(folder: Path, files: dict[str, str | bytes]) -> BufferedWriter:
    """Prepare an ended run for its next attempt; return the lock, which its new process needs.

    If this process is killed half-way, the run still counts as ended and can be resumed.
    """
    held = layout.hold(folder)
    try:
        history = keep(folder, latest(folder), RunFolder(folder).backend, RunFolder(folder).end)
        for name in (RUN_JSON, SCRIPT):
            if not (history / name).exists():
                shutil.copy2(folder / name, history / name)
        for name, content in files.items():
            write(folder / name, content, mode=0o600)
        return held
    except BaseException:
        held.close()
        raise


def keep(folder: Path, attempt: int, *marks: Path) -> Path:
    """Move an attempt's files to `attempts/N`, `marks` last; cut incomplete metrics lines, mark the log."""
    history = RunFolder(folder).attempt(attempt)
    history.mkdir(parents=True, exist_ok=True)
    for path in (*RunFolder(folder).left_behind(), *marks):
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, history / path.name)
    for path in RunFolder(folder).all_metrics():
        _cut(path)
    with open(RunFolder(folder).job_log, "a") as log:
        log.write(f"{MARK}{attempt + 1}\n")
    return history


def _cut(path: Path) -> None:
    """Remove an incomplete last line from a file."""
    with open(path, "r+b") as f:
        text = f.read()
        if not text.endswith(b"\n"):
            f.truncate(text.rfind(b"\n") + 1)
