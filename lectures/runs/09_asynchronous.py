"""Run asynchronous SGD on real ranks and record it: python lectures/runs/09_asynchronous.py

A small network (LAYERS) learns Fashion-MNIST. Each worker is a process started by mpirun. It computes a real
gradient, and then waits until a random time is over, as the host of a GPU does. The times are lognormal with
median MEDIAN and spread SPREAD. Some workers, or one computation in several, are slower by a factor.
SCENARIOS:

    server      rank 0 has the weights, applies each gradient on arrival, and returns the new weights
    backup      rank 0 waits for the first `needed` gradients of its weights, and drops later ones
    all-reduce  no server: a thread of each rank repeatedly adds up the gradients that all ranks have by then
                (MPI's Iallreduce, followed by a wait of ROUND, a slow network's time), while its main thread
                computes

For each update, the record contains its time, the workers whose gradients it used, and the staleness of each
gradient (the number of updates between the weights it was computed from and those it changed). It also
contains the first and the last training loss, versions, machine, load, date and the SHA-256 of this script.
The script takes three minutes. As root, ranks run at real-time priority, so other programs do not delay them.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import numpy as np

HERE = pathlib.Path(__file__).parent
MEDIAN, SPREAD = 0.060, 0.3  # median in seconds, and standard deviation of the logarithm
ROUND = 0.020  # seconds that a round of the asynchronous all-reduce waits
LOOK = 200e-6  # seconds between two polls of a waiting rank
LAYERS = (196, 32, 10)
BATCH, RATE, IMAGES = 32, 0.05, 12_288
STRAGGLERS = {"odds": 0.05, "late": 4.0}  # fraction of slow computations, and their slowdown factor
SCENARIOS = [
    {"name": "4 workers", "kind": "server", "workers": 4, "updates": 1500},
    {"name": "8 workers", "kind": "server", "workers": 8, "updates": 2500},
    {"name": "8 workers, 2 slow", "kind": "server", "workers": 8, "updates": 2500, "slow": 2, "factor": 3.0},
    {"name": "8 workers that never wait", "kind": "server", "workers": 8, "updates": 2500, "waits": False},
    {"name": "all-reduce, 4 ranks", "kind": "all-reduce", "workers": 4, "updates": 500},
    {"name": "all-reduce, 8 ranks", "kind": "all-reduce", "workers": 8, "updates": 500},
    *(
        {"name": f"{n} of 8", "kind": "backup", "workers": 8, "updates": 120, "needed": n} | STRAGGLERS
        for n in (8, 7, 6, 5, 4)
    ),
]  # fmt: skip


def seconds_of(scenario, worker, rng):
    """Return a function that draws the seconds of this worker's next computation."""
    slow = worker < scenario.get("slow", 0)
    median = MEDIAN * (scenario["factor"] if slow else 1)

    def draw():
        late = scenario["late"] if rng.random() < scenario.get("odds", 0) else 1
        return median * late * float(np.exp(SPREAD * rng.standard_normal()))

    return draw


def network(seed):
    """Return the initial weights as one vector."""
    rng, parts = np.random.default_rng(seed), []
    for m, n in itertools.pairwise(LAYERS):
        parts += [rng.normal(0, (2 / m) ** 0.5, m * n), np.zeros(n)]
    return np.concatenate(parts).astype(np.float32)


def gradient(w, x, y):
    """Return the mean cross entropy of images x (n, 196) with labels y (n,), and its gradient (len(w),)."""
    d, h, c = LAYERS
    w1, b1 = w[: d * h].reshape(d, h), w[d * h : d * h + h]
    w2, b2 = w[d * h + h : -c].reshape(h, c), w[-c:]
    a = np.maximum(x @ w1 + b1, 0)  # (n, h)
    z = a @ w2 + b2
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y] + 1e-12).mean()
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    back = (p @ w2.T) * (a > 0)
    parts = [x.T @ back, back.sum(0), a.T @ p, p.sum(0)]
    return float(loss), np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def images():
    """Return x (IMAGES, 196), with each 2 x 2 pixels averaged, and y (IMAGES,)."""
    from cluster.training.data import fashion_mnist

    x, y = fashion_mnist("train", IMAGES)
    return x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196), y


