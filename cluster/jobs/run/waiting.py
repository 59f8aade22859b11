"""Ranks of a job that make no progress, their locations, and the ranks they wait for."""

from __future__ import annotations

import os
import time
from typing import Any, NotRequired, TypedDict

from cluster.system import files
from cluster.system.text import named

from .run_folder import Run

SHOWN_AFTER = 30.0  # seconds without progress before a running job is reported as waiting
UNEQUAL = (
    "All ranks must call the same collectives equally often: give each rank the same number of batches, "
    "the same validation_data and the same callbacks, and call evaluate() on all ranks or on none."
)
OWN_CODE = (
    "What do these lines wait for? Common causes are a lock that is held elsewhere, a queue whose thread or "
    "process has ended, a program that was started, input, and the network."
)
LOOK = "job.stacks() shows where each rank is in the code; job.cancel() cancels the job."


class Location(TypedDict):
    """The location of a rank (location-R.json), or its last location before an exception."""

    since: float  # time of the rank's last progress, in Unix seconds
    where: str  # "line 14 of train.py, in train"
    calls: list[str]  # the calls in that line, outermost first: a method of Keras, a collective
    computing: bool  # whether it computes while other ranks wait for it
    collective: NotRequired[bool]  # whether it is in a collective, or in a step of TensorFlow that has some
    stopped: NotRequired[int]  # process ID of a rank that does not run, because a signal has stopped it


def locations(run: Run) -> dict[int, Location]:
    """Return {rank: location} of waiting ranks and those that compute meanwhile, or {} if none waits."""
    records = {r: files.read_json(run.location(r)) for r in range(run.ranks)}
    records = {r: p for r, p in records.items() if p}
    return records if any(not p["computing"] for p in records.values()) else {}


def waiting_ranks(run: Run) -> set[int]:
    """Return the waiting ranks. It lists the folder only once, because ranks call it every few seconds."""
    names = [n for n in os.listdir(run.path) if n.startswith("location-") and n.endswith(".json")]
    records = {int(n[9:-5]): files.read_json(run.path / n) for n in names}
    return {r for r, p in records.items() if p and not p["computing"]}


def now(run: Run) -> tuple[str, str] | None:
    """Return (message about a running job's waiting ranks, next step), or None if none has waited long."""
    places, at = locations(run), time.time()
    if not any(at - p["since"] >= SHOWN_AFTER and not p["computing"] for p in places.values()):
        return None
    records = [run.rank_record(r) or {"rank": r} for r in range(run.ranks)]
    return describe(records, places, at, running=True), f"{LOOK} {advice(records, places)}".rstrip()


def advice(records: list[dict[str, Any]], found: dict[int, Location]) -> str:
    """Return the next step that fits where the ranks are: in collectives, in other code, or stopped."""
    ranks: dict[str, list[int]] = {}
    for record in records:
        how, _ = _stands(record, found.get(record["rank"]), len(records))
        ranks.setdefault(how, []).append(record["rank"])
    steps = []
    if "stopped" in ranks:
        kill = "; ".join(f"kill -CONT {found[r].get('stopped')}" for r in ranks["stopped"][:3])
        steps.append(f"To continue {named(ranks['stopped'])}, run there: {kill}.")
    if "idle" in ranks and len(records) > 1:
        steps.append(f"{named(ranks['idle']).capitalize()}: no collective. {OWN_CODE}")
    if "waits" in ranks and "stopped" not in ranks:
        steps.append(UNEQUAL)
    return " ".join(steps)


def describe(
    records: list[dict[str, Any]], found: dict[int, Location], at: float, *, running: bool = False
) -> str:
    """Describe the locations of the ranks at a time (Unix seconds), with one sentence per location.

    records: the existing rank-R.json. found: the result of `locations`. running: whether the job is running.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for record in records:
        groups.setdefault(_stands(record, found.get(record["rank"]), len(records)), []).append(record["rank"])
    order = sorted(groups.items(), key=lambda group: group[0][0] != "waits")
    blockers = sorted(r for (how, _), ranks in order if how != "waits" for r in ranks)
    sentences = []
    for (how, where), ranks in order:
        others = blockers or sorted({r["rank"] for r in records} - set(ranks))
        seconds = max((at - found[r]["since"] for r in ranks if r in found), default=0.0)
        has, was, is_now = ("has", "was", "is") if len(ranks) == 1 else ("have", "were", "are")
        if how == "waits":
            since = f" {seconds:.0f} s for {named(others)}" if others else ""
            text = f"{f'{has} ' if running else ''}waited{since} {where}"
        elif how == "stopped":
            text = f"{is_now if running else was} stopped by a signal (SIGSTOP) for {seconds:.0f} s"
        elif how == "idle":
            text = f"{f'{has} been' if running else was} idle for {seconds:.0f} s {where}"
        elif how == "returned":
            text = returned([r for r in records if r["rank"] in ranks])
        else:
            text = f"{is_now if running else was} computing {where}"
        sentences.append(f"{named(ranks).capitalize()} {text.rstrip()}.")
    return " ".join(sentences)


def _stands(record: dict[str, Any], location: Location | None, ranks: int) -> tuple[str, str]:
    """Return (how, where): "returned", "waits" in a collective for others, "idle", "computing", "stopped"."""
    if record.get("exit_code") == 0:
        return "returned", ""
    if location is None:
        return "computing", ""
    if location["computing"]:
        return "computing", at_location(location)
    if location.get("stopped"):
        return "stopped", ""
    collective = location.get("collective", bool(location["calls"]))  # older records do not contain it
    return "waits" if collective and ranks > 1 else "idle", at_location(location)


def at_location(location: Location) -> str:
    """Return a location as text.

    >>> at_location(Location(since=0.0, where="line 9 of a.py", calls=["allreduce"], computing=False))
    'in `allreduce` (line 9 of a.py)'
    """
    calls = ", called by ".join(f"`{name}`" for name in reversed(location["calls"]))
    if calls:
        return f"in {calls} ({location['where']})"
    return f"{'at' if location['where'].startswith('line') else 'in'} {location['where']}"


def returned(records: list[dict[str, Any]]) -> str:
    """Return "returned after 12 s" for the ranks with these records."""
    return f"returned after {max(r['ended'] - r['started'] for r in records):.0f} s"
