# %% [markdown]
# # 7 · Data-parallel training with Horovod
#
# **When are p programs one training?**
#
# A course on supercomputers kept the logs of its exercise. The same script trained the same network on one
# GPU, 10 epochs, accuracy 0.740; on two GPUs, 10 epochs, 0.777; on four GPUs, 2 epochs, 0.487; and on four
# GPUs, 2 epochs, once more: 0.1000. With ten classes that is a die. No run crashed, no line of any log was
# red. Which of the four numbers would you have believed, and why?
#
# Data-parallel training is a handful of lines. Each can be wrong in a way that **still learns**, only less,
# or something else, or twice the same. This lecture breaks them one after the other, and looks.
#
# We aim at
#
# 1. turning a training on one device into one on p ranks, with every line marked that distribution adds;
# 2. knowing what must hold (disjoint shards of one shuffle, an equal start, the mean gradient, equal numbers
#    of steps, one writer, metrics and statistics of *all* ranks), and what it **looks like** when it does
#    not;
# 3. two tests that find nearly all of these mistakes, and saying which they cannot find;
# 4. batch normalisation with few images on each rank, and the one line that synchronises it;
# 5. training a small detector on 1 and 2 ranks, and reading a scaling table with suspicion.
#
# Notation: $p$ ranks, $n$ images that one rank sees in a step, so $pn$ together; learning rate $\eta$;
# weights $w$.

# %%
import difflib
import inspect
import json
import os
import pathlib
import runpy
import sys
import time
import zipfile
import zlib

os.environ.setdefault("CLUSTER_RUNS", "../runs")  # this lecture's jobs; runs/ here holds the recorded ones
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # read when TensorFlow is imported

# %%
import horovod.tensorflow as hvd
import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display
from keras import layers

from cluster import submit
from cluster.jobs import run_folder
from cluster.jobs.backends import batch_script
from cluster.training import models
from cluster.training.data import CLASSES, fashion_mnist

plt.style.use("cluster.course")
palette = plt.rcParams["axes.prop_cycle"].by_key()["color"]
tf.config.threading.set_intra_op_parallelism_threads(2)
print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}, {len(os.sched_getaffinity(0))} cores")

# %% [markdown]
# As in every lecture you **guess before you look**: write your number in place of `None`.

# %%
guesses = {}


def compare(question, found, unit=""):
    """Print a number beside what was guessed for it."""
    guess = guesses.get(question)
    said = "you wrote down no guess" if guess is None else f"you guessed {guess:.3g}{unit}"
    print(f"{question}: {found:.3g}{unit}; {said}")


# %% [markdown]
# ## 7.1 A network that fits on a sheet of paper
#
# What p ranks do to each other can be *seen* when the network has two weights. Ours tells a sandal from a
# pullover by one number, the ink $x$ of the picture (its mean grey, standardised): one hidden neuron, a
# weight $a$ before it and a weight $b$ behind it. The answer is $-1$ for a sandal, $+1$ for a pullover:
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
# Change the sign of both weights and nothing changes: the surface has **two valleys**, equally good. And the
# training on *one* device, from a start that was chosen on the ridge between them, where little decides into
# which of the two one falls. **Guess:** over the same images in the same order, once in batches of 2 and once
# of 4, does it end in the same valley?

# %%
STARTS = [(0.98, -1.2), (-0.5, -0.2)]  # the start of rank 0; one that another rank would draw
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
    """The surface, dark where it is high, a + at each minimum, and on it one path for each rank."""
    ax.contourf(A, B, SURFACE, LEVELS, cmap="Greys", norm="log", alpha=0.45, extend="both")
    ax.contour(A, B, SURFACE, LEVELS, colors="0.6", linewidths=0.6)
    ax.plot(*np.transpose([LOWEST, -LOWEST]), "+", color="black", ms=11, mew=1.5, zorder=4)
    for rank, path in enumerate(paths):
        look = {"color": palette[rank], "ls": ["-", "--"][rank], "marker": ""}
        ax.plot(*path[:12].T, lw=[2.6, 1.5][rank], label=f"rank {rank}", **look)
        ax.plot(*path[11:].T, lw=0.7, **look)
        ax.plot(*path[0], "o", color="white", mec=palette[rank], ms=7)
        ax.plot(*path[-1], ["o", "X"][rank], color=palette[rank], mec="black", ms=8)
    ax.set(xlim=(-2.6, 2.6), ylim=(-2.4, 2.4), title=title, aspect="equal")
    ax.title.set_fontsize(10)
    ax.grid(False)


# %%
fig, axes = plt.subplots(1, 2, figsize=(8.6, 4.1), sharey=True)
for ax, batch in zip(axes, (BATCH, 2 * BATCH), strict=True):
    draw(ax, [one_device(x, y, batch)], f"one device, batches of {batch}")
    ax.set(xlabel="a")
axes[0].set_ylabel("b")
plt.show()

# %% [markdown]
# *(Figure: a loss in shades of grey, darker where it is higher, with two valleys, one at the upper right,
# where both weights are positive, and its mirror image at the lower left, a cross in each; between them a
# saddle at the origin. A path starts at the lower right, near the ridge. With batches of 2 it crosses to the
# lower left valley, with batches of 4 it ends in the upper right one; at its end each path zigzags.)*
#
# Two honest trainings, from one start, over the same images in the same order. One ends in one valley, one
# in the other: near the ridge it takes only a different *batch*. What changes a step can change the end.
# (*Can*: 7.2 counts it over 40 seeds.)

# %% [markdown]
# ## 7.2 From one device to p ranks
#
# The plan: p processes, the *ranks*, each with a copy of the network. In each step, rank $r$ computes the
# gradient of its own $n$ images; an **all-reduce** (lecture 06) gives every rank the mean of all gradients;
# every rank takes the same step. Since a mean over $pn$ images is the mean of $p$ means over $n$,
#
# $$\frac{1}{pn}\sum_{r=1}^{p}\sum_{i=1}^{n}\nabla\ell_{r,i} \;=\;
# \frac{1}{p}\sum_{r=1}^{p}\Bigl(\frac1n\sum_{i=1}^{n}\nabla\ell_{r,i}\Bigr),$$
#
# p ranks with batches of $n$ are **one process with batches of $pn$**, if everything else is right.
#
# ![One shuffle of twelve images, cut into three steps of four, each step into two halves, the first of rank
# 0, the second of rank 1. From the last step each rank computes a gradient of its half; the two meet in an
# all-reduce, from which the same mean goes back to both, and both take the same step from equal weights to
# equal weights.](figures/07_ranks.svg)
#
# Horovod, once started with `hvd.init()`, gives us the four things we need: which rank we are, how many there
# are, a broadcast, an all-reduce. The program, with `# +` where distribution adds something:


# %%
def p_ranks(x, y, seed=0):
    """SGD on all ranks: the path of this rank's weights, (steps + 1, 2)."""
    rank, p, n = hvd.rank(), hvd.size(), BATCH  # +
    w = np.array(STARTS[rank])  # each rank draws a start of its own
    w = hvd.broadcast(w, root_rank=0).numpy()  # + and takes over that of rank 0
    path = [w]
    for epoch in range(EPOCHS):
        order = np.random.default_rng([seed, epoch]).permutation(len(x))
        steps = order.reshape(-1, p, n)  # + what the ranks see in each step, together p·n images
        for images in steps[:, rank]:  # + of which this rank takes its own n
            g = gradient(w, x[images], y[images])
            g = hvd.allreduce(g, op=hvd.Average).numpy()  # + the mean over the ranks
            w = w - RATE * g
            path.append(w)
    return np.array(path)


