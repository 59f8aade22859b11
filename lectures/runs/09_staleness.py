"""Train with stale gradients, record losses and errors: python lectures/runs/09_staleness.py

A small network (LAYERS, ReLU) learns the first IMAGES images of Fashion-MNIST by plain SGD in one process,
EPOCHS times, BATCH images a gradient. The gradient of update t is taken at the weights of update t - s:

    fixed       s is the same in all updates (but for the first s)
    server      s is drawn by the twin of lecture 09, a parameter server with 8 workers, of which two are
                three times as slow; RULES says what becomes of the rate
    together    synchronous: k batches and one update, s = 0

For each there are several rates and SEEDS seeds. Runs of one seed begin with the same weights, see the same
batches in the same order, and have the same s. One job a seed; half a minute each. What the ledger of runs
holds already is not run again. The record has the mean loss of every 16 batches, the test error on 10,000
images at the end, versions, machine, date and the script's hash.
"""

import argparse
import collections
import hashlib
import heapq
import json
import pathlib
import subprocess
import tempfile

import numpy as np

from cluster import jobs

HERE = pathlib.Path(__file__).parent
SEEDS = [0, 1, 2, 3, 4]
LAYERS, BATCH, IMAGES, EPOCHS = (196, 64, 10), 32, 12_288, 4
FIXED = [0, 1, 3, 7, 15, 31, 63]
RATES = [1.6, 0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.0125, 0.00625]
TOGETHER = [6, 8]  # batches of one update
RULES = {
    "same": lambda eta, s, mean: eta,
    "by the mean": lambda eta, s, mean: eta / mean,
    "by its own": lambda eta, s, mean: eta / max(1, s),
}


def parameter_server(draw, workers, updates, service=0.0):
    """Who makes each update, when, and how stale: rows (s, worker, staleness); draw(worker) in s."""
    read, free, rows = [0] * workers, 0.0, []
    queue = [(draw(worker), worker) for worker in range(workers)]  # when each has its gradient
    heapq.heapify(queue)
    for version in range(updates):
        ready, worker = heapq.heappop(queue)
        free = max(free, ready) + service  # the server takes one after the other
        rows.append((free, worker, version - read[worker]))
        read[worker] = version + 1  # and sends the new weights back
        heapq.heappush(queue, (free + draw(worker), worker))
    return np.array(rows)


def network(seed):
    """The weights as one vector."""
    rng, (d, h, c) = np.random.default_rng([9, seed]), LAYERS
    parts = [
        rng.normal(0, (2 / d) ** 0.5, d * h),
        np.zeros(h),
        rng.normal(0, (1 / h) ** 0.5, h * c),
        np.zeros(c),
    ]
    return np.concatenate(parts).astype(np.float32)


def parts_of(w):
    """The two matrices and the two biases of a vector of weights."""
    d, h, c = LAYERS
    return w[: d * h].reshape(d, h), w[d * h : d * h + h], w[d * h + h : -c].reshape(h, c), w[-c:]


def gradient(w, x, y):
    """Mean cross entropy of the images x (n, 196) with labels y (n,), and its gradient (len(w),)."""
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
    """Percent of wrong answers; what is not a number is wrong."""
    w1, b1, w2, b2 = parts_of(w)
    z = np.maximum(x @ w1 + b1, 0) @ w2 + b2
    right = (z.argmax(1) == y) & np.isfinite(z).all(1)
    return round(100 * (1 - float(right.mean())), 2)


def train(seed, data, staleness, rate, k=1):
    """SGD with update t's gradient, of k batches, at the weights of update t - staleness[t], at rate[t]."""
    (x, y), (x_test, y_test) = data
    rng, w = np.random.default_rng([9, seed, 1]), network(seed)
    batches = np.concatenate([rng.permutation(IMAGES) for _ in range(EPOCHS)]).reshape(-1, BATCH)
    past = collections.deque([w], maxlen=int(staleness.max()) + 1)  # the newest is the last
    losses = []
    for t in range(len(batches) // k):
        take = batches[t * k : t * k + k].ravel()
        old = past[max(-1 - int(staleness[t]), -len(past))]
        with np.errstate(all="ignore"):
            loss, g = gradient(old, x[take], y[take])
            past.append(w := w - np.float32(rate[t]) * g)
        losses += [loss] * k
    whole = np.reshape(losses[: len(losses) // 16 * 16], (-1, 16)).mean(1)
    kept = [round(float(v), 4) if np.isfinite(v) else None for v in whole]
    return {"losses": kept, "error": error(w, x_test, y_test)}


def experiment(seed):
    """One job: all runs of a seed."""
    from threadpoolctl import threadpool_limits

    from cluster.jobs import log
    from cluster.training.data import fashion_mnist

    data = []
    for split, count in {"train": IMAGES, "test": 10_000}.items():
        x, y = fashion_mnist(split, count)
        data.append((x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196), y))
    updates = EPOCHS * IMAGES // BATCH
    rng = np.random.default_rng([9, seed, 2])
    drawn = parameter_server(
        lambda worker: (3 if worker < 2 else 1) * float(np.exp(0.3 * rng.standard_normal())), 8, updates
    )[:, 2]
    rows = []
    with threadpool_limits(1):
        for eta in RATES:
            same = np.full(updates, eta)
            for s in FIXED:
                what = {"kind": "fixed", "s": s, "rate": eta}
                rows.append(what | train(seed, data, np.full(updates, s), same))
            for k in TOGETHER:
                what = {"kind": "together", "k": k, "rate": eta}
                rows.append(what | train(seed, data, np.zeros(updates), same, k))
            for name, rule in RULES.items():
                rates = np.array([rule(eta, s, drawn.mean()) for s in drawn])
                rows.append({"kind": "server", "rule": name, "rate": eta} | train(seed, data, drawn, rates))
            log(step=len(rows))
    return {"mean": round(float(drawn.mean()), 3), "rows": rows}


def write(path, record):
    """Write beside and rename."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(json.dumps(record) + "\n")
    pathlib.Path(file.name).chmod(0o644)
    pathlib.Path(file.name).rename(path)


def commit():
    """The commit that is checked out, or None outside of git."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return asked.stdout.strip() or None


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "09_staleness.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    arguments = parser.parse_args()
    options = {"backend": "local", "time": "01:00:00", "memory": "4G", "name": "09-staleness"}
    sweep = jobs.map(experiment, arguments.seeds, max_parallel=1, **options)
    script = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    record = {"script": script, "command": "python lectures/runs/09_staleness.py", "commit": commit()}
    record |= {"batch": BATCH, "images": IMAGES, "epochs": EPOCHS, "rates": RATES, "jobs": []}
    for seed, job in zip(arguments.seeds, sweep, strict=True):
        result, spec = job.result(), job.spec
        what = {key: spec[key] for key in ("key", "submitted", "versions", "machine", "arguments")}
        record["jobs"].append({"seed": seed} | result | what)
        write(arguments.out, record)
    print(f"{arguments.out}: {len(record['jobs'])} seeds")


if __name__ == "__main__":
    main()
