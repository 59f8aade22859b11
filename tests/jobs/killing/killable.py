"""The function that is submitted and killed, and helpers that submit it. `called` adds a line to the file
`calls` in the folder CALLED; the files `fail` and `wait` there make it fail or wait."""

import os
import time
from pathlib import Path

import cluster
from cluster.jobs import log


def called(item):
    place = Path(os.environ["CALLED"])
    with open(place / "calls", "a") as f:
        f.write(f"{item}\n")
    log(step=1, steps=1)
    if (place / "fail").exists():
        raise ValueError("told to fail")
    while (place / "wait").exists():
        time.sleep(0.05)
    return item * 10


def ask(kind, folder, backend=None):
    """Submit a job or a sweep to `folder`/runs, with its calls counted in `folder`."""
    os.environ.update(CALLED=str(folder), CLUSTER_RUNS=str(folder / "runs"))
    options = {"memory": "100M", "requeue": kind.endswith("cancelled")}
    if kind.startswith("submit"):
        return cluster.submit(called, 7, **options)
    return cluster.map(called, [7, 8] if kind == "map of two" else [7], **options)


def result(kind, job):
    """Return the result of a job or the results of a sweep from `ask`, as a list."""
    return [job.result(progress=False)] if kind.startswith("submit") else job.results(progress=False)


def former(kind, folder):
    """Create an earlier run, failed or cancelled, that a submission of this kind will find."""
    folder.mkdir(parents=True)
    (folder / "fail" if kind.endswith("failed") else folder / "wait").touch()
    job = ask(kind, folder)
    while kind.endswith("cancelled") and not (folder / "calls").exists():
        time.sleep(0.05)
    assert (job.cancel() if kind.endswith("cancelled") else job.wait(progress=False)).status != "done"
