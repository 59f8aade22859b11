"""`python -m cluster.jobs.finish FOLDER`: the last line of a batch script writes how its ranks ended.

It is silent when Slurm itself ended the job, for then Slurm knows better (see `slurm.status`).
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from . import state

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run, records, errors, _ = state.facts(folder)
    codes = [r.get("exit_code") for r in records]
    done = codes == [0] * run["ranks"]
    told = all(c in (0, None, -signal.SIGTERM) for c in codes)
    if done or errors or not told:
        state.finish(folder)