# %% [markdown]
# Do you trust our marks? They can be checked: compare the two programs line by line.

# %%
alone, together = (inspect.getsource(f).splitlines() for f in (one_device, p_ranks))
for line in difflib.ndiff(alone, together):
    if line[0] in "+-" and line[2:].strip():
        print(line)

# %% [markdown]
# One changed line has no mark: a start of its own is what each rank gets by itself, if nobody prevents it.
# Everything else is untouched: the network, its gradient, the shuffle, the step. And now the wrong versions.
# A program is a text, so we write each mistake as *one line for another*. All of them run in one job of two
# ranks; `submit` (lecture 05) starts it on this machine or on a cluster, and what each rank returns comes
# back.

# %%
AVERAGE = "g = hvd.allreduce(g, op=hvd.Average).numpy()"
BROKEN = {
    "right": ("path = [w]", "path = [w]"),
    "no broadcast": ("w = hvd.broadcast(w, root_rank=0).numpy()", "pass"),
    "no averaging": (AVERAGE, "pass"),
    "sum for mean": ("op=hvd.Average", "op=hvd.Sum"),
    "the same images": ("steps[:, rank]", "steps[:, 0]"),
    "a shuffle each": ("default_rng([seed, epoch])", "default_rng([seed, epoch, rank])"),
}


def run_all(source, changes, x, y):
    """Run the program once for each change of one of its lines, on this rank: {name: path}."""
    hvd.init()
    known = {"np": np, "hvd": hvd, "gradient": gradient, "STARTS": STARTS}
    known |= {"EPOCHS": EPOCHS, "RATE": RATE, "BATCH": BATCH}
    paths = {}
    for name, (line, instead) in changes.items():
        assert source.count(line) == 1, f"{line!r} stands {source.count(line)} times in the program"
        names = dict(known)
        exec(source.replace(line, instead), names)
        paths[name] = names["p_ranks"](x, y)
    return paths


# %% [markdown]
# **Guess** before you run it. Five mistakes: in how many of them do the two ranks end with *different*
# weights? And in how many is the training still the one of a single process with batches of $pn$?

# %%
guesses["mistakes after which the ranks differ"] = None
guesses["mistakes that are still the training of one process"] = None

# %%
job = submit(run_all, inspect.getsource(p_ranks), BROKEN, x, y, ranks_per_node=2)
first, second = job.results(progress=False)

# %%
fig, axes = plt.subplots(2, 3, figsize=(9.6, 6.4), sharex=True, sharey=True)
for ax, name in zip(axes.flat, BROKEN, strict=True):
    draw(ax, [first[name], second[name]], name)
for ax in axes[1]:
    ax.set_xlabel("a")
for ax in axes[:, 0]:
    ax.set_ylabel("b")
axes[0, 0].legend(loc="lower left")
plt.show()

# %% [markdown]
# *(Figure: six times the same two valleys with the path of rank 0, solid, and of rank 1, dashed. Right: the
# paths coincide and end in the upper right valley. No broadcast: two paths of the same form, side by side at
# a constant distance; rank 1 ends at the edge of a valley, rank 0 outside. No averaging: from one start the
# paths part and end in opposite valleys. Sum for mean: they coincide, go the right way and end in wide
# zigzags. The same images, and a shuffle each: they coincide, and end in the other valley.)*
#
# Each panel is a bug report.
#
# - **Right.** The paths lie on each other, to the last bit, and are the path of one device with twice the
#   batch (7.1).
# - **No broadcast.** Both ranks take the *same* step, from different places: the distance between them never
#   changes. Each gets the mean of two gradients, of which only one is its own, and they drift to where the
#   two *cancel*. Rank 1 has luck and is in a valley there; rank 0 is not.
# - **No averaging.** Two trainings that know nothing of each other. Here they end in opposite valleys, and
#   the one that is thrown away has cost as much as the other.
# - **Sum for mean.** Each step is p times too long: the learning rate is secretly $p\eta$. Fine in a valley
#   that is wide enough, a divergence in one that is not, and it gets worse with every rank that is added.
# - **The same images.** The mean of two equal gradients is that gradient: two machines do the work of one,
#   and half of the images are never looked at. The paths coincide, and it is the wrong path.
# - **A shuffle each.** Other batches, the same picture; harder to see in a program: every line looks right
#   (7.3).
#
# A picture is not a test, and real networks have more than two weights. **Two numbers** are left: how far the
# ranks are from each other, and how far rank 0 is from one process with batches of $pn$.

# %%
reference = one_device(x, y, 2 * BATCH)
table = pd.DataFrame(index=list(BROKEN))
table["between the ranks"] = [np.abs(first[name] - second[name]).max() for name in BROKEN]
table["from one process"] = [np.abs(first[name] - reference).max() for name in BROKEN]
for rank, paths in enumerate((first, second)):
    table[f"last loss of rank {rank}"] = loss(*np.transpose([paths[name][-1] for name in BROKEN]))
display(table.style.format("{:.2g}"))
wrong = table.drop(index="right")
compare("mistakes after which the ranks differ", (wrong["between the ranks"] > 0).sum())
one_process = wrong["from one process"] < 1e-9
compare("mistakes that are still the training of one process", one_process.sum())

# %% [markdown]
# The first test is cheap: compare the weights of all ranks, or a *digest* of them (a hash of their bytes),
# now and then. It finds what parts the ranks, and only that. The second test, **p ranks must give the
# trajectory of one process on the same global batch**, fails for all five. It costs a few steps on one
# device, so run it once for every training program you write; assignment 07 makes a tool of it. What neither
# finds is what both versions share, such as a wrong loss or a shuffle that never changes, and what happens
# outside the steps that you compare: at the end of an epoch, in a metric, in a checkpoint or a restart (7.3,
# 7.4), in statistics that no gradient moves (7.7).
#
# Two more lessons are in the numbers. The right version differs from one process by a few $10^{-16}$: the
# mean of two means is not rounded like one mean. "Equal" must be a *tolerance* here, and between ranks it
# must not: an all-reduce hands the same bits to all (the usual ones do; MPI only recommends it). And the
# last columns tell you next to nothing: judged by the loss, "the same images" is hardly worse than the right
# version. **The loss does not know what you meant to do.**
#
# And the picture? Its seed was kind to us. **Guess:** of 40 seeds, in how many does "the same images" end in
# another valley than the right version? (Where the ranks agree, one process can compute their path.)

# %%
guesses["seeds of 40 in which the valley shows the same images"] = None


def two_ranks(name, seed):
    """The path that two ranks share: (steps + 1, 2)."""
    path = [np.array(STARTS[0])]
    for epoch in range(EPOCHS):
        seeds = [[seed, epoch, r] if name == "a shuffle each" else [seed, epoch] for r in range(2)]
        steps = [np.random.default_rng(s).permutation(len(x)).reshape(-1, 2, BATCH) for s in seeds]
        for mine, other in zip(*steps, strict=True):
            images = np.concatenate([mine[0], other[0 if name == "the same images" else 1]])
            g = gradient(path[-1], x[images], y[images])
            path.append(path[-1] - RATE * g * (2 if name == "sum for mean" else 1))
    return np.array(path)


