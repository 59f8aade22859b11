"""`doctor()`: report what is available to run jobs, what is missing, and who can fix it.

This module examines the local machine (versions, MPI, the folder of runs), `slurm_checks` queries Slurm, and
`trial` runs test jobs.
"""

from __future__ import annotations

import os
import shutil
import sys

from cluster.jobs.backends import local
from cluster.jobs.errors import JobError
from cluster.jobs.run import layout, private, provenance

from . import findings, slurm_checks, trial
from .findings import NOT_SHARED, Report

SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "fuse", "afs", "panfs", "orangefs", "9p")


def doctor(run: bool = False) -> Report:
    """Check what jobs need here: versions, Horovod's controllers, MPI, Slurm, the folder of runs.

    run: also run jobs of two ranks with each available controller. They verify the world size and, on Slurm,
    that the nodes see the folder, have the same packages and time, and limit memory (about 10 s each).
    Nothing is changed apart from these recorded jobs.

    >>> doctor()                                                                    # doctest: +SKIP
    """
    report = Report()
    _python(report)
    slurm = slurm_checks.look(report)
    _folder(report, slurm is not None)
    report.add("ok", "this machine", f"{provenance.machine()['cpu']}, up to {local.max_ranks()} local ranks")
    if run:
        trial.look(report, slurm)
    else:
        report.add(
            "warn", "jobs",
            "no job was run to verify the world size" + (" and what the nodes see" if slurm else ""),
            "python -m cluster doctor --run", "Run this as a student.",
        )  # fmt: skip
    return report


def _python(report: Report) -> None:
    versions = provenance.versions()
    for name in ("tensorflow", "horovod"):
        report.expect(
            name, versions.get(name), f"not installed in {sys.executable}",
            "Use the course's environment: run the same command with its python.", "Run make setup.",
        )  # fmt: skip
    if "horovod" in versions:
        gloo, mpi, _ = findings.built()
        report.expect(
            "Gloo", "built in" if gloo else None, "not built in",
            "Use controller='mpi'.", "Rebuild Horovod with Gloo: run make setup.",
        )  # fmt: skip
        report.expect(
            "MPI", "built in" if mpi else None, "not built in",
            "Use controller='gloo', the default.", "Rebuild Horovod with mpicxx on PATH.", mark="warn",
        )  # fmt: skip
    report.expect(
        "mpirun", shutil.which("mpirun"), "not on PATH",
        "Only controller='mpi' needs it.", "Install openmpi-bin, or provide a module", mark="warn",
    )  # fmt: skip


def _folder(report: Report, slurm: bool) -> None:
    root = layout.root()
    try:
        private.check_runs(root)
    except JobError as e:
        step = "Give each user a folder that only they can write to."
        report.add("bad", "runs", e.what, e.next_step, step)
        return
    there = next(p for p in (root, *root.parents) if p.exists())
    if not os.access(there, os.W_OK):
        step = "Set CLUSTER_RUNS to a folder that you can write to."
        report.add("bad", "runs", f"{root} is not writable", step, "Give each user a folder to write to.")
        return
    free, kind = shutil.disk_usage(there).free / 2**30, findings.file_system(there)
    finding = f"{root}, {free:.0f} GiB free ({kind})"
    if free < 1:
        step = "Delete old runs, or set CLUSTER_RUNS."
        report.add("warn", "runs", finding, step, "Less than 1 GiB is free.")
    elif slurm and not any(k in kind for k in SHARED):
        step = "Put home directories, or that folder, on a shared file system."
        report.add("warn", "runs", finding, NOT_SHARED, step)
    else:
        report.add("ok", "runs", finding)
