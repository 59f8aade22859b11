"""What a backend is: all functions that are called on one. `local` and `slurm` are two."""

from __future__ import annotations

from io import BufferedWriter
from pathlib import Path
from typing import Any, Protocol

from ..folder.run_folder import RunRecord
from ..state.status import Status


class Backend(Protocol):
    """A module that runs jobs, and sweeps of jobs.

    run: a job's, or a sweep's, run.json. folder: a job's folder; of a sweep, that of a round. held: the lock
    of the folder, which what is started holds on to. backend: the folder's backend.json.
    """

    def check(self, run: RunRecord) -> None:
        """Raise a JobError for a job that could never run here."""

    def check_round(self, items: range) -> None:
        """Raise a JobError where the items of a sweep are more than can be submitted as one."""

    def script(self, run: RunRecord, folder: Path) -> str:
        """The text of a job: what is run."""

    def array(self, run: RunRecord, folder: Path, items: list[int], requested: int | None) -> str:
        """The text of a round: these items, in ascending order, as many at a time as `at_once` says."""

    def at_once(self, run: RunRecord, requested: int | None) -> int | None:
        """How many items of a sweep run at a time, if `requested` are; None where the scheduler decides."""

    def start(self, folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
        """Start the job in a folder; returns what there is to say about it, "" for nothing.

        Raises Refused, and then nothing was started; or BackendError.
        """

    def start_round(self, folder: Path, env: dict[str, str], held: BufferedWriter) -> str:
        """Start the items of a round; the rest is as for `start`."""

    def recover(self, folder: Path) -> bool | None:
        """Whether what a folder holds was submitted after all, though no backend.json says so.

        Where it was, backend.json is there afterwards. None: no one can say now.
        """

    def status(self, folder: Path, backend: dict[str, Any]) -> Status:
        """The state of a job that has a backend.json, and had no end.json a moment ago."""

    def cancel(self, folder: Path, backend: dict[str, Any]) -> None:
        """End a job. Raises BackendError where it cannot be reached; it then goes on."""

    def cancel_items(self, folder: Path, backend: dict[str, Any], items: list[int]) -> None:
        """End items of a round; raises as `cancel` does."""
