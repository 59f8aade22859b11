"""The Slurm backend: submits with sbatch and queries the controller as rarely as possible.

The job's folder records how a job ended as soon as its last rank has ended. Slurm is queried about jobs
that have not ended (one squeue for all of a user's jobs, however many are watched), and about jobs that
ended without recording it. If the controller does not answer, the last state is kept with its time.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path
from typing import Any

from cluster.slurm import client, limits, site, states, words
from cluster.slurm.client import NO_ANSWER, UNKNOWN, SlurmError
from cluster.system import files

from ..errors import BackendError, CanNeverRun, Refused
from ..run import attempts, endings, waiting
from ..run.run_folder import JOB_LOG, SCRIPT, RunFolder, RunRecord
from ..run.status import Status, ended, facts, status_of_end, write_end
from . import batch_script

SETTLE = 15.0  # seconds a shared file system may take to show what a node wrote

GONE = "gone"  # the answer for an item that was cancelled while pending
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")


def check(run: RunRecord) -> None:
    """Raise CanNeverRun if Slurm answers and no available partition can satisfy the request."""
    answer = client.ask_or_none("sinfo", "--noheader", "--exact", f"--format={limits.FORMAT}") or ""
    try:
        lines = dict((name, value) for name, value, _ in batch_script.requests(run))
        requested = {"partition": lines.get("partition")}
        requested |= {} if site.MEMORY & lines.keys() else {"memory": None}  # the site assigns the memory
        requested |= {} if site.GPUS & lines.keys() else {"gpus_per_rank": 0}
        limits.check(run["options"] | requested, limits.read_partitions(answer.splitlines()))
    except limits.TooMuch as e:
        raise CanNeverRun(e.what, e.next_step) from None


def check_round(items: range) -> None:
    """Raise CanNeverRun if a round has more items than Slurm's limit for arrays."""
    try:
        limits.check_array(items, client.ask_or_none("scontrol", "show", "config") or "")
    except limits.TooMuch as e:
        raise CanNeverRun(e.what, e.next_step) from None


def script(run: RunRecord, folder: Path) -> str:
    """Return the batch script of a job."""
    return batch_script.script(run, folder)


