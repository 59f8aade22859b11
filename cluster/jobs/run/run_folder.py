"""A run on disk: the names of the files in its folder, and what these record.

A folder `runs/<name>-<key12>/` contains these files, in the order they appear:

    lock             held by the process that starts the job, then by its launcher; free if neither runs
    run.json         the request, versions, machine, time, and the command that repeats it
    code.py          the code as submitted, for people
    call.pkl         the function and its arguments, for the ranks only
    job.sh           the executed script; job.log its output, or the output of the process that starts ranks
    backend.json     what runs the job: the launcher's process, or Slurm's job ID
    seen.json        the last state that Slurm reported
    rank-R.json      each rank: host, start, end, exit code, signal, memory; error-R.json its exception
    rendezvous-A.json  the address where the ranks of attempt A meet
    location-R.json  since when rank R makes no progress, and where; stacks-R.txt the stacks of its threads
    stacks.request   the request for the stacks of all ranks, made when it was last modified
    ready-R.json     when rank R called the function; timeline.json Horovod's operations, if requested
    out-R.log        rank R's output; metrics-R.jsonl its metrics; result-R.json and .npz its result
    result-R.txt     parts of the result that are only text; value-R.pkl the rank's own copy (see `results`)
    out-R.log.N      the output from byte N on, once the log has reached its limit (see `rank_log`)
    interrupted.json when Slurm was first seen to have stopped the job and to be about to restart it
    cancel.json      a request to cancel the job, with its time
    changed.json     the files among the arguments that changed between the submission and the start
    end.json         how the job ended, written once, with the hashes of the results
    attempts/N/      files of an earlier, interrupted attempt of the run

The folder of a sweep contains rounds, and these contain the run folders of its items:

    run.json         of the sweep: the request, the items, and the cache key of each item's run
    shared/          large arrays that are sent with the items, each once, named by its content
    lock             held by the process that submits a round, then by the queue on this machine
    round-R/         one submission, created completely and then renamed
        job.sh       the executed script of the Slurm array; job.log the output of the local queue
        round.json   the items that run in this round, and how many run at a time
        backend.json what runs it: the queue on this machine, or the id of the Slurm array
        I/           the run folder of item I

The first round contains all items. A later round contains the items that are rerun, and the newest run of
each item counts. Equal items are one run, and the first of them has the folder.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import re
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from cluster.system import files

from ..errors import ENDINGS, Damaged, NoSuchJob
from ..options import NAMES, check_options
from . import private

# Names of the files written by a submission.
RUN_JSON, CODE, CALL, SCRIPT = "run.json", "code.py", "call.pkl", "job.sh"
LOCK, JOB_LOG, METRICS = "lock", "job.log", "metrics-"  # METRICS: prefix of the ranks' file names

ROUND = "round-"

# Files of an attempt that would mislead the next one.
LEFT: tuple[str, ...] = ("rank-*.json", "error-*.json", "result-*", "value-*.pkl", "ready-*.json")
LEFT += (
    "rendezvous-*.json",
    "timeline.json",
    "seen.json",
    "cancel.json",
    "interrupted.json",
    "location-*.json",
    "stacks*",
)


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
    base: NotRequired[str]  # the key without the files that count; {path: [size, time, SHA-256]} of these
    bases: NotRequired[list[str]]
    files: NotRequired[dict[str, list[Any]]]
    parameter: NotRequired[str]


# Fields that are read without asking whether they exist: {name: (whether a value is valid, what replaces
# another one)}. The second function gets the run, the record's path and the value, or None.
Fields = dict[str, tuple[Callable[[Any], bool], Callable[["Run", Path, Any], Any]]]


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, kinds)


def _date(v: Any) -> bool:
    try:
        return bool(datetime.datetime.fromisoformat(v))
    except (TypeError, ValueError):
        return False


def _number(v: Any) -> bool:
    """Return whether a value is a time in seconds, or another number of a usual size."""
    return isinstance(v, (int, float)) and abs(v) < 1e12


def _modified(run: Run, path: Path, _: Any) -> float:
    return path.stat().st_mtime


def _modified_on(run: Run, path: Path, _: Any) -> str:
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC).isoformat()


def _all_options(run: Run, path: Path, v: Any) -> dict[str, Any]:
    return vars(check_options({})) | (v if isinstance(v, dict) else {})


def _numbered(run: Run, path: Path, _: Any) -> list[None]:
    """Return as many unknown items as the rounds of a sweep contain."""
    items = [i for number in run.rounds() for i in Run(run.round(number)).items()]
    return [None] * (max(items, default=-1) + 1)


SUBMISSION: Fields = {
    "key": (_is(str), lambda run, path, _: ""),
    "name": (_is(str), lambda run, path, _: path.parent.name),
    "ranks": (
        lambda v: _is(int)(v) and 0 < v < 10**6,
        lambda run, path, _: max(1, len(list(path.parent.glob("rank-*.json")))),
    ),
    "backend": (lambda v: v in ("local", "slurm"), lambda run, path, _: "local"),
    "controller": (_is(str), lambda run, path, _: "gloo"),
    "submitted": (_date, _modified_on),
    "resumed": (lambda v: v is None or _date(v), _modified_on),
    "attempt": (_is(int), lambda run, path, _: 1),
    "options": (lambda v: isinstance(v, dict) and {*NAMES} <= {*v}, _all_options),
    "command": (_is(str), lambda run, path, _: ""),
    "arguments": (_is(dict), lambda run, path, _: {}),
    "env": (_is(list), lambda run, path, _: []),
}
SWEEP: Fields = {
    "items": (_is(list), _numbered),
    "keys": (_is(list), lambda run, path, _: []),
    "parameter": (_is(str), lambda run, path, _: "item"),
}
RANK: Fields = {
    "started": (_number, _modified),
    "host": (_is(str), lambda run, path, _: ""),
}
END: Fields = {
    "ending": (lambda v: isinstance(v, str) and v in ("Done", *ENDINGS), lambda run, path, _: "Lost"),
    "what": (_is(str), lambda run, path, _: f"The record of its end, {path}, is damaged."),
    "next_step": (_is(str), lambda run, path, _: ""),
    "traceback": (_is(str), lambda run, path, _: ""),
    "started": (lambda v: v is None or _number(v), lambda run, path, _: None),
    "ended": (_number, _modified),
    "hashes": (_is(dict), lambda run, path, _: {}),
}


class Run:
    """The folder of a run, of a sweep, or of a round: the paths of its files, whether they exist or not.

    The functions of this package take it. `record` is the run's run.json, read once.
    """

    def __init__(self, path: Path):
        self.path = path
        self.lock = path / LOCK
        self.run_json = path / RUN_JSON
        self.code = path / CODE
        self.call = path / CALL
        self.script = path / SCRIPT
        self.job_log = path / JOB_LOG
        self.backend = path / "backend.json"
        self.seen = path / "seen.json"
        self.interrupted = path / "interrupted.json"
        self.cancel = path / "cancel.json"
        self.end = path / "end.json"
        self.timeline = path / "timeline.json"
        self.changed = path / "changed.json"
        self.stacks_request = path / "stacks.request"
        self.shared = path / "shared"
        self.round_json = path / "round.json"

    # Files of a rank.
    def rank(self, rank: int) -> Path:
        return self.path / f"rank-{rank}.json"

    def ready(self, rank: int) -> Path:
        return self.path / f"ready-{rank}.json"

    def location(self, rank: int) -> Path:
        return self.path / f"location-{rank}.json"

    def stacks(self, rank: int) -> Path:
        return self.path / f"stacks-{rank}.txt"

    def error(self, rank: int) -> Path:
        return self.path / f"error-{rank}.json"

    def log(self, rank: int | str) -> Path:
        return self.path / f"out-{rank}.log"

    def metrics(self, rank: int) -> Path:
        return self.path / f"{METRICS}{rank}.jsonl"

    def result(self, rank: int) -> Path:
        return self.path / f"result-{rank}.json"

    def arrays(self, rank: int) -> Path:
        return self.path / f"result-{rank}.npz"

    def result_text(self, rank: int) -> Path:
        return self.path / f"result-{rank}.txt"

    def result_copy(self, rank: int) -> Path:
        return self.path / f"value-{rank}.pkl"

    def rendezvous(self, attempt: str) -> Path:
        return self.path / f"rendezvous-{attempt}.json"

    def all_metrics(self) -> list[Path]:
        """Return the existing metrics files of all ranks."""
        found = (p for p in self.path.glob(f"{METRICS}*.jsonl") if p.stem.removeprefix(METRICS).isdigit())
        return sorted(found)

    # What the files record. In a damaged record, what is missing, or of another type, is replaced.
    @functools.cached_property
    def record(self) -> RunRecord:
        """The record of the submission. Raises Damaged if it is not a JSON object."""
        record = self._completed(self.run_json, SUBMISSION)
        if record and ("items" in record or self.round(1).is_dir()):
            record = self._completed(self.run_json, SUBMISSION | SWEEP)
            if len(record["keys"]) != len(record["items"]):
                record["keys"] = [str(i) for i in range(len(record["items"]))]
        return record

    def _completed(self, path: Path, fields: Fields) -> Any:
        """Return a record with all its fields, or None if it does not exist. Raises Damaged for no object."""
        record = files.read_json(path)
        if record is not None and not isinstance(record, dict):
            what = f"{path} is damaged: it contains a {type(record).__name__}."
            raise Damaged(what, "Submit the job again: rerun=True.")
        if record is not None:
            for name, (valid, usual) in fields.items():
                if not valid(record.get(name)):
                    record[name] = usual(self, path, record.get(name))
        return record

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.record["ranks"]

    def rank_record(self, rank: int) -> dict[str, Any] | None:
        """Return what a rank's supervisor has recorded, or None if the rank has not started."""
        record = self._completed(self.rank(rank), RANK)
        if record and not _number(record.get("ended", 0.0)):
            del record["ended"]
        return record and record | {"rank": rank}

    def ending(self) -> dict[str, Any] | None:
        """Return how the run ended, or None if that is not recorded (yet)."""
        return self._completed(self.end, END)

    def backend_record(self) -> dict[str, Any] | None:
        """Return what runs the job: its own backend.json or, for an item of a sweep, its round's; or None."""
        record = files.read_json(self.backend)
        if record is None and self.is_item:
            record = files.read_json(Run(self.path.parent).backend)
            if record and "job_id" in record:
                record |= {"job_id": f"{record['job_id']}_{self.path.name}"}
        return record

    def hashes(self, start: str = "") -> dict[str, str]:
        """Return the SHA-256 of the code and of each result and metrics file, by file name.

        start: read only files whose names begin with this.
        """
        found = (p for pattern in ("result-*", f"{METRICS}*", CODE) for p in self.path.glob(pattern))
        paths = sorted(p for p in found if p.name.startswith(start))
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}

    # The attempts of the run.
    def attempt(self, number: int) -> Path:
        """Return the folder for the files of an earlier attempt."""
        return self.path / "attempts" / str(number)

    def attempts(self) -> list[Path]:
        """Return the folders of the earlier attempts, in their order."""
        return sorted((self.path / "attempts").glob("[0-9]*"), key=lambda p: int(p.name))

    def latest_attempt(self) -> int:
        """Return the number of the current attempt, from 1."""
        return 1 + max((int(p.name) for p in self.attempts()), default=0)

    def left_behind(self) -> list[Path]:
        """Return the files of an attempt that would mislead the next one."""
        return [p for pattern in LEFT for p in sorted(self.path.glob(pattern))]

    # Who may use the folder, and who does.
    def check_owner(self) -> Run:
        """Return the run if only this user or root can have written to it. Raises NotYours or NoSuchJob."""
        if not self.run_json.is_file():
            raise NoSuchJob(
                f"{self.path} is not a job folder (it has no run.json).", "List the jobs with jobs()."
            )
        private.check_folder(self.path)
        return self

    def hold(self) -> BufferedWriter:
        """Return the lock of the folder, held until the returned file and each copy of it are closed.

        It is not a context manager, because the launcher or sbatch holds it longer than this process.
        """
        return files.hold(self.lock)

    def is_held(self) -> bool:
        """Return whether a process that starts or runs the job is alive.

        On a file system without locks this is unknown. The result is then False, and Slurm is queried.
        """
        return files.is_held(self.lock)

    def claim(self) -> contextlib.AbstractContextManager[bool]:
        """Hold the lock while the body runs; yield False if a process is starting or running the job."""
        return files.lock(self.lock, wait=False)

    # Sweeps, their rounds, and the items of these.
    @property
    def is_item(self) -> bool:
        """Whether this is an item of a sweep."""
        return self.path.name.isdigit() and self.path.parent.name.startswith(ROUND)

    @property
    def whole_sweep(self) -> Run:
        """The sweep of an item, whose lock shows whether it is being started; or this run."""
        return Run(self.path.parent.parent) if self.is_item else self

    def round(self, number: int) -> Path:
        """Return the folder of a round, from 1."""
        return self.path / f"{ROUND}{number}"

    def rounds(self) -> dict[int, Path]:
        """Return {number: folder} of the existing rounds, in ascending order."""
        matches = ((re.fullmatch(rf"{ROUND}(\d+)", p.name), p) for p in self.path.iterdir())
        return dict(sorted((int(m[1]), p) for m, p in matches if m))

    def items(self) -> dict[int, Path]:
        """Return {item: its folder} of a round, in ascending order."""
        entries = self.path.iterdir() if self.path.is_dir() else ()
        return dict(sorted((int(p.name), p) for p in entries if p.name.isdigit()))

    def newest_items(self, last: int) -> dict[int, Run]:
        """Return {item: its newest run} of a sweep, up to round `last`."""
        return {i: Run(p) for r in range(1, last + 1) for i, p in Run(self.round(r)).items().items()}


RunFolder = Run  # its name in recorded scripts and in assignment 05
