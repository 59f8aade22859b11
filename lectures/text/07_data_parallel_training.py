# %% [markdown]
# # 7 · Data-parallel training
#
# **When are p programs one training run?**
#
# A course on supercomputers published the logs of its exercise (SURF 2020). One script trained one network
# for 10 epochs on one GPU (accuracy 0.740) and on two (0.777), and twice for 2 epochs on four GPUs (0.487,
# and 0.1000, with ten classes). No run crashed. Which of the four numbers would you trust?
#
# Data-parallel training adds a few lines, and each can be wrong while the network *still learns*. In this
# lecture you will
#
# 1. turn a training run on one device into a run on $p$ ranks, and **break** each added line;
# 2. learn **two tests** that find nearly all of these mistakes;
# 3. divide the **data** among the ranks, and compute a **metric** over all;
# 4. read a **complete script** in Horovod, PyTorch DDP and `tf.distribute`;
# 5. see **fusion** on a timeline, and the limits of weak and strong scaling;
# 6. synchronise **batch normalisation**, and find out **where a job hangs**.
#
# Notation: $p$ ranks; $n$, the batch size per rank, so $pn$ is the global batch size; learning rate $\eta$;
# weights $w$.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin()

# %%
import inspect
import os
import pathlib
import re
import runpy
import time

os.environ["CLUSTER_RUNS"] = os.environ.get("CLUSTER_RUNS", "../runs")  # jobs, here

# %%
import horovod.tensorflow as hvd
import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import Markdown, display
from keras import layers

from cluster import submit
from cluster.training.data import CLASSES, fashion_mnist

# %% [markdown]
# ## 7.1 A network that fits on a sheet of paper
#
# With a network of only two weights, the paths of $p$ ranks can be drawn. Our network distinguishes a
# sandal from a pullover by one number $x$, the standardised mean grey level of the image. It has one hidden
# neuron, with a weight $a$ before it and a weight $b$ after it. The target is $-1$ for a sandal, $+1$ for a
# pullover:
#
# $$\hat y = b \tanh(a x), \qquad L(a, b) = \frac{1}{2N}\sum_i (\hat y_i - y_i)^2.$$

# %%
images, labels = fashion_mnist("train", 4000)
SANDAL, PULLOVER = CLASSES.index("Sandal"), CLASSES.index("Pullover")
chosen = np.flatnonzero(np.isin(labels, [SANDAL, PULLOVER]))[:256]
ink = images[chosen].mean((1, 2, 3)).astype(float)  # (256,)
x = (ink - ink.mean()) / ink.std()
y = np.where(labels[chosen] == PULLOVER, 1.0, -1.0)


def gradient(w, x, y):
    """Of the mean loss over n images: w (2,), x and y (n,) -> (2,)"""
    a, b = w
    h = np.tanh(a * x)  # (n,)
    error = b * h - y
    return np.array([np.mean(error * b * (1 - h**2) * x), np.mean(error * h)])


def loss(a, b):
    """The loss over all images; a and b of any shape."""
    return 0.5 * np.mean((b[..., None] * np.tanh(a[..., None] * x) - y) ** 2, axis=-1)


# %% [markdown]
# Changing both signs changes nothing, so the surface has two valleys. We train on *one* device, from a
# start near the ridge between them, on the same images in the same order. **Predict:** do batches of 2 and
# batches of 4 lead to the same valley?

# %%
STARTS = [(0.98, -1.2), (-0.5, -0.2)]  # the start of rank 0, and what rank 1 would draw
EPOCHS, RATE, BATCH = 2, 0.6, 2  # BATCH is n, the images of one rank and step


def one_device(x, y, batch, seed=0):
    """SGD on one device: the path of the weights, (steps + 1, 2)."""
    w = np.array(STARTS[0])
    path = [w]
    for epoch in range(EPOCHS):
        order = np.random.default_rng([seed, epoch]).permutation(len(x))
        for images in order.reshape(-1, batch):  # (steps, n)
            g = gradient(w, x[images], y[images])
            w = w - RATE * g
            path.append(w)
    return np.array(path)


# %%
A, B = np.meshgrid(np.linspace(-2.6, 2.6, 105), np.linspace(-2.4, 2.4, 97))
SURFACE = loss(A, B)
LEVELS = np.geomspace(SURFACE.min() + 0.005, 4, 14)
LOWEST = np.array([A.flat[SURFACE.argmin()], B.flat[SURFACE.argmin()]])


def draw(ax, paths, title):
    """The surface, dark where it is high, and on it the path of each rank."""
    look = {"cmap": "Greys", "norm": "log", "alpha": 0.45, "extend": "both"}
    ax.contourf(A, B, SURFACE, LEVELS, **look)
    ax.plot(*np.transpose([LOWEST, -LOWEST]), "k+", ms=11, mew=1.5, label="minimum")
    for rank, path in enumerate(paths):
        look = {"color": palette[rank], "ls": ["-", "--"][rank], "marker": ""}
        ax.plot(*path.T, lw=[2.4, 1.4][rank], label=f"rank {rank}", **look)
        start, end = (f"{word} of rank {rank}" for word in ("start", "end"))
        ax.plot(*path[0], "o", color="white", mec=palette[rank], ms=7, label=start)
        ax.plot(*path[-1], "oX"[rank], color=palette[rank], mec="k", ms=8, label=end)
    ax.set(xlim=(-2.6, 2.6), ylim=(-2.4, 2.4), aspect="equal", xlabel="a")
    ax.set_title(title, fontsize=10)
    ax.grid(False)


# %%
fig, axes = plt.subplots(1, 2, figsize=(8.6, 4.1), sharey=True)
paths = {batch: one_device(x, y, batch) for batch in (BATCH, 2 * BATCH)}
for ax, (batch, path) in zip(axes, paths.items(), strict=True):
    draw(ax, [path], f"one device, batches of {batch}")
axes[0].set_ylabel("b")
plt.show()
two, four = (path[-1] for path in paths.values())
claim("They end in different valleys", two[0] * four[0] < 0)

# %% [markdown]
# *(Figure: the loss over a and b in shades of grey. Crosses at the upper right and the lower left mark the
# minima of two valleys. A path leads from an open circle at the lower right to a filled one: with batches
# of 2 in the lower left valley, with batches of 4 in the upper right.)*
#
# They end in different valleys, although both runs are correct.
#
# ## 7.2 From one device to p ranks
#
# The plan: $p$ processes, the *ranks*, each hold a copy of the network. In each step, rank $r$ computes the
# gradient of its own $n$ images, an **all-reduce** (lecture 06) gives every rank the mean of all gradients,
# and every rank takes the same step. A mean over $pn$ images is the mean of $p$ means over $n$,
#
# $$\frac{1}{pn}\sum_{r=1}^{p}\sum_{i=1}^{n}\nabla\ell_{r,i} \;=\;
# \frac{1}{p}\sum_{r=1}^{p}\Bigl(\frac1n\sum_{i=1}^{n}\nabla\ell_{r,i}\Bigr),$$
#
# so $p$ ranks with batches of $n$ are equivalent to **one process with batches of $pn$**, if everything
# else is right.
#
# ![One shuffle of twelve images, cut into three steps of four, each step into two halves, one for each rank.
# In the last step each rank computes a gradient of its half; an all-reduce gives both the same
# mean.](figures/07_ranks.svg)
#
# In the program, `# +` marks what distribution adds:


# %%
def p_ranks(x, y, seed=0):
    """SGD on all ranks: the path of this rank's weights, (steps + 1, 2)."""
    rank, p, n = hvd.rank(), hvd.size(), BATCH  # +
    w = np.array(STARTS[rank])  # each rank draws a start of its own
    w = hvd.broadcast(w, root_rank=0).numpy()  # + and replaces it by that of rank 0
    path = [w]
    for epoch in range(EPOCHS):
        order = np.random.default_rng([seed, epoch]).permutation(len(x))
        steps = order.reshape(-1, p, n)  # + the global batches, a row per rank
        for images in steps[:, rank]:  # + of which this rank takes its own n
            g = gradient(w, x[images], y[images])
            g = hvd.allreduce(g, op=hvd.Average).numpy()  # + the mean over the ranks
            w = w - RATE * g
            path.append(w)
    return np.array(path)


# %% [markdown]
# In each wrong version one line is replaced. `submit` (lecture 05) runs all of them in one job of two
# ranks.

# %%
BROKEN = {
    "right": ("path = [w]", "path = [w]"),
    "no broadcast": ("w = hvd.broadcast(w, root_rank=0).numpy()", "pass"),
    "no averaging": ("g = hvd.allreduce(g, op=hvd.Average).numpy()", "pass"),
    "sum for mean": ("op=hvd.Average", "op=hvd.Sum"),
    "the same images": ("steps[:, rank]", "steps[:, 0]"),
    "a shuffle each": ("rng([seed, epoch])", "rng([seed, epoch, rank])"),
}


