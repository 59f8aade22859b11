"""Train four classifiers on 100 to 60,000 images, record errors: python lectures/runs/02_data_size.py

    HOG         hand-made features (histograms of gradient directions) and a linear classifier
    MLP         one hidden layer of 77 neurons: about as many parameters as LeNet-5
    LeNet-5     of cluster.training.models, with ReLU
    augmented   LeNet-5, which sees each image shifted by up to two pixels and flipped, at random

For every size and seed all four get the same images, batches of 32 and the same number of updates, UPDATES;
they differ in nothing but the classifier and its learning rate, RATES. Each size is one job, with five seeds.
Sizes that are recorded in the ledger of runs are not trained again, so this script can be interrupted.

The record, 02_data_size.json, holds for each job its key (the hash of code, arguments and resources), the
hash of this script, command, versions, machine, date and CPU seconds, the test error of each training in
percent, and the first filters of LeNet-5. It is written after each size, beside and then renamed.
"""

import argparse
import hashlib
import json
import pathlib
import tempfile
import time

import numpy as np

from cluster import jobs

HERE = pathlib.Path(__file__).parent
UPDATES = {100: 300, 300: 400, 1000: 600, 3000: 1000, 10_000: 2000, 60_000: 12_000}  # by the number of images
RATES = {"HOG": 0.1, "MLP": 0.05, "LeNet-5": 0.05, "augmented": 0.05}  # fall to 0 as a half cosine
BATCH, MOMENTUM, SEEDS = 32, 0.9, [0, 1, 2, 3, 4]
CELL, BINS, SHIFT = 4, 9, 2


def hog(x):
    """Histograms of oriented gradients (Dalal and Triggs 2005): x (N, 28, 28, 1) -> (N, 1296).

    Sobel's filters; in cells of 4 x 4 pixels the gradient's length is added up in 9 bins of its direction,
    shared between the two nearest; blocks of 2 x 2 cells are brought to length 1, and overlap.
    """
    image = np.pad(x[..., 0], ((0, 0), (1, 1), (1, 1)), mode="edge")  # (N, 30, 30)
    across, down = image[:, :, 2:] - image[:, :, :-2], image[:, 2:] - image[:, :-2]
    right = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]  # (N, 28, 28)
    below = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    length, direction = np.hypot(right, below), np.arctan2(below, right) % np.pi * (BINS / np.pi)
    cells, histograms = 28 // CELL, []
    for b in range(BINS):
        distance = np.abs((direction - b + BINS / 2) % BINS - BINS / 2)  # on a circle
        share = length * np.maximum(0, 1 - distance)
        histograms.append(share.reshape(-1, cells, CELL, cells, CELL).sum((2, 4)))  # (N, 7, 7)
    h = np.stack(histograms, -1)
    blocks = np.concatenate([h[:, :-1, :-1], h[:, :-1, 1:], h[:, 1:, :-1], h[:, 1:, 1:]], -1)  # (N, 6, 6, 36)
    blocks /= np.sqrt((blocks**2).sum(-1, keepdims=True) + 0.01)
    return blocks.reshape(len(x), -1).astype(np.float32)


def augment(x, rng):
    """Each image (28, 28, 1) at one of 5 x 5 places, every other one as in a mirror: 50 images of one."""
    wide = np.pad(x, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, x.shape[1:3], (1, 2))  # (N, 5, 5, 1, 28, 28)
    down, right = rng.integers(0, 2 * SHIFT + 1, (2, len(x)))
    out = windows[np.arange(len(x)), down, right, 0][..., np.newaxis]
    mirrored = rng.random(len(x)) < 0.5
    out[mirrored] = out[mirrored, :, ::-1]
    return out


def network(name, seed):
    """An untrained classifier: logits (N, 10)."""
    import keras

    from cluster.training.models import lenet5

    if name in ("LeNet-5", "augmented"):
        return lenet5(seed, activation="relu")

    def dense(n, i, activation=None):
        init = keras.initializers.GlorotUniform(seed=1000 * seed + i)
        return keras.layers.Dense(n, activation, kernel_initializer=init)

    if name == "HOG":
        return keras.Sequential([keras.Input((36 * 36,)), dense(10, 0)])
    flat = [keras.Input((28, 28, 1)), keras.layers.Flatten()]
    return keras.Sequential([*flat, dense(77, 0, "relu"), dense(10, 1)])


