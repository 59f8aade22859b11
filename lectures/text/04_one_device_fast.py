# %% [markdown]
# # 4 · One device, fast
#
# **Your device can do so many billion FLOPs a second. A training does a part of them. Where does the rest
# go?**
#
# Before a second device is bought, it should be known how well the first is used. A slide of the course's
# sources [1] divides an iteration into forward, backward and optimise, and names levers for it: decoding,
# fusion, compilers, Tensor Cores, profilers. We measure one iteration, predict what each lever can give, try
# it, and compare.
#
# You will
#
# 1. take a training step apart with a **profiler**, and set each layer against its roofline;
# 2. **predict an input pipeline** from the times of its stages, and order the stages so that nothing is lost;
# 3. say what **batch size** buys and what it costs in memory;
# 4. know what graphs, fusion and short numbers save, by **counting** calls, bytes and bits;
# 5. see what a network that is *already trained* saves;
# 6. apply the levers one after the other, and say how far the result is from the roof.
#
# Notation: $N$ images in a batch; a multiply-add is two FLOPs; MB are $10^6$ bytes. Guess before you look:
# write your number into `guess`, or into the field below it.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=2)

# %%
import json
import math
import os
import pathlib
import re
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from cluster import submit
from cluster.lecture import cores
from cluster.training.data import fashion_mnist
from cluster.training.models import small_resnet

tf.config.threading.set_inter_op_parallelism_threads(1)  # one operation at a time, as on one GPU stream

# %% [markdown]
# ## 4.1 Where does an iteration go?
#
# First the two numbers of lecture 01: the *peak*, by a large matrix product, and the *bandwidth*, by a copy
# far larger than the caches. **Guess:** our network below is a small ResNet. Which share of the peak does one
# step of its training reach, its images at hand?


# %% tags=["measured"]
def race(calls, repeats=7):
    """{name: call} -> seconds: a row for each repeat, a column for each call; warm, and taking turns."""
    rows = []
    for i in range(repeats + 1):
        row = {}
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            row[name] = time.perf_counter() - start
        rows += [row] if i else []  # the first one warms up
    return pd.DataFrame(rows)


# %% tags=["measured"]
THREADS = min(2, cores())


def limits(n=2048, size=2**25):
    """Peak in FLOP/s by an n × n product, bandwidth in bytes/s by a copy of `size` float32."""
    square = tf.random.normal((n, n))
    source, target = (np.array_split(np.full(size, v, np.float32), THREADS) for v in (1, 0))
    with ThreadPoolExecutor(THREADS) as pool:
        calls = {"GEMM": lambda: tf.matmul(square, square)}
        best = race(calls | {"copy": lambda: list(pool.map(np.copyto, target, source))}).min()
    return 2 * n**3 / best["GEMM"], 8 * size / best["copy"]


guess("share of the peak in a training step", None, "%")
PEAK, BANDWIDTH = limits()
print(f"peak {PEAK / 1e9:.0f} GFLOP/s, bandwidth {BANDWIDTH / 1e9:.1f} GB/s; ", end="")
print(f"ridge {PEAK / BANDWIDTH:.0f} FLOP per byte; {THREADS} threads")

# %% [markdown]
# ### The network, the step, the files
#
# The network is the `small_resnet` of lecture 03 for 28×28 pixels; its layers get names that a profiler can
# show, and three *scopes* do so for the parts of the step.

# %%
KINDS = {"Conv2D": "conv", "BatchNormalization": "norm", "ReLU": "relu", "Add": "add",
         "GlobalAveragePooling2D": "pool", "Dense": "dense"}  # fmt: skip
seen = dict.fromkeys(KINDS.values(), 0)


def renamed(layer):
    """The same layer with a name such as conv3."""
    kind = KINDS[type(layer).__name__]
    seen[kind] += 1
    return type(layer).from_config(layer.get_config() | {"name": f"{kind}{seen[kind]}"})


def kept(model):
    """Lecture 03: numbers that an image leaves in the layers, for the way back (a ReLU overwrites)."""
    return sum(
        math.prod(v.output.shape[1:]) for v in model.layers if KINDS.get(type(v).__name__, "relu") != "relu"
    )


network = keras.models.clone_model(small_resnet(seed=0), clone_function=renamed)
print(f"{len(network.layers)} layers:", ", ".join(f"{n} {kind}" for kind, n in seen.items()))

# %%
optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
optimizer.build(network.trainable_variables)
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def train_step(images, labels):
    """images (N, 28, 28, 1), labels (N,): one update; returns the loss."""
    with tf.GradientTape() as tape, tf.name_scope("forward"):
        loss = cross_entropy(labels, network(images, training=True))
    with tf.name_scope("backward"):
        gradients = tape.gradient(loss, [v.value for v in network.trainable_variables])
    with tf.name_scope("update"):
        optimizer.apply(gradients, network.trainable_variables)
    return loss


step = tf.function(train_step)

# %% [markdown]
# The images come as files: 512 JPEGs of 128×128 pixels, as if photographed. A disk or a network file system
# answers after a while, and a processor can do something else meanwhile. Here **a sleep stands for the
# disk**: everything else in this lecture is real work. A `pipeline` is built from the names of its stages, in
# order; `augment` takes one image or a whole batch, and cuts and mirrors each at random.

# %%
IMAGES, SIDE, WAIT = 512, 128, 1.5e-3  # files, pixels, seconds until the disk answers
x, y = fashion_mnist("train", 4096)
files = [tf.io.encode_jpeg(tf.cast(255 * tf.image.resize(v, (SIDE, SIDE)), tf.uint8)).numpy()
         for v in x[:IMAGES]]  # fmt: skip
READS = []  # the files that were read, in order


def disk(i):
    time.sleep(WAIT)
    READS.append(int(i))
    return files[i], y[i]


def read(i):
    with tf.name_scope("disk"):
        return tf.numpy_function(disk, [i], (tf.string, tf.int64))


def decode(file, label):
    with tf.name_scope("decode"):
        image = tf.io.decode_jpeg(tf.ensure_shape(file, ()), channels=1)  # unsigned bytes
        return tf.ensure_shape(image, (SIDE, SIDE, 1)), tf.ensure_shape(label, ())


# %%
def augment(images, labels):
    """(N, SIDE, SIDE, 1) -> (N, 28, 28, 1), or one image: 28 × 28 of its pixels, four apart, from anywhere;
    every second image in a mirror; brighter or darker by up to a fifth."""
    if images.shape.rank == 3:
        images, labels = augment(images[tf.newaxis], labels)
        return images[0], labels
    with tf.name_scope("augment"):
        n, grid = tf.shape(images)[:1], 4 * tf.range(28)
        top, left = tf.unstack(tf.random.uniform((2, n[0], 1), 0, SIDE - 4 * 28, tf.int32))
        mirror = tf.random.uniform((n[0], 1)) < 0.5
        across = left + tf.where(mirror, grid[::-1], grid)  # (N, 28)
        images = tf.gather(images, top + grid, axis=1, batch_dims=1)  # (N, 28, SIDE, 1)
        images = tf.cast(tf.gather(images, across, axis=2, batch_dims=1), tf.float32)
        return images * tf.random.uniform((n[0], 1, 1, 1), 0.8 / 255, 1.2 / 255), labels


# %%
def pipeline(order, batch=64, calls=None):
    """A tf.data pipeline, as "shuffle read decode augment batch"; `calls` of each map at a time."""
    data, options = tf.data.Dataset.range(IMAGES), tf.data.Options()
    for stage in order.split():
        if stage in ("read", "decode", "augment"):
            data = data.map(globals()[stage], num_parallel_calls=calls)
        else:
            sizes = {"shuffle": [IMAGES], "batch": [batch, True], "cache": [], "prefetch": [2]}
            data = getattr(data, stage)(*sizes[stage])
    options.threading.private_threadpool_size = 16  # a call that waits holds a thread
    options.autotune.enabled = options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.apply_default_optimizations = False
    return data.with_options(options)


[(images, labels)] = pipeline("read decode augment batch").take(1)
print(f"{len(files[0]):,} bytes -> decoded {SIDE}×{SIDE} -> batch {images.shape}, labels {labels.shape}")

