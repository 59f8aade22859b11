"""`python -m cluster doctor --gpu`: measured and expected bus bandwidth of an all-reduce between two GPUs.

The two ranks are an ordinary job, on Slurm if it has GPUs, otherwise on this machine. On Slurm, two GPUs of
one node are measured, and one GPU on each of two nodes.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cluster.doctor.findings import ADMINISTRATOR, Report, ask
from cluster.jobs import JobError, submit
from cluster.network.bandwidth import Point, bus_bandwidth
from cluster.slurm import client, words

from . import gpu_links

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
    lines = [f"{'size':>10} {'time':>11} {'bus bandwidth':>14}" + ("  of the link" if link.rate else "")]
    for point in found:
        share = f" {point.bus / link.rate:>12.0%}" if link.rate else ""
        lines.append(f"{_bytes(point.size):>10} {1e3 * point.seconds:>8.3f} ms {_rate(point.bus):>14}{share}")
    if link.rate:
        lines.append(f"{link.words}: {_rate(link.rate)} in one direction, of which NCCL reaches about "
                     f"{gpu_links.REACHED:.0%}: {_rate(link.expected())} expected.")  # fmt: skip
    else:
        lines.append(f"{link.words}: there is no expected value to compare it with.")
    return "\n".join(lines)


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
    wrong = [_bytes(size) for rank in seen for size, _, count in rank["points"] if count]
    if wrong:
        step = "Test these GPUs: dcgmi diag -r 3. NCCL_P2P_DISABLE=1 shows whether their link is at fault."
        report.add("bad", subject, f"wrong sums with {', '.join(dict.fromkeys(wrong))}", ADMINISTRATOR, step)
    elif link.rate and best.bus < FLOOR * link.rate:
        report.add("warn", subject, finding, "Results are correct, but all-reduces are slow.", _why(ways))
    else:
        report.add("ok", subject, finding)
    return table(found, link)


def _why(ways: list[str]) -> str:
    """Return what an administrator can check if the all-reduce is slow."""
    if any(way.startswith("NET/Socket") for way in ways):
        return (
            "NCCL uses TCP. Check NET/IB in out-0.log, LimitMEMLOCK=infinity for slurmd, and "
            "NCCL_SOCKET_IFNAME."
        )
    if any(way.startswith("NET") for way in ways):
        return "Load nvidia_peermem. Use an adapter near the GPU (NCCL_IB_HCA; nvidia-smi topo -m)."
    if any(way.startswith("SHM") for way in ways):
        return (
            "NCCL copies through the host's memory. If Slurm isolates each task from the other's GPU, "
            "use sbatch={'gres-flags': 'allow-task-sharing'}. Otherwise check nvidia-smi topo -p2p r, "
            "and ACS in the BIOS."
        )
    return "Check links (nvidia-smi nvlink --status) and throttled GPUs (nvidia-smi -q -d PERFORMANCE)."


def missing() -> str | None:
    """Return why there are no two GPUs to measure, and what to do, in one line; None if there are."""
    where = "Run it with at least two GPUs: on a node with NVIDIA GPUs, or where a Slurm with GPUs answers."
    on_slurm = max(_on_slurm().values(), default=(0, 0))
    here, why = _here()
    if here >= 2 or on_slurm[0] * on_slurm[1] >= 2:
        return None
    slurm = client.no_slurm() or "Slurm has " + (
        "one GPU" if on_slurm[0] else "no GPUs (Gres=gpu in slurm.conf)"
    )
    return f"Fewer than two GPUs to measure: {why or 'one GPU on this machine'}; {slurm}. {where}"


def _here() -> tuple[int, str]:
    """Return (number of this machine's GPUs, why there are none)."""
    if not shutil.which("nvidia-smi"):
        return 0, "no nvidia-smi on PATH"
    good, answer = ask("nvidia-smi", "-L")
    count = len([line for line in answer.splitlines() if line.startswith("GPU ")]) if good else 0
    return count, "" if count else f"nvidia-smi: {answer.strip() or 'no devices'}"


def _on_slurm() -> dict[str, tuple[int, int]]:
    """Return {partition: (GPUs of its largest node, nodes with a GPU)}; the default partition is ''."""
    if client.no_slurm():
        return {}
    good, answer = ask("sinfo", "-h", "-N", "-o", "%P|%G")
    found: dict[str, tuple[int, int]] = {}
    for row in answer.splitlines() if good else []:
        name, _, gres = row.partition("|")
        count = words.gpus(gres)
        if count:
            name = "" if name.endswith("*") else name
            most, nodes = found.get(name, (0, 0))
            found[name] = max(most, count), nodes + 1
    return found


def layouts(small: bool = False) -> dict[str, dict[str, Any]]:
    """Return {subject: options of submit} for the measurements possible here. small: as for `doctor`."""
    if small:
        return {SMALL: {"ranks_per_node": 2, "backend": "local"}}
    partitions = _on_slurm()
    found = {}
    for subject, enough, ranks in [
        (HERE, lambda most, nodes: most >= 2, {"ranks_per_node": 2}),
        (APART, lambda most, nodes: nodes >= 2, {"nodes": 2}),
    ]:
        fit = [name for name, has in partitions.items() if enough(*has)]
        if fit:  # the default partition, if it has GPUs
            options = ranks | {"backend": "slurm", "gpus_per_rank": 1}
            found[subject] = options | ({"partition": min(fit)} if min(fit) else {})
    if HERE not in found and _here()[0] >= 2:
        found[HERE] = {"ranks_per_node": 2, "backend": "local", "env": {"CUDA_VISIBLE_DEVICES": _visible()}}
    return found


def _visible() -> str:
    """Return the GPUs that two ranks on this machine may see; by default, the local backend hides all."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(_here()[0])))


def doctor(small: bool = False) -> tuple[Report, list[str]]:
    """Return (findings, tables of the measurements). Call this only if nothing is `missing`.

    small: use small vectors between two CPU ranks with Gloo, to try the command on a machine without GPUs.
    """
    report, tables = Report(), list[str]()
    sizes, repeats, device = (SIZES[:3], 2, "CPU") if small else (SIZES, REPEATS, "GPU")
    nccl = has_nccl()
    if small:
        report.add("warn", "GPUs", "not measured: --small tries the command on CPUs")
    elif not nccl:
        step = "Run make setup GPU=1 VENV=ANOTHER_FOLDER on a shared file system (cluster/staff/GPU.md)."
        report.add(
            "bad", "NCCL", f"the Horovod of {sys.executable} was built without it", ADMINISTRATOR, step
        )
        return report, tables
    else:
        report.add("ok", "NCCL", f"built into the Horovod of {sys.executable}: {nccl}")
    for subject, options in layouts(small).items():
        try:
            job = submit(
                measure, sizes, repeats, device, **options | {"env": ENV | options.get("env", {})},
                cpus_per_rank=1 if small else 2, memory="2G" if small else "8G", time="00:10:00",
                name="doctor-gpu", rerun=True,
            )  # fmt: skip
            tables.append(
                f"{subject}\n{judge(report, subject, job.wait(timeout=900).results(), job.logs(0))}"
            )
        except JobError as e:
            log = (
                "See job.log and out-0.log. Check that `srun --gpus-per-task=1 nvidia-smi -L` lists one GPU."
            )
            report.add("bad", subject, e.what.splitlines()[0], e.next_step or ADMINISTRATOR, log)
    return report, tables


def has_nccl() -> str:
    """Return the version of Horovod's NCCL, or "", from another process, because Horovod loads TensorFlow."""
    code = "import horovod.tensorflow as hvd; print('NCCL', hvd.nccl_built())"
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    number = next((x.split()[1] for x in done.stdout.splitlines() if x.startswith("NCCL ")), "0")
    return version(int(number)) if number.isdigit() else ""


def version(number: int) -> str:
    """Return NCCL's version from the number in nccl.h (NCCL_VERSION_CODE from 2.9 on); '' for 0.

    >>> version(22105)
    '2.21.5'
    """
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else ""


def _bytes(size: int) -> str:
    """Format bytes, such as 4 KiB or 1 GiB."""
    for unit, name in [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")]:
        if size >= unit:
            return f"{size / unit:.0f} {name}"
    return f"{size} bytes"


def _rate(rate: float) -> str:
    """Format a bandwidth, such as 12.3 GB/s."""
    return f"{rate / 1e9:.1f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.1f} MB/s"
