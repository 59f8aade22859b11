"""What a backend does: `Local` and `Slurm` are the two that exist."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path

from ..run.run_folder import Run, RunRecord
from ..run.status import Status


class Backend(abc.ABC):
    """Runs jobs, and sweeps of jobs.

    record: the run.json of a job or a sweep. folder: the final path of a job's folder, or of the folder of a
    sweep's round. held: the lock of a job or a sweep, which the started processes keep.
    """

    @abc.abstractmethod
    def check(self, record: RunRecord) -> None:
        """Raise a JobError for a job that could never run here."""

    def check_items(self, count: int) -> None:  # noqa: B027 (most backends have no limit)
        """Raise a JobError if a sweep has more items than can be submitted together."""

    @abc.abstractmethod
    def script(self, record: RunRecord, folder: Path) -> str:
        """Return the script of a job."""

    @abc.abstractmethod
    def array(self, record: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
        """Return the script of a round, which runs these items in order. requested: as for `at_once`."""

    @abc.abstractmethod
    def at_once(self, record: RunRecord, requested: int | None) -> int | None:
        """Return how many items of a sweep run at a time, or None: Slurm decides. requested: max_parallel."""

    @abc.abstractmethod
    def start(self, run: Run, env: dict[str, str], held: BufferedWriter) -> str:
        """Start a job, or the items of a round, and return a message for the user, or "".

        Raises BackendError, or Refused if nothing was started.
        """

    @abc.abstractmethod
    def recover(self, run: Run) -> bool | None:
        """Return whether a job or a round without backend.json was submitted nevertheless.

        If it was started, backend.json exists afterwards. None means that this is unknown for now.
        """

    @abc.abstractmethod
    def status(self, run: Run) -> Status:
        """Return the state of a job that has a backend.json but had no end.json a moment ago."""

    @abc.abstractmethod
    def cancel(self, runs: Sequence[Run]) -> None:
        """Cancel a job, or items of one round of a sweep.

        Raises BackendError if the backend cannot be reached; the jobs then continue.
        """
