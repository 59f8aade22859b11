"""The Slurm backend: sbatch to submit, and as few questions to the controller as can be.

The job's folder says how a job ended as soon as its last rank has; Slurm is asked about jobs that have not
ended (one squeue for all of a user's jobs, remembered for a second), and about those that ended without
writing it down. A controller that does not answer changes nothing: the last state stays, with its time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import endings, ledger, state
from .errors import BackendError, Refused
from .sbatch import script
from .state import Status

__all__ = ["cancel", "check", "recover", "script", "start", "status"]

ANSWER = 10  # seconds Slurm has to answer a question
FRESH = 1.0  # seconds for which an answer of squeue serves
SETTLE = 15.0  # seconds a shared file system may take to show what a node wrote

# What brought a job to its end, by Slurm's name for it; the others are told by the ranks' own records.
ENDED = {"TIMEOUT": "OutOfTime", "DEADLINE": "OutOfTime", "CANCELLED": "Cancelled", "REVOKED": "Cancelled"}
ENDED |= {"OUT_OF_MEMORY": "OutOfMemory"} | dict.fromkeys(
    ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED"), "NodeFailed"
)
ENDED |= dict.fromkeys(("COMPLETED", "FAILED"))
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")

# Why a job waits, by Slurm's reason: in words, and what to do.
REASONS = {
    "Resources": ("It waits for free nodes.", ""),
    "Priority": ("Others are before it in the queue.", ""),
    "None": ("Slurm has not looked at it yet.", ""),
    "PartitionNodeLimit": (
        "It can never run: it asks for more than its partition has.",
        "Cancel it; ask for less.",
    ),
    "PartitionTimeLimit": (
        "It can never run: its time is over the partition's limit.",
        "Cancel it; ask for less.",
    ),
    "PartitionConfig": (
        "It can never run: its partition does not allow it.",
        "Cancel it; see doctor() for limits.",
    ),
    "ReqNodeNotAvail": ("The nodes it needs are down or reserved.", "Wait, or ask the administrator."),
    "Dependency": ("It waits for another job.", ""),
    "JobHeldUser": ("You hold it back.", "Release it: scontrol release <its number>."),
    "JobHeldAdmin": ("The administrator holds it back.", "Ask the administrator."),
}

# After these words of sbatch Slurm may have the job all the same; after others it has not.
NO_ANSWER = re.compile(
    r"did not answer|timed out|unable to contact|connection|communication|zero bytes|transport endpoint"
    r"|standby mode|ended with -",
    re.I,
)
# Only with these words does Slurm say that it does not know a job.
UNKNOWN = re.compile(
    r"invalid job id|already complet|accounting storage is disabled|^sacct: no such file", re.I
)

_answers: dict[str, tuple[float, Any]] = {}


def check(run: dict[str, Any]) -> None:
    """Nothing is refused before sbatch has seen it."""


def start(folder: Path, run: dict[str, Any], env: dict[str, str]) -> str:
    """Submit the folder's job.sh; returns what there is to say about it.

    Raises Refused, with what sbatch said, and removes the folder. Where no answer came, the job may be in the
    queue nevertheless: the folder is kept, and `recover` looks for it.
    """
    log = str(folder / "job.log").replace("%", "%%")  # Slurm fills in %j and the like, in folders' names too
    try:
        said = _ask("sbatch", "--parsable", "--output", log, "job.sh", cwd=folder, env=env, timeout=60)
    except BackendError as e:
        if NO_ANSWER.search(e.what):
            return f", which has not confirmed it yet: {e.what}"
        shutil.rmtree(folder)
        partitions = _partitions()
        hint = f"Partitions (time limit, nodes): {partitions}." if partitions else "See doctor()."
        raise Refused(f"Slurm refused the job: {e.what}", hint) from None
    _note(folder, said.strip().split(";")[0])
    return ""


def recover(folder: Path) -> bool | None:
    """Find the job of a folder whose submission was cut off before its number was written down.

    None when Slurm does not answer, so that no one can say.
    """
    queue = _squeue()
    if queue is None:
        return None
    mine = [i for i, row in queue.items() if row[2] in (str(folder), os.path.realpath(folder))]
    if mine:
        _note(folder, mine[0])
    return bool(mine)


def status(folder: Path, backend: dict[str, Any]) -> Status:
    """The state of a job that has no end.json yet."""
    queue = _squeue()
    if queue is None:
        return _last(folder)
    row = queue.get(backend["job_id"])
    found = row[0] if row else _forgotten(backend["job_id"])
    if final := state.ended(folder):  # it may have ended while Slurm was asked
        return final
    if found is None:
        return _last(folder)
    if not found:
        return _unknown(folder, backend)
    if found in WAITING and (folder / "rank-0.json").exists():  # squeue was asked a moment ago
        found = "RUNNING"
    if found not in ENDED:
        what, step = _words(found, row[1] if row else "None")
        return _remember(folder, "pending" if found in WAITING else "running", what, step)
    if ENDED[found] is None and not _settled(folder, backend):
        return Status("running", "Its ranks have ended; what they wrote is awaited.", source="slurm")
    state.finish(folder, ENDED[found])
    return state.ended(folder)


def cancel(folder: Path, backend: dict[str, Any]) -> None:
    """scancel the job. Raises BackendError where that fails; the job then goes on as if never asked."""
    try:
        _ask("scancel", backend["job_id"])
    except BackendError as e:
        if not UNKNOWN.search(e.what):  # else it has ended in this moment
            raise
    else:
        ledger.write_once(folder / "cancel.json", {"time": time.time()})


def _note(folder: Path, job_id: str) -> None:
    ledger.write(folder / "backend.json", {"backend": "slurm", "job_id": job_id, "submitted": time.time()})


def _squeue() -> dict[str, list[str]] | None:
    """{job id: [state, reason, working directory]} of the user's jobs, or None when Slurm does not answer."""

    def ask() -> dict[str, list[str]] | None:
        try:
            rows = _ask("squeue", "--me", "--noheader", "--format=%A|%T|%r|%Z").splitlines()
        except BackendError:
            return None
        return {i: rest for i, *rest in (r.split("|", 3) for r in rows)}

    return _fresh("queue", ask)


