"""Whose time was over: a submission's own, or that of a machine that was busy with others?

Limits are of the wall clock, because a sandbox that sleeps has to end as well. Where one is met, the kernel
tells how much of that time the sandbox has computed, and how long tasks had to wait for a processor.
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
    """In seconds: the clock; how long some task of the machine had waited for a processor; what a process had
    computed, and how long its first thread had waited."""

    at: float
    waited: float | None
    used: float
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
        return Moment(time.monotonic(), pressure(), computed(self.family()), delay(self.pids[0]))

    def used(self, since: Moment) -> float:
        """Seconds that the sandboxes have computed."""
        return computed(self.family()) - since.used

    def starved(self, since: Moment, limit: float) -> bool:
        """Have the sandboxes had less of `limit` seconds than they would have had without others?

        Where the kernel does not tell how long tasks waited, the answer is no.
        """
        now, pids = self.now(), self.family()
        waited = None if now.waited is None or since.waited is None else now.waited - since.waited
        used = self.used(since)
        delayed = max(now.delayed - since.delayed, *map(delay, pids[1:]), 0.0)
        return judged(limit, now.at - since.at, used, delayed, waited)


def judged(limit: float, window: float, used: float, delayed: float, waited: float | None) -> bool:
    """`Pace.starved` from its facts, all in seconds.

    window: what went by. used: what the sandbox computed. delayed: how long one of its processes waited for a
    processor, at most. waited: how long some task of the machine did, or None where nobody knows.
    """
    if waited is None or used >= OWN * limit or used + delayed < ASLEEP * window:
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


def computed(pids: list[int]) -> float:
    """Seconds of processors that processes have used, with those of their children that have ended."""
    stats = [read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in pids]
    return sum(sum(map(int, fields[11:15])) for fields in stats) / TICK


def delay(pid: int) -> float:
    """Seconds that the first thread of a process has waited for a processor in its life."""
    fields = read(Path(f"/proc/{pid}/schedstat")).split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def read(path: Path) -> str:
    """A file of /proc, "" where its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""
