"""Train and time the small detector of lecture 07 as jobs and record it: python lectures/runs/07_detector.py

Scenes of 64 x 64 pixels contain items of Fashion-MNIST, and the network detects the shoes. There are three
experiments:

    ranks  1 and 2 ranks with 5 or 16 scenes per rank and step, and the same total of scenes; ten seeds
    norm   normalisation over 16, 4, 2 or 1 of a step's 16 scenes, as with 1, 4, 8 or 16 ranks; one process,
           ten seeds
    speed  scenes per second of one rank, of two without communication, and of two that communicate

07_detector.json contains each job's key, command, versions, machine, date and curves, and the SHA-256 of this
script. 07_detector.npz contains one network's weights. Jobs in the run log are not repeated. The script takes
half an hour on two cores, which must be idle while `speed` runs.
"""

import argparse
import itertools
import json
import pathlib
import time

import numpy as np

from cluster import submit
from cluster.jobs import log
from cluster.jobs.run import provenance

HERE = pathlib.Path(__file__).parent
SIDE, CELL, CELLS = 64, 8, 8  # pixels per side of a scene and of a cell, cells per side
SHOES, TRAIN, TEST = (5, 7, 9), 1500, 300  # classes sandal, sneaker, ankle boot; numbers of scenes
EPOCHS, RATE, MOMENTUM = 4, 0.01, 0.9
NORM_EPOCHS, GLOBAL, GROUPS = 2, 16, (1, 4, 8, 16)
SEEDS = tuple(range(10))


def scenes(split, count, seed=0):
    """Return scenes (count, 64, 64, 1), targets (count, 8, 8, 5): shoe, y, x in the cell, log(side / 16)."""
    from cluster.training.data import fashion_mnist

    items, kinds = fashion_mnist(split, 10_000)
    rng = np.random.default_rng([seed, split == "train"])
    x = np.zeros((count, SIDE, SIDE, 1), np.float32)
    y = np.zeros((count, CELLS, CELLS, 5), np.float32)
    shoe = np.isin(kinds, SHOES)
    pools = [np.flatnonzero(~shoe), np.flatnonzero(shoe)]
    for i in range(count):
        for _ in range(rng.integers(2, 7)):
            which = rng.choice(pools[rng.integers(2)])
            side = rng.integers(16, 33)
            take = np.linspace(0, 27, side).round().astype(int)
            item = items[which][np.ix_(take, take)]  # (side, side, 1)
            top, left = rng.integers(0, SIDE - side + 1, 2)
            place = x[i, top : top + side, left : left + side]
            np.maximum(place, item, out=place)
            if not shoe[which]:
                continue
            rows, columns = (np.flatnonzero((item[..., 0] > 0.1).any(axis)) for axis in (1, 0))
            h, w = np.ptp(rows) + 1, np.ptp(columns) + 1
            cy, cx = (top + rows[0] + h / 2) / CELL, (left + columns[0] + w / 2) / CELL
            cell = min(int(cy), CELLS - 1), min(int(cx), CELLS - 1)
            y[i, *cell] = 1, cy - cell[0], cx - cell[1], np.log(h / 16), np.log(w / 16)
    return x, y


def detector(norm, seed=0):
    """Return four convolutions with norm() and a prediction per cell: (N, 64, 64, 1) -> (N, 8, 8, 5)."""
    import keras

    layers, seeds = keras.layers, iter(range(100 * seed, 100 * seed + 100))
    x = image = keras.Input((SIDE, SIDE, 1))
    for maps, stride in [(16, 2), (32, 2), (48, 2), (48, 1)]:
        init = keras.initializers.HeNormal(seed=next(seeds))
        x = layers.Conv2D(maps, 3, stride, padding="same", use_bias=False, kernel_initializer=init)(x)
        x = layers.ReLU()(norm()(x))
    init = keras.initializers.GlorotUniform(seed=next(seeds))
    bias = keras.initializers.Constant([-3.0, 0.5, 0.5, 0.0, 0.0])  # few cells contain a shoe
    return keras.Model(image, layers.Conv2D(5, 1, kernel_initializer=init, bias_initializer=bias)(x))


