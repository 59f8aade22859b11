"""Horovod's own timeline of a job (`submit(..., timeline=True)`): the operations of each rank over time.

Only rank 0 writes it. For each tensor it contains when each rank was ready, when all were ready, and how long
the operation then took on rank 0. Horovod's cache is disabled, because cached responses do not record which
rank was ready. A thread writes without sleeping, so recording takes a core and time, and is off by default.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..run.run_folder import Run

MOST = 128 * 2**20  # maximum number of bytes read from the file
FIRST = "start_time_since_epoch_in_micros"  # an argument of the first event


def variables(run: Run) -> dict[str, str]:
    """Return the variables that make Horovod record: the same on all ranks, although only rank 0 writes."""
    return {"HOROVOD_TIMELINE": str(run.timeline), "HOROVOD_CACHE_CAPACITY": "0"}


@dataclass
class Exchange:
    """Tensors that were reduced (gathered, sent) together; times are Unix seconds on rank 0's clock.

    ready: {rank: when its last tensor was submitted}. all_ready: when the slowest rank submitted its last.
    transfers: [(start, end)] of the operations themselves, in order and without overlap.
    """

    start: float
    end: float = 0.0
    all_ready: float = 0.0
    ready: dict[int, float] = field(default_factory=dict)
    transfers: list[tuple[float, float]] = field(default_factory=list)

    def spans(self, rank: int) -> Iterator[tuple[str, float, float]]:
        """Yield (kind, start, end) of a rank's activities after it submitted its last tensor.

        'waiting' is the time until the slower ranks are ready. 'communicating' is the operation, including
        the transition to it. Transfers that overlap with computation are hidden and not counted here.
        """
        at = min(self.ready.get(rank, self.all_ready), self.end)
        for begin, finish in self.transfers:
            if at < min(begin, self.all_ready):
                yield "waiting", at, min(begin, self.all_ready)
                at = min(begin, self.all_ready)
            if at < finish and finish <= self.all_ready:
                yield "communicating", at, finish
                at = finish
        if at < self.all_ready:
            yield "waiting", at, self.all_ready
            at = self.all_ready
        if at < self.end:
            yield "communicating", at, self.end

    def hidden(self, rank: int) -> float:
        """Return the seconds of transfer that overlapped with the rank's computation."""
        until = self.ready.get(rank, self.all_ready)
        return sum(max(0.0, min(e, until) - b) for b, e in self.transfers)


def read_exchanges(path: Path) -> tuple[list[Exchange], bool]:
    """Return (the exchanges in chronological order, whether they are complete); [] if none were recorded."""
    if not path.is_file():
        return [], True
    with open(path, "rb") as f:
        text = f.read(MOST).decode(errors="replace")
    events = _parse(text)
    begin = next((e["args"][FIRST] for e in events if FIRST in e.get("args", {})), None)
    if begin is None:
        return [], False
    return list(_exchanges(events, begin)), path.stat().st_size <= MOST


def _parse(text: str) -> list[dict[str, Any]]:
    """Return the events, without the last one if the file is truncated."""
    for whole in (text, text[: text.rfind("},") + 1] + "]"):
        with contextlib.suppress(ValueError):
            return json.loads(whole)
    return []


def _exchanges(events: list[dict[str, Any]], begin: float) -> Iterator[Exchange]:
    depth: dict[int, int] = {}  # per tensor in progress: 0 between negotiation and operation
    agreeing: set[int] = set()
    started: dict[int, float] = {}
    now: Exchange | None = None
    for e in events:
        if e["ph"] not in "BEX" or "ts" not in e:
            continue
        tensor, at, name = e["pid"], (begin + e["ts"]) / 1e6, e.get("name", "")
        now = now or Exchange(at)
        if e["ph"] == "B" and name.startswith("NEGOTIATE_"):
            agreeing.add(tensor)
            depth[tensor] = 0
        elif e["ph"] == "B":
            depth[tensor] = depth.get(tensor, 0) + 1
            if depth[tensor] == 1:
                started[tensor] = at
        elif e["ph"] == "X":
            now.ready[int(name)] = at
        elif tensor in agreeing:
            agreeing.discard(tensor)
            now.all_ready = at
        elif depth.get(tensor):
            depth[tensor] -= 1
            if depth[tensor] == 0:
                del depth[tensor]
                start = started.pop(tensor)
                while now.transfers and now.transfers[-1][1] >= start:  # merge those that overlap
                    start = min(start, now.transfers.pop()[0])
                now.transfers.append((start, at))
        if not depth and now.transfers:
            now.end = at
            now.all_ready = now.all_ready or now.start
            yield now
            now = None
