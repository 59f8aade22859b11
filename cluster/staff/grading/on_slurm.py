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
from typing import TYPE_CHECKING, Any

import cluster
from cluster.slurm import client

from ..course import CourseError

if TYPE_CHECKING:
    from .dispatch import Dispatch, Plan

ASK = 2.0  # seconds between two queries to Slurm
ANSWER = 30  # seconds for Slurm to answer; arrays of hundreds of tasks take longer than jobs
OVER = (
    "COMPLETING",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
)
LARGEST = 32  # maximum submissions per task
START = 5  # minutes of a task's time limit besides grading
# MiB per worker in addition to the memory of a student process, for the test process and the grader
SPARE = 1024


@dataclass
class Array:
    """One array per dispatch. cpus: CPUs per task, which grades at most as many submissions at a time."""

    account: str | None = None
    partition: str | None = None
    cpus: int = 2
    tasks: int = 32  # maximum number of tasks of an array that run at a time
    memory: int = 4096  # MiB for the process of one student
    seconds: float = 600  # time limit for one submission

    kind = "slurm"
    settle = 15.0  # seconds that a shared file system may take to show a worker's last output

    def __post_init__(self) -> None:
        self.workers, self.slots, self.largest = self.cpus, self.tasks, LARGEST
        # {name of an array: rows of squeue, None if Slurm did not answer}; `remembered` adds the query's time
        self.answers: dict[str, list[list[str]] | None] = {}
        self.remembered: dict[str, tuple[float, list[list[str]] | None]] = {}

    def fit(self) -> None:
        """Reduce the time per task and the CPUs and memory per node to the partition's limits, if Slurm
        reports them.

        Raises CourseError if not even one submission could ever start.
        """
        from cluster.slurm import limits

        try:
            answer = client.ask("sinfo", "--noheader", "--exact", f"--format={limits.FORMAT}", timeout=ANSWER)
        except client.SlurmError:
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
        """Return the resources that a task requests, with the keys that `cluster.jobs` uses."""
        return {
            "partition": self.partition, "nodes": 1, "ranks_per_node": 1, "gpus_per_rank": 0,
            "cpus_per_rank": cpus, "memory": cpus * (self.memory + SPARE),
            "time": 60 * self.minutes(cpus, submissions),
        }  # fmt: skip

    def minutes(self, cpus: int, submissions: int) -> int:
        """Return the time limit of a task that grades this many submissions, one per CPU at a time."""
        return math.ceil(math.ceil(submissions / cpus) * self.seconds / 60 + START)

    def start(self, dispatch: Dispatch) -> None:
        """Submit the array with sbatch. Raises CourseError if Slurm rejects it."""
        text = script(dispatch.plan, dispatch.folder, self)
        (dispatch.folder / "array.sh").write_text(text)
        try:
            client.ask("sbatch", "--parsable", str(dispatch.folder / "array.sh"), timeout=ANSWER)
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
        at, answer = self.remembered.get(name, (-1e9, None))
        if time.monotonic() - at > ASK:
            try:
                command = ("squeue", "--array", "--noheader", f"--name={name}", "--format=%K|%T|%r")
                rows = client.ask(*command, timeout=ANSWER)
                answer = [row.split("|", 2) for row in rows.splitlines()]
            except client.SlurmError:
                answer = None
            self.remembered[name] = time.monotonic(), answer
            self.answers[name] = answer
        if answer and {state for _, state, _ in answer} == {"PENDING"}:
            self.refuse_to_wait(dispatch, answer[0][2])
        if answer is None or (not answer and time.time() - dispatch.plan["sent"] < self.settle):
            return None
        return {int(number) for number, state, _ in answer if state not in OVER}

    def refuse_to_wait(self, dispatch: Dispatch, reason: str) -> None:
        """Cancel the array if Slurm will never start it. Raises CourseError with the reason."""
        from cluster.slurm import states

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

    def end(self, dispatch: Dispatch) -> None:
        """Do nothing: a task that no longer finds its plan ends by itself."""
        self.answers.pop(dispatch.plan["job"], None)

    def status(self) -> str:
        """Describe how many tasks are pending, with Slurm's reason and an explanation."""
        if None in self.answers.values():
            return "Slurm does not answer; asking again"
        waiting = [row for rows in self.answers.values() for row in rows or () if row[1] == "PENDING"]
        if not waiting:
            return ""
        from cluster.slurm import states

        return f"{len(waiting)} tasks wait: {states.reason(waiting[0][2]).what}"


def script(plan: Plan, folder: Path, array: Array, python: str = sys.executable) -> str:
    """Return the batch script of a plan, as text."""
    longest = max(len(part) for part in plan["parts"])
    output_folder = str(folder).replace("%", "%%")
    options = {
        "job-name": plan["job"],
        "array": f"0-{len(plan['parts']) - 1}%{array.tasks}",
        "cpus-per-task": array.cpus,
        "mem": f"{array.cpus * (array.memory + SPARE)}M",
        "time": array.minutes(array.cpus, longest),
        "output": f"{output_folder}/part-%a.log",
        "export": "NONE",
        "account": array.account,
        "partition": array.partition,
    }
    lines = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in options.items() if value]
    path = shlex.quote(str(Path(cluster.__file__).parents[1]))
    # -P: no module is imported from the current directory, which may be a student's.
    worker = f"{shlex.quote(python)} -P -m cluster.staff.grading.worker {shlex.quote(str(folder))}"
    head = ["#!/bin/bash", *lines, "#SBATCH --no-requeue", "#SBATCH --open-mode=append", "umask 077"]
    return "\n".join([*head, f"export PYTHONPATH={path}", f'exec {worker} "$SLURM_ARRAY_TASK_ID"', ""])
