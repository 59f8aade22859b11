"""Where the time of a training step goes: a profiler's data, a graph's operations, and calls timed in turns.

Lecture 04 uses it. Importing it is cheap, because TensorFlow, Keras and pandas are imported only where they
are needed.
"""

from __future__ import annotations

import math
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import pandas as pd

# {class of a layer: its kind, with which its name in `named` begins}
KINDS = {"Conv2D": "conv", "BatchNormalization": "norm", "ReLU": "relu", "Add": "add",
         "GlobalAveragePooling2D": "pool", "Dense": "dense"}  # fmt: skip

# Operations that move no numbers.
FREE = {"Placeholder", "Reshape", "Identity", "ReadVariableOp", "Shape", "Const", "StopGradient",
        "Squeeze", "ExpandDims"}  # fmt: skip


def phase(name: str) -> str:
    """Return the outermost scope of an operation; 'backward' if a gradient tape created it."""
    return name.split("/")[0].replace("gradient_tape", "backward")


def profile(call: Callable[[], Any], phases: Sequence[str], repeats: int = 1) -> pd.DataFrame:
    """Return the operations in the scopes `phases` while call() ran: name, phase, start and seconds."""
    import pandas as pd
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(repeats):
                call()
        [path] = pathlib.Path(folder).rglob("*.xplane.pb")
        planes = xplane_pb2.XSpace.FromString(path.read_bytes()).planes
    [host] = [plane for plane in planes if plane.name == "/host:CPU"]
    names = {i: event.name.rpartition(":")[0] for i, event in host.event_metadata.items()}
    rows = [
        (name, phase(name), line.timestamp_ns / 1e9 + event.offset_ps / 1e12, event.duration_ps / 1e12)
        for line in host.lines
        for event in line.events
        if phase(name := names[event.metadata_id]) in phases
    ]
    events = pd.DataFrame(rows, columns=["name", "phase", "start", "seconds"])
    return events.assign(start=events["start"] - events["start"].min())


def timelines(calls: dict[str, Callable[[], Any]], phases: Sequence[str], seconds: float) -> None:
    """Draw each call's operations in a panel, a row per phase, from the first operation of the last phase on.

    Of three runs of a call, the shortest is drawn, which was least disturbed by other programs.
    """
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(len(calls), 1, figsize=(9.5, 1.8 * len(calls)), sharex=True)
    for ax, (title, call) in zip(axes, calls.items(), strict=True):
        seen = [profile(call, phases) for _ in range(3)]
        events = min(seen, key=lambda v: (v["start"] + v["seconds"]).max())
        start = events.loc[events["phase"] == phases[-1], "start"].min()
        for row, name in enumerate(phases):
            some = events[events["phase"] == name]
            bars = zip(1e3 * (some["start"] - start), 1e3 * some["seconds"], strict=True)
            ax.broken_barh(list(bars), (row - 0.4, 0.8), color=f"C{row}", alpha=0.7, lw=0.2)
        ax.set(xlim=(0, 1e3 * seconds), ylim=(len(phases) - 0.5, -0.5), title=title)
        ax.set_yticks(range(len(phases)), phases)
    axes[-1].set_xlabel("ms")


def stacked_bars(ax: Any, table: pd.DataFrame) -> None:
    """Draw each row of a table as a bar whose parts are the columns."""
    left: Any = 0  # an array after the first column
    for i, (name, values) in enumerate(table.items()):
        hatch = ("", "//", "..", "xx")[i % 4]
        ax.barh(table.index, values, left=left, hatch=hatch, edgecolor="white", label=name)
        left = left + values.to_numpy()
    ax.invert_yaxis()


def named(model: keras.Model) -> keras.Model:
    """Return a new copy of the network, with layers named conv1, norm1, relu1, conv2, …"""
    import keras

    seen = dict.fromkeys(KINDS.values(), 0)

    def renamed(layer: keras.layers.Layer) -> keras.layers.Layer:
        kind = KINDS[type(layer).__name__]
        seen[kind] += 1
        return type(layer).from_config(layer.get_config() | {"name": f"{kind}{seen[kind]}"})

    return keras.models.clone_model(model, clone_function=renamed)


def multiply_adds(layer: keras.layers.Layer) -> int:
    """Return a layer's multiply-adds per image in the forward pass; 0 without a kernel (lecture 03)."""
    import keras

    if isinstance(layer, keras.layers.Conv2D):
        return math.prod(layer.output.shape[1:]) * math.prod(layer.kernel_size) * layer.input.shape[-1]
    return math.prod(layer.input.shape[1:]) * layer.units if isinstance(layer, keras.layers.Dense) else 0


