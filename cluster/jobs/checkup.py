"""`doctor`: what is there to run jobs with, what is missing, and who can mend it how.

The parts: this module looks at this machine, `checkslurm` asks Slurm, `checkrun` runs jobs that prove it.
"""

from __future__ import annotations

import functools
import html
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import backends, ledger, local, private, record
from .errors import JobError
from .view import BAD, COLOURS

MARKS = {"ok": "ok  ", "warn": "note", "bad": "BAD "}
NOT_SHARED = "On a cluster of several machines set CLUSTER_RUNS to a folder that all nodes see."
SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "fuse", "afs", "panfs", "orangefs", "9p")


@dataclass(frozen=True)
class Item:
    """One finding: `mark` is 'ok', 'warn' or 'bad'; what a student can do, and what an administrator can."""

    mark: str
    subject: str
    finding: str
    student: str = ""
    administrator: str = ""


@dataclass
class Report:
    """What `doctor` found, one `Item` after another; `ok` when none is bad."""

    items: list[Item] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(i.mark != "bad" for i in self.items)

    def add(self, mark: str, subject: str, finding: str, student: str = "", administrator: str = "") -> None:
        """Append an item. What is not well has a next step for both."""
        self.items.append(Item(mark, subject, finding, student, administrator))

    def of(self, subject: str) -> Item:
        """The item of a subject; raises LookupError with those there are."""
        found = next((i for i in self.items if i.subject == subject), None)
        if found is None:
            raise LookupError(f"{subject!r} is none of {[i.subject for i in self.items]}.")
        return found

    def __repr__(self) -> str:
        width = max(len(i.subject) for i in self.items)
        rows = []
        for i in self.items:
            rows.append(f"{MARKS[i.mark]} {i.subject:{width}}  {i.finding}")
            steps = [("→", i.student), ("→ administrator:", i.administrator)]
            rows += [f"{'':{width + 7}}{who} {step}" for who, step in steps if step]
        return "\n".join([*rows, self._sum()])

    def _repr_html_(self) -> str:
        colours = {"ok": COLOURS["done"], "warn": COLOURS["pending"], "bad": BAD}
        rows = []
        for i in self.items:
            text = html.escape(i.finding)
            text += f"<br>&rarr; {html.escape(i.student)}" if i.student else ""
            text += (
                f"<br>&rarr; <i>administrator:</i> {html.escape(i.administrator)}" if i.administrator else ""
            )
            dot = f'<span style="color:{colours[i.mark]}">&#9679;</span> {html.escape(i.subject)}'
            rows.append("".join(f'<td style="text-align:left">{c}</td>' for c in (dot, text)))
        return f"<table>{''.join(f'<tr>{r}</tr>' for r in rows)}</table><div>{html.escape(self._sum())}</div>"

    def _sum(self) -> str:
        counts = {m: sum(i.mark == m for i in self.items) for m in MARKS}
        return f"{counts['ok']} well, {counts['warn']} to note, {counts['bad']} bad."


def doctor(run: bool = False) -> Report:
    """Look at what jobs need here: versions, Horovod's controllers, MPI, Slurm, the folder of runs.

    run: also run jobs of two ranks with each controller that is there. They prove the world size, and on
    Slurm that the nodes see the folder, use the same packages, tell the same time and limit memory (about
    10 s each). Nothing is changed, apart from those recorded jobs.

    >>> doctor()                                                                    # doctest: +SKIP
    """
    from . import checkrun, checkslurm

    report = Report()
    _python(report)
    slurm = checkslurm.look(report)
    _folder(report, slurm)
    report.add("ok", "this machine", f"{record.machine()['cpu']}, up to {local.max_ranks()} local ranks")
    if run:
        checkrun.look(report, slurm)
    else:
        words = "no job was run to prove the world size" + (" and what the nodes see" if slurm else "")
        report.add("warn", "jobs", words, "python -m cluster doctor --run", "The same, as a student.")
    return report


def _python(report: Report) -> None:
    found = record.versions()
    for name in ("tensorflow", "horovod"):
        if name in found:
            report.add("ok", name, found[name])
        else:
            step = "Use the course's environment: run the same with its python."
            report.add("bad", name, f"not installed in {sys.executable}", step, "make setup builds it")
    if "horovod" in found:
        gloo, mpi = built()
        report.add("ok" if gloo else "bad", "Gloo", *(("built in",) if gloo else _NO_GLOO))
        report.add("ok" if mpi else "warn", "MPI", *(("built in",) if mpi else _NO_MPI))
    mpirun = shutil.which("mpirun")
    steps = () if mpirun else ("Only controller='mpi' needs it.", "apt-get install openmpi-bin, or a module")
    report.add("ok" if mpirun else "warn", "mpirun", mpirun or "not on PATH", *steps)


_NO_GLOO = ("not built in", "Use controller='mpi'.", "Build Horovod anew: make setup asks for Gloo.")
_NO_MPI = (
    "not built in",
    "Use controller='gloo', the default.",
    "Build Horovod anew where mpicxx is on PATH.",
)


@functools.cache
def built() -> tuple[bool, bool]:
    """Whether Horovod has Gloo, and MPI; asked in another process, for it loads TensorFlow."""
    code = "import horovod.tensorflow as hvd; print(hvd.gloo_built(), hvd.mpi_built())"
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    gloo, mpi = [*said.stdout.split(), "False", "False"][:2]
    return gloo == "True", mpi == "True"


def _folder(report: Report, slurm: bool) -> None:
    root = ledger.root()
    try:
        private.check_runs(root)
    except JobError as e:
        step = "Give each user a folder that only they can write to."
        report.add("bad", "runs", e.what, e.next_step, step)
        return
    there = next(p for p in (root, *root.parents) if p.exists())
    if not os.access(there, os.W_OK):
        step = "Set CLUSTER_RUNS to a folder of yours that can be written."
        report.add("bad", "runs", f"{root} cannot be written", step, "Give each user a folder to write to.")
        return
    free, kind = shutil.disk_usage(there).free / 2**30, file_system(there)
    finding = f"{root}, {free:.0f} GiB free ({kind})"
    if free < 1:
        report.add(
            "warn", "runs", finding, "Delete old runs, or set CLUSTER_RUNS.", "Less than 1 GiB is free."
        )
    elif slurm and not any(k in kind for k in SHARED):
        step = "Homes, or such a folder, belong on a shared file system."
        report.add("warn", "runs", finding, NOT_SHARED, step)
    else:
        report.add("ok", "runs", finding)


def file_system(path: Path) -> str:
    """The kind of file system a path lies on, such as 'nfs'; 'unknown' where no one can tell."""
    good, kind = ask("stat", "--file-system", "--format=%T", str(path))
    return kind.strip() if good else "unknown"


def ask(*command: str, text: str | None = None) -> tuple[bool, str]:
    """(whether it went well, what it printed, else its complaint) of a command, within ANSWER seconds."""
    env = backends.environment()
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER, input=text, env=env)
    except subprocess.TimeoutExpired:
        return False, f"{command[0]} did not answer within {ANSWER} s"
    except OSError as e:
        return False, f"{command[0]}: {e.strerror}"
    if said.returncode:
        lines = (said.stderr or said.stdout).strip().splitlines()
        return False, lines[-1] if lines else f"{command[0]} ended with {said.returncode}"
    return True, said.stdout + (said.stderr if "--mpi=list" in command else "")


ANSWER = 5  # seconds a command has to answer


def slurm_missing() -> str | None:
    """Why Slurm cannot be used, or None; not from memory, as jobs have it."""
    backends._seen.clear()
    return backends.no_slurm()
