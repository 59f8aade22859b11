"""`python -m cluster.jobs.rank.on_end FOLDER`, the last line of a batch script: record how its ranks ended.

It is silent if Slurm itself ended the job, because Slurm has better information (see `slurm.status`). If
the job succeeded, the last rank has already written it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from ..run import status
from ..run.run_folder import RunFolder


def main(folder: Path) -> None:
    """Run in the batch script, after all ranks."""
    run, records, errors, _ = status.facts(folder)
    codes = [r.get("exit_code") for r in records]
    done = codes == [0] * run["ranks"]
    explained = all(c in (0, None, -signal.SIGTERM) for c in codes)
    if done or errors or not explained:
        status.write_end(folder)


def last_rank(folder: Path) -> None:
    """Run in a rank that ended successfully; the last one records the job's end before srun ends.

    On a shared file system, a rank may not yet see another's files; the batch script then records the end.
    """
    run, records, _, _ = status.facts(folder)
    results = RunFolder(folder).all_results()
    if [r.get("exit_code") for r in records] == [0] * run["ranks"] and len(results) == run["ranks"]:
        status.write_end(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
