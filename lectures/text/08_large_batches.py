# %% [markdown]
# # 8 · Large batches
#
# **With 32 times as many images in a step, may the step be 32 times as long?**
#
# Lecture [07](07_data_parallel_training.ipynb) made $p$ processes one training. Each rank keeps its $n$
# images, so an update now sees $kn$ of them, with $k = p$ ranks. This is where data-parallel training stops
# being only a matter of engineering: a batch of 8,192 images is *another algorithm* than one of 256. On
# ImageNet, says the slide from which this course started, ResNet-50 errs on 23.60% of the test photographs
# when it is trained with 256 images an update, and on 41.78% with 8,192, if nothing else is changed. Within a
# year several groups had closed this gap. We want to know how, and why it works.
#
# We aim at
#
# 1. **deriving** two rules for the learning rate, linear and $\sqrt k$, from what each of them keeps the
#    same;
# 2. **measuring** where their assumptions hold: how far a gradient tells the truth, and how noisy it is;
# 3. **comparing** rules and warmups in scripts that differ in one line, with five seeds and intervals;
# 4. probing how *sharp* the minima are, and knowing what such a probe cannot say;
# 5. recognising four classical mistakes by what they do to the numbers;
# 6. saying plainly what a small experiment can and cannot show about ImageNet.
#
# Notation: $n$ images of a rank and an update, $k$ ranks, $\eta$ the learning rate that suits one rank,
# $\ell$ the loss, $w$ all weights as one vector.

# %%
import ast
import json
import linecache
import math
import os
import pathlib
import runpy
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # read when TensorFlow is imported

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import Markdown, display

plt.style.use("cluster.course")
palette = plt.rcParams["axes.prop_cycle"].by_key()["color"]
tf.config.threading.set_intra_op_parallelism_threads(2)
tf.get_logger().setLevel("ERROR")
print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}")

# %% [markdown]
# As before you **guess before you look**: write your number in place of `None`.

# %%
guesses = {}


def compare(question, found, unit=""):
    """Print a number beside what was guessed for it."""
    guess = guesses.get(question)
    said = "you wrote down no guess" if guess is None else f"you guessed {guess:.3g}{unit}"
    print(f"{question}: {found:.3g}{unit}; {said}")


# %% [markdown]
# ## 8.1 What a large batch costs: updates
#
# A training is paid for in epochs: each image is looked at so many times, 90 in the classical training of
# ResNet-50, whatever the batch. So $k$ times the batch means a $k$-th of the updates. **Guess:** how often
# are the weights of ResNet-50 changed in 90 epochs of ImageNet with a batch of 8,192? And by how much may a
# weight then change at each of them, compared with a batch of 256, if it is to arrive at the same place?

# %%
guesses["updates of ResNet-50 at a batch of 8,192"] = None

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
# The second table is our own experiment of this lecture: 12,288 images of Fashion-MNIST, 10 epochs. It has
# the same *ratio* of batches, 32 ranks against one, that is 1,024 images against 32. But compare the columns.
# A large batch on ImageNet is less than a hundredth of the images; ours is a twelfth of them, and the whole
# training has 120 updates. **Our large batch is a much more extreme one.** Keep this in mind for everything
# that follows; in 8.9 we come back to it.
#
# ## 8.2 One long step for k short ones
#
# Start at $w_t$ and make $k$ small steps with the batches $B_0 \ldots B_{k-1}$, or one step with all of them,
# at a rate $\hat\eta$:
#
# $$w_{t+k} = w_t - \eta \sum_{j<k} \nabla\ell(B_j, w_{t+j}), \qquad
# \hat w_{t+1} = w_t - \hat\eta\,\frac1k \sum_{j<k} \nabla\ell(B_j, w_t).$$
#
# The two differ in one thing only: *where* the gradients are taken. If the gradient hardly changes on the
# way, $\nabla\ell(B_j, w_{t+j}) \approx \nabla\ell(B_j, w_t)$, then both arrive at the same place with
# $\hat\eta = k\eta$: **the linear rule**. Goyal et al. (2017, arXiv 1706.02677) write it down in this way and
# call the assumption strong.
#
# ![Two drawings of a loss as contour lines, with a start, four short steps joined into a path, and one long
# step. Left, in a straight, wide valley: the long step ends where the short steps end. Right, in a bent,
# narrow valley: the short steps follow the bend, the long step runs straight on and ends high on the opposite
# wall.](figures/08_steps.svg)
#
# An assumption can be measured. We take the script with which all networks of this lecture were trained, at
# its start and after one epoch. (The script is a small residual network like that of lecture 03, for pictures
# of 14×14 pixels. Section 8.4 looks at it.)


# %%
experiment = runpy.run_path("runs/08_large_batches.py")  # the variants of the script, and how they were run


def load(variant, k=1, seed=0, change=("", "")):
    """What a variant's script defines, as a dictionary; it trains only when its main() is called."""
    text, file = experiment["script"](variant).replace(*change), f"train.py of {variant}, k = {k}, {change}"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # TensorFlow reads it there
    sys.argv = ["train.py", str(k), str(seed)]
    names = {"__name__": "train"}
    exec(compile(text, file, "exec"), names)
    names["log"] = lambda **numbers: None  # outside a job
    return names


code = load("plain")
code["EPOCHS"] = 1  # the first of ten
model = code["network"]()
stages = {"start": model.get_weights(), "after 1 epoch": code["main"]()[2]}
x, y = code["images"]("train", SMALL)
print(f"{model.count_params():,} weights, images {x.shape}")

# %% [markdown]
# To walk about in the space of all weights we treat them as one vector, as the formulas do.

# %%
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
trained = model.trainable_variables


def place():
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
# same place one step with all 1,024 images at $32\eta = 3.2$. What is the cosine of the angle between the two
# ways? 1 means the same direction, 0 a right angle. And does the long step make the loss smaller?

# %%
guesses["cosine of long and short, at the start"] = None
guesses["cosine of long and short, after 1 epoch"] = None


@tf.function(reduce_retracing=True)
def walk(x, y, eta):
    """A step of plain SGD for each batch: x (steps, n, 14, 14, 1), y (steps, n)."""
    for i in tf.range(tf.shape(x)[0]):
        with tf.GradientTape() as tape:
            loss = cross_entropy(y[i], model(x[i], training=True))
        for w, g in zip(trained, tape.gradient(loss, [w.value for w in trained]), strict=True):
            w.assign_sub(eta * g)


