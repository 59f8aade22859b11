"""Compare fine-tuning with training from scratch: python lectures/runs/04_transfer.py

Each seed draws five of the ten classes of Fashion-MNIST. LeNet-5 (ReLU) is trained on all their images. It
then learns the other five classes from few images:

    scratch     a new network, all weights trained
    fine-tuned  the trained network with a new last layer, all weights trained
    frozen      the same start, with only the new last layer trained

For each number of images, all three get the same batches, UPDATES updates of BATCH images and the same
learning rate. They differ in their initial weights and in which weights are trained. Each seed is one job.
Seeds in the run log are not trained again, so this script can be interrupted.

The record, 04_transfer.json, contains the hash of this script and the commit. For each job it contains the
key (the hash of code, arguments and resources), versions, machine, date, CPU seconds, the classes and the
error of the first training, and the test error on the new classes in percent after each of CHECKS updates.
It is replaced atomically after each seed. The runs use one thread and take about six CPU minutes.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np

from cluster import jobs
from cluster.jobs.run import provenance

HERE = pathlib.Path(__file__).parent
SIZES = [10, 30, 100, 300, 1000, 10_000]  # total images of the five new classes
METHODS = ["scratch", "fine-tuned", "frozen"]
FIRST, UPDATES, CHECKS = 1000, 400, [20, 100, 400]  # updates of the first and second training; when to test
TESTED = 2000  # number of test images, from the 5,000 of the new classes
RATE, BATCH, MOMENTUM, SEEDS = 0.05, 32, 0.9, [0, 1, 2, 3, 4]  # the learning rate falls to 0 as a half cosine


def classes_of(seed):
    """Return five classes for the first training, and the other five."""
    order = np.random.default_rng([4, seed]).permutation(10)
    return sorted(order[:5].tolist()), sorted(order[5:].tolist())


def chosen(y, classes, images, rng):
    """Return the shuffled indices of `images` examples, equally many per class: (images,)."""
    each = images // len(classes)
    return rng.permutation(np.concatenate([rng.permutation(np.flatnonzero(y == c))[:each] for c in classes]))


def trainer(updates, last_only):
    """Return a model and a function that trains it from given weights; TensorFlow traces its step once."""
    import keras
    import tensorflow as tf

    from cluster.training.models import lenet5

    model = lenet5(0, classes=5, activation="relu")
    optimizer = keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(RATE, updates), MOMENTUM)
    variables = model.trainable_variables[-2:] if last_only else model.trainable_variables
    optimizer.build(variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    def train(weights, x, y, order, look, checks):
        """Train by SGD with momentum on the rows `order` (updates, BATCH); call look(model) at `checks`."""
        model.set_weights(weights)
        for variable in optimizer.variables:  # velocities, and the number of updates
            variable.assign(keras.ops.zeros_like(variable))
        found = []
        for done, batch in enumerate(order, 1):
            step(tf.constant(x[batch]), tf.constant(y[batch]))
            if done in checks:
                found.append(look(model))
        return model.get_weights(), found

    return train


def order_of(images, updates, rng):
    """Return the image indices of each batch, with each image equally often: (updates, BATCH)."""
    epochs = -(-updates * BATCH // images)
    order = np.concatenate([rng.permutation(images) for _ in range(epochs)])
    return order[: updates * BATCH].reshape(updates, BATCH)


def error(model, x, y):
    """Return the error in percent, computed for a thousand images at a time."""
    wrong = [np.argmax(model(x[i : i + 1000]), 1) != y[i : i + 1000] for i in range(0, len(x), 1000)]
    return round(float(100 * np.mean(np.concatenate(wrong))), 2)


def experiment(seed):
    """Run a job: the first training, then three methods at each size."""
    import tensorflow as tf

    from cluster.jobs import log
    from cluster.training.data import fashion_mnist
    from cluster.training.models import lenet5

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    start = time.process_time()
    data, test = fashion_mnist("train"), fashion_mnist("test")

    def part(classes, which):
        """Return the images of the classes, with labels 0 ... 4."""
        x, y = which
        rows = np.isin(y, classes)
        return x[rows], np.searchsorted(classes, y[rows])

    old, new = classes_of(seed)
    (x, y), (x_test, y_test) = part(old, data), part(old, test)
    order = order_of(len(x), FIRST, np.random.default_rng([4, seed, 1]))
    first = trainer(FIRST, last_only=False)
    weights = lenet5(seed, classes=5, activation="relu").get_weights()
    trained, [before] = first(weights, x, y, order, lambda m: error(m, x_test, y_test), [FIRST])
    log(step=0, steps=len(SIZES), first_error=before)

    fresh = lenet5(100 + seed, classes=5, activation="relu").get_weights()
    starts = {"scratch": fresh, "fine-tuned": trained[:-2] + fresh[-2:], "frozen": trained[:-2] + fresh[-2:]}
    train = {last_only: trainer(UPDATES, last_only) for last_only in (False, True)}
    (x, y), (x_test, y_test) = part(new, data), part(new, test)
    x_test, y_test = x_test[:TESTED], y_test[:TESTED]
    rows = []
    for done, images in enumerate(SIZES, 1):
        some = chosen(y, range(5), images, np.random.default_rng([4, seed, 2]))
        order = order_of(images, UPDATES, np.random.default_rng([4, seed, 3, images]))
        for method, weights in starts.items():
            _, found = train[method == "frozen"](
                weights, x[some], y[some], order, lambda m: error(m, x_test, y_test), CHECKS
            )
            rows.append({"images": images, "method": method, "errors": found})
        log(step=done, steps=len(SIZES), **{row["method"]: row["errors"][-1] for row in rows[-3:]})
    what = {"first classes": old, "first error": before, "rows": rows}
    return what | {"cpu_seconds": round(time.process_time() - start)}


def write(path, record):
    """Replace the record atomically."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(json.dumps(record, indent=1) + "\n")
    pathlib.Path(file.name).chmod(0o644)
    pathlib.Path(file.name).rename(path)


def commit():
    """Return the commit that is checked out, or None outside git."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return asked.stdout.strip() or None


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "04_transfer.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    arguments = parser.parse_args()
    options = {"backend": "local", "time": "02:00:00", "memory": "4G", "name": "04-transfer"}
    sweep = jobs.map(experiment, arguments.seeds, max_parallel=1, **options)
    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record = {"script": script, "command": "python lectures/runs/04_transfer.py", "commit": commit()}
    record |= {"batch": BATCH, "rate": RATE, "updates": UPDATES, "checks": CHECKS, "jobs": []}
    for seed, job in zip(arguments.seeds, sweep, strict=True):
        result, spec = job.result(), job.spec
        what = {key: spec[key] for key in ("key", "submitted", "versions", "machine", "arguments")}
        record["jobs"].append({"seed": seed} | result | what)
        write(arguments.out, record)
    print(f"{arguments.out}: {len(record['jobs'])} seeds")


if __name__ == "__main__":
    main()
