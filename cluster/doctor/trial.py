"""The doctor's jobs: two ranks that verify the world size and describe their nodes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from cluster.jobs.run import layout, private, provenance

from .findings import NOT_SHARED, Report, built, file_system, run_job
from .slurm_checks import CGROUP, Slurm

MEMORY = 2048  # MiB per rank
APART = 1.0  # maximum difference between clocks, in seconds


def look(report: Report, slurm: Slurm | None) -> None:
    """Run a job with each available controller, and one with a GPU if Slurm has GPUs."""
    if report.item("runs").mark == "bad":
        return  # there is no folder for a job
    gloo, mpi, _ = built()
    seen: list[dict[str, Any]] = []
    path = layout.root() / ".doctor"
    private.check_runs(path.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.write_text("The nodes of a cluster must see this file.\n")
        if gloo:
            seen = _two_ranks(report, "gloo", slurm, path)
        if mpi and (slurm or shutil.which("mpirun")):
            seen = _two_ranks(report, "mpi", slurm, path) or seen
    finally:
        path.unlink(missing_ok=True)
    if slurm and seen:
        _nodes(report, seen)
    if slurm and slurm.gpus:
        _gpu(report)


def probe(path: str) -> dict[str, Any]:
    """Return what a rank sees: the world, its machine, its packages, a file, its memory limit, the time."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    hvd.allreduce(tf.constant(1.0), name="all_are_here")
    began = time.time()
    hvd.allreduce(tf.constant(1.0), name="at_one_moment")
    return {
        "clock": (began, time.time()),  # the intervals of all ranks contain one common moment
        "size": hvd.size(),
        "host": os.uname().nodename,
        "python": sys.executable,
        "versions": packages(),
        "sees": Path(path).is_file(),
        "kind": file_system(Path(path).parent),
        "limit": memory_limit(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
    }


def packages() -> dict[str, str]:
    """Return the versions that must be the same on all machines."""
    return {k: v for k, v in provenance.versions().items() if k != "cluster"}


def memory_limit(mine: Path, mounted: Path) -> int | None:
    """Return the smallest memory limit, in bytes, of the cgroups in /proc/self/cgroup, or None."""
    limits = []
    for line in mine.read_text().splitlines() if mine.is_file() else []:
        _, controllers, path = line.split(":", 2)
        at = mounted / controllers if controllers else mounted
        for folder in [at / path.lstrip("/"), *(at / path.lstrip("/")).parents]:
            for name in ("memory.limit_in_bytes", "memory.max"):
                text = (folder / name).read_text().strip() if (folder / name).is_file() else "max"
                limits += [int(text)] if text.isdigit() and int(text) < 2**60 else []
            if folder == mounted:
                break
    return min(limits, default=None)


def _two_ranks(report: Report, controller: str, slurm: Slurm | None, path: Path) -> list[dict[str, Any]]:
    subject, at = f"two ranks, {controller}", time.time()
    log = "See job.log and out-0.log in the job's folder, and check that nodes can reach each other."
    job = run_job(
        report, subject, log, probe, str(path), controller=controller, memory=f"{MEMORY}M",
        backend="slurm" if slurm else "local", name="doctor", time="00:05:00",
        **({"nodes": 2} if slurm and slurm.nodes > 1 else {"ranks_per_node": 2}),
    )  # fmt: skip
    if job is None:
        return []
    seen = [s | {"here": (at, time.time())} for s in job.results()]
    sizes = [s["size"] for s in seen]
    where = ", ".join(sorted({s["host"] for s in seen}))
    finding = f"reported world sizes {sizes} on {where} after {time.time() - at:.0f} s"
    connected = sizes == [2, 2]
    step = "The ranks did not connect: see the job's logs."
    report.expect(subject, finding if connected else None, finding, "", step)
    return seen if connected else []


def _nodes(report: Report, seen: list[dict[str, Any]]) -> None:
    """Report on the nodes of the two ranks: folder, packages, clocks, memory."""
    blind = sorted({s["host"] for s in seen if not s["sees"]})
    report.expect(
        "shared folder", None if blind else f"the nodes see {layout.root()} ({seen[0]['kind']})",
        f"{', '.join(blind)} do not see {layout.root()}",
        "Set CLUSTER_RUNS to a folder that all nodes see.",
        "Put homes, or a folder for runs, on a file system that all nodes mount at the same path.",
    )  # fmt: skip
    if not blind:
        report.items = [i for i in report.items if i.subject != "runs" or i.student != NOT_SHARED]
    mine = packages()
    differs = [(s["host"], k, v) for s in seen for k, v in s["versions"].items() if mine.get(k) != v]
    odd = {f"{host} has {k} {v}, but this machine has {mine.get(k)}" for host, k, v in differs}
    report.expect(
        "environment", None if odd else f"the nodes have the same packages, {seen[0]['python']}",
        "; ".join(sorted(odd)), "",
        "Use one environment for all nodes: on a shared file system, or in the same image.",
    )  # fmt: skip
    least, most = difference([s["clock"] for s in seen])
    least = max(least, *(difference([s["clock"], s["here"]])[0] for s in seen))
    report.expect(
        "clocks", f"the nodes' clocks agree within {most:.2f} s" if least <= APART else None,
        f"the nodes' clocks differ by {least:.1f} s or more",
        "Times in timelines are off by this difference; nothing else is affected.",
        "Run chrony or ntpd on all machines; munge needs it, too.",
    )  # fmt: skip
    limit = min((s["limit"] for s in seen if s["limit"]), default=2**60)
    limited = f"a rank of {MEMORY} MiB is limited to {limit / 2**20:.0f} MiB"
    report.expect(
        "memory in a job", limited if limit <= 1.5 * MEMORY * 2**20 else None, "not limited by a cgroup",
        "Request what you use: nothing stops a job that takes more.", CGROUP, mark="warn",
    )  # fmt: skip


def difference(spans: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the (smallest, largest) clock difference in seconds; ranks report intervals around one moment.

    Even if a rank reads its clock late, its interval contains that moment, so the minimum is never too large.

    >>> difference([(10.0, 10.5), (13.0, 13.25)])
    (2.5, 3.25)
    """
    latest_begin, earliest_end = max(b for b, _ in spans), min(e for _, e in spans)
    return max(0.0, latest_begin - earliest_end), max(e for _, e in spans) - min(b for b, _ in spans)


def _gpu(report: Report) -> None:
    subject = "GPU in a job"
    options: dict[str, Any] = {"gpus_per_rank": 1, "backend": "slurm", "time": "00:05:00"}
    job = run_job(report, subject, "squeue; sinfo -R", probe, "", name="doctor-gpu", **options)
    if job is None:
        return
    seen = job.result()
    given = f"a rank on {seen['host']} was given CUDA_VISIBLE_DEVICES={seen['gpus']}"
    report.expect(
        subject, given if seen["gpus"] else None,
        "a rank that requested a GPU does not know which one it has", "",
        "In gres.conf, set File= to the devices, or AutoDetect=nvml, to let Slurm name them.",
    )  # fmt: skip
