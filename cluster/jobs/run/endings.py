"""Pure functions from the records of ranks and backend to a dictionary: how a job ended, with a message."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

from cluster.slurm import states
from cluster.slurm.words import clock
from cluster.system.text import named

from ..errors import ENDINGS, JobFailed
from . import waiting
from .run_folder import RunRecord

# A rank with one of these errors was most likely terminated by others, or has lost its peers.
CONSEQUENCES = re.compile(
    r"HorovodInternalError|Horovod has been shut down|Connection (reset|closed) by peer", re.I
)

MISMATCH = re.compile(r"Mismatched [^\n]*")  # Horovod's message if the ranks' requests do not match.

# Lines of a job's log that show what Slurm did to the job.
SLURM_SAID = [
    ("OutOfTime", re.compile(r"CANCELLED AT .* DUE TO TIME LIMIT")),
    ("OutOfMemory", re.compile(r"oom-kill|OUT_OF_MEMORY|exceeded .*memory limit", re.I)),
    ("Preempted", re.compile(r"DUE TO PREEMPTION")),
    ("NodeFailed", re.compile(r"DUE TO NODE FAILURE|srun: error: Node failure on")),
    ("Cancelled", re.compile(r"\*\*\* JOB \d+ ON \S+ CANCELLED AT ")),
]

SITE_FAILED = "A line of the site file failed"  # in a job's log, before the ranks start

STATES = {"Done": "done", "OutOfTime": "out of time", "Cancelled": "cancelled", "Lost": "lost"}


def decide(
    run: RunRecord,
    records: list[dict[str, Any]],
    errors: dict[int, dict[str, Any]],
    *,
    stopped: str | None = None,
    cancelled_at: float = float("inf"),
    log: str = "",
    locations: dict[int, waiting.Location] | None = None,
    checkpoint: str = "",
) -> dict[str, Any]:
    """Return how the job ended: {ending, rank, what, next_step, traceback}.

    run: its run.json; records: the existing rank-R.json; errors: the error-R.json by rank; stopped: the
    ending that the backend itself caused (the name of an error class), if any; cancelled_at: when the job was
    cancelled (Unix seconds), since an earlier error of a rank takes precedence; log: the job's log.
    locations: where ranks waited (`waiting.locations`). checkpoint: the checkpoint from which the run would
    resume, as text.
    """
    p = run["ranks"]
    failed = [r for r in records if r.get("exit_code") != 0]
    if len(records) == p and not failed:
        return _end("Done", f"Done on {p} rank{'s' * (p > 1)}.", "")
    if stopped is None:
        stopped = next((name for name, pattern in SLURM_SAID if pattern.search(log)), None)
    own = any(e["time"] < cancelled_at and not _is_consequence(e) for e in errors.values())
    if stopped and not (stopped == "Cancelled" and own):
        what, step = words(stopped, run)
        if locations and stopped in ("OutOfTime", "Cancelled"):
            what, step = _while_waiting(what, step, records, locations)
        if stopped == "OutOfTime":
            step = f"{step} {checkpoint}".strip()
        return _end(stopped, what, step)
    if not records:
        tail = "\n".join(log.strip().splitlines()[-15:])
        return _end(
            "LaunchFailed", f"No rank was started.\n{tail}".rstrip(), "Read the job's log: job.logs('job')."
        )
    missing = sorted(set(range(p)) - {r["rank"] for r in records})
    if missing and not failed:
        return _end(
            "LaunchFailed", f"Rank {missing[0]} was not started.", "Read the job's log: job.logs('job')."
        )
    first = min(failed, key=lambda r: _order(r, errors.get(r["rank"])))
    end = _because_of_others(_of_rank(first, errors.get(first["rank"])), records, errors)
    if site_line := re.search(f"^{re.escape(SITE_FAILED)}.*", log, re.M):
        end["next_step"] = f"{site_line[0]}: tell the administrator if this is the cause. {end['next_step']}"
    return end


def _while_waiting(
    what: str, step: str, records: list[dict[str, Any]], locations: dict[int, waiting.Location]
) -> tuple[str, str]:
    """Return what happened and the next step if ranks waited. More time helps only ranks that compute."""
    at = max((r.get("ended", 0.0) for r in records), default=0.0) or time.time()
    what = f"{what} {waiting.describe(records, locations, at)}"
    if len(records) < 2:
        return what, step
    left = [r["rank"] for r in records if r.get("exit_code") != 0]
    computing = [r for r in left if r not in locations or locations[r]["computing"]]
    fits = waiting.advice(records, locations)
    if not computing:
        return what, fits
    joins = f"That helps only if {named(computing)} would have joined the others."
    return what, f"{step} {joins} {fits}".rstrip()


def _because_of_others(
    end: dict[str, Any], records: list[dict[str, Any]], errors: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """Return the ending; if a rank failed because the ranks diverged, it names where each of them was."""
    error = errors.get(end["rank"])
    if not error:
        return end
    stood: dict[str, list[int]] = {}  # {location: the ranks whose exceptions occurred there}
    for rank, other in errors.items():
        where = waiting.at_location(other["location"]) if "location" in other else ""
        stood.setdefault(where, []).append(rank)
    over = [r for r in records if r.get("exit_code") == 0]
    mismatch = MISMATCH.search(error["message"])
    if mismatch and len(stood) > 1:
        places = ", ".join(f"{named(ranks)} {where}" for where, ranks in stood.items())
        what = f"The ranks called different collectives: {places}. Horovod: {mismatch[0]}"
    elif over and _is_consequence(error):
        gone = named([r["rank"] for r in over])
        left = [f"{named(ranks)} still waited for {gone} {where}" for where, ranks in stood.items()]
        what = f"{gone.capitalize()} {waiting.returned(over)}, but {', and '.join(left).rstrip()}."
    else:
        return end
    return end | {"what": what, "next_step": waiting.UNEQUAL, "traceback": ""}


def _is_consequence(error: dict[str, Any]) -> bool:
    return CONSEQUENCES.search(error["type"] + error["message"]) is not None


def words(ending: str, run: RunRecord) -> tuple[str, str]:
    """Return what happened and the next step for an ending that was not caused by a rank."""
    if ending == "Lost":
        what = "The job ended without a trace: its launcher was killed or the machine restarted."
        return what, "Submit it again to run it."
    row, memory = next(row for row in states.STATES if row.ending == ending), run["options"]["memory"]
    if ending == "OutOfTime":
        return f"The job reached its time limit of {clock(run['options']['time'])}.", row.step
    if ending == "OutOfMemory" and memory:
        return f"A rank used more than the {memory} MiB it had.", row.step
    return row.what, row.step


def error_of(end: dict[str, Any]) -> JobFailed:
    """Return the exception for a failed job."""
    e = ENDINGS[end["ending"]](end["what"], end["next_step"])
    e.rank, e.traceback = end.get("rank"), end.get("traceback", "")
    return e


def state(end: dict[str, Any]) -> str:
    """Return the state, in one or two words, for an ending."""
    return STATES.get(end["ending"], "failed")


def _order(record: dict[str, Any], error: dict[str, Any] | None) -> tuple[bool, float]:
    """Return a rank's sort key: ranks that failed by themselves come first, the earliest of them first."""
    consequence = record.get("exit_code") in (None, -signal.SIGTERM) or (error and _is_consequence(error))
    return bool(consequence), error["time"] if error else record.get("ended", float("inf"))


