"""Decide whether a submission used up its time itself, or whether other processes delayed it.

Limits are in wall-clock time, because a sandbox that sleeps has to end as well. When a limit is reached, the
kernel reports how long the sandbox computed, how long it waited for a processor, and how long any task did.
The rest is sleep. A submission exceeds its limit if it computed for 0.9 of it, or slept for all of it.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
TICK = os.sysconf("SC_CLK_TCK")
OWN = 0.9  # fraction of the limit: a submission that has computed this long has exceeded it
ASLEEP = 0.1  # fraction of the elapsed time: a submission that was active for less has slept
BUSY = 0.2  # a machine is busy if some task waits for a processor during this fraction of the time


@dataclass(frozen=True)
class Moment:
    """A reading of the clocks, all in seconds."""

    at: float  # monotonic clock
    waited: float | None  # seconds that any task of the machine has waited for a processor
    used: float  # CPU time of the sandboxes
    ended: float  # part of `used` by processes that have ended
    delayed: float  # seconds that the sandboxes' live threads have waited for a processor


class Pace:
    """The progress of sandboxes, given by their first processes `pids`; the student process comes first."""

    def __init__(self, *pids: int):
        self.pids = list(pids)

    def family(self) -> list[int]:
        """Return all living processes of the sandboxes."""
        return [pid for first in self.pids for pid in family(first)]

    def now(self) -> Moment:
        """Take the measurements that `starved` compares."""
        pids = self.family()
        return Moment(time.monotonic(), pressure(), computed(pids), computed(pids, 13), delay(pids))

    def used(self, since: Moment) -> float:
        """Return the CPU seconds of the sandboxes since a Moment."""
        return computed(self.family()) - since.used

    def starved(self, since: Moment, limit: float) -> bool:
        """Return whether other processes took part of the sandboxes' `limit` (seconds) since a Moment.

        False if the kernel does not report waiting tasks.
        """
        now = self.now()
        waited = None if now.waited is None or since.waited is None else now.waited - since.waited
        # A process that has ended leaves no record of its waiting, so the machine's average is assumed.
        delayed = max(now.delayed - since.delayed, 0.0) + max(now.ended - since.ended, 0.0) * queue()
        return judged(limit, now.at - since.at, now.used - since.used, delayed, waited)


def judged(limit: float, window: float, used: float, delayed: float, waited: float | None) -> bool:
    """Decide `Pace.starved` from times, all in seconds.

    window: elapsed time. used: CPU time of the sandbox. delayed: time for which its threads waited for a
    processor. waited: time for which some task of the machine waited, or None if unknown.
    """
    slept = window - used - delayed
    if waited is None or used >= OWN * limit or slept >= min(limit, (1 - ASLEEP) * window):
        return False
    return waited >= BUSY * window


def pressure() -> float | None:
    """Return for how many seconds since boot some task has waited for a processor; None without PSI."""
    try:
        return int(PRESSURE.read_text().split("\n")[0].rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None


def family(pid: int) -> list[int]:
    """Return a process and its living descendants."""
    members, unread = [], [pid]
    while unread:
        members.append(unread.pop())
        with contextlib.suppress(OSError):  # it has just ended
            for path in Path(f"/proc/{members[-1]}/task").glob("*/children"):
                unread += map(int, read(path).split())
    return members


def computed(pids: list[int], first: int = 11) -> float:
    """Return the CPU seconds of processes and of their ended children.

    first: first field of /proc/PID/stat to add; 13 for the children alone.
    """
    stats = [read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in pids]
    return sum(sum(map(int, fields[first:15])) for fields in stats) / TICK


def delay(pids: list[int]) -> float:
    """Return how many seconds the live threads of these processes have waited for a processor."""
    paths: list[Path] = []
    for pid in pids:
        with contextlib.suppress(OSError):  # it has just ended
            paths += Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(fields[1]) for path in paths if len(fields := read(path).split()) > 1) / 1e9


def queue() -> float:
    """Return how long this machine's tasks waited per second of CPU time in the last minute, on average."""
    return max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1) - 1)


def read(path: Path) -> str:
    """Return a file of /proc, or "" if its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""
