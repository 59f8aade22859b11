# %% [markdown]
# # 8 · Large batches
#
# **With 32 times as many images in a step, may the step be 32 times as long?**
#
# Lecture [07](07_data_parallel_training.ipynb) made $p$ processes one training: each rank keeps its $n$
# images, so an update sees $kn$ of them, with $k = p$ ranks. That is no longer only engineering: a batch of
# 8,192 images is another algorithm than one of 256. The slide from which this course started says what it
# costs on ImageNet: trained with 256 images an update, ResNet-50 errs on 23.60% of the test photographs;
# with 8,192, and nothing else changed, on more than 41%. Within a year several groups had closed this gap.
#
# We aim at
#
# 1. **deriving** the linear and the $\sqrt k$ rule for the learning rate from what each keeps the same;
# 2. **measuring** where their assumptions hold: how bent the loss is, and how noisy a gradient;
# 3. **comparing** rules and warmups in matched pairs, with five seeds and intervals;
# 4. counting what a larger batch buys in **steps to a target**;
# 5. recognising classical mistakes by what they do to the numbers;
# 6. saying what a small experiment can and cannot show about ImageNet.
#
# Notation: $n$ images of a rank and an update, $k$ ranks, $\eta$ the learning rate that suits one rank,
# $\ell$ the loss, $w$ all weights as one vector.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=2)

# %%
import ast
import json
import linecache
import math
import pathlib
import runpy
import sys

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import Markdown, display

# %% [markdown]
# ## 8.1 What a large batch costs: updates
#
# A training is paid for in epochs: each image is looked at so many times, 90 in the classical training of
# ResNet-50. So $k$ times the batch means a $k$-th of the updates. **Guess:** how often are the weights of
# ResNet-50 changed in 90 epochs of ImageNet with a batch of 8,192?

# %%
guess("updates of ResNet-50 at a batch of 8,192", None)

# %%
IMAGENET, SMALL = 1_281_167, 12_288  # training images: ImageNet's, and those of our experiment


def updates(images, epochs, batches):
    """A row for each batch: its share of the images, updates of an epoch, and of the whole training."""
    table = pd.DataFrame({"batch": batches})
    table["batch / images, %"] = 100 * table["batch"] / images
    table["updates an epoch"] = images // table["batch"]
    table["updates"] = epochs * table["updates an epoch"]
    return table.set_index("batch")


imagenet = updates(IMAGENET, 90, [256, 8192, 32768])
ours = updates(SMALL, 10, [32, 256, 1024, 4096])
display(imagenet.round(2), ours.round(2))
compare("updates of ResNet-50 at a batch of 8,192", imagenet.loc[8192, "updates"])

# %% [markdown]
# The second table is our own experiment: 12,288 images of Fashion-MNIST, 10 epochs, 32 images a rank. It
# has the same *ratio* of batches, 32 ranks against one. But our large batch is a much larger share of the
# images, and the whole training has few updates: an extreme case, to which 8.9 comes back.
#
# A large batch needs no cluster. One GPU can add up the gradients of $k$ small batches before it changes the
# weights: **gradient accumulation**, the same update in $k$ times the time. Goyal et al. (2017, arXiv
# 1706.02677) made their batches above 8,192 in this way.
#
# ## 8.2 One long step for k short ones
#
# Start at $w_t$ and make $k$ small steps with the batches $B_0 \ldots B_{k-1}$, or one step with all of
# them, at a rate $\hat\eta$:
#
# $$w_{t+k} = w_t - \eta \sum_{j<k} \nabla\ell(B_j, w_{t+j}), \qquad
# \hat w_{t+1} = w_t - \hat\eta\,\frac1k \sum_{j<k} \nabla\ell(B_j, w_t).$$
#
# The two differ only in *where* the gradients are taken. If the gradient hardly changes on the way, both
# arrive at the same point with $\hat\eta = k\eta$: **the linear rule**, as Goyal et al. derive it. They call
# the assumption strong.
#
# ![Contour lines of a loss with a path of eight short steps and one long step. Left, in a round bowl, both
# end close together. Right, in a bent, narrow valley, the long step ends high on the opposite
# wall.](figures/08_steps.svg)
#
# An assumption can be measured. We take the script with which all networks of this lecture were trained (a
# small residual network like those of lecture 03; 8.4 looks at it), at its start and after one epoch, with
# three seeds.


# %%
experiment = runpy.run_path("runs/08_large_batches.py")  # the variants of the script, and how they were run


def load(variant, k=1, seed=0, change=("", "")):
    """What a variant's script defines, as a dictionary; it trains only when its main() is called."""
    text = experiment["script"](variant).replace(*change)
    file = f"train.py of {variant}, k = {k}, seed {seed}, {change}"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # TensorFlow reads it there
    sys.argv = ["train.py", str(k), str(seed)]
    names = {"__name__": "train"}
    exec(compile(text, file, "exec"), names)
    names["log"] = lambda **numbers: None  # outside a job
    return names


stages = {}  # (seed, stage): weights
for seed in range(3):
    code = load("plain", seed=seed)
    code["EPOCHS"] = 1  # the first of ten
    model = code["network"]()
    stages[seed, "start"], stages[seed, "after 1 epoch"] = model.get_weights(), code["main"]()[2]
x, y = code["images"]("train", SMALL)
print(f"{model.count_params():,} weights, images {x.shape}")

# %% [markdown]
# We treat all weights as one vector, as the formulas do.

# %%
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
trained = model.trainable_variables


def position():
    """All trainable weights as one vector."""
    return np.concatenate([w.numpy().ravel() for w in trained])


def move_to(vector):
    """Give the network the weights of a vector."""
    ends = np.cumsum([math.prod(w.shape) for w in trained])[:-1]
    for w, part in zip(trained, np.split(vector, ends), strict=True):
        w.assign(part.reshape(w.shape))


@tf.function(reduce_retracing=True)
def gradient_of(x, y):
    """Loss of a batch, and its gradient as one vector."""
    with tf.GradientTape() as tape:
        loss = cross_entropy(y, model(x, training=True))
    gradients = tape.gradient(loss, [w.value for w in trained])
    return loss, tf.concat([tf.reshape(g, [-1]) for g in gradients], 0)


# %% [markdown]
# **Guess:** we make 32 steps of plain SGD (no momentum) with 32 images each at $\eta = 0.1$, and from the
# same point one step with all 1,024 images at $32\eta = 3.2$. What is the cosine of the angle between the
# two displacements (1: the same direction, 0: a right angle)? And where is the agreement better, at the
# start or after an epoch?

# %%
guess("cosine of long and short, start", None)
guess("cosine of long and short, after 1 epoch", None)


@tf.function(reduce_retracing=True)
def walk(x, y, eta):
    """A step of plain SGD for each batch: x (steps, n, 14, 14, 1), y (steps, n)."""
    for i in tf.range(tf.shape(x)[0]):
        with tf.GradientTape() as tape:
            loss = cross_entropy(y[i], model(x[i], training=True))
        for w, g in zip(trained, tape.gradient(loss, [w.value for w in trained]), strict=True):
            w.assign_sub(eta * g)


def loss_at(vector, x, y):
    """The loss of a batch with the weights of a vector."""
    move_to(vector)
    return float(cross_entropy(y, model(x, training=True)))


# %% tags=["measured"]
n, k, order = 32, 32, np.random.default_rng(8).permutation(SMALL)
whole, rows = order[: k * n], []
batches = whole.reshape(k, n)
for (seed, stage), weights in stages.items():
    model.set_weights(weights)
    here = position()
    before, g = gradient_of(x[whole], y[whole])  # each n is normalised by itself
    for eta in (0.01, 0.03, 0.1, 0.3):
        move_to(here)
        walk(x[batches], y[batches], tf.constant(eta, tf.float32))
        short, long = position() - here, -k * eta * g.numpy()
        cosine = short @ long / np.linalg.norm(short) / np.linalg.norm(long)
        row = {"stage": stage, "kη": k * eta, "seed": seed, "cosine": cosine}
        for name, way in {"long": long, "short": short}.items():
            row[f"{name} / here"] = loss_at(here + way, x[whole], y[whole]) / float(before)
        rows.append(row)
