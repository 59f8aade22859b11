"""File names in a run's folder; `layout` and `sweeps` describe in what order the files appear."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from cluster.system import files

# Names of the files written by a submission.
RUN_JSON, CODE, CALL, SCRIPT = "run.json", "code.py", "call.pkl", "job.sh"
LOCK, JOB_LOG, METRICS = "lock", "job.log", "metrics-"  # METRICS: prefix of the ranks' file names

ROUND = "round-"

# Files of an attempt that would mislead the next one.
LEFT: tuple[str, ...] = ("rank-*.json", "error-*.json", "result-*", "rendezvous-*.json", "ready-*.json")
LEFT += ("timeline.json", "seen.json", "cancel.json", "interrupted.json", "location-*.json", "stacks*")


class RunRecord(TypedDict):
    """run.json: the submission of a job or a sweep. Older versions wrote fewer entries than this one."""

    format: int
    key: str
    own: NotRequired[str]  # distinguishes this run from others with the same cache key
    name: str
    target: str
    arguments: dict[str, str]
    command: str  # the call that repeats the run
    options: dict[str, Any]
    env: list[str]  # the names of the environment variables passed to submit
    ranks: int
    backend: str
    controller: str
    submitted: str
    attempt: int
    resumed: NotRequired[str]
    versions: dict[str, str]
    machine: dict[str, Any]
    site: NotRequired[dict[str, Any]]
    item: NotRequired[int]  # index of a run in its sweep
    items: NotRequired[list[Any]]  # in a sweep only, like keys and parameter
    keys: NotRequired[list[str]]
    parameter: NotRequired[str]


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run and the paths of its files, whether they exist or not.

    A sweep's folder, and the folder of each of its rounds, contain some of these files, too.
    """

    path: Path

    @property
    def lock(self) -> Path:
        """The lock, held by the process that starts the run, then by its launcher."""
        return self.path / LOCK

    @property
    def run_json(self) -> Path:
        """The record of the submission."""
        return self.path / RUN_JSON

    def read_run(self) -> RunRecord:
        """Return the record of the submission."""
        return files.read_json(self.run_json)

    @property
    def code(self) -> Path:
        """The code as submitted, for people."""
        return self.path / CODE

    @property
    def call(self) -> Path:
        """The function and its arguments, pickled, for the ranks."""
        return self.path / CALL

    @property
    def script(self) -> Path:
        """The executed shell script."""
        return self.path / SCRIPT

    @property
    def job_log(self) -> Path:
        """The output of the script, or of the process that starts the ranks."""
        return self.path / JOB_LOG

    @property
    def backend(self) -> Path:
        """What runs the job: the launcher's process, or Slurm's job ID."""
        return self.path / "backend.json"

    @property
    def seen(self) -> Path:
        """The last state that Slurm reported."""
        return self.path / "seen.json"

    @property
    def interrupted(self) -> Path:
        """The time when Slurm was first seen to be about to requeue the job."""
        return self.path / "interrupted.json"

    @property
    def cancel(self) -> Path:
        """The request to cancel the run, with its time."""
        return self.path / "cancel.json"

    @property
    def end(self) -> Path:
        """The ending of the run, written once."""
        return self.path / "end.json"

    @property
    def timeline(self) -> Path:
        """Horovod's recorded timeline, if there is one."""
        return self.path / "timeline.json"

    def rank(self, rank: int) -> Path:
        """Return a rank's record: host, start, end, exit code, memory."""
        return self.path / f"rank-{rank}.json"

    def ready(self, rank: int) -> Path:
        """Return the time when a rank called the function."""
        return self.path / f"ready-{rank}.json"

    def location(self, rank: int) -> Path:
        """Return where and since when a rank makes no progress (see `state.waiting.Location`)."""
        return self.path / f"location-{rank}.json"

    def stacks(self, rank: int) -> Path:
        """Return the Python stacks of a rank's threads from the most recent request."""
        return self.path / f"stacks-{rank}.txt"

    @property
    def stacks_request(self) -> Path:
        """The request for the stacks of all ranks; its modification time is the time of the request."""
        return self.path / "stacks.request"

    def error(self, rank: int) -> Path:
        """Return a rank's exception."""
        return self.path / f"error-{rank}.json"

    def log(self, rank: int | str) -> Path:
        """Return the output of a rank."""
        return self.path / f"out-{rank}.log"

    def metrics(self, rank: int) -> Path:
        """Return the metrics logged by a rank, one JSON object per line."""
        return self.path / f"{METRICS}{rank}.jsonl"

    def result(self, rank: int) -> Path:
        """Return the value returned by a rank, without its arrays."""
        return self.path / f"result-{rank}.json"

    def arrays(self, rank: int) -> Path:
        """Return the arrays in the value returned by a rank."""
        return self.path / f"result-{rank}.npz"

    def rendezvous(self, attempt: str) -> Path:
        """Return the address for connecting the ranks of an attempt."""
        return self.path / f"rendezvous-{attempt}.json"

    def attempt(self, number: int) -> Path:
        """Return the files of an earlier attempt of the run."""
        return self.path / "attempts" / str(number)

    def attempts(self) -> list[Path]:
        """Return the folders of the earlier attempts, in their order."""
        return sorted((self.path / "attempts").glob("[0-9]*"), key=lambda p: int(p.name))

    def all_metrics(self) -> list[Path]:
        """Return the existing metrics files of all ranks."""
        return sorted(self.path.glob(f"{METRICS}*.jsonl"))

    def all_results(self) -> list[Path]:
        """Return the existing results of all ranks."""
        return sorted(self.path.glob("result-*.json"))

    def hashed(self) -> list[Path]:
        """Return the files whose hashes are recorded at the end: results, metrics, and the code."""
        return sorted(p for pattern in ("result-*", f"{METRICS}*", CODE) for p in self.path.glob(pattern))

    def left_behind(self) -> list[Path]:
        """Return the files of an attempt that would mislead the next one."""
        return [p for pattern in LEFT for p in sorted(self.path.glob(pattern))]

    # Files in the folders of sweeps and of their rounds.
    @property
    def shared(self) -> Path:
        """The large arrays that are sent with a sweep's items, named by their content."""
        return self.path / "shared"

    def round(self, number: int) -> Path:
        """Return the folder of a round of a sweep, from 1."""
        return self.path / f"{ROUND}{number}"

    def rounds(self) -> dict[int, Path]:
        """Return {number: folder} of the existing rounds, in ascending order."""
        matches = ((re.fullmatch(rf"{ROUND}(\d+)", p.name), p) for p in self.path.iterdir())
        return dict(sorted((int(m[1]), p) for m, p in matches if m))

    @property
    def round_json(self) -> Path:
        """The items that run in this round, and how many run at a time."""
        return self.path / "round.json"

    def item(self, number: int) -> Path:
        """Return the run folder of an item of a round."""
        return self.path / str(number)

    def items(self) -> dict[int, Path]:
        """For a round, return {item: its folder} in ascending order."""
        entries = self.path.iterdir() if self.path.is_dir() else ()
        return dict(sorted((int(p.name), p) for p in entries if p.name.isdigit()))