def detection_loss(y, out):
    """(N, 8, 8, 5) twice -> (N,): cross-entropy of all cells, plus the box error in cells with a shoe."""
    import tensorflow as tf

    shoe = y[..., 0]
    there = tf.nn.sigmoid_cross_entropy_with_logits(shoe, out[..., 0])
    box = tf.reduce_sum(tf.abs(y[..., 1:] - out[..., 1:]), -1)
    return tf.reduce_sum(there + shoe * box, (1, 2))  # summed over the cells, averaged over the scenes


def boxes(y, least):
    """(8, 8, 5) -> scores (K,) and boxes (K, 4) as top, left, bottom, right in pixels, best first."""
    rows, columns = np.nonzero(y[..., 0] >= least)
    score, dy, dx, h, w = y[rows, columns].T
    h, w = 16 * np.exp(h), 16 * np.exp(w)
    cy, cx = CELL * (rows + dy), CELL * (columns + dx)
    best = np.argsort(-score)
    return score[best], np.stack([cy - h / 2, cx - w / 2, cy + h / 2, cx + w / 2], 1)[best]


def overlap(a, b):
    """Return the intersection over union of a box (4,) with boxes (K, 4)."""
    height = np.minimum(a[2], b[:, 2]) - np.maximum(a[0], b[:, 0])
    width = np.minimum(a[3], b[:, 3]) - np.maximum(a[1], b[:, 1])
    both = np.clip(height, 0, None) * np.clip(width, 0, None)
    areas = [(c[..., 2] - c[..., 0]) * (c[..., 3] - c[..., 1]) for c in (a, b)]
    return both / (areas[0] + areas[1] - both)


def found(out):
    """Return scores and boxes of a scene's detected objects, from its output (8, 8, 5) with logits."""
    score, box = boxes(
        np.concatenate([1 / (1 + np.exp(-out[..., :1])), np.clip(out[..., 1:], -3, 3)], -1), 0.05
    )
    keep = []
    for i in range(len(box)):  # keep the best of boxes that overlap by half or more
        if all(overlap(box[i], box[keep]) < 0.5):
            keep.append(i)
    return score[keep], box[keep]


def average_precision(y, out, least=0.5):
    """Return average precision; y and out are (N, 8, 8, 5), and hits overlap by `least` or more."""
    hits, total = [], 0
    for target, output in zip(y, out, strict=True):
        true = boxes(target, 1)[1]
        free, total = np.ones(len(true), bool), total + len(true)
        for score, box in zip(*found(output), strict=True):
            shared = overlap(box, true) * free if len(true) else np.zeros(1)
            best = shared.argmax()
            hits.append((score, shared[best] >= least))
            if shared[best] >= least:
                free[best] = False
    hit = np.array([h for _, h in sorted(hits, key=lambda pair: -pair[0])])
    right = np.cumsum(hit)
    precision = np.maximum.accumulate((right / np.arange(1, len(hit) + 1))[::-1])[::-1]
    return float(precision[hit].sum() / total)


