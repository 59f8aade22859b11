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
# weights $w$. (Goyal et al. write $k$ for our $p$: their $kn$ is our $pn$.)

# %%
import difflib
import inspect
import json
import os
import pathlib
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # read when TensorFlow is imported
os.environ.setdefault("CLUSTER_RUNS", "../runs")  # this lecture's jobs; runs/ here holds the recorded ones

import horovod.tensorflow as hvd
import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display
from keras import layers

from cluster import submit
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
# which of the two one falls:

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


def draw(ax, paths, title):
    """The surface, and on it one path for each rank."""
    ax.contour(A, B, SURFACE, np.geomspace(SURFACE.min() + 0.005, 4, 14), colors="0.75", linewidths=0.8)
    for rank, path in enumerate(paths):
        look = {"color": palette[rank], "ls": ["-", "--"][rank], "lw": [2.6, 1.5][rank]}
        ax.plot(*path.T, marker="", label=f"rank {rank}", **look)
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
# *(Figure: contour lines of a loss with two valleys, one at the upper right, where both weights are positive,
# and its mirror image at the lower left; between them a saddle at the origin. A path starts at the lower
# right, near the ridge. With batches of 2 it crosses to the lower left valley, with batches of 4 it ends in
# the upper right one; at its end each path zigzags.)*
#
# Two honest trainings, from one start, over the same images in the same order. One ends in one valley, one
# in the other: near the ridge it takes only a different *batch*. This makes our little network a sensitive
# instrument: what changes a step, changes the end. Real networks have ridges everywhere.

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
# ![One shuffle of sixteen images, cut into steps of four, each step into two halves; the first half of each
# step goes to rank 0, the second to rank 1. Each rank computes a gradient from its half; the two meet in an
# all-reduce, from which the same mean goes back to both, and both take the same step from equal weights to
# equal weights.](figures/07_ranks.svg)
#
# Horovod gives us the four things we need: which rank we are, how many there are, a broadcast, an
# all-reduce. The program, with `# +` where distribution adds something:


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
# weights? And in how many is the training the one that a single process would have done?

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
# a constant distance; neither ends in a valley. No averaging: from one start the paths part and end in
# opposite valleys. Sum for mean: they coincide, go the right way and end in wide zigzags. The same images,
# and a shuffle each: they coincide, and end in the other valley.)*
#
# Take your time with this picture; each panel is a bug report.
#
# - **Right.** The paths lie on each other, to the last bit, and are the path of one device with twice the
#   batch (7.1).
# - **No broadcast.** Both ranks take the *same* step, from different places: the distance between them never
#   changes. Each gets the mean of two gradients, of which neither is its own. They come to rest where the two
#   gradients *cancel*, and that is no minimum of anything: look at the loss below.
# - **No averaging.** Two trainings that know nothing of each other. Here they end in opposite valleys, and the
#   one that is thrown away has cost as much as the other.
# - **Sum for mean.** Each step is p times too long: the learning rate is secretly $p\eta$. Fine in a valley
#   that is wide enough, a divergence in one that is not, and it gets worse with every rank that is added.
# - **The same images, a shuffle each.** The paths coincide, the loss falls, and it is the wrong path.
#
# A picture is not a test, and real networks have more than two weights. **Two numbers** are left: how far the
# ranks are from each other, and how far rank 0 is from one process with batches of $pn$.

# %%
reference = one_device(x, y, 2 * BATCH)
table = pd.DataFrame(index=list(BROKEN))
table["between the ranks"] = [np.abs(first[name] - second[name]).max() for name in BROKEN]
table["from one process"] = [np.abs(first[name] - reference).max() for name in BROKEN]
ends = np.array([first[name][-1] for name in BROKEN])
table["loss of rank 0 at the end"] = loss(*ends.T)
display(table.style.format("{:.2g}"))
wrong = table.drop(index="right")
compare("mistakes after which the ranks differ", (wrong["between the ranks"] > 0).sum())
one_process = wrong["from one process"] < 1e-9
compare("mistakes that are still the training of one process", one_process.sum())

# %% [markdown]
# The first test is cheap: compare the weights of all ranks, or a *digest* of them, now and then. It finds
# what parts the ranks, and only that. Three of five mistakes pass it. The second test, **p ranks must give
# the trajectory of one process on the same global batch**, fails for all of them. It costs a few steps on one
# device, so run it once for every training program you write; assignment 07 makes a tool of it.
#
# Two more lessons are in the numbers. The right version differs from one process by a few $10^{-16}$: the
# mean of two means is not rounded like one mean. "Equal" must be a *tolerance* here, and between ranks it
# must not: ranks that took equal steps are equal to the last bit. And the last column tells you nothing at
# all: judged by the loss, "the same images" is as good as the right version. **The loss does not know what
# you meant to do.**
#
# <details><summary>In real courses one meets "sum for mean" together with Adam, and nobody notices.
# Why?</summary>
#
# Adam divides the mean gradient by the root of the mean of its square. Twice the gradient is twice both, so
# the step stays the same (but for its $\epsilon$). The bug sleeps until somebody takes SGD, clips gradients,
# or adds weight decay to the gradient.
# </details>
#
# ## 7.3 Which images does the machine see?
#
# "The same images" and "a shuffle each" are mistakes of the **shards**, the parts of an epoch that the ranks
# see. Disjoint shards need *one* shuffle, which all ranks draw from the same seed, and of which each takes
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
# Each image has $p$ chances of $1/p$ to be drawn. For many ranks $1/e$ of the data is missed in each epoch,
# and as much work is done twice or more. In the *next* epoch others are missed, so the training still
# converges to something good; the epoch is only worth less than it says.
#
# With `tf.data` the same mistake looks like this. Both pipelines are found in real course material. **Which
# of the two is right?** Decide before you run the cell.