class Worker:
    """A worker that computes gradients of the next images, in the time set by its scenario."""

    def __init__(self, scenario, worker, x, y):
        self.x, self.y, self.waits = x, y, scenario.get("waits", True)
        self.rng = np.random.default_rng([9, scenario["workers"], worker])
        self.draw = seconds_of(scenario, worker, self.rng)

    def compute(self, w):
        """Return (loss, gradient, seconds of the arithmetic)."""
        start, until = time.perf_counter(), self.draw()
        take = self.rng.integers(len(self.x), size=BATCH)
        loss, g = gradient(w, self.x[take], self.y[take])
        busy = time.perf_counter() - start
        if self.waits:
            time.sleep(max(0.0, until - busy))
        return loss, g, busy


def serve(comm, scenario, w):
    """Apply gradients on rank 0 until there were enough updates; return one row per update."""
    from mpi4py import MPI

    workers, needed = scenario["workers"], scenario.get("needed", 1)
    backup = scenario["kind"] == "backup"
    version, rows, waiting, losses, dropped, busy = 0, [], [], [], 0, []
    start = time.perf_counter()
    total, many = np.zeros_like(w), []
    while version < scenario["updates"]:
        status = MPI.Status()
        while not comm.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
            time.sleep(LOOK)
        source = status.Get_source()
        begun = time.perf_counter()
        seen, loss, g, arithmetic = comm.recv(source=source)
        busy.append(arithmetic)
        if backup and seen < version:  # too late, so it is dropped, and its worker joins the others
            dropped += 1
            comm.send((version, w), source)
            continue
        waiting.append(source)
        total += g
        many.append(version - seen)
        losses.append(loss)
        if len(waiting) == needed:
            w -= RATE * total / needed
            total[:] = 0
            now = time.perf_counter() - start
            rows.append([round(now, 6), source, list(many), round(time.perf_counter() - begun, 6)])
            version += 1
            for worker in waiting:
                comm.send((version, w), worker)
            waiting, many = [], []
    for worker in range(1, workers + 1):  # each worker is still sending or waiting
        if worker not in waiting:
            comm.recv(source=worker)
        comm.send((-1, None), worker)
    return {"rows": rows, "dropped": dropped, "busy": busy, "losses": losses}


def work(comm, scenario, x, y):
    """Run a server's worker: receive weights, send a gradient, receive weights, ..."""
    worker = Worker(scenario, comm.rank - 1, x, y)
    version, w = 0, network(0)
    while version >= 0:
        loss, g, busy = worker.compute(w)
        comm.send((version, loss, g, busy), 0)
        while not comm.iprobe(0):
            time.sleep(LOOK)
        version, w = comm.recv(source=0)


