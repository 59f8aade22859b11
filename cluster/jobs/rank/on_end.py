"""`python -m cluster.jobs.rank.on_end FOLDER`, the last line of a batch script: record how its ranks ended.

It is silent if Slurm itself ended the job, because Slurm has better information (see `Slurm.status`). If
the job succeeded, the last rank has already written it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from ..run import status
from ..run.run_folder import Run


def main(folder: Path) -> None:
    """Run in the batch script, after all ranks."""
    run = Run(folder)
    records, errors, _ = status.facts(run)
    codes = [r.get("exit_code") for r in records]
    explained = all(c in (0, None, -signal.SIGTERM) for c in codes)
    if codes == [0] * run.ranks or errors or not explained:
        status.write_end(run)


def last_rank(run: Run) -> None:
    """Run in a rank that ended successfully; the last one records the job's end before srun ends.

    On a shared file system, a rank may not yet see another's files; the batch script then records the end.
    """
    codes = [r.get("exit_code") for r in status.facts(run)[0]]
    if codes == [0] * run.ranks and all(run.result(r).exists() for r in range(run.ranks)):
        status.write_end(run)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