# %%
right, shown = [two_ranks("right", seed) for seed in range(40)], {}
for name in ("sum for mean", "the same images", "a shuffle each"):
    paths = [two_ranks(name, seed) for seed in range(40)]
    assert np.allclose(paths[0], first[name])
    away = sum(a[-1, 0] * b[-1, 0] < 0 for a, b in zip(paths, right, strict=True))
    found = sum(not np.allclose(a, b) for a, b in zip(paths, right, strict=True))
    print(f"{name}: in {away} of 40 seeds another valley; the second test finds it in {found}")
    shown[name] = away
compare("seeds of 40 in which the valley shows the same images", shown["the same images"])

# %% [markdown]
# <details><summary>With the optimiser Adam, "sum for mean" is hardly noticed. Why?</summary>
#
# Adam divides the mean gradient by the root of the mean of its square. Twice the gradient is twice both, so
# the step stays the same (but for its $\epsilon$). The bug sleeps until somebody takes SGD, clips gradients,
# or adds weight decay to the gradient.
# </details>
#
# ## 7.3 Which images does the machine see?
#
# "The same images" and "a shuffle each" are mistakes of the **shards**, what each rank sees of an epoch.
# Disjoint shards need *one* shuffle, which all ranks draw from the same seed, and of which each takes
# another part. **Guess:** each of $p$ ranks shuffles for itself and takes its p-th part of its own shuffle.
# Which share of the images does nobody see in an epoch, for $p = 2$, and for very many ranks?

# %%
guesses["images that nobody sees, p = 2"] = None  # in %
guesses["images that nobody sees, p = 256"] = None  # in %


# %%
def never_seen(p, N=12_800, own_seed=True):
    """Share of N images that no rank sees in one epoch."""
    shuffles = [np.random.default_rng([7, rank * own_seed]).permutation(N) for rank in range(p)]
    size = N // p
    seen = np.concatenate([order[r * size : (r + 1) * size] for r, order in enumerate(shuffles)])
    return 1 - len(np.unique(seen)) / N


for p in (2, 4, 16, 256):
    expected = (1 - 1 / p) ** p
    print(f"p = {p:3}: {never_seen(p):6.1%} unseen, expected (1 - 1/p)^p = {expected:.1%};", end=" ")
    print(f"with one seed {never_seen(p, own_seed=False):.1%}")
for p in (2, 256):
    compare(f"images that nobody sees, p = {p}", 100 * never_seen(p), "%")

# %% [markdown]
# Each image has $p$ chances of $1/p$ to be drawn. For many ranks $1/e$ of the data is missed in each epoch.
# In the *next* epoch others are missed; the epoch is only worth less than it says.
#
# With `tf.data` the same mistake looks like this. The first pipeline stands in real course material, the
# others are repairs. **Which of the three is right?** Decide before you run the cell.


# %% tags=["measured"]
def shards_of(pipeline, p=2, epochs=2):
    """What each of p ranks sees in each epoch; every rank builds the pipeline for itself, once."""
    built = [pipeline(tf.data.Dataset.range(1000), p, r) for r in range(p)]
    return [[np.concatenate(list(data.as_numpy_iterator())) for data in built] for _ in range(epochs)]


PIPELINES = {
    ".shuffle(1000).batch(10).shard(p, r)": lambda d, p, r: d.shuffle(1000).batch(10).shard(p, r),
    ".shard(p, r).shuffle(1000).batch(10)": lambda d, p, r: d.shard(p, r).shuffle(1000).batch(10),
    ".shuffle(1000, seed=7).batch(10).shard(p, r)": lambda d, p, r: (
        d.shuffle(1000, seed=7).batch(10).shard(p, r)
    ),
}
for name, pipeline in PIPELINES.items():
    epochs = shards_of(pipeline)
    both = [len(np.intersect1d(*shards)) for shards in epochs]
    unseen = [1000 - len(np.union1d(*shards)) for shards in epochs]
    same = set(epochs[0][0]) == set(epochs[1][0])
    print(f"{name}: in two epochs {both} images on both ranks, {unseen} on none;")
    print("    rank 0 sees", "the same images in every epoch" if same else "others in the next epoch")

# %% [markdown]
# The first shuffles on each rank anew and shards the result: not disjoint. The second shards first: disjoint,
# covering, and yet each rank sees *its* part for ever, in another order. Its mean gradient is still over all
# images, so it is no disaster; but what a rank draws from its own images, such as the statistics of 7.7, is
# drawn from one part for ever. The third is what `p_ranks` does: a shuffle of the *whole*, new in each epoch,
# the same on all ranks, by one seed.
#
# ### Equal steps
#
# An odd number of images does not go round on two ranks. What happens if rank 0 simply gets one more? Here
# is a loop that does not care, as one would write it first; at the end it averages a loss over the ranks.


# %%
def uneven(images=7, epochs=2, compiled=True):
    """Each rank takes a step for each of its images; after the last epoch the ranks average a loss."""
    hvd.init()
    mean = {}
    for name in ("gradient", "loss"):  # the "gradient" of an image is its number, so that we see who met whom
        mean[name] = lambda value, name=name: hvd.allreduce(value, name=name)
        if compiled:
            mean[name] = tf.function(mean[name], autograph=False)
    for epoch in range(epochs):
        for image in np.arange(images)[hvd.rank() :: hvd.size()]:
            print(f"epoch {epoch}, image {image}: mean gradient", end=" ", flush=True)
            print(mean["gradient"](tf.constant(float(image))).numpy(), flush=True)
    print("mean loss", end=" ", flush=True)
    print(mean["loss"](tf.constant(100.0)).numpy(), flush=True)


# %%
def watch(job):
    """Wait until the job ends, or neither rank has printed anything for 8 s; show what they said."""
    said, since = [], time.monotonic()
    while not job.status.ended and time.monotonic() - since < 8:
        now = [job.logs(rank) for rank in range(job.ranks)]
        if now != said or not all(now):
            said, since = now, time.monotonic()
        time.sleep(0.1)
    said = [job.logs(rank) for rank in range(job.ranks)]
    print("it has ended" if job.status.ended else "it hangs: nobody has said anything for 8 s")
    job.cancel()
    lines = []
    for log in said:
        printed, _, error = log.partition("Traceback")
        why = [e.split("}} ")[-1].split(". ")[0] for e in error.splitlines() if "Error: " in e]
        lines.append(pd.Series(printed.splitlines() + why[-1:]))
    display(pd.DataFrame({f"rank {r}": column for r, column in enumerate(lines)}).fillna(""))


# %% [markdown]
# **Predict:** seven images, two epochs; four steps an epoch on rank 0, three on rank 1. In which epoch does
# it hang, and in which line of the program is each rank then?

# %%
watch(submit(uneven, ranks_per_node=2, time="00:05:00", rerun=True))

# %% [markdown]
# Did you say: in the first epoch, at image 6? Read the rows. Rank 0's *last* image of epoch 0 was averaged
# with rank 1's *first* image of epoch 1, and nobody complained: a collective has a **name**, each side calls
# it once more, and one step looks like another. From there on the ranks train on different epochs, a step
# further apart in each; and only at the very end rank 0 waits for two gradients that will never come, while
# rank 1 waits in the mean of the loss. **Where a job hangs is not where the mistake is.** (Had every epoch
# ended with a mean of its own, it would have hung there.) When a job hangs at 100%, think of unequal steps
# first; then of a rank that died, and of the commonest hang of all, which has no loop in it: a collective
# inside `if hvd.rank() == 0:` (gallery F). Horovod's own diagnosis is its *stall check*: by its manual,
# after 60 seconds (`HOROVOD_STALL_CHECK_TIME_SECONDS`) a warning names the tensors that wait and the ranks
# that are missing. (We have not seen it here, in a hang of 20 s with a limit of 3: do not wait for it.)
#
# The collectives above were compiled with `tf.function`. Once more without:

