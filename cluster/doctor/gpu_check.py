"""`python -m cluster doctor --gpu`: measured and expected bus bandwidth of an all-reduce between two GPUs.

The two ranks are an ordinary job, on Slurm if it has GPUs, otherwise on this machine. On Slurm, two GPUs of
one node are measured, and one GPU on each of two nodes.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cluster.jobs.show.render import aligned
from cluster.network.bandwidth import Point, bus_bandwidth
from cluster.slurm import client

from . import findings, gpu_links, gpu_steps
from .findings import Report, ask, run_job

SIZES = [2**k for k in range(12, 31, 3)]  # bytes: 4 KiB to 1 GiB
REPEATS = 10
WARM_UP = 3
FLOOR = 0.5  # fraction of the link's rate; below it, something other than the protocol is the bottleneck

ENV = {
    "NCCL_DEBUG": "INFO",  # NCCL then prints its transport
    "HOROVOD_CYCLE_TIME": "0.1",  # ms between checks for work; the default of 1 ms is as long as a message
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # if both ranks see both GPUs, neither allocates all memory of both
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # so that CUDA numbers GPUs like nvidia-smi
}

# What to check if the all-reduce is slow, by the beginning of a transport that NCCL reports.
SLOW = {
    "NET/Socket": "NCCL uses TCP. Check NET/IB in out-0.log, LimitMEMLOCK=infinity for slurmd, and "
    "NCCL_SOCKET_IFNAME.",
    "NET": "Load nvidia_peermem. Use an adapter near the GPU (NCCL_IB_HCA; nvidia-smi topo -m).",
    "SHM": "NCCL copies through the host's memory. If Slurm isolates each task from the other's GPU, "
    "use sbatch={'gres-flags': 'allow-task-sharing'}. Otherwise check nvidia-smi topo -p2p r, "
    "and ACS in the BIOS.",
    "": "Check links (nvidia-smi nvlink --status) and throttled GPUs (nvidia-smi -q -d PERFORMANCE).",
}

HERE = "two GPUs on one node"
APART = "two GPUs on two nodes"
SMALL = "two CPU ranks, no GPU"


def measure(sizes: list[int], repeats: int, device: str = "GPU") -> dict[str, Any]:
    """All-reduce float32 vectors on each rank; return times, numbers of wrong elements, and location.

    sizes: bytes of the vectors. device: 'GPU', or 'CPU', where Gloo or MPI moves the data, not NCCL. Returns
    {"place": result of `place`, "points": [[bytes, seconds of each repeat, wrong elements], …]}, with seconds
    from the call until the device has finished. Raises RuntimeError if TensorFlow has no such device.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    there, usable = tf.config.list_physical_devices(device), tf.config.list_logical_devices(device)
    if not usable:
        raise RuntimeError(f"TensorFlow sees no {device} on {socket.gethostname()}.")
    # A rank may see only its own GPU, or all GPUs of the job, and may already have selected one.
    number, mine = hvd.local_rank() % len(there), usable[hvd.local_rank() % len(usable)]
    right = hvd.size() * (hvd.size() + 1) / 2
    points = []
    with tf.device(mine.name):
        for size in sizes:
            x = tf.fill([size // 4], tf.constant(hvd.rank() + 1.0))
            seconds = []
            for _ in range(WARM_UP + repeats):
                start = time.perf_counter()
                total = hvd.allreduce(x, op=hvd.Sum, name=f"doctor of {size}")
                float(total[-1])  # waits until the device has finished
                seconds.append(time.perf_counter() - start)
            wrong = int(tf.math.count_nonzero(total != right))
            points.append([size, seconds[WARM_UP:], wrong])
    return {"place": place(number if device == "GPU" else None), "points": points}


def place(number: int | None) -> dict[str, Any]:
    """Return where a rank computes, as for `gpu_links.between`. number: the GPU's number in CUDA's order."""
    rates = {"infiniband": "class/infiniband/*/ports/*/rate", "interfaces": "class/net/*/speed"}
    seen: dict[str, Any] = {"host": socket.gethostname()}
    for kind, pattern in rates.items():
        seen[kind] = {
            path.relative_to("/sys/class").parts[1]: _read(path) for path in Path("/sys").glob(pattern)
        }
    if number is None:
        return seen
    _, answer = ask("nvidia-smi", f"--query-gpu={gpu_links.QUERY}", "--format=csv,noheader")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpu = gpu_links.chosen(gpu_links.gpus(answer), visible, number) or {}
    seen |= dict.fromkeys(gpu_links.QUERY.split(","), "") | {"index": str(number)} | gpu
    _, seen["topology"] = ask("nvidia-smi", "topo", "-m")
    _, status = ask("nvidia-smi", "nvlink", "--status", "-i", seen["index"])
    return seen | {"links": gpu_links.links(status)}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # the speed of an interface that is down cannot be read
        return ""


def points(seen: list[dict[str, Any]]) -> list[Point]:
    """Return a Point per size, with the median of the slowest rank's seconds. seen: as in `judge`."""
    found = []
    for of_ranks in zip(*(rank["points"] for rank in seen), strict=True):
        size = of_ranks[0][0]
        seconds = float(np.median(np.max([times for _, times, _ in of_ranks], axis=0)))
        found.append(Point(size, seconds, bus_bandwidth(size, seconds, len(seen))))
    return found


def table(found: list[Point], link: gpu_links.Link) -> str:
    """Tabulate size, time, bus bandwidth, the link's bandwidth, and the fraction of it expected from NCCL."""
    rows = [["size", "time", "bus bandwidth", "of the link" if link.rate else ""]]
    for point in found:
        share = f"{point.bus / link.rate:.0%}" if link.rate else ""
        rows.append([_bytes(point.size), f"{1e3 * point.seconds:.3f} ms", _rate(point.bus), share])
    expected = "there is no expected value to compare it with."
    if link.rate:
        expected = f"{_rate(link.rate)} in one direction, of which NCCL reaches about "
        expected += f"{gpu_links.REACHED:.0%}: {_rate(link.expected())} expected."
    return "\n".join([*aligned(rows, right=True), f"{link.words}: {expected}"])


def judge(report: Report, subject: str, seen: list[dict[str, Any]], log: str) -> str:
    """Add the findings about a measurement between two ranks and return its table.

    seen: the result of `measure` on each rank. log: the output of rank 0.
    """
    found, ways = points(seen), gpu_links.transports(log)
    if subject == SMALL:
        link = gpu_links.Link("Gloo through this machine's memory")
    else:
        link = gpu_links.between(seen[0]["place"], seen[1]["place"], ways)
    best = max(found, key=lambda point: point.bus)
    by = ", ".join(ways) or "a transport that NCCL does not report"
    finding = f"bus bandwidth {_rate(best.bus)} with {_bytes(best.size)}, by {by}"
    finding += f"; expected {_rate(link.expected())} of {link.words}" if link.rate else f"; {link.words}"
    if wrong := [_bytes(size) for rank in seen for size, _, count in rank["points"] if count]:
        step = "Test these GPUs: dcgmi diag -r 3. NCCL_P2P_DISABLE=1 shows whether their link is at fault."
        report.add("bad", subject, f"wrong sums with {', '.join(dict.fromkeys(wrong))}", "", step)
    elif link.rate and best.bus < FLOOR * link.rate:
        step = next(step for start, step in SLOW.items() if any(w.startswith(start) for w in [*ways, ""]))
        report.add("warn", subject, finding, "Results are correct, but all-reduces are slow.", step)
    else:
        report.add("ok", subject, finding)
    return table(found, link)


def missing() -> str | None:
    """Return why there are no two GPUs to measure, and what to do, in one line; None if there are."""
    if layouts():
        return None
    _, why = findings.gpus_here()
    slurm = client.no_slurm()
    if not slurm:
        some = any(count for _, _, count in findings.nodes_of_slurm())
        slurm = "Slurm has " + ("one GPU" if some else "no GPUs (Gres=gpu in slurm.conf)")
    where = "Run it with at least two GPUs: on a node with NVIDIA GPUs, or where a Slurm with GPUs answers."
    return f"Fewer than two GPUs to measure: {why or 'one GPU on this machine'}; {slurm}. {where}"


def layouts() -> dict[str, dict[str, Any]]:
    """Return {subject: options of submit} for the measurements that are possible here."""
    partitions: dict[str, list[int]] = {}  # GPUs of each node that has some; the default partition is ''
    for name, _, count in [] if client.no_slurm() else findings.nodes_of_slurm():
        if count:
            partitions.setdefault("" if name.endswith("*") else name, []).append(count)
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(partitions, reverse=True):  # the default partition, if it has GPUs
        options = {"backend": "slurm", "gpus_per_rank": 1} | ({"partition": name} if name else {})
        if max(partitions[name]) >= 2:
            found[HERE] = {"ranks_per_node": 2} | options
        if len(partitions[name]) >= 2:
            found[APART] = {"nodes": 2} | options
    here, _ = findings.gpus_here()
    if HERE not in found and here >= 2:
        # by default, the local backend hides all GPUs
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(here)))
        found[HERE] = {"ranks_per_node": 2, "backend": "local", "env": {"CUDA_VISIBLE_DEVICES": visible}}
    return {subject: found[subject] for subject in (HERE, APART) if subject in found}


