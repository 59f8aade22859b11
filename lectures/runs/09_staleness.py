"""Train with stale gradients, and record errors and batches: python lectures/runs/09_staleness.py

A small network (LAYERS, ReLU) learns the first IMAGES images of Fashion-MNIST by plain SGD in one process,
BATCH images per gradient. The gradient of update t is taken at the weights of update t - s. ARMS:

    s = …        s is the same in all updates (except the first s)
    server, …    s comes from lecture 09's simulation, a parameter server with the workers of SCENARIOS;
                 every update has the same learning rate
    by its own   like "server, 8, 2 slow", but each update's learning rate is divided by its own s, and all
                 learning rates are then scaled to the same mean
    together, k  synchronous: k batches per update, s = 0

Each arm runs at RATES with the seeds TUNING and SEEDS. Runs of one seed start with the same weights,
see the same batches in the same order, and have the same s in the arms of one scenario. The learning rate
of an arm is chosen with the seeds TUNING, which are not reported, by the error on HELD_OUT other training
images or by the batches to the goal. Runs last EPOCHS epochs. Arms of 64 workers train until the goal is
reached, for at most LONG epochs.

For each run, the record contains the number of batches until the mean training loss of 16 batches is below
GOAL (null if never), and the errors on the held-out images and on 10,000 test images (null for 64 workers).
It also contains versions, machine, date and the script's hash. There is one job per seed, which takes half a
minute to two minutes. Seeds in the run log are not repeated.
"""

import argparse
import collections
import heapq
import json
import math
import pathlib
import subprocess
import tempfile

import numpy as np

from cluster import jobs
from cluster.jobs.run import provenance

HERE = pathlib.Path(__file__).parent
TUNING, SEEDS = [0, 1, 2, 8, 9, 10, 11, 12], [3, 4, 5, 6, 7]
LAYERS, BATCH, IMAGES, HELD_OUT = (196, 64, 10), 32, 12_288, 5_000
EPOCHS, LONG, GOAL = 4, 24, 0.6
FIXED = [0, 1, 3, 7, 15, 31, 63]
RATES = [0.4 * 2**i for i in range(3, -8, -1)]  # 3.2 to 0.003125
TOGETHER = [6, 7, 8]  # batches per update
TOGETHER_64 = [60, 64]
MEDIAN, SPREAD = 0.060, 0.3  # median in seconds, and standard deviation of the logarithm
SCENARIOS = {  # as in lecture 09
    "8 equal": {"workers": 8},
    "8, 2 slow": {"workers": 8, "slow": 2, "factor": 3.0},
    "8, stragglers": {"workers": 8, "odds": 0.05, "late": 4.0},
    "64, stragglers": {"workers": 64, "odds": 0.05, "late": 4.0},
}


def seconds_of(scenario, seed=0):
    """Return draw(worker), which returns the seconds of the worker's next gradient."""
    rng = np.random.default_rng([9, seed])

    def draw(worker):
        slow = scenario["factor"] if worker < scenario.get("slow", 0) else 1
        late = scenario["late"] if rng.random() < scenario.get("odds", 0) else 1
        return MEDIAN * slow * late * math.exp(SPREAD * rng.standard_normal())

    return draw


def parameter_server(draw, workers, updates, service=0.0):
    """Return a row (seconds, worker, staleness) per update; draw(worker) returns seconds."""
    read, free, rows = [0] * workers, 0.0, []
    queue = [(draw(worker), worker) for worker in range(workers)]  # when each worker's gradient is ready
    heapq.heapify(queue)
    for version in range(updates):
        ready, worker = heapq.heappop(queue)
        free = max(free, ready) + service  # the server processes one gradient at a time
        rows.append((free, worker, version - read[worker]))
        read[worker] = version + 1  # the worker gets the new weights
        heapq.heappush(queue, (free + draw(worker), worker))
    return np.array(rows)


def network(seed):
    """Return the initial weights as one vector."""
    rng, (d, h, c) = np.random.default_rng([9, seed]), LAYERS
    parts = [
        rng.normal(0, (2 / d) ** 0.5, d * h),
        np.zeros(h),
        rng.normal(0, (1 / h) ** 0.5, h * c),
        np.zeros(c),
    ]
    return np.concatenate(parts).astype(np.float32)


def parts_of(w):
    """Return the two matrices and the two biases in a vector of weights."""
    d, h, c = LAYERS
    return w[: d * h].reshape(d, h), w[d * h : d * h + h], w[d * h + h : -c].reshape(h, c), w[-c:]


def gradient(w, x, y):
    """Return the mean cross entropy of images x (n, 196) with labels y (n,), and its gradient (len(w),)."""
    w1, b1, w2, b2 = parts_of(w)
    a = np.maximum(x @ w1 + b1, 0)
    z = a @ w2 + b2
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y] + 1e-12).mean()
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    back = (p @ w2.T) * (a > 0)
    return float(loss), np.concatenate([(x.T @ back).ravel(), back.sum(0), (a.T @ p).ravel(), p.sum(0)])