# %% [markdown]
# (We switched off what TensorFlow would do by itself: it appends a prefetch, fuses maps and tunes.) A
# **profiler** writes down when each operation began and ended. TensorFlow's leaves a file in Google's
# *protocol buffers*; these lines read it, and sort by scope.


# %%
PHASES = ["disk", "decode", "augment", "forward", "backward", "update"]


def phase(name):
    """The part of an iteration in whose scope an operation lies; None for what lies in none."""
    scope = name.split("/")[0].replace("gradient_tape", "backward")
    return scope if scope in PHASES else None


def profile(call, repeats=1):
    """Operations that TensorFlow's profiler saw during call(): name, phase, start and length in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(repeats):
                call()
        [path] = pathlib.Path(folder).rglob("*.xplane.pb")
        planes = xplane_pb2.XSpace.FromString(path.read_bytes()).planes
    [host] = [plane for plane in planes if plane.name == "/host:CPU"]
    names = {
        i: (about.name.rpartition(":")[0], phase(about.name)) for i, about in host.event_metadata.items()
    }
    rows = [(*names[e.metadata_id], line.timestamp_ns / 1e9 + e.offset_ps / 1e12, e.duration_ps / 1e12)
            for line in host.lines for e in line.events if names[e.metadata_id][1]]  # fmt: skip
    found = pd.DataFrame(rows, columns=["name", "phase", "start", "seconds"])
    return found.assign(start=found["start"] - found["start"].min())


# %%
def timeline(ax, events, window=None):
    """Each operation as a bar in the row of its phase; window: (from, to) in seconds."""
    low, high = window or (0, (events["start"] + events["seconds"]).max())
    for row, name in enumerate(PHASES):
        some = events[events["phase"] == name]
        bars = zip(1e3 * (some["start"] - low), 1e3 * some["seconds"], strict=True)
        ax.broken_barh(list(bars), (row - 0.4, 0.8), color=palette[row], alpha=0.7, lw=0.2)
    ax.set(xlim=(0, 1e3 * (high - low)), yticks=range(len(PHASES)), ylim=(len(PHASES) - 0.5, -0.5))
    ax.set_yticklabels(PHASES)


def epoch(data, step=step, take=None):
    """Train on a pipeline; returns the number of images."""
    n = 0
    for images, labels in data.take(take or -1):
        step(images, labels)
        n += len(labels)
    return n


# %% tags=["measured"]
plain = pipeline("shuffle read decode augment batch")
epoch(plain, take=1)
events = profile(lambda: epoch(plain, take=2))
fig, ax = plt.subplots(figsize=(9, 2.8))
timeline(ax, events)
ax.set(xlabel="ms", title="Two iterations, as the profiler saw them")
plt.show()
display((1e3 * events.groupby("phase")["seconds"].sum()[PHASES] / 2).round(1).to_frame("ms an iteration").T)

# %% [markdown]
# *(Figure: a timeline of two iterations, a row for each of disk, decode, augment, forward, backward and
# update. Thin bars of disk, decode and augment alternate for 64 images; only then comes forward, and then
# backward, with the thin bars of update below it; then the same again. The shortest are drawn wider than
# they are.)*
#
# **Which phase waits for which?** The three upper rows and the three lower ones wait for each other: while a
# file is awaited no core works; while the network computes nobody reads. *update* does not wait for the end
# of *backward*: a graph runs an operation once its inputs are there, whatever the order of the lines, and
# each weight is updated when its gradient is known (lecture 06 uses it). 4.2 deals with the upper rows, the
# rest of 4.1 with the lower ones.
#
# ### A roofline for every layer
#
# Lecture 01 gave a layer's FLOPs and bytes from its shapes. Here the *graph* of the step is asked, operation
# by operation: its bytes are those of the tensors that it reads and writes. A convolution's FLOPs are lecture
# 03's multiply-adds, twice, in each of its three products; of all else we count one for each number of the
# largest tensor. Then an operation takes at least
#
# $$t = \max\left(\frac{\mathrm{FLOPs}}{\mathrm{peak}},\ \frac{\mathrm{bytes}}{\mathrm{bandwidth}}\right)$$
#
# and a step the sum. Backward has two products for each one of forward: twice the FLOPs. **Guess:** which
# share of the time, predicted and measured, do the *convolutions* take, which do nearly all the FLOPs?

# %%
guess("convolutions, % of the predicted time", None, "%")
guess("convolutions, % of the measured time", None, "%")
MOVES = {"Placeholder", "Reshape", "Identity", "ReadVariableOp", "Shape", "Const", "StopGradient",
         "Squeeze", "ExpandDims"}  # fmt: skip


def multiply_adds(layer):
    """Lecture 03: products that are summed up for one image."""
    if isinstance(layer, keras.layers.Conv2D):
        return math.prod(layer.output.shape[1:]) * math.prod(layer.kernel_size) * layer.input.shape[-1]
    return math.prod(layer.input.shape[1:]) * layer.units if isinstance(layer, keras.layers.Dense) else 0


def layer_of(name):
    """conv3 in backward/gradient_tape/forward/…/conv3_1/convolution/…; None outside of the layers."""
    found = re.search(rf"\b(({'|'.join(seen)})\d+)(_\d+)*/", name)
    return found[1] if found else None


def labelled(table):
    """With the layer, its kind, and the part of the step to which each name in the index belongs."""
    layer = table.index.map(lambda name: layer_of(name) or "loss, update")
    part = table.index.str.split("/").str[0].str.replace("gradient_tape", "backward")
    return table.assign(layer=layer, kind=layer.str.rstrip("0123456789"), part=part)


# %%
def operations(graph, N):
    """FLOPs and bytes of the operations that are executed and move numbers, by name."""
    waiting = [op for op in graph.get_operations() if op.type.startswith("Assign")]
    products, rows, done = {v.name: multiply_adds(v) for v in network.layers}, {}, set()
    while waiting:  # from the updates back to what they need
        op = waiting.pop()
        if op.name in done:
            continue
        done.add(op.name)
        waiting += [t.op for t in op.inputs] + op.control_inputs
        sizes = [t.shape.num_elements() for t in (*op.inputs, *op.outputs) if t.dtype.is_floating]
        if op.type not in MOVES and sizes and None not in sizes:
            product = "Conv2D" in op.type or op.type == "MatMul"
            flops = 2 * N * products.get(layer_of(op.name), 0) if product else max(sizes)
            rows[op.name] = (flops, 4 * sum(sizes))
    return pd.DataFrame.from_dict(rows, orient="index", columns=["flops", "bytes"])


# %% tags=["measured"]
N, repeats = 64, 15
batch = tf.constant(x[:N]), tf.constant(y[:N])
step(*batch)
counted = labelled(operations(step.get_concrete_function(*batch).graph, N))
counted["predicted"] = np.maximum(counted["flops"] / PEAK, counted["bytes"] / BANDWIDTH)
events = profile(lambda: step(*batch), repeats)
of_a_name = events.groupby("name")["seconds"]
measured = labelled((of_a_name.median() * of_a_name.size() / repeats).to_frame("measured"))


def side_by_side(by):
    """Counted, predicted and measured, added up by "kind", "layer" or "part"."""
    sums = counted.groupby(by)[["flops", "bytes", "predicted"]].sum()
    return sums.join(measured.groupby(by)["measured"].sum())


kinds = side_by_side("kind")
shown = (kinds / [1e9, 1e6, 1e-3, 1e-3]).set_axis(["GFLOP", "MB", "predicted / ms", "measured / ms"], axis=1)
shown["measured / predicted"] = kinds["measured"] / kinds["predicted"]
display(shown.sort_values("GFLOP", ascending=False).round(2))
for what in ("predicted", "measured"):
    compare(f"convolutions, % of the {what} time", 100 * kinds.loc["conv", what] / kinds[what].sum())
ratio = side_by_side("part").T
print("backward : forward —", (ratio["backward"] / ratio["forward"]).round(1).to_dict())
compare("share of the peak in a training step", 100 * kinds["flops"].sum() / PEAK / kinds["measured"].sum())

# %% [markdown]
# Look at *norm*: hardly any FLOPs, and far more bytes than the convolutions. The formula says that such
# layers cost time, because bytes do. Where *measured / predicted* is below 1 no law is broken: tensors of a
# few MB stay in the caches, which our bandwidth, by design, does not know. Where it is far above 1 the
# operation is small, one thread does it, or its *kernel*, the library's program for it, is poor. And the
# share of the peak is a small one. Layer by layer:

# %% tags=["measured"]
layers = side_by_side("layer")
fig, (ax, bars) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(3, 2))
reach = np.logspace(-2, 2.5, 100)
ax.loglog(reach, np.minimum(PEAK, reach * BANDWIDTH) / 1e9, "k-", marker="")
for colour, marker, kind in zip(palette, "os^DvP", seen, strict=False):
    some = layers[layers.index.str.startswith(kind)]
    ax.plot(some["flops"] / some["bytes"], some["flops"] / some["measured"] / 1e9, ls="", marker=marker,
            color=colour, label=kind)  # fmt: skip
ax.set(xlabel="arithmetic intensity / FLOP per byte", ylabel="GFLOP/s", title="Every layer under the roof")
ax.legend(loc="upper left")
ax.text(30, 1.15 * PEAK / 1e9, "peak", fontsize=9)
ax.text(0.6, 0.85 * BANDWIDTH / 1e9, "bandwidth", fontsize=9, ha="right")
at, longest = np.arange(len(kinds)), kinds.sort_values("measured", ascending=False)
bars.barh(at - 0.2, 1e3 * longest["predicted"], 0.38, color="0.75", hatch="//", label="predicted")
bars.barh(at + 0.2, 1e3 * longest["measured"], 0.38, color=palette[0], label="measured")
bars.set(yticks=at, yticklabels=longest.index, xlabel="ms in a step", title="Sum by kind")
bars.invert_yaxis()
bars.legend(loc="lower right")
plt.show()

# %% [markdown]
# *(Figure, left: the roofline, and a marker for each layer. The convolutions lie to the right and high, most
# of them below the flat roof; norm, relu and add lie far to the left, near or above the slanted roof, two
# orders of magnitude lower. Right: for each kind of layer the predicted and the measured time as bars, the
# longest first; convolutions and norm are long, all others short.)*
#
# So this is the first part of the answer: **a network is not only its GEMMs**. Layers on the slanted roof
# take time and do no FLOPs worth mentioning; no faster multiplier helps them. And narrow convolutions of 16
# to 64 maps stay below their roof, as lecture 01's narrow GEMMs did.
#
# ## 4.2 The input pipeline
#
# Measure the *stages*, and a pipeline can be predicted before it is built. Let $w$, $d$, $a$ be the seconds
# of an image in disk, decode and augment, $s$ those of a step for an image, and $c$ the *processor* seconds
# of the step: on two threads more than $s$. With $k$ calls at a time on $p$ cores:
#
# | pipeline | seconds for an image | why |
# |---|---|---|
# | one after the other | $w + d + a + s$ | nothing overlaps |
# | parallel map | $\max(w/k,\ (d + a)/p) + s$ | waiting overlaps $k$-fold; computing shares the cores |
# | and prefetch | $\max(w/k,\ s,\ (d + a + c)/p)$ | input and step overlap, and **share the cores** |
# | and cache | $\max(s,\ (a + c)/p)$ | read and decoded in the first epoch only |
#
# With an accelerator the step would take none of the host's cores, and $c$ would vanish from the last two
# lines. ($w$ is longer than the sleep: for each file a thread wakes up and enters Python.) The five times are
# measured first. **Guess** from them how many times as fast as the first line each of the others is.


# %% tags=["measured"]
def stage_seconds():
    """Of an image: the disk, and decode and augment, which are measured with a disk that does not wait."""
    global WAIT
    slow, orders = WAIT, ["read batch", "read decode batch", "read decode augment batch"]
    waited = race({"": lambda: sum(1 for _ in pipeline("read"))}, repeats=3).min().iloc[0]
    WAIT = 0
    upto = race({o: lambda o=o: sum(1 for _ in pipeline(o)) for o in orders}, repeats=7).min()
    WAIT = slow
    return waited / IMAGES, *np.diff(upto) / IMAGES


w, d, a = stage_seconds()
busy = time.process_time()
s = race({"step": lambda: step(*batch)}, repeats=19)["step"].median() / N
c = (time.process_time() - busy) / 20 / N

# %% tags=["measured"]
p, k = THREADS, 16
print("an image, in ms: ", end="")
print(", ".join(f"{n} {1e3 * v:.2f}" for n, v in {"w": w, "d": d, "a": a, "s": s, "c": c}.items()))
PREDICTED = {
    "one after the other": w + d + a + s,
    "parallel map": max(w / k, (d + a) / p) + s,
    "and prefetch": max(w / k, s, (d + a + c) / p),
    "and cache": max(s, (a + c) / p),
}
for name in ("parallel map", "and prefetch", "and cache"):
    guess(f"times as fast as one after the other: {name}", None, "×")


# %% tags=["measured"]
def ladder(predicted, times):
    """ms an image; how many times as fast as the line before, repeat by repeat: median, least, most."""
    ratios = (times.shift(axis=1) / times).fillna(1)
    return pd.DataFrame({
        "predicted / ms": 1e3 * pd.Series(predicted), "measured / ms": 1e3 * times.median(),
        "least": 1e3 * times.min(), "most": 1e3 * times.max(), "images/s": 1 / times.median(),
        "× the line before": ratios.median(), "least ×": ratios.min(), "most ×": ratios.max(),
    })  # fmt: skip


LADDER = {
    "one after the other": pipeline("shuffle read decode augment batch"),
    "parallel map": pipeline("shuffle read decode augment batch", calls=k),
    "and prefetch": pipeline("shuffle read decode augment batch prefetch", calls=k),
    "and cache": pipeline("read decode cache shuffle augment batch prefetch", calls=k),
}
times = race({name: lambda data=data: epoch(data) for name, data in LADDER.items()}, repeats=5) / IMAGES
display(ladder(PREDICTED, times).round(2))
first = times["one after the other"]
for name in list(LADDER)[1:]:
    compare(f"times as fast as one after the other: {name}", (first / times[name]).median())

# %% tags=["measured"]
fig, axes = plt.subplots(4, 1, figsize=(9.5, 8), sharex=True)
for ax, (name, data) in zip(axes, LADDER.items(), strict=True):
    events = profile(lambda data=data: epoch(data, take=7))
    start = events[events["phase"] == "forward"]["start"].min()  # after the first batch
    timeline(ax, events, (start, start + 2 * N * times.median().iloc[0]))
    ax.set_title(name)
axes[-1].set_xlabel("ms")
plt.show()

# %% [markdown]
# *(Figure: four timelines of equal length, one below the other, rows as before. One after the other: two
# iterations, mostly thin bars of the disk. Parallel map: the disk's bars lie on top of each other, and the
# gaps between the steps become short. Prefetch: disk and decode go on under forward and backward. Cache: no
# disk and no decode any more; the steps follow each other closely.)*
#
# Each repeat runs all four in turn, and so has ratios of its own. Where 1 lies between *least ×* and
# *most ×*, this race has not shown that a line is faster than the one before it.
#
# **The largest step costs one word**, the calls in parallel, and it does not make anything faster: it waits
# for sixteen files at once. Prefetch hides the rest of the input *behind* the step, as far as there are
# cores for both; where input and step share two cores, little is left to gain. (A parallel map also reads
# some files ahead: a little of the prefetch is in it already.) Where a prediction is too short, look at the
# bars: every stage runs slower while another uses its core and its cache. `augment` costs more than its
# arithmetic, for 512 calls of a dozen small operations; that can be counted.
#
# ### In which order? Count
#
# **Guess:** over two epochs of 512 images, how many *different* pictures does the network see if the cache
# stands behind the augmentation? And how often is `augment` called in an epoch if it stands behind `batch`?

# %%
guess("different pictures in two epochs, cache behind augment", None)
guess("calls of augment in an epoch, behind batch", None)


def census(order, calls=None):
    """Two epochs of a pipeline, counted; calls of augment and what the cache keeps, from its order."""
    READS.clear()
    data, stages = pipeline(order, calls=calls), order.split()
    epochs = [list(data.as_numpy_iterator()) for _ in range(2)]
    pictures = {image.tobytes() for e in epochs for images, _ in e for image in images}
    labels = [np.concatenate([labels for _, labels in e]) for e in epochs]
    whole = stages.index("batch") < stages.index("augment")
    number = 4 * 28**2 if "augment cache" in order else SIDE**2  # bytes: floats, or pixels
    return {"files read": len(READS), "different pictures": len(pictures),
            "new order in epoch 2": not np.array_equal(*labels),
            "calls of augment, epoch 1": IMAGES // N if whole else IMAGES,
            "MB kept": round(1e-6 * number * IMAGES * ("cache" in order), 1)}  # fmt: skip


# %%
ORDERS = {
    "plain": "shuffle read decode augment batch",
    "cache behind augment": "read decode augment cache shuffle batch",
    "cache behind shuffle": "shuffle read decode cache augment batch",
    "cache, shuffle, augment": "read decode cache shuffle augment batch",
    "cache, shuffle, batch, augment": "read decode cache shuffle batch augment",
}
orders = {name: census(order, calls=k) for name, order in ORDERS.items()}
tf.random.set_seed(4)
orders["no shuffle, a global seed"] = census("read decode cache augment batch")
tf.random.set_seed(None)
display(pd.DataFrame(orders).T)
frozen, late = orders["cache behind augment"], orders["cache, shuffle, batch, augment"]
compare("different pictures in two epochs, cache behind augment", frozen["different pictures"])
compare("calls of augment in an epoch, behind batch", late["calls of augment, epoch 1"])

# %% [markdown]
# Each order is a valid program, and three are wrong. A cache **behind the augmentation** freezes it: the
# second epoch brings the first one's pictures. A cache **behind the shuffle** freezes the order. And with
# TensorFlow's **global seed** the random numbers of a map begin anew in each epoch: without a new order each
# image meets the same numbers again. None raises an error, and all are fast. So: what is the same in each
# epoch first, then `cache`, `shuffle`, `batch`, and what differs last, for whole batches, where it costs a
# few calls.
#
# Why not keep all augmented pictures instead? A source of the course [2] counts what its augmentations can
# make of one photograph: 68,920 colour casts, 1,960 vignettings, 260 lens distortions, 20 rotations, 2
# mirrorings, and crops.

# %%
variants = math.prod([68_920, 1_960, 260, 20, 2, (512 - 224 + 1) ** 2])
print(f"{variants:.1e} pictures of one photograph; at 1,000 a second, {variants / 1e3 / 3.156e7:.0e} years")

# %% [markdown]
# (The source counts each of the six alone; that they combine freely is our reading.) Augmentation is drawn
# when needed or not at all.
#
# ## 4.3 Batch size
#
# Deck 002 [3]: the larger the batch, the better a device is used, until memory ends. Why better? Each
# operation has a price that does not depend on $N$, its *launch*: it is looked up, scheduled, its threads are
# woken. Let a graph of a thousand sines of *one* number say what a launch costs, $\tau$. Then
#
# $$t(N) \approx \text{operations} \cdot \tau + N\,t_\text{image}, \qquad
# \text{memory} \approx 4\,(3 \cdot \text{parameters} + N \cdot \text{kept})\ \text{bytes},$$
#
# the second from lecture 03: weights, gradients and momentum; and each layer's output, kept for the way
# back. We predict twice: with launches as cheap as a sine and $t_\text{image}$ from the largest batch; and
# with a line through the smallest and the largest batch, so that only what lies between is a prediction.
# **Guess:** which share of the best throughput is left with one image? From which batch on are 90% reached?

# %%
guess("throughput with one image, % of the best", None, "%")
guess("batch that reaches 90% of the best", None)


@tf.function
def sines(v):
    for _ in range(1000):  # unrolled while it is traced
        v = tf.sin(v)
    return v


any_batch = [tf.TensorSpec((None, 28, 28, 1)), tf.TensorSpec((None,), tf.int64)]
any_step = tf.function(train_step, input_signature=any_batch)  # one graph for every batch
sizes = [1, 4, 16, 64, 256]
parts = {n: (tf.constant(x[:n]), tf.constant(y[:n])) for n in sizes}

# %% tags=["measured"]
tau = race({"sines": lambda: sines(tf.constant(0.5))})["sines"].median() / 1000
times = race({n: lambda n=n: any_step(*parts[n]) for n in sizes}, repeats=9)
operations_run = len(profile(lambda: any_step(*parts[1])))
launches, (t1, t256) = operations_run * tau, times[[1, 256]].median()
each = (t256 - t1) / 255
fixed = t1 - each
rate = pd.DataFrame({q: sizes / times.quantile(q) for q in (0.25, 0.5, 0.75)})
best = rate[0.5].max()
print(f"{operations_run} operations; one costs {1e6 * tau:.1f} µs as a sine of one number, ", end="")
print(f"{1e6 * fixed / operations_run:.1f} µs in the step; {1e3 * each:.2f} ms an image")
compare("throughput with one image, % of the best", 100 * rate.loc[1, 0.5] / best)
compare("batch that reaches 90% of the best", 0.9 * best * fixed / (1 - 0.9 * best * each))
for name, small in (("MNIST", (10, 100)), ("CIFAR-10", (64,)), ("ImageNet", (32,))):
    of = ", ".join(f"{n}: {n / (fixed + n * each) / best:.0%}" for n in small)
    print(f"{name}: the slide's typical batch, and its share of the throughput here: {of}")

# %% [markdown]
# The batches are those that deck 003 [1] calls typical. (Its sizes need care: 60,000 are MNIST's *training*
# images but *all* of CIFAR-10's, 50,000 and 10,000 to test; and the 1.58M that it gives ImageNet-1k fit
# nothing: 1,281,167 to train, 50,000 to validate and 100,000 to test add up to 1.43M.)
#
# Now the memory. The operating system keeps the largest that a process ever had, and ours has had much by
# now: so a process of its own, a *job*, takes steps with larger and larger batches. The slope of its peak
# over the batch is what an image costs.


# %% tags=["measured"]
def peak_memory(batches):
    """Bytes this process has needed at most, after two steps with each batch in turn."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS tells bytes, Linux KiB
    model, peaks = small_resnet(seed=0), []
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, jit_compile=False)
    for n in sorted(2 * batches):
        model.train_on_batch(tf.zeros((n, 28, 28, 1)), tf.zeros(n, tf.int64))
        peaks.append(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peaks[1::2]


guess("memory of an image, measured over counted", None, "×")
os.environ.setdefault("CLUSTER_RUNS", "../runs")  # where jobs of this lecture lie
batches = [512, 1024, 1536]
peaks = submit(peak_memory, batches, name="04-memory", backend="local").result(progress=False)
slope, base = np.polyfit(batches, peaks, 1)
image, weights = 4 * kept(network), 12 * network.count_params()
print(f"counted {image / 1e6:.2f} MB an image and {weights / 1e6:.1f} MB fixed; ", end="")
print(f"measured {slope / 1e6:.2f} MB an image and {base / 1e6:.0f} MB fixed, TensorFlow among them")
for gigabytes in (12, 32):
    ends = [int((1e9 * gigabytes - fixed_part) / each_part) for fixed_part, each_part in
            ((weights, image), (base, slope))]  # fmt: skip
    print(f"{gigabytes} GB are full at {ends[0]:,} images by the count, at {ends[1]:,} as measured")
compare("memory of an image, measured over counted", slope / image)

# %%
fig, (ax, memory) = plt.subplots(1, 2, figsize=(10, 3.7))
middle = rate[0.5]
ax.errorbar(
    sizes, middle, yerr=[middle - rate[0.75], rate[0.25] - middle], ls="", marker="o", label="measured"
)
ns = np.logspace(0, 8, 50, base=2)
ax.plot(ns, ns / (launches + ns * (t256 - launches) / 256), marker="", ls=":", label="launches as sines")
ax.plot(ns, ns / (fixed + ns * each), marker="", ls="--", label="line through 1 and 256")
ax.set(xscale="log", yscale="log", xlabel="batch N", ylabel="images/s", title="Throughput")
ax.set_xticks(sizes, sizes)
ax.set_yticks(ticks := [5 * 2**i for i in range(20) if rate.min().min() / 2 < 5 * 2**i < 2 * best], ticks)
ax.minorticks_off()
ax.legend()
ns = np.logspace(0, 17, 50, base=2)
memory.loglog(ns, (weights + ns * image) / 1e9, color=palette[1], marker="", ls="--", label="counted")
memory.loglog(ns, (base + ns * slope) / 1e9, color=palette[0], marker="", ls="-", label="measured slope")
memory.loglog(batches, np.array(peaks) / 1e9, ls="", marker="o", color=palette[0])
for name, gigabytes in {"K40m, 12 GB": 12, "V100, 32 GB": 32}.items():
    memory.axhline(gigabytes, color="0.4", ls=":", marker="")
    memory.text(1, gigabytes * 1.1, name, fontsize=9)
memory.set(xlabel="batch N", ylabel="GB", ylim=(1e-3, 100), title="Memory")
memory.legend(loc="lower right")
plt.show()

# %% [markdown]
# *(Figure, left: images a second against the batch, both logarithmic: measured points rise and flatten,
# near a dashed curve; a dotted one lies above it at the left. Right: memory against the batch; the dashed
# line of the count soon rises in proportion; the measured line starts far higher, is flat, and later runs
# above it in parallel; three points lie on it, the rest is continued. Dotted lines mark two cards of the
# sources' machines, of 12 and 32 GB.)*
#
# Two costs that do not depend on $N$ bend both curves: launches on the left, weights and the library on the
# right. So the batch of 90% is one of *this* network here: with more FLOPs an image the bend lies further to
# the left. An operation of the step costs more than a sine, as the two numbers above say: it allocates its
# output, wakes threads, sets up its kernel. More images beyond the bend cost memory and bring no speed;
# lecture 08 shows what a large batch does to the error. The measured slope is above the count for lecture
# 03's reasons, gradients of outputs and scratch, and for one more, which 4.4 explains: what is written as ten
# operations leaves ten outputs.
#
# ## 4.4 Eager, graph, compiler, short numbers
#
# ### Retraces
#
# Without `tf.function` Python calls each operation, *eagerly*. With it Python runs **once**, on symbols; what
# it leaves is a graph that runs without Python. *Once* for each kind of arguments: a new shape or type
# retraces, and a Python number is part of the kind. **Guess** how often these eight calls trace.

# %%
guess("traces in eight calls", None)
traced = []


@tf.function
def scale(images, rate):
    traced.append((images.shape, rate))  # Python: runs while TensorFlow traces, not when the graph runs
    return images * rate


for n, rates in [(64, [0.1, 0.05, 0.01]), (64, [tf.constant(r) for r in (0.1, 0.05, 0.01)]),
                 (32, [tf.constant(0.01)] * 2)]:  # fmt: skip
    before = len(traced)
    for rate_now in rates:
        scale(tf.zeros((n, 28, 28, 1)), rate_now)
    print(f"{n} images, {len(rates)} rates as {type(rates[0]).__name__:11}: {len(traced) - before} traces")
compare("traces in eight calls", len(traced))

# %% [markdown]
# A learning rate that is a Python number retraces at every change; the last, smaller batch of an epoch
# retraces once. Give such numbers as tensors, and drop the last batch or name its shape `None`, as 4.3 did.
# What one trace of our step costs is printed next.
#
# ### Three ways to run one step
#
# *XLA* compiles the graph: it fuses operations into loops of its own. **Guess:** how many times as fast as
# eager is the graph with 4 images, with 64? And XLA against the graph?


# %%
def quietly(call):
    """call(), without what XLA writes to stderr when it first compiles."""
    kept_open, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        return call()
    finally:
        os.dup2(kept_open, 2)
        os.close(kept_open)
        os.close(nowhere)


guess("graph over eager, 4 images", None, "×")
guess("graph over eager, 64 images", None, "×")
guess("XLA over graph, 64 images", None, "×")
xla_step = tf.function(train_step, jit_compile=True)

# %% tags=["measured"]
start = time.perf_counter()
tf.function(train_step).get_concrete_function(*batch)
traced_in = time.perf_counter() - start
quietly(lambda: xla_step(*batch))
print(f"a trace takes {traced_in:.1f} s; XLA traces and compiles for", end=" ")
print(f"{time.perf_counter() - start - traced_in:.1f} s")
few = parts[4]
ways = race({
    "eager, 4 images": lambda: train_step(*few), "graph, 4 images": lambda: any_step(*few),
    "eager, 64 images": lambda: train_step(*batch), "graph, 64 images": lambda: step(*batch),
    "XLA, 64 images": lambda: xla_step(*batch),
}, repeats=5)  # fmt: skip
display((1e3 * ways.quantile([0, 0.5, 1]).T).round(1).set_axis(["least", "median", "most"], axis=1))
for n in (4, 64):
    compare(
        f"graph over eager, {n} images", (ways[f"eager, {n} images"] / ways[f"graph, {n} images"]).median()
    )
compare("XLA over graph, 64 images", (ways["graph, 64 images"] / ways["XLA, 64 images"]).median())

# %% [markdown]
# Eager pays Python for each operation, and with few images that is nearly all it does. XLA's answer may lie
# *below* 1: a compiler that loses. Which part of the step loses? Take a convolution and a normalisation out
# of the network, alone and with their gradients. **Guess:** XLA against the graph, for each?


# %% tags=["measured"]
def of_layer(layer, backward):
    """A function of the layer's input v: Σ layer(v)², or its gradients by v and the layer's weights."""

    def run(v):
        with tf.GradientTape() as tape:
            tape.watch(v)
            loss = tf.reduce_sum(layer(v, training=True) ** 2)
        return tape.gradient(loss, [v, *[w.value for w in layer.trainable_variables]]) if backward else loss

    return run


pairs = {}
for layer in (network.get_layer("conv3"), network.get_layer("norm3")):
    guess(f"XLA over graph, {layer.name} with its gradients", None, "×")
    v = tf.random.normal((N, *layer.input.shape[1:]))
    for what, backward in {"alone": False, "with its gradients": True}.items():
        two = {f"{way} / ms": tf.function(of_layer(layer, backward), jit_compile=way == "XLA")
               for way in ("graph", "XLA")}  # fmt: skip
        both = quietly(lambda two=two, v=v: race({n: lambda f=f: f(v) for n, f in two.items()}, 15))
        ratio = both["graph / ms"] / both["XLA / ms"]
        of = {"XLA over graph": ratio.median(), "least": ratio.min(), "most": ratio.max()}
        pairs[f"{layer.name} {what}"] = dict(1e3 * both.median()) | of
    compare(f"XLA over graph, {layer.name} with its gradients", ratio.median())
display(pd.DataFrame(pairs).T.round(2))

# %% [markdown]
# The *convolution* loses, and more with its gradients: XLA has kernels of its own for it on a CPU, the graph
# calls oneDNN's. (On a GPU both call cuDNN.) The *normalisation*, all passes and no product, gains with its
# gradients, where most passes can be fused. The step is the sum of both. Whether a compiler helps has to be
# measured for each network.
#
# ### What fusion saves
#
# Where XLA should win is the slanted roof. Four times $v \leftarrow \max(0, v/2 + 0.1)$ are twelve
# operations, and each reads and writes all numbers: 24 passes over memory. Fused, 2. **Guess** the speed-up.

# %% tags=["measured"]
guess("XLA over graph, twelve operations", None, "×")


def chain(v):
    for _ in range(4):
        v = tf.nn.relu(v * 0.5 + 0.1)
    return v


v, in_graph, fused = tf.random.normal((2**24,)), tf.function(chain), tf.function(chain, jit_compile=True)
quietly(lambda: fused(v))
chains = race({"graph": lambda: in_graph(v), "XLA": lambda: fused(v)}, repeats=7)
for name, passes in (("graph", 24), ("XLA", 2)):
    moved = passes * 4 * 2**24
    low, middle, high = 1e3 * chains[name].quantile([0, 0.5, 1])
    print(f"{name:6} {moved / 1e6:6.0f} MB, predicted {1e3 * moved / BANDWIDTH:5.0f} ms, ", end="")
    print(f"measured {middle:5.0f} ms ({low:.0f} to {high:.0f})")
compare("XLA over graph, twelve operations", (chains["graph"] / chains["XLA"]).median())

# %% tags=["measured"]
least = {"norm": 8, "relu": 5, "add": 3}  # passes, forward and backward, each layer one loop
output = {v.name: 4 * N * math.prod(v.output.shape[1:]) for v in network.layers[1:]}
for kind, passes in least.items():
    fewest = sum(passes * size for name, size in output.items() if name.startswith(kind))
    print(f"{kind}: {kinds.loc[kind, 'bytes'] / 1e6:.0f} MB in the graph, {fewest / 1e6:.0f} MB if fused")

# %% [markdown]
# Bytes predict the direction and the order, not the digit. The graph may be faster than predicted: where
# nobody needs an input any more TensorFlow writes over it, and spares what a copy pays for its other target;
# or slower, where a fresh output must be found and cleared (both in lecture 01). A fused loop is bound by its
# arithmetic as well.
#
# The last lines are layers of 4.1. Normalisation needs eight passes: it reads its input for the statistics,
# and reads and writes to apply them; backward, it reads input and gradient for two sums, and reads both and
# writes. Keras writes it as mean, difference, square, … and TensorFlow runs it as written. What fusion would
# save is the difference; a GPU's library has it as one kernel. Fusion adds no FLOP/s: it **takes bytes
# away**.
#
# ### Short numbers: bfloat16
#
# Half the bytes, and half the width of a multiplier. *float16* spends its 16 bits on precision, *bfloat16*
# on range: it is a float32 with its lower half cut off. **Guess** what is left of $1 + 2^{-9}$ in bfloat16,
# times $2^9$; and which weight 512 updates of $2^{-9}$ make of 1.

# %%
guess("(1 + 2⁻⁹ in bfloat16 − 1) · 2⁹", None)
guess("weight after 512 updates of 2⁻⁹, bfloat16", None)
types, rows = [tf.float32, tf.float16, tf.bfloat16], {}
for t in types:
    weight = tf.constant(1, t)
    for _ in range(512):
        weight += tf.constant(2**-9, t)
    values = [tf.constant(1 + 2**-9), tf.constant(1 + 2**-7), tf.constant(70_000.0), tf.constant(2.0**-30)]
    rows[t.name] = [float(tf.cast(v, t)) for v in values] + [float(weight)]
numbers = pd.DataFrame(rows, index=["1 + 2⁻⁹", "1 + 2⁻⁷", "70,000", "2⁻³⁰", "1 and 512 times 2⁻⁹"]).T
display(numbers.map("{:.7g}".format))
compare("(1 + 2⁻⁹ in bfloat16 − 1) · 2⁹", (numbers.loc["bfloat16", "1 + 2⁻⁹"] - 1) * 2**9)
compare("weight after 512 updates of 2⁻⁹, bfloat16", numbers.loc["bfloat16"].iloc[-1])

# %% [markdown]
# Nothing is left: bfloat16's next number after 1 is $1 + 2^{-7}$, and an update that is less than half of
# that step is **lost, each of the 512 times**. float16 sees the update, but makes 70,000 infinite and a small
# gradient zero. Hence *mixed precision* [4]: products of short numbers, sums and weights in float32; with
# float16 the loss is scaled up besides, so that gradients stay above zero.
#
# Is it faster? Only on a processor that has such multipliers. This one:

# %% tags=["measured"]
cpuinfo = pathlib.Path("/proc/cpuinfo")
flags = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text() if cpuinfo.exists() else "", re.M)
flags = set(flags[1].split()) if flags else set()
has = sorted(flags & {"avx512_bf16", "amx_bf16", "avx512_fp16"})
print(f"instructions for short numbers: {', '.join(has) or 'none'}")
matrix = tf.random.normal((1024, 1024))
short = tf.cast(matrix, tf.bfloat16)
gemms = race({"float32": lambda: tf.matmul(matrix, matrix), "bfloat16": lambda: tf.matmul(short, short)})
ratio = gemms["float32"] / gemms["bfloat16"]
print(f"GEMM of 1024: bfloat16 is {ratio.median():.2f} times as fast as float32")