def batch_norm(groups=1, sync=False, momentum=0.9):
    """Return a layer of batch normalisation over each of `groups` parts of a batch, or over all ranks."""
    import keras
    import tensorflow as tf

    class BatchNorm(keras.layers.Layer):
        def build(self, shape):
            C = (shape[-1],)
            self.gamma = self.add_weight(shape=C, initializer="ones", name="gamma")
            self.beta = self.add_weight(shape=C, initializer="zeros", name="beta")
            self.mean = self.add_weight(shape=C, initializer="zeros", name="mean", trainable=False)
            self.variance = self.add_weight(shape=C, initializer="ones", name="variance", trainable=False)

        def call(self, x, training=False):
            if not training:
                return (x - self.mean) * tf.math.rsqrt(self.variance + 1e-3) * self.gamma + self.beta
            parts = tf.reshape(x, (groups, -1, *x.shape[1:]))  # (groups, N / groups, H, W, C)
            moments = tf.stack([tf.reduce_mean(v, (1, 2, 3), keepdims=True) for v in (parts, parts**2)])
            if sync:
                import horovod.tensorflow as hvd

                moments = hvd.allreduce(moments, op=hvd.Average)
            mean, variance = moments[0], tf.maximum(moments[1] - moments[0] ** 2, 0.0)
            for moving, now in ((self.mean, mean), (self.variance, variance)):
                moving.assign(momentum * moving + (1 - momentum) * tf.reduce_mean(now, (0, 1, 2, 3)))
            y = (parts - mean) * tf.math.rsqrt(variance + 1e-3) * self.gamma + self.beta
            return tf.reshape(y, tf.shape(x))

    return BatchNorm()


