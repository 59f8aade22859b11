"""`python -m cluster.jobs.rank.on_restart FOLDER`: the first line of a batch script that Slurm has requeued.

It prepares the folder for the next attempt, or stops the job after too many attempts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..run import attempts, status
from ..run.run_folder import RunFolder


def main(folder: Path) -> int:
    """Prepare the folder and return the exit status: non-zero if the job must not start again."""
    if RunFolder(folder).cancel.exists():
        return 1
    if int(os.environ["SLURM_RESTART_COUNT"]) >= attempts.LIMIT:
        print(
            f"Interrupted {attempts.LIMIT} times, so it is no longer requeued. Submit it again to resume it."
        )
        status.write_end(folder)
        return 1
    attempts.keep(folder, attempts.current() - 1, RunFolder(folder).end)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
