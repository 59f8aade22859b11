"""Training runs whose ranks part: one does what the others do not."""

import time


def _reduce(times):
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    for i in range(times):
        hvd.allreduce(tf.constant(1.0), name=f"gradient.{i}")
    return hvd


def one_sleeps():
    """Rank 0 stays behind in code of its own; rank 1 waits for it in a collective."""
    hvd = _reduce(2)
    if hvd.rank() == 0:
        time.sleep(300)
    _reduce(3)


def one_returns():
    """Rank 0 returns early; the others call one collective more."""
    hvd = _reduce(2)
    if hvd.rank() == 0:
        return "early"
    _reduce(5)
    return "late"


def unequal_batches():
    """33 examples over two ranks: 17 and 16 batches in `fit`."""
    import horovod.tensorflow as hvd
    import keras
    import numpy as np

    from cluster.training.distributed import DataParallel

    hvd.init()
    n = 17 - hvd.rank()
    inputs = keras.Input((2,))
    model = DataParallel(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", jit_compile=False)
    x = np.ones((n, 2), np.float32)
    model.fit(x, x[:, :1], batch_size=1, epochs=2, verbose=0)
    time.sleep(3 * hvd.rank() * 0)
