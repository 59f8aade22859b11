"""Time iterations of data-parallel training over slow cables: python lectures/runs/09_iterations.py, as root.

Each rank runs in a network namespace behind a cable with RATE bit/s in each direction, created by the
functions of 06_slow_network.py. The iterations are those of lecture 08's network. Its gradients have the
sizes of TENSORS, and the two passes take PER_IMAGE seconds per image, during which a rank sleeps, as a GPU's
host does. Each layer takes a fraction of that time, and its gradients are then ready. As in PyTorch's DDP,
gradients are put into buckets of at most `threshold` bytes in the order in which they become ready. A thread
of each rank reduces one bucket after another along a ring while later gradients are still being computed. The
last sum ends the iteration.

A configuration consists of ranks, images per rank, and threshold. There are those in FITTED and 30 random
ones. One mpirun runs all configurations with the same number of ranks in random order, with ITERATIONS each.
Then everything is run again, which gives a second run of each configuration some minutes after the first.
09_iterations.json contains the seconds of each iteration (on rank 0, from a common start, without a first
warm-up iteration), versions, machine, load, date and the SHA-256 of this script. The script takes three
minutes.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime

import numpy as np

HERE = pathlib.Path(__file__).parent
RATE, LOOK = 20e6, 200e-6  # bit/s; seconds between two polls of a waiting rank
PER_IMAGE, FORWARD = 1e-3, 1 / 3  # seconds of both passes per image; the forward pass's fraction
ITERATIONS = 6
# Lecture 08's trainable tensors in order: parameters, and multiply-adds per image of their layer.
TENSORS = [
    (72, 14112), (8, 0), (8, 0),
    (576, 112896), (8, 0), (8, 0), (576, 112896), (8, 0), (8, 0),
    (1152, 56448), (16, 0), (16, 0), (2304, 112896), (16, 0), (16, 0), (128, 6272), (16, 0), (16, 0),
    (4608, 73728), (32, 0), (32, 0), (9216, 147456), (32, 0), (32, 0), (512, 8192), (32, 0), (32, 0),
    (320, 320), (10, 0),
]  # fmt: skip
THRESHOLDS = [0, 4096, 16384, 65536, 1 << 20]  # bytes; with 0, each gradient is reduced separately
FITTED = [
    (2, 8, 0), (2, 64, 1 << 20), (2, 16, 16384), (4, 8, 1 << 20), (4, 32, 0), (4, 16, 4096),
    (8, 8, 65536), (8, 64, 0), (8, 16, 1 << 20), (8, 32, 16384),
]  # fmt: skip


def configurations():
    """Return the configurations to fit, and 30 others: (ranks, images, threshold)."""
    every = [(p, n, b) for p in (2, 3, 4, 6, 8) for n in (8, 16, 32, 64) for b in THRESHOLDS]
    others = [one for one in every if one not in FITTED]
    chosen = np.random.default_rng(9).permutation(len(others))[:30]
    return FITTED + [others[i] for i in sorted(chosen)]


def ready_times(images):
    """Return when each gradient is ready, the last layer's first: [(bytes, seconds since the start)]."""
    work = np.array([m for _, m in TENSORS], float)
    both = PER_IMAGE * images
    backward = (1 - FORWARD) * both * np.cumsum(work[::-1]) / work.sum()
    return [(4 * n, FORWARD * both + t) for (n, _), t in zip(TENSORS[::-1], backward, strict=True)]


def buckets(gradients, threshold):
    """Merge [(bytes, seconds)] in their order, as long as the sums do not exceed the threshold."""
    found = []
    for size, at in gradients:
        if found and found[-1][0] + size <= threshold:
            found[-1] = (found[-1][0] + size, at)
        else:
            found.append((size, at))
    return found


