"""The Slurm backend: sbatch to submit, and as few questions to the controller as can be.

The job's folder says how a job ended as soon as its last rank has; Slurm is asked about jobs that have not
ended (one squeue for all of a user's jobs, however many are watched), and about those that ended without
writing it down. A controller that does not answer changes nothing: the last state stays, with its time.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path
from typing import Any

from . import answers, attempts, backends, endings, ledger, limits, state, states
from .errors import BackendError, Refused
from .sbatch import array, ranges, script
from .state import Status

__all__ = ["array", "at_once", "calls", "cancel", "cancel_items", "check", "check_round"]
__all__ += ["recover", "script", "start", "start_round", "status"]

ANSWER = 10  # seconds Slurm has to answer a question
FRESH = 1.0  # seconds for which an answer serves; ten times as long where the queue has not changed for long
SETTLE = 15.0  # seconds a shared file system may take to show what a node wrote

GONE = "gone"  # what is said of an item that was cancelled while it waited
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")

calls: collections.Counter[str] = collections.Counter()  # how often each of Slurm's commands was called

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
_changed: dict[str, float] = {}  # when an answer last differed from the one before
_one_at_a_time = threading.Lock()


def check(run: dict[str, Any]) -> None:
    """Raise CanNeverRun for what no partition it may go to offers. No answer of Slurm's, no refusal."""
    said = _try("sinfo", "--noheader", "--exact", f"--format={limits.FORMAT}") or ""
    limits.check(run["options"], limits.read(said.splitlines()))


def check_round(items: range) -> None:
    """Raise CanNeverRun where the items of a round are more than an array may have."""
    limits.check_array(items, _try("scontrol", "show", "config") or "")


def start(folder: Path, env: dict[str, str], held: BufferedWriter, log: str = "job.log") -> str:
    """Submit the folder's job.sh; returns what there is to say about it. sbatch, too, holds the lock.

    Raises Refused, with what sbatch said. Where no answer came, the job may be in the queue nevertheless:
    its state is pending, and `recover` looks for it.
    """
    place = str(folder).replace("%", "%%")  # Slurm fills in %j and the like, in folders' names too
    try:
        said = _ask(
            "sbatch", "--parsable", "--output", f"{place}/{log}", "job.sh",
            cwd=folder, env=env, timeout=60, pass_fds=[held.fileno()],
        )  # fmt: skip
    except BackendError as e:
        if NO_ANSWER.search(e.what):
            return f", which has not confirmed it yet: {e.what}"
        partitions = _partitions()
        hint = f"Partitions (time limit, nodes): {partitions}." if partitions else "See doctor()."
        raise Refused(f"Slurm refused the job: {e.what}", hint) from None
    _note(folder, said.strip().split(";")[0])
    _answers.pop("queue", None)  # what was known of the queue does not hold this job
    return ""


