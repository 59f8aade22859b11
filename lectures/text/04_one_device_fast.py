# %% [markdown]
# # 4 · One device, fast
#
# **One core can do about 100 billion FLOPs per second. Our training step uses about half of them. Where
# does the rest go?**
#
# Before buying a second device, find out how well the first one is used. This takes two questions. *Where
# does the time of a training step go?* A profiler, the bytes of each operation and a few experiments
# answer it. *Does the device wait for its data?* Then a faster step gains nothing, and the input pipeline
# decides. You will
#
# 1. take a training step apart with a **profiler**, and compare each kind of layer with its roofline;
# 2. **predict an input pipeline** from the times of its stages, and order the stages by counting;
# 3. separate what a step costs per **batch** from what it costs per image, in time and in memory;
# 4. see what **graphs**, **fusion** and **mixed precision** save, in calls, bytes and time;
# 5. decide which of these **levers** is worth pulling first.
#
# Notation: $N$ images in a batch; a multiply-add is two FLOPs; 1 MB is $10^6$ bytes. Write down your
# guess before you look.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=1)

# %%
import cProfile
import os
import tempfile
import time

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display

from cluster import submit
from cluster.lecture import cores
from cluster.training import profiling
from cluster.training.augmentation import augment
from cluster.training.data import fashion_mnist
from cluster.training.models import small_resnet
from cluster.training.profiling import in_turns, named, operations, profile

tf.config.threading.set_inter_op_parallelism_threads(1)  # one operation at a time
x, y = fashion_mnist("train", 512)

# %% [markdown]
# ## 4.1 Where does a step's time go?
#
# The network is the `small_resnet` of lecture 03. `named` names its layers conv1, norm1, relu1, conv2,
# …, so that a profiler can show them, and three *scopes* name the phases of the step.


# %% slideshow={"slide_type": "notes"}
def step_of(network):
    """A function of images (N, 28, 28, 1) and labels (N,) that makes one update."""
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(network.trainable_variables)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weights = [v.value for v in network.trainable_variables]

    def train_step(images, labels):
        with tf.GradientTape() as tape, tf.name_scope("forward"):
            loss = cross_entropy(labels, network(images, training=True))
        with tf.name_scope("backward"):
            gradients = tape.gradient(loss, weights)
        with tf.name_scope("update"):
            optimizer.apply(gradients, network.trainable_variables)
        return loss

    return train_step


# %%
network = named(small_resnet(seed=0))
train_step = step_of(network)
step = tf.function(train_step)
N = 64
batch = tf.constant(x[:N]), tf.constant(y[:N])
counted = operations(step.get_concrete_function(*batch).graph, network, N)
FLOPS = counted.query("kind in ('conv', 'dense')")["flops"].sum()  # of the products
print(f"{len(counted)} operations, {FLOPS / 1e9:.1f} GFLOP in a step")

# %% [markdown]
# The device of this lecture is *one core*. The clock of `in_turns` counts the seconds that our process
# spends on a core, not those of other programs. These still disturb us through shared caches and memory
# bandwidth: compare the shortest and longest times in 4.4. (When we measure waiting, we use the wall
# clock instead.)
#
# How fast could the device be? The *peak* is measured by a large matrix product, the *bandwidth* by a
# copy far larger than the caches (lecture 01). **Model FLOPs utilisation** (MFU) is the fraction of the
# peak that the products of forward and backward pass use (Chowdhery et al. 2022). Convolutions and
# dense layers have one product in the forward pass and two in the backward pass. Usually the peak comes
# from the data sheet; ours is measured, and lower. **Guess** the MFU of our step, with its images in
# memory.

# %%
guess("MFU of the step", unit="%")

# %% tags=["measured"]
square = tf.random.normal((2048, 2048))
source, target = (np.full(2**25, v, np.float32) for v in (1, 0))
times = in_turns({
    "GEMM": lambda: tf.matmul(square, square),
    "copy": lambda: np.copyto(target, source),
    "step": lambda: step(*batch),
}, repeats=15)  # fmt: skip
PEAK, BANDWIDTH = 2 * 2048**3 / times["GEMM"].min(), 8 * 2**25 / times["copy"].min()
print(f"peak {PEAK / 1e9:.0f} GFLOP/s, bandwidth {BANDWIDTH / 1e9:.0f} GB/s, ", end="")
print(f"ridge {PEAK / BANDWIDTH:.0f} FLOP per byte")
mfu = 100 * FLOPS / (2 * 2048**3) * (times["GEMM"] / times["step"])
print("MFU, quartiles: {:.0f}% and {:.0f}%".format(*mfu.quantile([0.25, 0.75])))
compare("MFU of the step", mfu.median())
claim("between a third and two thirds of the peak", 100 / 3 < mfu.median() < 200 / 3)

# %% [markdown]
# Our step reaches between a third and two thirds of the peak. Where is the rest? A **profiler** records
# when each operation began and ended. TensorFlow's profiler (`cluster.training.profiling` reads its
# file) shows the operations by name, and so by layer. From the *graph* of the step we count the FLOPs
# and bytes of the same operations. The bytes are the sizes of the tensors that an operation reads and
# writes. **Guess** which percentage of the time normalisation takes; it has 2% of the FLOPs.

# %%
guess("normalisation, share of a step's time", unit="%")

# %% tags=["measured"]
PHASES = ["forward", "backward", "update"]
events = profile(lambda: step(*batch), PHASES, repeats=15)
bounds = counted["flops"] / PEAK, counted["bytes"] / BANDWIDTH
counted["roofline"] = np.maximum(*bounds)
kinds = counted.groupby("kind")[["flops", "bytes", "roofline"]].sum()
kinds["seconds"] = profiling.least_seconds(events, 15).groupby("kind")["seconds"].sum()
span = times["step"].min()
between = span - kinds["seconds"].sum()
shown = kinds / [1e9, 1e6, 1e-3, 1e-3]
shown.columns = ["GFLOP", "MB", "roofline, ms", "measured, ms"]
display(shown.sort_values("GFLOP", ascending=False).round(2))
print(f"a step takes {1e3 * span:.1f} ms, {1e3 * between:.1f} ms between operations")