# %% [markdown]
# A V100 has them, deck 003 says: **125 TFLOPS** from its *Tensor Cores*. 640 of them do 4×4×4 multiply-adds a
# cycle, at 1.53 GHz; its 5,120 ordinary cores one each; 900 GB/s feed both [5]. **Guess:** eight times the
# FLOP/s. How many times faster would *our* step be, by its roofline, if fused and never waiting?

# %%
guess("Tensor Cores on our step, V100 by roofline", None, "×")
plain_peak, tensor_peak, v100_bandwidth = 5120 * 2 * 1.53e9, 640 * 4**3 * 2 * 1.53e9, 900e9
print(
    f"{plain_peak / 1e12:.1f} and {tensor_peak / 1e12:.1f} TFLOPS; ridge {plain_peak / v100_bandwidth:.0f}",
    end="",
)
print(f" and {tensor_peak / v100_bandwidth:.0f} FLOP per byte")
convolutions = counted[counted["kind"].isin(["conv", "dense"])]
others = sum(least.get(name.rstrip("0123456789"), 0) * size for name, size in output.items())  # bytes
seconds = {}
for name, top, width in (("float32", plain_peak, 1), ("float16, Tensor Cores", tensor_peak, 0.5)):
    bound = np.maximum(convolutions["flops"] / top, width * convolutions["bytes"] / v100_bandwidth)
    seconds[name] = bound.sum() + width * others / v100_bandwidth
    limited = (convolutions["flops"] / top < width * convolutions["bytes"] / v100_bandwidth).mean()
    print(f"{name:22} {1e6 * seconds[name]:5.0f} µs a step; {limited:.0%} of the products wait for memory")