# %%
watch(submit(uneven, ranks_per_node=2, time="00:05:00", compiled=False, rerun=True))

# %% [markdown]
# Now it does *not* hang. Look at the last rows: rank 1's mean "loss" is the mean of its loss, 100, and of a
# *gradient* of rank 0. We had expected that the two names would keep them apart. Outside a `tf.function`,
# TensorFlow keeps one compiled kernel for all operations of a kind, and it seems that Horovod sees only the
# name with which this kernel was first made: both are "gradient" to it. Two scalars of one type fit
# together, so they were paired. Then rank 1 was done and went home, and rank 0's last call ended with an
# error, on the rank that had done nothing wrong. A hang is the *kinder* symptom.
#
# So: give all ranks $\lfloor N/p \rfloor$ images, and leave out the rest, others in each epoch. Where nothing
# may be left out, as in testing, ranks may have different *numbers of images* if every rank makes the same
# *number of calls*, and the mean is weighted. (`hvd.join()` lets a rank that is done wait for the others: it
# adds *zeros* to their collectives meanwhile. Look at what your mean is divided by.)
#
# ## 7.4 What the ranks report, and who writes it down
#
# **Means of unequal parts.** The mean of the ranks' means is the mean over all only if all parts are equally
# large. Let rank 0 have 12 images and rank 1 only 4, as in a last batch or in a test set that does not go
# round. **Guess** also: of 1,000 tests with 16 images each, how many times as much does the accuracy of a
# quarter of them wobble as that of all?

# %%
guesses["wobble of a quarter"] = None

# %%
w, parts = np.array(STARTS[0]), [np.arange(12), np.arange(12, 16)]
whole = gradient(w, x[:16], y[:16])
own = [gradient(w, x[part], y[part]) for part in parts]
weighted = sum(len(part) * g for part, g in zip(parts, own, strict=True)) / 16
a, b = reference[-1]  # after the training
hits = np.sign(b * np.tanh(a * x)) == y
shares = [hits[part].mean() for part in parts]
assert np.allclose(weighted, whole)
print(f"all 16 images  gradient {whole.round(4)}, accuracy {hits[:16].mean():.3f}")
print(f"weighted       gradient {weighted.round(4)}")
print(f"mean of means  gradient {np.mean(own, axis=0).round(4)}, accuracy {np.mean(shares):.3f}")
print(f"rank 0 alone   gradient {own[0].round(4)}, accuracy {shares[0]:.3f}")
tests = np.random.default_rng(7).choice(hits, (1000, 16))
compare("wobble of a quarter", tests[:, :4].mean(1).std() / tests.mean(1).std(), "×")

# %% [markdown]
# So **each image must weigh $1/pn$**, wherever it is. For a gradient: equal shards, or a weighted mean. For
# a metric: add up *counts*, and divide at the end. The mean of the two accuracies is not the accuracy, and
# rank 0 alone would have reported a perfect network: a p-th part of the test images wobbles $\sqrt p$ times
# as much. A loss that is divided by the number of *objects* in the batch (7.5), of words in a sentence, of
# unmasked pixels, is divided by another number on each rank.
#
# **One writes.** After the step all ranks hold the same weights. Why not let all of them save? Two ranks
# write a checkpoint of twenty layers into the same file at the same time, forty times, and rank 0 looks at
# what lies there. **Guess:** how many of the forty are whole?

# %%
guesses["whole checkpoints of 40"] = None


def all_write(trials=40):
    """Every rank writes the same file; what rank 0 finds there, for each trial."""
    hvd.init()
    twenty = {f"layer {i}": np.full(20_000, hvd.rank() + 1.0) for i in range(20)}
    path, found = run_folder() / "checkpoint.npz", []
    for _ in range(trials):
        hvd.allreduce(tf.constant(0.0))  # all are here: now
        np.savez(path, **twenty)
        hvd.allreduce(tf.constant(0.0))
        if hvd.rank() == 0:
            try:
                with np.load(path) as file:
                    wrote = {int(layer.max()) - 1 for layer in file.values()}
                found.append("written by rank " + " and ".join(map(str, sorted(wrote))))
            except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError) as error:
                found.append(f"cannot be read: {type(error).__name__}")
    return found


# %% tags=["measured"]
ends = pd.Series(submit(all_write, ranks_per_node=2).result(progress=False)).value_counts()
print(ends.to_string())
compare("whole checkpoints of 40", ends[~ends.index.str.contains("and|cannot")].sum())

# %% [markdown]
# The ranks leave the all-reduce together, so they write together: data parallelism *synchronises* the
# accident. **Rank 0 writes, alone**; beside the old file, and then renames, so that a job that is killed
# while it writes leaves the old one whole. The counterpart is forgotten more often: after a restart only
# rank 0 may have *read* the checkpoint, and then "no broadcast" of 7.2 is back; and weights alone are not the
# state, to which the optimiser's momentum and the step of the schedule belong.
#
# ## 7.5 A detector
#
# Now a network with more than two weights. A team at Cray scaled *KittiBox*, which finds cars in pictures of
# streets, to 16 GPUs, and their slides show this table (for easy, medium and hard cars the *average
# precision*, AP: the mean precision over all recalls):

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
alone = KITTI.groupby("batch")["images/s"].transform("first")
KITTI["efficiency / %"] = 100 * KITTI["images/s"] / alone / KITTI["GPUs"]
KITTI["by hours / %"] = (
    100 * KITTI.groupby("batch")["hours"].transform("first") / KITTI["hours"] / KITTI["GPUs"]
)
KITTI["images, thousands"] = KITTI["batch"] * KITTI["GPUs"] * KITTI["steps"] / 1e3
display(KITTI.round({"hours": 2, "efficiency / %": 1, "by hours / %": 1, "images, thousands": 0}))

# %% [markdown]
# Read it as a detective. "Batch" is $n$, on each GPU: the steps fall with the number of GPUs, and every run
# sees the same 700,000 images. The efficiency can be had twice, from images a second and from the hours; one
# table, one run, and on 16 GPUs at batch 5 the two differ by almost two points. And the AP? At batch 5
# *easy* goes up with the GPUs, and medium and hard up and down again; at batch 16 medium falls by more than
# two points and stays there. Is that an effect of the ranks? One run each: **nobody can know**. So we build
# a small one, with seeds.
#
# The same slides say that one GPU took 27.5 hours: 24.5 of training and 3 of *validation*. **Guess:** if the
# validation stays on one GPU, how many times as fast is the whole on 16?

# %%
guesses["16 GPUs, with validation on one of them"] = None

# %%
one, sixteen = KITTI.loc[[0, 2], "hours"]
print(f"training alone: {one / sixteen:.1f} times as fast")
compare("16 GPUs, with validation on one of them", (one + 3) / (sixteen + 3), "×")

# %% [markdown]
# Amdahl's law, from one line of a table: what stays on one rank becomes the bottleneck. So validation belongs
# on all ranks, with the weighted means of 7.4.
#
# Our streets are 64×64 pixels, with two to six items of Fashion-MNIST of different sizes that may cover
# each other, and our cars are **shoes** (sandals, sneakers, boots). As in KittiBox, the network divides the
# picture into cells (8×8) and says for each: is the centre of a shoe in here, and where is its box? The
# whole program is in `runs/07_detector.py`; network and loss we build here.

