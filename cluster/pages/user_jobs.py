"""The user's jobs below the server's root: find, list, show, cancel.

Jobs are recorded in `runs` next to the notebook that submitted them, so there are many such folders.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tornado.web import HTTPError

from cluster.system import settings

DEPTH, FOLDERS = 4, 4000  # maximum depth and number of folders that are searched for `runs`
# minimum seconds for which the list of folders is reused; maximum fraction of the time spent searching
FRESH, SHARE = 1.0, 0.05
SHOWN = 100  # maximum number of jobs in the list
SOURCES = 8  # number of jobs whose metrics are kept in memory
WORDS = 60  # maximum characters of a job's arguments in the list
LINES = 200  # maximum lines of the ranks' output on a job's page
ADDRESS = re.compile(r"<(?:bound method |function |built-in function )?([\w.<>]+)[^<>]*? at 0x[0-9a-f]+>")
ASSIGNMENT = re.compile(r"(?:^|/)(\d\d)_[^/]*/runs$")
SKIPPED = {"node_modules", "__pycache__", "site-packages", "build"}


Line = dict[str, Any]  # a job in the list, see `line`


class UserJobs:
    """The jobs below a root. Not thread-safe."""

    def __init__(self, root: Path):
        self.root = root
        self._runs: tuple[float, dict[str, Path]] = (-1e9, {})
        self._sources: dict[Path, Any] = {}

    def runs(self) -> dict[str, Path]:
        """Return {path below the root: folder of runs}, including $CLUSTER_RUNS."""
        until, folders = self._runs
        if (begun := time.monotonic()) > until:
            folders = {str(p.relative_to(self.root)): p for p in search(self.root)}
            if own := settings.text("CLUSTER_RUNS"):
                folders["CLUSTER_RUNS"] = Path(own).expanduser().absolute()
            ended = time.monotonic()
            self._runs = ended + max(FRESH, (ended - begun) / SHARE), folders
        return folders

    def lines(self) -> tuple[list[Line], list[str]]:
        """Return (the newest jobs, messages about what could not be read)."""
        from cluster.jobs.errors import JobError
        from cluster.jobs.job_table import JobTable

        result, unreadable = [], []
        for below, folder in self.runs().items():
            try:
                table = JobTable(folder=folder, limit=SHOWN)
            except (JobError, OSError) as error:
                unreadable.append(f"{below}: {error}")
                continue
            result += [line(entry, below) for entry in table.entries]
            unreadable += [f"{below}/{name}: {why}" for name, why in table.unreadable]
        result.sort(key=lambda x: (not x["ended"], x["at"]), reverse=True)
        return result[:SHOWN], unreadable

    def job(self, path: str, item: int | None = None) -> Any:
        """Return the Job or Sweep in the folder `path`, or an item of a sweep. Raises HTTPError 404."""
        from cluster.jobs.errors import JobError
        from cluster.jobs.find import handle
        from cluster.jobs.job import Job

        below, _, name = path.rpartition("/")
        runs = self.runs().get(below)
        try:
            if runs is None or name in ("", ".", "..") or name.startswith("."):
                raise LookupError
            job_or_sweep = handle(runs / name)
            if item is None:
                return job_or_sweep
            if isinstance(job_or_sweep, Job) or item < 0:
                raise LookupError
            return job_or_sweep[item]
        except (JobError, OSError, ValueError, LookupError) as error:
            raise HTTPError(404, f"{path!r}: {error}".replace("%", "%%"), reason="No such job") from None

    def view(self, job: Any) -> tuple[Any, list[int]]:
        """Return (a job's or sweep's current state, as in `watch`; each row's item, [] if rows are ranks)."""
        from cluster.jobs.job import Job
        from cluster.jobs.show import watch

        items = [] if isinstance(job, Job) else [i for i in range(len(job)) if job.here(i)]
        jobs = [job] if isinstance(job, Job) else [job[i] for i in items]
        watched = [self._source(j) if len(jobs) <= SOURCES else watch.Source(j) for j in jobs]
        for source in watched:
            source.look()
        return watch.view(watched, LINES) if watched else None, items if len(items) > 1 else []

    def _source(self, job: Any) -> Any:
        from cluster.jobs.show import watch

        source = self._sources.pop(job.folder, None)
        if source is None or source.job.spec.get("submitted") != job.spec.get("submitted"):
            source = watch.Source(job)
        self._sources[job.folder] = source  # the newest is last
        while len(self._sources) > 2 * SOURCES:
            del self._sources[next(iter(self._sources))]
        return source


def grouped(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Group lines by "Assignment 07" or the folder of other notebooks, in the order of their first lines."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        number = ASSIGNMENT.search(line["runs"])
        folder = line["runs"].removesuffix("/runs") if "/" in line["runs"] else "this folder"
        groups.setdefault(f"Assignment {number[1]}" if number else f"Notebooks in {folder}", []).append(line)
    return groups


def line(entry: Any, runs: str) -> Line:
    """Return the list's line for an entry of the table of jobs in a folder `runs`.

    path: the job's folder below the root, as its ID. mark: the part of the folder's name that distinguishes
    it from other jobs of the same name. done: the progress as a number up to 1, or None.
    """
    row = entry.row()
    progress, ranks, backend, took, _, what = row.facts
    return {
        "path": f"{runs}/{row.label}", "name": entry.run["name"], "state": row.state, "what": what,
        "done": row.share, "progress": progress, "ranks": ranks, "backend": backend, "took": took,
        "at": entry.at, "runs": runs, "ended": entry.status.ended, "mark": row.label.rpartition("-")[2],
        "arguments": arguments(entry.run),
    }  # fmt: skip


def arguments(run: dict[str, Any]) -> str:
    """Format a run.json's arguments, shortened, like 'steps=40, rate=0.1'; functions and objects by name."""
    given = run.get("arguments")
    text = ", ".join(f"{key}={value}" for key, value in given.items()) if isinstance(given, dict) else ""
    text = ADDRESS.sub(r"\1", text)
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"


def search(root: Path) -> list[Path]:
    """Return the folders called `runs` below a folder, without following links or entering hidden folders."""
    folders: list[Path] = []
    level, seen = [root], 0
    for _ in range(DEPTH):
        deeper = []
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    inside = sorted(
                        (e for e in entries if e.is_dir(follow_symlinks=False)), key=lambda e: e.name
                    )
            except OSError:
                continue
            seen += 1
            if seen > FOLDERS:
                return folders
            folders += [Path(e.path) for e in inside if e.name == "runs"]
            deeper += [
                Path(e.path)
                for e in inside
                if e.name != "runs" and e.name not in SKIPPED and not e.name.startswith(".")
            ]
        level = deeper
    return folders
