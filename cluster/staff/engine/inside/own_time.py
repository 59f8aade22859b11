"""How long a cell may still run, when its limit is over and others had the processor meanwhile.

The engine sees for itself from outside (pace.py) who was starved, and for how long one is waited for; what is
worked out here only decides when an honest cell is interrupted.
"""

import resource
import time

OWN = 0.9  # of the limit: who has computed that long has had its time
WAITED = 0.1  # of the limit: who has waited less for a processor was not held up by others
STEP = 2  # seconds until it is asked again: less than the engine waits for a cell to end by itself
STRETCH = 8  # times the limit, and then it is over however it was


class OwnTime:
    """From now on, of this process and its children that have ended; `over` once there is no more."""

    def __init__(self, limit: float):
        self.limit, self.began = limit, time.monotonic()
        self.used, self.waited, self.over = used(), waited(), False

    def rest(self) -> float:
        """Seconds more, 0 where the time is over."""
        more = 0.0 if self.over else self.more()
        self.over = not more
        return more

    def more(self) -> float:
        own, delayed = used() - self.used, waited() - self.waited
        slept = time.monotonic() - self.began - own - delayed
        if own >= OWN * self.limit or delayed < WAITED * self.limit or slept >= self.limit:
            return 0.0
        end = self.began + STRETCH * self.limit - time.monotonic()
        return max(0.0, min(end, self.limit - own, STEP))


def used() -> float:
    """Seconds that this process and its ended children have computed."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(part for kind in kinds for part in resource.getrusage(kind)[:2])


def waited() -> float:
    """Seconds that the first thread of this process has waited for a processor; 0 where nobody counts."""
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, LookupError):
        return 0.0