compare("Tensor Cores on our step, V100 by roofline", seconds["float32"] / seconds["float16, Tensor Cores"])

# %% [markdown]
# A peak eight times as high moves the ridge eight times to the right, and most of our layers with it to the
# slanted roof. There half the bytes are worth a factor of 2, and the multipliers nothing. (Arithmetic: no
# V100 ran here.)
#
# ### Layout: NHWC or NCHW
#
# In a picture stored as `NHWC` the channels of a pixel are neighbours; as `NCHW`, the pixels of a channel.
# The FLOPs are the same. **Guess:** how many times as fast as NCHW is NHWC on this processor? A change of
# layout reads and writes each number once.

# %% tags=["measured"]
nhwc, kernel = tf.random.normal((N, 28, 28, 64)), tf.random.normal((3, 3, 64, 64))
nchw = tf.transpose(nhwc, (0, 3, 1, 2))
for name, t in (("NHWC", nhwc), ("NCHW", nchw)):
    strides = np.array(t.numpy().strides)
    print(f"{name}: bytes to the next {', '.join(f'{n} {v:,}' for n, v in zip(name, strides, strict=True))}")
guess("NHWC over NCHW", None, "×")
print(f"the change, predicted by its bytes: {2e3 * 4 * nhwc.shape.num_elements() / BANDWIDTH:.1f} ms")
layouts = {
    "NHWC": lambda: tf.nn.conv2d(nhwc, kernel, 1, "SAME"),
    "the change": lambda: tf.transpose(nhwc, (0, 3, 1, 2)),
}
try:
    tf.nn.conv2d(nchw, kernel, 1, "SAME", data_format="NCHW")
    layouts["NCHW"] = lambda: tf.nn.conv2d(nchw, kernel, 1, "SAME", data_format="NCHW")