# %%
program = runpy.run_path("runs/07_detector.py")
scenes, found, boxes = program["scenes"], program["found"], program["boxes"]
pictures, targets = scenes("test", 200, seed=7)
print(f"pictures {pictures.shape}, targets {targets.shape}, {targets[..., 0].sum() / 200:.2f} shoes a scene")


def detector(norm, seed=0):
    """(N, 64, 64, 1) -> (N, 8, 8, 5): for each cell a logit, the centre's place, log of height and width."""
    seeds = iter(range(100 * seed, 100 * seed + 100))
    x = image = keras.Input((64, 64, 1))
    for maps, stride in [(16, 2), (32, 2), (48, 2), (48, 1)]:
        init = keras.initializers.HeNormal(seed=next(seeds))
        x = layers.Conv2D(maps, 3, stride, padding="same", use_bias=False, kernel_initializer=init)(x)
        x = layers.ReLU()(norm()(x))
    init = keras.initializers.GlorotUniform(seed=next(seeds))
    bias = keras.initializers.Constant([-3.0, 0.5, 0.5, 0.0, 0.0])  # few cells hold a shoe
    return keras.Model(image, layers.Conv2D(5, 1, kernel_initializer=init, bias_initializer=bias)(x))


# %%
def detection_loss(target, out):
    """(N, 8, 8, 5) twice -> (N,): cross-entropy of all cells, and the error of the box where a shoe is."""
    shoe = target[..., 0]
    there = tf.nn.sigmoid_cross_entropy_with_logits(shoe, out[..., 0])
    box = tf.reduce_sum(tf.abs(target[..., 1:] - out[..., 1:]), -1)
    return tf.reduce_sum(there + shoe * box, (1, 2))  # a sum over the cells, a mean over the scenes only


# %% [markdown]
# Do you see the trap of 7.4? It is natural to divide the error of the boxes by the number of *shoes* in the
# batch. The ranks have different numbers of shoes. Our loss is a mean over scenes, of which every rank has
# $n$.
#
# Trained on 1 rank and on 2, with 5 and with 16 scenes on each rank, three seeds each. As in the table, each
# run sees the same number of scenes, so 2 ranks take half the steps. The learning rate grows with the images
# of a step, so it is smaller with 5 than with 16 and doubled on two ranks, after a warmup in the first
# fifth, and falls as a cosine (lecture 08 asks why). **Guess** the change of AP from 1 rank to 2 at batch 5,
# in points (0 to 100, on 300 scenes; a hit overlaps a box by half).

# %%
guesses["points of AP, 2 ranks against 1, batch 5"] = None


def interval(values):
    """Half of the 95% interval of the mean of three values, by Student's t."""
    assert len(values) == 3, "4.303 is Student's t for three values"
    return 4.303 * np.std(values, ddof=1) / np.sqrt(3)


# %%
record = json.loads(pathlib.Path("runs/07_detector.json").read_text())
rows = {"ranks": [], "norm": [], "speed": []}
for done in record["jobs"]:
    rows[done["part"]] += done["rows"]
runs, origin = pd.DataFrame(rows["ranks"]), record["jobs"][0]
runs["precision"] = [100 * epochs[-1]["precision"] for epochs in runs["epochs"]]
print(f"RECORDED RUNS, {origin['machine']['cpu']}, TensorFlow {origin['versions']['tensorflow']}, for the AP")
print(
    f"of {record['train']} scenes, {record['epochs']} epochs. python lectures/runs/07_detector.py submitted"
)
for done in record["jobs"]:
    print(done["submitted"][:16], done["command"])

# %%
ours = runs.pivot(index=["batch", "ranks"], columns="seed", values="precision")
steps = runs.groupby(["batch", "ranks"])["steps"].first()
display(ours.assign(mean=ours.mean(axis=1), steps=steps).round(1))
for batch in (5, 16):
    change = ours.loc[batch, 2] - ours.loc[batch, 1]  # seed by seed: the same start
    print(f"batch {batch:2}: 2 ranks against 1: {change.mean():+.1f} ± {interval(change):.1f} points")
means = ours.mean(axis=1)
compare("points of AP, 2 ranks against 1, batch 5", means[5, 2] - means[5, 1], " points")

# %%
net = detector(layers.BatchNormalization)
weights = dict(np.load("runs/07_detector.npz"))
net.set_weights([weights[str(i)].astype(np.float32) for i in range(len(weights))])
said = net.predict(pictures, verbose=0)
fig, axes = plt.subplots(1, 4, figsize=(9.8, 2.7))
for ax, picture, target, out in zip(axes, pictures, targets, said, strict=False):
    ax.imshow(picture[..., 0], cmap="gray_r")
    for (top, left, bottom, right), look in [
        *((box, {"ec": "black", "ls": ":", "lw": 1.8}) for box in boxes(target, 1)[1]),
        *((box, {"ec": palette[1], "lw": 1.8}) for s, box in zip(*found(out), strict=True) if s > 0.3),
    ]:
        ax.add_patch(plt.Rectangle((left, top), right - left, bottom - top, fc="none", **look))
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
plt.show()

# %% [markdown]
# *(Figure: four scenes of grey clothes that partly cover each other. Dotted black boxes are the shoes that
# are there; orange boxes are what a recorded network, trained on two ranks, finds with a score above 0.3.
# Most boxes are near a dotted one; shoes that are covered, and a few that are not, are missed.)*
#
# **Neither interval leaves out zero.** With 5 scenes all three runs on two ranks lie below those on one, so
# something may be lost there; three seeds cannot tell it from nothing. Now look at the table of the slides
# again: from 1 to 16 GPUs its AP moves by up to three points, up and down, as ours do from seed to seed.
# Within those, the AP survives 16 GPUs. That it rises with them at batch 5, or falls at batch 16, single
# runs do not show.
#
# ## 7.6 What does the second rank bring?
#
# Time, at last. Our ranks share one machine with two cores; each rank has one thread. "Two ranks are less
# than twice as fast" can then have three reasons: they share memory, caches and the frequency of the
# chip; they exchange gradients; and whoever is first in a step *waits* for the slower one. The recorded job
# measures, in turns of twelve steps and on two ranks: one rank **alone**, while the other waits; both
# **apart**, each training for itself; both **together**, with the exchange; and together with synchronised
# normalisation (**in sync**, 7.7). **Guess** the efficiency of two ranks that train together with 5 scenes
# each, in %. And: does it lose more or less from "apart" to "together" with 16 scenes than with 5?

# %%
guesses["efficiency of 2 ranks, 5 scenes each"] = None  # in %


# %%
def efficiencies(rows):
    """Of two ranks, in %: quartiles over the turns, for each batch and phase."""
    speed = pd.DataFrame(rows)
    speed["ms"] = 1000 * speed["s"] / speed["steps"]
    busy = speed[(speed["rank"] == 0) | (speed["phase"] != "alone")]
    slower = busy.groupby(["batch", "turn", "phase"])["ms"].max().unstack()  # of the two ranks
    print("milliseconds of a step, medians over", slower.index.levels[1].size, "turns:")
    display(slower[["alone", "apart", "together", "in sync"]].groupby("batch").median().round(1))
    shares = slower[["apart", "together", "in sync"]].rdiv(slower["alone"], axis=0)  # turn by turn
    shares["together / apart"] = slower["apart"] / slower["together"]
    return (100 * shares).groupby("batch").quantile([0.25, 0.5, 0.75]).unstack()