def start_round(folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
    """Submit the array of a round; the rest is as for `start`."""
    return start(folder, env, held, "%a/job.log")


def at_once(run: dict[str, Any], asked: int | None) -> int | None:
    """How many items of a sweep run at a time: as asked; else Slurm decides, and this is None."""
    return asked


def recover(folder: Path) -> bool | None:
    """Find the job of a folder whose submission was cut off before its number was written down.

    None when Slurm does not answer, so that no one can say.
    """
    queue = _squeue()
    if queue is None:
        return None
    mine = [i for i, row in queue.items() if row[2] in (str(folder), os.path.realpath(folder))]
    if mine:
        _note(folder, mine[0].partition("_")[0])  # of an array all tasks were submitted in one place
    return bool(mine)


def status(folder: Path, backend: dict[str, Any]) -> Status:
    """The state of a job that has no end.json yet."""
    queue = _squeue()
    if queue is None:
        return _last(folder)
    found, said, _ = queue.get(backend["job_id"]) or (_forgotten(backend["job_id"]), "None", "")
    if final := state.ended(folder):  # it may have ended while Slurm was asked
        return final
    if found is None:
        return _last(folder)
    if not found or (found == GONE and (folder / "rank-0.json").exists()):
        return _unknown(folder, backend)
    found = "CANCELLED" if found == GONE else found
    row = states.state(found)
    began = (ledger.read(folder / "rank-0.json") or {}).get("started")
    if found in WAITING and began and _asked("queue") < began + 2:  # squeue was asked before it started
        found, row = "RUNNING", states.state("RUNNING")
    if (began and found in WAITING) or (
        row.ending in attempts.REQUEUED and attempts.expected(folder, _asked("queue"))
    ):
        row = dataclasses.replace(states.reason(said), what=attempts.waiting(folder))
        return _remember(folder, "pending", row, f"{found}, {said}")
    if row.ending is None:
        now, words = ("pending", f"{found}, {said}") if found in WAITING else ("running", found)
        return _remember(folder, now, states.reason(said) if found == "PENDING" else row, words)
    if row.ending == "" and not _settled(folder, backend):
        return Status("running", "Its ranks have ended; what they wrote is awaited.", source="slurm")
    state.finish(folder, row.ending or None)
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
    _answers.clear()


def cancel_items(folder: Path, backend: dict[str, Any], items: list[int]) -> None:
    """scancel items of a round, all with one call; raises as `cancel` does."""
    try:
        _ask("scancel", f"{backend['job_id']}_[{ranges(items)}]")
    except BackendError as e:
        if not UNKNOWN.search(e.what):
            raise
    for i in items:
        ledger.write_once(folder / str(i) / "cancel.json", {"time": time.time()})
    _answers.clear()


def _note(folder: Path, job_id: str) -> None:
    ledger.write(folder / "backend.json", {"backend": "slurm", "job_id": job_id, "submitted": time.time()})


def _squeue() -> dict[str, list[str]] | None:
    """{job id: [state, reason, working directory]} of the user's jobs, or None when Slurm does not answer."""

    def ask() -> dict[str, list[str]] | None:
        said = _try("squeue", "--me", "--array", "--noheader", "--format=%i|%T|%r|%Z")
        rows = [r.split("|", 3) for r in (said or "").splitlines()]
        return None if said is None else {i: rest for i, *rest in rows}

    return _fresh("queue", ask)


def _forgotten(job_id: str) -> str | None:
    """Slurm's name for the state of a job that is no longer in the queue; one question serves for an array.

    It is '' when Slurm knows no such job, and None when it does not answer. Of an item that was cancelled
    while it waited Slurm keeps nothing, so that one which is missing in an array it knows is GONE.
    """
    whole, _, task = job_id.partition("_")
    known = False
    for question, read in (
        (("scontrol", "show", "job", "--oneliner", whole), answers.shown),
        (("sacct", "-X", "-n", "-P", "--format=JobID,State", "--jobs", whole), answers.accounted),
    ):
        found = _fresh(" ".join(question), lambda q=question, read=read: _states(q, read))
        if found is None or task in found:
            return found and found[task]
        known = known or bool(found)
    return GONE if known and task else ""


def _states(question: tuple[str, ...], read: Callable[[str], dict[str, str]]) -> dict[str, str] | None:
    """{task: state}, {} where Slurm does not know the job, None where it does not answer."""
    try:
        return read(
            _ask(*question, env=os.environ | {"SLURM_BITSTR_LEN": "0"})
        )  # so that no list is cut short
    except BackendError as e:
        return {} if UNKNOWN.search(e.what) else None


def _fresh(question: str, ask: Callable[[], Any]) -> Any:
    """The answer to a question: one for all jobs and threads, asked again when it is no longer fresh.

    An answer that has not changed for long serves for longer, up to ten times FRESH: who waits for hours
    does not ask each second.
    """
    with _one_at_a_time:
        at, answer = _answers.get(question, (float("-inf"), None))
        quiet = time.monotonic() - _changed.get(question, time.monotonic())  # seconds without a change
        if time.monotonic() - at > FRESH * min(10, 1 + quiet / 20):
            new = ask()
            if new != answer or question not in _changed:
                _changed[question] = time.monotonic()
            _answers[question] = time.monotonic(), new
            return new
    return answer


def _asked(question: str) -> float:
    """When the answer that serves now was given (Unix seconds)."""
    return time.time() - time.monotonic() + _answers[question][0] if question in _answers else time.time()


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


def _remember(folder: Path, now: str, row: states.Row, slurm: str) -> Status:
    """A state Slurm told, kept in the folder for the time when it does not answer."""
    seen = ledger.read(folder / "seen.json") or {}
    if seen.get("state") != now or seen.get("what") != row.what or time.time() - seen["as_of"] > 60:
        ledger.write(folder / "seen.json", {"state": now, "what": row.what, "as_of": time.time()})
    return Status(now, row.what, row.step, source="slurm", slurm=slurm, row=row)


def _last(folder: Path) -> Status:
    seen = ledger.read(folder / "seen.json") or {"state": "pending", "what": "Submitted.", "as_of": 0}
    if (folder / "rank-0.json").exists():
        seen |= {"state": "running"}
    at = time.strftime("%H:%M:%S", time.localtime(seen["as_of"])) if seen["as_of"] else "its submission"
    what = f"{seen['what']} (Seen at {at}; since then Slurm's controller has not answered.)"
    return Status(seen["state"], what, "Wait: the job itself goes on.", "last seen", seen["as_of"])


def _partitions() -> str:
    """The partitions with their limits, for a hint; "" where Slurm does not answer."""
    said = _try("sinfo", "--noheader", "--format=%P|%l|%D") or ""
    rows = [r.split("|") for r in said.splitlines()]
    return ", ".join(f"{name} ({limit}, {nodes})" for name, limit, nodes in rows)


def _try(*command: str) -> str | None:
    """What a command prints, or None where it fails."""
    try:
        return _ask(*command)
    except BackendError:
        return None


def _ask(*command: str, timeout: float = ANSWER, **options: Any) -> str:
    """What a command of Slurm's prints. Raises BackendError with its stderr, or when it does not answer."""
    calls[command[0]] += 1
    env = backends.environment(options.pop("env", os.environ))
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, **options)
    except subprocess.TimeoutExpired:
        raise BackendError(f"{command[0]} did not answer within {timeout} s.") from None
    except OSError as e:
        raise BackendError(f"{command[0]}: {e.strerror}.") from None
    if said.returncode:
        raise BackendError(said.stderr.strip() or f"{command[0]} ended with {said.returncode}.")
    return said.stdout
