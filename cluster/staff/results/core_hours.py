"""The cost of grading an assignment in core hours, including killed tasks.

A worker reports its own time when it ends. A killed worker does not report, but for an array, Slurm's
accounting provides the time. Without accounting, the report shows how many reports are missing.
"""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from cluster.slurm import client

FORMAT = "--format=JobName,CPUTimeRAW,State"
THROUGH = ("COMPLETED", "COMPLETING", "RUNNING")


def used(journal: Path) -> tuple[dict[str, float], str]:
    """Return ({"local" or "slurm": core hours}, notes about them) from the journal at `path`."""
    try:
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
    except FileNotFoundError:
        return {}, ""
    parts, sent = [line for line in lines if "part" in line], [one for one in lines if "parts" in one]
    hours: dict[str, float] = defaultdict(float)
    for part in parts:
        hours[part["kind"]] += part["cores"] * (part["ended"] - part["began"]) / 3600
    missing = sum(item["parts"] - item["told"] for item in sent)
    arrays, notes = [item for item in sent if item["kind"] == "slurm"], []
    if arrays and (answer := accounted(arrays)):
        hours["slurm"], killed = answer
        missing -= sum(item["parts"] - item["told"] for item in arrays)
        notes.append("by Slurm's accounting" + (f", killed tasks included: {killed}" if killed else ""))
    if missing:
        notes.append(f"without {missing} workers that were killed, whose time is unknown")
    return {kind: round(value, 4) for kind, value in sorted(hours.items())}, "; ".join(notes)


def accounted(arrays: list[dict[str, Any]]) -> tuple[float, int] | None:
    """Return (core hours, number of incomplete tasks) of these arrays; None if sacct lacks one."""
    names = {item["job"] for item in arrays}
    first = datetime.datetime.fromtimestamp(min(item["sent"] for item in arrays) - 60)
    arguments = ("--noheader", "--parsable2", "--allocations", FORMAT, f"--name={','.join(sorted(names))}")
    try:
        answer = client.ask("sacct", *arguments, f"--starttime={first:%Y-%m-%dT%H:%M:%S}", timeout=30)
    except client.SlurmError:
        return None
    rows = [line.split("|") for line in answer.splitlines()]
    if {name for name, _, _ in rows} != names:
        return None
    killed = sum(not state.startswith(THROUGH) for _, seconds, state in rows if int(seconds))
    return sum(int(seconds) for _, seconds, _ in rows) / 3600, killed
