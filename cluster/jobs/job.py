"""A job as one holds it in a notebook: a handle on a folder, which any process can take up again."""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from . import attempts, backends, endings, ledger, output, results, rounds, state
from .errors import BackendError, CanNeverRun, JobFailed, NoSuchJob, NotFinished
from .metrics import Tail, whole
from .state import Status

POLL = 0.1  # seconds between two looks at a job's folder


class Job:
    """A submitted job. Everything it knows is read from its folder, so a handle can be made at any time.

    id: the folder's name; folder: its path; key: what identifies the run; spec: its run.json as a
    dictionary; backend: 'local' or 'slurm'.
    """

    def __init__(self, folder: Path):
        self._folder = ledger.check_owner(Path(folder).absolute())
        self.spec: dict[str, Any] = ledger.read(self._folder / "run.json")
        self.key, self._own = self.spec["key"], self.spec.get("own")
        self.name, self.ranks, self.backend = self.spec["name"], self.spec["ranks"], self.spec["backend"]

    @property
    def folder(self) -> Path:
        """The folder of this very run, also after a later one with the same key has set it aside."""
        here = self._folder
        for p in itertools.chain([here], here.parent.glob(f"{here.name}.*")):
            if (run := ledger.read(p / "run.json")) and run.get("own") == self._own:
                self._folder = p
                break
        return self._folder

    @property
    def id(self) -> str:
        """The folder's name; of an item of a sweep, the sweep's and the item's number."""
        folder = self.folder
        return f"{rounds.sweep_of(folder).name}/{folder.name}" if rounds.is_item(folder) else folder.name

    @property
    def status(self) -> Status:
        """The state now; see `Status`. It never raises for a job that ended badly."""
        return state.of(self.folder)

    def wait(self, timeout: float | None = None, progress: bool = True) -> Job:
        """Wait until the job has ended, well or badly, and return the job.

        timeout: seconds; NotFinished is raised after them, and the job goes on. progress: show a bar, from
        the `step` and `steps` that the code logs. An interrupt of the cell does not end the job. CanNeverRun
        is raised where Slurm says that the job will wait for ever.

        >>> job.wait(timeout=60)                                                    # doctest: +SKIP
        """
        from .bar import Progress

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
                        "It goes on: wait again, look at job.logs(), or end it with job.cancel().",
                    )
                time.sleep(POLL)

    def result(self, rank: int = 0, progress: bool = True) -> Any:
        """What the function returned on a rank, once the job has ended.

        Raises the job's error when it ended badly: a subclass of JobFailed, with the traceback of the rank
        that failed first.

        >>> submit(train, epochs=2).result()                                        # doctest: +SKIP
        """
        self._ended_well(progress)
        if not 0 <= rank < self.ranks:
            raise NoSuchJob(f"{self.id} has no rank {rank}.", f"Its ranks are 0 to {self.ranks - 1}.")
        return results.load(self.folder, rank, ledger.read(self.folder / "end.json")["hashes"])

    def results(self, progress: bool = True) -> list[Any]:
        """What the function returned on each rank, in the order of the ranks; raises as `result` does."""
        self._ended_well(progress)
        expected = ledger.read(self.folder / "end.json")["hashes"]
        return [results.load(self.folder, r, expected) for r in range(self.ranks)]

    def error(self) -> JobFailed | None:
        """The error that `result` would raise, or None when the job goes on or ended well."""
        end = ledger.read(self.folder / "end.json") if self.status.ended else None
        return endings.error_of(end) if end and end["ending"] != "Done" else None

    def logs(self, rank: int | str | None = None) -> str:
        """What a rank printed; with no rank, all of them one after another; 'job' is what started them.

        Of more than `max_output` bytes a rank, the beginning and the end.
        """
        if rank == "job":
            return _text(self.folder / "job.log")
        if rank is not None:
            return output.read(self.folder / f"out-{rank}.log").decode(errors="replace")
        parts = [(r, self.logs(r)) for r in range(self.ranks)]
        return "\n".join(f"--- rank {r}\n{text.rstrip()}" for r, text in parts if text) or self.logs("job")

    def follow(self, rank: int | None = None) -> None:
        """Print what the ranks write as they write it, until the job ends or the cell is interrupted.

        With more than one rank each line begins with its rank: `[1] epoch 3`.
        """
        ranks = range(self.ranks) if rank is None else [rank]
        at = dict.fromkeys(ranks, 0)  # bytes printed so far
        while True:
            ended = self.status.ended  # before the reading, so that nothing is missed at the end
            for r in ranks:
                new = _bytes(self.folder / f"out-{r}.log", at[r])
                whole = new if ended else new[: new.rfind(b"\n") + 1]
                at[r] += len(whole)
                for line in whole.decode(errors="replace").splitlines():
                    print(f"[{r}] {line}" if len(ranks) > 1 else line, flush=True)
            if ended:
                return
            time.sleep(POLL)

    def watch(self, logs: int = 0) -> None:
        """Show the job until it ends, or the cell is interrupted: see `cluster.jobs.live.watch`.

        Each rank's progress, the curves of what it logs, why it waits, its error; logs: also this many of the
        last lines printed.
        """
        from .live import watch

        watch(self, logs)

    def timeline(self) -> Any:
        """Where the time of each rank went: waiting, starting, computing, communicating; a `Timeline`.

        It shows itself in a notebook; `table`, `spans`, `steps` are DataFrames, `figure()` is the picture.
        Computing and communicating are told apart after `submit(..., timeline=True)`.
        """
        from .timeline import Timeline

        return Timeline(self)

    def metrics(self, superseded: bool = False) -> Any:
        """All that the ranks logged, as a pandas DataFrame.

        Columns: rank; time, seconds since the first rank started; and every name that was logged. Rows are
        in the order of time. Of a run that was interrupted and went on, the rows that a later attempt
        computed again are left out, unless superseded=True, and `attempt` numbers the attempts.

        Once the job has ended, the files are compared with the hashes written then, and Damaged is raised
        where they differ. This finds accidents, not forgery: who can change the one can change the other.
        """
        import pandas as pd

        if self.status.ended:
            results.check(self.folder, "metrics-", ledger.read(self.folder / "end.json")["hashes"])
        rows = Tail(self.folder).read()
        frame = pd.DataFrame(rows if superseded else whole(rows), columns=None if rows else ["rank", "time"])
        if "attempt" in frame:
            frame["attempt"] = frame["attempt"].fillna(1).astype(int)
        first = (attempts.earlier(self.folder) or [self.folder])[0]
        records = [ledger.read(first / f"rank-{r}.json") for r in range(self.ranks)]
        started = [r["started"] for r in records if r]
        if started and rows:
            frame["time"] -= min(started)
        return frame

    def cancel(self, wait: bool = True) -> Job:
        """End the job, and wait (at most 30 s) until it has ended; a job that has ended stays as it is.

        Raises BackendError when the job cannot be reached; it then goes on.
        """
        if self.status.ended:  # asked first, since this also finds a job whose submission was cut off
            return self
        backend = rounds.backend(self.folder)
        if backend is None:
            raise BackendError(f"{self.id} cannot be cancelled yet: {self.status.what}", "Try again later.")
        backends.get(backend["backend"]).cancel(self.folder, backend)
        deadline = time.monotonic() + 30 * wait
        while not self.status.ended and time.monotonic() < deadline:
            time.sleep(POLL)
        return self

    def script(self, backend: str | None = None) -> str:
        """The text that was run, or (backend='slurm') the batch script that Slurm would get."""
        if backend in (None, self.backend):
            return (self.folder / "job.sh").read_text()
        from . import sbatch

        text = {"slurm": sbatch.script, "local": backends.get("local").script}
        return text[backend](self.spec, self.folder)

    def _ended_well(self, progress: bool) -> None:
        if not self.status.ended:
            self.wait(progress=progress)
        error = self.error()
        if error:
            raise error

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.status}, {self.ranks} rank{'s' * (self.ranks > 1)}, {self.backend}>"

    def _repr_html_(self) -> str:
        from .view import card

        return card(self)