def iteration(comm, images, threshold):
    """Run one iteration; return the seconds until the last sum is ready."""
    plan = buckets(ready_times(images), threshold)
    is_ready = [threading.Event() for _ in plan]
    ended = []
    start = time.perf_counter()

    def reduce():
        for event, (size, _) in zip(is_ready, plan, strict=True):
            event.wait()
            numbers = (
                -(-size // 4 // comm.size) * comm.size
            )  # lecture 06's ring needs a multiple of the number of ranks
            x = np.full(numbers, comm.rank + 1, np.float32)
            slow_network.ring(comm, x)
            if not np.all(x == comm.size * (comm.size + 1) / 2):
                raise ValueError(f"a wrong sum on rank {comm.rank}")
        ended.append(time.perf_counter())

    helper = threading.Thread(target=reduce)
    helper.start()
    for event, (_, at) in zip(is_ready, plan, strict=True):
        time.sleep(max(0.0, start + at - time.perf_counter()))
        event.set()
    helper.join()
    return ended[0] - start


def measure(wanted):
    """Measure on a rank started by mpirun; rank 0 prints [[configuration, seconds]]."""
    from mpi4py import MPI

    from cluster.network.real import MPICommunicator

    class Sleeping(MPICommunicator):
        """A communicator that sleeps between two polls instead of spinning as MPI does."""

        def _progress(self):
            super()._progress()
            time.sleep(LOOK)

    comm, rows = Sleeping(MPI.COMM_WORLD), []
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    for images, threshold in wanted:
        seconds = []
        for _ in range(ITERATIONS + 1):
            slow_network.common_start(comm)
            seconds.append(round(iteration(comm, images, threshold), 6))
        rows.append([[comm.size, images, threshold], seconds[1:]])
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if comm.rank == 0:
        print(json.dumps(rows), flush=True)


def load(name):
    """Import a script of this folder as a module."""
    spec = importlib.util.spec_from_file_location(f"runs_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


slow_network = load("06_slow_network")


def messages(ranks, folder, wanted):
    """Return the rows of ranks started by mpirun, with a namespace as host, as in 06_slow_network."""
    agent, plan = pathlib.Path(folder, "agent"), pathlib.Path(folder, "plan.json")
    agent.write_text(
        '#!/bin/sh\nhost=$1; shift\nexec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"\n'
    )
    agent.chmod(0o700)
    plan.write_text(json.dumps(wanted))
    net = f"{slow_network.NETWORK}.0/24"
    options = {
        "plm_rsh_agent": agent, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": net,
        "oob_tcp_if_include": net,
        # Send each message eagerly in one piece, so no rank busy-waits for the rest of it.
        "btl_tcp_eager_limit": 1 << 23, "btl_tcp_rndv_eager_limit": 1 << 23, "btl_tcp_max_send_size": 1 << 23,
    }  # fmt: skip
    hosts = ",".join(f"{slow_network.PREFIX}{rank}" for rank in range(ranks))
    command = ["mpirun", "--allow-run-as-root", "--host", hosts, "-n", str(ranks)]
    command += [str(word) for name, value in options.items() for word in ("--mca", name, value)]
    command += [sys.executable, "-m", "mpi4py", str(pathlib.Path(__file__).resolve()), "--rank", str(plan)]
    environment = slow_network.environment()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"mpirun ended with {done.returncode}; what it said stands above.")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "09_iterations.json")
    parser.add_argument("--rank", type=pathlib.Path, help="the plan's file, as a rank of mpirun")
    arguments = parser.parse_args()
    if arguments.rank:
        return measure(json.loads(arguments.rank.read_text()))
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "unshare", "mpirun"))):
        sys.exit("Run this as root (to make namespaces), where there are ip, tc, unshare and mpirun.")
    from cluster.jobs.run import provenance

    slow_network.RATE = RATE
    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    settings = {"rate": RATE, "per image": PER_IMAGE, "forward": FORWARD, "iterations": ITERATIONS}
    record = {"command": "python lectures/runs/09_iterations.py", "script": script, "settings": settings}
    record["fitted"] = FITTED
    former = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"script": ""}
    record["jobs"] = former["jobs"] if former["script"] == script else []
    every = configurations()
    for run, ranks in [(run, ranks) for run in (0, 1) for ranks in (2, 3, 4, 6, 8)]:
        if any((job["run"], job["ranks"]) == (run, ranks) for job in record["jobs"]):
            continue
        wanted = [(n, b) for p, n, b in every if p == ranks]
        wanted = [wanted[i] for i in np.random.default_rng([9, run, ranks]).permutation(len(wanted))]
        job = {"run": run, "ranks": ranks, "versions": provenance.versions(), "machine": provenance.machine()}
        job |= {"load": os.getloadavg()[0], "started": datetime.now(UTC).isoformat(timespec="seconds")}
        with tempfile.TemporaryDirectory() as folder, slow_network.slow_network(ranks, 1):
            job["rows"] = messages(ranks, folder, wanted)
        record["jobs"].append(job)
        beside = arguments.out.with_name(f".{arguments.out.name}.tmp")
        beside.write_text(json.dumps(record) + "\n", encoding="utf-8")
        beside.rename(arguments.out)
        print(f"run {run}, {ranks} ranks: {len(wanted)} configurations", flush=True)


if __name__ == "__main__":
    main()
