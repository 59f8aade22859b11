"""Decide whether a submission used up its time itself, or whether other processes delayed it.

Limits are of the wall clock, because a sandbox that sleeps has to end as well. When one is reached, the
kernel reports how long the sandbox computed, how long it waited for a processor, and how long any task did.
The rest is sleep. A submission has exceeded its limit if it computed for 0.9 of it, or slept for all of it.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
TICK = os.sysconf("SC_CLK_TCK")
OWN = 0.9  # of the limit: who has computed that long has met an own limit, whoever else computed
ASLEEP = 0.1  # of the time that went by: who neither computed nor wished to has slept, or waited for itself
BUSY = 0.2  # of that time some task of this machine waited for a processor


@dataclass(frozen=True)
class Moment:
    """In seconds: the clock; how long some task of the machine had waited for a processor; how long sandboxes
    had computed, how much of that in processes that have ended; how long their living threads had waited."""

    at: float
    waited: float | None
    used: float
    ended: float
    delayed: float


class Pace:
    """Of the sandboxes whose first processes are `pids`; the student's is the first of them."""

    def __init__(self, *pids: int):
        self.pids = list(pids)

    def family(self) -> list[int]:
        """All processes of the sandboxes that live."""
        return [pid for first in self.pids for pid in family(first)]

    def now(self) -> Moment:
        """What `starved` compares with."""
        pids = self.family()
        return Moment(time.monotonic(), pressure(), computed(pids), computed(pids, 13), delay(pids))

    def used(self, since: Moment) -> float:
        """Seconds that the sandboxes have computed."""
        return computed(self.family()) - since.used

    def starved(self, since: Moment, limit: float) -> bool:
        """Have the sandboxes had less of `limit` seconds than they would have had without others?

        Where the kernel does not tell how long tasks waited, the answer is no.
        """
        now = self.now()
        waited = None if now.waited is None or since.waited is None else now.waited - since.waited
        # A process that has ended leaves no record of how long it waited: as long as others did, on average.
        delayed = max(now.delayed - since.delayed, 0.0) + max(now.ended - since.ended, 0.0) * queue()
        return judged(limit, now.at - since.at, now.used - since.used, delayed, waited)


def judged(limit: float, window: float, used: float, delayed: float, waited: float | None) -> bool:
    """`Pace.starved` from its facts, all in seconds.

    window: what went by. used: what the sandbox computed. delayed: how long its threads waited for a
    processor. waited: how long some task of the machine did, or None where nobody knows.
    """
    slept = window - used - delayed
    if waited is None or used >= OWN * limit or slept >= min(limit, (1 - ASLEEP) * window):
        return False
    return waited >= BUSY * window


def pressure() -> float | None:
    """Seconds in which some task of this machine has waited for a processor, ever; None without PSI."""
    try:
        return int(PRESSURE.read_text().split("\n")[0].rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None


def family(pid: int) -> list[int]:
    """A process and all that come from it and live."""
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        with contextlib.suppress(OSError):  # it has just ended
            for path in Path(f"/proc/{found[-1]}/task").glob("*/children"):
                waiting += map(int, read(path).split())
    return found


def computed(pids: list[int], first: int = 11) -> float:
    """Seconds of processors that processes have used, with those of their children that have ended.

    first: 13 for the children alone, as the fields of /proc/PID/stat are ordered.
    """
    stats = [read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in pids]
    return sum(sum(map(int, fields[first:15])) for fields in stats) / TICK


def delay(pids: list[int]) -> float:
    """Seconds that the living threads of processes have waited for a processor in their lives."""
    paths: list[Path] = []
    for pid in pids:
        with contextlib.suppress(OSError):  # it has just ended
            paths += Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(fields[1]) for path in paths if len(fields := read(path).split()) > 1) / 1e9


def queue() -> float:
    """Seconds that a task of this machine waited per second of computing, on average in the last minute."""
    return max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1) - 1)


def read(path: Path) -> str:
    """A file of /proc, "" where its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""
