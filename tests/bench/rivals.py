"""Run the same small function through cluster.jobs, through plain sbatch and squeue, or through submitit, and
time it.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

_n = itertools.count()


def stamps(work: float = 0.1) -> list[float]:
    """Sleep for `work` seconds; return [start, end] in Unix time."""
    import time  # inside the function, because submitit sends only the function

    begun = time.time()
    time.sleep(work)
    return [begun, time.time()]


def ours(folder: Path, backend: str) -> dict[str, float]:
    """Run the function through `submit` and `result`."""
    from cluster.jobs import submit

    at = time.time()
    job = submit(stamps, 0.1 + 1e-9 * next(_n), memory="512M", backend=backend, folder=folder / "runs")
    return _times(at, time.time(), job.result(progress=False))


def plain(folder: Path) -> dict[str, float]:
    """Run a batch script that writes a file; query squeue once per second until the job is gone."""
    out = folder / f"plain-{next(_n)}.json"
    code = f"import json; from tests.bench.rivals import stamps; json.dump(stamps(), open({str(out)!r}, 'w'))"
    script = f'#!/bin/sh\nexec {sys.executable} -c "{code}"\n'
    at = time.time()
    result = subprocess.run(
        ["sbatch", "--parsable", "--mem=512M", "--output=/dev/null", f"--chdir={Path.cwd()}"],
        input=script, capture_output=True, text=True, check=True,
    )  # fmt: skip
    submitted, number = time.time(), result.stdout.strip()
    while subprocess.run(
        ["squeue", "-h", "-j", number], capture_output=True, text=True, check=True
    ).stdout.strip():
        time.sleep(1)
    return _times(at, submitted, json.loads(out.read_text()))


def executor(folder: Path, **more: object) -> object:
    """Return submitit's executor, with the same resources as the other sides."""
    from submitit import AutoExecutor

    result = AutoExecutor(folder=folder / "submitit", cluster="slurm")
    result.update_parameters(timeout_min=10, slurm_mem="512M", cpus_per_task=1, **more)
    return result


def submitit(folder: Path) -> dict[str, float]:
    """Run the function through submitit's executor and its `result`."""
    at = time.time()
    job = executor(folder).submit(stamps)
    return _times(at, time.time(), job.result())


def _times(at: float, submitted: float, inside: list[float]) -> dict[str, float]:
    now, (begun, ended) = time.time(), inside
    return {
        "call that submits": submitted - at,
        "submission to start": begun - at,
        "end to result": now - ended,
        "submission to result": now - at,
    }
