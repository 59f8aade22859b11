"""The local backend's queue: `python -m cluster.jobs.queue ROUND LOCK` runs the items of a sweep in turn.

Like a launcher it detaches itself and needs no notebook. Each item gets a launcher of its own, which lives
on if this queue is killed; items that had not begun are then lost, and run when the sweep is submitted again.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from . import ledger, local, state
from .errors import BackendError
from .launch import detach

POLL = 0.05  # seconds between two looks at the items that run


def main(folder: Path, lock: int) -> int:
    """Detach, run the items of a round, at most so many at a time; `lock` is that of the sweep."""
    if (code := detach(folder, lock)) is not None:
        return code
    at_once = ledger.read(folder / "round.json")["at_once"]
    numbers = sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit())
    waiting = [p for n in numbers if not state.ended(p := folder / str(n))]
    running: list[Path] = []
    while waiting or running:
        for p in [p for p in waiting if (p / "cancel.json").exists()]:
            state.finish(p, "Cancelled")
            waiting.remove(p)
        running = [p for p in running if ledger.held(p)]
        if waiting and len(running) < at_once:
            running += _begin(waiting.pop(0))
        else:
            time.sleep(POLL)
    return 0


def _begin(item: Path) -> list[Path]:
    """[item], once its launcher is at work; [] where it did not start."""
    with ledger.hold(item) as held:
        try:
            local.start(item, dict(os.environ), held)
        except BackendError as e:
            print(e, file=sys.stderr, flush=True)
            state.finish(item)
            return []
    return [item]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
