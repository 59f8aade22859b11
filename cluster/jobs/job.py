"""A job in a notebook: a handle on a folder, which any process can open again."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster.system import files

from . import backends
from .errors import BackendError, CanNeverRun, JobFailed, NoSuchJob, NotFinished
from .metrics import Tail, whole
from .run import endings, layout, rank_log, results, sweeps
from .run.run_folder import METRICS, RunFolder, RunRecord
from .run.status import Status, status_of

STACKS = 10.0  # seconds that ranks have to write their stacks
POLL = 0.1  # seconds between checks of a job's folder


class Job:
    """A submitted job. Everything is read from its folder, so a handle can be created at any time.

    id: the folder's name. folder: its path. key: the run's cache key. spec: its run.json as a dictionary.
    backend: 'local' or 'slurm'.
    """

    def __init__(self, folder: Path):
        self._folder = layout.check_owner(Path(folder).absolute())
        self.spec: RunRecord = RunFolder(self._folder).read_run()
        self.key, self._own = self.spec["key"], self.spec.get("own")
        self.name, self.ranks, self.backend = self.spec["name"], self.spec["ranks"], self.spec["backend"]

    @property
    def folder(self) -> Path:
        """The folder of this particular run, even after a later one with the same key has replaced it."""
        here = self._folder
        for p in itertools.chain([here], here.parent.glob(f"{here.name}.*")):
            if (run := files.read_json(RunFolder(p).run_json)) and run.get("own") == self._own:
                self._folder = p
                break
        return self._folder

    @property
    def id(self) -> str:
        """The folder's name or, for an item of a sweep, the sweep's ID and the item's number."""
        folder = self.folder
        return f"{sweeps.sweep_of(folder).name}/{folder.name}" if sweeps.is_item(folder) else folder.name

    @property
    def status(self) -> Status:
        """The current state; see `Status`. It never raises, even if the job failed."""
        return status_of(self.folder)

    def wait(self, timeout: float | None = None, progress: bool = True) -> Job:
        """Wait until the job has ended, successfully or not, and return the job.

        timeout: seconds, after which NotFinished is raised and the job continues. progress: show a bar,
        from the logged values `step` and `steps`. Interrupting the cell does not cancel the job.
        CanNeverRun is raised if Slurm reports that the job would stay pending indefinitely.

        >>> job.wait(timeout=60)                                                    # doctest: +SKIP
        """
        from .show.progress import Progress

        deadline = time.monotonic() + timeout if timeout is not None else float("inf")
        with Progress(self, progress) as bar:
            while True:
                now = self.status
                bar.show(now)
                if now.ended:
                    return self
                if now.never:
                    raise CanNeverRun(f"{self.id}: {now.what} (Slurm: {now.slurm})", now.next_step)
                if time.monotonic() > deadline:
                    raise NotFinished(
                        f"{self.id} is still {now} after {timeout:g} s.",
                        "It continues: wait again, look at job.logs(), or cancel it with job.cancel().",
                    )
                time.sleep(POLL)

    def result(self, rank: int = 0, progress: bool = True) -> Any:
        """Return the function's return value on a rank, once the job has ended.

        If the job failed, raises a subclass of JobFailed with the traceback of the rank that failed first.

        >>> submit(train, epochs=2).result()                                        # doctest: +SKIP
        """
        self._ended_well(progress)
        if not 0 <= rank < self.ranks:
            raise NoSuchJob(f"{self.id} has no rank {rank}.", f"Its ranks are 0 to {self.ranks - 1}.")
        return results.load(self.folder, rank, files.read_json(RunFolder(self.folder).end)["hashes"])

    def results(self, progress: bool = True) -> list[Any]:
        """Return the function's return value on each rank, in rank order. Raises as `result` does."""
        self._ended_well(progress)
        expected = files.read_json(RunFolder(self.folder).end)["hashes"]
        return [results.load(self.folder, r, expected) for r in range(self.ranks)]

    def error(self) -> JobFailed | None:
        """Return the error that `result` would raise, or None if the job continues or succeeded."""
        end = files.read_json(RunFolder(self.folder).end) if self.status.ended else None
        return endings.error_of(end) if end and end["ending"] != "Done" else None

    def logs(self, rank: int | str | None = None) -> str:
        """Return the output of a rank, of all ranks in turn by default, or of the launching process ('job').

        If a rank prints more than `max_output` bytes, only the beginning and the end are kept.
        """
        if rank == "job":
            return _text(RunFolder(self.folder).job_log)
        if rank is not None:
            return rank_log.read_log(RunFolder(self.folder).log(rank)).decode(errors="replace")
        parts = [(r, self.logs(r)) for r in range(self.ranks)]
        return "\n".join(f"--- rank {r}\n{text.rstrip()}" for r, text in parts if text) or self.logs("job")

    def stacks(self, rank: int | None = None) -> str:
        """Show where each rank is in the code: the Python stacks of its threads, innermost call first.

        For a running job the stacks are requested, which takes a second or two. For a job that has ended
        these are the stacks of the ranks that made no progress at the end.
        """
        ranks = range(self.ranks) if rank is None else [rank]
        if not self.status.ended:
            self._ask_for_stacks(ranks)
        texts = [(r, _text(RunFolder(self.folder).stacks(r)).rstrip()) for r in ranks]
        return "\n".join(f"--- rank {r}\n{text}" for r, text in texts if text)

    def _ask_for_stacks(self, ranks: Iterable[int]) -> None:
        folder = RunFolder(self.folder)
        requested_at = time.time()
        folder.stacks_request.touch()
        os.utime(folder.stacks_request)
        deadline = time.monotonic() + STACKS
        while time.monotonic() < deadline and not self.status.ended:
            times = [p.stat().st_mtime if (p := folder.stacks(r)).exists() else 0.0 for r in ranks]
            over = [(files.read_json(folder.rank(r)) or {}).get("ended") for r in ranks]
            if all(at >= requested_at or ended for at, ended in zip(times, over, strict=True)):
                time.sleep(POLL)  # the last lines are being written
                return
            time.sleep(POLL)

    def follow(self, rank: int | None = None) -> None:
        """Print what the ranks write as they write it, until the job ends or the cell is interrupted.

        With more than one rank, each line begins with its rank: `[1] epoch 3`.
        """
        ranks = range(self.ranks) if rank is None else [rank]
        logs = {r: rank_log.Follower(RunFolder(self.folder).log(r)) for r in ranks}
        rest = dict.fromkeys(ranks, b"")  # the beginning of a line that is still being written
        while True:
            ended = self.status.ended  # checked before reading, to miss nothing at the end
            folder = self.folder
            for r in ranks:
                logs[r].path = RunFolder(folder).log(r)
                new = rest[r] + logs[r].new_bytes()
                end = len(new) if ended else new.rfind(b"\n") + 1
                whole, rest[r] = new[:end], new[end:]
                for line in whole.decode(errors="replace").splitlines():
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

        if self.status.ended:
            results.check(self.folder, METRICS, files.read_json(RunFolder(self.folder).end)["hashes"])
        rows = Tail(self.folder).new_rows()
        frame = pd.DataFrame(rows if superseded else whole(rows), columns=None if rows else ["rank", "time"])
        if "attempt" in frame:
            frame["attempt"] = frame["attempt"].fillna(1).astype(int)
        first = (RunFolder(self.folder).attempts() or [self.folder])[0]
        records = [files.read_json(RunFolder(first).rank(r)) for r in range(self.ranks)]
        started = [r["started"] for r in records if r]
        if started and rows:
            frame["time"] -= min(started)
        return frame

    def cancel(self, wait: bool = True) -> Job:
        """Cancel the job and wait (at most 30 s) until it has ended; an ended job stays as it is.

        Raises BackendError if the backend cannot be reached; the job then continues.
        """
        if self.status.ended:  # checked first, since this also finds a job whose submission was interrupted
            return self
        backend = sweeps.backend(self.folder)
        if backend is None:
            raise BackendError(f"{self.id} cannot be cancelled yet: {self.status.what}", "Try again later.")
        backends.get(backend["backend"]).cancel(self.folder, backend)
        deadline = time.monotonic() + 30 * wait
        while not self.status.ended and time.monotonic() < deadline:
            time.sleep(POLL)
        return self

    def script(self, backend: str | None = None) -> str:
        """Return the executed script or, with backend='slurm', the batch script that Slurm would get."""
        if backend in (None, self.backend):
            return RunFolder(self.folder).script.read_text()
        return backends.get(backend).script(self.spec, self.folder)

    def _ended_well(self, progress: bool) -> None:
        if not self.status.ended:
            self.wait(progress=progress)
        error = self.error()
        if error:
            raise error

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.status}, {self.ranks} rank{'s' * (self.ranks > 1)}, {self.backend}>"

    def _repr_html_(self) -> str:
        from .show.card import card

        return card(self)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.is_file() else ""


def say(line: str) -> None:
    """Print one line to stdout, because nbgrader treats output on stderr in a graded cell as an error."""
    print(line, file=sys.stdout, flush=True)
