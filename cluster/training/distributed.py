"""Data-parallel training with Horovod: what p ranks add to training on one device.

Each rank trains the same network on its own shard. Four things turn p processes into one training run, and
each takes a few lines here: the ranks start equal (`broadcast`), take the same step (`DataParallel`), report
one number (`average`), and one of them writes (`save`). Assignment 07 builds all four by hand, after lecture
07. The exchanges follow Horovod (Sergeev and Del Balso, arXiv 1802.05799).

All of these except `save` are collectives: every rank must call them, in the same order, otherwise the others
hang. If a rank raises an error, the job terminates the others.

Keras 3 stores its weights in `keras.Variable`; functions of TensorFlow and Horovod are given the
`tf.Variable` inside, `variable.value`. Horovod's own Keras callbacks do not work with Keras 3.
"""

import contextlib
import hashlib
import importlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from cluster.system import files, settings, text

from . import checkpoint as checkpoints
from .shards import shard

# A checkpoint may refer to an optimizer and a schedule of the course, and must be loadable with this module
# alone. Students get them only after assignment 08, which asks for them.
for name in ("optimizers", "schedules"):
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(f"{__package__}.{name}")


def horovod() -> ModuleType:
    """Return Horovod, initialised. It is imported here, so a single process can read this module without it.

    Raises ImportError if it is not installed. A process that was started alone is rank 0 of 1.
    """
    import horovod.tensorflow as hvd

    hvd.init()  # has no effect the second time
    return hvd


def broadcast(model: keras.Model, root: int = 0) -> None:
    """Copy the weights, and the optimizer's state, of rank `root` to every rank.

    The random layers of the other ranks (dropout, augmentation) get seeds derived from the seeds of `root`
    and from the rank. Each rank therefore draws different masks, and the same ones again if the run is
    repeated.

    Numbers that a model draws from Keras' global generator (`keras.random` without a seed) are not affected.
    Raises ValueError for a model without weights, or on a rank whose model differs from root's.
    """
    if not model.built:
        raise ValueError(
            f"{model.name!r} has no weights yet: begin it with a keras.Input, or build it first."
        )
    variables, seeds = list(model.weights), _seeds(model)
    if getattr(model, "optimizer", None) is not None:  # Keras sets the attribute in compile()
        _build_optimizer(model)  # otherwise the momentum would be created after the broadcast
        variables += model.optimizer.variables
    hvd = horovod()
    # By position, because Horovod's broadcast_variables hangs if a rank has built more layers so far than
    # another: Keras numbers the names of layers, and Horovod matches by name.
    values = hvd.broadcast_object([v.numpy() for v in variables + seeds], root_rank=root)
    if hvd.rank() != root:
        _assign(variables + seeds, values, f"The variables broadcast by rank {root} are those of")
        for state in seeds:
            seed, draws = state.numpy().tolist()
            state.assign([_seed_of_rank(seed, hvd.rank()), draws])


def _seeds(model: keras.Model) -> list[keras.Variable]:
    """Return the states of the random generators in a model, (2,) each: seed and number of draws."""
    weights = {id(v) for v in model.weights}
    return list({id(v): v for v in model.variables if id(v) not in weights}.values())


def _seed_of_rank(seed: int, rank: int) -> int:
    """Derive a rank's seed from another seed, with 31 bits, which fit all integers that Keras accepts."""
    return int(np.random.SeedSequence([seed % 2**32, rank]).generate_state(1)[0] >> 1)


def average(values: Mapping[str, float], count: float = 1) -> dict[str, float]:
    """Return the means {name: float} over all ranks, each weighted by the `count` of examples it saw.

    `values` has the same names on all ranks, each the mean over that rank's examples, in any unit; a rank
    without examples gives count=0 and any finite number. If the total is 0, the means are nan.
    """
    names = sorted(values)
    total, *sums = _sums([count] + [count * float(values[name]) for name in names], "cluster.average")
    return {name: float(s / total) for name, s in zip(names, sums, strict=True)}


