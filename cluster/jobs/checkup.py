"""`doctor`: what is there to run jobs with, what is missing, and how to get it."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from . import backends, ledger, local, record
from .errors import JobError
from .view import BAD, COLOURS

MARKS = {"ok": "ok  ", "warn": "note", "bad": "BAD "}


@dataclass
class Report:
    """What `doctor` found: `lines` of (mark, subject, finding, next step); `ok` when none is bad."""

    lines: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(mark != "bad" for mark, *_ in self.lines)

    def add(self, mark: str, subject: str, finding: str, step: str = "") -> None:
        self.lines.append((mark, subject, finding, step))

    def __repr__(self) -> str:
        width = max(len(subject) for _, subject, _, _ in self.lines)
        rows = []
        for mark, subject, finding, step in self.lines:
            rows.append(f"{MARKS[mark]} {subject:{width}}  {finding}")
            rows += [f"{'':{width + 7}}→ {step}"] if step else []
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        colours = {"ok": COLOURS["done"], "warn": COLOURS["pending"], "bad": BAD}
        rows = []
        for mark, subject, finding, step in self.lines:
            text = html.escape(finding) + (f"<br>&rarr; {html.escape(step)}" if step else "")
            dot = f'<span style="color:{colours[mark]}">&#9679;</span> {html.escape(subject)}'
            rows.append("".join(f'<td style="text-align:left">{c}</td>' for c in (dot, text)))
        return f"<table>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"


def doctor(run: bool = False) -> Report:
    """Look at what jobs need here: versions, Horovod's controllers, MPI, Slurm, the folder of runs.

    run: also run a job of two ranks with each controller that is there, which proves the world size (about
    10 s each). Nothing is changed, apart from those recorded jobs.

    >>> doctor()                                                                    # doctest: +SKIP
    """
    report = Report()
    _python(report)
    slurm = backends.no_slurm()
    _slurm(report, slurm)
    _folder(report, slurm is None)
    report.add("ok", "this machine", f"{record.machine()['cpu']}, up to {local.max_ranks()} local ranks")
    if run:
        for controller in ("gloo", "mpi") if slurm is None or shutil.which("mpirun") else ("gloo",):
            _two_ranks(report, controller)
    return report


def _python(report: Report) -> None:
    found = record.versions()
    for name in ("tensorflow", "horovod"):
        if name in found:
            report.add("ok", name, found[name])
        else:
            report.add("bad", name, "not installed", "make setup builds the environment")
    code = "import horovod.common.util as u; print(u.gloo_built(), u.mpi_built())"
    if "horovod" in found:
        env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        gloo, mpi = [*said.stdout.split(), "False", "False"][:2]
        report.add(
            "ok" if gloo == "True" else "bad", "Gloo", "built in" if gloo == "True" else "not built in"
        )
        report.add("ok" if mpi == "True" else "warn", "MPI", "built in" if mpi == "True" else "not built in")
    mpirun = shutil.which("mpirun")
    step = "" if mpirun else "Only controller='mpi' needs it: apt-get install openmpi-bin"
    report.add("ok" if mpirun else "warn", "mpirun", mpirun or "not on PATH", step)


def _slurm(report: Report, missing: str | None) -> None:
    if missing:
        report.add("warn", "Slurm", missing, "Jobs run on this machine, by the local backend.")
        return
    report.add("ok", "Slurm", _first("sbatch", "--version"))
    munge = _first("munge", "-n")
    report.add("ok" if munge else "warn", "munge", "answers" if munge else "does not answer on this machine")
    pmix = "pmix" in _all("srun", "--mpi=list")
    report.add(
        "ok" if pmix else "warn", "PMIx", "there" if pmix else "not there: controller='mpi' will not work"
    )
    rows = [r.split("|") for r in _all("sinfo", "-h", "-o", "%P|%l|%D|%G|%a").splitlines()]
    for name, limit, nodes, gres, state in rows:
        finding = f"{state}, {nodes} nodes, at most {limit}, GRES {gres}"
        report.add("ok" if state == "up" else "warn", f"partition {name}", finding)
    storage = [
        x for x in _all("scontrol", "show", "config").splitlines() if x.startswith("AccountingStorageType")
    ]
    kept = bool(storage) and "none" not in storage[0]
    step = "" if kept else "An unknown account or QOS is accepted, and sacct knows nothing of ended jobs."
    report.add("ok" if kept else "warn", "accounting", "kept" if kept else "not kept", step)


def _folder(report: Report, slurm: bool) -> None:
    root = ledger.root()
    there = next(p for p in (root, *root.parents) if p.exists())
    free = shutil.disk_usage(there).free / 2**30
    if not os.access(there, os.W_OK):
        report.add("bad", "runs", f"{root} cannot be written", "Set CLUSTER_RUNS to a folder of yours.")
        return
    kind = _first("stat", "--file-system", "--format=%T", str(there))
    shared = any(k in kind for k in ("nfs", "lustre", "gpfs", "beegfs", "ceph", "fuse"))
    note = (
        "" if shared or not slurm else "On a cluster of several machines it must be on a shared file system."
    )
    report.add("warn" if note else "ok", "runs", f"{root}, {free:.0f} GiB free ({kind})", note)


def _two_ranks(report: Report, controller: str) -> None:
    from .submission import submit

    try:
        sizes = submit(
            world_size, ranks_per_node=2, controller=controller, rerun=True, name="doctor"
        ).results()
        good = sizes == [2, 2]
        finding = f"a job of two ranks saw the world sizes {sizes}"
        report.add("ok" if good else "bad", f"two ranks, {controller}", finding)
    except JobError as e:
        report.add("bad", f"two ranks, {controller}", e.what, e.next_step)


def world_size() -> int:
    """The number of ranks that Horovod sees."""
    import horovod.tensorflow as hvd

    hvd.init()
    return hvd.size()


def _all(*command: str) -> str:
    try:
        said: Any = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout + (said.stderr if "--mpi=list" in command else "")


def _first(*command: str) -> str:
    return (_all(*command).splitlines() or [""])[0]
