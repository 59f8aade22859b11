"""What jobs cost: from submission to start and to result, in questions to the scheduler, and to list."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import time
from pathlib import Path

from .measure import Found, interleaved, rows

ABOUT = "time to start and to the result, scheduler calls, the table of jobs"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this part."""
    parser.add_argument("--records", type=int, default=1000, help="recorded runs to list (1000)")


def table(options: argparse.Namespace) -> Found:
    """The cost of `jobs()` with many recorded runs that have ended, and of printing it."""
    import cluster

    with tempfile.TemporaryDirectory() as name:
        runs = Path(name) / "runs"
        _recorded(runs, options.records)

        def listing() -> dict[str, float]:
            at = time.perf_counter()
            found = cluster.jobs(folder=runs)
            between = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                print(found)
            return {"jobs()": between - at, "print(jobs())": time.perf_counter() - at}

        values = interleaved({f"{options.records} recorded runs": listing}, options.repeats or 7)
    aim = f"print(jobs()) with {options.records} recorded runs takes less than 1 s"
    return Found(rows(values), [(aim, max(v for w, v in _medians(values) if w == "print(jobs())") < 1)])


def _medians(values: dict) -> list[tuple[str, float]]:
    return [(what, sorted(v)[len(v) // 2]) for (what, _), v in values.items()]


def _recorded(runs: Path, n: int) -> None:
    """Folders of n runs that are copies of one real run."""
    from cluster.jobs import ledger, submit

    with contextlib.redirect_stdout(io.StringIO()):
        job = submit(os.getpid, folder=runs, backend="local").wait(progress=False)
    files = {p.name: p.read_bytes() for p in job.folder.iterdir() if p.is_file()}
    run = ledger.read(job.folder / "run.json")
    for i in range(n - 1):
        folder = runs / f"train-{i:012x}"
        folder.mkdir(mode=0o700)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        ledger.write(folder / "run.json", run | {"key": f"{i:064x}", "own": f"{i:016x}", "name": "train"})


SECTIONS = {"table": table}
