"""Which ranks of a job make no progress, where each of them stands, and for which rank they wait."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cluster.system import files

from ..folder.run_folder import RunFolder

SHOWN_AFTER = 30.0  # seconds without progress until a running job says that it waits
UNEQUAL = (
    "All ranks must call the same collectives equally often: give each rank the same number of batches, "
    "the same validation_data and the same callbacks. job.stacks() shows where each rank stood."
)


def quiet_ranks(folder: Path, ranks: int) -> dict[int, dict[str, Any]]:
    """{rank: {since, where}} of the ranks that make no progress."""
    found = {r: files.read_json(RunFolder(folder).quiet(r)) for r in range(ranks)}
    return {r: quiet for r, quiet in found.items() if quiet}


def describe(records: list[dict[str, Any]], quiet: dict[int, dict[str, Any]], at: float) -> str:
    """Where each rank stood at a time (Unix seconds), a sentence per rank.

    records: the rank-R.json there are; quiet: what `quiet_ranks` returns.
    """
    return " ".join(_sentence(record, quiet.get(record["rank"]), at) for record in records)


def _sentence(record: dict[str, Any], quiet: dict[str, Any] | None, at: float) -> str:
    rank = record["rank"]
    if record.get("exit_code") == 0:
        return f"Rank {rank} returned after {record['ended'] - record['started']:.0f} s."
    if quiet:
        return f"Rank {rank} waited for {max(0.0, at - quiet['since']):.0f} s in {quiet['where']}."
    return f"Rank {rank} was computing."


def now(folder: Path) -> str:
    """What a running job says while ranks wait: for which ranks, since when, and where; "" if none does."""
    run = files.read_json(RunFolder(folder).run_json)
    quiet = quiet_ranks(folder, run["ranks"])
    quiet = {r: q for r, q in quiet.items() if time.time() - q["since"] >= SHOWN_AFTER}
    if not quiet:
        return ""
    longest = time.time() - min(q["since"] for q in quiet.values())
    others = [r for r in range(run["ranks"]) if r not in quiet]
    for_whom = f", waiting for rank{'s' * (len(others) > 1)} {', '.join(map(str, others))}" if others else ""
    names = f"rank{'s' * (len(quiet) > 1)} {', '.join(map(str, quiet))}"
    where = "; ".join(f"rank {r} is in {q['where']}" for r, q in quiet.items())
    return f"No progress of {names} for {longest:.0f} s{for_whom}: {where}."