def run_all(source, changes, settings, x, y):
    """Run the program once per change of one of its lines: {name: this rank's path}."""
    hvd.init()
    paths = {}
    for name, (line, instead) in changes.items():
        names = settings | {"np": np, "hvd": hvd, "gradient": gradient}
        exec(source.replace(line, instead), names)
        paths[name] = names["p_ranks"](x, y)
    return paths


# %% [markdown]
# **Guess** after how many of the five mistakes the ranks have *different* weights, and how many still
# reproduce one process with batches of $pn$.

# %%
guess("mistakes after which the ranks differ")
guess("mistakes that are still the run of one process")
settings = {"STARTS": STARTS, "EPOCHS": EPOCHS, "RATE": RATE, "BATCH": BATCH}
source = inspect.getsource(p_ranks)
job = submit(run_all, source, BROKEN, settings, x, y, ranks_per_node=2)
first, second = job.results(progress=False)

# %%
fig, axes = plt.subplots(2, 3, figsize=(9.6, 6.4), sharex=True, sharey=True)
for ax, name in zip(axes.flat, BROKEN, strict=True):
    draw(ax, [first[name], second[name]], name)
fig.supylabel("b")
named = axes[0, 0].get_legend_handles_labels()
fig.legend(*named, loc="outside lower center", ncols=4, fontsize=8)
plt.show()

# %% [markdown]
# *(Figure: two valleys and a path per rank for each version. Right: the paths coincide and end in the upper
# right valley. No broadcast: they keep a constant distance. No averaging: they end in opposite valleys. Sum
# for mean: they coincide, with wide zigzags. The same images, and a shuffle each: they coincide and end in
# the lower left valley.)*
#
# - **No broadcast.** Both ranks take the same step from different starts: their distance never changes.
# - **No averaging.** The ranks are two independent training runs.
# - **Sum for mean.** The learning rate is $p\eta$.
# - **The same images.** Two ranks do the work of one, and half of the images are never used.
# - **A shuffle each.** Every line of the program looks right (7.3).
#
# The paths of real networks cannot be drawn, but two distances can be measured: between the ranks, and from
# rank 0 to one process.

# %% tags=["measured"]
reference = one_device(x, y, 2 * BATCH)
table = pd.DataFrame(index=list(BROKEN))
apart = {name: np.abs(first[name] - second[name]).max() for name in BROKEN}
table["between the ranks"] = pd.Series(apart)
away = {name: np.abs(first[name] - reference).max() for name in BROKEN}
table["from one process"] = pd.Series(away)
ends = np.transpose([first[name][-1] for name in BROKEN])
table["last loss of rank 0"] = loss(*ends)
display(table.style.format("{:.2g}"))
wrong = table.drop(index="right")
differ, same = wrong["between the ranks"] > 0, wrong["from one process"] < 1e-9
compare("mistakes after which the ranks differ", differ.sum())
compare("mistakes that are still the run of one process", same.sum())
claim("it finds two of the five", differ.sum() == 2)
claim("finds all five", not same.any())
claim("the last losses of all six lie within 0.05", np.ptp(table.iloc[:, 2]) < 0.05)

# %% [markdown]
# The first test is cheap: every few hundred steps, compare the weights of all ranks, or a *digest* of them
# (a hash of their bytes). It detects only differences between ranks: it finds two of the five. The second
# test, **p ranks must follow the trajectory of one process on the same global batches**, finds all five
# (assignment 07 makes a tool of it). Neither finds mistakes that both versions share, such as a wrong loss,
# nor mistakes in a metric, a checkpoint (7.4), or statistics without a gradient (7.7). The loss hardly
# helps: the last losses of all six lie within 0.05.
#
# The right version differs from one process by rounding, so the second test needs a *tolerance*. The first
# test needs none: the ring and halving-doubling of lecture 06 complete each chunk on one rank and copy it
# to the others, so all ranks hold the same bits. If each rank added in a different order, the bits could
# differ; [MPI](https://netlib.org/mpi/mpi-report-1.1/node82.html) requires identical results.
#
# ## 7.3 Which images does the machine see?
#
# "The same images" and "a shuffle each" are mistakes in the *shards*, the ranks' parts of the data.
# Disjoint shards need one shuffle, drawn from the same seed on all ranks. **Guess:** if each of $p$ ranks
# draws its own shuffle and takes the $r$-th of $p$ parts of it, what fraction of the images is never seen
# in an epoch?

# %%
guess("images never seen, p = 2", unit="%")
guess("images never seen, p = 256", unit="%")


def never_seen(p, N=12_800, own_seed=True):
    """Fraction of N images that no rank sees in one epoch."""
    seeds = [[7, rank * own_seed] for rank in range(p)]
    shuffles = [np.random.default_rng(seed).permutation(N) for seed in seeds]
    size = N // p
    seen = [order[r * size : (r + 1) * size] for r, order in enumerate(shuffles)]
    return 1 - len(np.unique(seen)) / N


for p in (2, 256):
    compare(f"images never seen, p = {p}", 100 * never_seen(p))
claim("With one seed nothing is missed", never_seen(256, own_seed=False) == 0)

# %% [markdown]
# An image is missed with probability $(1 - 1/p)^p$, which approaches $1/e$. With one seed nothing is missed.
#
# Real data sets are *files* with many *records* each. Which of these three `tf.data` pipelines, built on
# every rank, would you choose?


# %%
FILES, RECORDS = 16, 64  # per epoch 1,024 records


def pipeline(name, p, r, epoch, read):
    """The records of rank r in an epoch; `read` collects what it opens and decodes."""

    def load(file):
        def decode(record):
            read.append(int(record))
            return record

        records = tf.data.Dataset.range(file * RECORDS, (file + 1) * RECORDS)
        return records.map(lambda n: tf.numpy_function(decode, [n], tf.int64))

    files = tf.data.Dataset.range(FILES)
    if name == "files, shard, records":
        files = files.shuffle(FILES, seed=7 + epoch).shard(p, r)
        return files.interleave(load, cycle_length=4).shuffle(4 * RECORDS)
    seed = 7 + epoch if "seed" in name else None
    return files.flat_map(load).shuffle(FILES * RECORDS, seed=seed).shard(p, r)


# %% tags=["measured"]
rows, ranks = {}, range(2)
for name in ("records, shard", "records with a seed, shard", "files, shard, records"):
    read = [[] for _ in ranks]
    epochs = ([pipeline(name, 2, r, epoch, read[r]) for r in ranks] for epoch in (0, 1))
    seen = [[set(part.as_numpy_iterator()) for part in parts] for parts in epochs]
    rows[name] = {
        "on both ranks": len(seen[0][0] & seen[0][1]),
        "on none": FILES * RECORDS - len(seen[0][0] | seen[0][1]),
        "rank 0 decodes": len(read[0]) // 2,
        "new for rank 0 in epoch 1": len(seen[1][0] - seen[0][0]),
    }
display(pd.DataFrame(rows).T)
unseeded, seeded, files = rows.values()
claim("Without a seed, records are missed", unseeded["on none"] > 0)
claim("With a seed none is missed", seeded["on none"] == files["on none"] == 0)
work = files["rank 0 decodes"] / seeded["rank 0 decodes"]
claim("decodes only half of the records", work == 0.5)

# %% [markdown]
# In the first pipeline, without a seed, records are missed. With a seed none is missed, but every rank
# reads and decodes all records and discards most, as TensorFlow's `AutoShardPolicy.DATA` does: with 256
# ranks, 256 times the work. The third pipeline **shuffles the files** with a seed that all ranks share and
# that changes with the epoch, then **shards the files**, then **shuffles the records** of several open
# files on each rank: each rank decodes only half of the records. WebDataset does the same with tar files;
# `AutoShardPolicy.FILE` shards files. A batch contains only records from the files of its rank, so use many
# more files than ranks, all of equal length.
#
# **Equal steps.** All ranks must call the same collectives equally often. If rank 0 of two gets an extra
# image, it waits forever in its last step (7.9). So give all ranks $\lfloor N/p \rfloor$ images, and leave
# out different ones in each epoch. (`hvd.join()` lets ranks end early, but we found that they then
# contribute zeros, and the mean still divides by $p$.)
#
# ## 7.4 What the ranks report, and who writes it down
#
# The mean of the ranks' means is the mean over all images only if all parts are equally large. Let rank 0
# have 12 images and rank 1 only 4, as may happen in the last batch. **Guess** also, for tests with 16
# images each, how many times as large the standard deviation of the accuracy is if only a quarter of them
# is tested.

