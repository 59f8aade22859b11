"""Train the small networks of lecture 03 as jobs and record them: python lectures/runs/03_small_networks.py

Four experiments on the first images of Fashion-MNIST, each with three seeds, each seed one job (two at a
time, one thread each):

    depth     a mini-AlexNet with some of its layers taken out
    residual  plain and residual networks of 8, 20 and 56 layers
    rates     the plain network of 56 layers at learning rates other than that of `residual`
    norm      a plain network of 8 layers with and without batch normalisation, over learning rates

The record, 03_small_networks.json, contains for each job its key (the hash of code, arguments and resources),
the hash of this script, command, versions (`cluster` is the commit), machine, date, seconds and all curves.
03_mini_alexnet.npz contains the weights of one network, as float16. Both files are replaced atomically at the
end. Jobs in the run log are not repeated.
"""

import argparse
import json
import pathlib
import tempfile
import time

import numpy as np

from cluster import submit
from cluster.jobs.run import provenance

HERE = pathlib.Path(__file__).parent
TRAIN, TEST, BATCH, MOMENTUM = 5000, 2000, 50, 0.9
REMOVED = {"none": [], "7": [7], "6, 7": [6, 7], "3, 4": [3, 4], "3, 4, 6, 7": [3, 4, 6, 7]}
DEPTHS = [1, 3, 9]  # n blocks per stage make 6n + 2 layers
RATES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
RATE, OTHER_RATES = 0.05, [0.003, 0.01, 0.2]  # of the residual networks and the plain ones compared with them
EPOCHS = {"depth": 10, "residual": 8, "rates": 8, "norm": 3}


def mini_alexnet(removed=(), seed=0):
    """Return AlexNet's eight layers, without those in `removed`: (N, 28, 28, 1) -> logits (N, 10)."""
    import keras

    layers, x = keras.layers, keras.Input((28, 28, 1))
    image, init = x, lambda i: keras.initializers.HeNormal(seed=100 * seed + i)
    for i, maps in enumerate([16, 32, 48, 48, 32], 1):
        if i not in removed:
            kernel = 5 if i == 1 else 3
            x = layers.Conv2D(maps, kernel, padding="same", activation="relu", kernel_initializer=init(i))(x)
        if i in (1, 2, 5):
            x = layers.MaxPooling2D(3, 2)(x)
    x = layers.Flatten()(x)
    for i in (6, 7):
        if i not in removed:
            x = layers.Dense(256, activation="relu", kernel_initializer=init(i))(x)
    return keras.Model(image, layers.Dense(10, kernel_initializer=init(8))(x))


def stack(blocks, residual, norm=True, seed=0, filters=8):
    """Return 6 * blocks + 2 layers for (N, 14, 14, 1), optionally with shortcuts without parameters."""
    import keras

    layers, seeds = keras.layers, iter(range(1000 * seed, 1000 * seed + 1000))

    def conv(x, maps, stride=1):
        init = keras.initializers.HeNormal(seed=next(seeds))
        x = layers.Conv2D(maps, 3, stride, padding="same", use_bias=not norm, kernel_initializer=init)(x)
        return layers.BatchNormalization(momentum=0.9)(x) if norm else x

    x = image = keras.Input((14, 14, 1))
    x = layers.ReLU()(conv(x, filters))
    for maps in (filters, 2 * filters, 4 * filters):
        for _ in range(blocks):
            stride = 1 if x.shape[-1] == maps else 2
            y = conv(layers.ReLU()(conv(x, maps, stride)), maps)
            if residual:
                if stride == 2:  # every second pixel, and zeros for the new maps
                    x = keras.ops.pad(x[:, ::2, ::2], [[0, 0], [0, 0], [0, 0], [0, maps - x.shape[-1]]])
                y = layers.Add()([x, y])
            x = layers.ReLU()(y)
    x = layers.GlobalAveragePooling2D()(x)
    init = keras.initializers.HeNormal(seed=next(seeds))
    return keras.Model(image, layers.Dense(10, kernel_initializer=init)(x))