# %% tags=["measured"]
GROUPS = {"conv": "products", "dense": "products", "norm": "normalisation"}
parts = kinds.groupby(lambda kind: GROUPS.get(kind, "other layers, loss, update")).sum()
parts = parts.sort_values("flops", ascending=False)
parts.loc["between operations"] = [0, 0, 0, between]
share = (100 * parts / parts.sum()).drop(columns="roofline").T
display(share.round(1))
used, moved = share.loc["seconds"], share.loc["bytes"]
compare("normalisation, share of a step's time", used["normalisation"])
claim("the products take less than two thirds of the time", used["products"] < 67)
rest = used - [mfu.median(), 0, 0, 0]
claim("the largest part of the rest goes to normalisation", rest.argmax() == 1)
claim("normalisation moves more bytes than all products", moved.iloc[1] > moved.iloc[0])

# %%
fig, ax = plt.subplots(figsize=(9, 3))
profiling.stacked_bars(ax, share.set_axis(["FLOPs", "bytes", "time"]))
ax.plot(2 * [mfu.median()], [1.6, 2.4], "k-", ms=0, lw=3, label="FLOPs at the peak")
ax.set(xlim=(0, 100), xlabel="% of a training step")
fig.legend(loc="outside lower center", ncols=3)
plt.show()

# %% [markdown]
# *(Figure: three stacked bars, in % of the step. Of the FLOPs, nearly all belong to products. Of the
# bytes, more than half belong to normalisation. Of the time, more than half belongs to products, about
# a quarter to normalisation, the rest to other layers and to gaps between operations. A line marks the
# time that all products would take at the peak: most of the products' bar.)*
#
# **The products are not the problem.** Although they do nearly all FLOPs, the products take less than two
# thirds of the time, and most of that is what they need at the peak. The largest part of the rest goes to
# normalisation. Its FLOPs are few, but normalisation moves more bytes than all products. *Roofline* is
# the sum of $\max(\text{FLOPs}/\text{peak},\ \text{bytes}/\text{bandwidth})$ over the operations. It is
# not a lower bound here: tensors of a few MB stay in the caches, which are faster than the bandwidth of
# our copy. The time *between operations* is the step's time minus the time of all operations, mostly
# spent on scheduling them and allocating their outputs.
#
# So three levers remain: fewer operations (4.3, 4.4), fewer bytes (4.5), and faster products (4.5). But
# all of this assumes that the images are already in memory.

# %% [markdown]
# ## 4.2 Feeding the device
#
# The images now come as 512 JPEG files of 128×128 pixels. We want to see what the input does to a
# *fast* device next to the CPU, so **two sleeps replace hardware** in this section: one stands for a
# disk or network file system that answers after 12 ms, the other for a step of 64 ms on an accelerator.
# Both leave the CPU free. Decoding and augmenting are real work on the cores. A `pipeline` is built
# from the names of its stages; `augment` randomly crops, mirrors and brightens one image or a whole
# batch.

# %%
IMAGES, SIDE = 512, 128  # files; pixels a side
WAIT, STEP = 12e-3, 64e-3  # seconds until the disk answers; of the accelerator's step
large = tf.cast(255 * tf.image.resize(x, (SIDE, SIDE)), tf.uint8)
files = [tf.io.encode_jpeg(image).numpy() for image in large]
READS = []  # the files that were opened, in order


def disk(i):
    time.sleep(WAIT)
    READS.append(int(i))
    return files[i], y[i]


def read(i):
    with tf.name_scope("disk"):
        return tf.numpy_function(disk, [i], (tf.string, tf.int64))


def decode(file, label):
    with tf.name_scope("decode"):
        image = tf.io.decode_jpeg(tf.ensure_shape(file, ()), channels=1)
        return tf.ensure_shape(image, (SIDE, SIDE, 1)), tf.ensure_shape(label, ())


# %% slideshow={"slide_type": "notes"}
def pipeline(order, calls=None, ahead=2, tuned=False):
    """A tf.data pipeline from the names of its stages; `calls` of each map at once."""
    data, options = tf.data.Dataset.range(IMAGES), tf.data.Options()
    sizes = {"shuffle": [IMAGES], "batch": [N, True], "cache": [], "prefetch": [ahead]}
    for stage in order.split():
        if stage in sizes:
            data = getattr(data, stage)(*sizes[stage])
        elif stage == "records":
            data = tf.data.Dataset.range(SHARDS).shuffle(SHARDS)
            data = data.interleave(records, SHARDS, num_parallel_calls=SHARDS)
        else:
            step = {"read": read, "decode": decode, "augment": augment}[stage]
            data = data.map(step, num_parallel_calls=calls)
    options.threading.private_threadpool_size = 16  # a waiting call has one
    options.autotune.enabled = options.experimental_optimization.inject_prefetch = tuned
    options.experimental_optimization.apply_default_optimizations = tuned
    return data.with_options(options)


# %%
@tf.function
def accelerator(images, labels):
    with tf.name_scope("accelerator"):
        return tf.numpy_function(lambda v: time.sleep(STEP) or v, [labels], tf.int64)


def epoch(data, step):
    for images, labels in data:
        step(images, labels)


# %% [markdown]
# A pipeline can be predicted before it is built. Let each image wait $w$ seconds for the disk and take
# $d$ and $a$ seconds on a core to decode and augment, and $s$ seconds in the step. With $k$ concurrent
# calls on $p$ cores, and a step that uses $c$ core seconds per image (zero on an accelerator):
#
# | pipeline | seconds per image | why |
# |---|---|---|
# | one after the other | $w + d + a + s$ | nothing overlaps |
# | parallel map | $\max(w/k,\ (d + a)/p) + s$ | $k$ calls wait together; computing shares the cores |
# | and prefetch | $\max(w/k,\ s,\ (d + a + c)/p)$ | the next batches are prepared during the step |
# | and cache | $\max(s,\ (a + c)/p)$ | files are read and decoded in the first epoch only |
#
# We measure the stages, print the predictions, and only then build the pipelines. **Guess**, from the
# printed predictions, how much prefetch will gain.


