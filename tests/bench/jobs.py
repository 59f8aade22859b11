"""The overhead of jobs: the time from submission to start and to the result, scheduler queries, and the list
of jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import time
from pathlib import Path

from cluster.system.files import read_json, write_json

from . import rivals, scheduler, traffic
from .measure import Found, Row, interleaved, rows, spread

OURS = "cluster.jobs"
ABOUT = "time to start and to the result, scheduler calls, the table of jobs"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--records", type=int, default=1000, help="recorded runs to list (1000)")
    parser.add_argument("--watched", type=int, default=50, help="jobs that are watched at one time (50)")
    parser.add_argument(
        "--window", type=float, default=20, help=("seconds during which calls are counted (20)")
    )


def latency(options: argparse.Namespace) -> Found:
    """Time a function that takes 0.1 s, run in turn through cluster.jobs, through sbatch and squeue, and
    through submitit.
    """
    with scheduler.running() as which, tempfile.TemporaryDirectory() as name, _quiet():
        folder = Path(name)
        sides = {
            OURS: lambda: rivals.ours(folder, "slurm"),
            "sbatch, squeue each second": lambda: rivals.plain(folder),
            "submitit": lambda: rivals.submitit(folder),
        }
        values = interleaved(sides, options.repeats or 9)
    ours, theirs = (sorted(values["end to result", side]) for side in (OURS, "submitit"))
    aims = [
        (f"each result of {OURS} is available within a second of the job's end", ours[-1] < 1),
        ("its median is at most submitit's", _median(ours) <= _median(theirs)),
    ]
    return Found(rows(values), aims, [f"Measured on {which}. The function itself takes 0.1 s."])


def calls(options: argparse.Namespace) -> Found:
    """Count the calls of Slurm's commands while jobs are pending: per minute, and at most at the same
    time.
    """
    measurements, aims = [], []
    with scheduler.running() as which, tempfile.TemporaryDirectory() as name, _quiet():
        sides = [(1, *s) for s in traffic.ONE.items()]
        for n, side, watch in sides + [(options.watched, *s) for s in traffic.MANY.items()]:
            counted = traffic.count(watch, n, options.window, Path(name))
            jobs = f"{n} job{'s' * (n > 1)}"
            measurements.append(Row(f"calls per minute, {jobs}", side, "", [counted.a_minute]))
            measurements.append(Row(f"most calls at one time, {jobs}", side, "", [float(counted.at_once)]))
            if side.startswith(OURS):
                seldom = counted.at_once <= 1 and counted.a_minute <= 60
                aims.append((f"{side}, {jobs}: one call at a time, at most one per second", seldom))
    remark = f"Counted on {which} with held jobs for {options.window:g} s, from 3 s after watching began."
    return Found(measurements, aims, [remark])


def table(options: argparse.Namespace) -> Found:
    """Measure the cost of `jobs()` with many ended runs, and of printing its result."""
    import cluster

    with tempfile.TemporaryDirectory() as name:
        runs = Path(name) / "runs"
        _recorded(runs, options.records)

        def listing() -> dict[str, float]:
            at = time.perf_counter()
            jobs = cluster.jobs(folder=runs)
            between = time.perf_counter()
            with _quiet():
                print(jobs)
            return {"jobs()": between - at, "print(jobs())": time.perf_counter() - at}

        values = interleaved({f"{options.records} recorded runs": listing}, options.repeats or 7)
    printed = next(v for (what, _), v in values.items() if what == "print(jobs())")
    aim = f"print(jobs()) with {options.records} recorded runs takes less than 1 s"
    return Found(rows(values), [(aim, _median(printed) < 1)])


def _median(values: list[float]) -> float:
    return spread(values)["median"]


def _quiet() -> contextlib.AbstractContextManager:
    """Suppress the output of submit and watch, which is irrelevant for the benchmark."""
    return contextlib.redirect_stdout(io.StringIO())


def _recorded(runs: Path, n: int) -> None:
    """Create the folders of n runs as copies of one real run."""
    from cluster.jobs import submit

    with _quiet():
        job = submit(os.getpid, folder=runs, backend="local").wait(progress=False)
    files = {p.name: p.read_bytes() for p in job.folder.iterdir() if p.is_file()}
    run = read_json(job.folder / "run.json")
    for i in range(n - 1):
        folder = runs / f"train-{i:012x}"
        folder.mkdir(mode=0o700)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        write_json(folder / "run.json", run | {"key": f"{i:064x}", "own": f"{i:016x}", "name": "train"})


versions = scheduler.versions
SECTIONS = {"latency": latency, "calls": calls, "table": table}
