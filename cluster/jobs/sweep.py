"""A sweep in a notebook: a handle to the jobs of a `map`, which any process can open again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from . import backends
from .errors import JobFailed, Lost, NoSuchJob, SweepFailed
from .job import Job, cancel, until_ended, wait_for
from .run.run_folder import Run, RunRecord
from .run.status import Status

RAISE = type("RAISE", (), {"__repr__": lambda self: "RAISE"})()  # the default of results(failed=...)


def first_of_equals(keys: list[str]) -> list[int]:
    """Return, for each item, the index of the first item that is equal to it, whose folder they share.

    >>> first_of_equals(["a", "b", "a"])
    [0, 1, 0]
    """
    seen: dict[str, int] = {}
    return [seen.setdefault(k, i) for i, k in enumerate(keys)]


class Sweep:
    """The jobs of a `map`: a sequence of `Job`, one for each item, in the order of the items.

    items: the items if they are numbers, strings, lists and dictionaries of these; otherwise their text.
    id: the folder's name. folder: its path. name: the sweep's name. key: its cache key. spec: its run.json
    as a dictionary. ranks: ranks of each item. backend: 'local' or 'slurm'. If items are rerun, a new handle
    refers to the new runs, and an older handle keeps its own.
    """

    spec: RunRecord

    def __init__(self, folder: Path):
        self._run = Run(Path(folder).absolute()).check_owner()
        self.folder, self.spec = self._run.path, self._run.record
        self.key, self.name, self.items = self.spec["key"], self.spec["name"], self.spec["items"]
        self.ranks, self.backend = self.spec["ranks"], self.spec["backend"]
        self.last = max(self._run.rounds(), default=0)
        self.newest = self._run.newest_items(self.last)
        self._first = first_of_equals(self.spec["keys"])
        self._ended: dict[int, Status] = {}
        self._jobs: dict[int, Job] = {}  # kept, because creating a `Job` checks its folder first

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.folder.name

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[n] for n in range(len(self))[i]]
        if not -len(self) <= i < len(self):
            raise IndexError(f"{self.id} has no item {i}: its items are 0 to {len(self) - 1}.")
        first = self._first[i]
        if not self.here(i):
            raise NoSuchJob(f"The folder of item {i} of {self.id} is gone.", "Call map() again to run it.")
        return Job(self.newest[first].path)

    def here(self, i: int) -> bool:
        """Return whether the folder of an item exists."""
        return self._first[i] in self.newest and self.newest[self._first[i]].path.is_dir()

    @property
    def statuses(self) -> list[Status]:
        """The state of each item, in order; on Slurm one query covers all items."""
        result = dict(self._ended)
        for i in dict.fromkeys(self._first):
            if i not in result:
                result[i] = self._status(i)
                if result[i].ended:
                    self._ended[i] = result[i]
        return [result[i] for i in self._first]

    def _status(self, i: int) -> Status:
        gone = Status("lost", "Its folder is gone.", "Call map() again to run it.")
        if not self.here(i):
            return gone
        first = self._first[i]
        if first not in self._jobs:
            self._jobs[first] = self[i]
        return self._jobs[first].status

    @property
    def status(self) -> Status:
        """The state of the sweep, with the number of items in each state as `what`.

        It is 'running' while an item is running, or if only some have ended. It is 'done' if all items are
        done. Otherwise it is the common state of the items that are not done, or 'failed' if they differ.
        """
        all_of_them = self.statuses
        counts = Counter(str(s) for s in all_of_them)
        order = ("done", "running", *sorted(set(counts) - {"done", "running", "pending"}), "pending")
        what = ", ".join(f"{counts[s]} {s}" for s in order if counts[s])
        bad = set(counts) - {"done"}
        if not bad:
            return Status("done", what)
        if not bad & {"running", "pending"}:
            step = "See sweep.failures for the errors. Call map() again to rerun only the failed items."
            return Status(bad.pop() if len(bad) == 1 else "failed", what, step)
        left = [s for s in all_of_them if not s.ended]
        state = "pending" if set(counts) == {"pending"} else "running"
        why = Counter(s.what for s in left if s == "pending").most_common(1)
        stuck = next((s for s in left if s.never), None) if all(s.never for s in left) else None
        shown = stuck or next((s for s in left if why and s.what == why[0][0]), None)
        if state == "pending":
            what += f". {why[0][0]}"
        return Status(
            state, what, shown.next_step if shown else "", left[0].source, 0, shown.slurm if shown else "",
            stuck.row if stuck else None,
        )  # fmt: skip

    def wait(self, timeout: float | None = None, progress: bool = True) -> Sweep:
        """Wait until each item has ended, successfully or not, and return the sweep.

        timeout: seconds, after which NotFinished is raised and the sweep continues. progress: show a bar
        over the items. Interrupting the cell stops only the wait. CanNeverRun is raised if Slurm reports
        that all remaining items would stay pending indefinitely.
        """
        from .show.progress import Items

        with Items(self, progress) as bar:
            wait_for(self, timeout, bar.show)
        return self

    def results(
        self, failed: Any = RAISE, rank: int = 0, progress: bool = True, partial: bool = False
    ) -> list[Any]:
        """Return the function's return value for each item, in the order of the items, once all have ended.

        Raises SweepFailed if items failed, with the error and traceback of each. With failed=None, or any
        other value, the results contain that value for those items instead. partial: as in `Job.result`.

        >>> [r["loss"] for r in sweep.results(failed={"loss": float("nan")})]       # doctest: +SKIP
        """
        self.wait(progress=progress)
        if failed is RAISE and (error := self.error()):
            raise error
        done = [s == "done" for s in self.statuses]
        return [self[i].result(rank, partial=partial) if d else failed for i, d in enumerate(done)]

    @property
    def failures(self) -> dict[int, JobFailed]:
        """Return {item: its error} of the items that have failed so far, or {} if none has."""
        bad = [(i, s) for i, s in enumerate(self.statuses) if s.ended and s != "done"]
        return {i: self[i].error() if self.here(i) else Lost(s.what, s.next_step) for i, s in bad}

    def error(self) -> SweepFailed | None:
        """Return the error that `results` would raise; None if the sweep is running or all items are done."""
        if not self.status.ended or not (failures := self.failures):
            return None
        return SweepFailed.from_failures(self.id, self.items, failures)

    def times(self) -> tuple[float | None, float | None]:
        """Return the start of the first item and, if all have ended, the end of the last (Unix seconds)."""
        runs = [self.newest[i] for i in self._present()]
        ends = [run.ending() for run in runs]
        records = [end or run.rank_record(0) for end, run in zip(ends, runs, strict=True)]
        begun = min((r["started"] for r in records if r and r.get("started")), default=None)
        return begun, max(e["ended"] for e in ends if e) if ends and all(ends) else None

    def _present(self) -> list[int]:
        """Return the items whose folders exist, the first of equal ones only."""
        return [i for i in dict.fromkeys(self._first) if self.here(i)]

    def logs(self, item: int | None = None, rank: int | str | None = None) -> str:
        """Return the output of an item, as `Job.logs`, or without an item the outputs of all in turn."""
        if item is not None:
            return self[item].logs(rank)
        parts = [(i, self[i].logs(rank).rstrip()) for i in self._present()]
        return "\n".join(f"=== items[{i}] = {self.items[i]!r}\n{text}" for i, text in parts if text)

    def metrics(self) -> Any:
        """Return all that the ranks of all items logged, as `Job.metrics`, with a first column `item`."""
        from .show.sweep_table import metrics

        return metrics(self)

    def table(self) -> Any:
        """Return a DataFrame with one row per item, numbered like the items.

        The first column is the item, under the name of the function's parameter (for dictionaries, a column
        for each key). Then follow the status; the return value as `result`, or for dictionaries a column
        for each number or string; the last value of each logged metric, unless the return value has its
        name; seconds; error.
        """
        from .show.sweep_table import table

        return table(self)

    def figure(self, y: str | None = None, x: str | None = None) -> Any:
        """Plot a column of `table()` against the items as a matplotlib Figure; failed items are marked below.

        y: a column of numbers, by default the first one that was returned or logged. x: the item, or for
        dictionaries the first key whose values are numbers. Raises OptionValueError, which lists the
        columns.
        """
        from .show.sweep_table import figure

        return figure(self, y, x)

    def watch(self, logs: int = 0) -> None:
        """Show the items until all have ended, with a row and curves for each; see `show.watch.watch`."""
        from .show.watch import watch

        watch([self[i] for i in self._present()], logs)

    def cancel(self, wait: bool = True) -> Sweep:
        """Cancel all items that have not ended, including pending ones; wait at most 30 s for that.

        Items that have ended keep their results. One item alone: sweep[3].cancel(). Raises BackendError if
        the backend cannot be reached; the sweep then continues.
        """
        left: dict[Path, list[Run]] = {}
        for i in sorted(self._present()):
            if not self._status(i).ended:
                run = self.newest[i]
                left.setdefault(run.path.parent, []).append(run)
        for runs in left.values():
            cancel(self, runs)
        if left and wait:
            until_ended(self)
        return self

    def script(self, backend: str | None = None) -> str:
        """Return the executed script, on Slurm of the array; sweep[0].script() is the script of each task."""
        round_folder = Run(self._run.round(self.last))
        if backend in (None, self.backend) and round_folder.script.is_file():
            return round_folder.script.read_text()
        todo = sorted(set(self._first))
        return backends.get(backend or self.backend).array(self.spec, round_folder.path, todo, None)

    def __repr__(self) -> str:
        now, n, p = self.status, len(self), self.ranks
        ranks = f" of {p} ranks" if p > 1 else ""
        return f"<Sweep {self.id}: {now}, {n} item{'s' * (n > 1)}{ranks} ({now.what}), {self.backend}>"

    def _repr_html_(self) -> str:
        from .show.sweep_table import page

        return page(self)
