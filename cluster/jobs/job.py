"""A job in a notebook: a handle on a folder, which any process can open again."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cluster.system import files

from . import backends
from .errors import BackendError, CanNeverRun, JobFailed, NoSuchJob, NotFinished
from .metrics import Tail, whole
from .rank.stacks import without_runner
from .run import endings, rank_log, results, waiting
from .run.run_folder import METRICS, Run, RunRecord
from .run.status import Status

STACKS = 10.0  # seconds that ranks have to write their stacks
POLL = 0.1  # seconds between checks of a job's folder


class Job:
    """A submitted job. Everything is read from its folder, so a handle can be created at any time.

    id: the folder's name. folder: its path. key: the run's cache key. spec: its run.json as a dictionary.
    backend: 'local' or 'slurm'.
    """

    def __init__(self, folder: Path):
        self._run = Run(Path(folder).absolute()).check_owner()
        self.spec: RunRecord = self._run.record
        self.key, self._own = self.spec["key"], self.spec.get("own")
        self.name, self.ranks, self.backend = self.spec["name"], self.spec["ranks"], self.spec["backend"]

    @property
    def _here(self) -> Run:
        path = self._run.path
        for p in itertools.chain([path], path.parent.glob(f"{path.name}.*")):
            run = self._run if p == path else Run(p)
            if (record := files.read_json(run.run_json)) and record.get("own") == self._own:
                self._run = run
                break
        return self._run

    @property
    def folder(self) -> Path:
        """The folder of this particular run, even after a later one with the same key has replaced it."""
        return self._here.path

    @property
    def id(self) -> str:
        """The folder's name or, for an item of a sweep, the sweep's ID and the item's number."""
        run = self._here
        return f"{run.whole_sweep.path.name}/{run.path.name}" if run.is_item else run.path.name

    @property
    def status(self) -> Status:
        """The current state; see `Status`. It never raises, even if the job failed."""
        return backends.status_of(self._here)

    def wait(self, timeout: float | None = None, progress: bool = True) -> Job:
        """Wait until the job has ended, successfully or not, and return the job.

        timeout: seconds, after which NotFinished is raised and the job continues. progress: show a bar,
        from the logged values `step` and `steps`. Interrupting the cell does not cancel the job.
        CanNeverRun is raised if Slurm reports that the job would stay pending indefinitely.

        >>> job.wait(timeout=60)                                                    # doctest: +SKIP
        """
        from .show.progress import Progress

        with Progress(self, progress) as bar:
            wait_for(self, timeout, bar.show)
        return self

    def result(self, rank: int = 0, progress: bool = True, partial: bool = False) -> Any:
        """Return the function's return value on a rank, once the job has ended.

        If the job failed, raises a subclass of JobFailed with the traceback of the rank that failed first.
        `cluster.jobs.run.encoding` contains the table of what comes back as what. If a part of the value is
        none of these, raises ResultError, which names the part; partial=True returns the rest, with an
        `Unstored` (text, content) in the place of that part.

        >>> submit(train, epochs=2).result()                                        # doctest: +SKIP
        """
        end = self._ended_well(progress)
        if not 0 <= rank < self.ranks:
            raise NoSuchJob(f"{self.id} has no rank {rank}.", f"Its ranks are 0 to {self.ranks - 1}.")
        return results.load(self._here, rank, end["hashes"], partial=partial)

    def results(self, progress: bool = True, partial: bool = False) -> list[Any]:
        """Return the function's return value on each rank, in rank order. Raises as `result` does."""
        end = self._ended_well(progress)
        return [results.load(self._here, r, end["hashes"], partial=partial) for r in range(self.ranks)]

    def error(self) -> JobFailed | None:
        """Return the error that `result` would raise, or None if the job continues or succeeded."""
        end = self._here.ending() if self.status.ended else None
        return endings.error_of(end) if end and end["ending"] != "Done" else None

    def logs(self, rank: int | str | None = None) -> str:
        """Return the output of a rank, of all ranks in turn by default, or of the launching process ('job').

        If a rank prints more than `max_output` bytes, only the beginning and the end are kept.
        """
        if rank == "job":
            return _text(self._here.job_log)
        if rank is not None:
            return rank_log.read_log(self._here.log(rank))[0].decode(errors="replace")
        parts = [(r, self.logs(r)) for r in range(self.ranks)]
        return "\n".join(f"--- rank {r}\n{text.rstrip()}" for r, text in parts if text) or self.logs("job")

    def stacks(self, rank: int | None = None) -> str:
        """Show where each rank is in the code: the Python stacks of its threads, innermost call first.

        For a running job the stacks are requested, which takes a second or two. For a job that has ended
        these are the stacks of the ranks that made no progress at the end.
        """
        ranks = range(self.ranks) if rank is None else [rank]
        silent = set() if self.status.ended else self._ask_for_stacks(ranks)
        texts = [(r, without_runner(_text(self._here.stacks(r))).rstrip()) for r in ranks if r not in silent]
        texts += [(r, f"It has not answered within {STACKS:g} s: {self._why_silent(r)}") for r in silent]
        return "\n".join(f"--- rank {r}\n{text}" for r, text in sorted(texts) if text)

    def _ask_for_stacks(self, ranks: Iterable[int]) -> set[int]:
        """Request the stacks, and return the running ranks that do not answer."""
        run = self._here
        requested_at = time.time()
        run.stacks_request.touch()
        os.utime(run.stacks_request)
        deadline = time.monotonic() + STACKS
        while True:
            times = {r: p.stat().st_mtime if (p := run.stacks(r)).exists() else 0.0 for r in ranks}
            left = {r for r, at in times.items() if at < requested_at or not run.stacks(r).stat().st_size}
            left -= {r for r in left if (run.rank_record(r) or {}).get("ended")}
            time.sleep(POLL)  # the last lines may still be being written
            if not left or time.monotonic() > deadline or self.status.ended:
                return left

    def _why_silent(self, rank: int) -> str:
        place = waiting.locations(self._here).get(rank)
        if place and place.get("stopped"):
            return f"its process {place['stopped']} is stopped by a signal (SIGSTOP)."
        return "it may still be starting, or its machine does not respond."

    def follow(self, rank: int | None = None) -> None:
        """Print what the ranks write as they write it, until the job ends or the cell is interrupted.

        With more than one rank, each line begins with its rank: `[1] epoch 3`.
        """
        ranks = range(self.ranks) if rank is None else [rank]
        at = dict.fromkeys(ranks, 0)  # bytes read so far
        rest = dict.fromkeys(ranks, b"")  # the beginning of a line that is still being written
        while True:
            ended, run = self.status.ended, self._here  # checked before reading, to miss nothing at the end
            for r in ranks:
                new, at[r] = rank_log.read_log(run.log(r), at[r])
                new = rest[r] + new
                end = len(new) if ended else new.rfind(b"\n") + 1
                rest[r] = new[end:]
                for line in new[:end].decode(errors="replace").splitlines():
                    print(f"[{r}] {line}" if len(ranks) > 1 else line, flush=True)
            if ended:
                return
            time.sleep(POLL)

    def watch(self, logs: int = 0) -> None:
        """Show the job until it ends, or the cell is interrupted: see `cluster.jobs.show.watch.watch`.

        It shows each rank's progress, the curves of its metrics, why it waits, and its error. logs: number
        of recent output lines to show.
        """
        from .show.watch import watch

        watch(self, logs)

    def timeline(self) -> Any:
        """Show how each rank spent its time (waiting, starting, computing, communicating) as a `Timeline`.

        It displays itself in a notebook. `table`, `spans`, `steps` are DataFrames, `figure()` is the
        figure. Computing and communicating are distinguished after `submit(..., timeline=True)`.
        """
        from .show.timeline import Timeline

        return Timeline(self)

    def metrics(self, superseded: bool = False) -> Any:
        """Return all that the ranks logged, as a pandas DataFrame.

        Columns: rank, time (seconds since the first rank started), and every logged name. Rows are in
        chronological order. If a run was interrupted and resumed, the rows that a later attempt computed
        again are left out, unless superseded=True, and `attempt` numbers the attempts.

        Once the job has ended, the files are compared with the hashes written at its end. Raises Damaged if
        they differ. This detects accidents, not forgery, since the owner can change both.
        """
        import pandas as pd

        run = self._here
        if self.status.ended:
            results.check_hashes(run, METRICS, (run.ending() or {})["hashes"])
        rows = Tail(run.path).new_rows()
        frame = pd.DataFrame(rows if superseded else whole(rows), columns=None if rows else ["rank", "time"])
        if "attempt" in frame:
            frame["attempt"] = frame["attempt"].fillna(1).astype(int)
        first = Run((run.attempts() or [run.path])[0])
        started = [record["started"] for r in range(self.ranks) if (record := first.rank_record(r))]
        if started and rows:
            frame["time"] -= min(started)
        return frame

    def cancel(self, wait: bool = True) -> Job:
        """Cancel the job and wait (at most 30 s) until it has ended; an ended job stays as it is.

        Raises BackendError if the backend cannot be reached; the job then continues.
        """
        if not self.status.ended:  # asked first, since this also finds a job whose submission was interrupted
            cancel(self, [self._here])
            if wait:
                until_ended(self)
        return self

    def script(self, backend: str | None = None) -> str:
        """Return the executed script or, with backend='slurm', the batch script that Slurm would get."""
        if backend in (None, self.backend):
            return self._here.script.read_text()
        return backends.get(backend).script(self.spec, self.folder)

    def _ended_well(self, progress: bool) -> dict[str, Any]:
        """Wait, and return how the job ended. Raises its error."""
        if not self.status.ended:
            self.wait(progress=progress)
        if error := self.error():
            raise error
        return self._here.ending() or {}

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.status}, {self.ranks} rank{'s' * (self.ranks > 1)}, {self.backend}>"

    def _repr_html_(self) -> str:
        from .show.card import card

        return card(self)