except (tf.errors.UnimplementedError, tf.errors.InvalidArgumentError):
    pass  # no kernel for it on this processor
times = race(layouts)
display((1e3 * times.quantile([0, 0.5, 1]).T).round(1).set_axis(["least / ms", "median", "most"], axis=1))
if "NCHW" in times:
    compare("NHWC over NCHW", (times["NCHW"] / times["NHWC"]).median())
else:
    print("NHWC over NCHW: this TensorFlow has no convolution for NCHW on this processor.")

# %% [markdown]
# (Where the two ranges overlap, the table tells no difference.) No layout is faster by nature: a library
# has good kernels for one, and for the other poorer ones or a change on the way. The change takes longer
# than its bytes say: of each line of the cache that it fetches or writes it uses one number at a time.
# NVIDIA's Tensor Cores want NHWC, the kernels before them NCHW. Choose the library's, once, for the whole
# network.
#
# ## 4.5 Transfer learning
#
# Deck 004 [6] on *fine-tuning*, where a network trained on one task continues on another: "faster convergence
# and better accuracy". Its table has no row without fine-tuning, so we make the comparison ourselves. Five
# classes of Fashion-MNIST, drawn by the seed, train LeNet-5; then it meets the five others, with few images
# or many. Three ways: from **scratch**; **fine-tuned**, all weights trained on from the old ones behind a new
# last layer; **frozen**, only that layer trained. Same images, batches, rate and 400 updates; five seeds,
# each with classes of its own; script `runs/04_transfer.py`, recorded. **Guess** for 1,000 images: by how
# many points does the fine-tuned network err less than the one from scratch after 20 updates, and after 400?
# And in how many of 30 runs does the one from scratch learn nothing?