# %%
def draw_efficiencies(quartiles):
    """Bars from the medians, error bars over the middle half of the turns."""
    _, ax = plt.subplots(figsize=(7.6, 3.2))
    for i, (phase, hatch) in enumerate({"apart": "", "together": "//", "in sync": "xx"}.items()):
        low, middle, high = (quartiles[phase, q].to_numpy() for q in (0.25, 0.5, 0.75))
        look = {"color": "white", "edgecolor": palette[i], "hatch": hatch, "label": phase}
        ax.bar(np.arange(2) + 0.27 * i - 0.27, middle, 0.25, yerr=(middle - low, high - middle), **look)
    deck = KITTI[KITTI["GPUs"] == 16]["efficiency / %"].to_numpy()
    ax.plot(np.arange(2), deck, "D", color="black", label="KittiBox on 16 GPUs")
    ax.axhline(100, color="0.3", lw=0.8, marker="")
    ax.axhline(50, color="0.3", lw=1, ls=":", marker="", label="no more than one rank alone")
    ax.set_xticks(range(2), [f"{batch} scenes on each rank" for batch in quartiles.index])
    ax.set(ylabel="efficiency / %", title="Two ranks on one machine")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    plt.show()


# %%
quartiles = efficiencies(rows["speed"])
display(quartiles.round(0))
compare("efficiency of 2 ranks, 5 scenes each", quartiles.loc[5, ("together", 0.5)], "%")
draw_efficiencies(quartiles)

# %% [markdown]
# *(Figure: for 5 and for 16 scenes three bars of efficiency with error bars over the middle half of the
# turns: apart, together, in sync, each lower than the one before. Above them, near 100%, as a diamond, what
# the slides' table has for 16 GPUs; a dotted line at 50%.)*
#
# Did you guess more than 50%? Below it two ranks bring *less* than one alone: the second rank costs more
# than it does, and with 5 scenes the whole middle half of "together" lies there. What "apart" lacks to 100%
# is the price of *sharing a machine*: no byte is exchanged there, and it varies widely from turn to turn.
# "Apart" takes the slower rank once, after twelve steps; "together" takes it in *every* step. So from
# "apart" to "together" is the price of the exchange **and of the waiting**: with 5 and with 16 scenes a few
# milliseconds, for the gradient is as large. The step with 16 is longer, and the share that is left,
# "together / apart", has the higher median; the middle halves overlap. "In sync" is the dearest by far:
# eight small messages more in each step, and eight more places to wait. The slides' GPUs share neither cores
# nor clock: compare their efficiencies with "together / apart", not with "together". An efficiency without
# its baseline, one rank *where*, beside whom?, is not a number.
#
# ## 7.7 Batch normalisation with one image
#
# PFDet, a detector that came second in the Open Images challenge of 2018 by 0.0002 points of score, was
# trained on 512 GPUs with a batch of 512. Divide.

# %%
images, epochs, hours, gpus = 1.7e6, 16, 33, 512  # Open Images V4; the team's poster
print(f"{512 / gpus:.0f} image on each GPU; {images * epochs / (hours * 3600):.0f} images/s in all,")
print(f"{gpus * hours * 3600 / (images * epochs):.1f} s for an image on one GPU;", end=" ")
print(f"83% efficiency: the work of {0.83 * gpus:.0f} GPUs")

# %% [markdown]
# A detector's pictures are large, and few fit on a GPU; here it was one. But batch normalisation (lecture
# 03) takes mean and variance over the *batch*. On one image? PFDet's answer was to take them over all GPUs.
# Here is our layer; two sums describe a batch, the mean of $x$ and of $x^2$, and both are means over
# images, of which every rank has as many. So **one more all-reduce synchronises it**; its gradient is an
# all-reduce, too, which Horovod adds by itself. With `groups` one process does what several ranks do that
# do *not* synchronise: each part of the batch is normalised for itself. (Where the mean is much larger than
# the spread, $\overline{x^2} - \bar x^2$ loses its digits, and may even be below zero, whose root is no
# number: hence the maximum. In two passes, first $\bar x$ and then the mean of $(x - \bar x)^2$, it could
# not, for the price of a second all-reduce.)


# %%
class BatchNorm(layers.Layer):
    """Batch normalisation of (N, H, W, C) over each of `groups` parts of the batch, or over all ranks."""

    def __init__(self, groups=1, sync=False, momentum=0.9):
        super().__init__()
        self.groups, self.sync, self.momentum = groups, sync, momentum

    def build(self, shape):
        C = (shape[-1],)
        self.gamma, self.beta = (self.add_weight(shape=C, initializer=i) for i in ("ones", "zeros"))
        self.mean = self.add_weight(shape=C, initializer="zeros", trainable=False)
        self.variance = self.add_weight(shape=C, initializer="ones", trainable=False)

    def call(self, x, training=False):
        if not training:
            return (x - self.mean) * tf.math.rsqrt(self.variance + 1e-3) * self.gamma + self.beta
        parts = tf.reshape(x, (self.groups, -1, *x.shape[1:]))  # (groups, N / groups, H, W, C)
        moments = tf.stack([tf.reduce_mean(v, (1, 2, 3), keepdims=True) for v in (parts, parts**2)])
        if self.sync:
            moments = hvd.allreduce(moments, op=hvd.Average)  # +
        mean, variance = moments[0], tf.maximum(moments[1] - moments[0] ** 2, 0.0)  # see the text above
        for moving, now in ((self.mean, mean), (self.variance, variance)):
            moving.assign(self.momentum * moving + (1 - self.momentum) * tf.reduce_mean(now, (0, 1, 2, 3)))
        y = (parts - mean) * tf.math.rsqrt(variance + 1e-3) * self.gamma + self.beta
        return tf.reshape(y, tf.shape(x))


# %% [markdown]
# Is this the same as one process? By now you know how to ask: by the trajectory. Two ranks with 4 scenes
# each, plain and synchronised; and one process with the 8 scenes, in two groups and in one. **Predict**
# which pairs agree, and on which of the two trainings the ranks have equal *statistics*.


# %%
def few_steps(pictures, targets, mine, groups=1, sync=False, ranks=True, rate=0.02):
    """Train a few steps; the loss of each, and at the end the weights and the first moving mean."""
    if ranks:
        hvd.init()
    part = slice(hvd.rank(), None, hvd.size()) if ranks else slice(None)
    net, losses = detector(lambda: BatchNorm(groups, sync)), []
    values = [v.value for v in net.trainable_variables]
    for images in mine:  # (8,), what all ranks together see
        with tf.GradientTape() as tape:
            out = net(pictures[images[part]], training=True)
            loss = tf.reduce_mean(detection_loss(targets[images[part]], out))
        gradients = tape.gradient(loss, values)
        if ranks:
            gradients = hvd.grouped_allreduce(gradients, op=hvd.Average)
            loss = hvd.allreduce(loss, op=hvd.Average)
        for value, g in zip(values, gradients, strict=True):
            value.assign_sub(rate * g)
        losses.append(float(loss))
    return {"losses": losses, "weights": [v.numpy() for v in values], "mean": net.layers[2].mean.numpy()}


# %%
def both_ways(*data):
    """The same steps on all ranks with plain layers and with synchronised ones."""
    return {name: few_steps(*data, sync=name == "in sync") for name in ("plain", "in sync")}