# %%
guess("standard deviation of a quarter", unit="×")
w, parts = np.array(STARTS[0]), [np.arange(12), np.arange(12, 16)]
a, b = reference[-1]  # after training
hits = np.sign(b * np.tanh(a * x)) == y
own = [gradient(w, x[part], y[part]) for part in parts]
means = {
    "all 16 images": (gradient(w, x[:16], y[:16]), hits[:16].mean()),
    "sums / 16": ((12 * own[0] + 4 * own[1]) / 16, hits[:16].sum() / 16),
    "mean of means": (np.mean(own, axis=0), np.mean([hits[p].mean() for p in parts])),
    "rank 0 alone": (own[0], hits[parts[0]].mean()),
}
rows = {name: [*g, accuracy] for name, (g, accuracy) in means.items()}
display(pd.DataFrame(rows, index=["∂L/∂a", "∂L/∂b", "accuracy"]).T.round(3))
tests = np.random.default_rng(7).choice(hits, (1000, 16))
deviations = [part.mean(1).std() for part in (tests[:, :4], tests)]
compare("standard deviation of a quarter", deviations[0] / deviations[1])
claim("Rank 0 alone would have reported a perfect network", hits[parts[0]].all())

# %% [markdown]
# Each image must have the weight $1/pn$, whichever rank it is on. Gradients need equal shards or a weighted
# mean. For a metric, add up *counts*, and divide at the end. Rank 0 alone would have reported a perfect
# network, and the accuracy on a $p$-th of the images has $\sqrt p$ times the standard deviation. If a loss
# is divided by the number of objects in a batch, or of words in a sentence, each rank divides by a
# different number.
#
# **One rank writes.** After a step all ranks hold the same weights, so rank 0 alone writes the checkpoint
# (*Further* shows what happens otherwise). It writes a new file and then renames it, so that a job killed
# while writing leaves the old checkpoint complete. If only rank 0 *reads* it after a restart, without a
# broadcast, the first mistake of 7.2 is back. A checkpoint includes the optimiser's momentum and the
# position in the schedule.
#
# ## 7.5 A complete script
#
# In this script, which uses Keras' `fit`, find the choice of a GPU, the broadcast, the shards, the mean
# gradient, the learning rate with its warmup (lecture 08), the metric and the checkpoint.

# %%
script = pathlib.Path("scripts/07_horovod.py")
display(Markdown(f"```python\n{script.read_text()}```"))

# %% [markdown]
# `horovodrun -np 2 python 07_horovod.py` starts it anywhere, and `submit` runs it as a job:

# %% tags=["measured"]
script_job = submit(script, ranks_per_node=2).wait(progress=False)
log = script_job.logs(0)
print(script_job.status, log, sep="\n")
accuracies = [float(share) for share in re.findall(r"accuracy ([\d.]+)", log)]
claim("It learns on two ranks", max(accuracies) > 0.7)
claim("rank 1 prints nothing", not script_job.logs(1).strip())
claim("one checkpoint remains", len([*script_job.folder.glob("*.npz")]) == 1)

# %% [markdown]
# It learns on two ranks, rank 1 prints nothing, and one checkpoint remains. Four details:
#
# - **Compression** sends gradients as float16. The ranks stay equal, but the second test of 7.2 needs a
#   wider tolerance.
# - **Keras 3.** Horovod 0.28.1 was written for Keras 2. We tried what its documentation shows: in `fit`,
#   `hvd.DistributedOptimizer` raises no error and averages *nothing*, while its broadcast callback and
#   `hvd.SyncBatchNormalization` raise errors. The script therefore uses the tape, and its own callback.
# - **Keras' `synchronized=True`** synchronises the replicas of `tf.distribute`. Under Horovod each process
#   is one replica, so the option silently has no effect, as we found (7.7 has a layer that works).
# - **Resuming** repeats the first epoch's shuffle; computing the seed from the epoch (7.3) avoids this.
#
# The same program in **PyTorch** (not run here) and with **`tf.distribute`** (run on two parts of one CPU)
# follows:

# %%
for name in ("07_ddp.py", "07_tf_distribute.py"):
    text = pathlib.Path("scripts", name).read_text()
    display(Markdown(f"```python\n{text}```"))

# %% [markdown]
# | | Horovod | PyTorch DDP | `tf.distribute` |
# |---|---|---|---|
# | starts | `horovodrun` | `torchrun` | one process per node |
# | equal start | `broadcast_variables` | in the constructor | mirrored variables |
# | mean gradient | tape | hooks, in `backward()` | in `fit` |
# | batch given | $n$ | $n$ | $pn$ |
# | shards | by you | `DistributedSampler` | automatic |
# | accumulation | `backward_passes_per_step` | `no_sync()` | Keras' optimiser |
# | unequal steps | `join()` | `Join` | one iterator |
#
# ## 7.6 What does the second rank bring?
#
# Our network is now a detector that finds shoes in scenes of 64×64 pixels (`runs/07_detector.py`; see
# *Further*). Its 14 gradients could be averaged in 14 separate all-reduces; the tape requests all of them
# at once. We try both ways on two ranks, while Horovod records its *timeline*. **Guess** how many messages
# each way sends per step.

# %%
DETECTOR = str(pathlib.Path("runs/07_detector.py").resolve())
program = runpy.run_path(DETECTOR)
scenes, targets = program["scenes"]("test", 200, seed=7)


def two_ways(path, scenes, targets, steps=12):
    """For each way this rank's fastest step: start, end (Unix seconds), gradients."""
    hvd.init()
    program, taken = runpy.run_path(path), {"one by one": [], "tape": []}
    net = program["detector"](layers.BatchNormalization)
    values = [v.value for v in net.trainable_variables]

    @tf.function
    def gradients(way):
        with tf.GradientTape() as tape:
            loss = program["detection_loss"](targets, net(scenes, training=True))
        tape = hvd.DistributedGradientTape(tape) if way == "tape" else tape
        return tape.gradient(loss, values)

    for way in [way for way in taken for _ in range(steps)]:  # the first step compiles
        start, g = time.time(), gradients(way)
        means = g if way == "tape" else [hvd.allreduce(one) for one in g]
        taken[way].append((start, time.time(), [mean.numpy() for mean in means]))
    return {way: min(taken[way], key=lambda step: step[1] - step[0]) for way in taken}


# %% tags=["measured"]
guess("messages of a step, one by one")
guess("messages of a step, tape")
few = scenes[:16], targets[:16]
job = submit(two_ways, DETECTOR, *few, ranks_per_node=2, timeline=True)
ways, exchanges = job.results(progress=False)[0], job.timeline().exchanges
fig, axes = plt.subplots(2, 1, figsize=(8.6, 3.6), sharex=True, layout="constrained")
sent = {}
for ax, (way, (start, end, means)) in zip(axes, ways.items(), strict=True):
    messages = [e for e in exchanges if start <= e.start < end]
    for i, e in enumerate(messages):
        asked, ready, done = (1e3 * (t - start) for t in (e.start, e.all_ready, e.end))
        ax.barh(i, ready - asked, left=asked, color="white", ec=palette[1])
        ax.barh(i, done - ready, left=ready, color=palette[1], ec=palette[1])
    ax.set(title=f"{way}: {len(means)} gradients", ylabel="message", ylim=(14, -1))
    compare(f"messages of a step, {way}", sent.setdefault(way, len(messages)))
words = "ms since rank 0's step began (white: waiting, filled: exchange)"
axes[1].set(xlabel=words, xlim=(0, None))
plt.show()
claim("each gradient is a message", sent["one by one"] == 14)
claim("The tape sends less than half as many", sent["tape"] < 7)

# %% [markdown]
# *(Figure: the messages of one step as bars over time. One by one, fourteen bars follow each other. With
# the tape there are one or a few.)*
#
# Averaged one by one, each gradient is a message, and the next one waits for it. The tape sends less than
# half as many: it requests all means before it waits for any, and Horovod's thread, which looks for
# requests once per *cycle* (1 ms), copies the gradients that are ready on all ranks into one buffer. With
# this *tensor fusion* the latency is paid once. The second gain needs more than our two cores: **overlap**
# of communication with the rest of the backward pass (lecture 06). For this, PyTorch's DDP starts an
# all-reduce per *bucket* of 25 MiB (Li et al. 2020).
#
# ### Weak and strong scaling
#
# **Weak scaling** keeps $n$ constant, **strong scaling** keeps $pn$ constant. We draw both for ResNet-50
# from lecture 06's cost of a ring, with free communication inside a server of 8 GPUs and the same time per
# image for any $n$. **Guess** how many times as fast a step of 256 images is in this model on 256 GPUs as
# on one.

