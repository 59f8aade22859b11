"""The doctor's report, and how its checks ask commands, Horovod and Slurm, and run a job."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.jobs import Job, JobError, submit
from cluster.jobs.show import render
from cluster.slurm import client, words

ADMINISTRATOR = "Show this line to your administrator."
NOT_SHARED = "On a cluster of several machines, set CLUSTER_RUNS to a folder that all nodes see."
MARKS = {"ok": "ok", "warn": "note", "bad": "BAD"}


@dataclass(frozen=True)
class Item:
    """One finding: its `mark` ('ok', 'warn' or 'bad') and actions for the student and the administrator."""

    mark: str
    subject: str
    finding: str
    student: str = ""
    administrator: str = ""


@dataclass
class Report:
    """The findings of `doctor`, one `Item` each; `ok` is true if no item is bad."""

    items: list[Item] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(i.mark != "bad" for i in self.items)

    def add(self, mark: str, subject: str, finding: str, student: str = "", administrator: str = "") -> None:
        """Append an item. What only the administrator can mend, the student shows to the administrator."""
        if administrator and not student:
            student = ADMINISTRATOR
        self.items.append(Item(mark, subject, finding, student, administrator))

    def expect(
        self,
        subject: str,
        good: str | None,
        problem: str,
        student: str,
        administrator: str,
        mark: str = "bad",
    ) -> None:
        """Append what was found, `good`, as ok; if it is empty, the problem with its mark and actions."""
        if good:
            self.add("ok", subject, good)
        else:
            self.add(mark, subject, problem, student, administrator)

    def item(self, subject: str) -> Item:
        """Return the item with this subject; raises LookupError, which lists the existing subjects."""
        match = next((i for i in self.items if i.subject == subject), None)
        if match is None:
            raise LookupError(f"{subject!r} is not one of {[i.subject for i in self.items]}.")
        return match

    def __repr__(self) -> str:
        return "\n".join(render.text(self._view(), 10_000))

    def _repr_html_(self) -> str:
        return render.page(self._view())

    def _view(self) -> render.View:
        counts = {m: sum(i.mark == m for i in self.items) for m in MARKS}
        view = render.View(notes=[f"{counts['ok']} ok, {counts['warn']} to note, {counts['bad']} bad."])
        for i in self.items:
            steps = [i.student] if i.student else []
            steps += [f"administrator: {i.administrator}"] if i.administrator else []
            view.rows.append(render.Row(i.subject, None, [i.finding], MARKS[i.mark], steps))
        return view


def ask(
    *command: str, text: str | None = None, env: Mapping[str, str] = os.environ, stderr: bool = False
) -> tuple[bool, str]:
    """Return (whether a command succeeded, its output or, if it failed, the last line of its message).

    The time limit is client.ANSWER seconds. text: standard input. stderr: return stdout and stderr, even if
    it failed.
    """
    streams = {"stderr": subprocess.STDOUT} if stderr else {}
    try:
        return True, client.ask(*command, input=text, env=env, **streams)
    except client.SlurmError as e:
        return False, e.what if stderr else e.what.splitlines()[-1]


def run_job(
    report: Report,
    subject: str,
    log: str,
    function: Callable,
    *args: Any,
    timeout: float = 300,
    **options: Any,
) -> Job | None:
    """Run a job and return it; if it fails, or takes longer than `timeout` s, add a finding and return None.

    log: what the administrator can look at then. options: of `submit`.
    """
    try:
        job = submit(function, *args, rerun=True, **options).wait(timeout)
        job.results()
        return job
    except JobError as e:
        report.add("bad", subject, e.what.splitlines()[0], e.next_step, log)
        return None


@functools.cache
def built() -> tuple[bool, bool, int]:
    """Return (Horovod supports Gloo, supports MPI, its version of NCCL or 0), from a process that imports it.

    NCCL's version is the number in nccl.h, such as 22105 for 2.21.5.
    """
    code = "import horovod.tensorflow as h; print(h.gloo_built(), h.mpi_built(), int(h.nccl_built()))"
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    gloo, mpi, nccl = done.stdout.split()[-3:] if done.returncode == 0 else ("False", "False", "0")
    return gloo == "True", mpi == "True", int(nccl)


def file_system(path: Path) -> str:
    """Return the type of a path's file system, such as 'nfs', or 'unknown'."""
    good, kind = ask("stat", "--file-system", "--format=%T", str(path))
    return kind.strip() if good else "unknown"


def gpus_here() -> tuple[int, str]:
    """Return (number of this machine's GPUs, why there are none)."""
    if not shutil.which("nvidia-smi"):
        return 0, "no nvidia-smi on PATH"
    good, answer = ask("nvidia-smi", "-L")
    count = sum(line.startswith("GPU ") for line in answer.splitlines()) if good else 0
    return count, "" if count else f"nvidia-smi: {answer.strip() or 'no devices'}"


def nodes_of_slurm() -> list[tuple[str, str, int]]:
    """Return [(partition, node, number of the node's GPUs)]; the default partition's name ends with *."""
    _, answer = ask("sinfo", "-h", "-N", "-o", "%P|%N|%G")
    rows = [line.split("|") for line in answer.splitlines() if line.count("|") == 2]
    return [(partition, node, words.gpus(gres)) for partition, node, gres in rows]