def all_reduce(comm, scenario, x, y):
    """Run SPRINT's method on a rank: the main thread computes, and a helper thread reduces and updates."""
    from mpi4py import MPI

    worker, w = Worker(scenario, comm.rank, x, y), network(0)
    lock, state = threading.Lock(), {"version": 0, "w": w, "g": np.zeros_like(w), "seen": [], "stop": False}
    rows, start = [], time.perf_counter()

    def communicate():
        while state["version"] < scenario["updates"]:
            with lock:
                mine, seen = np.append(state["g"], len(state["seen"])).astype(np.float32), state["seen"]
                state["g"], state["seen"] = np.zeros_like(w), []
            whole = np.empty_like(mine)
            request = comm.Iallreduce(mine, whole, MPI.SUM)
            while not request.Test():
                time.sleep(LOOK)
            time.sleep(ROUND)
            with lock:
                if whole[-1]:
                    state["w"] = state["w"] - RATE * whole[:-1] / whole[-1]
                rows.append([round(time.perf_counter() - start, 6), [state["version"] - v for v in seen]])
                state["version"] += 1
        state["stop"] = True

    helper = threading.Thread(target=communicate)
    helper.start()
    losses, busy = [], []
    while not state["stop"]:
        with lock:
            version, weights = state["version"], state["w"]
        loss, g, arithmetic = worker.compute(weights)
        losses.append(loss)
        busy.append(arithmetic)
        with lock:
            state["g"] = state["g"] + g
            state["seen"].append(version)
    helper.join()
    found = comm.gather((rows, losses, busy))
    if comm.rank:
        return None
    # One row per update: its time on rank 0, and the staleness of each rank's gradients in it.
    both = [[row[0], [other[0][i][1] for other in found]] for i, row in enumerate(rows)]
    return {"rows": both, "losses": losses, "busy": [b for other in found for b in other[2]]}


def rank(name):
    """Run a scenario on a rank started by mpirun; rank 0 prints the record."""
    from mpi4py import MPI

    comm, scenario = MPI.COMM_WORLD, next(s for s in SCENARIOS if s["name"] == name)
    x, y = images()
    if scenario.get("waits", True):  # ranks that never wait would take the cores from all others
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    comm.Barrier()
    found = None
    if scenario["kind"] == "all-reduce":
        found = all_reduce(comm, scenario, x, y)
    elif comm.rank == 0:
        found = serve(comm, scenario, network(0))
    else:
        work(comm, scenario, x, y)
    if comm.rank == 0:
        losses, busy = found.pop("losses"), found.pop("busy")
        found["loss"] = [round(float(np.mean(part)), 4) for part in (losses[:50], losses[-50:])]
        found["arithmetic"] = [round(float(q), 6) for q in np.quantile(busy, [0.5, 0.9])]
        print(json.dumps(found), flush=True)


def start(scenario):
    """Start the ranks of a scenario, and return rank 0's output."""
    ranks = scenario["workers"] + (scenario["kind"] != "all-reduce")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    command += ["--mca", "btl", "vader,self", "--mca", "mpi_yield_when_idle", "1"]
    command += [
        sys.executable,
        "-m",
        "mpi4py",
        str(pathlib.Path(__file__).resolve()),
        "--rank",
        scenario["name"],
    ]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(command, env=os.environ | threads, stdout=subprocess.PIPE, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"mpirun ended with {done.returncode}; what it said stands above.")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "09_asynchronous.json")
    parser.add_argument("--rank", help="a scenario's name, as a rank of mpirun")
    arguments = parser.parse_args()
    if arguments.rank:
        return rank(arguments.rank)
    from cluster.jobs.run import provenance

    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    settings = {"median": MEDIAN, "spread": SPREAD, "round": ROUND, "batch": BATCH, "rate": RATE}
    record = {"command": "python lectures/runs/09_asynchronous.py", "script": script, "settings": settings}
    former = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"script": ""}
    record["jobs"] = former["jobs"] if former["script"] == script else []
    for scenario in SCENARIOS:
        if any(job["scenario"] == scenario for job in record["jobs"]):
            continue
        job = {"scenario": scenario, "versions": provenance.versions(), "machine": provenance.machine()}
        job |= {"load": os.getloadavg()[0], "started": datetime.now(UTC).isoformat(timespec="seconds")}
        job |= start(scenario)
        record["jobs"].append(job)
        beside = arguments.out.with_name(f".{arguments.out.name}.tmp")
        beside.write_text(json.dumps(record) + "\n", encoding="utf-8")
        beside.rename(arguments.out)
        print(f"{scenario['name']}: {job['rows'][-1][0]:.1f} s, loss {job['loss']}", flush=True)


if __name__ == "__main__":
    main()