# %%
M, LINK, ALPHA, BUCKET = 102e6, 50e9 / 8, 20e-6, 25e6  # bytes, bytes/s, s, bytes
BACKWARD, FORWARD = 0.120 / 32, 0.060 / 32  # s per image: Goyal et al. 2017; half of it


def step_time(p, n, overlap=True, gpus=8):
    """Seconds of a step on p GPUs with n images each: computation and visible ring."""
    s = np.ceil(p / gpus)  # servers
    ring = 2 * (s - 1) * ALPHA + 2 * (s - 1) / s * M / LINK
    early = ring * (1 - BUCKET / M)  # all but the last bucket can be hidden
    hidden = np.minimum(BACKWARD * n, early) if overlap else 0
    return (BACKWARD + FORWARD) * n + ring - hidden


guess("256 images on 256 GPUs against one", unit="×")
compare("256 images on 256 GPUs against one", step_time(1, 256) / step_time(256, 1))

# %% [markdown]
# But one image does not fill a GPU: its kernels are shorter than their launches, and its matrices are too
# small for the arithmetic units (lecture 04). We assume that fewer than `full` images take as long as
# `full`; measure this on your GPU.

# %%
p, few = 2.0 ** np.arange(10), 2.0 ** np.arange(9)
fig, (weak, strong) = plt.subplots(1, 2, figsize=(9.8, 3.9), layout="constrained")
for overlap, line in ((True, "-"), (False, "--")):
    label = f"model, {'with' if overlap else 'no'} overlap"
    efficiency = 100 * step_time(1, 32) / step_time(p, 32, overlap)
    weak.plot(p, efficiency, line, marker="", label=label)
for full in (1, 4, 16):
    faster = step_time(1, 256) / step_time(few, np.maximum(256 / few, full))
    strong.plot(few, faster, marker="", label=f"a GPU is full with {full}")
weak.plot([128, 128], [88, 50], "kv", mfc="white", label="Horovod (upper), TF 2017")
strong.plot(few, few, color="0.5", lw=1, ls=":", marker="", label="ideal")
weak.set(ylim=(0, 105), ylabel="efficiency, %", title="weak: 32 images each")
strong.set(yscale="log", ylabel="times as fast", title="strong: 256 images")
for ax in (weak, strong):
    ax.set(xscale="log", xlabel="GPUs")
    ax.set_xticks((1, 4, 16, 64, 256), (1, 4, 16, 64, 256))
    ax.minorticks_off()
    ax.legend(fontsize=8)
plt.show()

# %%
weakly = step_time(1, 32) / step_time(256, 32)
claim("efficiency stays above 95% with overlap", weakly > 0.95)
factor = step_time(1, 256) / step_time(256, 16)
claim("the factor falls below 16", factor < 16)
claim("more than 16 GPUs are no faster", step_time(256, 16) >= step_time(16, 16))

# %% [markdown]
# *(Figure: the model for ResNet-50 on servers of 8 GPUs with 50 Gbit/s. Left, the efficiency with 32 images
# per GPU is higher with overlap than without; two triangles at 128 GPUs show 88% and 50%. Right, the
# speed-up with 256 images in all leaves the ideal line at 16 GPUs or soon after: it stays near 15 if a GPU
# is full with 16 images, and reaches 40 with 4 images or 1.)*
#
# Weak scaling is the easy case: a ring's bytes hardly grow with the ranks, and the computation that hides
# them stays as large, so efficiency stays above 95% with overlap. In strong scaling the computation shrinks
# as $1/p$ and the gradient does not, so too little computation is left to hide the communication, and the
# GPUs are no longer filled. If a GPU is full with 16 images, more than 16 GPUs are no faster, and the
# factor falls below 16. So clusters train with a large $pn$, and lecture 08 asks how that affects
# *learning*. The triangles are measurements of other networks (Sergeev and Del Balso 2018). A real step
# also waits for the slowest rank, input and shared links.
#
# ## 7.7 Batch normalisation with one image
#
# PFDet, a detector that came second in the Open Images challenge of 2018, was trained on 512 GPUs with a
# global batch size of 512 (Akiba et al. 2018): one large image per GPU. But batch normalisation (lecture
# 03) takes the mean and variance over the *batch*. PFDet took them over all GPUs, as this layer does. The
# means of $x$ and $x^2$ suffice, so one more all-reduce synchronises a layer. (Horovod adds the all-reduce
# of its gradient.) With `groups`, one process imitates several ranks that do *not* synchronise.


# %%
class BatchNorm(layers.Layer):
    """Over each of `groups` parts of a batch (N, H, W, C), or over all ranks."""

    def __init__(self, groups=1, sync=False, momentum=0.9):
        super().__init__()
        self.groups, self.sync, self.momentum = groups, sync, momentum

    def build(self, shape):
        C, still = shape[-1:], {"trainable": False}
        self.gamma = self.add_weight(C, initializer="ones")
        self.beta = self.add_weight(C, initializer="zeros")
        self.mean = self.add_weight(C, initializer="zeros", **still)
        self.variance = self.add_weight(C, initializer="ones", **still)

    def call(self, x, training=False):
        mean, variance, parts = self.mean, self.variance, x
        if training:
            mean, variance, parts = moments(x, self.groups, self.sync)
            for moving, now in ((self.mean, mean), (self.variance, variance)):
                now = tf.reduce_mean(now, (0, 1, 2, 3))
                moving.assign(self.momentum * moving + (1 - self.momentum) * now)
        y = (parts - mean) * tf.math.rsqrt(variance + 1e-3) * self.gamma + self.beta
        return tf.reshape(y, tf.shape(x))


# %%
def moments(x, groups, sync):
    """Mean and variance of each group, and x as (groups, N / groups, H, W, C)."""
    parts = tf.reshape(x, (groups, -1, *x.shape[1:]))
    both = [tf.reduce_mean(v, (1, 2, 3), keepdims=True) for v in (parts, parts**2)]
    if sync:
        both = tf.unstack(hvd.allreduce(tf.stack(both), op=hvd.Average))  # +
    return both[0], tf.maximum(both[1] - both[0] ** 2, 0.0), parts  # rounding: below 0


# %% [markdown]
# Is this equivalent to one process? We test it by the trajectory: two ranks with 4 scenes each, plain and
# synchronised, against one process with the 8 scenes in two groups and in one. **Predict** which pairs
# agree.


# %%
def few_steps(path, scenes, targets, plan, groups=1, sync=False):
    """The losses of a few steps of SGD; weights and a moving mean at the end."""
    program, losses = runpy.run_path(path), []
    net = program["detector"](lambda: BatchNorm(groups, sync))
    values = [v.value for v in net.trainable_variables]
    for images in plan:  # the global batch of a step, or this rank's part of it
        with tf.GradientTape() as tape:
            out = net(scenes[images], training=True)
            loss = tf.reduce_mean(program["detection_loss"](targets[images], out))
        means = [*tape.gradient(loss, values), loss]
        if hvd.is_initialized():
            means = hvd.grouped_allreduce(means, op=hvd.Average)
        losses.append(float(means.pop()))
        for value, g in zip(values, means, strict=True):
            value.assign_sub(0.02 * g)
    return losses, [v.numpy() for v in values], net.layers[2].mean.numpy()


# %%
def both_layers(path, scenes, targets, plan):
    """The same steps on all ranks with plain layers and with synchronised ones."""
    hvd.init()
    mine = plan[:, hvd.rank() :: hvd.size()]
    return [few_steps(path, scenes, targets, mine, sync=sync) for sync in (False, True)]


# %% tags=["measured"]
data, plan = (DETECTOR, scenes[:64], targets[:64]), np.arange(64).reshape(8, 8)
job = submit(both_layers, *data, plan, ranks_per_node=2)
plain, sync = zip(*job.results(progress=False), strict=True)
plan = np.concatenate([plan[:, 0::2], plan[:, 1::2]], axis=1)  # rank 0's scenes first
alone = {f"{g} group(s)": few_steps(*data, plan, g) for g in (2, 1)}
apart = pd.DataFrame(index=["plain", "in sync"], columns=list(alone), dtype=float)
for layer, ranks in (("plain", plain), ("in sync", sync)):
    for name, (losses, *_) in alone.items():
        apart.loc[layer, name] = np.abs(np.subtract(ranks[0][0], losses)).max()
    same = map(np.array_equal, *(weights for _, weights, _ in ranks))
    apart.loc[layer, "weights equal"] = "yes" if all(same) else "no"
    apart.loc[layer, "statistics differ by"] = np.abs(ranks[0][2] - ranks[1][2]).max()