def both_ways(batches, eta):
    """Displacements by steps of eta with each of the batches (k, n), and by one of k eta with all of them."""
    here, whole = place(), batches.ravel()
    long = -eta * len(batches) * gradient_of(x[whole], y[whole])[1].numpy()  # each n is normalised by itself
    walk(x[batches], y[batches], tf.constant(eta, tf.float32))
    short = place() - here
    move_to(here)
    return short, long


# %%
n, k, order = 32, 32, np.random.default_rng(8).permutation(SMALL)
rows = []
for stage, weights in stages.items():
    model.set_weights(weights)
    here = place()
    for i, eta in [(i, eta) for eta in (0.003, 0.01, 0.03, 0.1, 0.3) for i in range(2)]:
        whole = order[i * k * n : (i + 1) * k * n]
        short, long = both_ways(whole.reshape(k, n), eta)
        cosine = short @ long / np.linalg.norm(short) / np.linalg.norm(long)
        row = {"stage": stage, "kη": k * eta, "cosine": cosine}
        for name, way in {"long": long, "short": short, "here": 0}.items():
            move_to(here + way)
            row[name] = float(gradient_of(x[whole], y[whole])[0])
        rows.append(row)
steps = pd.DataFrame(rows).groupby(["stage", "kη"], sort=False).mean()
steps = steps[["cosine", "here", "short", "long"]]
display(steps.rename(columns={c: f"loss, {c}" for c in steps.columns[1:]}).round(3))
for stage, question in zip(stages, list(guesses)[1:], strict=True):
    compare(question, steps.loc[(stage, k * 0.1), "cosine"])

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
for i, stage in enumerate(stages):
    some = steps.loc[stage]
    style = {"color": palette[i], "ls": "-", "marker": "os"[i]}
    axes[0].plot(some.index, some["cosine"], label=stage, **style)
    axes[1].plot(some.index, some["short"] / some["here"], label=f"{stage}, 32 short", **style)
    axes[1].plot(
        some.index,
        some["long"] / some["here"],
        label=f"{stage}, one long",
        **style | {"ls": "--", "mfc": "w"},
    )
axes[0].set(xscale="log", ylim=(0, 1.05), xlabel=r"length of the long step, $k\eta$", ylabel="cosine")
axes[0].set_title("Do both go the same way?")
axes[1].axhline(1, color="0.4", lw=0.8, marker="", ls="-")
axes[1].set(xscale="log", ylim=(0, 2.2), xlabel=r"$k\eta$", ylabel="loss after / loss before")
axes[1].set_title("Does the loss fall?")
axes[0].legend()
axes[1].legend(fontsize=8)
plt.show()

# %% [markdown]
# *(Figure, left: the cosine of the long step and the 32 short ones against $k\eta$ from 0.1 to 10. At the
# start it falls from nearly 1 to below 0.5, after one epoch later and less. Right: the loss after the step
# over the loss before it. The 32 short steps, solid lines, always make it smaller. The long step, dashed,
# follows them up to $k\eta \approx 1$ and then makes it larger.)*
#
# **The assumption of the linear rule holds for short ways only.** Up to $k\eta$ near 1 the long step does
# what the short ones do. At 3.2 they part: 32 small steps walk down into a valley, the long one overshoots.
# At the start of training the directions agree worse than after one epoch. This is the usual argument for a
# **warmup**: begin with short steps, where the landscape bends most. But look at the right panel, too: after
# one epoch the long step at 3.2 makes the loss larger as well. Our $k\eta$ is too long for *both* places.
# Remember this until 8.6.
#
# And with momentum it is worse. The experiment below has $\eta = 0.1$ and momentum 0.9. A velocity that adds
# up gradients, each step losing a tenth, moves ten times as far in the long run: $\eta / (1 - 0.9) = 1$, and
# $k\eta$ becomes 32. No long step of this length follows the short path from either of our two places. Where
# the linear rule works nevertheless, it works for more reasons than its derivation has.

# %% [markdown]
# ## 8.3 How noisy is a gradient?
#
# The other half of the question: what is a large batch *good* for? The gradient of $n$ images is the true
# one, $G$, of all images, plus noise. Drawn independently, the noise of $kn$ images has a $k$-th of the
# variance:
#
# $$\mathrm E\,|g_{kn}|^2 = |G|^2 + \frac{\operatorname{tr}\Sigma}{kn}$$
#
# $\Sigma$ is the covariance of one image's gradient, its trace the sum of the variances of all weights. Where
# the second term is the larger one, a step is mostly noise, and a larger batch buys a better direction. Where
# it is the smaller one, the direction is good already, and a larger batch buys nothing. The two are equal at
# a batch of
#
# $$N_\text{noise} = \operatorname{tr}\Sigma\,/\,|G|^2 ,$$
#
# which McCandlish et al. (2018, arXiv 1812.06162) call the *simple noise scale* and propose as the size up to
# which a large batch pays. **Guess** it, in images, at the start and after one epoch.

# %%
guesses["noise scale at the start"] = None
guesses["noise scale after 1 epoch"] = None