# %%
guess("points less after 20 updates, 1,000 images", None)
guess("points less after 400 updates, 1,000 images", None)
guess("runs from scratch that learn nothing", None, " of 30")
record = json.loads(pathlib.Path("runs/04_transfer.json").read_text())
first, checks = record["jobs"][0], record["checks"]
rows = [{"seed": job["seed"], **row} for job in record["jobs"] for row in job["rows"]]
runs = pd.DataFrame([row | dict(zip(checks, row["errors"], strict=True)) for row in rows])
spent = sum(job["cpu_seconds"] for job in record["jobs"]) / 60
print(f"RECORDED RUN: {len(record['jobs'])} jobs of {first['submitted'][:10]}, {first['machine']['cpu']},")
print(f"TensorFlow {first['versions']['tensorflow']}, {spent:.0f} processor minutes, one thread")
print(f"{record['command']}, commit {record['commit'][:12]}, SHA-256 {record['script'][:12]}")
METHODS = ["scratch", "fine-tuned", "frozen"]
T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # Student's t, 97.5%, by the number of seeds


def interval(values):
    """Half of the 95% interval of a mean."""
    values = np.asarray(values, float)
    return T[len(values)] * values.std(ddof=1) / math.sqrt(len(values))


# %%
def paired(updates, method, against):
    """Difference of errors within a seed, which has the same images and batches in both: (sizes, seeds)"""
    found = runs.pivot(index=["images", "method"], columns="seed", values=updates).swaplevel()
    return found.loc[method] - found.loc[against]