# %%
def shards_of(pipeline, p=2):
    """The elements that each of p ranks sees: every rank builds the pipeline for itself."""
    data = tf.data.Dataset.range(1000)
    return [np.concatenate(list(pipeline(data, p, r).as_numpy_iterator())) for r in range(p)]


PIPELINES = {
    ".shuffle(1000).batch(10).shard(p, r)": lambda d, p, r: d.shuffle(1000).batch(10).shard(p, r),
    ".shard(p, r).shuffle(1000).batch(10)": lambda d, p, r: d.shard(p, r).shuffle(1000).batch(10),
}
for name, pipeline in PIPELINES.items():
    shards = [shards_of(pipeline) for _ in range(2)]
    both, seen = np.intersect1d(*shards[0]), np.unique(np.concatenate(shards[0]))
    same = set(shards[0][0]) == set(shards[1][0])
    print(f"{name}: {len(both)} images on both ranks, {1000 - len(seen)} on none;", end=" ")
    print("rank 0 sees the same images in every epoch" if same else "others in the next epoch")

# %% [markdown]
# The first shuffles on each rank anew and shards the result: not disjoint. The second shards first: disjoint,
# covering, and yet each rank sees *its* part for ever, in another order. That is a training on a fixed
# partition. Its mean gradient is still over all images, so it is no disaster, but it is not SGD over the data
# set either: two images of the same shard never meet images of their own rank's neighbours in another
# combination, and when the file is sorted by class in blocks, each rank becomes a specialist. What we want is
# a shuffle of the *whole*, new in each epoch, the same on all ranks: the two lines of `p_ranks`.
#
# ### Equal steps
#
# 1,003 images do not go round on two ranks. What happens if rank 0 simply gets one more? In our program the
# remainder is cut off (by `reshape`, which would refuse it). Here is a loop that does not care, as one would
# write it first, and it reports its loss at the end, averaged over the ranks.


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


def watch(job):
    """Wait until the job ends, or neither rank has printed anything for four seconds; show what they said."""
    said, since = [], time.monotonic()
    while not job.status.ended and time.monotonic() - since < 4:
        now = [job.logs(rank) for rank in range(job.ranks)]
        if now != said or not all(now):
            said, since = now, time.monotonic()
        time.sleep(0.1)
    print("it has ended" if job.status.ended else "it hangs: nobody has said anything for four seconds")
    job.cancel()
    lines = [pd.Series(log.split("Traceback")[0].splitlines()) for log in said]
    display(pd.DataFrame({f"rank {r}": column for r, column in enumerate(lines)}).fillna(""))


# %% [markdown]
# **Predict:** seven images, two epochs; four steps an epoch on rank 0, three on rank 1. In which epoch does it
# hang, and in which line of the program is each rank then?

# %%
watch(submit(uneven, ranks_per_node=2, time="00:01:00", rerun=True))

# %% [markdown]
# Did you say: in the first epoch, at image 6? Read the rows. Rank 0's *last* image of epoch 0 was averaged
# with rank 1's *first* image of epoch 1, and nobody complained: a collective has a **name**, each side calls
# it once more, and one step looks like another. From there on the ranks train on different epochs, a step
# further apart in each; and only at the very end rank 0 waits for two gradients that will never come, while
# rank 1 waits in the mean of the loss. **A job that hangs at 100% has unequal steps**, and where it hangs is
# not where the mistake is. (Had every epoch ended with a mean of its own, it would have hung there.)
#
# The two collectives above were compiled with `tf.function`. The same once more without:

# %%
watch(submit(uneven, ranks_per_node=2, time="00:01:00", compiled=False, rerun=True))

# %% [markdown]
# Now it does *not* hang. Look at the last rows: rank 1's mean "loss" is the mean of its loss, 100, and of a
# *gradient* of rank 0. We had expected that the two names would keep them apart. Outside a `tf.function`,
# TensorFlow keeps one compiled kernel for all operations of a kind, and it seems that Horovod sees only the
# name with which this kernel was first made: both are "gradient" to it. Two scalars of one type fit together,
# so they were paired. Then rank 1 was done and went home, and rank 0's last call ended with the error "Horovod
# has been shut down", on the rank that had done nothing wrong. We found this while writing the lecture. A hang
# is the *kinder* symptom.
#
# So: give all ranks $\lfloor N/p \rfloor$ images, and leave out the rest, others in each epoch. Where nothing
# may be left out, as in testing, ranks may have different *numbers of images* if every rank makes the same
# *number of calls*, and the mean is weighted.