def train(model, data, epochs, rate, seed, decay=True):
    """Train by SGD with momentum; return the loss of each epoch, and both sets' errors after it."""
    import keras
    import tensorflow as tf

    (x, y), (x_test, y_test) = data
    steps = epochs * (len(x) // BATCH)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps) if decay else rate
    optimizer = keras.optimizers.SGD(schedule, momentum=MOMENTUM)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rng = np.random.default_rng(seed)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [v.value for v in variables])
        optimizer.apply(gradients, variables)
        return loss

    @tf.function
    def logits(images):
        return model(images, training=False)

    def error(images, labels):
        found = [logits(images[i : i + 500]).numpy() for i in range(0, len(images), 500)]
        found = np.concatenate(found)
        right = (found.argmax(1) == labels) & np.isfinite(found).all(1)  # NaN is an error, not class 0
        return float(100 * (1 - right.mean()))

    curves = {"loss": [], "train": [], "test": []}
    for _ in range(epochs):
        order = rng.permutation(len(x))
        losses = []
        for i in range(0, len(x), BATCH):
            take = order[i : i + BATCH]
            losses.append(float(step(tf.constant(x[take]), tf.constant(y[take]))))
        mean = float(np.mean(losses))
        curves["loss"].append(mean if np.isfinite(mean) else None)
        curves["train"].append(error(x[:TEST], y[:TEST]))  # percent
        curves["test"].append(error(x_test, y_test))
    return {"parameters": int(model.count_params()), "epochs": curves}


def experiment(part, seed):
    """Run a job: all networks of an experiment with one seed."""
    import tensorflow as tf

    from cluster.jobs import log
    from cluster.training.data import fashion_mnist

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    data = fashion_mnist("train", TRAIN), fashion_mnist("test", TEST)
    if part != "depth":  # 2 x 2 pixels become one
        data = tuple((x.reshape(-1, 14, 2, 14, 2, 1).mean((2, 4)), y) for x, y in data)
    plans = {
        "depth": [({"removed": key}, 0.02) for key in REMOVED],
        "residual": [({"blocks": n, "residual": r}, RATE) for n in DEPTHS for r in (False, True)],
        "rates": [({"blocks": DEPTHS[-1], "residual": False}, rate) for rate in OTHER_RATES],
        "norm": [({"norm": norm, "rate": rate}, rate) for norm in (False, True) for rate in RATES],
    }[part]
    rows, weights, start = [], {}, time.perf_counter()
    for done, (what, rate) in enumerate(plans, 1):
        if part == "depth":
            model = mini_alexnet(REMOVED[what["removed"]], seed)
        elif part in ("residual", "rates"):
            model = stack(what["blocks"], what["residual"], seed=seed)
        else:
            model = stack(1, residual=False, norm=what["norm"], seed=seed)
        found = train(model, data, EPOCHS[part], rate, seed, decay=part != "norm")
        rows.append(what | {"rate": rate, "seed": seed} | found)
        log(step=done, steps=len(plans), test_error=found["epochs"]["test"][-1])
        if what == {"removed": "none"} and seed == 0:
            weights = {str(i): w.astype("float16") for i, w in enumerate(model.get_weights())}
    return {"rows": rows, "weights": weights, "seconds": round(time.perf_counter() - start)}


def write(path, save):
    """Replace a file atomically; `save` writes to the open temporary file."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        save(file)
    pathlib.Path(file.name).chmod(0o644)
    pathlib.Path(file.name).rename(path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "03_small_networks.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    waiting = [(name, seed) for seed in arguments.seeds for name in EPOCHS]
    options = {"backend": "local", "time": "01:00:00", "memory": "3G"}
    record = {"train": TRAIN, "test": TEST, "batch": BATCH, "epochs": EPOCHS, "jobs": []}
    script, jobs = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8")), []
    while waiting or any(not job.status.ended for job in jobs):
        running = [job for job in jobs if not job.status.ended]
        if waiting and len(running) < 2:
            name, seed = waiting.pop(0)
            jobs.append(submit(experiment, name=f"03-{name}", part=name, seed=seed, **options))
        elif running:
            running[0].wait()
    for job in jobs:
        result, spec = job.result(), job.spec
        keep = ("key", "command", "submitted", "versions", "machine", "arguments")
        found = {"script": script, "seconds": result["seconds"], "rows": result["rows"]}
        record["jobs"].append({k: spec[k] for k in keep} | found)
        if result["weights"]:
            write(HERE / "03_mini_alexnet.npz", lambda f, w=result["weights"]: np.savez_compressed(f, **w))
    write(arguments.out, lambda f: f.write((json.dumps(record, indent=1) + "\n").encode()))
    print(f"{arguments.out}: {len(jobs)} jobs")


if __name__ == "__main__":
    main()
