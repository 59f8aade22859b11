"""Kill a submission once at each step: `python -m tests.jobs.killing.submitter KIND PLACE [made]`.

The first submission, in PLACE/dry, is not killed and records the steps. Then, for each possible way to kill
it (see sitecustomize), a forked process submits to a separate folder, PLACE/<step>-<how>, and is killed. The
folder's name is printed. With `made`, only the steps after the creation of the job's folder are tried.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from cluster import jobs
from cluster.jobs import backends
from cluster.jobs.submission import plan
from cluster.slurm import client

from . import killable, sitecustomize


def forked(folder, *choices):
    """Submit in a forked process; return whether it was killed."""
    folder.mkdir(parents=True)
    if folder.name != "dry":
        (folder / "wait").touch()  # so that a job that has started is found running
    if (place / "former").exists():
        shutil.copytree(place / "former/runs", folder / "runs")
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sitecustomize.arm(str(folder / "runs"), *choices)
        killable.ask(kind, folder)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), f"{folder.name}: {code}"
    client._answers.clear()
    # list the jobs at once, as another process might, while processes of the job are still running
    for job in jobs(folder=folder / "runs"):
        assert job.status in ("pending", "running", "lost", "failed", "cancelled", "done")
    return code != 0


kind, place = sys.argv[1], Path(sys.argv[2])
backends.CUT_OFF = 0.0  # only the lock shows whether the process is still submitting
plan(killable.called, (7,), {}).run_json("local")  # determines the versions once, in this process
if "-" in kind:
    killable.former(kind, place / "former")
assert not forked(place / "dry", str(place / "steps"))
steps = (place / "steps").read_text().splitlines()
made = next(n for n, step in enumerate(steps, 1) if step.startswith("os.rename .new-")) if sys.argv[3:] else 0
for at, how in sitecustomize.ways(steps):
    if at <= made:
        continue
    assert forked(place / f"{at}-{how}", None, at, how), f"step {at} was not reached"
    print(f"{at}-{how}", flush=True)