def array(run: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
    """Return the batch script of a round: an array whose tasks are these items."""
    return batch_script.array(run, folder, items, at_once(run, requested))


def start(folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
    """Submit the folder's job.sh and return a message for the user; sbatch also holds the lock.

    Raises Refused with sbatch's message. If Slurm did not answer, the job may be in the queue nevertheless.
    Its state is then pending, and `recover` looks for it.
    """
    return _submit(folder, env, held, JOB_LOG)


def _submit(folder: Path, env: dict[str, str], held: BufferedWriter, log: str) -> str:
    """Submit a folder's job.sh with sbatch. `log`: path of the output in it, with Slurm's placeholders."""
    pattern = str(folder).replace("%", "%%")  # Slurm replaces %j and the like in folder names, too
    try:
        answer = client.ask(
            "sbatch", "--parsable", "--output", f"{pattern}/{log}", SCRIPT,
            cwd=folder, env=env, timeout=60, pass_fds=[held.fileno()],
        )  # fmt: skip
    except SlurmError as e:
        if NO_ANSWER.search(e.what):
            return f", which has not confirmed it yet: {e.what}"
        partitions = _partitions()
        hint = f"Partitions (time limit, nodes): {partitions}." if partitions else "See doctor()."
        raise Refused(f"Slurm refused the job: {e.what}", hint) from None
    _note(folder, answer.strip().split(";")[0])
    client.forget("queue")  # the cached queue does not contain this job
    return ""


def start_round(folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
    """Submit the array of a round, otherwise like `start`."""
    return _submit(folder, env, held, f"%a/{JOB_LOG}")


def at_once(run: RunRecord, requested: int | None) -> int | None:
    """Return how many items of a sweep run at a time, as requested. None means that Slurm decides."""
    return requested


def recover(folder: Path) -> bool | None:
    """Find the job of a folder whose submission was interrupted before its job ID was recorded.

    Return None if Slurm does not answer and the result is therefore unknown.
    """
    queue = _squeue()
    if queue is None:
        return None
    mine = [i for i, row in queue.items() if row[3] in (str(folder), os.path.realpath(folder))]
    if mine:
        _note(folder, mine[0].partition("_")[0])  # all tasks of an array have the same job ID
    return bool(mine)


def status(folder: Path, backend: dict[str, Any]) -> Status:
    """Return the state of a job that has no end.json yet."""
    queue = _squeue()
    if queue is None:
        return _last(folder)
    found, reason, partitions, _ = queue.get(backend["job_id"]) or (
        _forgotten(backend["job_id"]), "None", "", ""
    )  # fmt: skip
    if final := ended(folder):  # the job may have ended during the query
        return final
    if found is None:
        return _last(folder)
    if not found or (found == GONE and RunFolder(folder).rank(0).exists()):
        return _unknown(folder, backend)
    found = "CANCELLED" if found == GONE else found
    row = states.state(found)
    began = (files.read_json(RunFolder(folder).rank(0)) or {}).get("started")
    if (
        found in WAITING and began and client.answered_at("queue") < began + 2
    ):  # the job started after the squeue query
        found, row = "RUNNING", states.state("RUNNING")
    if (began and found in WAITING) or (
        row.ending in attempts.REQUEUED and attempts.expected(folder, client.answered_at("queue"))
    ):
        row = dataclasses.replace(states.reason(reason, partitions), what=attempts.waiting(folder))
        return _remember(folder, "pending", row, f"{found}, {reason}")
    if row.ending is None:
        now, slurm_text = ("pending", f"{found}, {reason}") if found in WAITING else ("running", found)
        if now == "running" and (waits := waiting.now(folder)):
            row = dataclasses.replace(row, what=waits[0], step=waits[1])
        return _remember(
            folder, now, states.reason(reason, partitions) if found == "PENDING" else row, slurm_text
        )
    if row.ending == "" and not _settled(folder, backend):
        return Status("running", "Its ranks have ended; waiting for their output.", source="slurm")
    return status_of_end(write_end(folder, row.ending or None))


def cancel(folder: Path, backend: dict[str, Any]) -> None:
    """Cancel the job with scancel. Raises BackendError if that fails; the job then continues as before."""
    try:
        client.ask("scancel", backend["job_id"])
    except SlurmError as e:
        if not UNKNOWN.search(e.what):  # a job unknown to Slurm has just ended
            raise BackendError(e.what) from None
    else:
        files.write_json_once(RunFolder(folder).cancel, {"time": time.time()})
    client.forget()


def cancel_items(folder: Path, backend: dict[str, Any], items: list[int]) -> None:
    """Cancel items of a round with one call of scancel; raises as `cancel` does."""
    try:
        client.ask("scancel", f"{backend['job_id']}_[{words.ranges(items)}]")
    except SlurmError as e:
        if not UNKNOWN.search(e.what):
            raise BackendError(e.what) from None
    for i in items:
        files.write_json_once(RunFolder(RunFolder(folder).item(i)).cancel, {"time": time.time()})
    client.forget()


def _note(folder: Path, job_id: str) -> None:
    files.write_json(
        RunFolder(folder).backend, {"backend": "slurm", "job_id": job_id, "submitted": time.time()}
    )


def _squeue() -> dict[str, list[str]] | None:
    """Return the user's {job id: [state, reason, partitions, folder]}, or None if Slurm does not answer."""

    def ask() -> dict[str, list[str]] | None:
        answer = client.ask_or_none("squeue", "--me", "--array", "--noheader", "--format=%i|%T|%r|%P|%Z")
        rows = [r.split("|", 4) for r in (answer or "").splitlines()]
        return None if answer is None else {i: rest for i, *rest in rows}

    return client.shared_answer("queue", ask)


def _forgotten(job_id: str) -> str | None:
    """Return Slurm's name for the state of a job that is no longer in the queue; one query covers an array.

    It is '' if Slurm does not know the job, and None if Slurm does not answer. Slurm keeps no record of an
    item that was cancelled while pending, so an item missing from a known array is GONE.
    """
    whole, _, task = job_id.partition("_")
    known = False
    for question, parse in (
        (("scontrol", "show", "job", "--oneliner", whole), words.shown),
        (("sacct", "-X", "-n", "-P", "--format=JobID,State", "--jobs", whole), words.accounted),
    ):
        ask = functools.partial(_states, question, parse)
        answer = client.shared_answer(" ".join(question), ask)
        if answer is None or task in answer:
            return answer and answer[task]
        known = known or bool(answer)
    return GONE if known and task else ""


def _states(question: tuple[str, ...], parse: Callable[[str], dict[str, str]]) -> dict[str, str] | None:
    """Return {task: state}, {} if Slurm does not know the job, or None if Slurm does not answer."""
    try:
        # With this variable, lists of tasks are not truncated.
        return parse(client.ask(*question, env=os.environ | {"SLURM_BITSTR_LEN": "0"}))
    except SlurmError as e:
        return {} if UNKNOWN.search(e.what) else None


def _unknown(folder: Path, backend: dict[str, Any]) -> Status:
    """Return the status of a job unknown to Slurm from its ranks' records, once these had time to appear."""
    if time.time() - backend["submitted"] < SETTLE:
        return Status("pending", "Slurm does not list it yet.", source="slurm")
    _, records, errors, log = facts(folder)
    explained = any(pattern.search(log) for _, pattern in endings.SLURM_SAID)
    over = errors or explained or (records and all("ended" in r for r in records))
    return status_of_end(write_end(folder, None if over else "Lost"))


def _settled(folder: Path, backend: dict[str, Any]) -> bool:
    """Return whether all records of an ended job exist, or have had enough time to appear."""
    run, records, _, log = facts(folder)
    if len([r for r in records if "ended" in r]) == run["ranks"]:
        return True
    newest = max(p.stat().st_mtime for p in folder.iterdir())
    return bool(log and not records) or time.time() - newest > SETTLE


def _remember(folder: Path, now: str, row: states.Row, slurm: str) -> Status:
    """Return a state that Slurm reported, and store it in the folder in case Slurm later does not answer."""
    seen = files.read_json(RunFolder(folder).seen) or {}
    if seen.get("state") != now or seen.get("what") != row.what or time.time() - seen["as_of"] > 60:
        files.write_json(RunFolder(folder).seen, {"state": now, "what": row.what, "as_of": time.time()})
    return Status(now, row.what, row.step, source="slurm", slurm=slurm, row=row)


def _last(folder: Path) -> Status:
    seen = files.read_json(RunFolder(folder).seen) or {"state": "pending", "what": "Submitted.", "as_of": 0}
    if RunFolder(folder).rank(0).exists():
        seen |= {"state": "running"}
    at = time.strftime("%H:%M:%S", time.localtime(seen["as_of"])) if seen["as_of"] else "its submission"
    what = f"{seen['what']} (State at {at}; Slurm's controller has not answered since then.)"
    return Status(seen["state"], what, "Wait: the job itself continues.", "last seen", seen["as_of"])


def _partitions() -> str:
    """Return a hint that lists the partitions with their limits; "" if Slurm does not answer."""
    answer = client.ask_or_none("sinfo", "--noheader", "--format=%P|%l|%D") or ""
    rows = [r.split("|") for r in answer.splitlines()]
    return ", ".join(f"{name} ({limit}, {nodes})" for name, limit, nodes in rows)
