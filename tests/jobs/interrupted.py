"""Functions for tests of interrupted runs. In the first attempt, they can wait at a step to be killed
there."""

import time

import numpy as np

from cluster.jobs import log, run_folder
from cluster.jobs.run import attempts
from cluster.training import checkpoint


def stops(step, at):
    """In the first attempt, wait after step `at` until this process is killed."""
    if step == at and attempts.current() == 1:
        (run_folder() / "stopped").touch()
        time.sleep(300)


def walks(steps, at=None):
    """Sum random numbers, with a checkpoint every third step; return all sums."""
    rng = np.random.default_rng(1)
    state = checkpoint.load() or {"step": 0, "sums": [0.0], "rng": rng.bit_generator.state}
    rng.bit_generator.state, sums = state["rng"], state["sums"]
    for step in range(state["step"] + 1, steps + 1):
        sums.append(sums[-1] + rng.random())
        log(step=step, steps=steps, total=sums[-1])
        if step % 3 == 0:
            checkpoint.save(step=step, sums=sums, rng=rng.bit_generator.state)
        stops(step, at)
    return sums


def raises_after(path):
    """Append the checkpoint found at the start to a file, save a new checkpoint, and raise an error."""
    with open(path, "a") as f:
        f.write(f"{checkpoint.load()}\n")
    checkpoint.save(step=1)
    raise ValueError("of its own")


EPOCHS = 2


def trains(at=None):
    """Train with all state that must be restored: momentum, warmup, batch norm, dropout and running
    metrics."""
    import keras

    from cluster.training import data, distributed, models, schedules

    x, y = data.fashion_mnist("train", 320)
    keras.utils.set_random_seed(3)
    net = image = keras.Input((28, 28, 1))
    net = keras.layers.Conv2D(4, 3, strides=2)(net)
    net = keras.layers.ReLU()(keras.layers.BatchNormalization()(net))
    net = keras.layers.Dropout(0.3)(keras.layers.Flatten()(net))
    model = distributed.DataParallel(image, keras.layers.Dense(10)(net))
    model.compile(
        keras.optimizers.SGD(schedules.LinearWarmup(0.05, 2, 7), momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    shards = distributed.Shards(x, y, 16, seed=7)

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            stops(int(self.model.optimizer.iterations), at)

    ranks = distributed.Ranks(shards, checkpoint=run_folder() / "model.keras")
    history = model.fit(
        shards, epochs=EPOCHS, verbose=0, callbacks=[ranks, Stop()], validation_data=(x[:32], y[:32])
    ).history
    momentum = [v.numpy() for v in model.optimizer.variables]
    return {
        "digest": models.digest(model),
        "optimizer": [float(np.sum(m, dtype=np.float64)) for m in momentum],
        "history": {k: [float(v) for v in vs] for k, vs in history.items()},
    }