# %%
def predicted(w, d, a, s, c, k, p):
    """Seconds per image of four pipelines."""
    return {
        "one after the other": w + d + a + s,
        "parallel map": max(w / k, (d + a) / p) + s,
        "and prefetch": max(w / k, s, (d + a + c) / p),
        "and cache": max(s, (a + c) / p),
    }


# %% tags=["measured"]
def stage_seconds(k):
    """Seconds per image: waiting for the disk; on a core for decode, for augment."""
    orders = ["read batch", "read decode batch", "read decode augment batch"]
    one = {"": lambda: list(pipeline("read").take(N))}
    waited = in_turns(one, 3, time.perf_counter).median().iloc[0] / N
    upto = in_turns({o: lambda o=o: list(pipeline(o, k)) for o in orders}).min()
    return waited, *np.diff(upto) / IMAGES


k, p = 16, cores()
w, d, a = stage_seconds(k)
once = in_turns({"": lambda: accelerator(*batch)}, 19, time.perf_counter)
s = once.median().iloc[0] / N
print(p, "cores; ms per image (w, d, a, s):", (1e3 * np.array([w, d, a, s])).round(2))
expected = pd.Series(predicted(w, d, a, s, 0, k, p))
for name, gain in (expected.shift() / expected)[1:].items():
    print(f"predicted: {name}, {gain:.2f} times as fast as the line before")
guess("prefetch, times as fast as the parallel map", unit="×")


# %%
PLAIN = "shuffle read decode augment batch"
WAYS = {
    "one after the other": pipeline(PLAIN).take(2),
    "parallel map": pipeline(PLAIN, calls=k),
    "and prefetch": pipeline(PLAIN + " prefetch", calls=k),
    "and cache": pipeline("read decode cache shuffle augment batch prefetch", calls=k),
}

# %% tags=["measured"]
AUTO = tf.data.AUTOTUNE
data = WAYS | {"AUTOTUNE": pipeline(PLAIN + " prefetch", AUTO, AUTO, tuned=True)}
calls = {name: lambda name=name: epoch(data[name], accelerator) for name in data}
times = in_turns(calls, 5, time.perf_counter) / (N * np.array([2, 8, 8, 8, 8]))
ratio = times.pop("AUTOTUNE") / times["and prefetch"]
table = profiling.ladder(expected, times)
display(table.round(2))
gains = table["× the line before"]
least, middle, most = ratio.quantile([0, 0.5, 1])
print(f"AUTOTUNE over our numbers: {middle:.2f} ({least:.2f} to {most:.2f})")
gain = gains["and prefetch"]
compare("prefetch, times as fast as the parallel map", gain)
claim("prefetch makes the pipeline at least a fifth faster", gain > 1.2)
claim("the parallel map gains most", gains.idxmax() == "parallel map")
longer = table["measured / predicted"]
claim("an epoch takes longer than predicted", longer["and prefetch"] > 1)
claim("within a factor of two of our numbers", 0.5 < middle < 2)

# %% tags=["measured"]
ROWS = ["disk", "decode", "augment", "accelerator"]
calls = {n: lambda n=n: epoch(WAYS[n].take(7), accelerator) for n in WAYS}
profiling.timelines(calls, ROWS, N * times["one after the other"].median())
plt.show()

# %% [markdown]
# *(Figure: four timelines on the same time axis, each with a row for disk, decode, augment and
# accelerator, from the first step on. One after the other: one step, then a batch of single reads, each
# followed by a short decode and augment. Parallel map: the reads overlap and fill the gaps between
# seven steps. Prefetch: the reads continue under the steps, which follow each other more closely.
# Cache: no disk and no decode.)*
#
# **The order of the stages and two numbers decide.** The parallel map gains most, although no single
# operation becomes faster: it waits for sixteen files at once. Prefetch hides most of the remaining
# input time behind the step, except when the disk is late (see the gaps in the third timeline). *Here*,
# where the accelerator leaves the cores free, prefetch makes the pipeline at least a fifth faster. Once
# the step is the longest stage, the formula predicts no gain from a cache; compare the last line of the
# table.
#
# Judge the predictions by *measured / predicted*. With prefetch an epoch takes longer than predicted.
# The formula describes a long run, but our epoch of eight batches starts with an empty buffer, and
# nothing hides its first batch: that adds an eighth of $w/k$. We attribute the rest, and the difference
# with the cache, to sleeps that end late: compare $w$ with the 12 ms of `WAIT`. With the parallel map,
# sixteen reads already run during the step, which the formula ignores.
#
# We chose sixteen calls and two prefetched batches by hand. **`tf.data.AUTOTUNE`** chooses such numbers
# while the pipeline runs, within a budget of cores and memory, and should be your first choice. Here
# the time of its epochs was within a factor of two of our numbers'. We set the numbers ourselves
# because a prediction needs them.
#
# ### In which order? Count
#
# **Guess**: over two epochs of 512 images, how many *different* images does the network see if the cache
# comes after the augmentation? How often is `augment` called in an epoch if it comes after `batch`?
#
# Opening 512 small files costs 512 waits. A **TFRecord** file holds many records, one after the other; we
# write eight *shards*. `interleave` opens several of them and takes records from each in turn, so that
# batches are mixed.

# %%
guess("different images, cache after augment")
guess("calls of augment per epoch, after batch")
SHARDS = 8
folder = tempfile.mkdtemp()
for shard in range(SHARDS):
    with tf.io.TFRecordWriter(f"{folder}/{shard}.tfrecord") as out:
        for i in range(shard, IMAGES, SHARDS):
            out.write(bytes([y[i]]) + files[i])  # a byte for the label


def open_shard(i):
    disk(i)
    return f"{folder}/{i}.tfrecord"