def attach(job: str | os.PathLike, folder: str | os.PathLike | None = None) -> Any:
    """Take up a job or a sweep again, in any process: a `Job`, or what `map` returned.

    job: its id, the beginning of its id, its folder, or Slurm's number; `train-3fa9/4` is item 4 of a sweep.
    folder: where the job folders lie, if not in `runs` here or in $CLUSTER_RUNS. Raises NoSuchJob.

    >>> attach("train-3fa9")                                                        # doctest: +SKIP
    """
    text, runs = os.fspath(job), ledger.root(folder)
    if (Path(text) / "run.json").is_file():
        return handle(Path(text))
    whole, sign, item = text.rpartition("/")
    if sign and item.isdigit():
        return _item(attach(whole, folder), int(item))
    all_ids = [p.name for p in ledger.folders(runs)]
    hits = [i for i in all_ids if i == text] or [i for i in all_ids if text and i.startswith(text)]
    hits = [i for i in hits if not re.search(r"\.\d+$", i)] or hits  # rather than a run that was set aside
    number, _, item = text.partition("_")
    if not hits and number.isdigit():
        records = [p for i in all_ids for p in [runs / i, *(runs / i).glob("round-*")]]
        hits = [p for p in records if str((ledger.read(p / "backend.json") or {}).get("job_id")) == number]
        hits = [str(p.relative_to(runs)).partition("/")[0] for p in hits]
    if len(hits) == 1:
        found = handle(runs / hits[0])
        return _item(found, int(item)) if item.isdigit() and number.isdigit() else found
    if hits:
        raise NoSuchJob(f"{text!r} fits {len(hits)} jobs: {', '.join(hits[:5])}.", "Give more of the id.")
    listed = ", ".join(all_ids[-5:]) or "none"
    raise NoSuchJob(f"No job {text!r} in {runs}.", f"The jobs there: {listed}. See also jobs().")


def handle(folder: Path) -> Any:
    """The `Job` of a folder, or the `Sweep` where it is one's."""
    run = ledger.read(ledger.check_owner(folder) / "run.json")
    if "items" not in run:
        return Job(folder)
    from .sweep import Sweep

    return Sweep(folder)


def _item(sweep: Any, item: int) -> Job:
    if isinstance(sweep, Job) or item >= len(sweep):
        n = "it is no sweep" if isinstance(sweep, Job) else f"its items are 0 to {len(sweep) - 1}"
        raise NoSuchJob(f"{sweep.id} has no item {item}: {n}.", "See jobs().")
    return sweep[item]


def _text(path: Path) -> str:
    return _bytes(path, 0).decode(errors="replace")


def _bytes(path: Path, start: int) -> bytes:
    if not path.is_file():
        return b""
    with open(path, "rb") as f:
        f.seek(start)
        return f.read()


def say(line: str) -> None:
    """Print one line on standard output: nbgrader takes what a graded cell writes to stderr for an error."""
    print(line, file=sys.stdout, flush=True)