display(apart.style.format("{:.1g}", subset=apart.select_dtypes("number").columns))
numbers = apart[list(alone)].to_numpy()
claim("The diagonal agrees to rounding", max(numbers.diagonal()) < 1e-3)
claim("the other two pairs do not", min(numbers[0, 1], numbers[1, 0]) > 0.1)
claim("the ranks have equal weights", (apart["weights equal"] == "yes").all())
claim("different moving statistics", apart.loc["plain", "statistics differ by"] > 1e-3)

# %% [markdown]
# The diagonal agrees to rounding, the other two pairs do not: $p$ ranks with plain batch normalisation are
# not equivalent to one process with a batch of $pn$, but to one that normalises each batch in $p$ parts.
# The columns on the right show a trap of lecture 03. With plain layers the ranks have equal weights, to the
# last bit, and different moving statistics: these have no gradient, so they are never averaged, and the
# checkpoint contains those of rank 0. **Average the statistics before you test or save**, as the script of
# 7.5 does. (The mean of the ranks' variances leaves out the variance *between* their means; add it if the
# ranks see different kinds of images.)
#
# ## 7.8 A gallery of bugs
#
# None of these bugs raised an error. Name each bug and the cheapest test that finds it.
#
# **A.** *The loss of two ranks is, digit for digit, the loss of one rank, step by step.*
#
# <details><summary>Answer</summary>
#
# No shards, and one seed: all ranks draw the same batches. Test: the set of images that all ranks saw in an
# epoch (7.3); comparing *weights* finds nothing. Source: scripts without shards are taught (SURF's
# `PRACE-advanced-dl`, `horovod_practical/practical1_solution.py`; BSC's `Fundamentals-DL-CTE-POWER`,
# `tf2_keras_cifar_hvd.py`, both on GitHub).
# </details>
#
# **B.** *After 1T tokens a 3B language model is worse than its 1.7B predecessor was at the same stage. Its
# weights, for the first time, are split over two GPUs (tensor parallelism).*
#
# <details><summary>Answer</summary>
#
# Both GPUs initialised their parts from the same seed. This is the opposite of 7.2: *parts* of a matrix
# must differ, while copies must be equal. For each random number, know whether the ranks must share it.
# Test: compare with one process, for a small model. Source: SmolLM3 (Hugging Face 2025).
# </details>
#
# **C.** *1 GPU, 10 epochs: 0.740. 2 GPUs, 10 epochs: 0.777. 4 GPUs, 2 epochs: 0.487, and again: 0.1000.*
#
# <details><summary>Answer</summary>
#
# SURF's logs of 2020. The exercise had no shards and no warmup, and 10 epochs cannot be compared with 2.
# Without shards, two GPUs take as many updates in 10 epochs as one. How can one script yield both 0.487 and
# 0.1000? Four times the learning rate without a warmup *can* cause this, as *Further* shows.
# </details>
#
# **D.** *`hvd.size()` is 2, the optimiser is a `DistributedOptimizer`, nothing warns, and the ranks' weights
# differ.*
#
# <details><summary>Answer</summary>
#
# Horovod 0.28.1 with Keras 3: `fit` never calls the method that Horovod overrides. Test: the digests of the
# weights (7.2). Source: our own run (7.5).
# </details>
#
# ## 7.9 When it hangs
#
# Two ranks process seven images in each of two epochs: rank 0 takes four steps per epoch, rank 1 three. At
# the end the ranks average a loss. **Predict** in which epoch the job hangs, and which line each rank has
# then reached.


# %%
def uneven(images=7, epochs=2, compiled=True):
    """A step per image, whose "gradient" is its number; then the mean of a loss."""
    hvd.init()
    mean = tf.function(hvd.allreduce, autograph=False) if compiled else hvd.allreduce
    for epoch in range(epochs):
        for image in np.arange(images)[hvd.rank() :: hvd.size()]:
            print(f"epoch {epoch}, image {image}: mean gradient", end=" ", flush=True)
            print(mean(tf.constant(float(image)), name="gradient").numpy(), flush=True)
    print("mean loss", end=" ", flush=True)
    print(hvd.allreduce(tf.constant(100.0), name="loss").numpy(), flush=True)


def printed(job):
    """A column per rank of what it printed, and of the error that ended it."""
    columns = {}
    for rank in range(job.ranks):
        log, _, error = job.logs(rank).partition("Traceback")
        errors = [e for e in error.splitlines() if "Error: " in e][-1:]
        why = [e.split("}} ")[-1].split(". ")[0] for e in errors]
        columns[f"rank {rank}"] = pd.Series(log.splitlines() + why)
    return pd.DataFrame(columns).fillna("")


# %% tags=["measured"]
job = submit(uneven, ranks_per_node=2, time="00:05:00", rerun=True)
while not job.status.ended and len([*job.folder.glob("location-*.json")]) < 2:
    time.sleep(0.5)  # until both ranks have made no progress for 10 s
display(printed(job))
stacks = re.sub(r'".*/(site|dist)-packages/', '"', job.stacks())
print(*(line for line in stacks.splitlines() if "cluster/jobs" not in line), sep="\n")
error = job.cancel().error()
print(error)
last = printed(job)
rank_0, rank_1 = (last[name].tolist() for name in last)
claim("Rank 0's last image of epoch 0 was averaged with rank 1's first of epoch 1",
      rank_0[3].startswith("epoch 0") and rank_1[3].startswith("epoch 1"))  # fmt: skip
claim("Rank 1 waits in `allreduce`", "rank 0 in `allreduce`" in error.what)

# %% [markdown]
# Rank 0's last image of epoch 0 was averaged with rank 1's first of epoch 1, and no error was raised:
# Horovod matches collectives by name. Only at the very end does rank 0 wait for a gradient that never
# comes, and rank 1 for the loss. **Where a job hangs is not where the mistake is.** Common causes are
# unequal steps, a failed rank, and a collective inside `if hvd.rank() == 0:`.
#
# Below the table are the stacks of both ranks, innermost call first, as `job.stacks()` prints them; after
# 30 seconds the job's card in a notebook shows the text of the error. Rank 1 waits in `allreduce`. Rank 0's
# collective was compiled by `tf.function`, so Python sees only TensorFlow's call: look for the line of your
# own code. Horovod's *stall check* should warn after 60 seconds, but we have not seen this warning with
# version 0.28.1 and Gloo. In PyTorch a watchdog aborts a stuck NCCL collective, and the *Flight Recorder*
# dumps the last collectives of each rank.
#
# ## What was learned
#
# 1. A broadcast, shards of one shuffle and a mean gradient make $p$ ranks with batches of $n$ equivalent to
#    one process with batches of $pn$.
# 2. Wrong versions learn, too. Two tests reveal them: equal bits on all ranks, and the trajectory of one
#    process, up to rounding. The first alone misses most mistakes.
# 3. Shuffle the files with a shared seed, shard them, and shuffle the records. All ranks take the same
#    number of steps, each image has the weight $1/pn$ in gradients, metrics and losses, and one rank
#    writes.
# 4. Small messages are fused, and hidden behind the backward pass. Weak scaling leaves enough computation
#    to hide them; strong scaling does not, and leaves GPUs underfilled.
# 5. Synchronised batch normalisation makes $p$ ranks equivalent to one process again; plain layers'
#    statistics must be averaged.
#
# **Today.** Most data-parallel programs are started by `torchrun` and use DDP, or FSDP2, which shards
# weights, gradients and optimiser state as in ZeRO ([Rajbhandari et al.
# 2020](https://arxiv.org/abs/1910.02054)), with reduce-scatter and all-gather instead of all-reduce. In JAX
# one program describes the global batch, and the compiler inserts the collectives. The two tests, the
# shards and the counts carry over.
#
# **Next.** Assignment 07, *Make it data-parallel*, asks you to convert a training run of LeNet-5, to test
# it by its trajectory, and to diagnose broken scripts. **[08, large batches](08_large_batches.ipynb)** asks
# how to choose the learning rate, which 7.5 multiplies by $p$. Before: **[06](06_all_reduce.ipynb)**.
#
# ## Further
#
# Nothing later in the course requires this section.
#
# ### Exercises
#
# 1. 1,000 images, 3 ranks with batches of 32. How many steps does an epoch have, how many images are left
#    out, and what would go wrong if each rank took all of its own images?
#
# <details><summary>Answer</summary>
#
# A step takes 96 images, so an epoch has 10 steps with 960 images and leaves out 40. With shards of 334,
# 333 and 333 images each rank would take 11 steps, so nothing hangs, but the last batches have 14, 13 and
# 13 images: in the mean of means their images differ in weight by up to 8%.
#
# </details>
#
# 2. Rank 0 has a test accuracy of 90% on 600 images, and rank 1 has 80% on 200. What is the accuracy on all
#    images, and what does averaging the two numbers report? What would an average over 4 ranks report if
#    the other two have joined early (`hvd.join`)?
#
# <details><summary>Answer</summary>
#
# The accuracy is (540 + 160) / 800 = 87.5%, and the mean is 85%. Joined ranks contribute zeros and count in
# $p$, so the average over 4 ranks is 170% / 4 = 42.5%.
#
# </details>
#
# 3. A GPU is full with 8 images, its computation for 8 images takes 45 ms, and the visible part of the ring
#    takes 20 ms. With 256 images per step, how many times as fast as one GPU are 32 and 64 GPUs?
#
# <details><summary>Answer</summary>
#
# One GPU needs 32 · 45 ms = 1.44 s. 32 GPUs with 8 images each need 65 ms and are 22 times as fast. 64 GPUs
# with 4 images each also need 65 ms, so they are no faster: half of each GPU is idle.
#
# </details>
#
# At the computer: add a mistake of your own to `BROKEN` and predict its row in the table. Average the
# *weights* after each step instead of the gradients: does the result change? With Adam, "sum for mean" has
# almost no effect: why?
#
# ### How often does the figure show it?
#
# The figure of 7.2 shows two of these mistakes only because of its seed. **Guess** in how many of 40 seeds
# "the same images" ends in a different valley from the right version. (If the ranks agree, one process can
# compute their path.)