def noise(weights):
    """|G|², tr Σ of one image, and the gradients of all batches of n, from one pass over the images."""
    model.set_weights(weights)
    g = np.stack([gradient_of(x[b], y[b])[1].numpy() for b in np.split(order, SMALL // n)])  # (384, weights)
    variance = g.var(0, ddof=1).sum()  # of n images
    signal = (g.mean(0) ** 2).sum() - variance / len(g)  # the mean itself is a little noisy
    return signal, n * variance, g


# %%
with np.load("runs/08_large_batches.npz") as file:
    recorded = {name: file[name].astype(np.float32) for name in file.files}
parts = range(len(model.get_weights()))
stages["trained"] = [recorded[f"plain 1 0 {i}"] for i in parts]  # ten epochs, by the recorded run
noises = {stage: noise(weights) for stage, weights in stages.items()}
for stage, question in zip(stages, list(guesses)[3:], strict=False):
    compare(question, noises[stage][1] / noises[stage][0], " images")
table = pd.DataFrame({s: {"|G|²": a, "tr Σ": b, "noise scale": b / a} for s, (a, b, _) in noises.items()}).T
display(table.round(3))

# %%
fig, ax = plt.subplots(figsize=(7.4, 3.8))
many = n * 2 ** np.arange(7)
for i, (stage, (signal, spread, g)) in enumerate(noises.items()):
    means = [(g.reshape(-1, m // n, g.shape[1]).mean(1) ** 2).sum(1).mean() for m in many]
    ax.loglog(many, means, color=palette[i], marker="os^"[i], ls="", label=f"{stage}, measured")
    fine = np.geomspace(8, 1e4, 60)
    ax.loglog(fine, signal + spread / fine, color=palette[i], marker="", ls=["-", "--", "-."][i])
    ax.axvline(spread / signal, color=palette[i], marker="", lw=0.9, ls=":")
ax.set(xlabel="images in the batch", ylabel=r"mean of $|g|^2$", xticks=[8, 32, 256, 1024, 8192])
ax.set_xticks([8, 32, 256, 1024, 8192], ["8", "32", "256", "1,024", "8,192"])
ax.set_title("The length of a gradient, as the batch grows (dotted: noise scale)")
ax.legend()
plt.show()

# %% [markdown]
# *(Figure: the mean squared length of the gradient against the batch from 32 to 2,048, both logarithmic, for
# three moments of the training. The measured points lie on the curves of the formula. At the start the curve
# is nearly flat from 100 images on. After one epoch it falls until some hundred images; trained, it falls
# almost like a straight line over the whole range. A dotted vertical line marks each noise scale, further to
# the right each time.)*
#
# The formula holds, and the noise scale **grows by orders of magnitude during training**: from some tens of
# images to thousands. (The last number is rough: $|G|^2$ has become so small that it is hardly above its own
# error, and another seed gives several times as much.) At the start all images agree about what is wrong
# (they say "everything"), and 32 of them are enough to hear it: a batch of 1,024 wastes nearly all its work.
# Later the images disagree, and a large batch is worth its price. This is a second argument for a warmup, and
# it does not need the first.
#
# ### Two rules, two things kept
#
# Now both rules in one view. Let the gradient change little for $k$ steps. Their sum has the mean $k\eta G$
# and the covariance $k\,\eta^2\,\Sigma/n$. The one step at rate $\hat\eta$ has $\hat\eta G$ and
# $\hat\eta^2\,\Sigma/(kn)$.
#
# | | mean, over k batches | covariance, over k batches |
# |---|---|---|
# | $k$ short steps | $k\eta G$ | $k\eta^2\Sigma/n$ |
# | linear, $\hat\eta = k\eta$ | $k\eta G$, **the same** | $k\eta^2\Sigma/n$, **the same** |
# | $\hat\eta = \sqrt k\,\eta$ | $\sqrt k\,\eta G$ | $\eta^2\Sigma/n$: that of *one* short step |
# | naive, $\hat\eta = \eta$ | $\eta G$ | $\eta^2\Sigma/(kn)$ |
#
# So the linear rule keeps *both* over an epoch, progress and noise. The $\sqrt k$ rule keeps the noise *of an
# update*; since there are $k$ times fewer updates, it goes only $1/\sqrt k$ of the way. Books that recommend
# it "because it keeps the variance" do not say: the variance of what? Check the table with the gradients that
# we have:

# %%
signal, spread, g = noises["after 1 epoch"]
groups = g.reshape(-1, k, g.shape[1])  # (12, k, weights): k batches each
eta, rows = 0.001, {}
for name, ways in {
    "k short": eta * groups.sum(1),
    "linear": k * eta * groups.mean(1),
    "sqrt": math.sqrt(k) * eta * groups.mean(1),
    "naive": eta * groups.mean(1),
}.items():
    rows[name] = {"length of the mean": np.linalg.norm(ways.mean(0)), "variance": ways.var(0, ddof=1).sum()}
table = pd.DataFrame(rows).T
display((table / table.loc["k short"]).round(4))
assert np.allclose(table.loc["linear"], table.loc["k short"], rtol=1e-3)

# %% [markdown]
# (The first two rows are equal for a simple reason: here all gradients are taken at one place, so they are
# the same sum. What the *place* does, 8.2 has shown.)

# %% [markdown]
# ## 8.4 Matched scripts
#
# Now the experiment. "We added warmup, and it got better" convinces only if *nothing but* the warmup was
# added. In a course that we know of, the scripts "with" and "without" were the same file to the last byte. So
# we have **one script**, and each variant replaces one line of one other variant; a test compares all of
# them.


# %%
def family():
    """Each variant, its parent, and the line that differs."""
    rows = []
    for name, (parent, _, new) in experiment["VARIANTS"].items():
        if parent:
            ours, theirs = (experiment["script"](v).splitlines() for v in (name, parent))
            assert len(ours) == len(theirs) and sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1
            rows.append(f"| {name} | {parent} | `{new.removesuffix('  # <-')}` |")
    return "\n".join(["| variant | parent | its line |", "|---|---|---|", *rows])


display(Markdown(family()))

# %% [markdown]
# And here is the part of the script that trains. One process stands in for all $k$ ranks: the mean over $kn$
# images is what an all-reduce with averaging gives (lecture 07). One thing must not be forgotten: on real
# ranks, batch normalisation sees only the $n$ images *of its rank*. The script's `RankBatchNorm` therefore
# normalises in groups of $n$. So the loss is the same function for all $k$, and large batches are compared
# with small ones, not one kind of normalisation with another. (Goyal et al. insist on this.)

# %%
source = experiment["script"]("gradual")
wanted = ("rate", "direction", "update")
found = {
    node.name: ast.get_source_segment(source, node)
    for node in ast.walk(ast.parse(source))
    if getattr(node, "name", None) in wanted
}
print("\n\n".join(found[name] for name in wanted))

# %% [markdown]
# **Guess** the test error after ten epochs. With one rank it is near 12%.

# %%
guesses["32 ranks, naive, test error"] = None
guesses["32 ranks, linear without warmup, test error"] = None
guesses["32 ranks, gradual warmup, test error"] = None

# %%
record = json.loads(pathlib.Path("runs/08_large_batches.json").read_text())
runs = pd.DataFrame(record["runs"])
runs["error"] = [errors[-1] for errors in runs["errors"]]
first = record["runs"][0]
print(f"RECORDED RUNS: {len(runs)} jobs of {first['submitted'][:10]}, {first['machine']['cpu']},")
print(f"seeds {record['seeds']}, TensorFlow {first['versions']['tensorflow']}; made again by")
print("make experiments RUN=08")

# %% [markdown]
# ## 8.5 What came out
#
# Five runs are five numbers. We show all of them, their mean, and the interval that holds the true mean with
# 95% if the errors of the seeds are normally distributed: $\bar e \pm 2.776\, s / \sqrt 5$, Student's $t$ for
# five values. Beside it the ImageNet results of Goyal et al., top-1 error, naive as on our slide.

# %%
GOYAL = {
    "plain, k = 1": (23.60, 0.12),
    "plain": (41.78, 0.10),  # 41.67 in another source, see 8.9
    "sqrt": (26.22, 0.03),
    "linear": (24.84, 0.37),
    "constant": (25.88, 0.56),
    "gradual": (23.74, 0.09),
    "gradual, half": (24.27, math.nan),
}  # top-1 error on ImageNet / %, at 256 images and at 8,192


def interval(values):
    """Half of the 95% interval of the mean, by Student's t."""
    assert len(values) == 5, "2.776 is Student's t for five values"
    return 2.776 * np.std(values, ddof=1) / math.sqrt(5)


# %%
five = runs[~runs["variant"].isin(["half", "double"])]  # these have one seed: 8.6
large = five[five["k"] == 32].pivot(index="seed", columns="variant", values="error")
large["plain, k = 1"] = five[(five["variant"] == "plain") & (five["k"] == 1)].set_index("seed")["error"]
names = ["plain, k = 1", "plain", "linear", "sqrt", "constant", "gradual", "gamma 0", "LARS"]
table = pd.DataFrame({"error": large.mean(), "±": large.apply(interval)})
table["minus gradual"] = large.sub(large["gradual"], axis=0).mean()
table["± "] = large.sub(large["gradual"], axis=0).apply(interval)
table["ImageNet"] = {name: error for name, (error, _) in GOYAL.items()}
display(table.loc[names].round(2))
for question, name in zip(list(guesses)[5:], ["plain", "linear", "gradual"], strict=False):
    compare(question, large[name].mean(), "%")


# %%
label = {"plain, k = 1": "one rank: η", "plain": "naive: η", "linear": "linear: kη", "sqrt": "√k η"}
label |= {"constant": "kη, constant warmup", "gradual": "kη, gradual warmup"}
label |= {"gamma 0": "  + γ = 0", "LARS": "  + LARS"}
fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=[1.25, 1])
for row, name in enumerate(reversed(names)):
    axes[0].plot(large[name], [row] * 5, ls="", marker="o", mfc="none", color="0.45", ms=5)
    bar = {"xerr": interval(large[name]), "color": palette[0], "marker": "D", "ms": 6, "lw": 2, "ls": ""}
    axes[0].errorbar(large[name].mean(), row - 0.25, **bar)
axes[0].set_yticks(range(len(names)), [label[name] for name in reversed(names)])
axes[0].set(xlabel="test error / %", title="Five seeds each, and their mean", xlim=(10, 82))
for i, name in enumerate(["plain, k = 1", "plain", "linear", "gradual"]):
    some = five[(five["variant"] == name.split(",")[0]) & (five["k"] == (1 if "=" in name else 32))]
    losses = np.array([np.reshape(v, (10, -1)).mean(1) for v in some["losses"]])  # (seeds, epochs)
    style = {"color": palette[i], "marker": "os^D"[i], "ls": ["-", "--", "-.", ":"][i], "ms": 4}
    axes[1].plot(range(1, 11), losses.mean(0), label=label[name], **style)
    axes[1].fill_between(range(1, 11), losses.min(0), losses.max(0), color=palette[i], alpha=0.15)
axes[1].set(xlabel="epoch", ylabel="training loss", title="On the way", ylim=(0, 3))
axes[1].legend()
plt.show()

# %% [markdown]
# *(Figure, left: test errors of eight variants, five circles each, with the mean and its interval below. One
# rank, near 12%, is best, and its seeds lie close together. With 32 ranks √k follows, near 14%; then naive
# and gradual warmup, between 15 and 19%; linear without warmup near 20%; constant warmup from 30 to 75%.
# Right: the training loss over ten epochs. One rank lies far below all others. Naive and gradual warmup run
# together; linear stays above them to the end.)*
#
# Read it slowly; some of it is what the textbook says, and some is the opposite.
#
# - **A large batch costs.** No variant with 32 ranks comes near one rank with the same number of epochs. As
#   on ImageNet, where naive lost 18 points.
# - **Without warmup the linear rule is worse than doing nothing.** Its first updates throw the network out of
#   the region in which it was initialised: the loss rises above that of guessing, and the training never
#   makes up for it. That is what 8.2 has predicted: at $k\eta = 3.2$ one long step from the start makes the
#   loss *larger*.
# - **Gradual warmup repairs this**, by some points (the interval of the difference only just leaves out zero:
#   that is what five seeds can do). **Constant warmup does not**: it only moves the shock to the fourth
#   epoch, where the rate jumps by a factor of 32 at once, and with the corrected momentum (8.8) the velocity
#   jumps with it. Goyal et al. found the same order for these three on ImageNet: gradual, none, constant.
# - **But gradual warmup only brings us back to naive**, and **$\sqrt k$ without any warmup beats all of
#   them**. In the paper only naive was worse than $\sqrt k$, and $k\eta$ with warmup equalled the small
#   batch. Our experiment contradicts the textbook, and not by chance: the seeds of $\sqrt k$ and of gradual
#   warmup do not overlap.
#
# Why? Before you read on: which number of 8.3 would you look at?

# %% [markdown]
# ## 8.6 All rules are points on one curve
#
# Forget the rules for a moment. The variants differ in the *rate* that they reach: $\eta$, $\sqrt{32}\,\eta$,
# $16\eta$ (gradual warmup to half the rate), $32\eta$; and in whether they warm up. So they are points on a
# curve, error against rate (one with warmup, one without), and each batch has a best rate on it. How does the
# best rate grow with the batch? If each step is chosen as long as its noisy direction deserves, then, from a
# quadratic model of the loss (McCandlish et al.),
#
# $$\eta_\text{best}(N) \propto \frac{1}{1 + N_\text{noise} / N} .$$
#
# For batches far below the noise scale that is *proportional to $N$*: the linear rule. Far above it, it is
# *constant*: the direction is good already, and more images do not make it better. In between lie all the
# powers, $\sqrt k$ among them. We have measured the noise scale. So we can predict, for each stage, by which
# factor $k$ ranks may raise the rate of one:

# %%
scales = {stage: spread / signal for stage, (signal, spread, _) in noises.items()}
table = pd.DataFrame(
    {"linear": {k: k for k in (8, 32, 128)}, "sqrt": {k: math.sqrt(k) for k in (8, 32, 128)}}
)
for stage, scale in scales.items():
    table[f"{stage} ({scale:.0f})"] = [(1 + scale / n) / (1 + scale / (k * n)) for k in table.index]
display(table.rename_axis("ranks").map("{:.1f}".format))

# %% [markdown]
# Read the row of 32 ranks. At the start the rate should only be doubled. After one epoch the factor is near
# $\sqrt{32}$, and only at the end of the training near 32. So the model prescribes a *very slow warmup*, and
# the linear rule, which asks for 32 from the third epoch on, is too fast in the epochs in which most is
# learned. For 8 ranks, a batch of 256, it is right up to a factor of two as soon as the first epoch is over;
# for 128 ranks it is off by a factor of sixteen. Does the experiment agree?

# %%
B = 0.1  # the base rate of all runs with five seeds
cold = {"plain": B, "sqrt": B * math.sqrt(32), "linear": B * 32}
warm = {"gradual, half": B * 32 / 2, "gradual": B * 32}
trials = {"half": B / 2, "double": 2 * B}  # with one rank
fig, ax = plt.subplots(figsize=(7.4, 3.8))
for i, (name, rates) in enumerate({"32 ranks, no warmup": cold, "32 ranks, gradual warmup": warm}.items()):
    style = {"marker": "os"[i], "color": palette[i], "ls": ["-", "--"][i], "label": name}
    means, bars = ([of(large[v]) for v in rates] for of in (np.mean, interval))
    ax.errorbar(list(rates.values()), means, yerr=bars, **style)
single = large["plain, k = 1"]
style = {"marker": "^", "color": palette[2], "ls": "", "label": "one rank"}
ax.errorbar(B, single.mean(), yerr=interval(single), **style)
for variant, rate in trials.items():
    found = runs[runs["variant"] == variant]["error"]
    ax.plot([rate] * len(found), found, marker="x", ms=8, ls="", color=palette[2])
ax.set(xscale="log", xlabel="learning rate that is reached", ylabel="test error / %", ylim=(10, None))
ax.set_title("The rate decides (crosses: one seed)")
ax.legend()
plt.show()

# %%
ladder = {1: "plain", 8: "gradual", 32: "gradual", 128: "gradual"}
reached = {k: runs[(runs["variant"] == v) & (runs["k"] == k)]["error"] for k, v in ladder.items()}
fig, ax = plt.subplots(figsize=(7.4, 3.2))
bars = {"yerr": [interval(e) for e in reached.values()], "color": palette[0], "marker": "o"}
ax.errorbar([32 * k for k in reached], [e.mean() for e in reached.values()], **bars)
ax.set(xscale="log", xlabel="images in an update", ylabel="test error / %", ylim=(0, 100))
ax.set_title("kη with gradual warmup: how far does the linear rule carry?")
ax.set_xticks([32, 256, 1024, 4096], ["32", "256", "1,024", "4,096"])
for stage, scale in scales.items():
    ax.axvline(scale, color="0.5", marker="", ls=":")
    ax.text(scale * 1.05, 93, f"noise scale,\n{stage}", fontsize=8.5, va="center")
plt.show()
display(pd.DataFrame({k: e.agg(["mean", "min", "max"]) for k, e in reached.items()}).T.round(1))

# %% [markdown]
# *(First figure: test error against the learning rate that is reached, logarithmic. 32 ranks without warmup:
# three points, lowest in the middle, at √32 times the rate of one rank, and highest at 32 times. With gradual
# warmup, at 16 and 32 times: both near 16%, below the cold point at 32 times. One rank lies below all of
# them, at half and twice its rate as well. Second figure: test error against the images of an update, with kη
# and gradual warmup. 32 and 256 images: nearly the same. 1,024: a few points more. 4,096: 80 to 90%,
# guessing. Dotted lines mark the three noise scales of 8.3.)*
#
# It does. **The linear rule holds as long as the batch is not far above the noise scale of the early
# training, and then it ends.** With 8 ranks, 256 images, $k\eta$ and a gradual warmup come within half a
# point of one rank with an eighth of its updates: Goyal's result, in small. With 32 ranks the rule asks for
# too much, and with 128 nothing is learned at all. The second figure has the shape of the most famous one of
# their paper: flat, flat, and then up. There the bend is at 8,192 images, here between 256 and 1,024.
#
# So the contradiction has a likely explanation. $\sqrt k$ is not a better *rule* than $k$; for our 1,024
# images it happens to lie nearer to the best rate. On ImageNet, where large batches are useful up to tens of
# thousands of images (McCandlish et al.), 8,192 would be on the linear part for most of the training, and
# there $\sqrt k$ is too short. **A rule without the noise scale is half a rule.**
#
# A word on the base rate, on which a linear rule stands. One rank hardly cares between 0.05 and 0.2 (the
# crosses), so "the rate that suits one rank" is uncertain by a factor of four, and with it $k\eta$. We took
# 0.1, which is also the paper's, before the sweep; half of it is in the figure, at 1.6; twice as much was
# clearly worse with 32 ranks in a first trial that is not recorded.
#
# Two more things that did not help here. **γ = 0**: the last batch normalisation of each block starts at
# zero, so that the network starts as if it had no blocks. In the paper it gains a third of a point; here two
# of five seeds got much worse, and the interval of the difference holds zero. **LARS** (You et al., arXiv
# 1708.03888) gives each kernel a direction of a thousandth of *its own* length, whatever the length of its
# gradient, so that no layer is thrown out by a gradient that is large for its weights. It is not measurably
# different here, and its seeds agree better. The thousandth is the paper's; three thousandths were a little
# better in a first trial of one seed, and we have tuned nothing else. It was made for batches of 8,192 and
# more.

# %% [markdown]
# ## 8.7 Sharp minima?
#
# Keskar et al. (2016, arXiv 1609.04836) gave a reason why large batches should generalise worse: their noise
# is too small to leave *sharp* minima, where the loss rises steeply on all sides, and a test set, which is a
# slightly different loss, is then hit at a steep place. A natural measure is the largest eigenvalue of the
# Hessian, the curvature in the steepest direction. Power iteration finds it: multiply a vector by the Hessian
# again and again, and it turns into that direction. The product needs no Hessian, only two gradients:
# $Hv \approx (\nabla\ell(w + \epsilon v) - \nabla\ell(w - \epsilon v)) / 2\epsilon$.


# %%
PROBE = 512  # training images on which the loss around a minimum is measured
kernels = np.concatenate([np.full(math.prod(w.shape), len(w.shape) == 4, np.float32) for w in trained])


def hessian_times(v, here, epsilon=0.01):
    """H v at `here`, of the loss on the first PROBE images, where only kernels of convolutions move."""
    sides = []
    for sign in (1, -1):
        move_to(here + sign * epsilon * v)
        sides.append(gradient_of(x[:PROBE], y[:PROBE])[1].numpy())
    move_to(here)
    return kernels * (sides[0] - sides[1]) / (2 * epsilon)


model.set_weights(stages["trained"])
here, v = place(), kernels * np.random.default_rng(0).normal(size=kernels.size).astype(np.float32)
for _ in range(15):
    v /= np.linalg.norm(v)
    product = hessian_times(v, here)
    largest, v = float(v @ product), product
steepest = v / np.linalg.norm(v)
print(f"largest curvature: {largest:.2f}")

# %% [markdown]
# **Guess** before you compare networks by it. Lecture 03 has shown that batch normalisation takes the scale
# of the weights before it out again. We multiply all kernels of convolutions by 3. The network computes the
# same function. By which factor does the curvature in this direction change?

# %%
guesses["curvature of the same network, kernels × 3"] = None

# %%
found = {}
for scale in (1, 3):
    scaled = np.where(kernels, scale * here, here)
    move_to(scaled)
    loss = float(gradient_of(x[:PROBE], y[:PROBE])[0])
    found[scale] = float(steepest @ hessian_times(steepest, scaled, epsilon=0.01 * scale))
    print(f"kernels × {scale}: loss {loss:.4f}, curvature {found[scale]:.4f}")
compare("curvature of the same network, kernels × 3", found[3] / found[1], "×")

# %% [markdown]
# **The same function, nine times flatter.** With batch normalisation the eigenvalue of a minimum is a number
# about the length of the weights as much as about the minimum (Dinh et al., arXiv 1703.04933), and training
# with a large rate makes weights long. A probe must not depend on what the function does not depend on. Li et
# al. (arXiv 1712.09913) draw random directions and give each *filter* in them the length of the same filter
# of the network: a step of 0.1 then means "10% of each filter", whatever its scale. We walk in such
# directions from the minima of four variants, five seeds each.


# %%
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


# %%
distances = np.linspace(-0.6, 0.6, 9)
evaluate = tf.function(lambda x, y: cross_entropy(y, model(x, training=True)), reduce_retracing=True)
profiles, rng = {}, np.random.default_rng(8)
for name, variant in {
    "one rank": "plain 1",
    "naive": "plain 32",
    "linear": "linear 32",
    "gradual": "gradual 32",
}.items():
    profiles[name] = []
    for seed in range(5):
        model.set_weights([recorded[f"{variant} {seed} {i}"] for i in parts])
        here = place()
        for way in (direction(rng), direction(rng)):
            losses = []
            for a in distances:
                move_to(here + a * way)
                losses.append(float(evaluate(x[:PROBE], y[:PROBE])))
            profiles[name].append(losses)
profiles = {name: np.array(p).reshape(5, 2, -1).mean(1) for name, p in profiles.items()}  # (seeds, distances)

# %%
fig, ax = plt.subplots(figsize=(7.4, 3.8))
rows = {}
for i, (name, losses) in enumerate(profiles.items()):
    style = {"color": palette[i], "ls": ["-", "--", "-.", ":"][i], "marker": "os^D"[i], "ms": 4}
    ax.plot(distances, losses.mean(0), label=name, **style)
    ax.fill_between(distances, losses.min(0), losses.max(0), color=palette[i], alpha=0.12)
    rise = losses[:, [2, -3]].mean(1) - losses[:, 4]
    rows[name] = {"training loss": losses[:, 4].mean(), "rise at ±0.3": rise.mean(), "±": interval(rise)}
ax.set(xlabel="distance, as a share of each filter", ylabel="training loss", ylim=(0, 3))
ax.set_title("Around the end of training, in random directions")
ax.legend()
plt.show()
display(pd.DataFrame(rows).T.round(3))

# %% [markdown]
# *(Figure: training loss against the distance from the end point of training, from −0.6 to 0.6, for four
# variants; lines are means over five seeds, bands their range. One rank, solid, lies lowest in the middle.
# Naive, dashed, rises most steeply to both sides. Linear and gradual are as flat as one rank or flatter, but
# lie higher in the middle.)*
#
# What Keskar et al. say can be seen: **the large batch with the small rate ends about twice as sharp as one
# rank**, well outside of both intervals. But two things do not fit.
#
# - **It is not the batch.** Linear and gradual have the same batch of 1,024 images, and they end as flat as
#   one rank. They have a large *rate*. That is what the table of 8.3 lets one expect: the noise of an epoch,
#   $k\hat\eta^2\Sigma/(kn)$ for each of its updates, depends on the rate and the batch *together*, and the
#   linear rule keeps it. And large steps by themselves cannot stay in a narrow valley.
# - **Flat is not good.** Linear without warmup is the flattest of the four, and it errs most of them. Here
#   the ranking in sharpness says little about the ranking in test error.
#
# And a doubt about ourselves: the naive training, with 120 short updates, has simply not arrived. Its
# training loss is far above that of one rank, so we compare places on the way rather than minima. To separate
# "sharp" from "not yet there" one would train all to the same training loss. It is one more page of the
# textbook that a small experiment can question, and cannot settle.

# %% [markdown]
# ## 8.8 Four classical mistakes
#
# Goyal et al. list mistakes that are easily made, because nothing fails: the numbers are just a little worse.
# Each of them in a few lines.
#
# ### Weight decay: scaling the loss is not scaling the rate
#
# Some frameworks make it easier to multiply the *loss* by $k$ than the rate. Without weight decay it is the
# same. With it, the step is $\eta\,(k\nabla\ell + \lambda w)$ in place of $k\eta\,(\nabla\ell + \lambda w)$:
# the decay is $k$ times too weak. For a loss $\frac12 (w - 1)^2$ and $\lambda = 0.25$ one sees where it ends:

# %%
decay, w = 0.25, {"rate × 8": 0.0, "loss × 8": 0.0}
for _ in range(300):
    w["rate × 8"] -= 8 * 0.01 * ((w["rate × 8"] - 1) + decay * w["rate × 8"])
    w["loss × 8"] -= 0.01 * (8 * (w["loss × 8"] - 1) + decay * w["loss × 8"])
print({name: round(value, 3) for name, value in w.items()}, f"; right: {1 / (1 + decay)}")
assert math.isclose(w["rate × 8"], 1 / (1 + decay), rel_tol=1e-6)
assert math.isclose(w["loss × 8"], 1 / (1 + decay / 8), rel_tol=1e-6)

# %% [markdown]
# Another minimum: that of an eighth of the decay. (Our own experiment has no weight decay, so it cannot make
# this mistake.)
#
# ### Momentum: the velocity remembers the old rate
#
# Momentum is written in two ways. They are the same as long as $\eta$ is:
#
# $$u \leftarrow m u + g, \quad w \leftarrow w - \eta u
# \qquad\text{or}\qquad v \leftarrow m v + \eta g, \quad w \leftarrow w - v.$$
#
# In the second the rate is *inside* the velocity. When it changes, the old gradients go on at the old rate,
# unless $v$ is multiplied by $\eta_\text{new}/\eta_\text{old}$: the **momentum correction**. **Guess:** which
# of the two does Keras use? We ask it, with a gradient that is always 1 and a rate that jumps from 0.1 to 3.2
# and later falls to 0.32.

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

# %%
fig, ax = plt.subplots(figsize=(7.4, 3.2))
ax.plot(lengths["rate inside, corrected"], marker="", ls="-", label="corrected")
ax.plot(lengths["Keras"], marker="", ls="--", label="not corrected, as in Keras")
ax.set(xlabel="update", ylabel="length of the step", title="A rate that jumps: 0.1, 3.2, 0.32")
ax.legend(loc="upper left", fontsize=8.5)
plt.show()

# %% [markdown]
# *(Figure: length of the step over 90 updates. Corrected, solid: it jumps from 1 to 32 at once, and later
# down to 3.2 at once. Not corrected, dashed, as in Keras: both jumps are smeared over twenty updates.)*
#
# After the fall Keras goes on with too long steps for some twenty updates. But look at the jump *up*: there
# the missing correction is a small warmup! Our script has the correction; the variant `uncorrected` leaves it
# out:

# %%
table = pd.DataFrame({"error": large.mean(), "±": large.apply(interval)}).loc[
    ["gradual", "uncorrected", "shuffles"]
]
paired = large.sub(large["gradual"], axis=0)
table["minus gradual"], table["± "] = paired.mean(), paired.apply(interval)
display(table.round(2))

# %% [markdown]
# The interval of the difference is wide and holds zero: five seeds do not show that the correction helps or
# hurts in *this* schedule. That is no surprise. A gradual warmup raises the rate by small steps, after the
# first few by some percent; the correction is made for jumps, as those of constant warmup and of the decay.
# Where an effect is smaller than the spread of the seeds, the arithmetic above is the better argument.
#
# ### Divide by kn, not by n
#
# The mean over all $kn$ images is what the rule was derived for. If every rank takes the mean over its $n$
# and all-reduce *adds* them up, the gradient is $k$ times too long; with the linear rule on top it is $k^2$.
# One epoch of 32 ranks:


# %%
firsts = {}
for name, change in {"mean": ("", ""), "sum": ("return B * k", "return B * k * k")}.items():
    code = load("linear", k=32, change=change)
    code["EPOCHS"] = 1
    firsts[name] = code["main"]()[0]
print(pd.DataFrame(firsts, index=range(1, 13)).T.round(1).to_string())

# %% [markdown]
# (A gradient $k$ times as long and a rate $k$ times as large are the same step, so we may change the rate.)
# This mistake is loud. Its silent cousin is the mean of means where the ranks do *not* have equally many
# images, say 96 and 32:

# %%
model.set_weights(stages["after 1 epoch"])
many, few = order[:96], order[96:128]
g_many, g_few = (gradient_of(x[b], y[b])[1].numpy() for b in (many, few))
right, wrong = (96 * g_many + 32 * g_few) / 128, (g_many + g_few) / 2
off = np.linalg.norm(wrong - right) / np.linalg.norm(right)
print(f"the mean of means is off by {off:.0%} of the length of the mean")
print(f"an image of the second rank weighs {(1 / 32) / (1 / 96):.0f} times as much as one of the first")

# %% [markdown]
# That is why lecture 07 gave each rank the same number of images.
#
# ### One shuffle for all
#
# If each rank shuffles all images *for itself* and takes its share of the steps, then some images are seen
# twice in an epoch and others not at all. **Guess:** with 32 ranks, which share of the images is not seen in
# an epoch?

# %%
guesses["images not seen in an epoch, 32 shuffles"] = None

# %%
own = np.concatenate([np.random.default_rng(rank).permutation(SMALL)[: SMALL // k] for rank in range(k)])
unseen = 100 * (1 - len(np.unique(own)) / SMALL)
compare("images not seen in an epoch, 32 shuffles", unseen, "%")
print(f"(1 - 1/k)^k = {100 * (1 - 1 / k) ** k:.1f}%, for many ranks 1/e = {100 / math.e:.1f}%")

# %% [markdown]
# More than a third. And the error? It is in the table above, in the row `shuffles`: no difference that five
# seeds could show. Each epoch leaves out another third, so after ten epochs nearly every image has been seen.
# **This mistake shows in no curve.** Only a look at the indices finds it, as in lecture 07.
#
# ## 8.9 What does this say about ImageNet?
#
# First the source. Our slide has 41.78 ± 0.10% for the naive 8,192, a copy of the paper's table that we have
# read has 41.67 ± 0.10. Which is right? Let arithmetic speak:

# %%
images, trials, deviation = 50_000, 5, 0.10
for error in (41.78, 41.67):
    wrong = error / 100 * images * trials
    print(f"{error}%: {wrong:,.0f} wrong of {images * trials:,} in five runs")
apart = (41.78 - 41.67) / (deviation * math.sqrt(2 / trials))
print(f"the two are {apart:.1f} standard errors apart; the effect of the batch is {41.67 - 23.60:.1f} points")

# %% [markdown]
# Both numbers are possible, each is a whole number of photographs, and two sets of five runs may well differ
# by so much. **Arithmetic cannot decide**: it may be two sets of runs, two ways to take the last epochs, or a
# slip of the pen. We keep both and say so. Nothing that follows depends on a tenth of a point of eighteen.
#
# More important is which of the paper's differences are larger than *its* noise. From means and standard
# deviations of five runs each, against gradual warmup:

# %%
rows = {}
for name in ("plain, k = 1", "linear", "constant", "sqrt", "plain"):
    (error, spread), (best, best_spread) = GOYAL[name], GOYAL["gradual"]
    error_of_difference = math.hypot(spread, best_spread) / math.sqrt(5)
    rows[label[name].strip()] = {
        "minus gradual": error - best,
        "standard errors": (error - best) / error_of_difference,
    }
display(pd.DataFrame(rows).T.round(1))

# %% [markdown]
# The paper's claim is exactly this: gradual warmup *reaches* the small batch (a seventh of a point, two
# standard errors, which is at the edge of what five runs can tell), and the others do not.
#
# Second, the time. Was it worth it? Four rows of the decks for 90 epochs of ResNet-50, and the cost in device
# hours:

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
first, goyal, akiba, _ = HISTORY["device hours"]
print(f"efficiency against 8 devices: {first / goyal:.0%} on 256, {first / akiba:.0%} on 1,024")
print(f"104,000 cores of KNL for 28 minutes: {104_000 * 28 / 60:,.0f} core hours")

# %% [markdown]
# From 29 hours to less than four minutes, while the *cost* of the three P100 rows hardly changed: that is
# what scaling well means. The 90% that Goyal et al. state for 256 devices comes out of the table, with times
# rounded to hours. For 1,024 it gives the same, and Akiba et al. themselves state 80%: their starting point
# is another one, and rounded minutes do not decide. (The last column assumes 90 epochs for all.) Without
# large batches that learn, none of these machines could have been kept busy: with 256 images an update, 2,176
# devices would not even get one image each.
#
# ### What a small experiment can show, and what it cannot

# %%
sizes = pd.DataFrame(
    {
        "ImageNet, 8,192": [100 * 8192 / IMAGENET, 90 * (IMAGENET // 8192), 5 * (IMAGENET // 8192), 50_000],
        "ours, 1,024": [100 * 1024 / SMALL, 10 * (SMALL // 1024), 3 * (SMALL // 1024), 10_000],
    },
    index=["batch, % of the images", "updates", "updates of the warmup", "test images"],
)
sizes.loc["chance in one error / points"] = [
    100 * math.sqrt(e * (1 - e) / N) for e, N in zip((0.236, 0.12), sizes.loc["test images"], strict=True)
]
display(sizes.round(2))

# %% [markdown]
# **It can show mechanisms**, wherever we measure the quantity itself and not only its result: that one long
# step follows $k$ short ones only so far; that the noise falls as $1/N$ and the noise scale grows during
# training; that a too high rate needs a warmup; that the linear rule ends when the batch outgrows the noise
# scale; what each of the four mistakes does.
#
# **It cannot show** whether a recipe reaches 23.74% or 23.60% on ImageNet. A tenth of a point is far below
# what 10,000 test images and five seeds can resolve. Our batch is a twelfth of the data, with 36 updates of
# warmup in place of 780, so where *we* see the end of the linear rule says nothing about where ImageNet has
# it. A network of 20,000 weights on ten kinds of clothing has another noise scale, and another one again has
# the network that you will train next year. **Do not carry our numbers over; carry over the measurements**:
# the noise scale costs one pass over the data, and a sweep over four rates costs four runs.
#
# ## What we have learned
#
# - **A large batch has fewer updates** for the same epochs. The linear rule makes up for it by longer steps,
#   and keeps both progress and noise of an epoch, as long as the gradient does not change on the way;
#   $\sqrt k$ keeps the noise of an update.
# - **How far this goes, the noise scale says.** It grew from some tens of images to thousands, so a batch
#   that is wasted at the start is worth its price later: one of two reasons for a warmup. The other is that
#   one long step from the start goes wrong.
# - **Matched scripts** differ in one line; five seeds and an interval tell an effect from luck. Ours
#   confirmed that the linear rule needs a gradual warmup, and it contradicted the rank of $\sqrt k$; the
#   curve of rates explains both.
# - **Sharpness** of a network with batch normalisation means nothing before the scale of the weights is taken
#   out.
# - **Four mistakes**, most of them silent: decay scaled with the loss, momentum with an old rate, a sum or a
#   mean of means, and a shuffle for each rank.
# - **Small data shows mechanisms, not recipes.**
#
# **Your turn.** In assignment 08, [Large batches](../exercises/08_large_batches/large_batches.ipynb), you
# write the schedule as a function of the step, submit an experiment like this one as a sweep of jobs, and
# draw conclusions that your recorded runs must support.
#
# **To think about**
#
# 1. The noise scale grows during training. So why not let the *batch* grow, in place of letting the rate
#    fall? What would that cost, and what would it save, on a cluster where each of 32 ranks already has a
#    full batch of 256?
# 2. Our warmup takes 3 epochs, 36 updates. Is it the *epochs* or the *updates* that count? Which two runs
#    would tell?
# 3. **Hardware.** A GPU reaches its full speed only from some batch size on (lecture 01's roofline). If it
#    needs 64 images, and the noise scale is 1,024: on how many GPUs does it pay to train, and what happens
#    beyond?
