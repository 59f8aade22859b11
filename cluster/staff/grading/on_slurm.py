"""Workers as the tasks of one Slurm array, under an account with limited rights.

The job has a unique name, recorded before sbatch is called. If a coordinator is killed at any moment, its
successor therefore finds the array in the queue, or knows that there is none.
"""

from __future__ import annotations

import itertools
import math
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import cluster
from cluster.jobs.backends import batch_script
from cluster.jobs.run.run_folder import RunRecord
from cluster.slurm import client, limits, states

from ..course import CourseError
from . import worker
from .driver import Backend, Dispatch

ASK = 2.0  # seconds between two queries to Slurm
LARGEST = 32  # maximum submissions per task
START = 5  # minutes of a task's time limit besides grading
# MiB per worker in addition to the memory of a student process, for the test process and the grader
SPARE = 1024


@dataclass
class Array(Backend):
    """One array per dispatch. cpus: CPUs per task, which grades at most as many submissions at a time."""

    account: str | None = None
    partition: str | None = None
    cpus: int = 2
    tasks: int = 32  # maximum number of tasks of an array that run at a time
    memory: int = 4096  # MiB for the process of one student
    seconds: float = 600  # time limit for one submission

    kind = "slurm"
    pause = 0.5
    settle = 15.0  # seconds that a shared file system may take to show a worker's last output

    def __post_init__(self) -> None:
        self.workers, self.slots, self.largest = self.cpus, self.tasks, LARGEST
        self.rows: list[list[str]] | None = []  # the last answer of squeue, None if there was none

    def fit(self) -> None:
        """Reduce the time per task and the CPUs and memory per node to the partition's limits, if Slurm
        reports them.

        Raises CourseError if not even one submission could ever start.
        """
        answer = client.ask_or_none("sinfo", "--noheader", "--exact", f"--format={limits.FORMAT}")
        if answer is None:
            return
        offers = limits.read_partitions(answer.splitlines())
        for cpus, n in itertools.product(range(self.cpus, 0, -1), range(LARGEST, 0, -1)):
            try:
                limits.check(self.request(cpus, n), offers)
            except limits.TooMuch as error:
                why = error.what
                continue
            self.cpus, self.workers, self.largest = cpus, cpus, n
            return
        raise CourseError(
            f"Slurm would leave the job array pending indefinitely. {why} See --partition and --limit "
            "total=… memory=…, or grade on this machine with --backend local"
        )

    def request(self, cpus: int, submissions: int) -> dict[str, Any]:
        """Return the options of a task that grades this many submissions, as `cluster.jobs` records them."""
        minutes = math.ceil(math.ceil(submissions / cpus) * self.seconds / 60 + START)
        return {
            "partition": self.partition, "nodes": 1, "ranks_per_node": 1, "gpus_per_rank": 0,
            "cpus_per_rank": cpus, "memory": cpus * (self.memory + SPARE), "time": 60 * minutes,
            "sbatch": {"export": "NONE"} | ({"account": self.account} if self.account else {}),
        }  # fmt: skip

    def start(self, dispatch: Dispatch) -> None:
        """Submit the array with sbatch. Raises CourseError if Slurm rejects it."""
        text = script(dispatch.plan["job"], [len(part) for part in dispatch.parts], dispatch.folder, self)
        (dispatch.folder / "array.sh").write_text(text)
        try:
            client.ask("sbatch", "--parsable", str(dispatch.folder / "array.sh"))
        except client.SlurmError as error:
            if not error.answered:
                return
            why = error.what.removeprefix("sbatch: error: ").removesuffix(".")
            raise CourseError(
                f"Slurm rejected the job array: {why}. Nothing is lost; see --account, --partition,"
                " --cpus and --limit memory=…, or grade on this machine with --backend local"
            ) from None

    def running(self, dispatch: Dispatch) -> set[int] | None:
        """Return the parts that are pending or running, or None if Slurm does not answer."""
        name = dispatch.plan["job"]
        command = ("squeue", "--array", "--noheader", f"--name={name}", "--format=%K|%T|%r")
        answer = client.shared_answer(f"array {name}", lambda: client.ask_or_none(*command), ASK)
        self.rows = None if answer is None else [row.split("|", 2) for row in answer.splitlines()]
        if self.rows and {state for _, state, _ in self.rows} == {"PENDING"}:
            self.refuse_to_wait(dispatch, self.rows[0][2])
        if self.rows is None or (not self.rows and time.time() - dispatch.plan["sent"] < self.settle):
            return None
        going = [row for row in self.rows if row[1] != "COMPLETING" and states.state(row[1]).ending is None]
        return {int(number) for number, _, _ in going}

    def refuse_to_wait(self, dispatch: Dispatch, reason: str) -> None:
        """Cancel the array if Slurm will never start it. Raises CourseError with the reason."""
        row = states.reason(reason)
        if row.never:
            (dispatch.folder / "plan.json").unlink(missing_ok=True)
            # If this fails, the array stays in the queue, and each of its tasks ends at once without a plan.
            client.ask_or_none("scancel", f"--name={dispatch.plan['job']}")
            raise CourseError(
                f"Slurm would leave the job array pending indefinitely ({reason}): {row.what} It has been "
                "cancelled, and nothing is lost. See --account, --partition, --cpus and --limit total=…, "
                "or --backend local"
            )

    def status(self) -> str:
        """Describe how many tasks are pending, with Slurm's reason and an explanation."""
        if self.rows is None:
            return "Slurm does not answer; asking again"
        waiting = [reason for _, state, reason in self.rows if state == "PENDING"]
        return f"{len(waiting)} tasks wait: {states.reason(waiting[0]).what}" if waiting else ""


def script(job: str, sizes: list[int], folder: Path, array: Array, python: str = sys.executable) -> str:
    """Return the batch script of an array, as text.

    job: its name. sizes: the number of submissions of each task. folder: the folder of the dispatch.
    """
    run = cast(RunRecord, {"name": job, "options": array.request(array.cpus, max(sizes))})
    output = str(folder).replace("%", "%%") + "/part-%a.log"
    tasks = f"0-{len(sizes) - 1}%{array.tasks}"
    path = shlex.quote(str(Path(cluster.__file__).parents[1]))
    # -P: no module is imported from the current directory, which may be a student's.
    command = f"{shlex.quote(python)} -P -m {worker.__name__} {shlex.quote(str(folder))}"
    return f"""#!/bin/bash
{batch_script.header(run, array=tasks, output=output)}
umask 077
export PYTHONPATH={path}
exec {command} "$SLURM_ARRAY_TASK_ID"
"""
