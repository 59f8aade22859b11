"""Programs that the tests of data-parallel training run on ranks. N is odd, so the images cannot be divided
evenly."""

import traceback

import numpy as np

# on 2 ranks: 322 images per rank, 11 steps per epoch, the last one with 2 images
N, BATCH, EPOCHS, ETA = 645, 32, 2, 0.05
WARMUP = 11


def small_net(seed):
    """Return a network from images (N, 28, 28, 1) to logits (N, 10), small enough to compare all weights."""
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
    """Return a callback that appends all weights to `into`, as one vector, after each step."""
    import keras

    class Recorder(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            into.append(np.concatenate([w.ravel() for w in self.model.get_weights()]))

    return Recorder()


def trial_one_process(distributed, rank):
    """Train with plain Keras, without cluster.training.distributed, on the global batches of both ranks.

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
    """Run all trials that need ranks in one job, and return {trial: this rank's result}.

    If a trial raises an error (on both ranks alike), its result is the error's text; the other trials
    continue.
    """
    from cluster.training import distributed

    trials = (
        trial_one_process, trial_training, trial_broadcast, trial_average, trial_mixed_precision,
        trial_evaluation, trial_dropout, trial_names, trial_parallel_variance, trial_save, trial_agreement,
        trial_callbacks,
    )  # fmt: skip
    rank, results = distributed.horovod().rank(), {}
    for trial in trials:
        try:
            results[trial.__name__] = trial(distributed, rank)
        except Exception:
            results[trial.__name__] = traceback.format_exc()
    return results


def trial_training(distributed, rank):
    """Train as the course does, from a different seed on each rank, with validation on the rank's part."""
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
    """Give each rank other weights, momentum and step counts; return the weights' digests before and after a
    broadcast, and the optimizer's state afterwards."""
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
    """Average an accuracy of 3/4 over 4 images on rank 0 and of 1/6 over 6 images on rank 1; then average
    metrics with the same count on both ranks."""
    return [
        distributed.average({"accuracy": (3 / 4, 1 / 6)[rank]}, count=(4, 6)[rank]),
        distributed.average({"b": (1.0, 2.0)[rank], "a": (0.0, 10.0)[rank]}),
    ]


def trial_mixed_precision(distributed, rank):
    """Train with float16, then let one rank overflow; return the digest and the loss scale before and
    after that, and whether training has moved the weights."""
    import keras

    from cluster.training import data, models

    x, y = data.fashion_mnist("train", N)
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        net = small_net(seed=0)
        start = np.concatenate([w.ravel() for w in net.get_weights()])
        model, shards = distributed.DataParallel(net.input, net.output), distributed.Shards(x, y, BATCH, 7)
        model.compile(
            keras.optimizers.SGD(ETA, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(True)
        )
        model.fit(shards, verbose=0, callbacks=[distributed.Ranks(shards)])
        far = np.linalg.norm(np.concatenate([w.ravel() for w in net.get_weights()]) - start)
        before = models.digest(net), float(model.optimizer.dynamic_scale)
        broken = np.full((4, 28, 28, 1), np.inf if rank == 1 else 0.5, np.float32)
        model.train_on_batch(broken, np.zeros(4, int))
        distributed.broadcast(model)  # again, as a second fit would
        after = models.digest(net), float(model.optimizer.dynamic_scale)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    return {"far": far, "before": before, "after": after}


def trial_evaluation(distributed, rank):
    """Evaluate 12 images in three batches on rank 0 (3 of them right) and 4 images on rank 1 (2 of them
    right)."""
    import keras

    shown = []

    class Shown(keras.callbacks.Callback):
        def on_test_end(self, logs=None):
            shown.append(dict(logs))

    def identity(outputs):
        image = keras.Input((outputs,))
        net = keras.layers.Dense(outputs, use_bias=False, kernel_initializer="identity")(image)
        return distributed.DataParallel(image, net)

    model = identity(2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=["accuracy"])
    n, right = ((12, 3), (4, 2))[rank]
    x = np.tile(np.float32([4, 0]), (n, 1))
    y = np.where(np.arange(n) < right, 0, 1)
    shards = distributed.Shards(np.tile(np.float32([4, 0]), (16, 1)), np.zeros(16, int), 4)
    history = model.fit(
        shards, epochs=2, verbose=0, callbacks=[distributed.Ranks(shards), Shown()],
        validation_data=(x, y), validation_batch_size=4,
    ).history  # fmt: skip
    bare = model.evaluate(x, y, 4, verbose=0, return_dict=True)
    line = identity(1)
    line.compile(keras.optimizers.SGD(0.0), "mse", metrics=[keras.metrics.RootMeanSquaredError()])
    far = np.full((n, 1), (1.0, 5.0)[rank], np.float32)  # errors of 1 on rank 0, and of 5 on rank 1
    return {
        "history": {k: [float(v) for v in vs] for k, vs in history.items()},
        "shown": [{k: float(v) for k, v in logs.items()} for logs in shown],
        "bare": {k: float(v) for k, v in bare.items()},
        "line": [float(v) for v in line.evaluate(far, 0 * far, verbose=0)],
    }


def trial_dropout(distributed, rank):
    """Return the dropout masks of two ranks whose scripts set the same seed, and of two that set different
    seeds."""
    import keras

    results = {}
    for name, seed in [("one seed", 3), ("one seed again", 3), ("a seed each", 3 + rank)]:
        keras.utils.set_random_seed(seed)
        model = keras.Sequential([keras.Input((1000,)), keras.layers.Dropout(0.5), keras.layers.Dropout(0.1)])
        values = [v.numpy().tolist() for v in model.variables]
        model.optimizer = None  # as after compile(optimizer=None)
        distributed.broadcast(model)
        state = [v.numpy().tolist() for v in model.variables]
        dropped = np.asarray(model.layers[0](np.ones((1, 1000), np.float32), training=True)) == 0
        results[name] = {"own": values, "state": state, "dropped": dropped}
    return results


def trial_names(distributed, rank):
    """Let rank 1 create two more layers first, which changes Keras' names of all later layers there."""
    import keras

    from cluster.training import data, models

    if rank == 1:
        small_net(seed=9)
    x, y = data.fashion_mnist("train", 64)
    net = small_net(seed=rank)
    model, shards = distributed.DataParallel(net.input, net.output), distributed.Shards(x, y, 16)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(ETA, momentum=0.9), loss)
    model.fit(shards, verbose=0, callbacks=[distributed.Ranks(shards)])
    return {"names": [v.path for v in net.weights], "digest": models.digest(net)}


def trial_parallel_variance(distributed, rank):
    """Return the statistics of batch normalisation for a different half of the data per rank, averaged, and
    for all data in one process.

    With momentum 0, a moving statistic equals the last batch's.
    """
    import keras

    rng = np.random.default_rng(5)
    halves = [rng.normal(2, 3, (8, 3)), rng.normal([5, 2, -900], 1, (8, 3))]
    halves = [half.astype(np.float32) for half in halves]

    def normalise(batch):
        image = keras.Input((3,))
        model = distributed.DataParallel(image, keras.layers.BatchNormalization(momentum=0.0)(image))
        model(batch, training=True)
        return model

    def statistics(model):
        return [v.numpy() for v in (model.layers[1].moving_mean, model.layers[1].moving_variance)]

    ours = normalise(halves[rank])
    distributed.average_statistics(ours)
    once = statistics(ours)
    distributed.average_statistics(ours)
    tested = normalise(halves[rank])
    tested.compile(keras.optimizers.SGD(0.0), "mse")
    loss = tested.evaluate(halves[rank], 0 * halves[rank], verbose=0)
    return {
        "one process": statistics(normalise(np.concatenate(halves))),
        "once": once,
        "twice": statistics(ours),
        "tested": statistics(tested),
        "loss": float(loss),
    }


def trial_save(distributed, rank):
    """Save to a separate path on each rank, then interrupt a write."""
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


def trial_agreement(distributed, rank):
    """Return the error of each call of fit() that differs between the ranks, and the number of steps
    trained."""
    import keras

    image = keras.Input((2,))
    model = distributed.DataParallel(image, keras.layers.Dense(1, kernel_initializer="zeros")(image))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x, y = np.ones((33, 2), np.float32), np.ones((33, 1), np.float32)
    shard = x[rank::2], y[rank::2]
    even = shard[0][:16], shard[1][:16]
    shards = distributed.Shards(x, y, 1)
    calls = {
        "steps": lambda: model.fit(*shard, batch_size=1, verbose=0),
        "steps with Ranks": lambda: model.fit(
            *shard, batch_size=1, verbose=0, callbacks=[distributed.Ranks(shards)]
        ),
        "epochs": lambda: model.fit(*even, epochs=2 + rank, verbose=0),
        "validation": lambda: model.fit(*even, verbose=0, validation_data=even if rank == 0 else None),
        "nothing": lambda: model.fit(*even, batch_size=1, verbose=0),
    }
    results = {}
    for name, call in calls.items():
        before = int(model.optimizer.iterations)
        try:
            call()
            results[name] = "", int(model.optimizer.iterations) - before
        except ValueError as error:
            results[name] = str(error), int(model.optimizer.iterations) - before
    return results


def trial_callbacks(distributed, rank):
    """Return {name: (error, epochs trained)} of fits in which callbacks, or honest differences, are not the
    same on both ranks."""
    import keras

    class At(keras.callbacks.Callback):
        """Call a function with the model at an event."""

        def __init__(self, event, change):
            super().__init__()
            setattr(self, event, lambda *_, **__: change(self.model))

    def plateau(**options):
        return keras.callbacks.ReduceLROnPlateau("loss", min_delta=1e9, patience=1, factor=0.01, **options)

    def shift(model):
        model.layers[1].kernel.assign(model.layers[1].kernel + 0.1)

    def swap(model):
        kernel = model.layers[1].kernel
        kernel.assign(kernel[::-1])

    def stop(model):
        model.stop_training = True

    def freeze(model):
        model.layers[1].trainable = False

    def rate(model):
        model.optimizer.learning_rate = 0.1 * model.optimizer.learning_rate

    def count(model):
        model.epochs_seen = getattr(model, "epochs_seen", 0) + 1

    def honest(model):
        model.layers[2].moving_mean.assign(model.layers[2].moving_mean + rank)

    def last_bits(model):
        kernel = model.layers[1].kernel
        kernel.assign(kernel * (1 + 3e-7 * rank))

    schedule = keras.optimizers.schedules.ExponentialDecay
    early = keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=1)
    cases = {
        "plateau": [plateau()],
        "EarlyStopping": [early],
        "stop": [At("on_epoch_end", stop)],
        "weights": [At("on_epoch_end", shift)],
        "permuted weights": [At("on_epoch_begin", swap)],
        "weights at the end": [At("on_train_end", shift)],
        "one step's weights": [At("on_train_batch_end", shift)],
        "rate": [At("on_epoch_begin", rate)],
        "scheduler": [keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr / 2)],
        "freeze": [At("on_epoch_end", freeze)],
    }
    same = {
        "plateau on all": [plateau()],
        "EarlyStopping on all": [early],
        "statistics": [At("on_epoch_end", honest)],
        "last bits": [At("on_epoch_end", last_bits)],
        "other callbacks": [At("on_epoch_end", count)] * (rank == 0),
    }
    rates = {"schedule": schedule(0.01, 10, 0.5 + 0.1 * rank), "constant rate": 0.01 * (1 + rank)}
    results = {}
    for name in (*cases, *same, *rates, "not broadcast"):
        image = keras.Input((2,))
        init = keras.initializers.GlorotUniform(1 + rank * (name == "not broadcast"))
        net = keras.layers.BatchNormalization()(keras.layers.Dense(2, kernel_initializer=init)(image))
        model = distributed.DataParallel(image, keras.layers.Dense(1, kernel_initializer=init)(net))
        model.compile(keras.optimizers.SGD(rates.get(name, 0.01)), "mse")
        rng = np.random.default_rng(rank)
        x = rng.normal(size=(8, 2)).astype(np.float32)
        here = rank == (name in ("rate", "permuted weights"))
        callbacks = same[name] if name in same else cases.get(name, []) * here
        try:
            done = model.fit(x, x[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=callbacks)
            results[name] = "", len(done.epoch)
        except ValueError as error:
            results[name] = str(error), int(model.optimizer.iterations) // 2
    return results