# %%
guess("seeds of 40 with another valley")


def two_ranks(name, seed):
    """The path that two ranks share: (steps + 1, 2)."""
    path, own = [np.array(STARTS[0])], name == "a shuffle each"
    for epoch in range(EPOCHS):
        seeds = [[seed, epoch, r] if own else [seed, epoch] for r in range(2)]
        orders = [np.random.default_rng(s).permutation(len(x)) for s in seeds]
        steps = [order.reshape(-1, 2, BATCH) for order in orders]
        for mine, other in zip(*steps, strict=True):
            second_part = other[0 if name == "the same images" else 1]
            images = np.concatenate([mine[0], second_part])
            g = gradient(path[-1], x[images], y[images])
            path.append(path[-1] - RATE * g * (2 if name == "sum for mean" else 1))
    return np.array(path)


# %%
right, shown = [two_ranks("right", seed) for seed in range(40)], {}
found = []
for name in ("sum for mean", "the same images", "a shuffle each"):
    paths = [two_ranks(name, seed) for seed in range(40)]
    assert np.allclose(paths[0], first[name])
    pairs = list(zip(paths, right, strict=True))
    shown[name] = sum(a[-1, 0] * b[-1, 0] < 0 for a, b in pairs)
    found.append(sum(not np.allclose(a, b) for a, b in pairs))
    print(f"{name}: in {shown[name]} of 40 seeds another valley")
compare("seeds of 40 with another valley", shown["the same images"])
claim("in a minority of the seeds", max(shown.values()) < 20)
claim("the second test finds it in all of them", set(found) == {40})

# %% [markdown]
# The figure shows such a mistake in a minority of the seeds; the second test finds it in all of them.
#
# ### All ranks write
#
# After a step all ranks hold the same weights. Why not let all of them save? Two ranks write ten layers to
# the same file at the same time, forty times. **Guess** how many of the forty files are complete and from
# only one rank.

# %%
import zipfile
import zlib

from cluster.jobs import run_folder

guess("complete checkpoints of 40")


def all_write(trials=40):
    """Every rank writes the same file; what rank 0 finds there, for each trial."""
    hvd.init()
    layer, found = np.full(40_000, hvd.rank()), []
    for _ in range(trials):
        hvd.allreduce(tf.constant(0.0))  # all ranks start now
        np.savez(run_folder() / "all.npz", **{f"layer {i}": layer for i in range(10)})
        hvd.allreduce(tf.constant(0.0))
        try:
            with np.load(run_folder() / "all.npz") as file:
                found.append(len({int(values.max()) for values in file.values()}) == 1)
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError):
            found.append(False)  # it cannot be read
    return sum(found)


# %% tags=["measured"]
complete = submit(all_write, ranks_per_node=2).result(progress=False)
compare("complete checkpoints of 40", complete)
claim("Not all of the forty are complete", complete < 40)

# %% [markdown]
# Here, not all of the forty are complete: the others cannot be read, or contain layers of both ranks.
#
# ### What do the statistics of one rank cost?
#
# Each of 8 ranks processes 30 scenes, one per step, with the weights of a recorded network. **Guess** by
# how many percentage points the average precision (AP) differs between the best and the worst of their
# statistics.

# %%
guess("points between the best and the worst statistics", unit=" points")
watched, _ = program["scenes"]("train", 8 * 30)
net, saved = program["detector"](BatchNorm), np.load("runs/07_detector.npz")
recorded = [saved[str(i)] for i in range(len(saved.files))]
look = tf.function(lambda scene: net(scene, training=True))


def precision(values):
    """AP in % with these weights and statistics."""
    net.set_weights(values)
    return 100 * program["average_precision"](targets, net(scenes).numpy())


statistics = []
for mine in np.split(watched, 8):
    net.set_weights(recorded)
    for scene in mine:
        look(tf.constant(scene[None]))
    statistics.append(net.get_weights())

# %% tags=["measured"]
own = np.sort([precision(values) for values in statistics])
means = [np.mean(values, axis=0) for values in zip(*statistics, strict=True)]
average = precision(means)
print("AP / % with one rank's statistics:", *own.round(1), f"average: {average:.1f}")
compare("points between the best and the worst statistics", own[-1] - own[0])
claim("more than one point", own[-1] - own[0] > 1)
claim("better than with those of most ranks", average > np.median(own))

# %% [markdown]
# The best and the worst statistics differ by more than one point of AP; with the average of the statistics
# the AP is better than with those of most ranks.
#
# ### Unequal steps that do not hang
#
# In 7.9 the all-reduce of the gradient was compiled with `tf.function`. We run the same program without it:

# %% tags=["measured"]
job = submit(uneven, ranks_per_node=2, time="00:05:00", compiled=False, rerun=True)
while not job.status.ended:
    time.sleep(0.5)
eager = printed(job)
display(eager)
claim("It does not hang", job.status.ended)
claim("is the mean of its loss, 100, and of a gradient of rank 0",
      eager["rank 1"].str.contains("mean loss 52.0").any())  # fmt: skip

# %% [markdown]
# It does not hang. The last rows show why: rank 1's mean "loss" is the mean of its loss, 100, and of a
# gradient of rank 0. Outside a `tf.function`, TensorFlow keeps one compiled kernel for all operations of a
# kind, and it seems that Horovod sees only the name with which this kernel was first made: both are
# "gradient" to it. Then rank 1 ended, and rank 0's last call failed, on the rank that had done nothing
# wrong. A hang would have been easier to diagnose.
#
# ### A detector
#
# A team at Cray scaled [KittiBox](https://github.com/MarvinTeichmann/KittiBox), a network that finds cars in
# the street scenes of [KITTI](https://www.cvlibs.net/datasets/kitti/), to 16 GPUs. Their slides (Rigazzi,
# *HPC and AI convergence*) show this table; AP is the *average precision*, the mean precision over all
# recalls, for easy, medium and hard cars:

# %%
KITTI = pd.DataFrame(
    [
        (5, 1, 140_000, 24.5, 0.930, 0.877, 0.736, 7.93),
        (5, 8, 17_500, 3.2, 0.958, 0.894, 0.753, 60.8),
        (5, 16, 8_750, 1.62, 0.960, 0.892, 0.744, 122.24),
        (16, 1, 43_750, 23.55, 0.959, 0.890, 0.745, 8.28),
        (16, 8, 5_470, 3.02, 0.936, 0.866, 0.735, 64.64),
        (16, 16, 2_735, 1.52, 0.967, 0.867, 0.738, 129.28),
    ],
    columns=["batch", "GPUs", "steps", "hours", "easy", "medium", "hard", "images/s"],
)
start = KITTI.groupby("batch")[["images/s", "hours"]].transform("first")
KITTI["efficiency / %"] = 100 * KITTI["images/s"] / start["images/s"] / KITTI["GPUs"]
KITTI["by hours / %"] = 100 * start["hours"] / KITTI["hours"] / KITTI["GPUs"]
KITTI["images, thousands"] = KITTI["batch"] * KITTI["GPUs"] * KITTI["steps"] / 1e3
digits = {"hours": 2, "efficiency / %": 1, "by hours / %": 1, "images, thousands": 0}
display(KITTI.round(digits))
apart = (KITTI["efficiency / %"] - KITTI["by hours / %"]).abs().max()
claim("they differ by up to 2 percentage points", 1.5 < apart < 2.5)

