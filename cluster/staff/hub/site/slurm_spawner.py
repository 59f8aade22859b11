"""The hub's spawner of servers as Slurm jobs; waiting in Slurm's queue does not count towards the time limit
for starting.

The hub loads it as a separate file in the state folder, without importing this package.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from batchspawner import JobStatus, SlurmSpawner
from traitlets import Float, Unicode

LOOKS = 2.0  # seconds between queries


def configure(c: Any, settings: dict[str, Any]) -> None:
    """Let the hub start servers as jobs, of the single-host Slurm or of a site's."""
    here = settings["slurm"] == "machine"
    c.JupyterHub.spawner_class = QueuedSpawner
    c.Spawner.ip = "127.0.0.1" if here else "0.0.0.0"
    # seconds, including the queue; see QueuedSpawner.starts_within for the rest
    c.Spawner.start_timeout = 86400
    c.BatchSpawnerBase.exec_prefix = "/usr/sbin/runuser -u {username} --"
    c.BatchSpawnerBase.req_account = settings["account"]
    c.BatchSpawnerBase.req_memory = "2G"
    c.BatchSpawnerBase.req_nprocs = "1"
    c.BatchSpawnerBase.req_runtime = "8:00:00"
    c.BatchSpawnerBase.req_partition = "long"
    if here:  # its nodes' names are unknown to this machine
        c.BatchSpawnerRegexStates.state_exechost_exp = "127.0.0.1"


class QueuedSpawner(SlurmSpawner):
    """A SlurmSpawner that waits in the queue without a limit, and then `starts_within` seconds."""

    starts_within = Float(
        180, help="maximum time from the start of the job to the start of the server, in seconds"
    ).tag(config=True)
    batch_query_cmd = Unicode("squeue -h -j {job_id} -o '%T %B %r'").tag(config=True)
    state_exechost_re = Unicode(r"^\S+\s+((?:[\w_-]+\.?)+)").tag(config=True)

    async def start(self) -> tuple[str, int]:
        """Start the server and return its address and port."""
        starting, began = asyncio.ensure_future(super().start()), 0.0
        try:
            while not (await asyncio.wait({starting}, timeout=LOOKS))[0]:
                if began and await self.query_job_status() not in (JobStatus.RUNNING, JobStatus.UNKNOWN):
                    raise RuntimeError(f"The job {self.job_id} has ended before its server started.")
                if began and time.monotonic() - began > self.starts_within:
                    raise RuntimeError(
                        f"The job {self.job_id} is running, but its server has not reached the hub within "
                        f"{self.starts_within:.0f} s. See the end of "
                        f"~/jupyterhub_slurmspawner_{self.job_id}.log."
                    )
                if not began and self.state_isrunning():
                    began = time.monotonic()
            return await starting
        finally:
            starting.cancel()

    async def progress(self) -> AsyncIterator[dict[str, str | int]]:
        """Yield the text for the hub's page while the job is pending, with Slurm's reason."""
        shown = None
        while not self.state_isrunning():
            status_parts = (self.job_status or "").split()
            why = f" ({status_parts[2]})" if len(status_parts) > 2 and status_parts[2] != "None" else ""
            message = f"Your server is job {self.job_id} of Slurm and waits in its queue{why}."
            if self.job_id and message != shown:
                yield {"progress": 10, "message": message}
                shown = message
            await asyncio.sleep(LOOKS)
        yield {"progress": 60, "message": "Slurm has started the job; JupyterLab is starting."}