def wait_for(handle: Any, timeout: float | None, show: Callable[[Status], None]) -> None:
    """Wait until a job or a sweep has ended, and show each state. Raises CanNeverRun or NotFinished."""
    deadline = time.monotonic() + timeout if timeout is not None else float("inf")
    while True:
        begin = time.monotonic()
        now = handle.status
        show(now)
        if now.ended:
            return
        if now.never:
            raise CanNeverRun(f"{handle.id}: {now.what} (Slurm: {now.slurm})", now.next_step)
        if time.monotonic() > deadline:
            raise NotFinished(
                f"{handle.id} is still {now} after {timeout:g} s: {now.what}",
                "It continues: wait again, look at it with watch(), or cancel it with cancel().",
            )
        time.sleep(max(POLL, 4 * (time.monotonic() - begin)))  # less often for a thousand items


def cancel(handle: Any, runs: list[Run]) -> None:
    """Cancel a job, or items of one round of a sweep. Raises BackendError."""
    backend = runs[0].backend_record()
    if backend is None:
        raise BackendError(f"{handle.id} cannot be cancelled yet: {handle.status.what}", "Try again later.")
    backends.get(backend["backend"]).cancel(runs)


def until_ended(handle: Any) -> None:
    """Wait at most 30 s until a job or sweep has ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not handle.status.ended:
        time.sleep(POLL)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.is_file() else ""


def say(line: str) -> None:
    """Print one line to stdout, because nbgrader treats output on stderr in a graded cell as an error."""
    print(line, file=sys.stdout, flush=True)
