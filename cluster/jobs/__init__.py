"""Jobs: run a function on one or more ranks, here or on Slurm, and keep what it did.

    from cluster import submit
    job = submit(train, epochs=2, nodes=2)
    job.result()

`jobs.map(train, [0.01, 0.1])` runs a function once for each item, as one sweep.
On the ranks, `log(step=..., loss=...)` records metrics, and `run_folder()` returns the folder for files.
Calling the package, `jobs()`, returns the table of the jobs recorded here.
"""

import sys
import types
from typing import Any

from .errors import JobError, JobFailed
from .find import attach
from .job import Job
from .mapping import map  # noqa: F401 (not in __all__: `import *` leaves Python's own map alone)
from .metrics import log, run_folder
from .run.status import Status
from .submission import submit
from .sweep import Sweep

__all__ = [
    "Job",
    "JobError",
    "JobFailed",
    "Status",
    "Sweep",
    "attach",
    "log",
    "run_folder",
    "submit",
    "watch",
]


def watch(jobs: Any, logs: int = 0) -> None:
    """Show a job, or several, until they end; see `cluster.jobs.show.watch.watch`."""
    from .show.watch import watch

    watch(jobs, logs)


class _Jobs(types.ModuleType):
    """A callable module: `from cluster import jobs` gives the package and the function that lists jobs."""

    def __call__(
        self,
        active: bool | None = None,
        name: str | None = None,
        folder: Any = None,
        *,
        state: Any = None,
        backend: str | None = None,
        since: Any = None,
        limit: int | None = None,
    ) -> Any:
        """Return the jobs recorded in `runs` here (or $CLUSTER_RUNS, or `folder`), newest first, as a table.

        active=True: only jobs that have not ended. active=False: only jobs that have ended. name: only jobs
        whose name contains this text. state: only jobs in this state, or in one of these. backend: 'local'
        or 'slurm'. since: only jobs submitted since a date or within an age, such as '2026-01-31', '30
        min', '2 h', '3 days'. limit: only this many of the newest jobs.

        >>> jobs(state="failed", since="1 d")                                       # doctest: +SKIP
        """
        from .job_table import JobTable

        return JobTable(active, name, folder, state, backend, since, limit)


sys.modules[__name__].__class__ = _Jobs