# %% [markdown]
# "Batch" is $n$, the batch size per GPU, and every run sees the same number of images. The efficiency can
# be computed from images per second or from hours: they differ by up to 2 percentage points. Is the change
# of the AP from row to row an effect of the ranks? With one run of each, we cannot know. Cray's slides
# conclude "better scaling than Horovod". Horovod's 88% on 128 GPUs (7.6), and 90% and 68% on 512
# (ResNet-101 and VGG-16, Horovod's documentation), were measured with other networks on other numbers of
# GPUs, so they do not support this conclusion.
#
# Our scenes have 64×64 pixels and contain two to six items of Fashion-MNIST, which may cover each other.
# Instead of cars we look for *shoes*. As in KittiBox, the network divides the image into cells (8×8) and
# predicts for each whether the centre of a shoe is in it, and its box. A shoe counts as found if the
# overlap of its box and the predicted one is at least half of their union. Recorded jobs trained the
# network on 1 rank and on 2, with 5 and with 16 scenes per rank.

# %%
import json

record = json.loads(pathlib.Path("runs/07_detector.json").read_text())
records, origin = {"ranks": [], "norm": [], "speed": []}, record["jobs"][0]
for done in record["jobs"]:
    records[done["part"]] += done["rows"]
net = program["detector"](layers.BatchNormalization)
net.set_weights([values.astype(np.float32) for values in recorded])
fig, axes = plt.subplots(1, 4, figsize=(9.8, 2.9), layout="constrained")
outputs = net.predict(scenes[:4], verbose=0)
for ax, scene, target, out in zip(axes, scenes, targets, outputs, strict=False):
    ax.imshow(scene[..., 0], cmap="gray_r")
    sure = [box for s, box in zip(*program["found"](out), strict=True) if s > 0.3]
    there = program["boxes"](target, 1)[1]
    for boxes, color, line in ((there, "black", ":"), (sure, palette[1], "-")):
        look = {"fc": "none", "ec": color, "ls": line, "lw": 1.8}
        for y0, x0, y1, x1 in boxes:  # top, left, bottom, right
            ax.add_patch(plt.Rectangle((x0, y0), x1 - x0, y1 - y0, **look))
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
fig.suptitle("dotted: shoes; solid: found by a recorded network", fontsize=10)
plt.show()

# %% [markdown]
# *(Figure: four scenes of grey clothes that partly cover each other. Dotted black boxes are the true
# positions of shoes, and solid orange boxes are those that a recorded network finds. Most orange boxes are
# near a dotted one.)*
#
# ### Does a second rank change the AP?
#
# We compare 1 rank with 2, with several seeds. As in the table of KittiBox, each run sees the same number
# of scenes. The learning rate grows with the global batch size, after a warmup (lecture 08). **Guess**
# the change of AP from 1 rank to 2 at batch 5, in percentage points.

# %%
guess("points of AP, 2 ranks against 1, batch 5", unit=" points")
STUDENT = {3: 4.303, 5: 2.776, 10: 2.262}  # 97.5% quantile of Student's t


def interval(values):
    """Half of the 95% interval of the mean of these values."""
    return STUDENT[len(values)] * np.std(values, ddof=1) / np.sqrt(len(values))


def verdict(values):
    """A mean difference with its interval, and whether that excludes zero."""
    mean, half = np.mean(values), interval(values)
    known = "other than zero" if abs(mean) > half else "inconclusive, includes zero"
    return f"{mean:+.1f} ± {half:.1f} points, {len(values)} seeds: {known}"


# %%
def draw_changes(changes, title):
    """{label: differences in points}: strokes for seeds, a bar for the interval."""
    _, ax = plt.subplots(figsize=(7.6, 1 + 0.55 * len(changes)))
    for i, values in enumerate(changes.values()):
        ax.plot(values, np.full(len(values), i), "|", color="0.4", ms=13)
        look = {"xerr": interval(values), "fmt": "o", "color": palette[1], "capsize": 3}
        ax.errorbar(np.mean(values), i + 0.3, **look)
    ax.axvline(0, color="0.3", ls=":", marker="")
    ax.set_yticks(range(len(changes)), changes)
    ax.set(xlabel="points of AP (strokes: seeds; bar: mean, 95% interval)", title=title)
    ax.set_ylim(len(changes) - 0.4, -0.4)
    plt.show()


# %%
runs = pd.DataFrame(records["ranks"])
runs["precision"] = [100 * epochs[-1]["precision"] for epochs in runs["epochs"]]
ours = runs.pivot(index=["batch", "ranks"], columns="seed", values="precision")
display(ours.assign(mean=ours.mean(axis=1)).round(1))
changes = {batch: ours.loc[batch, 2] - ours.loc[batch, 1] for batch in (5, 16)}
for batch, change in changes.items():
    print(f"RECORDED, batch {batch:2}: 2 ranks against 1: {verdict(change)}")
slides = 100 * KITTI.groupby("batch")[["easy", "medium", "hard"]].std()
spreads = {"slides, over GPUs": slides.stack(), "ours, over seeds": ours.std(axis=1)}
for whose, spread in spreads.items():
    print(f"standard deviation, {whose}: {spread.min():.1f} to {spread.max():.1f}")
compare("points of AP, 2 ranks against 1, batch 5", changes[5].mean())
named = {f"batch {batch}": change for batch, change in changes.items()}
draw_changes(named, "2 ranks against 1")
claim("At batch 5 the interval only just excludes zero", "other" in verdict(changes[5]))
claim("at batch 16 it includes zero", "inconclusive" in verdict(changes[16]))

# %% [markdown]
# *(Figure: for each batch size, strokes show the change of AP of each seed, and a dot with a bar shows
# their mean and its interval. A dotted line marks zero.)*
#
# At batch 5 the interval only just excludes zero; at batch 16 it includes zero. (This section and the next
# have five such intervals, without a correction for their number, so trust this one least.) "Inconclusive"
# is a result about the *experiment*; "other than zero" holds for this network on 2 ranks, with half the
# steps at twice the learning rate, and says nothing about 16 ranks. A claim about the AP on 16 GPUs needs
# several seeds.
#
# ### Does normalising in parts lower the AP?
#
# In recorded runs, one process imitates the ranks with `groups`: each step has 16 scenes, normalised over
# 16, 4, 2 or 1 of them. The networks are tested with the *average* of the statistics. **Guess** how many
# points of AP are lost with one scene on each of 16 ranks.

# %%
guess("points lost with 1 scene on each of 16 ranks", unit=" points")
norm = pd.DataFrame(records["norm"])
norm["scenes on a rank"] = record["global"] // norm["groups"]
norm["precision"] *= 100
seeds = norm.pivot(index="scenes on a rank", columns="seed", values="precision")
print(f"RECORDED RUNS of {record['norm_epochs']} epochs: AP / %")
display(seeds.round(1))
changes = {f"{size} against 16": seeds.loc[size] - seeds.loc[16] for size in (4, 2, 1)}
for label, change in changes.items():  # seed by seed: the same start, the same shuffles
    print(f"scenes on a rank, {label}: {verdict(change)}")
lost = (seeds.loc[16] - seeds.loc[1]).mean()
compare("points lost with 1 scene on each of 16 ranks", lost)
draw_changes(changes, "Normalised over fewer scenes")
*few_scenes, one = map(verdict, changes.values())
claim("With one scene on a rank the loss excludes zero", "other" in one)
unknown = ["inconclusive" in text for text in few_scenes]
claim("with two and four it is inconclusive", all(unknown))

# %% [markdown]
# *(Figure: the same for 4, 2 and 1 scenes per rank against all 16 scenes of a step.)*
#
# In these runs, with one scene on a rank the loss excludes zero; with two and four it is inconclusive. But
# the AP does not collapse: in a convolutional network the mean is taken over $nHW$ numbers, and one scene
# has 1,024 positions in our first layer and 64 in the last. If each image gives a *single* number, after a
# global average or in a fully connected layer, nothing is left:

# %%
rng, normalised = np.random.default_rng(7), {}
for n in (1, 2, 16):
    features = rng.normal(5, 3, (n, 1, 1, 1)).astype(np.float32)  # one number per image
    normalised[n] = BatchNorm()(features, training=True).numpy().ravel()
    print(f"n = {n:2}:", normalised[n][:6].round(2) + 0.0)
claim("With one image the output is zero", np.allclose(normalised[1], 0))

