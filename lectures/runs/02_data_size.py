"""Train three classifiers on 300 to 55,000 images, each to its plateau: python lectures/runs/02_data_size.py

    HOG            hand-made features (histograms of gradient directions) with a linear classifier
    HOG + hidden   the same features with one hidden layer: about as many parameters as LeNet-5
    LeNet-5        of cluster.training.models, with ReLU
    shift, flip    LeNet-5 with each image shifted by up to two pixels, or with half of the images mirrored;
                   with 1,000 images only, and with LeNet-5's learning rate

Fixed before the runs:

    Images      The last HELD_OUT training images are used only to choose learning rates and to end training.
                Seed s trains on the images from number 11,000 s on, continuing with the first after the last.
                Up to 11,000 images, seeds have no images in common.
    Plateau     The held-out error is measured after each epoch, or after each 50 updates if an epoch has
                fewer. After PATIENCE measurements without a new minimum, the learning rate is divided by
                DROP. The third time, training ends. The weights with the lowest held-out error are kept.
                Counting begins when the training loss is below ln(10) / 2. A run whose loss is still above it
                after a dozen measurements, or that reaches LIMIT, stops and has "ended": false.
    Rates       For each size and classifier, seed 0 trains with each of RATES. With 55,000 images, it uses
                only the two that were best with 10,000. The other seeds use the learning rate with the lowest
                held-out error.
    Test error  Measured once per recorded training run, with the kept weights.

All runs use SGD with momentum and without weight decay, on one thread. Batches have 64 images, or 128 for
55,000 images. A job trains one seed with one or more sizes, and seed 0 comes first. The record,
02_data_size.json, contains the hash of this script and, for each job, its key (the hash of code, arguments
and resources), command, versions, machine, date, CPU seconds and all measurements. 02_data_size.npz contains
LeNet-5's weights of seed 0 for each size, as float16. Both files are replaced atomically after each job. A
recorded job is not repeated, so the script can be interrupted, and a partial record can be used.
"""

import argparse
import json
import pathlib
import tempfile
import time

import numpy as np

from cluster import jobs
from cluster.jobs.run import provenance

HERE = pathlib.Path(__file__).parent
CLASSIFIERS = ["HOG", "HOG + hidden", "LeNet-5"]
RATES, DROP, PATIENCE, LIMIT = [0.006, 0.02, 0.06, 0.2], 5, 3, 80
HELD_OUT, MOMENTUM = 2500, 0.9
CELL, BINS, SHIFT = 4, 9, 2


def hog(x):
    """Return histograms of oriented gradients (Dalal and Triggs 2005): x (N, 28, 28, 1) -> (N, 1296).

    Gradients come from Sobel's filters. In each cell of 4 x 4 pixels, gradient lengths are added up in 9 bins
    by direction, shared between the two nearest bins. Overlapping blocks of 2 x 2 cells are scaled to
    length 1.
    """
    image = np.pad(x[..., 0], ((0, 0), (1, 1), (1, 1)), mode="edge")  # (N, 30, 30)
    across, down = image[:, :, 2:] - image[:, :, :-2], image[:, 2:] - image[:, :-2]
    right = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]  # (N, 28, 28)
    below = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    length, direction = np.hypot(right, below), np.arctan2(below, right) % np.pi * (BINS / np.pi)
    cells, histograms = 28 // CELL, []
    for b in range(BINS):
        distance = np.abs((direction - b + BINS / 2) % BINS - BINS / 2)  # in bins, around the circle
        share = length * np.maximum(0, 1 - distance)
        histograms.append(share.reshape(-1, cells, CELL, cells, CELL).sum((2, 4)))  # (N, 7, 7)
    h = np.stack(histograms, -1)
    blocks = np.concatenate([h[:, :-1, :-1], h[:, :-1, 1:], h[:, 1:, :-1], h[:, 1:, 1:]], -1)  # (N, 6, 6, 36)
    blocks /= np.sqrt((blocks**2).sum(-1, keepdims=True) + 0.01)
    return blocks.reshape(len(x), -1).astype(np.float32)