def average_statistics(model: keras.Model) -> None:
    """Replace the ranks' moving statistics of batch normalisation by statistics over all ranks' examples.

    Each rank has computed its own from its shard. The overall mean is the mean of the ranks' means; the
    overall variance is the mean of their variances *plus the variance between their means*, which the ranks'
    own statistics do not contain. (Both are moving averages, which smooth differences between ranks from step
    to step. If a rank normalises few values, a single process would obtain a slightly larger variance.)

    Repeating it changes nothing. Statistics come in pairs, `moving_mean` and `moving_variance` of a layer, or
    `mean` and `variance`; other non-trainable float variables are averaged. All ranks must call it.
    """
    statistics = [v for v in model.non_trainable_variables if "float" in v.dtype]
    own, ranks = [np.asarray(v.numpy(), np.float64) for v in statistics], horovod().size()
    averages = [total / ranks for total in _sums(own, "cluster.statistics")]
    position = {id(v): i for i, v in enumerate(statistics)}
    pairs = [
        (position[id(a)], position[id(b)]) for a, b in _moments(model) if {id(a), id(b)} <= set(position)
    ]
    # A mean of squares minus a square would suffer from cancellation and could be negative.
    squares = [(own[mean] - averages[mean]) ** 2 for mean, _ in pairs]
    for (_, variance), total in zip(pairs, _sums(squares, "cluster.statistics.between"), strict=True):
        averages[variance] += total / ranks
    for variable, value in zip(statistics, averages, strict=True):
        variable.assign(value)


def _moments(model: keras.Model) -> list[tuple[keras.Variable, keras.Variable]]:
    """Return the pairs (mean, variance) of variables in the model's layers, at any depth, each once."""
    pairs = {}
    for layer in model._flatten_layers():
        for names in (("moving_mean", "moving_variance"), ("mean", "variance")):
            mean, variance = (getattr(layer, name, None) for name in names)
            if isinstance(mean, keras.Variable) and isinstance(variance, keras.Variable):
                pairs[id(variance)] = mean, variance
    return list(pairs.values())


def save(model: keras.Model, path: str | os.PathLike[str]) -> None:
    """Write the model, with its optimizer, to `path` (.keras) on rank 0; the other ranks write nothing.

    It is written to disk under a temporary name and then renamed. So `path` is a complete checkpoint at any
    time: if the job is stopped while it writes, or the machine fails, the previous one remains. Rank 0 does
    not wait for the others. Raises OSError if it cannot write.
    """
    if horovod().rank() == 0:
        path = Path(path)
        made = path.with_name(f".{path.stem}.tmp.keras")
        model.save(made)
        files.move_into_place(made, path)


@contextlib.contextmanager
def _of_all_ranks(variables: Sequence[keras.Variable]) -> Iterator[None]:
    """During the body, set metrics' variables to their sums over all ranks; then restore this rank's own.

    A metric in Keras is a function of sums over examples: hits and images, or the counts of a confusion
    matrix. Sums over all examples are the sums over the ranks, whatever their numbers of examples.
    """
    variables = [v for v in variables if v.aggregation == "sum"]  # Keras marks sums over examples
    own = [v.numpy() for v in variables]
    for variable, total in zip(variables, _sums(own, "cluster.metrics"), strict=True):
        variable.assign(total)
    try:
        yield
    finally:
        for variable, value in zip(variables, own, strict=True):
            variable.assign(value)


def _sums(arrays: Sequence[Any], name: str) -> list[np.ndarray]:
    """Return the sums over all ranks of arrays of any shapes, with one all-reduce in float64."""
    if not arrays:
        return []
    hvd, arrays = horovod(), [np.asarray(a, np.float64) for a in arrays]
    flat = tf.constant(np.concatenate([a.ravel() for a in arrays]))
    total = hvd.allreduce(flat, op=hvd.Sum, name=name).numpy()
    ends = np.cumsum([a.size for a in arrays])[:-1]
    return [part.reshape(a.shape) for a, part in zip(arrays, np.split(total, ends), strict=True)]


