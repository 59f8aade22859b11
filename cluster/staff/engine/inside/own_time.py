"""Remaining time of a cell that has reached its limit but was delayed by other processes.

This only decides when an honest cell is interrupted. The autograder determines from outside (pace.py) whether
a cell was delayed, and how long to wait for it.
"""

import resource
import time

OWN = 0.9  # fraction of the limit: a cell that has computed this long has used its time
WAITED = 0.1  # fraction of the limit: a cell that has waited less for a processor was not delayed
STEP = 2  # seconds between two checks; the autograder waits longer for a cell to end by itself
STRETCH = 8  # maximum wall-clock time, as a multiple of the limit


class OwnTime:
    """Time that this process and its ended children use from now on; `over` is true after `limit` seconds."""

    def __init__(self, limit: float):
        self.limit, self.began = limit, time.monotonic()
        self.used, self.waited, self.over = used(), waited(), False

    def rest(self) -> float:
        """Return the seconds until the next check, or 0 if the time is used up."""
        now, own, delayed = time.monotonic(), used() - self.used, waited() - self.waited
        slept, end = now - self.began - own - delayed, self.began + STRETCH * self.limit
        self.over = (
            self.over
            or now >= end
            or own >= OWN * self.limit
            or delayed < WAITED * self.limit
            or slept >= self.limit
        )
        return 0.0 if self.over else min(end - now, self.limit - own, STEP)


def used() -> float:
    """Return the CPU seconds of this process and its ended children."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(part for kind in kinds for part in resource.getrusage(kind)[:2])


def waited() -> float:
    """Return how many seconds this process's first thread has waited for a processor; 0 if unknown."""
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, LookupError):
        return 0.0