def shift(x, rng):
    """Shift each image (28, 28, 1) to one of 5 x 5 positions, at random."""
    wide = np.pad(x, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, x.shape[1:3], (1, 2))  # (N, 5, 5, 1, 28, 28)
    down, right = rng.integers(0, 2 * SHIFT + 1, (2, len(x)))
    return windows[np.arange(len(x)), down, right, 0][..., np.newaxis]


def flip(x, rng):
    """Mirror each image (28, 28, 1) with probability 1/2."""
    return np.where(rng.random((len(x), 1, 1, 1)) < 0.5, x[:, :, ::-1], x)


def network(name, seed):
    """Return an untrained classifier with logits (N, 10)."""
    import keras

    from cluster.training.models import lenet5

    if not name.startswith("HOG"):
        return lenet5(seed, activation="relu")

    def dense(n, i, activation=None):
        init = keras.initializers.GlorotUniform(seed=1000 * seed + i)
        return keras.layers.Dense(n, activation, kernel_initializer=init)

    hidden = [dense(47, 1, "relu")] if name == "HOG + hidden" else []
    return keras.Sequential([keras.Input((36 * 36,)), *hidden, dense(10, 0)])


def trainer(name, images):
    """Return a function that trains a classifier to its plateau; TensorFlow traces it once for all seeds."""
    import tensorflow as tf

    model, batch = network(name, 0), 128 if images > 11_000 else 64
    weights = [v.value for v in model.trainable_variables]
    velocities, rate = [tf.Variable(tf.zeros_like(w)) for w in weights], tf.Variable(0.0)
    updates = max(-(-images // batch), 50)  # updates between two measurements
    logits_of = tf.function(model)

    @tf.function
    def train_part(x, y):
        """Make an update per batch of x (updates, batch, ...), y (updates, batch); return the mean loss."""
        total = 0.0
        for i in tf.range(updates):
            with tf.GradientTape() as tape:
                logits = model(x[i], training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y[i], logits))
            for w, v, g in zip(weights, velocities, tape.gradient(loss, weights), strict=True):
                v.assign(MOMENTUM * v - rate * g)
                w.assign_add(v)
            total += loss
        return total / updates

    def error(x, y):
        logits = np.concatenate([logits_of(x[i : i + 500]).numpy() for i in range(0, len(x), 500)])
        right = (logits.argmax(1) == y) & np.isfinite(logits).all(1)  # NaN counts as an error, not as class 0
        return round(float(100 * (1 - right.mean())), 2)

    def train(seed, start, given, held_out, change):
        """Train to the plateau, starting at learning rate `start`; return measurements and best weights."""
        model.set_weights(network(name, seed).get_weights())
        for v in velocities:
            v.assign(tf.zeros_like(v))
        rate.assign(start)
        (x, y), rng, order = given, np.random.default_rng([seed, images]), np.empty(0, int)
        losses, errors, drops, since, best = [], [], [], 0, None
        while len(drops) < 3 and len(errors) < (LIMIT if min(losses, default=9) < np.log(10) / 2 else 12):
            while len(order) < updates * batch:
                order = np.concatenate([order, rng.permutation(images)])  # each image is used equally often
            now, order = order[: updates * batch], order[updates * batch :]
            seen = change(x[now], rng) if change else x[now]
            loss = train_part(seen.reshape(updates, batch, *x.shape[1:]), y[now].reshape(updates, batch))
            losses.append(round(float(loss), 5))
            errors.append(error(*held_out))
            if errors[-1] == min(errors) and errors.count(errors[-1]) == 1:
                best, since = model.get_weights(), 0
            elif min(losses) < np.log(10) / 2:
                since += 1
            if since == PATIENCE:
                drops.append(len(errors))
                rate.assign(rate / DROP)
                since = 0
        return {"loss": losses, "held_out": errors, "drops": drops, "ended": len(drops) == 3}, best

    def test(best, x, y):
        model.set_weights(best)
        return error(x, y)

    return train, test


def in_parts(function, x):
    """Return function(x), computed for a thousand images at a time."""
    return np.concatenate([np.asarray(function(x[i : i + 1000])) for i in range(0, len(x), 1000)])


def experiment(item):
    """Run a job {"seed", "rates": {images: {classifier: [rates to try]}}}: all training runs of one seed."""
    import tensorflow as tf

    from cluster.jobs import log
    from cluster.training.data import fashion_mnist

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    (x, y), (x_test, y_test), start = fashion_mnist("train"), fashion_mnist("test"), time.process_time()
    seed, rows, kept = item["seed"], [], {}
    for images, rates in ((int(n), rates) for n, rates in item["rates"].items()):
        chosen = (11_000 * seed + np.arange(images)) % 55_000
        for name, tried in rates.items():
            pixels = (x[chosen], x[-HELD_OUT:], x_test)
            given, held_out, test_set = [in_parts(hog, p) for p in pixels] if "HOG" in name else pixels
            train, test = trainer(name, images)
            change, runs = {"shift": shift, "flip": flip}.get(name), []
            for rate in tried:
                measured, best = train(seed, rate, (given, y[chosen]), (held_out, y[-HELD_OUT:]), change)
                runs.append((min(measured["held_out"]), rate, measured, best))
                log(step=len(rows), images=images, rate=rate, held_out=runs[-1][0])
            _, rate, measured, best = min(runs, key=lambda run: run[0])
            row = {"images": images, "classifier": name, "seed": seed, "rate": rate}
            row |= {
                "tried": {str(r): lowest for lowest, r, *_ in runs},
                "error": test(best, test_set, y_test),
            }
            rows.append(row | measured)
            if name == "LeNet-5" and seed == 0:
                kept |= {f"{images}/{i}": w.astype(np.float16) for i, w in enumerate(best)}
    return {"rows": rows, "weights": kept, "cpu_seconds": round(time.process_time() - start)}


def write(path, save):
    """Replace a file atomically; `save` writes to the open temporary file."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        save(file)
    pathlib.Path(file.name).chmod(0o644)
    pathlib.Path(file.name).rename(path)


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "02_data_size.json")
    arguments = parser.parse_args()
    options = {"backend": "local", "time": "12:00:00", "memory": "6G", "name": "02-data-size"}
    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record = {"script": script, "command": "python lectures/runs/02_data_size.py", "jobs": []}
    weights, tried = {}, {}

    def run(seed, rates):
        job = jobs.map(experiment, [{"seed": seed, "rates": rates}], max_parallel=1, **options)[0]
        result, spec = job.result(), job.spec
        what = {key: spec[key] for key in ("key", "submitted", "versions", "machine", "arguments")}
        record["jobs"].append({"rows": result["rows"], "cpu_seconds": result["cpu_seconds"]} | what)
        weights.update(result["weights"])
        if seed == 0:
            tried.update({(row["images"], row["classifier"]): row["tried"] for row in result["rows"]})
        write(arguments.out, lambda f: f.write((json.dumps(record, indent=1) + "\n").encode()))
        write(arguments.out.with_suffix(".npz"), lambda f: np.savez_compressed(f, **weights))

    def best(images, many=1):
        """Return {classifier: the best learning rates of seed 0}."""
        held_out = {name: tried[images, name] for name in CLASSIFIERS}
        return {name: [float(r) for r in sorted(h, key=h.get)[:many]] for name, h in held_out.items()}

    small, medium = [300, 1000, 3000], [10_000]
    for group in (small, medium):
        run(0, {str(n): dict.fromkeys(CLASSIFIERS, RATES) for n in group})
    run(0, {"55000": best(10_000, many=2)})
    for group, seeds in ((small + medium, [1, 2]), ([55_000], [1, 2]), (small, [3, 4])):
        for seed in seeds:
            run(seed, {str(n): best(n) for n in group})
    for seed in range(3):
        run(seed, {"1000": dict.fromkeys(["shift", "flip"], best(1000)["LeNet-5"])})
    print(f"{arguments.out}: {len(record['jobs'])} jobs")


if __name__ == "__main__":
    main()