def records(i):
    """The (file, label) of one shard."""
    path = tf.ensure_shape(tf.numpy_function(open_shard, [i], tf.string), ())
    return tf.data.TFRecordDataset(path).map(lambda record: (
        tf.strings.substr(record, 1, -1),
        tf.cast(tf.io.decode_raw(record, tf.uint8)[0], tf.int64)))  # fmt: skip


# %%
def census(order, calls=None):
    """Two epochs of a pipeline, counted."""
    READS.clear()
    data = pipeline(order, calls)
    epochs = [list(data.as_numpy_iterator()) for _ in range(2)]
    different = {image.tobytes() for e in epochs for images, _ in e for image in images}
    labels = [np.concatenate([labels for _, labels in e]) for e in epochs]
    return {
        "files opened": len(READS),
        "different images": len(different),
        "new order in epoch 2": not np.array_equal(*labels),
        "calls of augment": len(list(pipeline(order.partition(" augment")[0], calls))),
    }


ORDERS = {
    "plain": PLAIN,
    "cache after augment": "read decode augment cache shuffle batch",
    "cache after shuffle": "shuffle read decode cache augment batch",
    "cache, shuffle, batch, augment": "read decode cache shuffle batch augment",
    "the same from TFRecord shards": "records decode cache shuffle batch augment",
}

# %%
orders = {name: census(order, calls=k) for name, order in ORDERS.items()}
tf.random.set_seed(4)
orders["no shuffle, a global seed"] = census("read decode cache augment batch")
tf.random.set_seed(None)
display(pd.DataFrame(orders).T)
_, frozen, _, late, shards, seeded = orders.values()
compare("different images, cache after augment", frozen["different images"])
compare("calls of augment per epoch, after batch", late["calls of augment"])
claim("the second epoch repeats the images of the first",
      frozen["different images"] == IMAGES)  # fmt: skip
stale = [name for name, row in orders.items() if not row["new order in epoch 2"]]
claim("the second epoch repeats the order of the first",
      stale == ["cache after shuffle", "no shuffle, a global seed"])  # fmt: skip
claim("the random numbers of a map start again in each epoch",
      seeded["different images"] == IMAGES)  # fmt: skip
claim("eight files are opened instead of 512", shards["files opened"] == 8)
claim("more than 10¹⁷ images", 68_920 * 1_960 * 260 * 20 * 2 * 289**2 > 1e17)

# %% [markdown]
# Each order is a valid program, and three are wrong. With the cache **after the augmentation**, the
# second epoch repeats the images of the first. With the cache **after the shuffle**, the second epoch
# repeats the order of the first. And with TensorFlow's **global seed**, the random numbers of a map
# start again in each epoch, so without a shuffle each image is augmented in the same way again. None of
# the three raises an error, and all are fast. So first put the stages whose results are the same in
# every epoch, then `cache`, `shuffle` and `batch`, and last, on whole batches, the random ones. With
# shards, eight files are opened instead of 512.
#
# Why not store all augmented images? One paper counts 68,920 colour casts, 1,960 vignettings, 260 lens
# distortions, 20 rotations, 2 mirrorings and a crop position for each offset (Wu et al. 2015). If they
# combine freely, one photograph becomes more than 10¹⁷ images.

# %% [markdown]
# ## 4.3 Batch size
#
# "The larger the mini-batch, the better the GPU is used", until memory runs out (Rigazzi's slides).
# Each operation has a cost that does not depend on $N$: it must be looked up and scheduled, and its
# output allocated. So
#
# $$t(N) \approx t_\text{fixed} + N\,t_\text{image}, \qquad
# \text{memory} \approx 4\,(3 \cdot \text{parameters} + N \cdot \text{stored activations})\ \text{bytes}.$$
#
# The second formula is from lecture 03: weights, gradients and momentum, and the outputs that the
# backward pass needs. We draw the line through $N = 1$ and $N = 256$; the sizes in between are held
# out. **Guess** the throughput with one image, as a percentage of that with 64.

# %%
any_batch = [tf.TensorSpec((None, 28, 28, 1)), tf.TensorSpec((None,), tf.int64)]
any_step = tf.function(train_step, input_signature=any_batch)  # one graph for all
sizes = np.array([1, 4, 16, 64, 256])
some = {n: (tf.constant(x[:n]), tf.constant(y[:n])) for n in sizes}
guess("throughput with one image over that with 64", unit="%")

# %% tags=["measured"]
calls = {n: lambda n=n: any_step(*some[n]) for n in sizes}
times = in_turns(calls, repeats=11).median()
each = (times[256] - times[1]) / 255
fixed = times[1] - each
line = fixed + each * sizes
table = pd.DataFrame({
    "measured, ms": 1e3 * times, "line, ms": 1e3 * line,
    "line / measured": line / times, "images/s": sizes / times})  # fmt: skip
display(table.rename_axis("N").round(2))
number = len(profile(lambda: any_step(*some[1]), PHASES))
print(f"{number} operations, {1e6 * fixed / number:.0f} µs of fixed cost for each")
compare("throughput with one image over that with 64", 100 / 64 * times[64] / times[1])
claim("most of the time of a step with one image is fixed cost", fixed > times[1] / 2)
claim("with 64 images less than a fifth", fixed < times[64] / 5)
claim("within a quarter of the measured times", abs(line / times - 1).max() < 0.25)

# %% [markdown]
# Here, most of the time of a step with one image is fixed cost, with 64 images less than a fifth. The
# batch size at which the fixed cost no longer matters depends on network and device: the more FLOPs an
# image needs, the smaller it is. Beyond it, a larger batch costs memory and gains little or no speed
# (compare the last two rows). (Lecture 08 examines its effect on the error.) The line predicts only the
# sizes in between, so judge it by those. It is within a quarter of the measured times, and too high if
# an image costs more in a batch of 256 than in one of 64, as it does when the tensors of a large batch
# no longer fit in the caches.
#
# Now the memory. The operating system records the peak memory of a process, so a new process, a *job*,
# takes steps with larger and larger batches. **Guess** the measured memory per image, compared with the
# count.


# %%
guess("memory per image, measured over counted", unit="×")