def trainer(name, updates):
    """A function that trains a classifier with a seed; TensorFlow traces its step once for all seeds."""
    import keras
    import tensorflow as tf

    model = network(name, 0)
    optimizer = keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(RATES[name], updates), MOMENTUM)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    def train(seed, x, y):
        """SGD with momentum; the trained network, and the mean loss of the last tenth of the updates."""
        model.set_weights(network(name, seed).get_weights())
        for variable in optimizer.variables:  # velocities, and the number of updates
            variable.assign(keras.ops.zeros_like(variable))
        rng, losses = np.random.default_rng([seed, len(x)]), []
        epochs = -(-updates * BATCH // len(x))
        order = np.concatenate([rng.permutation(len(x)) for _ in range(epochs)])  # each image equally often
        for batch in order[: updates * BATCH].reshape(updates, BATCH):
            images = augment(x[batch], rng) if name == "augmented" else x[batch]
            losses.append(float(step(tf.constant(images), tf.constant(y[batch]))))
        return model, float(np.mean(losses[-updates // 10 :]))

    return train


def in_parts(function, x):
    """function(x), a thousand images at a time."""
    return np.concatenate([np.asarray(function(x[i : i + 1000])) for i in range(0, len(x), 1000)])


def experiment(images):
    """One job: the four classifiers with five seeds, each seed with other `images` of the 60,000."""
    import tensorflow as tf

    from cluster.jobs import log
    from cluster.training.data import fashion_mnist

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    (x, y), (x_test, y_test), start = fashion_mnist("train"), fashion_mnist("test"), time.process_time()
    hog_test = in_parts(hog, x_test)
    train = {name: trainer(name, UPDATES[images]) for name in RATES}
    rows, filters = [], {}
    for done, (seed, name) in enumerate([(s, n) for s in SEEDS for n in RATES], 1):
        chosen = np.random.default_rng(seed).permutation(len(x))[:images]
        given, test = (in_parts(hog, x[chosen]), hog_test) if name == "HOG" else (x[chosen], x_test)
        model, loss = train[name](seed, given, y[chosen])
        error = float(100 * np.mean(in_parts(model, test).argmax(1) != y_test))
        rows.append({"classifier": name, "seed": seed, "loss": round(loss, 5), "error": round(error, 2)})
        if name == "LeNet-5" and seed == SEEDS[0]:
            filters = model.get_weights()[0][..., 0, :].round(4).tolist()  # (5, 5, 6)
        log(step=done, steps=len(SEEDS) * len(RATES), test_error=error)
    return {"rows": rows, "filters": filters, "cpu_seconds": round(time.process_time() - start)}


def write(path, record):
    """Write beside and rename."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(json.dumps(record, indent=1) + "\n")
    pathlib.Path(file.name).chmod(0o644)
    pathlib.Path(file.name).rename(path)


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "02_data_size.json")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(UPDATES), choices=list(UPDATES))
    arguments = parser.parse_args()
    options = {"backend": "local", "time": "02:00:00", "memory": "4G", "name": "02-data-size"}
    sweep = jobs.map(experiment, arguments.sizes, max_parallel=1, **options)
    script = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    record = {"script": script, "command": "python lectures/runs/02_data_size.py", "batch": BATCH, "jobs": []}
    for images, job in zip(arguments.sizes, sweep, strict=True):
        result, spec = job.result(), job.spec
        what = {key: spec[key] for key in ("key", "submitted", "versions", "machine", "arguments")}
        record["jobs"].append({"images": images, "updates": UPDATES[images]} | result | what)
        write(arguments.out, record)
    print(f"{arguments.out}: {len(record['jobs'])} sizes")


if __name__ == "__main__":
    main()