data, plan = (pictures[:64], targets[:64]), np.arange(64).reshape(8, 8)  # eight steps
halves = np.concatenate([plan[:, 0::2], plan[:, 1::2]], axis=1)  # in one process: first rank 0's scenes
ranked = submit(both_ways, *data, plan, ranks_per_node=2).results(progress=False)
alone = {f"one process, {g} group(s)": few_steps(*data, halves, g, ranks=False) for g in (2, 1)}

# %%
apart = pd.DataFrame(index=["plain", "in sync"], columns=list(alone), dtype=float)
for name in apart.index:
    first, second = (rank[name] for rank in ranked)
    for other, reference in alone.items():
        apart.loc[name, other] = np.abs(np.subtract(first["losses"], reference["losses"])).max()
    same = all(np.array_equal(a, b) for a, b in zip(first["weights"], second["weights"], strict=True))
    apart.loc[name, "weights equal"] = "yes" if same else "no"
    apart.loc[name, "statistics differ by"] = np.abs(first["mean"] - second["mean"]).max()
display(apart.style.format("{:.1g}", subset=apart.select_dtypes("number").columns))

# %% [markdown]
# The diagonal agrees to the rounding of float32 (in sync a little less well, perhaps since $\overline{x^2} -
# \bar x^2$ cancels digits), the rest does not: **p ranks with plain batch normalisation are not one process
# with a batch of $pn$**, they are a network that is normalised in $p$ parts. What couples the images of a
# batch, a parallel training changes; here it is the *network* that changes, and the second test of 7.2 finds
# it.
#
# And the columns on the right are the trap that lecture 03 promised. With plain layers the ranks have equal
# *weights*, to the last bit, and different moving statistics, since nobody ever averaged them. They have no
# gradient. The checkpoint of rank 0 has rank 0's; a digest of the weights alone says that all is well. What
# does it cost? The recorded network of 7.5 and one scene in each step on each of 8 ranks, which watch 30 of
# them: **guess** by how many points its AP differs between the best and the worst rank's statistics.

# %%
guesses["points between the best and the worst statistics"] = None

# %%
watched, _ = scenes("train", 8 * 30)
net, statistics = detector(BatchNorm), []
look = tf.function(lambda scene: net(scene, training=True))


def score(values):
    """AP with these weights and statistics."""
    net.set_weights(values)
    return 100 * program["average_precision"](targets, net(pictures).numpy())


for mine in np.split(watched, 8):
    net.set_weights([weights[str(i)] for i in range(len(weights))])
    for scene in mine:
        look(tf.constant(scene[None]))
    statistics.append(net.get_weights())
own = np.sort([score(values) for values in statistics])
average = score([np.mean(values, axis=0) for values in zip(*statistics, strict=True)])
print("AP / % with the statistics of one rank:", *own.round(1), f"with their average: {average:.1f}")
compare("points between the best and the worst statistics", own[-1] - own[0], " points")

# %% [markdown]
# One set of weights, eight checkpoints, and which of them you publish depends on who saves. **Average the
# statistics before you test or save.** (The mean of the ranks' variances leaves out the variance *between*
# their means. Here all ranks draw from one pool, and it is small; where they see unlike images, add it.)
#
# Does normalising in parts matter for what is *learned*? Recorded runs in one process, which does in
# `groups` what ranks would do: in each step 16 scenes, and the only thing that changes is over how many of
# them a rank normalises, 16, 4, 2, or 1. They are tested with the *average* of the statistics, and are
# shorter than those of 7.5, so do not compare the two. **Guess:** how many points of AP are lost with one
# scene on each of 16 ranks?

# %%
guesses["points lost with 1 scene on each of 16 ranks"] = None

# %%
norm = pd.DataFrame(rows["norm"])
norm["scenes on a rank"] = record["global"] // norm["groups"]
norm["precision"] *= 100
seeds = norm.pivot(index="scenes on a rank", columns="seed", values="precision")
lost = seeds.loc[16] - seeds  # seed by seed: the same start, the same shuffles
lost = lost.assign(mean=lost.mean(axis=1), interval=lost.apply(interval, axis=1))
print(f"RECORDED RUNS of {record['norm_epochs']} epochs: AP / %; points lost against 16, ± 95% interval")
display(seeds.assign(lost=lost["mean"], interval=lost["interval"]).round(1).rename(columns={"interval": "±"}))
compare("points lost with 1 scene on each of 16 ranks", seeds.loc[16].mean() - seeds.loc[1].mean(), " points")

# %% [markdown]
# **Every interval holds zero.** With a single scene the mean is lowest, and three seeds cannot tell this
# loss from none. One thing is sure: it is not the collapse that we had expected. What was wrong with the
# expectation? In a convolutional network the mean is not taken over $n$ numbers, but over $nHW$: one scene
# has 1,024 pixels in our first layer, and still 64 in the last. One image is a poor sample of images, and a
# fair one of pixels. Where each image gives a *single* number, after a global average or in a fully
# connected layer, it is the end:

# %%
rng = np.random.default_rng(7)
for n in (1, 2, 16):
    features = rng.normal(5, 3, (n, 1, 1, 1)).astype(np.float32)  # one number for each image
    print(f"n = {n:2}:", BatchNorm()(features, training=True).numpy().ravel()[:6].round(2) + 0.0)

# %% [markdown]
# With one image $x - \mu$ is zero, whatever is in the picture: the network is blind, and its gradient is
# zero. With two, it sees which of the two is larger, and no more. So the question to ask of a network is not
# "how many images on a rank?" but "over how many *values* does each layer normalise, and how alike are
# they?" Why PFDet needed it with photographs, we cannot see in 64×64 pixels. The price is eight more small
# messages ("in sync" in 7.6): each costs its latency (lecture 06), and waits for the next cycle of Horovod's
# background thread.
#
# ## 7.8 A gallery of bugs
#
# A to D and G were found in published course material, teaching logs and issue trackers; E and F are what 7.7
# and 7.3 look like from outside. None of them raised an error. You get the **symptom**; name the bug, and the
# cheapest test that would have found it, before you open the answer.
#
# **A.** *The loss of two ranks is, digit for digit, the loss of one rank, step by step.*
#
# <details><summary>Answer</summary>
#
# No shards: all ranks draw the same batches from the same seed. The mean of two equal gradients is that
# gradient; if the learning rate was scaled, it is p times too high. Test: the set of images that all ranks
# together saw in an epoch (7.3). Comparing *weights* finds nothing: the ranks agree perfectly.
# </details>
#
# **B.** *In the table of results the rows "with batch normalisation" and "with warmup" differ by 0.3 points.*
#
# <details><summary>Answer</summary>
#
# The two committed scripts were equal, byte for byte: the difference is that of two runs. Test: more than one
# seed, and the hash of what was run (`submit` has it: the `key` of a job).
# </details>
#
# **C.** *1 GPU, 10 epochs: 0.740. 2 GPUs, 10 epochs: 0.777. 4 GPUs, 2 epochs: 0.487, and again: 0.1000.*
#
# <details><summary>Answer</summary>
#
# The beginning of this lecture. The exercise had no shards and no warmup, and one cannot compare 10 epochs
# with 2. Without shards "2 GPUs, 10 epochs" is as many updates as on one GPU: not a faster training, but the
# same once more, if all draw the same batches, or one with larger batches, if each shuffles for itself. And
# 0.487 and 0.1000 from one script? 4 times the learning rate without a warmup *can* do that. The cell below
# tries.
# </details>
#
# **D.** *Every log says "rank 0 of 1", each line stands there twice, and the job is as fast as on one GPU.*
#
# <details><summary>Answer</summary>
#
# Horovod started without finding the others, and trains p times alone: each process has size 1, and no
# error is raised (Horovod issues 1646, 2588). Test: compare `hvd.size()` with the number of processes that
# you asked for; `submit` does so before your code runs.
# </details>
#
# **E.** *The log says, say, 91% on the test images; the checkpoint, loaded again, has 84%.*
#
# <details><summary>Answer</summary>
#
# The log averaged what each rank got with *its* statistics, the checkpoint holds those of rank 0 (7.7). Or it
# was rank 0's part of the test images that had 91 (7.4). Test: one process, from the checkpoint.
# </details>
#
# **F.** *The first epoch runs through, its last line is "evaluating", and then nothing happens any more.*
#
# <details><summary>Answer</summary>
#
# `if hvd.rank() == 0: evaluate()`, and somewhere in `evaluate`, or in a callback, stands an all-reduce (of a
# metric, of the statistics of 7.7). Rank 0 waits in it, the others in the first gradient of the next epoch.
# Test: no collective under an `if` on the rank. All ranks compute; rank 0 *writes*.
# </details>
#
# **G.** *The notebook says 78% in one paragraph and 77% in the next, the table 76.9.*
#
# <details><summary>Answer</summary>
#
# Somebody typed results into the text, and ran again. Test: no number in prose that a cell can print. Our own
# house rule; look for a place where this lecture breaks it.
# </details>
#
# And the die of **C**. *If* all four ranks drew the same batches, and *if* the rate was multiplied by 4 (the
# log says neither), they were one process with $4\eta$, so one process can try it. LeNet-5 with ReLU, 6,400
# images once, momentum 0.9, six seeds for each learning rate. **Predict** the spread of the accuracy over
# the seeds, for $\eta$ and for $4\eta$.