both = pd.DataFrame(rows)
steps = both.groupby(["stage", "kη"], sort=False)[["cosine", "short / here", "long / here"]].mean()
display(steps.round(3))
for stage in ("start", "after 1 epoch"):
    compare(f"cosine of long and short, {stage}", steps.loc[(stage, k * 0.1), "cosine"])

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
for i, stage in enumerate(("start", "after 1 epoch")):
    some, points = steps.loc[stage], both[both["stage"] == stage]
    style = {"color": palette[i], "marker": "os"[i]}
    axes[0].plot(points["kη"], points["cosine"], ls="", mfc="w", **style)
    axes[0].plot(some.index, some["cosine"], ls="-", label=stage, **style | {"marker": ""})
    axes[1].plot(some.index, some["short / here"], ls="-", label=f"{stage}, 32 short", **style)
    axes[1].plot(some.index, some["long / here"], ls="--", mfc="w", label=f"{stage}, one long", **style)
for ax in axes:
    ax.set(xscale="log", xlabel=r"rate of the long step, $k\eta$")
    ax.set_xticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
axes[0].set(ylim=(0, 1.05), ylabel="cosine", title="Do both go the same way?")
axes[1].axhline(1, color="0.4", lw=0.8, marker="", ls="-")
axes[1].set(yscale="log", ylabel="loss after / loss before", title="Does the loss fall?")
axes[1].set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
axes[1].minorticks_off()
axes[0].legend()
axes[1].legend(fontsize=8)
plt.show()

# %% [markdown]
# *(Figure: left, the cosine of long and short against the rate, three seeds; it falls from nearly 1, and at
# the start earlier than after an epoch. Right, loss after over loss before: the short steps always lower it,
# the long one only up to a rate of about 1.)*
#
# The assumption holds for short ways only. And at **equal rates**, which is what a rule for the rate must
# be judged by, the agreement is worse at the start: the classical reason for a **warmup**. Is the loss more
# bent there? The derivative of the gradient is the Hessian $H$, and its product with a vector needs no
# Hessian, only two gradients: $Hv \approx (\nabla\ell(w + \epsilon v) - \nabla\ell(w - \epsilon v)) /
# 2\epsilon$. With it we measure the curvature along the gradient, $c = g^\top H g / |g|^2$, and by power
# iteration a lower bound of the largest eigenvalue. On a parabola of curvature $c$ a step lowers the loss
# if its rate is below $2/c$. **Guess** $c$ at the start.

# %%
guess("curvature along the gradient, start, mean of three seeds", None)


def hessian_times(v, here, some, epsilon=0.01):
    """H v at `here`, of the loss on some images."""
    sides = []
    for sign in (1, -1):
        move_to(here + sign * epsilon * v)
        sides.append(gradient_of(x[some], y[some])[1].numpy())
    move_to(here)
    return (sides[0] - sides[1]) / (2 * epsilon)


# %% tags=["measured"]
rows = []
for (seed, stage), weights in stages.items():
    model.set_weights(weights)
    here, g = position(), gradient_of(x[whole], y[whole])[1].numpy()
    v = g / np.linalg.norm(g)
    found = []
    for _ in range(9):
        product = hessian_times(v, here, whole)
        found.append(float(v @ product))
        v = product / np.linalg.norm(product)
    row = {"seed": seed, "stage": stage, "|g|": np.linalg.norm(g), "c": found[0], "2 / c": 2 / found[0]}
    rows.append(row | {"largest eigenvalue ≥": max(found)})
curvature = pd.DataFrame(rows).pivot(index="seed", columns="stage")
display(curvature.round(2))
compare("curvature along the gradient, start, mean of three seeds", curvature["c", "start"].mean())

# %% [markdown]
# In each seed the start is the more bent place, along the gradient and in the steepest direction that was
# found, which shortens the rate that one step can bear; and the gradient is longer, so that the same rate
# leads further away. A warmup begins with short steps where they are needed. (Three seeds and one batch
# each: a direction, not a law.) But after an epoch $2/c$ is around $k\eta = 3.2$: the rule's rate is long
# for a parabola even then. The experiment below, with momentum 0.9, moves in the long run another $1/(1 -
# 0.9) = 10$ times as far. Where the linear rule works nevertheless, it works for more reasons than its
# derivation has.

# %% [markdown]
# ## 8.3 How noisy is a gradient?
#
# What is a large batch *good* for? The gradient of $n$ images is that of all images, $G$, plus noise; drawn
# independently, $kn$ images have a $k$-th of its variance:
#
# $$\mathrm E\,|g_{kn}|^2 = |G|^2 + \operatorname{tr}\Sigma\,/\,kn .$$
#
# $\Sigma$ is the covariance of one image's gradient, its trace the sum of the variances of all weights.
# Where the second term is the larger one, a step is mostly noise, and a larger batch buys a better
# direction. The two are equal at a batch of
#
# $$N_\text{noise} = \operatorname{tr}\Sigma\,/\,|G|^2 ,$$
#
# the *simple noise scale* of McCandlish et al. (2018, arXiv 1812.06162). They estimate $|G|^2$ from a part
# of the images and must correct for that; we have all of them, and $G$ is simply their mean. **Guess**
# $N_\text{noise}$, in images.

# %%
guess("noise scale at the start", None, " images")
guess("noise scale after 1 epoch", None, " images")
guess("noise scale after 10 epochs", None, " images")


