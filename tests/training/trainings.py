"""What the tests of data-parallel training run on ranks. N is odd, so that the images do not go round."""

import numpy as np

N, BATCH, EPOCHS, ETA = (
    645,
    32,
    2,
    0.05,
)  # on 2 ranks: 322 images a rank, 11 steps an epoch, the last one of 2
WARMUP = 11


def small_net(seed):
    """Logits (N, 10) from images (N, 28, 28, 1), from a network whose weights can be compared one by one."""
    import keras

    init = keras.initializers.GlorotUniform
    x = image = keras.Input((28, 28, 1))
    x = keras.layers.AveragePooling2D(4)(x)
    x = keras.layers.Dense(16, activation="tanh", kernel_initializer=init(seed))(keras.layers.Flatten()(x))
    return keras.Model(image, keras.layers.Dense(10, kernel_initializer=init(seed + 100))(x))


def compiled(model, ranks):
    import keras

    from cluster.training.schedules import LinearWarmup

    optimizer = keras.optimizers.SGD(LinearWarmup(ETA, ranks, WARMUP), momentum=0.9)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def recorder(into):
    """A callback that appends all weights, as one vector, after each step."""
    import keras

    class Recorder(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            into.append(np.concatenate([w.ravel() for w in self.model.get_weights()]))

    return Recorder()


def one_process():
    """Plain Keras, no Horovod and nothing of cluster.training.distributed, on the batches of both ranks.

    Returns the weights after each step, (steps, weights).
    """
    from cluster.training import data

    x, y = data.fashion_mnist("train", N)
    model, weights = compiled(small_net(seed=0), ranks=2), []
    for epoch in range(EPOCHS):
        order = np.random.default_rng([7, epoch]).permutation(N)[: N - 1]
        model.fit(x[order], y[order], 2 * BATCH, shuffle=False, verbose=0, callbacks=[recorder(weights)])
    return np.array(weights)


def two_ranks():
    """Every property that needs ranks, in one job: {property: what this rank found}."""
    from cluster.training import distributed

    hvd = distributed.horovod()
    trials = (trial_training, trial_broadcast, trial_average, trial_statistics, trial_save)
    return {trial.__name__: trial(distributed, hvd.rank()) for trial in trials}


def trial_training(distributed, rank):
    """Train as the course does, from a seed of each rank's own, with validation on the rank's part."""
    from cluster.jobs import run_folder
    from cluster.training import data, models

    x, y = data.fashion_mnist("train", N)
    x_test, y_test = data.fashion_mnist("test", 101)
    net, weights = small_net(seed=rank), []
    model = compiled(distributed.DataParallel(net.input, net.output), ranks=2)
    shards = distributed.Shards(x, y, BATCH, seed=7)
    ranks = distributed.Ranks(shards, checkpoint=run_folder() / "model.keras")
    history = model.fit(
        shards, epochs=EPOCHS, verbose=0, callbacks=[ranks, recorder(weights)],
        validation_data=(x_test[: 100][rank::2], y_test[: 100][rank::2]),
    ).history  # fmt: skip
    right = float(np.mean(np.argmax(net(x_test[:100]), axis=1) == y_test[:100]))
    momentum = np.concatenate([np.ravel(v.numpy()) for v in model.optimizer.variables])
    return {
        "weights": np.array(weights),
        "digest": models.digest(model),
        "momentum": momentum,
        "history": {name: [float(v) for v in values] for name, values in history.items()},
        "accuracy of the whole set": right,
        "predicted": net(x_test[:3]).numpy(),
    }


def trial_broadcast(distributed, rank):
    """Weights, momentum and step count differ before, and are rank 0's after."""
    from cluster.training import models

    net = compiled(small_net(seed=rank), ranks=2)
    net.optimizer.build(net.trainable_variables)
    for v in net.optimizer.variables:
        v.assign(v + 3 + rank)
    before = models.digest(net)
    distributed.broadcast(net)
    state = [float(np.mean(v.numpy())) for v in net.optimizer.variables if "learning" not in v.name]
    return {"before": before, "after": models.digest(net), "state": state}


def trial_average(distributed, rank):
    """3 of 4 right on rank 0, 1 of 6 on rank 1; and a metric where both saw the same number."""
    return [
        distributed.average({"accuracy": (3 / 4, 1 / 6)[rank]}, count=(4, 6)[rank]),
        distributed.average({"b": (1.0, 2.0)[rank], "a": (0.0, 10.0)[rank]}),
    ]


def trial_statistics(distributed, rank):
    """Moving statistics are averaged, trainable weights and the seeds of dropout are left alone."""
    import keras

    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    )
    norm = model.layers[0]
    for variable, value in [(norm.moving_mean, 1.0), (norm.moving_variance, 5.0), (norm.gamma, 2.0)]:
        variable.assign([value + 2 * rank] * 3)
    distributed.average_statistics(model)
    return [v.numpy().tolist() for v in (norm.moving_mean, norm.moving_variance, norm.gamma)]


def trial_save(distributed, rank):
    """Each rank is given a path of its own; then a writing is cut short."""
    from cluster.jobs import run_folder

    class Cut:
        def save(self, path):
            path.write_bytes(b"half")
            raise InterruptedError

    path = run_folder() / f"by-{rank}" / "model.keras"
    path.parent.mkdir()
    distributed.save(small_net(seed=1), path)
    files = sorted(f.name for f in path.parent.iterdir())
    path.write_bytes(b"the one before")
    try:
        distributed.save(Cut(), path)
    except InterruptedError:
        files.append("cut")
    return {"files": files, "left": path.read_bytes().decode()}