def stored_activations(model: keras.Model) -> int:
    """Count activations stored per image for the backward pass; a ReLU overwrites its input (lecture 03)."""
    layers = [v for v in model.layers if KINDS.get(type(v).__name__, "relu") != "relu"]
    return sum(math.prod(v.output.shape[1:]) for v in layers)


def layer_of(name: str) -> str | None:
    """Return an operation's layer, conv3 for gradient_tape/…/conv3_1/convolution/…; None outside layers."""
    found = re.search(rf"\b(({'|'.join(KINDS.values())})\d+)(_\d+)*/", name)
    return found[1] if found else None


def operations(graph: Any, model: keras.Model, images: int) -> pd.DataFrame:
    """Return FLOPs and bytes of the operations in a step's graph that are executed and move numbers, by name.

    model: a network of `named`. images: the batch size. A multiply-add is two FLOPs. All other operations
    count one FLOP per number of the largest tensor.
    """
    import pandas as pd

    products = {layer.name: 2 * images * multiply_adds(layer) for layer in model.layers}
    waiting = [op for op in graph.get_operations() if op.type.startswith("Assign")]
    rows, done = {}, set()
    while waiting:  # from the updates back to their inputs
        op = waiting.pop()
        if op.name in done:
            continue
        done.add(op.name)
        waiting += [t.op for t in op.inputs] + op.control_inputs
        tensors = [t for t in (*op.inputs, *op.outputs) if t.dtype.is_floating]
        sizes = [t.shape.num_elements() for t in tensors]
        if op.type not in FREE and sizes and None not in sizes:
            product = "Conv2D" in op.type or op.type == "MatMul"
            flops = products.get(layer_of(op.name) or "", 0) if product else max(sizes)
            rows[op.name] = (flops, sum(n * t.dtype.size for n, t in zip(sizes, tensors, strict=True)))
    return _labelled(pd.DataFrame.from_dict(rows, orient="index", columns=["flops", "bytes"]))


def least_seconds(events: pd.DataFrame, repeats: int) -> pd.DataFrame:
    """Return the seconds per call of each operation recorded by `profile`, by name: the repeats' minimum."""
    of_a_name = events.groupby("name")["seconds"]
    return _labelled((of_a_name.min() * of_a_name.size() / repeats).to_frame())


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """Add the layer, its kind, and the part of the step to which each name in the index belongs."""
    layer = table.index.map(lambda name: layer_of(name) or "loss, update")
    return table.assign(layer=layer, kind=layer.str.rstrip("0123456789"), part=table.index.map(phase))


def in_turns(
    calls: dict[str, Callable[[], Any]], repeats: int = 7, clock: Callable[[], float] = time.process_time
) -> pd.DataFrame:
    """Time some calls in turns: a row per repeat, a column per call; a first round warms up.

    clock: seconds of this process on a core, or `time.perf_counter` for elapsed seconds.
    """
    import pandas as pd

    rows = []
    for _ in range(repeats + 1):
        row = {}
        for name, call in calls.items():
            start = clock()
            call()
            row[name] = clock() - start
        rows.append(row)
    return pd.DataFrame(rows[1:])


def ladder(predicted: pd.Series, times: pd.DataFrame) -> pd.DataFrame:
    """Compare times from `in_turns` with a prediction, and each column with the previous, round by round."""
    import pandas as pd

    ratios = times.shift(axis=1) / times
    table = pd.DataFrame({"predicted, ms": 1e3 * predicted, "measured, ms": 1e3 * times.median()})
    table["measured / predicted"] = table["measured, ms"] / table["predicted, ms"]
    table["× the line before"] = ratios.median()
    return table.assign(**{"least ×": ratios.min(), "most ×": ratios.max()}).loc[list(times)]


def quietly(call: Callable[[], Any]) -> Any:
    """Run call() without the messages that XLA writes to stderr when it first compiles."""
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        return call()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def peak_memory(batches: Sequence[int]) -> list[int]:
    """Return this process's peak memory (bytes) after two training steps per batch size. Run it in a job."""
    import resource
    import sys

    import keras
    import tensorflow as tf

    from .models import small_resnet

    unit = 1 if sys.platform == "darwin" else 1024  # macOS reports bytes, Linux KiB
    model, peaks = small_resnet(seed=0), []
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, jit_compile=False)
    for n in sorted(batches):
        for _ in range(2):
            model.train_on_batch(tf.zeros((n, 28, 28, 1)), tf.zeros(n, tf.int64))
        peaks.append(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peaks
