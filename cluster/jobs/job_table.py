"""`jobs()`: the recorded jobs as a table.

It reads a few small files per run, and queries Slurm once, about the jobs that have not ended. Folders that
cannot be read (half-written, damaged, another user's) are named with the reason below the table.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .backends import status_of
from .errors import JobError, OptionValueError
from .run import endings, layout, private
from .run.run_folder import RunFolder, RunRecord
from .run.status import status_of_end
from .show import render
from .show.card import relative, steps, took
from .show.curves import ago, span
from .show.curves import since as seconds
from .show.render import Row, View

if TYPE_CHECKING:
    from .run.status import Status

STATES = ("pending", "running", "done", "failed", *sorted({*endings.STATES.values()} - {"done"}))
SHOWN = 50  # maximum number of rows if no limit is given
DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError)
LONGEST = 180  # characters of a line of text
HEAD = ("job", "state", "progress", "steps", "ranks", "backend", "time", "submitted", "what")
UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "day": "days", "days": "days"}
UNITS |= {"week": "weeks", "weeks": "weeks"}


@dataclass
class Entry:
    """One recorded run: its run.json, and its end.json if it has ended."""

    folder: Path
    run: RunRecord
    end: dict[str, Any] | None
    at: float  # time of the submission, in Unix seconds

    @functools.cached_property
    def status(self) -> Status:
        """The state; the backend is queried only if no end is recorded."""
        if "items" in self.run:
            return self.job.status
        return status_of_end(self.end) if self.end else status_of(RunFolder(self.folder))

    @functools.cached_property
    def job(self) -> Any:
        """The `Job`, or the `Sweep`, which has one row for all its items."""
        from .find import handle

        return handle(self.folder)

    def row(self) -> Row:
        """Return the job's row; its facts have the order of HEAD."""
        share, done = steps(self.folder)
        ranks = str(self.run["ranks"])
        if "items" in self.run:
            over, items = sum(s.ended for s in self.job.statuses), len(self.job)
            share, done, ranks = over / items, f"{over} of {items}", f"{items} x {ranks}"
        what = "" if self.status == "done" else self.status.what.partition("\n")[0]
        if self.status == "pending":
            what = f"{ago(self.at)}: {what}"
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.at))
        facts = [done, ranks, self.run["backend"], self.took, at, what]
        return Row(self.folder.name, share, facts, str(self.status))

    @functools.cached_property
    def took(self) -> str:
        """How long the job ran, or has been running; '' before it starts."""
        if "items" not in self.run:
            return took(self.folder, self.end)
        begun, ended = self.job.times()
        return span((ended or time.time()) - begun) if begun else ""


class JobTable:
    """The jobs of a folder of runs, newest first: a sequence of `Job` and `Sweep`, which prints as a table.

    unreadable: [(name, why)] of the folders that could not be read. They are not part of the sequence.
    """

    def __init__(
        self,
        active: bool | None = None,
        name: str | None = None,
        folder: Any = None,
        state: str | Iterable[str] | None = None,
        backend: str | None = None,
        since: Any = None,
        limit: int | None = None,
    ):
        wanted, begin = _states(state), _begin(since)
        if backend not in (None, "local", "slurm"):
            raise OptionValueError(
                f"backend={backend!r} is not valid.", "backend must be 'local' or 'slurm'."
            )
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise OptionValueError(
                f"limit={limit!r} is not valid.", "limit must be a whole number, 1 or more."
            )
        self.folder, self._limit = layout.root(folder), limit
        self.unreadable: list[tuple[str, str]] = []
        selected = [e for e in self._entries() if e.at >= begin and backend in (None, e.run["backend"])]
        selected = [e for e in selected if name is None or name in e.run["name"]]
        selected.sort(key=lambda e: (e.at, e.folder.name), reverse=True)
        self._rows: list[Entry] = []
        for e in selected:
            if len(self._rows) == limit:
                break
            with self._noting(e.folder.name):
                shown = (wanted is None or e.status in wanted) and active in (None, not e.status.ended)
                if shown and e.took is not None:  # took: to find out now whether its files can be read
                    self._rows.append(e)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> Any:
        return self._rows[i].job

    @property
    def entries(self) -> list[Entry]:
        """Return the data of the rows, without creating a `Job` for each row."""
        return list(self._rows)

    def __repr__(self) -> str:
        return "\n".join(render.text(self._view(), LONGEST))

    def _repr_html_(self) -> str:
        return render.page(self._view())

    def _view(self) -> View:
        view = View(head=HEAD, rows=[e.row() for e in self._rows[: self._limit or SHOWN]])
        if not self._rows:
            view = View(words=[f"No jobs in {relative(self.folder)}, or none that match."])
        if len(self._rows) > 1:
            counts = Counter(str(e.status) for e in self._rows)
            total = f"{len(self._rows)} jobs: {', '.join(f'{n} {s}' for s, n in counts.most_common())}."
            if self._limit is None and len(self._rows) > SHOWN:
                total += f" The newest {SHOWN} are shown; jobs(limit={len(self._rows)}) shows all."
            view.notes.append(total)
        view.notes += [f"Not readable: {name} ({why})" for name, why in self.unreadable]
        return view

    def _entries(self) -> Iterator[Entry]:
        if not private.check_runs(self.folder).is_dir():
            return
        with os.scandir(self.folder) as entries:
            for p in entries:
                if p.name.startswith(".") or not p.is_dir():
                    continue
                with self._noting(p.name):
                    run = RunFolder(Path(p.path))
                    if (record := run.record) is None:
                        if re.search(r"-[0-9a-f]{12}(\.\d+)?$", p.name):
                            self.unreadable.append((p.name, "it has no run.json, so it is incomplete."))
                        continue
                    at = seconds(record.get("resumed") or record["submitted"])
                    yield Entry(run.check_owner().path, record, run.ending(), at)

    @contextlib.contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Add a folder to the unreadable ones if the body finds it damaged."""
        try:
            yield
        except JobError as e:
            self.unreadable.append((name, e.what))
        except DAMAGED as e:
            self.unreadable.append((name, f"a file in it is damaged ({type(e).__name__}: {e})."))


def _states(given: str | Iterable[str] | None) -> set[str] | None:
    if given is None:
        return None
    wanted = {given} if isinstance(given, str) else set(given)
    if odd := sorted(wanted - set(STATES)):
        raise OptionValueError(f"state={odd[0]!r} is not valid.", f"States are {', '.join(STATES)}.")
    return wanted


def _begin(given: Any) -> float:
    """Convert the earliest submission time (an age like '2 h', a date or a datetime) to Unix seconds."""
    if given is None:
        return float("-inf")
    if isinstance(given, str):
        m = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", given.strip())
        with contextlib.suppress(ValueError):
            given = datetime.datetime.fromisoformat(given)
        if m and m[2] in UNITS:
            given = datetime.timedelta(**{UNITS[m[2]]: float(m[1])})
    if isinstance(given, datetime.timedelta):
        return time.time() - given.total_seconds()
    if isinstance(given, datetime.datetime):
        return given.timestamp()
    raise OptionValueError(
        f"since={given!r} is not valid.", "Give an age, '30 min', '2 h' or '3 days', or a date, '2026-01-31'."
    )
