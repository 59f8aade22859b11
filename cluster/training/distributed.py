"""Data-parallel training with Horovod: what p ranks add to a training on one device.

Each rank trains the same network on its own shard. Four things make p processes one training, and each is
a few lines here: the ranks start equal (`broadcast`), they take the same step (`DataParallel`), they report
one number (`average`), and one of them writes (`save`). Assignment 07 builds all four by hand.

Keras 3 keeps its weights in `keras.Variable`; TensorFlow's and Horovod's functions are given the
`tf.Variable` inside, `variable.value`. Horovod's own Keras callbacks do not work with Keras 3.
"""

import math
import os
from pathlib import Path

import keras
import tensorflow as tf

from . import schedules  # noqa: F401 (a checkpoint may name a schedule, and is to load with this module alone)
from .shards import shard


def horovod():
    """Horovod, initialised: imported here, so that this module can be read by one process without it."""
    import horovod.tensorflow as hvd

    hvd.init()  # does nothing the second time
    return hvd


def broadcast(model, root=0):
    """Give every rank the weights, and the optimizer's state, of rank `root`."""
    variables = list(model.variables)
    if model.optimizer is not None:
        model.optimizer.build(model.trainable_variables)  # or momentum would be born after the broadcast
        variables += model.optimizer.variables
    horovod().broadcast_variables([v.value for v in variables], root_rank=root)


def average(values, count=1):
    """The means {name: float} over all ranks, each rank weighing as much as the `count` examples it saw."""
    hvd, names = horovod(), sorted(values)
    sums = tf.constant([count] + [count * float(values[name]) for name in names], tf.float64)
    total, *sums = hvd.allreduce(sums, op=hvd.Sum, name="cluster.average").numpy()
    return {name: float(s / total) for name, s in zip(names, sums, strict=True)}


def average_statistics(model):
    """Average the moving statistics of batch normalisation, which each rank has drawn from its own shard."""
    statistics = [v for v in model.non_trainable_variables if v.dtype.startswith("float")]
    if statistics:
        means = horovod().grouped_allreduce([v.value for v in statistics], name="cluster.statistics")
        for variable, mean in zip(statistics, means, strict=True):
            variable.assign(mean)


def save(model, path):
    """Rank 0 writes the model, with its optimizer, to `path` (.keras); the other ranks write nothing.

    It is written beside its place and then renamed, so that `path` is at any time a whole checkpoint: a
    job that is stopped while it writes leaves the one before.
    """
    if horovod().rank() == 0:
        path = Path(path)
        beside = path.with_name(f".{path.stem}.tmp.keras")
        model.save(beside)
        os.replace(beside, path)


@keras.saving.register_keras_serializable(package="cluster")
class DataParallel(keras.Model):
    """A model whose training step averages the gradient over all ranks.

    Made from any functional model, with which it shares its weights:

        net = lenet5(seed=0)
        model = DataParallel(net.input, net.output)

    `compile`, `fit`, `evaluate` and `predict` are those of Keras; with one rank the step is Keras' own.
    """

    def fit(self, *args, shuffle=False, **options):
        """Keras' fit, except that it keeps the order of `Shards`: Keras would shuffle on each rank alone."""
        return super().fit(*args, shuffle=shuffle, **options)

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight)  # the mean over this rank's batch
        tape = horovod().DistributedGradientTape(tape)  # + what distribution adds: the mean over the ranks
        gradients = tape.gradient(loss, [v.value for v in self.trainable_variables])
        self.optimizer.apply(gradients, self.trainable_variables)
        self.metrics[0].update_state(loss, sample_weight=tf.shape(x)[0])  # "loss", this rank's so far
        return self.compute_metrics(x, y, y_pred, sample_weight)


class Shards(keras.utils.PyDataset):
    """The batches of `batch` examples that one rank sees of (x, y), freshly sharded each epoch.

    The last batch of an epoch may be smaller, and is so on every rank. `epoch` is set by `Ranks`.
    """

    def __init__(self, x, y, batch, seed=0):
        super().__init__()
        self.rank, self.size = horovod().rank(), horovod().size()
        self.x, self.y, self.batch, self.seed, self.epoch = x, y, batch, seed, 0

    def __len__(self):
        return math.ceil(len(self.x) // self.size / self.batch)

    @property
    def epoch(self):
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        self._epoch = epoch
        self._indices = shard(len(self.x), self.rank, self.size, epoch, self.seed)

    def __getitem__(self, step):
        take = self._indices[step * self.batch : (step + 1) * self.batch]  # (batch,)
        return self.x[take], self.y[take]


class Ranks(keras.callbacks.Callback):
    """What p ranks do around the training steps of `DataParallel.fit`; give it as the first callback.

    shards      the `Shards` that are fitted: a new shuffle each epoch, the same on all ranks
    checkpoint  a path (.keras): rank 0 saves the model there after each epoch

    The ranks start from rank 0's weights; after each epoch the batch-norm statistics and the metrics are
    averaged (the callbacks after this one, and the history, get the averages); each step and epoch is
    logged to the job, which draws the progress bar of `job.wait()`. The loss of a step is Keras' running
    mean over the epoch, on this rank.
    """

    def __init__(self, shards, checkpoint=None):
        super().__init__()
        self.shards, self.checkpoint = shards, checkpoint

    def on_train_begin(self, logs=None):
        broadcast(self.model)

    def on_epoch_begin(self, epoch, logs=None):
        self.shards.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        steps = len(self.shards)
        self._log(step=self.shards.epoch * steps + batch + 1, steps=self.params["epochs"] * steps, **logs)

    def on_test_begin(self, logs=None):
        average_statistics(self.model)

    def on_epoch_end(self, epoch, logs=None):
        average_statistics(self.model)
        logs.update(average(logs))
        self._log(epoch=epoch + 1, **{f"epoch_{name}": value for name, value in logs.items()})
        if self.checkpoint:
            save(self.model, self.checkpoint)

    def _log(self, **values):
        from cluster.jobs import log

        log(**{k: v if isinstance(v, int) else float(v) for k, v in values.items()})