@keras.saving.register_keras_serializable(package="cluster")
class DataParallel(keras.Model):
    """A model whose training step averages the gradient over all ranks.

    Created from any functional model, sharing its weights:

        net = lenet5(seed=0)
        model = DataParallel(net.input, net.output)

    `compile` and `predict` are Keras' own; with one rank, the step is equal to Keras' step. The metrics of
    `fit` and `evaluate` cover the examples of all ranks, however these are divided among them. The model may
    have several inputs and outputs, and batches may hold sample weights.

    XLA cannot compile Horovod's all-reduce, so the model is never compiled by XLA: jit_compile="auto", which
    means XLA on a GPU, is equivalent to False, and for jit_compile=True Keras issues a warning and continues
    without it. The numbers are the same in either case.
    """

    # with these parameter names, Keras can load it as a functional model
    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.supports_jit = False

    def evaluate(self, *args: Any, **options: Any) -> Any:
        """Evaluate like Keras: each rank passes its examples, and all get the metrics over all examples.

        All ranks must therefore call it, each with any number of examples, but at least one; the statistics
        of batch normalisation are averaged first. It returns the same as Keras: a number, a list of numbers,
        or a dictionary with return_dict=True. To test on one rank only, use `predict`, or a Keras model with
        the same weights, `keras.Model(model.input, model.output)`.
        """
        average_statistics(self)
        return super().evaluate(*args, **options)

    def _get_metrics_result_or_logs(self, logs: dict[str, Any]) -> dict[str, Any]:
        """Keras calls this to compute the metrics of an epoch, or of an evaluation, from their sums."""
        with _of_all_ranks(self.metrics_variables):
            return super()._get_metrics_result_or_logs(logs)

    def fit(
        self,
        *args: Any,
        shuffle: bool = False,
        epochs: int = 1,
        callbacks: Sequence[keras.callbacks.Callback] | None = (),
        **options: Any,
    ) -> keras.callbacks.History:
        """Fit like Keras, but in the order of `Shards`, which Keras would reshuffle on each rank separately.

        If `Ranks` has a checkpoint of an earlier attempt of the job, training resumes there.

        The history covers the whole training run. The state of other callbacks is not in the checkpoint.
        Raises ValueError if the checkpoint was saved by another model, or on another number of
        ranks. Before the first step, it also raises it if the ranks differ in their number of steps or
        epochs, or if only some of them validate, since the others would hang. After an epoch, it raises it if
        callbacks have made the ranks differ: in the learning rate, the weights, the weights that are trained,
        or whether training goes on. Statistics of batch normalisation may differ.
        """
        validates = options.get("validation_data") is not None or bool(options.get("validation_split"))
        agreement = _Agreement(epochs=epochs, validates=validates)
        given = keras.tree.flatten(callbacks) if callbacks else []  # one callback, or a list, as in Keras
        options |= {"shuffle": shuffle, "callbacks": [agreement, *given, _Alike()]}
        ranks = next((c for c in options["callbacks"] if isinstance(c, Ranks)), None)
        if ranks is None or not ranks.resume(self, epochs):
            return super().fit(*args, epochs=epochs, **options)
        history = keras.callbacks.History()
        if ranks.first < epochs:
            history = super().fit(*args, epochs=epochs, initial_epoch=ranks.first, **options)
        history.history, history.epoch = ranks.history, list(range(epochs))
        return history

    def train_step(self, data: Any) -> dict[str, Any]:
        """Take one step on this rank's batch, (x, y) or (x, y, sample_weight); called by Keras.

        The step uses the mean of the ranks' mean losses. The batches must be equally large for the step to
        equal the step of one process on all of them. Returns the metrics of this rank so far in the epoch.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight)  # the mean over this rank's batch
            # float16 would round small gradients to 0, so the loss is scaled, and the optimizer divides by
            # the factor again (Keras wraps it for this with the policy mixed_float16).
            scaled = self.optimizer.scale_loss(loss)
        tape = horovod().DistributedGradientTape(tape)  # + what distribution adds: the mean over the ranks
        sources = [v.value for v in self.trainable_variables]
        # numbers instead of names: see `broadcast`
        gradients = tape.gradient(scaled, sources, use_generic_names=True)
        self.optimizer.apply(gradients, self.trainable_variables)
        inputs = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None)  # (batch, ...)
        self.metrics[0].update_state(loss, sample_weight=tf.shape(inputs)[0])  # this rank's "loss" so far
        return self.compute_metrics(x, y, y_pred, sample_weight)


class _Agreement(keras.callbacks.Callback):
    """Compare the ranks' plans for training, and raise an error if some ranks would wait forever."""

    def __init__(self, epochs: int, validates: bool):
        super().__init__()
        self.epochs, self.validates = epochs, validates

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        hvd = horovod()
        if hvd.size() == 1:
            return
        plan = {
            "steps per epoch": self.params.get("steps"),
            "epochs": self.epochs,
            "validation": "yes" if self.validates else "no",
        }
        _compare(hvd.allgather_object(plan))