def noise(weights):
    """|G|², tr Σ of one image, and the gradients of all batches of n, from one pass over the images."""
    model.set_weights(weights)
    g = np.stack([gradient_of(x[b], y[b])[1].numpy() for b in np.split(order, SMALL // n)])  # (384, weights)
    return (g.mean(0) ** 2).sum(), n * g.var(0).sum(), g


def allowed(scale, k):
    """By which factor k ranks may raise the rate of one, by the model below; the scale in images."""
    return (1 + scale / n) / (1 + scale / (k * n))


# %% tags=["measured"]
with np.load("runs/08_large_batches.npz") as file:
    recorded = {name: file[name].astype(np.float32) for name in file.files}
parts = range(len(model.get_weights()))
code, snapshots = load("plain"), {0: stages[0, "start"]}  # after so many epochs: the weights of one rank
watched = code["network"]()
code["network"] = lambda: watched
code["log"] = lambda step, **rest: snapshots.update({step: watched.get_weights()})
code["main"]()
scales = {}
for epoch in (0, 1, 2, 3, 5, 8, 10):
    signal, spread, g = noise(snapshots[epoch])
    scales[epoch] = float(spread / signal)
    if epoch == 1:
        after_one = g.reshape(-1, k, g.shape[1])  # (12, k, weights): k batches each, for the table below
others = [noise([recorded[f"plain 1 {seed} {i}"] for i in parts])[:2] for seed in range(1, 5)]
ends = [scales[10]] + [spread / signal for signal, spread in others]
for epoch, when in [(0, "at the start"), (1, "after 1 epoch"), (10, "after 10 epochs")]:
    compare(f"noise scale {when}", scales[epoch])
print(f"after 10 epochs, five seeds: {min(ends):,.0f} to {max(ends):,.0f} images")

# %% [markdown]
# In this run it grows in two jumps: tenfold within the first epoch, and tenfold when the rate falls after
# epoch 8 (8.4); in between it stays at some hundreds. At the start all images agree about what is wrong,
# and a batch of 1,024 wastes nearly all its work; later they disagree, and it is worth more. The thousands
# of a trained network say nothing about the epochs in which most is learned.
#
# What rate does this allow? If each step is as long as its noisy direction deserves, then, in a quadratic
# model of the loss (McCandlish et al.),
#
# $$\eta_\text{best}(N) \propto \frac{1}{1 + N_\text{noise} / N} :$$
#
# proportional to $N$ far below the noise scale, constant far above it, and in between all the powers,
# $\sqrt k$ among them. So for each epoch the model says how much $k$ ranks may raise the rate of one.
# Beside it we draw what the linear rule does, with the gradual warmup of Goyal et al.: from $\eta$ by equal
# amounts to $k\eta$, here within 3 epochs.


# %% tags=["measured"]
epochs, factor = list(scales), [allowed(scale, k) for scale in scales.values()]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
axes[0].semilogy(epochs, list(scales.values()), marker="o", color=palette[0], label="one rank, seed 0")
axes[0].plot([10] * 5, ends, ls="", marker="o", mfc="none", color="0.45", label="five seeds, end")
for batch in (n, k * n):
    axes[0].axhline(batch, color="0.4", lw=0.8, marker="", ls=":")
    axes[0].text(10.2, batch * 1.1, f"batch {batch:,}", fontsize=8.5, ha="right")
axes[0].set(xlabel="epoch", ylabel="noise scale / images", title="The noise scale grows")
axes[0].legend(fontsize=8.5, loc="lower center")
time = np.linspace(0, 10, 201)
warmup = 1 + (k - 1) * np.minimum(1, time / 3)
axes[1].plot(time, warmup, marker="", ls="--", color=palette[1], label="linear rule, gradual warmup")
axes[1].axhline(math.sqrt(k), marker="", ls=":", color="0.3", label="√k")
axes[1].plot(epochs, factor, marker="o", color=palette[0], label="noise-scale model")
axes[1].set(
    yscale="log", xlabel="epoch", ylabel="factor on the rate", title="How much may 32 ranks raise it?"
)
axes[1].set_yticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
axes[1].minorticks_off()
axes[1].legend(fontsize=8.5)
plt.show()
display(pd.DataFrame({"noise scale": scales, "factor": dict(zip(epochs, factor, strict=True))}).T.round(1))

# %% [markdown]
# *(Figure: left, the noise scale over the epochs, logarithmic: tens of images, then hundreds, at the end
# thousands. Right, the factor by which the model lets 32 ranks raise the rate: it starts near 2, and but
# for the very start it stays below the dashed line of the linear rule, which reaches 32 after three
# epochs.)*
#
# The model, too, prescribes a warmup, but a *slower* one than the linear rule's, which is above it in the
# epochs in which most is learned. It is rough: one greedy step of SGD without momentum, in a loss that is
# equally curved in all directions.
#
# ### Two rules, two things kept
#
# Let the gradient change little for $k$ steps. Then
#
# | | mean, over k batches | covariance, over k batches |
# |---|---|---|
# | $k$ short steps | $k\eta G$ | $k\eta^2\Sigma/n$ |
# | linear, $\hat\eta = k\eta$ | $k\eta G$, **the same** | $k\eta^2\Sigma/n$, **the same** |
# | $\hat\eta = \sqrt k\,\eta$ | $\sqrt k\,\eta G$ | $\eta^2\Sigma/n$: that of *one* short step |
# | naive, $\hat\eta = \eta$ | $\eta G$ | $\eta^2\Sigma/(kn)$ |
#
# The linear rule keeps *both* over an epoch, progress and noise; $\sqrt k$ keeps the noise *of an update*.
# Smith et al. (2018, arXiv 1711.00489) read the second column as a temperature, $\eta / (n(1 - m))$ with
# momentum $m$: whoever lets the rate fall to cool the training may as well let the *batch grow*, and has
# fewer updates. Check the table with gradients that we have:

# %%
eta, rows = 0.001, {}
for name, ways in {
    "k short": eta * after_one.sum(1),
    "linear": k * eta * after_one.mean(1),
    "sqrt": math.sqrt(k) * eta * after_one.mean(1),
    "naive": eta * after_one.mean(1),
}.items():
    rows[name] = {"length of the mean": np.linalg.norm(ways.mean(0)), "variance": ways.var(0, ddof=1).sum()}
table = pd.DataFrame(rows).T
display((table / table.loc["k short"]).round(4))
assert np.allclose(table.loc["linear"], table.loc["k short"], rtol=1e-3)

# %% [markdown]
# (The first two rows are the same sum, as here all gradients are taken at one point. What moving does, 8.2
# has shown.)

# %% [markdown]
# ## 8.4 Matched scripts
#
# "We added warmup, and it got better" convinces only if nothing but the warmup was added. So we have **one
# script**, and each variant replaces one line of one other variant; a test compares all of them.


# %%
def family():
    """Each variant, its parent, and the line that differs."""
    rows = []
    for name, (parent, _, new) in experiment["VARIANTS"].items():
        others = [*experiment["FACTORS"], *experiment["PARTS"]][1:]  # of those that differ in a number, one
        if parent and name not in others:
            ours, theirs = (experiment["script"](v).splitlines() for v in (name, parent))
            assert len(ours) == len(theirs) and sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1
            rows.append(f"| {name} | {parent} | `{new.removesuffix('  # <-')}` |")
    return "\n".join(["| variant | parent | its line |", "|---|---|---|", *rows])


display(Markdown(family()))

# %% [markdown]
# Here is the part that trains. One process stands in for all $k$ ranks: the mean over $kn$ images is what
# an all-reduce with averaging gives. On real ranks batch normalisation sees the $n$ images *of its rank*,
# so the script normalises in groups of $n$: the loss is the same function for all $k$. (For the test it
# takes the moving averages of rank 0, where lecture 07 would average over the ranks: as many images an
# update as one rank has, and the same in all variants, so that pairs stay matched.) The **schedule**: a
# warmup of $W$ updates, 3 epochs; the full rate; and from 80% of the $T$ updates on, in all variants, a
# tenth of it.

# %%
source = experiment["script"]("gradual")
wanted = ("rate", "direction", "update")
found = {
    node.name: ast.get_source_segment(source, node)
    for node in ast.walk(ast.parse(source))
    if getattr(node, "name", None) in wanted
}
print("\n\n".join(found[name] for name in wanted), "\n")
print(source[source.index("    for epoch in") : source.index("        small =")])

# %% [markdown]
# **Guess** the test error after ten epochs with 32 ranks. With one rank it is near 12%.

# %%
recipes = {"naive": "plain", "√k": "sqrt", "√k, gradual warmup": "sqrt, gradual"}
recipes |= {"linear": "linear", "linear, constant warmup": "constant", "linear, gradual warmup": "gradual"}
guess("32 ranks, naive, test error", None, "%")
guess("32 ranks, √k, test error", None, "%")
guess("32 ranks, √k, gradual warmup, test error", None, "%")
guess("32 ranks, linear, test error", None, "%")
guess("32 ranks, linear, constant warmup, test error", None, "%")
guess("32 ranks, linear, gradual warmup, test error", None, "%")

# %% tags=["measured"]
record = json.loads(pathlib.Path("runs/08_large_batches.json").read_text())
runs = pd.DataFrame(record["runs"])
runs["error"] = [errors[-1] for errors in runs["errors"]]
days = sorted({submitted[:10] for submitted in runs["submitted"]})
print(f"RECORDED RUNS: {len(runs)} jobs of {' and '.join(days)} on {runs['machine'][0]['cpu']},")
print(f"TensorFlow {runs['versions'][0]['tensorflow']}; made again by make experiments RUN=08")

# %% [markdown]
# ## 8.5 What came out
#
# Five runs are five numbers. We show all of them, their mean, and the interval that holds the true mean
# with 95% if the errors of the seeds are normally distributed: $\bar e \pm 2.776\, s / \sqrt 5$, Student's
# $t$ for five values. Conclusions rest on **matched pairs**: two variants that differ in one line, began
# with the same weights and saw the same shuffles. We take five differences, seed by seed, and *their*
# interval. Beside it stands what Goyal et al. measured with ResNet-50 at 8,192 images (their section 5,
# five runs each, not paired; in all these rows the last γ of each block starts at 0, and their $\sqrt k$
# has the gradual warmup).

# %%
GOYAL = {
    "one rank": (23.60, 0.12),
    "naive": (41.67, 0.10),
    "√k, gradual warmup": (26.22, 0.03),
    "linear": (24.84, 0.37),
    "linear, constant warmup": (25.88, 0.56),
    "linear, gradual warmup": (23.74, 0.09),
}  # top-1 error on ImageNet / %, at 256 images and at 8,192: mean and standard deviation


# %%
def interval(values):
    """Half of the 95% interval of the mean, by Student's t."""
    assert len(values) == 5, "2.776 is Student's t for five values"
    return 2.776 * np.std(values, ddof=1) / math.sqrt(5)


def errors_of(variant, k):
    """The final test errors of five seeds / %."""
    some = runs[(runs["variant"] == variant) & (runs["k"] == k)].sort_values("seed")
    return some["error"].to_numpy()


def losses_of(variant, k):
    """The losses of all recorded updates, or means of as many as hold 1,024 images: (seeds, at most 120)."""
    some = runs[(runs["variant"] == variant) & (runs["k"] == k)].sort_values("seed")
    return np.array(some["losses"].tolist(), float)


def difference(a, b):
    """Mean of the differences, seed by seed, of two sets of errors, and half of its interval."""
    return (a - b).mean(), interval(a - b)


# %%
PAIRS = [
    ("linear", "naive"),
    ("√k", "naive"),
    ("linear", "√k"),
    ("linear, gradual warmup", "√k, gradual warmup"),
    ("linear, gradual warmup", "linear"),
    ("linear, constant warmup", "linear"),
    ("√k, gradual warmup", "√k"),
]


def theirs(a, b):
    """The same difference on ImageNet, of two times five runs that are not paired: t of 8 degrees."""
    if not {a, b} <= GOYAL.keys():
        return "–"
    (mean_a, s_a), (mean_b, s_b) = GOYAL[a], GOYAL[b]
    return f"{mean_a - mean_b:+.2f} ± {2.306 * math.hypot(s_a, s_b) / math.sqrt(5):.2f}"


# %%
large = {"one rank": errors_of("plain", 1)} | {name: errors_of(v, 32) for name, v in recipes.items()}
shown = {name: {"error / %": e.mean(), "±": interval(e)} for name, e in large.items()}
display(pd.DataFrame(shown).T.round(2))
pairs = {f"{a}  −  {b}": difference(large[a], large[b]) for a, b in PAIRS}
shown = {p: {"here": f"{m:+.2f} ± {h:.2f}"} for p, (m, h) in pairs.items()}
display(pd.DataFrame(shown).T.assign(ImageNet=[theirs(*p) for p in PAIRS]))
losses = losses_of("constant", 32)
for epoch in (3, 4):
    highest = losses[:, 12 * (epoch - 1) : 12 * epoch].max(1)
    print(f"constant warmup, highest loss of epoch {epoch}, each seed: {highest.round(1).tolist()}")
for name in recipes:
    compare(f"32 ranks, {name}, test error", large[name].mean())

# %%
fig, axes = plt.subplots(1, 2, figsize=(11, 4), width_ratios=[1, 1.1])
for row, errors in enumerate(reversed(large.values())):
    axes[0].plot(errors, row + np.linspace(-0.12, 0.12, 5), ls="", marker="o", mfc="none", color="0.45", ms=5)
    axes[0].plot(errors.mean(), row - 0.3, marker="D", color=palette[0], ms=6)
axes[0].set_yticks(range(len(large)), list(reversed(large)))
axes[0].set(xscale="log", xlabel="test error / %", title="Five seeds each, and their mean")
axes[0].set_xticks([12, 15, 20, 30, 50, 75], ["12", "15", "20", "30", "50", "75"])
axes[0].minorticks_off()
few = {p: v for p, v in pairs.items() if "constant" not in p}  # it would need another axis
for row, (mean, half) in enumerate(reversed(few.values())):
    filled = None if abs(mean) > half else "w"
    axes[1].errorbar(mean, row, xerr=half, marker="s", color=palette[1], mfc=filled, ls="", lw=2, capsize=3)
axes[1].axvline(0, color="0.3", marker="", lw=0.9)
axes[1].set_yticks(range(len(few)), list(reversed(few)), fontsize=8)
axes[1].set(xlabel="difference / points", title="Matched pairs (hollow: zero is inside)")
plt.show()

# %% [markdown]
# *(Figure: left, test errors of seven variants, five circles each: one rank lowest, near 12%; constant
# warmup highest, from 33 to 49%. Right, mean and interval of the paired differences.)*
#
# - **A large batch costs.** No variant with 32 ranks comes near one rank with the same number of epochs.
# - **Without warmup** $\sqrt k$ clearly beats naive and the linear rule. The linear rule is worse than doing
#   nothing, by an interval that leaves out zero, though not by much.
# - **With gradual warmup** the linear rule comes back to naive, and $\sqrt k$ is still better, by about two
#   points and an interval that leaves out zero. (The same runs on another processor, which rounds otherwise,
#   had the same mean and an interval that just held zero. How sure five seeds make us is itself a matter of
#   luck.)
# - **Warmup and rate interact.** Gradual warmup helps at $k\eta$, and does nothing measurable at
#   $\sqrt k\,\eta$, which is not too long for the start. Who compares the linear rule *with* warmup to
#   $\sqrt k$ *without* has changed two lines.
# - **Constant warmup does not help**: it moves the shock to the fourth epoch, as the losses say, in every
#   seed.
#
# Seven intervals of 95% have up to 7 · 5% = 35% for at least one that misses. Goyal et al. find the same
# order of the three warmups. But there $k$ with gradual warmup clearly beats $\sqrt k$, and here it loses to
# it: **our experiment contradicts the rule that the paper made famous.** Before you read on: which number of
# 8.3 would you look at?
#
# ## 8.6 The best rate of a batch
#
# Forget the rules. For each batch the error, as a function of the rate that is reached, has a minimum. We
# have four batches at seven rates each, always with five seeds; the scripts differ in a number of one line.
# **Guess** how many times the rate $\eta$ of one rank is best for 8, for 32 and for 128.

# %%
for ranks in (8, 32, 128):
    guess(f"{ranks} ranks, best of seven rates / η", None)

# %%
B = 0.1  # the rate of one rank, η
sweep = {  # ranks: {rate that is reached / η: errors of five seeds}
    ranks: {f: errors_of(variants[f], ranks) for f in sorted(variants)}
    for ranks, variants in experiment["SWEEP"].items()
}
best = {ranks: min(some, key=lambda f: some[f].mean()) for ranks, some in sweep.items()}
floor, rows = {}, {}  # ends of the rates that no interval tells from the best
for ranks, some in sweep.items():
    gaps = {f: difference(errors, some[best[ranks]]) for f, errors in some.items()}
    near = [f for f, (mean, half) in gaps.items() if mean <= half]
    floor[ranks] = min(near), max(near)
    each = [min(some, key=lambda f: some[f][seed]) for seed in range(5)]
    rows[ranks] = {
        "best / η": f"{best[ranks]:.3g}",
        "its error / %": f"{some[best[ranks]].mean():.2f} ± {interval(some[best[ranks]]):.2f}",
        "not told from it / η": "{:.3g} to {:.3g}".format(*floor[ranks]),
        "best of each seed / η": ", ".join(f"{f:.3g}" for f in each),
        "linear rule, minus the best": "{:+.2f} ± {:.2f}".format(*gaps[ranks]),
    }
display(pd.DataFrame(rows).T.rename_axis("ranks"))
for ranks in (8, 32, 128):
    compare(f"{ranks} ranks, best of seven rates / η", best[ranks])

# %% tags=["measured"]
fig, axes = plt.subplots(1, 2, figsize=(10.4, 4.2))
for i, (ranks, some) in enumerate(sweep.items()):
    means, bars = ([of(errors) for errors in some.values()] for of in (np.mean, interval))
    style = {"color": palette[i], "marker": "os^D"[i], "ls": ["-", "--", "-.", ":"][i]}
    axes[0].errorbar([B * f for f in some], means, yerr=bars, label=f"ranks: {ranks}", **style)
    axes[0].plot([B * ranks], [some[ranks].mean()], marker="o", ms=13, mfc="none", color="0.2", ls="")
    axes[1].vlines(n * ranks, *(B * f for f in floor[ranks]), color=palette[i], lw=7, alpha=0.35)
ranks = np.array(list(best))
style = {"color": "0.2", "ls": "", "marker": "o", "ms": 8, "label": "best of seven; bar: not told from it"}
axes[1].plot(n * ranks, B * np.array(list(best.values())), **style)
axes[1].plot(n * ranks, B * ranks, marker="", ls="--", color="0.4", label="linear rule")
axes[1].plot(n * ranks, B * ranks**0.5, marker="", ls=":", color="0.4", label="√k")
for j, epoch in enumerate((0, 1, 10)):
    style = {"marker": "", "color": palette[4 + j], "lw": 1.2, "label": f"noise-scale model, epoch {epoch}"}
    axes[1].plot(n * ranks, B * allowed(scales[epoch], ranks), **style)
axes[0].set(xlabel="learning rate that is reached", ylabel="test error / %", title="Error against rate")
axes[1].set(xlabel="images in an update", ylabel="rate", title="The best rate of a batch", ylim=(0.04, 250))
ticks = [[0.01, 0.1, 1, 10], [12, 15, 20, 30, 50, 90]], [n * ranks, [0.05, 0.1, 0.4, 1.6, 6.4]]
for ax, (across, up) in zip(axes, ticks, strict=True):
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(across, [f"{v:,g}" for v in across])
    ax.set_yticks(up, [f"{v:g}" for v in up])
    ax.minorticks_off()
    ax.legend(fontsize=8.5)
plt.show()

# %% [markdown]
# *(Figure: left, test error against the rate that is reached, both logarithmic, a valley for each batch: the
# larger the batch, the higher. A ring marks the linear rule's rate: on the floor for one rank and for 8, on
# the right slope for 32, near guessing for 128. Right, the best rate against the batch, with a bar over the
# rates that are not told from it: it rises to 256 images and then no more; at 4,096 √k lies above its bar.
# The noise-scale model's lines bend and become level.)*
#
# With 8 ranks the linear rule has the lowest mean and naive is worse, but the valley is so broad that
# $\sqrt k$ would not be told from it. Then the best rate stops growing: the floors of 32 and of 128 ranks
# overlap, and the linear rule lies above both, for 128 near guessing. **No power of $k$ is the rule.** The
# model has this bend, proportional below the noise scale and constant above it, and puts it where we find it
# if it is given the noise scale of the epochs in which most is learned, not that of the end. Whether the best
# rate even falls from 32 to 128 ranks, as the means have it, five seeds do not tell; and the lowest rate that
# was tried with 128 lies on its floor. A reason would be at hand: 30 updates, 9 of them a warmup, leave no
# time to come to where the loss is flatter, as in 8.2.
#
# The floors rise with the batch: **no rate buys back the updates that are missing.**
#
# ### How far does the linear rule carry?
#
# **Guess:** from which batch on does the linear rule with gradual warmup cost more than a point, here and on
# ImageNet?

# %%
guess("largest of our batches that costs less than a point", None, " images")
guess("largest batch on ImageNet that costs less than a point", None, " images")

# %%
CURVE = {128: 23.49, 256: 23.60, 512: 23.48, 1024: 23.53, 2048: 23.49, 4096: 23.56, 8192: 23.74}
CURVE |= {16384: 24.79, 32768: 27.55, 65536: 33.96}  # Goyal et al.: top-1 error / %, linear rule and warmup
rule = {n * ranks: some[ranks] for ranks, some in sweep.items()}
naive = {n * ranks: sweep[ranks][1] for ranks in (8, 32)}
for where, curve in {"of our batches": rule, "batch on ImageNet": CURVE}.items():
    base = np.mean(curve[n if curve is rule else 256])
    good = [batch for batch, errors in curve.items() if np.mean(errors) < base + 1]
    compare(f"largest {where} that costs less than a point", max(good))
print("8 ranks, linear minus one rank: {:+.2f} ± {:.2f}".format(*difference(rule[256], rule[32])))
print("8 ranks, linear minus naive: {:+.2f} ± {:.2f}".format(*difference(rule[256], naive[256])))

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.5))
means, bars = ([of(errors) for errors in rule.values()] for of in (np.mean, interval))
style = {"color": palette[0], "marker": "o", "ls": "-"}
axes[0].errorbar(list(rule), means, yerr=bars, label="kη, gradual warmup", **style)
means, style = [errors.mean() for errors in naive.values()], {"color": palette[1], "marker": "s", "ls": ""}
axes[0].plot(list(naive), means, mfc="w", label="naive", **style)
for epoch, dots in {0: ":", 3: "--"}.items():
    axes[0].axvline(scales[epoch], color="0.5", marker="", ls=dots, label=f"noise scale, epoch {epoch}")
axes[0].set_title("Here (5 seeds)")
axes[1].plot(list(CURVE), list(CURVE.values()), marker="o", color=palette[0])
axes[1].set_title("ResNet-50 on ImageNet (Goyal et al.)")
for ax, ticks in zip(axes, [[12, 20, 40, 80], [24, 28, 34]], strict=True):
    ax.set(xscale="log", yscale="log", xlabel="images in an update", ylabel="test error / %")
    ax.set_yticks(ticks, map(str, ticks))
    ax.minorticks_off()
axes[0].set_xticks([32, 256, 1024, 4096], ["32", "256", "1,024", "4,096"])
axes[1].set_xticks([256, 2048, 16384], ["256", "2,048", "16,384"])
axes[0].legend(fontsize=8)
plt.show()

# %% [markdown]
# *(Figure: test error over the batch. Left, ours: level to 256 images, some points more at 1,024, near
# guessing at 4,096. Right, ImageNet: level to 8,192 images, then 24.8, 27.6 and 34.0% at 16, 32 and 64
# thousand.)*
#
# Both curves are level, and then bend. That ours bends earlier, between 256 and 1,024 images and not
# between 8,192 and 16,384, is *compatible* with a smaller noise scale, and with far fewer updates; nothing
# here separates the two. With 8 ranks, where both are level, the rule does what it promises: it is better
# than naive, by an interval that leaves out zero, and within a point of one rank.
#
# ## 8.7 Steps to a target
#
# The final error mixes two questions: what a batch does, and how long one trains. Shallue et al. (2019,
# arXiv 1811.03600) ask instead: how many updates until a fixed goal, with the best rate for each batch?
# They find three regimes: *perfect scaling* (twice the batch, half the updates), *diminishing returns*, and
# *maximal data parallelism*, where a larger batch saves nothing. We read our curves in this way. The goal:
# a training loss of 0.6, as the mean of 1,024 images. **Guess** the updates of 32 ranks if one rank needs
# some 290.

# %%
guess("updates to the goal, 32 ranks", None)

# %%
GOAL, rows = 0.6, []
candidates = {ranks: set(variants.values()) for ranks, variants in experiment["SWEEP"].items()}
candidates[32] |= {"sqrt", "sqrt, gradual", "linear"}
for ranks, variant in [(ranks, variant) for ranks, some in candidates.items() for variant in some]:
    losses = losses_of(variant, ranks)
    if len(losses) and (losses < GOAL).any(1).all():  # in all seeds
        each = (1 + (losses < GOAL).argmax(1)) * max(1, 32 // ranks)  # recorded are means of so many updates
        row = {"ranks": ranks, "variant": variant, "updates": np.median(each)}
        rows.append(row | {"of seeds": sorted(each.tolist())})
table = pd.DataFrame(rows).sort_values(["ranks", "updates", "variant"]).groupby("ranks").first()
table["images"] = table["updates"] * n * table.index
table["perfect"] = table["updates"].iloc[0] / table.index
display(table.round(1))
compare("updates to the goal, 32 ranks", table.loc[32, "updates"])

# %%
fig, ax = plt.subplots(figsize=(6.4, 3.4))
batches = n * table.index
ax.plot(batches, table["perfect"], ls="--", marker="", color="0.4", label="perfect scaling")
for batch, each in zip(batches, table["of seeds"], strict=True):
    ax.plot([batch] * 5, each, ls="", marker="o", mfc="none", color="0.45")
ax.plot(batches, table["updates"], marker="D", color=palette[0], label="best rate, median of five seeds")
ax.set(xscale="log", yscale="log", xlabel="images in an update", ylabel="updates")
ax.set_xticks(batches, [f"{batch:,}" for batch in batches])
ax.set_yticks([10, 30, 100, 300], ["10", "30", "100", "300"])
ax.minorticks_off()
ax.set_title("Updates to a training loss of 0.6")
ax.legend()
plt.show()

# %% [markdown]
# *(Figure: updates to the goal against the batch, both logarithmic. The measured line falls, but less and
# less steeply than the dashed line of perfect scaling.)*
#
# Already the first factor of 8 saves less than a factor of 8, and the next factor of 4 still less: we stand
# in the diminishing returns, and the column of images says what they cost in work. At none of seven rates do
# 128 ranks reach the goal in all seeds: 30 updates are too few. (Theirs is the error on unseen images. And
# with one rank ours is reached within the warmup, so that a higher rate comes too late to show.)
#
# And with **equal updates**? Naive and one rank begin with the same weights and have the same rate and no
# warmup. We compare the mean training loss of updates 65 to 96, before any rate falls. **Guess** by how
# much it is lower with 1,024 images than with 32.

# %%
guess("loss of updates 65 to 96: 32 images minus 1,024", None)

# %%
gap = difference(losses_of("plain", 1)[:, 2], losses_of("plain", 32)[:, 64:96].mean(1))
compare("loss of updates 65 to 96: 32 images minus 1,024", gap[0])
print("paired: {:+.3f} ± {:.3f}".format(*gap))

# %% [markdown]
# At equal updates and rate the larger batch is ahead: what it costs, this early at least, are the updates
# that are missing.
# (Whether 3,840 updates of 1,024 images would end better than one rank does was not run: it takes 32 times
# as long.) Shallue et al. find no evidence that large batches as such generalise worse.

# %% [markdown]
# ## 8.8 Classical mistakes
#
# Goyal et al. list mistakes that are easily made, because nothing fails: the numbers are just a little
# worse. Three of them here, the fourth under *Further*.
#
# ### Momentum: the velocity remembers the old rate
#
# Momentum is written in two ways, the same as long as $\eta$ is:
#
# $$u \leftarrow m u + g, \quad w \leftarrow w - \eta u
# \qquad\text{or}\qquad v \leftarrow m v + \eta g, \quad w \leftarrow w - v.$$
#
# In the second the rate is *inside* the velocity. When it changes, the old gradients go on at the old rate,
# unless $v$ is multiplied by $\eta_\text{new}/\eta_\text{old}$: the **momentum correction**. Which of the
# two has Keras? We give it a gradient that is always 1, and a rate that jumps from 0.1 to 3.2 and later
# falls to 0.32. **Guess** its first step after the jump; the first form makes one of some 31.

# %%
guess("Keras, first step after the jump", None)

# %%
rates, m = [0.1] * 30 + [3.2] * 30 + [0.32] * 30, 0.9
lengths = {"rate outside (reference)": [], "rate inside": [], "rate inside, corrected": [], "Keras": []}
u = v = c = 0.0
weight, keras_sgd = keras.Variable(0.0), keras.optimizers.SGD(0.1, momentum=m)
for last, eta in zip([rates[0], *rates], rates, strict=False):
    u, v, c = m * u + 1, m * v + eta, m * eta / last * c + eta
    before, keras_sgd.learning_rate = float(weight.numpy()), eta
    keras_sgd.apply([tf.constant(1.0)], [weight])
    for name, length in zip(lengths, [eta * u, v, c, before - float(weight.numpy())], strict=True):
        lengths[name].append(length)
assert np.allclose(lengths["Keras"], lengths["rate inside"], rtol=1e-3)
assert np.allclose(lengths["rate inside, corrected"], lengths["rate outside (reference)"])
compare("Keras, first step after the jump", lengths["Keras"][30])

# %% [markdown]
# Keras does not correct. On the way up that is a small warmup; on the way down it goes on with steps that
# are too long. Our script corrects; the variant `uncorrected` leaves it out. **Guess:** by how much does
# the training loss change from epoch 8 to epoch 9, when the rate falls by ten, *without* the correction?

# %%
guess("loss after the fall of the rate minus before, uncorrected", None)

# %%
fig, axes = plt.subplots(1, 2, figsize=(11, 3.4))
axes[0].plot(lengths["rate inside, corrected"], marker="", ls="-", label="corrected")
axes[0].plot(lengths["Keras"], marker="", ls="--", label="not corrected, as in Keras")
axes[0].set(xlabel="update", ylabel="length of the step", ylim=(-1, 42))
axes[0].set_title("A rate that jumps: 0.1, 3.2, 0.32")
axes[0].legend(loc="upper left", fontsize=8.5)
change = {}
for i, (name, variant) in enumerate({"corrected": "gradual", "not corrected": "uncorrected"}.items()):
    losses, style = losses_of(variant, 32), {"color": palette[i], "marker": "", "ls": ["-", "--"][i]}
    axes[1].plot(range(84, 120), losses[:, 84:].T, lw=0.7, alpha=0.6, **style)
    axes[1].plot(range(84, 120), losses[:, 84:].mean(0), lw=2.4, label=name, **style)
    change[name] = losses[:, 96:108].mean(1) - losses[:, 84:96].mean(1)
    print(f"epoch 9 minus epoch 8, {name}: {change[name].round(3).tolist()}")
axes[1].axvline(96, color="0.4", lw=0.9, marker="", ls=":")
axes[1].set(xlabel="update", ylabel="training loss", title="At update 96 the rate falls from 3.2 to 0.32")
axes[1].legend()
plt.show()
compare("loss after the fall of the rate minus before, uncorrected", change["not corrected"].mean())
gap = difference(errors_of("uncorrected", 32), errors_of("gradual", 32))
print(
    "uncorrected minus corrected: loss {:+.3f} ± {:.3f};".format(*difference(*reversed(change.values()))),
    end=" ",
)
print("test error {:+.2f} ± {:.2f} points".format(*gap))

# %% [markdown]
# *(Figure: left, length of the step: corrected, it follows the jumps at once; uncorrected, it is smeared
# over twenty updates. Right, training loss of the last 36 updates: corrected, it falls a little after
# update 96; uncorrected, it rises for some updates and comes back slowly.)*
#
# The rate falls, the loss should; without the correction it *rises*, in all seeds. In the test error, 24
# updates later, the interval holds zero. **Look for a mistake where it acts**, not only in the last number.
#
# ### Divide by kn, not by n; and one shuffle for all
#
# If every rank takes the mean over its $n$ images and all-reduce *adds* them up, the gradient is $k$ times
# too long; with the linear rule on top it is $k^2$. **Guess** the loss of the second update of 32 ranks;
# rightly averaged it is 2.9. Another one: each rank shuffles all images *for itself*. **Guess** which share
# of them is then not seen in an epoch by any of 32 ranks.

# %%
guess("loss of the second update, sum in place of mean", None)
guess("images not seen in an epoch, 32 shuffles", None, "%")

# %% tags=["measured"]
firsts = {}
for name, slip in {"mean": ("", ""), "sum": ("return B * k", "return B * k * k")}.items():
    code = load("linear", k=32, change=slip)
    code["EPOCHS"] = 1
    firsts[name] = code["main"]()[0]
print(pd.DataFrame(firsts, index=range(1, 13)).T.round(1).to_string())
compare("loss of the second update, sum in place of mean", firsts["sum"][1])
own = np.concatenate([np.random.default_rng(rank).permutation(SMALL)[: SMALL // k] for rank in range(k)])
compare("images not seen in an epoch, 32 shuffles", 100 * (1 - len(np.unique(own)) / SMALL))
print(f"(1 - 1/k)^k = {100 * (1 - 1 / k) ** k:.1f}%, for many ranks 1/e = {100 / math.e:.1f}%")
gap = difference(errors_of("shuffles", 32), errors_of("gradual", 32))
print("test error, own shuffles minus one: {:+.2f} ± {:.2f} points".format(*gap))

# %% [markdown]
# (A gradient $k$ times as long and a rate $k$ times as large are the same step, so we may change the rate.)
# The sum is loud, even where the mean's loss rises, too: a cold start at $k\eta$. The shuffle is silent.
# Each epoch leaves out another third, so after ten nearly all images have been seen, and our errors do not
# show it; a look at the indices does, as in lecture 07.
#
# ## 8.9 What does this say about ImageNet?
#
# First the source. Our slide says 41.78 ± 0.10% for the naive 8,192; the paper's table 2a, from which it
# comes, 41.67 ± 0.10. The slide is wrong, by an amount that matters for nothing here.
#
# Then the difference that the paper rests on: gradual warmup, 23.74%, *reaches* the small batch, 23.60%. A
# seventh of a point, from five runs each:

# %%
for name in ("linear, gradual warmup", "linear", "naive"):
    print(f"{name} minus one rank, ImageNet: {theirs(name, 'one rank')} points")
sizes = pd.DataFrame(
    {
        "ImageNet, 8,192": [100 * 8192 / IMAGENET, 90 * (IMAGENET // 8192), 5 * (IMAGENET // 8192), 50_000],
        "ours, 1,024": [100 * 1024 / SMALL, 10 * (SMALL // 1024), 3 * (SMALL // 1024), 10_000],
    },
    index=["batch, % of the images", "updates", "updates of the warmup", "test images"],
)
sizes.loc["standard error of one test error / points"] = [
    100 * math.sqrt(e * (1 - e) / N) for e, N in zip((0.236, 0.12), sizes.loc["test images"], strict=True)
]
display(sizes.map(lambda v: f"{v:,.0f}" if v >= 10 else f"{v:.2f}"))

# %% [markdown]
# The first interval holds zero, if only just: five runs do not tell the large batch with warmup from the
# small one, which is less than to show that they are equal. That the two others lose is beyond doubt.
#
# **A small experiment can show mechanisms**, wherever we measure the quantity itself: that one long step
# follows $k$ short ones only so far, and less far at the start; that the noise scale grows early and with
# the fall of the rate; that a cold start at $k\eta$ begins with a rising loss; that an uncorrected velocity
# makes the loss rise where the rate falls. Why $\sqrt k$ is near the best rate here is *inferred*, not
# measured.
#
# **It cannot show** whether a recipe reaches 23.74% or 23.60% on ImageNet: a tenth of a point is far below
# what 10,000 test images and five seeds resolve. Nor where the linear rule ends there: another network has
# another noise scale. Do not carry our numbers over; carry over the measurements. The noise scale costs one
# pass over the data, and a sweep over four rates costs four runs.
#
# That large batches were thought to be useless above 512 or so, as one of our source decks says of the time
# before 2017, the right panel of 8.6 answers; that they remained an open problem, as another one says in
# 2018, its right end does.
#
# ## What we have learned
#
# - **A large batch has fewer updates** for the same epochs; at equal updates, early on, it is ahead. The
#   linear rule makes up for it by longer steps, as long as the gradient does not change on the way.
# - **Two reasons for a warmup** were measured: at the start the loss is more bent, and one step bears a
#   smaller rate; and the noise scale is small, so that a large batch buys little.
# - **Matched pairs** differ in one line; five seeds and an interval tell an effect from luck. Ours say that
#   $k\eta$ is too long here, cold by far, and warmed up by about two points.
# - **The best rate** grows with the batch at first, and from some hundreds of our images on no more. The
#   floors are broad, and rise.
# - **Steps to a target** fall more slowly than the batch grows: diminishing returns.
# - **Mistakes** are mostly silent: look where they act.
#
# **Your turn.** In assignment 08, [Large batches](../exercises/08_large_batches/large_batches.ipynb), you
# write the schedule as a function of the step, submit an experiment like this one as a sweep of jobs, and
# draw conclusions that your recorded runs must support.
#
# **To think about**
#
# 1. The noise scale grows during training. What would it cost and save, on a cluster where each of 32 ranks
#    already has a full batch of 256, to let the *batch* grow in place of letting the rate fall?
# 2. Our warmup takes 3 epochs, 36 updates. Is it the *epochs* or the *updates* that count? Which two runs
#    would tell?
# 3. **Hardware.** A GPU reaches its full speed only from some batch size on (lecture 01's roofline). If it
#    needs 64 images, and the noise scale is 1,024: on how many GPUs does it pay to train, and what happens
#    beyond?
#
# ## Further
#
# ### Sharp minima?
#
# Keskar et al. (2016, arXiv 1609.04836) gave a reason why large batches should generalise worse: their
# noise is too small to leave *sharp* minima, where the loss rises steeply on all sides. One of our source
# decks makes it the reason to raise the rate with the batch. A natural measure of sharpness is the largest
# eigenvalue of the Hessian, as in 8.2. But lecture 03 has shown that batch normalisation takes the scale of
# the weights before it out again. We multiply all kernels of convolutions by 3: the network computes the
# same function. **Guess** the factor by which the curvature changes.

# %%
guess("curvature of the same network, kernels × 3", None, "×")

# %% tags=["measured"]
PROBE = order[:512]  # training images on which the loss around a minimum is measured
kernels = np.concatenate([np.full(math.prod(w.shape), len(w.shape) == 4, np.float32) for w in trained])
model.set_weights([recorded[f"plain 1 0 {i}"] for i in parts])
here, v = position(), kernels * np.random.default_rng(0).normal(size=kernels.size).astype(np.float32)
for _ in range(20):
    v /= np.linalg.norm(v)
    v = kernels * hessian_times(v, here, PROBE)
steepest, found = v / np.linalg.norm(v), {}
for scale in (1, 3):
    scaled = np.where(kernels, scale * here, here)
    move_to(scaled)
    loss = float(gradient_of(x[PROBE], y[PROBE])[0])
    found[scale] = float(steepest @ hessian_times(steepest, scaled, PROBE, epsilon=0.01 * scale))
    print(f"kernels × {scale}: loss {loss:.4f}, curvature {found[scale]:.4f}")
compare("curvature of the same network, kernels × 3", found[3] / found[1])

# %% [markdown]
# **The same function, more than eight times flatter.** (Nine times, 3², were it not for the 0.001 that
# batch norm adds to a variance.) With batch normalisation the eigenvalue is a number about the length of
# the weights as much as about the minimum (Dinh et al., arXiv 1703.04933). Li et al. (arXiv 1712.09913)
# draw random directions and give each *filter* in them the length of the same filter of the network: a step
# of 0.1 then means "10% of each filter". We walk in such directions from the ends of four variants, five
# seeds each. **Guess:** by which factor does the loss rise more steeply around naive than around one rank?

# %%
guess("rise around naive / around one rank", None)


def direction(rng):
    """A random vector in which each filter has the length of the network's; zero for the batch norms."""
    parts = []
    for w in trained:
        d = rng.normal(size=w.shape).astype(np.float32)
        if len(w.shape) == 1:
            parts.append(np.zeros(math.prod(w.shape), np.float32))
            continue
        axes = tuple(range(len(w.shape) - 1))  # all but the filters
        d *= np.sqrt((w.numpy() ** 2).sum(axes) / (d**2).sum(axes))
        parts.append(d.ravel())
    return np.concatenate(parts)


# %% tags=["measured"]
distances = np.linspace(-0.6, 0.6, 9)
evaluate = tf.function(lambda x, y: cross_entropy(y, model(x, training=True)), reduce_retracing=True)
profiles, rng = {}, np.random.default_rng(8)
KEPT = {"one rank": "plain 1", "naive": "plain 32", "linear": "linear 32", "gradual": "gradual 32"}
for name, variant in KEPT.items():
    profiles[name] = []
    for seed in range(5):
        model.set_weights([recorded[f"{variant} {seed} {i}"] for i in parts])
        here = position()
        for way in (direction(rng), direction(rng)):
            losses = []
            for a in distances:
                move_to(here + a * way)
                losses.append(float(evaluate(x[PROBE], y[PROBE])))
            profiles[name].append(losses)
profiles = {name: np.array(p).reshape(5, 2, -1).mean(1) for name, p in profiles.items()}  # (seeds, distances)

# %% tags=["measured"]
fig, ax = plt.subplots(figsize=(7.4, 3.8))
rises = {name: losses[:, [2, -3]].mean(1) - losses[:, 4] for name, losses in profiles.items()}  # (5,)
rows = {}
for i, (name, losses) in enumerate(profiles.items()):
    style = {"color": palette[i], "ls": ["-", "--", "-.", ":"][i]}
    ax.plot(distances, losses.T, marker="", lw=0.7, alpha=0.5, **style)
    ax.plot(distances, losses.mean(0), label=name, marker="os^D"[i], ms=4, **style)
    rows[name] = {"training loss": losses[:, 4].mean(), "rise at ±0.3": rises[name].mean()}
    if name != "naive":
        rows[name]["naive minus this"], rows[name]["±"] = difference(rises["naive"], rises[name])
ax.set(xlabel="distance, as a share of each filter", ylabel="training loss", ylim=(0, 3))
ax.set_title("Around the end of training, in random directions")
ax.legend()
plt.show()
display(pd.DataFrame(rows).T.round(3))
compare("rise around naive / around one rank", rises["naive"].mean() / rises["one rank"].mean())

# %% [markdown]
# *(Figure: training loss against the distance from the end of training, for four variants; thin lines are
# seeds. One rank lies lowest in the middle. Naive rises most steeply. Linear and gradual rise about as one
# rank does, but lie higher.)*
#
# Around **the large batch with the small rate** the loss rises more than around one rank. But linear has
# the same batch, and rises much less; and it errs more. So in this probe it is not the batch, and flat is
# not good. The probe has its limits: a random direction among 20,000 hardly touches the few *steepest*
# ones, which Keskar et al. mean; and naive, with 120 short updates, has not arrived: one would have to
# train all to the same loss. It neither confirms nor refutes them.
#
# ### Weight decay: scaling the loss is not scaling the rate
#
# Some frameworks make it easier to multiply the *loss* by $k$ than the rate. Without weight decay it is the
# same. With it, the step is $\eta\,(k\nabla\ell + \lambda w)$ in place of $k\eta\,(\nabla\ell + \lambda w)$:
# the decay is $k$ times too weak. **Guess:** for a loss $\frac12 (w - 1)^2$ and $\lambda = 0.25$ the right
# end is $w = 0.8$; where does one end who multiplies the loss by 8?

# %%
guess("end of w, loss × 8", None)

# %%
decay, w = 0.25, {"rate × 8": 0.0, "loss × 8": 0.0}
for _ in range(300):
    w["rate × 8"] -= 8 * 0.01 * ((w["rate × 8"] - 1) + decay * w["rate × 8"])
    w["loss × 8"] -= 0.01 * (8 * (w["loss × 8"] - 1) + decay * w["loss × 8"])
compare("end of w, loss × 8", w["loss × 8"])
assert math.isclose(w["rate × 8"], 1 / (1 + decay), rel_tol=1e-6)
assert math.isclose(w["loss × 8"], 1 / (1 + decay / 8), rel_tol=1e-6)

# %% [markdown]
# Another minimum: that of an eighth of the decay. (A toy; our own experiment has no weight decay.)
#
# ### Two recipes that did not help here
#
# **γ = 0**: the last batch normalisation of each block starts at zero, so that the network starts as if it
# had no blocks. In the paper it gains a third of a point at 8,192 images (24.11 to 23.74%) and a quarter at
# 256 (23.84 to 23.60%). **LARS** (You et al., arXiv 1708.03888) gives each kernel a step by *its own*
# length, $v \leftarrow mv + \eta \cdot 0.001\, |w|\, g/|g|$; nothing was tuned here.

# %%
for name in ("gamma 0", "LARS"):
    gap = difference(errors_of(name, 32), errors_of("gradual", 32))
    print("{} minus gradual warmup alone: {:+.2f} ± {:.2f} points;".format(name, *gap), end=" ")
    print("seeds:", errors_of(name, 32).round(1).tolist())

# %% [markdown]
# Neither is told from gradual warmup alone. With γ = 0 two seeds got much worse; the seeds of LARS agree
# better.
#
# ### Was it worth it?
#
# Four published trainings of ResNet-50, and the cost in device hours.

# %%
HISTORY = pd.DataFrame(
    [
        ("8 P100", 8, 29 * 60),
        ("256 P100 (Goyal et al. 2017)", 256, 60),
        ("1,024 P100 (Akiba et al. 2017)", 1024, 15),
        ("2,176 V100 (Mikami et al. 2018)", 2176, 224 / 60),
    ],
    columns=["on", "devices", "minutes"],
).set_index("on")
HISTORY["times as fast"] = HISTORY["minutes"].iloc[0] / HISTORY["minutes"]
HISTORY["device hours"] = HISTORY["devices"] * HISTORY["minutes"] / 60
HISTORY["images/s a device"] = 90 * IMAGENET / HISTORY["minutes"] / 60 / HISTORY["devices"]
display(HISTORY.round(1))
eight, goyal, akiba, _ = HISTORY["device hours"]
print(f"efficiency against 8 devices: {eight / goyal:.0%} on 256, {eight / akiba:.0%} on 1,024")
print(f"beside them arXiv 1711.04291, 104,000 KNL cores for 28 min: {104_000 * 28 / 60:,.0f} core hours")

# %% [markdown]
# From 29 hours to less than four minutes, while the *cost* of the three P100 rows hardly changed. The 90%
# that Goyal et al. state for 256 devices agrees with it, in times rounded to hours. Akiba et al. state 80%
# for theirs: they start from elsewhere. (The last column assumes 90 epochs for all; core hours are another
# currency.) With 256 images an update, 2,176 devices would not even get one image each.