# %% [markdown]
# With one image the output is zero for every image, and so is the gradient. With two, the network sees only
# which of the two is larger. So do not ask how many images a rank has, but over how many *values* each
# layer normalises, and how similar these are.
#
# ### Two ranks on one machine
#
# Our ranks share two cores. The recorded job measures four phases, in turns of twelve steps: one rank
# **alone**, while the other waits; both **apart**, each training independently; both **together**, with the
# all-reduce; and both together with synchronised normalisation (**in sync**). **Guess** the efficiency of
# two ranks that train together with 5 scenes each.


# %%
def efficiencies(speeds):
    """Of two ranks, in %: quartiles over the turns, for each batch and phase."""
    speed = pd.DataFrame(speeds)
    speed["ms"] = 1000 * speed["s"] / speed["steps"]
    busy = speed[(speed["rank"] == 0) | (speed["phase"] != "alone")]
    slower = busy.groupby(["batch", "turn", "phase"])["ms"].max().unstack()  # of both
    shares = slower[["apart", "together", "in sync"]].rdiv(slower["alone"], axis=0)
    return (100 * shares).groupby("batch").quantile([0.25, 0.5, 0.75]).unstack()


guess("efficiency of 2 ranks, 5 scenes each", unit="%")
quartiles = efficiencies(records["speed"])
print("RECORDED: efficiency / %, quartiles over the turns")
display(quartiles.round(0))
middle = {phase: quartiles[phase, 0.5] for phase in ("apart", "together", "in sync")}
compare("efficiency of 2 ranks, 5 scenes each", middle["together"][5])
falls = middle["apart"] > middle["together"], middle["together"] > middle["in sync"]
claim("The median falls from each phase to the next", all(map(all, falls)))
claim("less than one alone", middle["together"][5] < 50)

# %% [markdown]
# In both rows the median falls from each phase to the next. Below 50%, as with 5 scenes together, two ranks
# process less than one alone. The gap between "apart" and 100% is the cost of sharing memory, caches and
# clock, since no byte is sent. The gap between "apart" and "together" is the cost of the all-reduce *and*
# of waiting for the slower rank in each step. The GPUs of KittiBox share neither cores nor clock. An
# efficiency needs a baseline: one rank on which machine, and what else was running there?
#
# ### Gallery C: luck as a cause
#
# *If* all four ranks drew the same batches, and *if* the learning rate was multiplied by 4 (the log does
# not say), they were equivalent to one process with $4\eta$, so one process is enough to test this. We
# train LeNet-5 with ReLU once on 6,400 images, with six seeds for each learning rate. **Predict** the
# spread of the accuracy over the seeds.


# %% tags=["measured"]
from cluster.training import models


def accuracy(rate, seed, batch=64):
    """Of LeNet-5 on 1,000 test images, after 6,400 training images; NaN is wrong."""
    net = models.lenet5(seed, activation="relu")
    optimizer = keras.optimizers.SGD(rate, momentum=0.9)
    optimizer.build(net.trainable_variables)
    values = [v.value for v in net.trainable_variables]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x))
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, values), net.trainable_variables)

    x, y = fashion_mnist("train", 6400)
    for images in np.random.default_rng(seed).permutation(6400).reshape(-1, batch):
        step(x[images], y[images])
    x, y = fashion_mnist("test", 1000)
    logits = net(x).numpy()
    return np.mean((logits.argmax(1) == y) & np.isfinite(logits).all(1))


# %% tags=["measured"]
ETA = 0.04
die = {k: [accuracy(k * ETA, seed) for seed in range(6)] for k in (1, 4)}
table = pd.DataFrame(die).rename(columns="{}η".format)
display(table.T.rename_axis("seed", axis=1).round(3))
claim("Without the factor of 4 all six learn", min(die[1]) > 0.5)
claim("with it the accuracies spread more widely", np.ptp(die[4]) > np.ptp(die[1]))

# %% [markdown]
# Without the factor of 4 all six learn; with it the accuracies spread more widely, and when this lecture
# was built one of the six stayed at chance. So luck *suffices* to explain two such numbers. This does not
# show that it was the cause, since their network was different and their settings are unknown. The warmup
# of lecture 08 reduces this risk.
#
# ### More bugs
#
# **E.** *Every log says "rank 0 of 1", each line appears twice, and the job is as fast as on one GPU.*
#
# <details><summary>Answer</summary>
#
# The ranks did not find each other, and each trains alone. Test: compare `hvd.size()` with the number of
# processes that you requested; `submit` does. Source: Horovod issues
# [1646](https://github.com/horovod/horovod/issues/1646),
# [2588](https://github.com/horovod/horovod/issues/2588).
# </details>
#
# **F.** *The log says 91% on the test images; the checkpoint, loaded again, has 84%.*
#
# <details><summary>Answer</summary>
#
# The log averaged the accuracies of the ranks, each with *its own* statistics, while the checkpoint
# contains those of rank 0 (7.7). Or the 91% was measured on rank 0's test images only (7.4). Test: evaluate
# the checkpoint in one process. Source: our 7.7; the numbers are invented.
# </details>
#
# ### The same program on a GPU cluster
#
# Nothing in this section was run here: this machine has no GPU. The script of 7.5 gives each rank one GPU
# by its **local** rank, its number on its own node. Without this *pinning* every rank sees all GPUs of the
# node, allocates memory on each, and computes on the first: the symptom is one busy GPU, or "out of memory"
# with a small network. The `%` is for schedulers that show each task only its own GPU, which then has the
# number 0. The *job* requests the resources: `submit(script, nodes=2, ranks_per_node=4, gpus_per_rank=1)`
# would send this script to Slurm:

# %%
import sys

from cluster.jobs.backends import batch_script

spec, folder = script_job.spec, script_job.folder
options = spec["options"] | {"nodes": 2, "ranks_per_node": 4, "gpus_per_rank": 1}
text = batch_script.script(spec | {"options": options, "ranks": 8}, folder)
print(text.replace(str(folder), "RUN").replace(sys.prefix, "VENV"))

# %% [markdown]
# Horovod built with `HOROVOD_GPU_OPERATIONS=NCCL` leaves the *coordination* to MPI or Gloo, and moves the
# *data* with NCCL from GPU to GPU. `NCCL_DEBUG=INFO` prints the path it has chosen; a line "NET/Socket" where
# you expect "NET/IB" explains a bad scaling table.
#
# According to its poster, PFDet was trained on 1.7M images for 16 epochs in 33 hours on 512 GPUs. This
# amounts to 229 images per second and 2.2 GPU-seconds per image; at the stated scaling efficiency of 83%,
# 512 GPUs do the work of 425. Open Images V4 has 12M boxes, 7 per image, in about 500 GB.
#
# ### Terms
#
# **Broadcast**: all ranks get the value of one. **Bucket**: gradients that DDP reduces as one message.
# **Digest**: a hash of the weights. **Local rank**: the number of a rank on its node. **Pinning**: giving
# each rank one GPU. **Shard**: the part of the data for one rank. **Strong scaling**: more ranks, the same
# global batch size. **Tensor fusion**: one message for several tensors. **Weak scaling**: more ranks, the
# same batch size per rank.
#
# ### Sources
#
# - Sergeev and Del Balso 2018, [Horovod](https://arxiv.org/abs/1802.05799): 88% and 50% on 128 GPUs, and
#   fusion, 7.6; Horovod 0.28.1, documentation and code: 7.5, 7.9
# - Goyal et al. 2017, [Accurate, large minibatch SGD](https://arxiv.org/abs/1706.02677), section 4: the
#   backward pass of ResNet-50 and 50 Gbit/s, 7.6
# - Li et al. 2020, [PyTorch Distributed](https://arxiv.org/abs/2006.15704), section 3: buckets, 7.6 ·
#   Rajbhandari et al. 2020, [ZeRO](https://arxiv.org/abs/1910.02054), abstract: *Today*
# - Akiba et al. 2018, [PFDet](https://arxiv.org/abs/1809.00778), and its poster: 7.7
# - TensorFlow,
#   [AutoShardPolicy](https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutoShardPolicy), and
#   WebDataset, [Splitting shards](https://webdataset.github.io/webdataset/multinode/): 7.3
# - PyTorch, [Join](https://docs.pytorch.org/tutorials/advanced/generic_join.html) and [Flight
#   Recorder](https://docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html), first sections:
#   7.5, 7.9
# - Hugging Face 2025, [Smol Training
#   Playbook](https://huggingface.co/spaces/HuggingFaceTB/smol-training-playbook): gallery B (read in notes on
#   it)
# - Rigazzi, *HPC and AI convergence* (Cray): the table of KittiBox · SURF 2020, teaching logs: gallery C
# - *MPI: A message-passing interface standard*, version 1.1,
#   [All-Reduce](https://netlib.org/mpi/mpi-report-1.1/node82.html): 7.2