def doctor(small: bool = False) -> tuple[Report, list[str]]:
    """Return (findings, tables of the measurements). Call this only if nothing is `missing`.

    small: use small vectors between two CPU ranks with Gloo, to try the command on a machine without GPUs.
    """
    report, tables = Report(), list[str]()
    where = f"the Horovod of {sys.executable}"
    sizes: tuple[list[int], int, str] = (SIZES, REPEATS, "GPU")
    resources: dict[str, Any] = {"cpus_per_rank": 2, "memory": "8G", "time": "00:10:00", "timeout": 900}
    measurements: dict[str, dict[str, Any]] = (
        {SMALL: {"ranks_per_node": 2, "backend": "local"}} if small else layouts()
    )
    if small:
        report.add("warn", "GPUs", "not measured: --small tries the command on CPUs")
        sizes = (SIZES[:3], 2, "CPU")
        resources |= {"cpus_per_rank": 1, "memory": "2G"}
    elif nccl := findings.built()[2]:
        report.add("ok", "NCCL", f"built into {where}: {version(nccl)}")
    else:
        step = "Run make setup GPU=1 VENV=ANOTHER_FOLDER on a shared file system (cluster/staff/GPU.md)."
        report.add("bad", "NCCL", f"{where} was built without it", "", step)
        return report, tables
    for subject, options in measurements.items():
        log = "See job.log and out-0.log. Check that `srun --gpus-per-task=1 nvidia-smi -L` lists one GPU."
        with_nccl = options | {"env": ENV | options.get("env", {})}
        job = run_job(report, subject, log, measure, *sizes, name="doctor-gpu", **with_nccl, **resources)
        if job:
            tables.append(f"{subject}\n{judge(report, subject, job.results(), job.logs(0))}")
    options = next(iter(measurements.values()))
    log = "See out-0.log in the job's folder."
    arguments = (8, 2, "CPU") if small else (gpu_steps.BATCH, gpu_steps.REPEATS, "GPU")
    job = run_job(
        report,
        "training step",
        log,
        gpu_steps.measure,
        *arguments,
        name="doctor-gpu-steps",
        **options,
        **resources,
    )
    if job:
        gpu_steps.judge(report, job.results())
        tables.append(gpu_steps.table(job.results()))
    return report, tables


def version(number: int) -> str:
    """Return NCCL's version from the number in nccl.h (NCCL_VERSION_CODE from 2.9 on).

    >>> version(22105)
    '2.21.5'
    """
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _bytes(size: int) -> str:
    for unit, name in [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")]:
        if size >= unit:
            return f"{size / unit:.0f} {name}"
    return f"{size} bytes"


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.1f} MB/s"
