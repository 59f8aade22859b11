"""The local backend's queue: `python -m cluster.jobs.backends.local_queue ROUND LOCK`.

It runs the items of a sweep in order. Like a launcher, it detaches itself and does not need the notebook.
Each item has a separate launcher, which continues if this queue is killed. Items that had not started are
then lost, and are run when the sweep is submitted again.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from cluster.system import files

from ..errors import BackendError
from ..run import status
from ..run.run_folder import Run
from .local import Local
from .local_launcher import detach

POLL = 0.05  # seconds between checks of the running items


def main(folder: Path, lock: int) -> int:
    """Detach and run the items of a round, a limited number at a time. `lock` is the sweep's lock."""
    if (code := detach(folder, lock)) is not None:
        return code
    round_folder = Run(folder)
    at_once = files.read_json(round_folder.round_json)["at_once"]
    runs = [Run(p) for p in round_folder.items().values()]
    waiting = [run for run in runs if not status.ended(run)]
    running: list[Run] = []
    while waiting or running:
        for run in [run for run in waiting if run.cancel.exists()]:
            status.write_end(run, "Cancelled")
            waiting.remove(run)
        running = [run for run in running if run.is_held()]
        if waiting and len(running) < at_once:
            running += _begin(waiting.pop(0))
        else:
            time.sleep(POLL)
    return 0


def _begin(run: Run) -> list[Run]:
    """Return [run] once its launcher is running, or [] if it did not start."""
    with run.hold() as held:
        try:
            Local().start(run, dict(os.environ), held)
        except BackendError as e:
            print(e, file=sys.stderr, flush=True)
            status.write_end(run)
            return []
    return [run]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