# %% tags=["measured"]
os.environ.setdefault("CLUSTER_RUNS", "../runs")  # the run log, for the job
batches = [256, 512, 1024]
job = submit(profiling.peak_memory, batches, name="04-memory", backend="local")
peaks = job.result(progress=False)
slope, base = np.polyfit(batches, peaks, 1)
image, weights = 4 * profiling.stored_activations(network), 12 * network.count_params()
print(f"MB per image: counted {image / 1e6:.2f}, measured {slope / 1e6:.2f}; ", end="")
print(f"fixed: counted {weights / 1e6:.1f}, measured {base / 1e6:.0f}")
compare("memory per image, measured over counted", slope / image)
claim("the memory per image is larger than the count", slope > image)
fig, ax = plt.subplots(figsize=(6.4, 3.2))
n = np.array([0, 1024])
ax.plot(batches, np.divide(peaks, 1e9), "o", label="largest resident memory")
ax.plot(n, (base + n * slope) / 1e9, "C0-", marker="", label="line through the points")
ax.plot(n, (weights + n * image) / 1e9, "C1--", marker="", label="counted")
ax.set(xlabel="batch size N", ylabel="CPU memory of a process, GB", ylim=0)
ax.legend()
plt.show()

# %% [markdown]
# *(Figure: CPU memory of one process over the batch size. The counted line starts near zero; the measured
# points lie on a steeper line that starts at about half a gigabyte, for Python and TensorFlow.)*
#
# As expected, the memory per image is larger than the count, because gradients of the outputs and
# scratch space exist at the same time, and because each normalisation, which the count takes as one
# operation, stores the outputs of several (4.5). This is CPU memory. A GPU has other allocators and
# kernels; there, measure with `tf.config.experimental.get_memory_info`, and trade memory for FLOPs by
# recomputing activations (*checkpointing* in PyTorch, `tf.recompute_grad`).

# %% [markdown]
# ## 4.4 Graphs
#
# Without `tf.function`, Python calls each operation *eagerly*, one by one. With it, Python runs the
# function **once** on symbols, which is called *tracing*, and records a graph that runs without Python.
# A new shape, type or Python number makes it trace again. **Guess** how often these eight calls trace.

# %%
guess("traces in eight calls")

# %%
traced = []


@tf.function
def scale(images, rate):
    traced.append((images.shape, rate))  # Python: runs while TensorFlow traces
    return images * rate


RATES = [0.1, 0.05, 0.01]
TENSORS = [tf.constant(rate) for rate in RATES]
for n, rates in [(64, RATES), (64, TENSORS), (32, TENSORS[:2])]:
    before = len(traced)
    for rate in rates:
        scale(tf.zeros((n, 28, 28, 1)), rate)
    print(n, "images,", len(rates), "rates:", len(traced) - before, "traces", rates[0])
compare("traces in eight calls", len(traced))
claim("traced again at every change", len(traced) == 3 + 1 + 1)

# %% [markdown]
# With a learning rate that is a Python number, `scale` is traced again at every change, and once more for
# the smaller last batch of an epoch. So pass such numbers as tensors, and drop the last batch or declare
# its size `None`, as 4.3 did.
#
# What does the graph save? **cProfile**, Python's own profiler, counts calls of functions. *XLA* goes
# further: it compiles the graph and fuses operations. **Guess** how many times as fast as the graph it
# is.

# %%
guess("XLA, times as fast as the graph", unit="×")

# %% tags=["measured"]
xla_step = tf.function(train_step, jit_compile=True)
few, rows = some[4], {}
calls = {
    "eager, 4 images": lambda: train_step(*few),
    "graph, 4 images": lambda: any_step(*few),
    "eager": lambda: train_step(*batch), "graph": lambda: step(*batch),
    "XLA": lambda: xla_step(*batch)}  # fmt: skip
ways = profiling.quietly(lambda: in_turns(calls, repeats=5))
for name, call in calls.items():
    with cProfile.Profile() as recorded:
        call()
    rows[name] = sum(entry.callcount for entry in recorded.getstats())
shown = (1e3 * ways).quantile([0, 0.5, 1]).T.round(1)
shown.columns = ["least, ms", "median, ms", "most, ms"]
display(shown.assign(**{"Python calls": pd.Series(rows)}))

# %% tags=["measured"]
few_gain = (ways["eager, 4 images"] / ways["graph, 4 images"]).median()
gain = (ways["graph"] / ways["XLA"]).median()
compare("XLA, times as fast as the graph", gain)
claim("at most a twentieth of the Python calls", rows["eager"] > 20 * rows["graph"])
claim("at least three times as fast", few_gain > 3)
claim("XLA is slower than the graph here", gain < 1)

# %% [markdown]
# Compared with eager execution, the graph makes at most a twentieth of the Python calls; with 4 images,
# where Python is most of the cost, it is at least three times as fast. **XLA is slower than the graph
# here.** The step is the sum of parts that gain and parts that lose (*Further*), so a compiler must be
# tried on each network.

# %% [markdown]
# ## 4.5 Fewer bytes, lower precision
#
# ### Fusion
#
# Could fewer bytes help? Batch normalisation is implemented as a dozen operations, and most of them
# read and write complete tensors. A single fused kernel would read or write a tensor of that size eight
# times. The forward pass reads its input for the statistics, then reads it again and writes the result.
# The backward pass reads input and gradient for two sums, then reads both and writes.

# %%
outputs = [v.output for v in network.layers if v.name.startswith("norm")]
fused = 8 * 4 * N * sum(np.prod(output.shape[1:]) for output in outputs)
written = kinds.loc["norm", "bytes"]
print(f"normalisation: {written / 1e6:.0f} MB in the graph, {fused / 1e6:.0f} MB fused")
claim("less than a third of the bytes", fused < written / 3)

# %% [markdown]
# That is less than a third of the bytes that the graph moves. GPU libraries have such a kernel, and XLA
# generates one (*Further*). Fusion does not raise the peak; it **removes bytes**.
#
# ### Mixed precision
#
# *float16* and *bfloat16* halve the bytes. float16 spends its bits on precision; bfloat16 has the range
# of float32 and keeps 8 bits of precision.