class _Alike(keras.callbacks.Callback):
    """After an epoch and all other callbacks, raise an error if the ranks no longer train the same model.

    The ranks exchange some bytes per epoch, and a number per variable only if their weights are not the same
    to the last bit, as on processors of different types. Then a relative difference of 1e-3 is an error.
    """

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._check(f"After epoch {epoch + 1}, the")

    def on_train_end(self, logs: Any = None) -> None:
        self._check("At the end of training, the")

    def _check(self, when: str) -> None:
        hvd = horovod()
        if hvd.size() == 1:
            return
        arrays = [v.numpy() for v in _weights(self.model)]
        state = {
            "the end of training": "goes on" if not self.model.stop_training else "stops",
            "the learning rate": float(self.model.optimizer.learning_rate),
            "the number of trained variables": len(self.model.trainable_variables),
        }
        digest = hashlib.blake2b(digest_size=8)
        for array in arrays:
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        states = hvd.allgather_object((state, digest.hexdigest()))
        _compare([state for state, _ in states], when)
        if len({digest for _, digest in states}) > 1:
            sketches = np.array(hvd.allgather_object(_sketch(arrays)))  # (ranks, 2, variables)
            sketches = np.nan_to_num(sketches, nan=1e30)
            far = np.abs(sketches[:, 0] - sketches[:1, 0]).max(axis=1) / (
                np.abs(sketches[0, 1]).max() + 1e-30
            )
            if not far.max() <= 1e-3:
                _compare([{"the weights": f"{value:.2g}"} for value in far], when)


def _weights(model: keras.Model) -> list[keras.Variable]:
    """Return the weights that are, or could be, trained: frozen ones too, but no statistics."""
    layers = model._flatten_layers()
    return list({id(v): v for layer in layers for v in layer._trainable_variables}.values())


def _sketch(arrays: Sequence[np.ndarray]) -> list[list[float]]:
    """Return a weighted sum of each array, and its norm, which bounds what the sum can be."""
    flat = [a.ravel().astype(np.float64) for a in arrays]
    return [[float(np.cos(np.arange(a.size)) @ a) for a in flat], [float(np.linalg.norm(a)) for a in flat]]


def _compare(ranks_facts: Sequence[Mapping[str, Any]], who: str = "The") -> None:
    """Raise ValueError for the first fact that differs between the ranks."""
    for name in ranks_facts[0]:
        ranks: dict[Any, list[int]] = {}
        for rank, facts in enumerate(ranks_facts):
            ranks.setdefault(facts[name], []).append(rank)
        if len(ranks) > 1:
            found = "; ".join(f"{value} on {text.named(of)}" for value, of in ranks.items())
            raise ValueError(f"{who} ranks differ in {name}: {found}. {_REMEDIES[name]}")


_CALLBACKS = "Give each callback that changes training to all ranks, with values that all ranks share: "
_REMEDIES = {
    "steps per epoch": "A rank with more steps would wait forever in an all-reduce. Give all ranks equally "
    "many examples and one batch size: Shards, or shard(), leaves out the remainder.",
    "epochs": "Call fit() with the same epochs on all ranks.",
    "validation": "The metrics are averaged over the ranks: give validation_data on all ranks, or on none.",
    "the end of training": f"{_CALLBACKS}EarlyStopping, for example, or what sets model.stop_training.",
    "the learning rate": f"{_CALLBACKS}ReduceLROnPlateau, for example, or a schedule.",
    "the number of trained variables": f"{_CALLBACKS}what sets layer.trainable, for example.",
    "the weights": "(The numbers are the relative distances from rank 0's.) The ranks must start equal: pass "
    f"Ranks(shards) as the first callback, or call broadcast(model). {_CALLBACKS}what sets weights, for "
    "example. With a schedule or an optimizer that differs per rank, equal gradients move the weights apart.",
}