def error(w, x, y):
    """Return the error in percent; NaN counts as an error."""
    w1, b1, w2, b2 = parts_of(w)
    z = np.maximum(x @ w1 + b1, 0) @ w2 + b2
    right = (z.argmax(1) == y) & np.isfinite(z).all(1)
    return round(100 * (1 - float(right.mean())), 2)


def train(seed, data, staleness, rate, k=1, until_goal=False):
    """Train by SGD: update t uses the gradient of k batches at the weights of update t - staleness[t].

    staleness and rate have shape (updates,). until_goal: stop at GOAL, and measure no error.
    """
    (x, y), *others = data
    rng, w = np.random.default_rng([9, seed, 1]), network(seed)
    batches = np.concatenate([rng.permutation(IMAGES) for _ in range(len(staleness) * BATCH // IMAGES)])
    batches = batches.reshape(-1, BATCH)
    past = collections.deque([w], maxlen=int(staleness.max()) + 1)  # the newest is the last
    losses, goal = [], None
    for t in range(len(batches) // k):
        take = batches[t * k : t * k + k].ravel()
        old = past[max(-1 - int(staleness[t]), -len(past))]
        with np.errstate(all="ignore"):
            loss, g = gradient(old, x[take], y[take])
            past.append(w := w - np.float32(rate[t]) * g)
        losses += [loss] * k
        if goal is None and len(losses) // 16 > (len(losses) - k) // 16:
            last = len(losses) // 16 * 16
            if np.mean(losses[max(last - max(16, k), 0) : last]) < GOAL:
                goal = last
        if until_goal and (goal or not np.isfinite(loss)):
            break
    if until_goal:
        return {"goal": goal, "held out": None, "error": None}
    held_out, test = (error(w, *images) for images in others)
    return {"goal": goal, "held out": held_out, "error": test}


def arms(seed):
    """Return {arm: (staleness (updates,), rates at η = 1 (updates,), batches per update, long)}."""
    updates, many = EPOCHS * IMAGES // BATCH, LONG * IMAGES // BATCH
    drawn = {
        name: parameter_server(seconds_of(one, seed), one["workers"], many if "64" in name else updates)[:, 2]
        for name, one in SCENARIOS.items()
    }
    found = {f"s = {s}": (np.full(updates, s), np.ones(updates), 1, False) for s in FIXED}
    for name, s in drawn.items():
        found[f"server, {name}"] = s, np.ones(len(s)), 1, "64" in name
    s = drawn["8, 2 slow"]
    own = 1 / np.maximum(1, s)
    found["by its own"] = s, own / own.mean(), 1, False
    for k in TOGETHER + TOGETHER_64:
        n = many if k in TOGETHER_64 else updates
        found[f"together, {k}"] = np.zeros(n), np.ones(n), k, k in TOGETHER_64
    return found


def experiment(seed):
    """Run a job: all runs of a seed."""
    from threadpoolctl import threadpool_limits

    from cluster.jobs import log
    from cluster.training.data import fashion_mnist

    def small(x):
        return x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196)

    x, y = fashion_mnist("train", IMAGES + HELD_OUT)
    x_test, y_test = fashion_mnist("test", 10_000)
    data = (small(x[:IMAGES]), y[:IMAGES]), (small(x[IMAGES:]), y[IMAGES:]), (small(x_test), y_test)
    rows = []
    with threadpool_limits(1):
        for name, (staleness, rates, k, long) in arms(seed).items():
            for eta in RATES:
                run = train(seed, data, staleness, eta * rates, k, long)
                rows.append({"arm": name, "rate": eta} | run)
            log(step=len(rows))
    return {"rows": rows}


def write(path, record):
    """Replace the record atomically."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(json.dumps(record) + "\n")
    pathlib.Path(file.name).chmod(0o644)
    pathlib.Path(file.name).rename(path)


def commit():
    """Return the commit that is checked out, or None outside git."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return asked.stdout.strip() or None


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "09_staleness.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=TUNING + SEEDS)
    arguments = parser.parse_args()
    options = {"backend": "local", "time": "01:00:00", "memory": "4G", "name": "09-staleness"}
    sweep = jobs.map(experiment, arguments.seeds, max_parallel=1, **options)
    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record = {"script": script, "command": "python lectures/runs/09_staleness.py", "commit": commit()}
    record |= {"batch": BATCH, "images": IMAGES, "epochs": EPOCHS, "goal": GOAL, "tuning": TUNING, "jobs": []}
    for seed, job in zip(arguments.seeds, sweep, strict=True):
        result, spec = job.result(), job.spec
        what = {key: spec[key] for key in ("key", "submitted", "versions", "machine", "arguments")}
        record["jobs"].append({"seed": seed} | result | what)
        write(arguments.out, record)
    print(f"{arguments.out}: {len(record['jobs'])} seeds")


if __name__ == "__main__":
    main()
