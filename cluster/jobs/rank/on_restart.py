"""`python -m cluster.jobs.rank.on_restart FOLDER`: the first line of a batch script that Slurm has requeued.

It prepares the folder for the next attempt, or stops the job after too many attempts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..run import attempts, status
from ..run.run_folder import Run


def main(folder: Path) -> int:
    """Prepare the folder and return the exit status: non-zero if the job must not start again."""
    run = Run(folder)
    if run.cancel.exists():
        return 1
    if int(os.environ["SLURM_RESTART_COUNT"]) >= attempts.LIMIT:
        times = f"Interrupted {attempts.LIMIT} times"
        print(f"{times}, so it is no longer requeued. Submit it again to resume it.")
        status.write_end(run)
        return 1
    attempts.keep(run, attempts.current() - 1, run.end)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