# %%
rows = {}
for kind in (tf.float32, tf.float16, tf.bfloat16):
    weight = tf.constant(1, kind)
    for _ in range(512):
        weight += tf.constant(2**-9, kind)
    values = [1 + 2**-9, 70_000.0, 2.0**-30, weight]
    rows[kind.name] = [float(tf.cast(v, kind)) for v in values]
names = ["1 + 2⁻⁹", "70,000", "2⁻³⁰", "1 plus 512 times 2⁻⁹"]
numbers = pd.DataFrame(rows, index=names).T
display(numbers.map("{:.7g}".format))
claim("all 512 updates are lost", numbers.iloc[2, 3] == 1 and numbers.iloc[0, 3] == 2)

# %% [markdown]
# In bfloat16 all 512 updates are lost, because the next number after 1 is $1 + 2^{-7}$. float16 keeps
# them, but turns 70,000 into infinity and a small gradient into zero. Hence **mixed precision**
# (Micikevicius et al. 2018): 16-bit products, float32 sums and weights, and a scaled loss with float16.
# In Keras it is one line. **Guess** how much faster our step becomes. The CPU of the run shown here has
# instructions for bfloat16 (`avx512_bf16`); a matrix product shows how much they gain.

# %%
keras.config.set_dtype_policy("mixed_bfloat16")
mixed_network = named(small_resnet(seed=0))
keras.config.set_dtype_policy("float32")
mixed_step = tf.function(step_of(mixed_network))
mixed = operations(mixed_step.get_concrete_function(*batch).graph, mixed_network, N)
table = pd.DataFrame({
    "float32, MB": counted.groupby("kind")["bytes"].sum() / 1e6,
    "mixed, MB": mixed.groupby("kind")["bytes"].sum() / 1e6})  # fmt: skip
table.loc["sum"] = table.sum()
display(table.round(1))
fewer = table["float32, MB"] / table["mixed, MB"]
claim("the bytes of the convolutions halve", 1.8 < fewer["conv"] < 2.2)
claim("the bytes of normalisation grow", fewer["norm"] < 1)
claim("the sum stays within 5%", 0.95 < fewer["sum"] < 1.05)
guess("mixed precision, times as fast as float32", unit="×")

# %% tags=["measured"]
square = tf.random.normal((1024, 1024))
short = tf.cast(square, tf.bfloat16)
found = in_turns({
    "float32": lambda: tf.matmul(square, square), "bfloat16": lambda: short @ short,
    "step": lambda: step(*batch), "mixed": lambda: mixed_step(*batch)}, 15)  # fmt: skip
product = (found["float32"] / found["bfloat16"]).median()
low, ratio, high = (found["step"] / found["mixed"]).quantile([0.25, 0.5, 0.75])
most = 100 / (100 - used["products"] + used["products"] / product)
print(f"times as fast: product {product:.2f}, step predicted {most:.2f}, ", end="")
print(f"measured {low:.2f} to {high:.2f} (quartiles)")
compare("mixed precision, times as fast as float32", ratio)
claim("the step gains less than the matrix product", high < product)
claim("less than predicted from the share of the products", ratio < most)

# %% [markdown]
# In mixed precision, the bytes of the convolutions halve, but the bytes of normalisation grow: Keras
# computes it in float32, with casts on both sides. The sum stays within 5%. So the step gains less than
# the matrix product, and even less than predicted from the share of the products. With a fused
# normalisation, the same line of code would gain more.

# %% [markdown]
# ## 4.6 Which lever first?
#
# Now we return to the real step on one core; the input may use all cores. *At the start* is a first,
# simple program: eager, with one stage after the other. *At the end* it has all four levers: graph,
# parallel map, prefetch and cache. How much does each lever gain? We compute it with the formulas of
# 4.2 from measured seconds ($w$, $d$ and $a$ of 4.2, the eager step and the graph of 4.4), once by
# adding only this lever at the start, and once by removing only this lever at the end. **Guess** the
# gain of the graph at the end.

# %%
guess("the graph, gain at the end", unit="×")
LEVERS = ["graph", "parallel map", "prefetch", "cache"]


def seconds(levers):
    """Seconds per image with some of the levers."""
    step = ways["graph" if "graph" in levers else "eager"].median() / N
    wait, work = (0, a) if "cache" in levers else (w, d + a)
    given = max(wait / k, work / p) if "parallel map" in levers else wait + work
    return max(given, step, (work + step) / p) if "prefetch" in levers else given + step


# %% tags=["measured"]
first, last = seconds([]), seconds(LEVERS)
missing = [seconds([v for v in LEVERS if v != lever]) for lever in LEVERS]
gains = pd.DataFrame({
    "gain at the start": [first / seconds([lever]) for lever in LEVERS],
    "gain at the end": np.divide(missing, last)}, LEVERS)  # fmt: skip
print(f"start {1e3 * first:.2f}, end {1e3 * last:.2f} ms per image; MFU ", end="")
print("{:.1f}% and {:.1f}%".format(*100 * FLOPS / N / PEAK / np.array([first, last])))
compare("the graph, gain at the end", gains.loc["graph", "gain at the end"])
more = gains["gain at the end"] > gains["gain at the start"]
claim("the graph gains more at the end than at the start", more["graph"])
claim("parallel map and cache gain more at the start", not more.iloc[[1, 3]].any())
claim("more than half of the time at the start is waiting for files", w > first / 2)
ax = gains[::-1].plot.barh(figsize=(7.5, 3.2), xlabel="times as fast", legend="reverse")
for bars in ax.containers:
    ax.bar_label(bars, fmt="%.2f", padding=3)
plt.show()

