"""The backend interface: all functions that are called on `local` and `slurm`."""

from __future__ import annotations

from io import BufferedWriter
from pathlib import Path
from typing import Any, Protocol

from ..folder.run_folder import RunRecord
from ..state.status import Status


class Backend(Protocol):
    """A module that runs jobs, and sweeps of jobs.

    run: the run.json of a job or a sweep. folder: a job's folder, or the folder of a sweep's round. held:
    the lock of the folder, which the started processes keep. backend: the folder's backend.json.
    """

    def check(self, run: RunRecord) -> None:
        """Raise a JobError for a job that could never run here."""

    def check_round(self, items: range) -> None:
        """Raise a JobError if a sweep has more items than can be submitted together."""

    def script(self, run: RunRecord, folder: Path) -> str:
        """Return the text of a job: what is run."""

    def array(self, run: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
        """Return the text of a round: these items, in ascending order, `at_once` at a time."""

    def at_once(self, run: RunRecord, requested: int | None) -> int | None:
        """Return how many items of a sweep run at a time if `requested`, or None if the scheduler decides."""

    def start(self, folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
        """Start the job in a folder; returns what there is to say about it, "" for nothing.

        Raises Refused, and then nothing was started; or BackendError.
        """

    def start_round(self, folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
        """Start the items of a round; the rest is as for `start`."""

    def recover(self, folder: Path) -> bool | None:
        """Return whether what a folder holds was submitted after all, though no backend.json says so.

        If it was started, backend.json exists afterwards. None means unknown for now.
        """

    def status(self, folder: Path, backend: dict[str, Any]) -> Status:
        """Return the state of a job that has a backend.json, and had no end.json a moment ago."""

    def cancel(self, folder: Path, backend: dict[str, Any]) -> None:
        """Cancel a job. Raises BackendError if the backend cannot be reached; the job then continues."""

    def cancel_items(self, folder: Path, backend: dict[str, Any], items: list[int]) -> None:
        """End items of a round; raises as `cancel` does."""
