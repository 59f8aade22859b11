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
import numpy as np
import tensorflow as tf

from . import checkpoint as checkpoints
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

    def fit(self, *args, shuffle=False, epochs=1, callbacks=(), **options):
        """Keras' fit, in the order of `Shards`, which Keras would shuffle anew on each rank alone.

        Where `Ranks` has a checkpoint of an earlier attempt of the job, it goes on there.

        The history is that of the whole training. An epoch that was interrupted is finished by a fit of its
        own, so callbacks may see the beginning and the end of training twice; what they remember themselves
        is not in the checkpoint.
        """
        options |= {"shuffle": shuffle, "callbacks": list(callbacks or ())}
        ranks = next((c for c in options["callbacks"] if isinstance(c, Ranks)), None)
        if ranks is None:
            return super().fit(*args, epochs=epochs, **options)
        ranks.epochs = epochs
        epoch = ranks.resume(self)
        if epoch is None:
            return super().fit(*args, epochs=epochs, **options)
        history = keras.callbacks.History()
        if ranks.shards.done:
            history = super().fit(*args, epochs=epoch + 1, initial_epoch=epoch, **options)
            ranks.shards.done, epoch = 0, epoch + 1
        if epoch < epochs:
            history = super().fit(*args, epochs=epochs, initial_epoch=epoch, **options)
        history.history, history.epoch = ranks.history, list(range(epochs))
        return history

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

    The last batch of an epoch may be smaller, and is so on every rank. `epoch` is set by `Ranks`, and so is
    `done`, the number of steps that an interrupted epoch had made: they are left out.
    """

    def __init__(self, x, y, batch, seed=0):
        super().__init__()
        self.rank, self.size = horovod().rank(), horovod().size()
        self.x, self.y, self.batch, self.seed, self.epoch = x, y, batch, seed, 0
        self.done = 0

    @property
    def steps(self):
        """Steps of a whole epoch."""
        return math.ceil(len(self.x) // self.size / self.batch)

    def __len__(self):
        return self.steps - self.done

    @property
    def epoch(self):
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        self._epoch = epoch
        self._indices = shard(len(self.x), self.rank, self.size, epoch, self.seed)

    def __getitem__(self, step):
        first = (self.done + step) * self.batch
        take = self._indices[first : first + self.batch]  # (batch,)
        return self.x[take], self.y[take]


class Ranks(keras.callbacks.Callback):
    """What p ranks do around the training steps of `DataParallel.fit`; give it as the first callback.

    shards      the `Shards` that are fitted: a new shuffle each epoch, the same on all ranks
    checkpoint  a path (.keras): rank 0 saves the model there after each epoch, and beside it (.state.npz)
                what a job submitted with requeue=True needs to go on after an interruption
    every       save that state after so many steps, too, for epochs that are long

    The ranks start from rank 0's weights; after each epoch the batch-norm statistics and the metrics are
    averaged (the callbacks after this one, and the history, get the averages); each step and epoch is
    logged to the job, which draws the progress bar of `job.wait()`. The loss of a step is Keras' running
    mean over the epoch, on this rank.

    A training that goes on takes the same steps as one that was never interrupted: weights, optimizer and
    step count, position in the shuffle, the seeds of dropout, each rank's own batch-norm statistics and
    running metrics are restored. On CPU and on one or two ranks the numbers are equal to the last bit. On
    more ranks the order in which Horovod sums depends on which gradients it fuses, so that two runs may
    differ in the last bits even where neither is interrupted.
    """

    def __init__(self, shards, checkpoint=None, every=None):
        super().__init__()
        self.shards, self.checkpoint, self.every = shards, checkpoint, every
        self.epochs, self.history, self._own = 1, {}, None

    def resume(self, model):
        """Restore what an earlier attempt of this job saved; the epoch to go on with, or None at a start."""
        state = None
        if self.checkpoint and int(os.environ.get("CLUSTER_ATTEMPT", 1)) > 1:
            state = horovod().broadcast_object(checkpoints.read(self._state))  # rank 0's, wherever it lies
        if state is None:
            return None
        if len(state["own"]) != self.shards.size:
            raise ValueError(
                f"{self._state} was saved on {len(state['own'])} ranks, and there are {self.shards.size} now."
            )
        self._build(model)
        _assign(model.trainable_variables + model.optimizer.variables, state["shared"], self._state)
        self.history, self.shards.done = state["history"], state["done"]
        self._own = state["own"][self.shards.rank]  # assigned when Keras has reset the metrics
        return state["epoch"]

    def on_train_begin(self, logs=None):
        broadcast(self.model)

    def on_epoch_begin(self, epoch, logs=None):
        self.shards.epoch = epoch
        if self._own is not None:
            _assign(_own(self.model), self._own, self._state)
            self._own = None
            if not self.shards.done:
                self.model.reset_metrics()  # what was saved at the end of an epoch are that epoch's

    def on_train_batch_end(self, batch, logs=None):
        done, steps = self.shards.done + batch + 1, self.shards.steps
        self._log(step=self.shards.epoch * steps + done, steps=self.epochs * steps, **logs)
        if self.checkpoint and self.every and done % self.every == 0 and done < steps:
            self._save(self.shards.epoch, done)

    def on_test_begin(self, logs=None):
        average_statistics(self.model)

    def on_epoch_end(self, epoch, logs=None):
        average_statistics(self.model)
        logs.update(average(logs))
        for name, value in logs.items():
            self.history.setdefault(name, []).append(float(value))
        self._log(epoch=epoch + 1, **{f"epoch_{name}": value for name, value in logs.items()})
        if self.checkpoint:
            save(self.model, self.checkpoint)
            self._save(epoch + 1, 0)

    @property
    def _state(self):
        return Path(self.checkpoint).with_suffix(".state.npz")

    def _save(self, epoch, done):
        """Rank 0 writes the state of all ranks: `done` steps of `epoch` are made."""
        own = horovod().allgather_object([np.asarray(v) for v in _own(self.model)])
        if self.shards.rank == 0:
            shared = [np.asarray(v) for v in self.model.trainable_variables + self.model.optimizer.variables]
            at = {"epoch": epoch, "done": done, "history": self.history}
            checkpoints.write(self._state, at | {"shared": shared, "own": own})

    def _build(self, model):
        """Make the variables of the optimizer and of the metrics, which Keras makes at the first step."""
        model.optimizer.build(model.trainable_variables)
        x, y = (a[:1] for a in self.shards[0])
        y_pred = model(x, training=False)
        model.compute_loss(x, y, y_pred)
        model.compute_metrics(x, y, y_pred)

    def _log(self, **values):
        from cluster.jobs import log

        log(**{k: v if isinstance(v, int) else float(v) for k, v in values.items()})


def _own(model):
    """What may differ between ranks within an epoch: batch-norm statistics, seeds, running metrics."""
    return model.non_trainable_variables + model.metrics_variables


def _assign(variables, values, path):
    shapes = [tuple(v.shape) for v in variables]
    if shapes != [np.shape(value) for value in values]:
        raise ValueError(f"{path} was saved by another model: its variables have other shapes.")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
