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
from ..run import layout, status
from ..run.run_folder import RunFolder
from . import local
from .local_launcher import detach

POLL = 0.05  # seconds between checks of the running items


def main(folder: Path, lock: int) -> int:
    """Detach and run the items of a round, a limited number at a time. `lock` is the sweep's lock."""
    if (code := detach(folder, lock)) is not None:
        return code
    at_once = files.read_json(RunFolder(folder).round_json)["at_once"]
    waiting = [p for p in RunFolder(folder).items().values() if not status.ended(p)]
    running: list[Path] = []
    while waiting or running:
        for p in [p for p in waiting if RunFolder(p).cancel.exists()]:
            status.write_end(p, "Cancelled")
            waiting.remove(p)
        running = [p for p in running if layout.held(p)]
        if waiting and len(running) < at_once:
            running += _begin(waiting.pop(0))
        else:
            time.sleep(POLL)
    return 0


def _begin(item: Path) -> list[Path]:
    """Return [item] once its launcher is running, or [] if it did not start."""
    with layout.hold(item) as held:
        try:
            local.start(item, dict(os.environ), held)
        except BackendError as e:
            print(e, file=sys.stderr, flush=True)
            status.write_end(item)
            return []
    return [item]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