summary = runs.groupby(["images", "method"])[[checks[0], checks[-1]]].mean().unstack().round(1)
display(summary)  # test error in % after 20 and 400 updates, mean of five seeds
words = {}
for updates, method, against in [(20, "fine-tuned", "scratch"), (400, "fine-tuned", "scratch"),
                                 (400, "frozen", "fine-tuned")]:  # fmt: skip
    points = paired(updates, method, against)
    words[f"{method} − {against}, {updates}"] = points.apply(
        lambda v: f"{v.mean():+.1f} ± {interval(v):.1f}", axis=1
    )
display(pd.DataFrame(words))  # points, with the 95% interval
for updates in (20, 400):
    better = -paired(updates, "fine-tuned", "scratch").loc[1000].mean()
    compare(f"points less after {updates} updates, 1,000 images", better)
lead = paired(20, "fine-tuned", "scratch")
print(f"pairs in which fine-tuned errs less after 20 updates: {(lead < 0).to_numpy().sum()} of {lead.size}")
nothing = {m: int((runs.loc[runs["method"] == m, 400] > 70).sum()) for m in METHODS}  # guessing: 80%
print("errors above 70% after 400 updates:", nothing)
compare("runs from scratch that learn nothing", nothing["scratch"])

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 3.5), sharey=True)
for ax, updates in zip(axes, checks, strict=True):
    ax.axhline(0, color="0.2", ls="-", marker="")
    for i, (name, aside) in enumerate({"fine-tuned": 0.93, "frozen": 1.07}.items(), 1):
        points = paired(updates, name, "scratch")
        style, at = {"color": palette[i], "marker": "os^"[i]}, aside * points.index
        ax.plot(at, points, ls="", ms=4, alpha=0.4, **style)
        half = points.apply(interval, axis=1)
        ax.errorbar(at, points.mean(axis=1), half, ls=["-", "--", ":"][i], label=name, **style)
    ax.set(xscale="log", xlabel="images", title=f"{updates} updates")
axes[0].set_ylabel("error − error from scratch / points")
axes[2].legend(loc="lower center")
plt.show()

# %% [markdown]
# *(Figure: three panels, after 20, 100 and 400 updates; how much more than the network from scratch the two
# others err, against the number of images; each seed a small marker, means joined, with 95% intervals. After
# 20 updates nearly all lie far below zero, scattered widely. After 400 fine-tuned lies at zero and frozen
# above it, with short bars, from 30 to 1,000 images; at 10 and 10,000 single markers far below pull the means
# down and make the bars long.)*
#
# **Faster: yes.** After 20 updates the fine-tuned network is ahead in every pair, by tens of points on
# average. The intervals are wide, as runs from scratch begin so differently; one holds zero. Whoever can
# afford only a few updates should not start from nothing. **Better: not seen.** After 400 updates each
# interval of the difference holds zero. From 30 to 1,000 images it is narrow: what fine-tuning may gain there
# is a few points. At 10 and 10,000 it is so wide that it says nothing, for runs from scratch that sit at
# guessing to the end. Of those with trained weights none does: a third gain, which stands in no table. (Dead
# ReLUs, as in lecture 02, are likely; the record keeps no weights to look at.) *Frozen*, the old features
# stay what five other classes needed; from 30 images on that costs. (One rate for all, chosen for LeNet-5
# from scratch; small pictures, a small network. A deep network with few photographs is another case.)
#
# And the slide's own table: which of its rows can be compared at all?

# %%
deck = pd.DataFrame(
    [("CIFAR10", "Large", 4, 95.65, 51), ("CIFAR100", "Large", 2, 80.33, 124),
     ("Bangla", "Small", 2, 99.15, 29), ("Bangla", "Large", 2, 99.47, 7),
     ("Bangla-aug", "Large", 4, 99.73, 160), ("MNIST", "Small", 2, 99.44, 168),
     ("ICDAR", "Medium", 2, 95.28, 2344)],
    columns=["data", "model", "GPUs", "accuracy / %", "minutes"],
)  # fmt: skip
deck["error / %"] = 100 - deck["accuracy / %"]
deck["GPU minutes"] = deck["GPUs"] * deck["minutes"]
display(deck.round(2))
alike = deck[deck.duplicated(["data", "GPUs"], keep=False)]
small, large = alike["error / %"], alike["minutes"]
print(f"same data and GPUs: {', '.join(alike['data'] + ' ' + alike['model'])}; ", end="")
print(f"errors {small.iloc[0] / small.iloc[1]:.1f} : 1, minutes {large.iloc[0] / large.iloc[1]:.1f} : 1")

# %% [markdown]
# One pair, and it compares two *models*: the large one errs less, and converges in a quarter of the time. No
# row is without fine-tuning, and no two differ in that alone; the slide's claim rests on its curves, whose
# numbers we do not have.
#
# ## 4.6 All levers
#
# From the program one writes first to the one that feeds the device: each line is one more lever. The
# prediction is made of $w$, $d$, $a$, $s$, $c$ and the eager times of 4.4 (a batch of 8 takes what 4 took,
# and four images more). **Guess:** how many times as fast is the last as the first?

# %%
guess("last lever over first program", None, "×")
slow, wide = "shuffle read decode augment batch", "read decode cache shuffle augment batch prefetch"
eager = {n: ways[f"eager, {n} images"].median() for n in (4, 64)}
LEVERS = {  # order of the stages, batch, calls at a time, step; predicted seconds for an image
    "eager, 8 images": (slow, 8, None, train_step, w + d + a + eager[4] / 8 + s / 2),
    "64 images": (slow, 64, None, train_step, w + d + a + eager[64] / 64),
    "graph": (slow, 64, None, step, PREDICTED["one after the other"]),
    "16 files at a time": (slow, 64, k, step, PREDICTED["parallel map"]),
    "prefetch": (slow + " prefetch", 64, k, step, PREDICTED["and prefetch"]),
    "cache": (wide, 64, k, step, PREDICTED["and cache"]),
    "augment batches": (wide.replace("augment batch", "batch augment"), 64, k, step, max(s, c / p)),
}