# %% [markdown]
# *(Figure: for each of the four levers two bars, its gain at the start and at the end. For the graph,
# the bar at the end is longer; for parallel map and cache, the one at the start.)*
#
# **A gain belongs to a lever and to what was slow before it.** The graph gains more at the end than at
# the start, where the program waits for its files in any case. Parallel map and cache gain more at the
# start: each of them removes most of the waiting, and the second of them finds little left. More than
# half of the time at the start is waiting for files. So look at the timeline first: it shows whether the
# device waits for its data or is slow itself. (The gains are computed; 4.2 shows how far such predictions
# are off.)
#
# This answers the question of the lecture. The products at the peak take about half of a step. The rest
# goes mostly to normalisation, and in smaller parts to other layers, to products below the peak and to
# the time between operations (4.1). In the program at the start, most of the time went to the disk.
#
# The levers of Uenishi's slides (2019), and what became of them:
#
# | lever | here | today |
# |---|---|---|
# | decode and feed: OpenCV, DALI | 4.2 | DALI runs on CPUs, too (`device_id=None`) |
# | kernel fusion | 4.5 | `torch.compile`, XLA, fused kernels in cuDNN |
# | compilers: chainer-compiler | XLA, 4.4 | Chainer has ended; `torch.compile`, XLA |
# | less Python: ChainerX, CuPy | graph, 4.4 | `jax.jit`, CUDA graphs |
# | Tensor Cores | bfloat16, 4.5; *Further* | TF32, bfloat16 and FP8 |
# | profilers: cProfile, nvprof | 4.1, 4.4 | Nsight Systems (timeline), Nsight Compute (one kernel) |
#
# nvprof profiles GPUs and samples CPUs, but not on devices of compute capability 8.0 (A100) and higher.
# It was not used here.

# %% [markdown]
# ## What was learned
#
# 1. A profiler and counted bytes show where a step's time goes. MFU summarises it in one number. Layers
#    with few FLOPs take time to move their bytes.
# 2. A pipeline's time follows from its stages: sums if they wait for each other, maxima if they
#    overlap. Start-up and late sleeps add to it.
# 3. Wrong orders run without an error; counting images and calls reveals them.
# 4. The images of a batch share its fixed cost. A step takes more memory than lecture 03 counts.
# 5. Graphs save Python calls, and fusion saves bytes. Mixed precision saves bytes and time in the
#    layers that use it; sums and weights stay in float32.
# 6. The slowest remaining stage limits what a lever gains.
#
# **Today.** Llama 3's training reports an MFU of 38% to 43% in bfloat16 (2024). In PyTorch, the
# `DataLoader`'s `num_workers` and `prefetch_factor` are our $k$ and prefetch, and `torch.profiler`
# draws the timeline. With a GPU two things are added (*CUDA semantics*). A batch must be copied to the
# device, and this overlaps with the step only from pinned memory and without blocking (`pin_memory`,
# `non_blocking=True`). And calls return before the GPU is done, so synchronise before you read the
# clock. The method carries over: predict from the stages, count bytes, then measure.
#
# **Open questions.** (a) What should the cache keep if the decoded images do not fit? (b) Which of
# these gains remain if two ranks run on two cores? (c) *Hardware.* Which of our layers would notice a
# device with eight times the FLOP/s and the same memory?
#
# **Next.** Assignment 04, *Feed the device*. Then **[05, why distribute](05_why_distribute.ipynb)** asks
# what a second device can give at most. Before: **[01](01_convolution_as_gemm.ipynb)** (peak, bandwidth,
# roofline) and **[03](03_from_lenet_to_resnet.ipynb)** (the network and its counts).

# %% [markdown]
# ## Further
#
# Nothing later in the course requires this section.
#
# ### Exercises
#
# 1. An image waits 8 ms for the disk and takes 2 ms on a core to decode. The step takes 3 ms per image
#    on an accelerator. There are 4 cores and 16 calls at once. How many images per second with and
#    without prefetch? What does a cache gain then?
#
# <details><summary>Answer</summary>
#
# Input: max(8/16, 2/4) = 0.5 ms. Without prefetch 0.5 + 3 = 3.5 ms or 286 images per second; with
# prefetch max(0.5, 3) = 3 ms or 333 images per second. The step is the longest stage, so a cache gains
# nothing.
#
# </details>
#
# 2. Products take 55% of a step, and mixed precision doubles their speed. How much faster is the step at
#    most? What if normalisation, 25%, becomes a fifth slower?
#
# <details><summary>Answer</summary>
#
# 1/(0.45 + 0.275) = 1.38 times. With normalisation 1/(0.45 + 0.05 + 0.275) = 1.29 times.
#
# </details>
#
# 3. A step has 700 operations with a fixed cost of 10 µs each and takes 0.5 ms per image. At which batch
#    size is a tenth of the time fixed cost?
#
# <details><summary>Answer</summary>
#
# 7 ms are a tenth of 70 ms, so 63 ms are left for images: $N = 126$.
#
# </details>

# %% [markdown]
# ### What XLA gains and loses
#
# We time a convolution and a normalisation of our network separately, with their gradients:


# %% tags=["measured"]
def gradients_of(layer):
    """A function of v: the gradients of Σ layer(v)² by v and by the layer's weights."""

    def run(v):
        with tf.GradientTape() as tape:
            tape.watch(v)
            loss = tf.reduce_sum(layer(v, training=True) ** 2)
        weights = [weight.value for weight in layer.trainable_variables]
        return tape.gradient(loss, [v, *weights])

    return run


gains = {}
for name in ("conv3", "norm3"):
    layer = network.get_layer(name)
    run, v = gradients_of(layer), tf.random.normal((N, *layer.input.shape[1:]))
    two = {way: tf.function(run, jit_compile=way == "XLA") for way in ("graph", "XLA")}
    calls = {way: lambda f=f, v=v: f(v) for way, f in two.items()}
    found = profiling.quietly(lambda calls=calls: in_turns(calls, 15))
    gains[name] = (found["graph"] / found["XLA"]).quantile([0.25, 0.5, 0.75]).tolist()
    low, middle, high = gains[name]
    print(f"{name}: {middle:.2f} times as fast, quartiles {low:.2f} and {high:.2f}")
