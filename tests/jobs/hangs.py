"""Training runs whose ranks diverge, as students might write them."""

import time


def _model():
    """Return the data-parallel model of lecture 07 as a student would write it: `train_step` averages the
    gradients."""
    import horovod.tensorflow as hvd
    import keras
    import tensorflow as tf

    hvd.init()

    class Averaged(keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            tape = hvd.DistributedGradientTape(tape)
            gradient = tape.gradient(loss, [v.value for v in self.trainable_variables])
            self.optimizer.apply(gradient, self.trainable_variables)
            return {"loss": loss}

    inputs = keras.Input((2,))
    model = Averaged(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", jit_compile=False)
    return hvd, model


def _data(n):
    import numpy as np

    x = np.ones((n, 2), np.float32)
    return x, x[:, :1]


def _mean(hvd, value):
    """Return the mean of a number over all ranks."""
    import tensorflow as tf

    return float(hvd.allreduce(tf.constant(float(value)), name="loss"))


def one_sleeps():
    """Keep rank 0 in its own code while rank 1 waits for it in a collective."""
    hvd, _ = _model()
    _mean(hvd, 1.0)
    if hvd.rank() == 0:
        time.sleep(300)
    _mean(hvd, 2.0)


def unequal_batches():
    """Fit 33 examples on two ranks, in 17 and 16 batches, and average the loss."""
    hvd, model = _model()
    x, y = _data(33)
    x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]
    history = model.fit(x, y, batch_size=1, epochs=2, verbose=0)
    return _mean(hvd, history.history["loss"][-1])


def early_stopping():
    """Use `EarlyStopping` on rank 0 only, while rank 1 continues training."""
    import keras

    hvd, model = _model()
    stop = keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=1)
    model.fit(*_data(8), batch_size=2, epochs=50, verbose=0, callbacks=[stop] if hvd.rank() == 0 else [])
    return "trained"


def _course_model():
    from cluster.training.distributed import DataParallel, broadcast

    hvd, model = _model()
    model = DataParallel(model.input, model.output)
    model.compile("sgd", "mse")
    broadcast(model)
    return hvd, model


def validation():
    """Pass `validation_data` on rank 0 only, with the course's own model."""
    hvd, model = _course_model()
    model.fit(*_data(8), batch_size=2, verbose=0, validation_data=_data(4) if hvd.rank() == 0 else None)


def evaluation():
    """Call `evaluate`, which averages over the ranks, on rank 0 only."""
    hvd, model = _course_model()
    model.fit(*_data(8), batch_size=2, verbose=0)
    if hvd.rank() == 0:
        return model.evaluate(*_data(4), verbose=0)
    return None


def evaluation_then_more():
    """Call `evaluate` on rank 0 only, while the other rank continues to another collective."""
    hvd, model = _course_model()
    model.fit(*_data(8), batch_size=2, verbose=0)
    if hvd.rank() == 0:
        model.evaluate(*_data(4), verbose=0)
    return _mean(hvd, 1.0)


def queue_without_its_thread():
    """Wait on both ranks for a queue whose thread has died."""
    import queue
    import threading

    items = queue.Queue()

    def load():
        raise SystemExit

    thread = threading.Thread(target=load)
    thread.start()
    return items.get()


def generator_and_stopped():
    """Block rank 0 in the generator that `fit` reads, and stop rank 1 by a signal."""
    import os
    import signal

    import numpy as np

    hvd, _ = _model()
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    import keras

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def batches():
        yield np.ones((2, 2)), np.ones((2, 1))
        time.sleep(300)
        yield np.ones((2, 2)), np.ones((2, 1))

    model.fit(batches(), steps_per_epoch=2, verbose=0)
