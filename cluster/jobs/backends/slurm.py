"""The Slurm backend: submits with sbatch and queries the controller as rarely as possible.

The job's folder records how a job ended as soon as its last rank has ended. Slurm is queried about jobs
that have not ended (one squeue for all of a user's jobs, however many are watched), and about jobs that
ended without recording it. If the controller does not answer, the last state is kept with its time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from io import BufferedWriter
from pathlib import Path

from cluster.slurm import client, limits, site, states, words
from cluster.slurm.client import NO_ANSWER, UNKNOWN, SlurmError
from cluster.system import files

from ..errors import BackendError, CanNeverRun, Refused
from ..run import attempts, endings, waiting
from ..run.run_folder import JOB_LOG, SCRIPT, Run, RunRecord
from ..run.status import Status, ended, facts, status_of_end, write_end
from . import batch_script
from .base import Backend

SETTLE = 15.0  # seconds a shared file system may take to show what a node wrote

GONE = "gone"  # the answer for an item that was cancelled while pending
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")


class Slurm(Backend):
    """A cluster's Slurm, or the single-host one."""

    def check(self, record: RunRecord) -> None:
        """Raise CanNeverRun if Slurm answers and no available partition can satisfy the request."""
        answer = client.ask_or_none("sinfo", "--noheader", "--exact", f"--format={limits.FORMAT}") or ""
        try:
            lines = dict((name, value) for name, value, _ in batch_script.requests(record))
            requested = {"partition": lines.get("partition")}
            requested |= {} if site.MEMORY & lines.keys() else {"memory": None}  # the site assigns the memory
            requested |= {} if site.GPUS & lines.keys() else {"gpus_per_rank": 0}
            limits.check(record["options"] | requested, limits.read_partitions(answer.splitlines()))
        except limits.TooMuch as e:
            raise CanNeverRun(e.what, e.next_step) from None

    def check_items(self, count: int) -> None:
        """Raise CanNeverRun if a round has more items than Slurm's limit for arrays."""
        try:
            limits.check_array(range(count), client.ask_or_none("scontrol", "show", "config") or "")
        except limits.TooMuch as e:
            raise CanNeverRun(e.what, e.next_step) from None

    def script(self, record: RunRecord, folder: Path) -> str:
        return batch_script.script(record, folder)

    def array(self, record: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
        return batch_script.array(record, folder, items, requested)

    def at_once(self, record: RunRecord, requested: int | None) -> int | None:
        return requested

    def start(self, run: Run, env: dict[str, str], held: BufferedWriter) -> str:
        """Submit the folder's job.sh and return a message for the user; sbatch also holds the lock.

        Raises Refused with sbatch's message. If Slurm did not answer, the job may be in the queue
        nevertheless. Its state is then pending, and `recover` looks for it.
        """
        log = f"%a/{JOB_LOG}" if run.round_json.exists() else JOB_LOG
        pattern = str(run.path).replace("%", "%%")  # Slurm replaces %j and the like in folder names, too
        try:
            answer = client.ask(
                "sbatch", "--parsable", "--output", f"{pattern}/{log}", SCRIPT,
                cwd=run.path, env=env, timeout=60, pass_fds=[held.fileno()],
            )  # fmt: skip
        except SlurmError as e:
            if NO_ANSWER.search(e.what):
                return f", which has not confirmed it yet: {e.what}"
            raise Refused(f"Slurm refused the job: {e.what}", _after_refusal(run.record)) from None
        _note(run, answer.strip().split(";")[0])
        client.forget("queue")  # the cached queue does not contain this job
        return ""

    def recover(self, run: Run) -> bool | None:
        """Find the job of a folder whose submission was interrupted before its job ID was recorded."""
        queue = _squeue()
        if queue is None:
            return None
        mine = [i for i, row in queue.items() if row[3] in (str(run.path), os.path.realpath(run.path))]
        if mine:
            _note(run, mine[0].partition("_")[0])  # all tasks of an array have the same job ID
        return bool(mine)

    def status(self, run: Run) -> Status:
        backend, queue = run.backend_record() or {}, _squeue()
        if queue is None:
            return _last(run)
        found, reason, partitions, _ = queue.get(backend["job_id"]) or (
            _forgotten(backend["job_id"]), "None", "", ""
        )  # fmt: skip
        if final := ended(run):  # the job may have ended during the query
            return final
        if found is None:
            return _last(run)
        first = run.rank_record(0) or {}
        if not found or (found == GONE and first):
            return _unknown(run, backend["submitted"])
        found = "CANCELLED" if found == GONE else found
        began, answered_at = first.get("started"), client.answered_at("queue")
        if found in WAITING and began and answered_at < began + 2:  # it has started since the squeue query
            found = "RUNNING"
        row, why = states.state(found), states.reason(reason, partitions)
        restarts = row.ending in attempts.REQUEUED and attempts.expected(run, answered_at)
        if restarts or (began and found in WAITING):
            row = dataclasses.replace(why, what=attempts.waiting(run))
            return _remember(run, "pending", row, f"{found}, {reason}")
        if row.ending is None and found in WAITING:
            return _remember(run, "pending", why if found == "PENDING" else row, f"{found}, {reason}")
        if row.ending is None:
            if waits := waiting.now(run):
                row = dataclasses.replace(row, what=waits[0], step=waits[1])
            return _remember(run, "running", row, found)
        if row.ending == "" and not _settled(run):
            return Status("running", "Its ranks have ended; waiting for their output.", source="slurm")
        return status_of_end(write_end(run, row.ending or None))

    def cancel(self, runs: Sequence[Run]) -> None:
        """Cancel with one call of scancel. Raises BackendError if that fails; the jobs then continue."""
        job_id = (runs[0].backend_record() or {})["job_id"]
        if len(runs) > 1:
            job_id = f"{job_id.partition('_')[0]}_[{words.ranges([int(run.path.name) for run in runs])}]"
        try:
            client.ask("scancel", job_id)
            unknown = False
        except SlurmError as e:
            if not UNKNOWN.search(e.what):
                raise BackendError(e.what) from None
            unknown = True
        if not unknown or len(runs) > 1:  # a single job unknown to Slurm has just ended
            for run in runs:
                files.write_json_once(run.cancel, {"time": time.time()})
        client.forget()


def _after_refusal(record: RunRecord) -> str:
    """Return the next step after a refusal: what the site requested and where, and what else there is."""
    given = ", ".join(
        f"--{name}" + ("" if value is None else f"={value}") + f" ({where})"
        for name, value, where in batch_script.requests(record)
        if where != "submit"
    )
    listed = client.ask_or_none("sinfo", "--noheader", "--format=%P (%l, %D)") or ""
    partitions = ", ".join(listed.splitlines())
    steps = [
        f"Set by the site: {given}." if given else "No site file sets an account, a QOS or the like.",
        f"Change it in a site file ({site.places()[-1]}), by a variable such as $SBATCH_ACCOUNT, "
        "or with submit(…, sbatch={'account': …}).",
        f"Partitions (time limit, nodes): {partitions}." if partitions else "",
        "`python -m cluster doctor --site` shows the origin of each line.",
    ]
    return " ".join(filter(None, steps))


def _note(run: Run, job_id: str) -> None:
    files.write_json(run.backend, {"backend": "slurm", "job_id": job_id, "submitted": time.time()})


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


def _unknown(run: Run, submitted: float) -> Status:
    """Return the status of a job unknown to Slurm from its ranks' records, once these had time to appear."""
    if time.time() - submitted < SETTLE:
        return Status("pending", "Slurm does not list it yet.", source="slurm")
    records, errors, log = facts(run)
    explained = any(pattern.search(log) for _, pattern in endings.SLURM_SAID)
    over = errors or explained or (records and all("ended" in r for r in records))
    return status_of_end(write_end(run, None if over else "Lost"))


def _settled(run: Run) -> bool:
    """Return whether all records of an ended job exist, or have had enough time to appear."""
    records, _, log = facts(run)
    if len([r for r in records if "ended" in r]) == run.ranks:
        return True
    times = [run.path.stat().st_mtime]
    for path in run.path.iterdir():
        with contextlib.suppress(FileNotFoundError):  # a temporary file that has just been renamed
            times.append(path.stat().st_mtime)
    return bool(log and not records) or time.time() - max(times) > SETTLE


def _remember(run: Run, now: str, row: states.Row, slurm: str) -> Status:
    """Return a state that Slurm reported, and store it in the folder in case Slurm later does not answer."""
    seen = files.read_json(run.seen) or {}
    if seen.get("state") != now or seen.get("what") != row.what or time.time() - seen["as_of"] > 60:
        files.write_json(run.seen, {"state": now, "what": row.what, "as_of": time.time()})
    return Status(now, row.what, row.step, source="slurm", slurm=slurm, row=row)


def _last(run: Run) -> Status:
    seen = files.read_json(run.seen) or {"state": "pending", "what": "Submitted.", "as_of": 0}
    if run.rank(0).exists():
        seen |= {"state": "running"}
    at = time.strftime("%H:%M:%S", time.localtime(seen["as_of"])) if seen["as_of"] else "its submission"
    what = f"{seen['what']} (State at {at}; Slurm's controller has not answered since then.)"
    return Status(seen["state"], what, "Wait: the job itself continues.", "last seen", seen["as_of"])