claim("the convolution loses", gains["conv3"][2] < 1)
claim("the normalisation gains", gains["norm3"][0] > 1)

# %% [markdown]
# With XLA the convolution loses: on a CPU XLA has its own kernels, while the graph calls oneDNN's. (On
# a GPU both call cuDNN.) The normalisation gains, because XLA fuses its operations into a few loops.
# The step is the sum of both, so whether a compiler helps must be measured for each network.
#
# ### Tensor Cores, by roofline
#
# A V100's 640 Tensor Cores do 4×4×4 multiply-adds per cycle at 1.53 GHz, its 5,120 ordinary cores one
# each. Both share a memory bandwidth of 900 GB/s (NVIDIA 2017). How much would a peak eight times as
# high speed up our step, if each normalisation, ReLU and addition were one loop? This is a calculation;
# no V100 was used.

# %%
PASSES = {"norm": 8, "relu": 5, "add": 3}  # forward and backward, each layer one loop
outputs = {v.name: 4 * N * np.prod(v.output.shape[1:]) for v in network.layers[1:]}
others = sum(PASSES.get(name.rstrip("0123456789"), 0) * size for name, size in outputs.items())
seconds = {}
for name, peak, width in (("float32", 5120 * 2 * 1.53e9, 1), ("float16", 640 * 4**3 * 2 * 1.53e9, 0.5)):
    rows = counted.query("kind in ('conv', 'dense')")
    bound = np.maximum(rows["flops"] / peak, width * rows["bytes"] / 900e9)
    seconds[name] = bound.sum() + width * others / 900e9
    print(f"{name}: {peak / 1e12:.0f} TFLOP/s, ridge {peak / 900e9:.0f} FLOP per byte, ", end="")
    print(f"{1e6 * seconds[name]:.0f} µs per step")
gain = seconds["float32"] / seconds["float16"]
claim("less than three times as fast", 2 < gain < 3)

# %% [markdown]
# Eight times the peak makes the step less than three times as fast. The ridge moves with the peak, so
# most of our layers become limited by bandwidth, and then only halving the bytes helps.
#
# ### Transfer learning, at one learning rate
#
# According to Codreanu (2018), *fine-tuning*, which continues training a network on another task,
# converges faster and ends with a better accuracy. But his table has no row without fine-tuning. In a
# recorded run (`runs/04_transfer.py`), LeNet-5 learns five classes of Fashion-MNIST and then the other
# five: from scratch, fine-tuned, or with only its last layer trained. All have the same images, batches
# and learning rate. The table shows the median test error of five seeds, in %, after 20 and after 400
# updates:

# %%
import json
import pathlib

record = json.loads(pathlib.Path("runs/04_transfer.json").read_text())
checks = record["checks"]
rows = [{"seed": job["seed"], **row} for job in record["jobs"] for row in job["rows"]]
runs = pd.DataFrame([row | dict(zip(checks, row["errors"], strict=True)) for row in rows])
display(runs.groupby(["images", "method"])[[checks[0], checks[-1]]].median().unstack().round(1))
found = runs.pivot(index=["images", "seed"], columns="method", values=checks[0])
ahead = found["fine-tuned"] < found["scratch"]
claim("in all 30 pairs", len(ahead) == 30 and ahead.all())
stuck = runs.loc[runs[checks[-1]] > 70, "method"].tolist()  # guessing has an error of 80%
claim("three runs from scratch learn nothing", stuck == 3 * ["scratch"])

# %% [markdown]
# After 20 updates the fine-tuned network is ahead in all 30 pairs. The record says little about the
# final error. The learning rate was not tuned for each method; at the one used, three runs from scratch
# learn nothing and would dominate a mean difference. To find out whether fine-tuning ends with a lower
# error, one must tune the learning rate of each method and train longer.
#
# ### Terms
#
# **Eager**: each operation is called by Python. **Fusion**: several operations in one pass over memory.
# **Graph**: the operations of a function, recorded once. **MFU**: FLOP/s of the model's products over the
# peak. **Mixed precision**: 16-bit products, float32 sums and weights. **Prefetch**: preparing the next
# batches during the step. **Shard**: one of several files that together hold a data set. **TFRecord**:
# TensorFlow's file of many records. **Trace**: running a function once on symbols to record its graph.
#
# ### Sources
#
# - Uenishi 2019, *A few ways to accelerate deep learning* (slides, in Japanese): the levers, 4.6
# - Rigazzi, *HPC and AI convergence* (slides, Cray): batch and memory, 4.3
# - Codreanu 2018, *Introduction to high-performance machine learning* (slides, SURFsara and PRACE):
#   fine-tuning, *Further*
# - Wu et al. 2015, *Deep Image: scaling up image recognition*, [arXiv
#   1501.02876](https://arxiv.org/abs/1501.02876): numbers of augmentations, as quoted in Ikuro Sato's
#   slides of 2017, 4.2
# - Chowdhery et al. 2022, *PaLM*, [arXiv 2204.02311](https://arxiv.org/abs/2204.02311), appendix B: the
#   definition of MFU, 4.1 (as quoted in secondary texts)
# - Llama team 2024, [The Llama 3 herd of models](https://arxiv.org/abs/2407.21783), table 4: MFU, *Today*
#   (as quoted in secondary texts)
# - Micikevicius et al. 2018, *Mixed precision training*, [arXiv
#   1710.03740](https://arxiv.org/abs/1710.03740): 4.5
# - Williams, Waterman and Patterson 2009, *Roofline*, Communications of the ACM 52 (4): 4.1
# - TensorFlow,
#   [tf.data.experimental.AutotuneOptions](https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutotuneOptions):
#   AUTOTUNE's budgets, 4.2
# - NVIDIA 2017, [Programming Tensor Cores in CUDA
#   9](https://developer.nvidia.com/programming-tensor-cores-cuda-9-0): the V100, *Further*; nvprof's
#   own message on devices of compute capability 8.0 and higher: 4.6 · PyTorch, [CUDA
#   semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html): asynchronous execution and pinned
#   memory, *Today*