class Shards(keras.utils.PyDataset):
    """The batches of `batch` examples of (x, y) that one rank sees, freshly sharded each epoch.

    x and y are arrays (N, ...) of all examples, on every rank, or lists or dictionaries of such arrays for
    a model with several inputs or outputs; sample_weight, if given, is one like y. An item is (x, y), or (x,
    y, sample_weight), for this rank's `batch` examples in one step. The last batch of an epoch may be
    smaller, equally on every rank. `Ranks` sets `epoch`. `seed` is the seed of the shuffles, equal on all
    ranks. Raises ValueError for fewer examples than ranks (`shards.shard`), and for arrays of unequal
    lengths.
    """

    def __init__(self, x: Any, y: Any, batch: int, seed: int = 0, sample_weight: Any = None):
        super().__init__()
        self.rank, self.size = horovod().rank(), horovod().size()
        self._data = (x, y) if sample_weight is None else (x, y, sample_weight)
        lengths = {len(array) for array in keras.tree.flatten(self._data)}
        if len(lengths) != 1:
            raise ValueError(
                f"x, y and sample_weight have {sorted(lengths)} examples: all need the same number."
            )
        self.examples = lengths.pop()
        self.batch, self.seed, self.epoch = batch, seed, 0
        self.steps = math.ceil(self.examples // self.size / batch)  # of an epoch

    def __len__(self) -> int:
        return self.steps

    @property
    def epoch(self) -> int:
        """The current epoch, from 0; setting it shuffles."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._indices = shard(self.examples, self.rank, self.size, epoch, self.seed)

    def __getitem__(self, step: int) -> tuple[Any, ...]:
        take = self._indices[step * self.batch :][: self.batch]  # (batch,)
        return keras.tree.map_structure(lambda array: array[take], self._data)


class Ranks(keras.callbacks.Callback):
    """The tasks of p ranks around the training steps of `DataParallel.fit`; pass it as the first callback.

    shards      the `Shards` that are fitted: a new shuffle each epoch, the same on all ranks
    checkpoint  a path (.keras): rank 0 saves the model there after each epoch, and next to it (.state.npz)
                what a job submitted with requeue=True needs to resume after an interruption

    The ranks start from rank 0's weights. After each epoch the batch-norm statistics are averaged, as are
    values that the training step returns in addition to the model's metrics, which already cover all ranks
    (later callbacks and the history get the averages). Each step and epoch is logged to the job, for the
    progress bar of `job.wait()`. The loss of a step is Keras' running mean over the epoch, on this rank.

    A resumed training run repeats the interrupted epoch, and takes the same steps as an uninterrupted one:
    weights, optimizer and step count, and each rank's seeds of dropout and batch-norm statistics are
    restored. On CPU and on one or two ranks, the numbers are equal to the last bit. On more ranks, Horovod's
    order of summation depends on which gradients it fuses, so two runs may differ in the last bits even
    without an interruption.
    """

    def __init__(self, shards: Shards, checkpoint: str | os.PathLike[str] | None = None):
        super().__init__()
        self.shards, self.checkpoint, self.epochs = shards, checkpoint, 1
        self.first = 0  # the epoch with which a resumed training run continues
        self.history: dict[str, list[float]] = {}

    def resume(self, model: keras.Model, epochs: int) -> bool:
        """Restore what an earlier attempt saved of a training run of so many epochs; return whether there was
        anything.

        Raises ValueError if it was saved by another model, or on another number of ranks.
        """
        self.epochs, state = epochs, None
        if self.checkpoint and settings.whole_number("CLUSTER_ATTEMPT") > 1:
            saved = checkpoints.read_checkpoint(self._state)
            state = horovod().broadcast_object(saved)  # all ranks resume from rank 0's state
        if state is None:
            return False
        if len(state["own"]) != self.shards.size:
            raise ValueError(
                f"{self._state} was saved on {len(state['own'])} ranks, but there are {self.shards.size} now."
            )
        _build_optimizer(model)
        values = [*state["shared"], *state["own"][self.shards.rank]]
        _assign(_state_of(model) + model.non_trainable_variables, values, f"{self._state} was saved by")
        self.history, self.first = state["history"], state["epoch"]
        return True

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if not self.first:  # resumed ranks have their weights and seeds already
            broadcast(self.model)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.shards.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        steps = self.shards.steps
        self._log(step=self.shards.epoch * steps + batch + 1, steps=self.epochs * steps, **logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        average_statistics(self.model)
        logs.update(average(logs))
        for name, value in logs.items():
            self.history.setdefault(name, []).append(float(value))
        self._log(epoch=epoch + 1, **{f"epoch_{name}": value for name, value in logs.items()})
        if self.checkpoint:
            save(self.model, self.checkpoint)
            own = horovod().allgather_object([np.asarray(v) for v in self.model.non_trainable_variables])
            if self.shards.rank == 0:
                shared = [np.asarray(v) for v in _state_of(self.model)]
                state = {"epoch": epoch + 1, "history": self.history, "shared": shared, "own": own}
                checkpoints.write_checkpoint(self._state, state)

    @property
    def _state(self) -> Path:
        return Path(self.checkpoint).with_suffix(".state.npz")  # type: ignore[arg-type]  # there is one

    def _log(self, **values: Any) -> None:
        from cluster.jobs import log

        log(**{k: v if isinstance(v, int) else float(v) for k, v in values.items()})


def _build_optimizer(model: keras.Model) -> None:
    """Create the optimizer's variables once: building Keras' loss scaling again would reset its scale."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _state_of(model: keras.Model) -> list[keras.Variable]:
    """Return what is equal on all ranks after an epoch: the weights to train, and the optimizer's state."""
    return model.trainable_variables + model.optimizer.variables


def _assign(variables: Sequence[keras.Variable], values: Sequence[Any], what: str) -> None:
    shapes = [tuple(v.shape) for v in variables]
    if shapes != [np.shape(value) for value in values]:
        raise ValueError(f"{what} another model: its variables have other shapes.")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