def _forgotten(job_id: str) -> str | None:
    """Slurm's name for the state of a job that is no longer in the queue.

    It is '' when Slurm knows no such job, and None when it does not answer.
    """

    def ask() -> str | None:
        for question in (
            ["scontrol", "show", "job", "--oneliner", job_id],
            ["sacct", "--jobs", job_id, "--allocations", "--noheader", "--parsable2", "--format=State"],
        ):
            try:
                said = _ask(*question)
            except BackendError as e:
                if not UNKNOWN.search(e.what):
                    return None
                continue
            words = said.split("JobState=")[-1].split()
            if words:
                return words[0].rstrip("+")
        return ""

    return _fresh(job_id, ask)


def _fresh(question: str, ask: Callable[[], Any]) -> Any:
    """The answer to a question, asked again only after FRESH seconds."""
    if question not in _answers or time.monotonic() - _answers[question][0] > FRESH:
        answer = ask()
        _answers[question] = time.monotonic(), answer
    return _answers[question][1]


def _unknown(folder: Path, backend: dict[str, Any]) -> Status:
    """Slurm answers, and does not know this job: the ranks' records decide, once they had time to appear."""
    if time.time() - backend["submitted"] < SETTLE:
        return Status("pending", "Slurm does not list it yet.", source="slurm")
    _, records, errors, log = state.facts(folder)
    told = any(said.search(log) for _, said in endings.SLURM_SAID)
    ended = errors or told or (records and all("ended" in r for r in records))
    state.finish(folder, None if ended else "Lost")
    return state.ended(folder)


def _settled(folder: Path, backend: dict[str, Any]) -> bool:
    """Whether the records of a job that Slurm calls ended are all there, or have had the time to appear."""
    run, records, _, log = state.facts(folder)
    if len([r for r in records if "ended" in r]) == run["ranks"]:
        return True
    newest = max(p.stat().st_mtime for p in folder.iterdir())
    return bool(log and not records) or time.time() - newest > SETTLE


def _words(found: str, reason: str) -> tuple[str, str]:
    if found in WAITING:
        return REASONS.get(reason, (f"It waits; Slurm's reason: {reason}.", ""))
    return f"Slurm: {found.lower()}.", ""


def _remember(folder: Path, now: str, what: str, step: str) -> Status:
    """A state Slurm told, kept in the folder for the time when it does not answer."""
    seen = ledger.read(folder / "seen.json") or {}
    if seen.get("state") != now or seen.get("what") != what or time.time() - seen["as_of"] > 60:
        ledger.write(folder / "seen.json", {"state": now, "what": what, "as_of": time.time()})
    return Status(now, what, step, source="slurm")


def _last(folder: Path) -> Status:
    seen = ledger.read(folder / "seen.json") or {"state": "pending", "what": "Submitted.", "as_of": 0}
    if (folder / "rank-0.json").exists():
        seen |= {"state": "running"}
    at = time.strftime("%H:%M:%S", time.localtime(seen["as_of"])) if seen["as_of"] else "its submission"
    what = f"{seen['what']} (Seen at {at}; since then Slurm's controller has not answered.)"
    return Status(seen["state"], what, "Wait: the job itself goes on.", "last seen", seen["as_of"])


def _partitions() -> str:
    try:
        rows = [r.split("|") for r in _ask("sinfo", "--noheader", "--format=%P|%l|%D").splitlines()]
    except BackendError:
        return ""
    return ", ".join(f"{name} ({limit}, {nodes})" for name, limit, nodes in rows)


def _ask(*command: str, timeout: float = ANSWER, **options: Any) -> str:
    """What a command of Slurm's prints. Raises BackendError with its stderr, or when it does not answer."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    except subprocess.TimeoutExpired:
        raise BackendError(f"{command[0]} did not answer within {timeout} s.") from None
    except OSError as e:
        raise BackendError(f"{command[0]}: {e.strerror}.") from None
    if said.returncode:
        raise BackendError(said.stderr.strip() or f"{command[0]} ended with {said.returncode}.")
    return said.stdout
