"""The backend interface: all functions that are called on `local` and `slurm`."""

from __future__ import annotations

from io import BufferedWriter
from pathlib import Path
from typing import Any, Protocol

from ..run.run_folder import RunRecord
from ..run.status import Status


class Backend(Protocol):
    """A module that runs jobs, and sweeps of jobs.

    run: the run.json of a job or a sweep. folder: a job's folder, or the folder of a sweep's round. held: the
    lock of the folder, which the started processes keep. backend: the contents of backend.json in the folder.
    """

    def check(self, run: RunRecord) -> None:
        """Raise a JobError for a job that could never run here."""

    def check_round(self, items: range) -> None:
        """Raise a JobError if a sweep has more items than can be submitted together."""

    def script(self, run: RunRecord, folder: Path) -> str:
        """Return the script of a job."""

    def array(self, run: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
        """Return the script of a round, which runs these items in order. requested: as for `at_once`."""

    def at_once(self, run: RunRecord, requested: int | None) -> int | None:
        """Return how many items of a sweep run at a time, or None: Slurm decides. requested: max_parallel."""

    def start(self, folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
        """Start the job in a folder and return a message for the user, or "".

        Raises BackendError, or Refused if nothing was started.
        """

    def start_round(self, folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
        """Start the items of a round, otherwise like `start`."""

    def recover(self, folder: Path) -> bool | None:
        """Return whether a folder without backend.json was submitted nevertheless.

        If it was started, backend.json exists afterwards. None means that this is unknown for now.
        """

    def status(self, folder: Path, backend: dict[str, Any]) -> Status:
        """Return the state of a job that has a backend.json but had no end.json a moment ago."""

    def cancel(self, folder: Path, backend: dict[str, Any]) -> None:
        """Cancel a job. Raises BackendError if the backend cannot be reached; the job then continues."""

    def cancel_items(self, folder: Path, backend: dict[str, Any], items: list[int]) -> None:
        """Cancel items of a round; raises as `cancel` does."""
