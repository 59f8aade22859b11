"""The doctor's jobs: two ranks that verify the world size and describe their nodes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from cluster.jobs.errors import JobError
from cluster.jobs.run import layout as ledger
from cluster.jobs.run import private, provenance

from .findings import ADMINISTRATOR, NOT_SHARED, Report, built, file_system

MEMORY = 2048  # MiB per rank
APART = 1.0  # maximum difference between clocks, in seconds


def look(report: Report, slurm: bool) -> None:
    """Run a job with each available controller, and one with a GPU if Slurm has GPUs."""
    gloo, mpi = built()
    seen: list[dict[str, Any]] = []
    if gloo:
        seen = _two_ranks(report, "gloo", slurm)
    if mpi and (slurm or shutil.which("mpirun")):
        seen = _two_ranks(report, "mpi", slurm) or seen
    if slurm and seen:
        _nodes(report, seen)
    if slurm and any(i.subject == "GPUs" and i.mark == "ok" for i in report.items):
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
        "versions": {k: v for k, v in provenance.versions().items() if k != "cluster"},
        "sees": Path(path).is_file(),
        "kind": file_system(Path(path).parent),
        "limit": memory_limit(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
    }


def memory_limit(mine: Path, mounted: Path) -> int | None:
    """Return the smallest memory limit, in bytes, of the cgroups in /proc/self/cgroup, or None."""
    least = None
    for line in mine.read_text().splitlines() if mine.is_file() else []:
        _, controllers, path = line.split(":", 2)
        at = mounted / controllers if controllers else mounted
        for folder in [at / path.lstrip("/"), *(at / path.lstrip("/")).parents]:
            for name in ("memory.limit_in_bytes", "memory.max"):
                text = (folder / name).read_text().strip() if (folder / name).is_file() else "max"
                if text.isdigit() and int(text) < 2**60:
                    least = min(int(text), least or int(text))
            if folder == mounted:
                break
    return least


def _two_ranks(report: Report, controller: str, slurm: bool) -> list[dict[str, Any]]:
    from cluster.jobs.submission import submit

    subject = f"two ranks, {controller}"
    path = ledger.root() / ".doctor"
    try:
        private.check_runs(ledger.root()).mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text("The nodes of a cluster must see this file.\n")
        layout = {"nodes": 2} if slurm and _nodes_up(report) > 1 else {"ranks_per_node": 2}
        at = time.time()
        chosen = {"controller": controller, "backend": "slurm" if slurm else "local", "memory": f"{MEMORY}M"}
        job = submit(probe, str(path), **layout, **chosen, rerun=True, name="doctor", time="00:05:00")
        seen = job.wait(timeout=300).results()
        sizes = [s["size"] for s in seen]
        took = time.time() - at
        where = ", ".join(sorted({s["host"] for s in seen}))
        finding = f"reported world sizes {sizes} on {where} after {took:.0f} s"
        if sizes == [2, 2]:
            report.add("ok", subject, finding)
            return [s | {"here": (at, time.time())} for s in seen]
        report.add("bad", subject, finding, ADMINISTRATOR, "The ranks did not connect: see the job's logs.")
    except JobError as e:
        log = "See job.log and out-0.log in the job's folder, and check that nodes can reach each other."
        report.add("bad", subject, e.what.splitlines()[0], e.next_step or ADMINISTRATOR, log)
    except OSError as e:
        report.add(
            "bad", subject, f"{e.filename}: {e.strerror}", "Set CLUSTER_RUNS to a folder of your own.", ""
        )
    finally:
        path.unlink(missing_ok=True)
    return []


def _nodes_up(report: Report) -> int:
    """Return the number of nodes that are up in the default partition."""
    finding = next((i.finding for i in report.items if i.subject.endswith("*")), "0 of")
    parts = finding.split(" of ")[0].split()
    return int(parts[-1]) if parts and parts[-1].isdigit() else 0


def _nodes(report: Report, seen: list[dict[str, Any]]) -> None:
    """Report on the nodes of the two ranks: folder, packages, clocks, memory."""
    blind = sorted({s["host"] for s in seen if not s["sees"]})
    if blind:
        student = "Set CLUSTER_RUNS to a folder that all nodes see."
        step = "Put homes, or a folder for runs, on a file system that all nodes mount at the same path."
        report.add("bad", "shared folder", f"{', '.join(blind)} do not see {ledger.root()}", student, step)
    else:
        report.add("ok", "shared folder", f"the nodes see {ledger.root()} ({seen[0]['kind']})")
        report.items = [i for i in report.items if i.subject != "runs" or i.student != NOT_SHARED]
    mine = {k: v for k, v in provenance.versions().items() if k != "cluster"}
    differs = [(s["host"], k, v) for s in seen for k, v in s["versions"].items() if mine.get(k) != v]
    odd = [f"{host} has {k} {v}, but this machine has {mine.get(k)}" for host, k, v in differs]
    if odd:
        step = "Use one environment for all nodes: on a shared file system, or in the same image."
        report.add("bad", "environment", "; ".join(sorted(set(odd))), ADMINISTRATOR, step)
    else:
        report.add("ok", "environment", f"the nodes have the same packages, {seen[0]['python']}")
    least, most = difference([s["clock"] for s in seen])
    least = max(least, *(difference([s["clock"], s["here"]])[0] for s in seen))
    if least > APART:
        finding = f"the nodes' clocks differ by {least:.1f} s or more"
        student = "Times in timelines are off by this difference; nothing else is affected."
        report.add(
            "bad", "clocks", finding, student, "Run chrony or ntpd on all machines; munge needs it, too."
        )
    else:
        report.add("ok", "clocks", f"the nodes' clocks agree within {most:.2f} s")
    limit = min((s["limit"] for s in seen if s["limit"]), default=None)
    if limit and limit <= 1.5 * MEMORY * 2**20:
        report.add("ok", "memory in a job", f"a rank of {MEMORY} MiB is limited to {limit / 2**20:.0f} MiB")
    else:
        student = "Request what you use: nothing stops a job that takes more."
        step = "Set TaskPlugin=task/cgroup, and ConstrainRAMSpace=yes in cgroup.conf."
        report.add("warn", "memory in a job", "not limited by a cgroup", student, step)


def difference(spans: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the (smallest, largest) clock difference in seconds; ranks report intervals around one moment.

    Even if a rank reads its clock late, its interval contains that moment, so the minimum is never too large.

    >>> difference([(10.0, 10.5), (13.0, 13.25)])
    (2.5, 3.25)
    """
    latest_begin, earliest_end = max(b for b, _ in spans), min(e for _, e in spans)
    return max(0.0, latest_begin - earliest_end), max(e for _, e in spans) - min(b for b, _ in spans)


def _gpu(report: Report) -> None:
    from cluster.jobs.submission import submit

    try:
        job = submit(
            probe, "", gpus_per_rank=1, backend="slurm", rerun=True, name="doctor-gpu", time="00:05:00"
        )
        seen = job.wait(timeout=300).result()
        if seen["gpus"]:
            finding = f"a rank on {seen['host']} was given CUDA_VISIBLE_DEVICES={seen['gpus']}"
            report.add("ok", "GPU in a job", finding)
        else:
            step = "In gres.conf, set File= to the devices, or AutoDetect=nvml, to let Slurm name them."
            finding = "a rank that requested a GPU does not know which one it has"
            report.add("bad", "GPU in a job", finding, ADMINISTRATOR, step)
    except JobError as e:
        report.add(
            "bad", "GPU in a job", e.what.splitlines()[0], e.next_step or ADMINISTRATOR, "squeue; sinfo -R"
        )