def one_epoch(order, size, calls, step, _):
    """A function that trains once on all images, eagerly on 64 of them."""
    data = pipeline(order, size, calls)
    return lambda: epoch(data, step, take=64 // size if step is train_step else None)


# %% tags=["measured"]
seen_images = [64 if lever[3] is train_step else IMAGES for lever in LEVERS.values()]
every = race({name: one_epoch(*lever) for name, lever in LEVERS.items()}, repeats=5) / seen_images
bars = ladder({name: lever[-1] for name, lever in LEVERS.items()}, every)
middle = bars["measured / ms"]
display(bars.round(2))
roof = {"all FLOPs at the peak": counted["flops"].sum() / PEAK,
        "the graph's roofline": counted["predicted"].sum()}  # fmt: skip
roof = {name: 1e3 * v / N for name, v in roof.items()}
print(", ".join(f"{name}: {v:.2f} ms" for name, v in roof.items()), "an image")
compare("last lever over first program", (every.iloc[:, 0] / every.iloc[:, -1]).median())
shares = 100 * roof["all FLOPs at the peak"] / middle.iloc[[0, -1]]
print(f"share of the peak: the first program {shares.iloc[0]:.1f}%, the last {shares.iloc[1]:.1f}%")

# %%
fig, ax = plt.subplots(figsize=(9, 3.8))
faster, slower, unclear = {"color": palette[0]}, {"color": palette[1], "hatch": "//"}, {"color": "0.7"}
before = edge = 0.6 * min(*roof.values(), middle.min())
for i, row in enumerate(bars.itertuples(index=False, name=None)):
    predicted, now, least_ms, most_ms, _, factor, low, high = row
    style = faster if not i or low > 1 else slower if high < 1 else unclear
    ax.barh(i, abs(before - now), left=min(before, now), edgecolor="white", **style)
    ax.plot([least_ms, most_ms], [i, i], "k-", marker="|", lw=1, label="" if i else "least to most")
    ax.plot(predicted, i - 0.25, "k", marker="v", ms=6, ls="", label="" if i else "predicted")
    words = f"× {factor:.1f}" + " ?" * (style is unclear) if i else f"{now:.1f} ms"
    ax.text(1.1 * max(before, most_ms), i, words, va="center", fontsize=9)
    before = now
for (name, value), style in zip(roof.items(), (":", "--"), strict=True):
    ax.axvline(value, color="0.3", ls=style, marker="", label=name)
ax.set(xscale="log", xlim=(edge, 2 * middle.max()), xlabel="ms an image", title="From slow to fast")
ax.set_yticks(range(len(middle)), middle.index)
ax.invert_yaxis()
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: a waterfall, ms an image on a logarithmic axis. The first bar is the eager program with 8
# images; each bar below begins where the one above ends and leads to the left, with its factor beside it.
# Grey, with a question mark: not faster in every repeat; hatched: slower in every one. Black lines go from
# the least to the most, triangles mark the predictions. A dotted line far to the left marks all FLOPs at the
# peak, a dashed one the roofline of the graph.)*
#
# The levers are those of deck 003's slide [1]. What each did here:
#
# | the slide's lever | here |
# |---|---|
# | decoding and feeding (OpenCV, DALI) | tried, 4.2. DALI decodes on a GPU: needs one |
# | kernel fusion | tried, 4.4: a chain by XLA; batch normalisation counted |
# | compilers (chainer-compiler) | tried, 4.4: XLA on the whole step, in place of Chainer's |
# | less Python (ChainerX, CuPy) | tried, 4.4: eager against graph. CuPy is NumPy on a GPU: needs one |
# | Tensor Cores | arithmetic, 4.4; bfloat16 measured on this processor |
# | profilers (cProfile, nvprof) | tried, 4.1, with TensorFlow's; nvprof sees GPUs only |
#
# The order matters as well: before the parallel reads, the cache would have shown a larger factor, and the
# graph after the cache, too. **A factor belongs to a lever and to what was slow before it.**
#
# And where does the rest go, after all levers? What 4.1 measured in the step's operations, and the last bar:

# %% tags=["measured"]
spent, products = 1e3 * kinds["measured"] / N, ["conv", "dense"]
at_peak = 1e3 * kinds.loc[products, "flops"].sum() / PEAK / N
budget = pd.Series({
    "products, at the peak": at_peak,
    "products, below the peak": spent[products].sum() - at_peak,
    "normalisation": spent["norm"],
    "other layers, loss, update": spent.drop([*products, "norm"]).sum(),
    "between operations, input": middle.iloc[-1] - spent.sum(),
})  # fmt: skip
table = pd.DataFrame({"ms an image": budget, "% of the last bar": 100 * budget / middle.iloc[-1]})
display(table.T.round(2))
fig, ax = plt.subplots(figsize=(9, 2.2))
left, looks = 0, [palette[0], palette[4], palette[1], palette[5], "0.8"]
for (name, value), colour, hatch in zip(budget.items(), looks, ("", "//", "", "\\\\", ".."), strict=True):
    ax.barh(0, value, left=left, color=colour, hatch=hatch, edgecolor="white", label=name)
    left += value
ax.set(yticks=[], xlim=(0, max(left, budget.cumsum().max())), xlabel="ms an image", title="The last bar")
fig.legend(loc="outside lower center", ncols=3)
plt.show()

# %% [markdown]
# *(Figure: one bar, the last of the waterfall, in five parts. The products at the peak are a small one at the
# left; products below the peak and normalisation are the largest.)*
#
# This answers the lecture's question. A small part is what the device can do at best. The largest are
# convolutions too narrow for their GEMM, and bytes that normalisation moves. What lies between the operations
# is what is left over: launches, waiting, and input that shares the cores. (It is the difference of two
# measurements of two minutes; should it be below zero, their noise is larger than it.)
#
# ## What was learned
#
# 1. A profiler shows which phase waits. Each operation has its roofline; layers without FLOPs take time for
#    their bytes.
# 2. A pipeline's time follows from its stages: sums where they wait for each other, maxima where they
#    overlap, and cores are shared. Orders that are wrong run without an error: count pictures and calls.
# 3. A batch spreads fixed costs; its memory is lecture 03's count and more.
# 4. A graph saves Python, and retraces for new shapes and numbers. Fusion saves bytes; a compiler may lose
#    more elsewhere.
#    bfloat16 loses what is below $2^{-8}$ of a number, so sums and weights stay in float32.
# 5. Weights that were trained before save updates and start safely; lower errors in the end were not seen.
# 6. Levers multiply, and each is worth what the slowest remaining stage lets it.
#
# **Open questions.** (a) The cache keeps decoded images. What should be kept when they do not fit? (b) Two
# ranks on two cores: which of today's gains will they share? (c) *Hardware.* A device with eight times the
# FLOP/s and the same memory: which of our layers would notice?
#
# **Your turn.** Assignment 04, *Feed the device*. Next: **05, why distribute**, asks what a second device can
# give at most.

# %% [markdown]
# ## Further
#
# ### Exercises
#
# 1. Set `WAIT` to 0 and to 10 ms. Predict the table of 4.2 first. From which $k$ on does nothing change?
# 2. Leave the cache of 4.2 before `decode`: files in place of pixels. What is kept, what is paid?
# 3. Split a batch of 64 into four of 16 whose gradients are added up. What happens to memory, time, and the
#    statistics of batch normalisation?
# 4. Replace batch normalisation by a scale and a shift. Predict the step's time from the table of 4.1.
# 5. Run 4.4 on a machine whose processor has `amx_bf16`. Which layers of 4.1 gain?
#
# ### Sources
#
# 1. K. Uenishi: *A few ways to accelerate deep learning*, slides, 2019 (in Japanese).
# 2. R. Wu et al.: *Deep Image: scaling up image recognition*, arXiv 1501.02876, as counted in H. Sato's
#    slides on TSUBAME, 2017.
# 3. A. Rigazzi: *HPC and AI convergence*, slides, Cray.
# 4. P. Micikevicius et al.: *Mixed precision training*, ICLR 2018, arXiv 1710.03740.
# 5. NVIDIA: [*Programming Tensor Cores in CUDA
#    9*](https://developer.nvidia.com/programming-tensor-cores-cuda-9-0), 2017; *Tesla V100*, data sheet.
# 6. V. Codreanu: *Introduction to high-performance machine learning*, slides, SURFsara and PRACE.
# 7. S. Williams, A. Waterman, D. Patterson: *Roofline*, Communications of the ACM 52 (4), 2009.