def schedule(rate, steps, ranks):
    """Return the learning rate: from `rate` to ranks * rate in a fifth of the steps, then a cosine."""
    import keras

    warm = {"warmup_steps": steps // 5, "warmup_target": ranks * rate}
    return keras.optimizers.schedules.CosineDecay(rate, steps - steps // 5, **warm)


def on_ranks(batches, seeds):
    """Train on all ranks of the job for each batch size and seed; return curves and one network's weights."""
    import keras

    from cluster.training import distributed as d

    hvd = d.horovod()
    (x, y), test, rows, weights = scenes("train", TRAIN), scenes("test", TEST), [], {}
    for batch, seed in itertools.product(batches, seeds):
        net, curve = detector(batch_norm, seed), []
        model, shards = d.DataParallel(net.input, net.output), d.Shards(x, y, batch, seed)
        steps = EPOCHS * shards.steps
        rate = schedule(RATE * batch / 16, steps, hvd.size())
        model.compile(keras.optimizers.SGD(rate, MOMENTUM), detection_loss)

        def measure(epoch, logs, model=model, curve=curve):
            if hvd.rank() == 0:
                score = average_precision(test[1], model.predict(test[0], batch_size=100, verbose=0))
                curve.append({"loss": float(logs["loss"]), "precision": score})

        each = keras.callbacks.LambdaCallback(on_epoch_end=measure)
        model.fit(shards, epochs=EPOCHS, callbacks=[d.Ranks(shards), each], verbose=0)
        rows.append({"ranks": hvd.size(), "batch": batch, "seed": seed, "steps": steps, "epochs": curve})
        if seed == 0 and batch == 16:
            weights = {str(i): w.astype("float16") for i, w in enumerate(net.get_weights())}
    return {"rows": rows, "weights": weights}


def norms(seeds):
    """Train in one process with steps of 16 scenes, normalised in groups; return average precisions."""
    import keras

    (x, y), test, rows = scenes("train", TRAIN), scenes("test", TEST), []
    for groups, seed in itertools.product(GROUPS, seeds):
        keras.utils.set_random_seed(seed)  # for the shuffles of fit()
        model = detector(lambda g=groups: batch_norm(g), seed)
        steps = TRAIN // GLOBAL  # complete batches, which can be divided into the groups
        rate = schedule(RATE, NORM_EPOCHS * steps, 1)
        model.compile(keras.optimizers.SGD(rate, MOMENTUM), detection_loss)
        whole = slice(steps * GLOBAL)
        fitted = model.fit(x[whole], y[whole], GLOBAL, NORM_EPOCHS, verbose=0)
        rows.append({"groups": groups, "seed": seed, "loss": fitted.history["loss"]})
        rows[-1]["precision"] = average_precision(test[1], model.predict(test[0], batch_size=100, verbose=0))
        log(step=len(rows), steps=len(GROUPS) * len(seeds), precision=rows[-1]["precision"])
    return {"rows": rows, "weights": {}}


def speed(batches, rounds=8, steps=12):
    """Return the seconds of `steps` steps on each rank, in turn: alone, apart, together, in sync."""
    import tensorflow as tf

    from cluster.training.distributed import horovod

    hvd, rows, calls = horovod(), [], {}
    for batch, name in itertools.product(batches, ("alone", "apart", "together", "in sync")):
        how = {"speak": name in ("together", "in sync"), "sync": name == "in sync"}
        calls[batch, name] = one_step(hvd, *scenes("train", batch, seed=hvd.rank()), **how)
    for turn, ((batch, name), step) in itertools.product(range(rounds + 1), calls.items()):
        hvd.allreduce(tf.constant(0.0), name="meet")  # all ranks are ready
        start = time.perf_counter()
        for _ in range(steps if name != "alone" or hvd.rank() == 0 else 0):
            step()
        if turn:  # the first call compiles
            row = {"batch": batch, "phase": name, "turn": turn, "s": time.perf_counter() - start}
            rows.append(row | {"steps": steps, "rank": hvd.rank()})
        log(step=turn, steps=rounds)
    return {"rows": rows, "weights": {}}


def one_step(hvd, x, y, speak, sync):
    """Return a training step on fixed scenes, optionally with all-reduce and synchronised normalisation."""
    import keras
    import tensorflow as tf

    x, y = tf.constant(x), tf.constant(y)
    net, optimizer = detector(lambda: batch_norm(sync=sync)), keras.optimizers.SGD(1e-4)
    optimizer.build(net.trainable_variables)
    values = [v.value for v in net.trainable_variables]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(detection_loss(y, net(x, training=True)))
        gradients = tape.gradient(loss, values)
        if speak:
            gradients = hvd.grouped_allreduce(gradients, op=hvd.Average)
        optimizer.apply(gradients, net.trainable_variables)
        return loss

    return lambda: step().numpy()


def write(path, save):
    """Replace a file atomically; `save` writes to the open temporary file."""
    beside = path.with_name(f".{path.name}.tmp")
    with open(beside, "wb") as file:
        save(file)
    beside.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "07_detector.json")
    parser.add_argument(
        "--only", choices=["speed", "norm", "ranks"], help="this part; the others stay as they are"
    )
    arguments = parser.parse_args()
    both, seeds = {"batches": [5, 16]}, {"seeds": list(SEEDS)}
    plan = [("speed", speed, 2, both), ("norm", norms, 1, seeds)]
    plan += [("ranks", on_ranks, p, both | seeds) for p in (1, 2)]
    plan = [entry for entry in plan if arguments.only in (None, entry[0])]
    record = {"train": TRAIN, "test": TEST, "epochs": EPOCHS, "norm_epochs": NORM_EPOCHS, "global": GLOBAL}
    former = json.loads(arguments.out.read_text())["jobs"] if arguments.only else []
    record["jobs"] = [job for job in former if job["part"] != arguments.only]
    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    for part, function, p, given in plan:
        where = {"backend": "local", "ranks_per_node": p, "time": "01:00:00", "memory": "3G"}
        results = (job := submit(function, name=f"07-{part}", **where, **given)).results()
        spec = {k: job.spec[k] for k in ("key", "command", "submitted", "versions", "machine", "arguments")}
        rows = [row for result in results[: 2 if part == "speed" else 1] for row in result["rows"]]
        record["jobs"].append({"part": part, "script": script} | spec | {"rows": rows})
    if weights := results[0]["weights"]:  # of the last job: two ranks
        write(HERE / "07_detector.npz", lambda f: np.savez_compressed(f, **weights))
    write(arguments.out, lambda f: f.write((json.dumps(record, indent=1) + "\n").encode()))
    print(f"{arguments.out}: {len(record['jobs'])} jobs")


if __name__ == "__main__":
    main()