def _of_rank(record: dict[str, Any], error: dict[str, Any] | None) -> dict[str, Any]:
    rank, code = record["rank"], record.get("exit_code")
    if error and error["type"] in ENDINGS and "what" in error:
        return _end(error["type"], error["what"], error["next_step"], rank)
    if error:
        what = f"{error['type']} on rank {rank}: {error['message']}".rstrip(": ")
        step = f"Fix the code and submit again. For all output of rank {rank}, see job.logs({rank})."
        return _end("RankFailed", what, step, rank, error["traceback"])
    if code is None:
        return _end(
            "RankKilled", f"Rank {rank} vanished with its node or launcher.", "Submit it again.", rank
        )
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = {
            "SIGKILL": "A common cause is a lack of memory: request more, or use smaller batches.",
            "SIGSEGV": f"A library crashed: look at job.logs({rank}) and at what was called last.",
        }.get(name, f"Look at job.logs({rank}).")
        return _end("RankKilled", f"Rank {rank} was killed by {name}.", hint, rank)
    return _end("RankFailed", f"Rank {rank} ended with exit code {code}.", f"Look at job.logs({rank}).", rank)


def _end(
    ending: str, what: str, next_step: str, rank: int | None = None, traceback: str = ""
) -> dict[str, Any]:
    return {"ending": ending, "rank": rank, "what": what, "next_step": next_step, "traceback": traceback}
