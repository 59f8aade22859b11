"""The course's jobs on Slurm, queried in a separate thread, since a hanging Slurm must not delay a page."""

from __future__ import annotations

import datetime
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from cluster.slurm import client

FORMAT = "%i|%u|%T|%r|%b|%V|%M|%j"  # the name comes last, because students choose it
# minimum lifetime of an answer in seconds; maximum fraction of the time spent on queries
FRESH, SHARE = 3.0, 0.05
PATIENCE = 2.0  # seconds that a page waits for an answer
ANSWER = 30.0  # maximum seconds for Slurm to answer


@dataclass
class Job:
    number: str
    user: str
    name: str
    state: str
    reason: str
    gpus: str
    waited: str
    ran: str


class Queue:
    """The jobs of a Slurm account. account: "" if there is no Slurm."""

    def __init__(self, account: str):
        self.account, self.pool = account, ThreadPoolExecutor(1, thread_name_prefix="class-queue")
        self._asked: Future | None = None
        self._known: tuple[list[Job], str] = ([], "Slurm has not answered yet.")
        self._until = 0.0

    def look(self) -> tuple[list[Job], str]:
        """Return (the last known jobs, a message about the query)."""
        if not self.account:
            return [], ""
        if self._asked is None and time.monotonic() > self._until:
            self._asked = self.pool.submit(jobs_of, self.account)
        if self._asked is not None:
            try:
                began = time.monotonic()
                self._known = self._asked.result(timeout=PATIENCE)
                self._asked = None
                self._until = time.monotonic() + max(FRESH, (time.monotonic() - began) / SHARE)
            except TimeoutError:
                return self._known[0], "Slurm does not answer; these are the last known jobs."
        return self._known


def jobs_of(account: str) -> tuple[list[Job], str]:
    """Return (jobs of an account, an error message)."""
    question = "squeue", "--noheader", f"--account={account}", f"--format={FORMAT}"
    try:
        lines = client.ask(*question, timeout=ANSWER).splitlines()
    except client.SlurmError as error:
        silent = client.NO_ANSWER.search(str(error))
        return [], "Slurm does not answer." if silent else f"Slurm refused: {error}"
    return [job for line in lines if (job := job_of_line(line))], ""


def job_of_line(line: str) -> Job | None:
    """Parse a line of squeue; return None if it is invalid."""
    fields = line.split("|", 7)
    if len(fields) != 8:
        return None
    number, user, state, reason, gres, submitted, ran, name = fields
    gpus = gres.rpartition("gpu:")[2] if "gpu:" in gres else ""
    pending = state == "PENDING"
    return Job(
        number, user, name, state.lower().replace("_", " "), reason if pending else "", gpus,
        since(submitted) if pending else "", "" if pending else ran,
    )  # fmt: skip


def since(moment: str) -> str:
    """Format how long ago one of Slurm's times (in local time) was: '3 min', '2 h 10 min'."""
    try:
        seconds = (datetime.datetime.now() - datetime.datetime.fromisoformat(moment)).total_seconds()
    except ValueError:
        return ""
    hours, minutes = divmod(max(0, int(seconds)) // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