# %% tags=["measured"]
def accuracy(rate, seed, batch=64):
    """Of LeNet-5 on 1,000 test images, after 6,400 training images; NaN counts as wrong."""
    net, optimizer = models.lenet5(seed, activation="relu"), keras.optimizers.SGD(rate, momentum=0.9)
    optimizer.build(net.trainable_variables)
    values = [v.value for v in net.trainable_variables]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))
        optimizer.apply(tape.gradient(loss, values), net.trainable_variables)

    x, y = fashion_mnist("train", 6400)
    for images in np.random.default_rng(seed).permutation(6400).reshape(-1, batch):
        step(x[images], y[images])
    x, y = fashion_mnist("test", 1000)
    logits = net(x).numpy()
    return np.mean((logits.argmax(1) == y) & np.isfinite(logits).all(1))


ETA = 0.04
die = pd.DataFrame({f"{k}η = {k * ETA}": [accuracy(k * ETA, seed) for seed in range(6)] for k in (1, 4)})
display(die.T.rename_axis("seed", axis=1).round(3))

# %% [markdown]
# In the upper row all six learn. In the lower, with four times the learning rate from the first step on, one
# ends at chance, and the others spread far more widely. So luck *suffices* for two such last numbers; that it
# was the cause, with another network and unknown settings, this does not show. **A single run near the brink
# is not a result.** The warmup of lecture 08 is what takes the die away.
#
# ## 7.9 The same program on a GPU cluster
#
# **Nothing in this section was run here**: this machine has no GPU. What would change? In the program, three
# lines at the start, before anything touches a GPU:
#
# ```python
# hvd.init()
# gpus = tf.config.list_physical_devices("GPU")                             # + those that this rank can see
# tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")  # + of these it takes its own
# ```
#
# *Pinning*: one GPU for each rank, chosen by its **local** rank, its number on its own node. Without it
# every rank sees all GPUs of the node, allocates memory on each, and computes on the first: the symptom is
# one busy GPU, or "out of memory" with a small network. The `%` is for schedulers that show each task only
# its own GPU, which then has the number 0. (Here, without a GPU, the line divides by zero.)
#
# In the *job*, the resources: `submit(train, nodes=2, ranks_per_node=4, gpus_per_rank=1)`. What Slurm would
# get, for the job of 7.2 with these:

# %%
asked = job.spec["options"] | {"nodes": 2, "ranks_per_node": 4, "gpus_per_rank": 1}
text = batch_script.script(job.spec | {"options": asked, "ranks": 8}, job.folder)
print(text.replace(str(job.folder), "RUN").replace(sys.prefix, "VENV"))

# %% [markdown]
# And under the all-reduce another library. Ours is Gloo, over the loopback of this machine. Horovod built
# with `HOROVOD_GPU_OPERATIONS=NCCL` leaves the *coordination* (which gradients are ready on all ranks?) to
# MPI or Gloo, and moves the *data* with NCCL from GPU to GPU, without a copy through the CPU.
# `NCCL_DEBUG=INFO` prints the way it has chosen; a line "NET/Socket" where you expect "NET/IB" explains a
# bad scaling table. The program stays the same, and so do its mistakes; where a GPU computes the step many
# times as fast, the exchange must follow.
#
# ## What was learned
#
# 1. p ranks with batches of $n$ are one process with batches of $pn$, by a broadcast, shards of one shuffle
#    and a mean gradient: five marked lines.
# 2. Wrong versions learn. The loss does not know what you meant; two tests do: *equal to the last bit
#    between ranks*, and *the trajectory of one process*, up to rounding. The first alone misses most.
# 3. One shuffle, new in each epoch, the same on all ranks. With a shuffle each, $(1 - 1/p)^p$ of the data is
#    missed. With unequal steps the ranks pair the wrong steps first, and hang later, or do not even hang.
# 4. Every image weighs $1/pn$: in gradients, in metrics, in losses that divide by objects. One rank writes;
#    all ranks' metrics and statistics count.
# 5. What couples the images of a batch changes on p ranks. Inside the network that is batch normalisation,
#    and one all-reduce changes it back; its statistics must be averaged, too.
# 6. An efficiency has several parts: sharing a machine, exchanging, waiting for the slower rank, and what
#    was left on one rank. And three seeds are few: write the interval beside the difference.
#
# **Open questions.** (a) What would it cost if one of 512 ranks were 10% slower than the others, and does
# synchronised batch normalisation make it worse? (b) How would you find a mistake that both versions of the
# second test share?
#
# **Exercises.** Assignment 07, *Make it data-parallel*, asks you to convert a training of LeNet-5 and to
# prove it by its trajectory, and to diagnose broken scripts. Beyond it:
#
# 1. Add a mistake of your own to `BROKEN`, one line, and predict its row in the table first.
# 2. In `p_ranks`, average the *weights* after each step in place of the gradients. Is it the same? And if
#    you average them only once an epoch?
# 3. Divide `detection_loss` by the number of shoes in the batch. How far is the trajectory of two ranks from
#    that of one process now, and what would you have to average to mend it?
# 4. Make `order.reshape(-1, p, n)` work for 250 images, without a remainder that is left out and with equal
#    steps.
#
# Next: **[08, large batches](08_large_batches.ipynb)**: the learning rate that we doubled without asking.
# Before: **[03](03_from_lenet_to_resnet.ipynb)** on batch normalisation and
# **[01](01_convolution_as_gemm.ipynb)** on what a rank computes.
