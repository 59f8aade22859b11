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

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=2)

# %% [markdown]
# As before you **guess before you look**: write your number in place of `None`, or into the field.

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
# ResNet-50, whatever the batch. So $k$ times the batch means a $k$-th of the updates. **Guess:** how often
# are the weights of ResNet-50 changed in 90 epochs of ImageNet with a batch of 8,192? How much further each
# of these changes must then go, and may go, is what the rest of this lecture is about.

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
# ![Two drawings of a loss as contour lines, with a start, eight short steps joined into a path, and one long
# step. Left, in a wide, round bowl: the long step ends a little beyond the end of the short ones. Right, in a
# bent, narrow valley: the short steps follow the bend, the long step runs straight on and ends high on the
# opposite wall.](figures/08_steps.svg)
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
guess("cosine of long and short, start", None)
guess("cosine of long and short, after 1 epoch", None)
guess("loss after the long step / before, start", None)


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


# %% tags=["measured"]
n, k, order = 32, 32, np.random.default_rng(8).permutation(SMALL)
rows = []
for stage, weights in stages.items():
    model.set_weights(weights)
    here = place()
    for i, eta in [(i, eta) for eta in (0.003, 0.01, 0.03, 0.1, 0.3) for i in range(2)]:
        whole = order[i * k * n : (i + 1) * k * n]
        short, long = both_ways(whole.reshape(k, n), eta)
        cosine = short @ long / np.linalg.norm(short) / np.linalg.norm(long)
        row = {"stage": stage, "kη": k * eta, "kη|g|": np.linalg.norm(long), "cosine": cosine}
        for name, way in {"long": long, "short": short, "here": 0}.items():
            move_to(here + way)
            row[name] = float(gradient_of(x[whole], y[whole])[0])
        rows.append(row)
both = pd.DataFrame(rows)  # of two batches
steps = both.groupby(["stage", "kη"], sort=False)[["kη|g|", "cosine", "here", "short", "long"]].mean()
display(steps.rename(columns={c: f"loss, {c}" for c in ("here", "short", "long")}).round(3))
for stage in stages:
    compare(f"cosine of long and short, {stage}", steps.loc[(stage, k * 0.1), "cosine"])
at = steps.loc[("start", k * 0.1)]
compare("loss after the long step / before, start", at["long"] / at["here"])

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
for i, stage in enumerate(stages):
    some, points = steps.loc[stage], both[both["stage"] == stage]
    style = {"color": palette[i], "ls": "-", "marker": "os"[i]}
    dashed = style | {"ls": "--", "mfc": "w"}
    axes[0].plot(some["kη|g|"], some["cosine"], label=stage, **style | {"marker": ""})
    axes[0].plot(points["kη|g|"], points["cosine"], **style | {"ls": ""})
    axes[1].plot(some.index, some["short"] / some["here"], label=f"{stage}, 32 short", **style)
    axes[1].plot(some.index, some["long"] / some["here"], label=f"{stage}, one long", **dashed)
axes[0].set(xscale="log", ylim=(0, 1.05), xlabel=r"length of the long step, $k\eta\,|g|$", ylabel="cosine")
axes[0].set_title("Do both go the same way?")
axes[1].axhline(1, color="0.4", lw=0.8, marker="", ls="-")
axes[1].set(xscale="log", yscale="log", xlabel=r"rate of the long step, $k\eta$")
axes[1].set(ylabel="loss after / loss before", title="Does the loss fall?")
axes[1].set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
axes[1].minorticks_off()
axes[0].legend()
axes[1].legend(fontsize=8)
plt.show()

# %% [markdown]
# *(Figure, left: the cosine of the long step and the 32 short ones against the length of the long step, for
# two batches. It falls from nearly 1 to about a half; at equal length it is lower after one epoch. Right:
# loss after over loss before. The short steps, solid, always make it smaller. The long step, dashed, follows
# them up to a rate of about 1 and then makes it larger.)*
#
# **The assumption of the linear rule holds for short ways only.** Up to $k\eta$ near 1 the long step does
# nearly what the short ones do. At 3.2 they part: 32 small steps walk down into a valley, the long one
# overshoots.
#
# The usual argument for a **warmup** goes on: at the start the landscape bends most, so begin with short
# steps. **Our measurement does not say this.** At equal *rate* the directions do agree worse at the start.
# But there the gradient is some four times as long, and the same rate goes four times as far. At equal
# *length*, the left panel, the ways part sooner after one epoch; and the long step at 3.2 raises the loss by
# the larger factor there, too. What is special about the start is a long gradient, not a bent landscape, and
# our $k\eta$ is too long for *both* places. Remember this until 8.6.
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
guess("noise scale at the start", None, " images")
guess("noise scale after 1 epoch", None, " images")


def noise(weights):
    """|G|², tr Σ of one image, and the gradients of all batches of n, from one pass over the images."""
    model.set_weights(weights)
    g = np.stack([gradient_of(x[b], y[b])[1].numpy() for b in np.split(order, SMALL // n)])  # (384, weights)
    variance = g.var(0, ddof=1).sum()  # of n images
    signal = (g.mean(0) ** 2).sum() - variance / len(g)  # the mean itself is a little noisy
    return signal, n * variance, g


# %% tags=["measured"]
with np.load("runs/08_large_batches.npz") as file:
    recorded = {name: file[name].astype(np.float32) for name in file.files}
parts = range(len(model.get_weights()))
stages["trained"] = [recorded[f"plain 1 0 {i}"] for i in parts]  # ten epochs, by the recorded run
noises = {stage: noise(weights) for stage, weights in stages.items()}
for stage, when in [("start", "at the start"), ("after 1 epoch", "after 1 epoch")]:
    compare(f"noise scale {when}", noises[stage][1] / noises[stage][0])
table = pd.DataFrame({s: {"|G|²": a, "tr Σ": b, "noise scale": b / a} for s, (a, b, _) in noises.items()}).T
display(table.round(3))
ends = [noise([recorded[f"plain 1 {seed} {i}"] for i in parts])[:2] for seed in range(5)]
ends = [spread / signal for signal, spread in ends]
print(f"trained, five seeds: noise scales from {min(ends):,.0f} to {max(ends):,.0f} images")

# %%
fig, ax = plt.subplots(figsize=(7.4, 3.8))
many = n * 2 ** np.arange(7)
for i, (stage, (signal, spread, g)) in enumerate(noises.items()):
    means = [(g.reshape(-1, m // n, g.shape[1]).mean(1) ** 2).sum(1).mean() for m in many]
    ax.loglog(many, means, color=palette[i], marker="os^"[i], ls="", label=f"{stage}, measured")
    fine = np.geomspace(32, 1e4, 60)
    ax.loglog(fine, signal + spread / fine, color=palette[i], marker="", ls=["-", "--", "-."][i])
    ax.axvline(spread / signal, color=palette[i], marker="", lw=0.9, ls=":")
ax.set(xlabel="images in the batch", ylabel=r"mean of $|g|^2$")
ax.set_xticks([32, 256, 1024, 8192], ["32", "256", "1,024", "8,192"])
ax.set_title("The length of a gradient, as the batch grows (dotted: noise scale)")
ax.legend()
plt.show()

# %% [markdown]
# *(Figure: the mean squared length of the gradient against the batch, both logarithmic, for three moments of
# the training. The points lie on the curves. At the start the curve is nearly flat from 100 images on, after
# one epoch from some hundred; trained, it falls like a straight line. A dotted vertical line marks each noise
# scale.)*
#
# The points lie on the curves, which is hardly a test: they are means of the same gradients from which the
# curves come. What counts is that the noise scale **grows by orders of magnitude during training**: from some
# tens of images to thousands. (The last number is rough, as the five seeds show; and it was measured after
# the fall of the rate, 8.4.) At the start all images agree about what is wrong (they say "everything"), and
# 32 of them are enough to hear it: a batch of 1,024 wastes nearly all its work. Later the images disagree,
# and a large batch is worth its price. This argument for a warmup does not need the first.
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
# it "because it keeps the variance" do not say: the variance of *what*? Check the table with the gradients
# that we have:

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
# added. So we have **one script**, and each variant replaces one line of one other variant; a test compares
# all of them.


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
#
# The **schedule** has three parts: a warmup of $W$ updates, 3 epochs; the full rate; and from 80% of the $T$
# updates on, the last two epochs, **a tenth of it**. The last part is in the loop, so all variants have it.

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
guess("32 ranks, naive, test error", None, "%")
guess("32 ranks, √k, test error", None, "%")
guess("32 ranks, linear without warmup, test error", None, "%")
guess("32 ranks, constant warmup, test error", None, "%")
guess("32 ranks, gradual warmup, test error", None, "%")

# %%
record = json.loads(pathlib.Path("runs/08_large_batches.json").read_text())
runs = pd.DataFrame(record["runs"])
runs["error"] = [errors[-1] for errors in runs["errors"]]
run = record["runs"][0]
print(f"RECORDED RUNS: {len(runs)} jobs of {run['submitted'][:10]}, {run['machine']['cpu']},")
print(f"seeds {record['seeds']}, TensorFlow {run['versions']['tensorflow']}; made again by")
print("make experiments RUN=08")

# %% [markdown]
# ## 8.5 What came out
#
# Five runs are five numbers. We show all of them, their mean, and the interval that holds the true mean with
# 95% if the errors of the seeds are normally distributed: $\bar e \pm 2.776\, s / \sqrt 5$, Student's $t$ for
# five values. **Differences are paired by seed**: both variants began with the same weights and saw the same
# shuffles, so we take five differences and *their* interval. Beside it the ImageNet results of Goyal et al.,
# top-1 error, naive as on our slide. Their 23.74% with gradual warmup has γ = 0 (8.6); without it they state
# 24.11%. What γ was in their other rows our source does not say, nor whether $\sqrt k$ had a warmup.

# %%
GOYAL = {
    "plain, k = 1": (23.60, 0.12),
    "plain": (41.78, 0.10),  # 41.67 in another source, see 8.9
    "sqrt": (26.22, 0.03),
    "linear": (24.84, 0.37),
    "constant": (25.88, 0.56),
    "gradual": (24.11, math.nan),
    "gamma 0": (23.74, 0.09),
}  # top-1 error on ImageNet / %, at 256 images and at 8,192


def interval(values):
    """Half of the 95% interval of the mean, by Student's t."""
    assert len(values) == 5, "2.776 is Student's t for five values"
    return 2.776 * np.std(values, ddof=1) / math.sqrt(5)


def paired(a, b):
    """Mean of the differences of two lists of errors, seed by seed, and half of its interval."""
    difference = np.asarray(a) - np.asarray(b)
    return difference.mean(), interval(difference)


# %%
five = runs[~runs["variant"].isin(["half", "double"])]  # these have one seed: 8.6
large = five[five["k"] == 32].pivot(index="seed", columns="variant", values="error")
large["plain, k = 1"] = five[(five["variant"] == "plain") & (five["k"] == 1)].set_index("seed")["error"]
label = {"plain, k = 1": "one rank: η", "plain": "naive: η", "sqrt": "√k η", "linear": "linear: kη"}
label |= {"constant": "kη, constant warmup", "gradual": "kη, gradual warmup"}
label |= {"gamma 0": "gradual + γ = 0", "LARS": "gradual + LARS"}
label |= {"uncorrected": "gradual, uncorrected", "shuffles": "gradual, own shuffles"}


def versus(baseline, names):
    """A row for each variant: its error, and the paired difference to the baseline, with intervals."""
    rows = {}
    for name in names:
        rows[label[name]] = {"error": large[name].mean(), "± ": interval(large[name])}
        if name != baseline:
            difference, half = paired(large[name], large[baseline])
            rows[label[name]] |= {f"minus {label[baseline]}": difference, "±": half}
    return pd.DataFrame(rows).T


def dashed(table, digits=2):
    """Show a table with a dash where there is no number."""
    display(table.map(lambda v: "–" if np.isnan(v) else f"{v:,.{digits}f}"))


# %%
names = list(label)[:8]
table = versus("plain", names)
table["ImageNet"] = [GOYAL.get(name, (math.nan,))[0] for name in names]
dashed(table)
for name in ("LARS", "gradual", "linear"):
    print("{}: {:+.2f} ± {:.2f}".format(f"√k minus {label[name]}", *paired(large["sqrt"], large[name])))
difference = paired(large["linear"], large["gradual"])
print("linear minus gradual: {:+.2f} ± {:.2f};".format(*difference), end=" ")
print("seed by seed", (large["linear"] - large["gradual"]).round(1).tolist())
asked = ["naive", "√k", "linear without warmup", "constant warmup", "gradual warmup"]
for recipe, name in zip(asked, ["plain", "sqrt", "linear", "constant", "gradual"], strict=True):
    compare(f"32 ranks, {recipe}, test error", large[name].mean())


# %%
def losses_of(variant, k=32):
    """The losses of all recorded updates: (seeds, at most 120)."""
    some = five[(five["variant"] == variant) & (five["k"] == k)].sort_values("seed")
    return np.array(some["losses"].tolist(), float)


fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=[1.35, 1])
for row, name in enumerate(reversed(names)):
    jitter = row + np.linspace(-0.12, 0.12, 5)
    axes[0].plot(large[name], jitter, ls="", marker="o", mfc="none", color="0.45", ms=5)
    bar = {"xerr": interval(large[name]), "color": palette[0], "marker": "D", "ms": 6, "lw": 2, "ls": ""}
    axes[0].errorbar(large[name].mean(), row - 0.3, **bar)
axes[0].set_yticks(range(len(names)), [label[name] for name in reversed(names)])
axes[0].set(xscale="log", xlabel="test error / %", title="Five seeds each, and their mean")
axes[0].set_xticks([12, 14, 17, 20, 30, 50, 75], ["12", "14", "17", "20", "30", "50", "75"])
axes[0].minorticks_off()
for i, name in enumerate(["linear", "gradual"]):
    style = {"color": palette[i], "marker": "", "ls": ["-", "--"][i], "lw": 1.3}
    lines = axes[1].plot(range(1, 13), losses_of(name)[:, :12].T, **style)
    lines[0].set_label(label[name])
axes[1].axhline(math.log(10), color="0.4", lw=0.8, marker="", ls=":", label="guessing, ln 10")
axes[1].set(xlabel="update", ylabel="training loss", title="The first epoch", ylim=(0, 3.2))
axes[1].legend(fontsize=8.5, loc="lower left")
plt.show()

# %% [markdown]
# *(Figure, left: test errors of eight variants, logarithmic, five circles each, with the mean and its
# interval below. One rank, near 12%, is best. With 32 ranks √k follows, near 14%, then LARS and naive, near
# 16%, and gradual warmup, from 15 to 19%; with γ = 0 from 16 to 26%; linear without warmup from 18 to 24%;
# constant warmup from 32 to 76%. Right: the training loss of the first twelve updates, five lines each. With
# kη it rises from about 2.6 to 3 in one or two updates and needs about five to fall below that of guessing;
# with gradual warmup it falls from the beginning.)*
#
# Read it slowly; some of it is what the textbook says, and some is the opposite. The best supported first.
#
# - **A large batch costs.** No variant with 32 ranks comes near one rank with the same number of epochs. As
#   on ImageNet, where naive lost 18 points. (With as many *updates* we have not run it.)
# - **$\sqrt k$ without any warmup beats naive and LARS**, by some two points, in all five seeds. These are
#   the clearest differences here, and in the paper only naive is worse than $\sqrt k$. Gradual warmup **only
#   brings us back to naive**, and its best seed is worse than the worst of $\sqrt k$.
# - **Without warmup the linear rule is worse than doing nothing.** Its first updates make the loss *larger*,
#   as 8.2 has predicted for $k\eta = 3.2$.
# - **Gradual warmup helps it** in four of five seeds, by four to seven points; in the fifth it hurts by one.
#   The interval only just leaves out zero. Who looks at seven such intervals has up to 7 · 5% = 35% for at
#   least one that is wrong: this is one to see again with other seeds.
# - **Constant warmup does not help**: it moves the shock to the fourth epoch, where the rate jumps by a
#   factor of 32. (Here and for γ = 0 look at the circles: two bad seeds are no normal distribution.) Goyal et
#   al. found the same order for these three on ImageNet: gradual, none, constant.
#
# Why? Before you read on: which number of 8.3 would you look at?

# %% [markdown]
# ## 8.6 Error against the rate
#
# Forget the rules for a moment. The variants differ in the *rate* that they reach: $\eta$, $\sqrt{32}\,\eta$,
# $16\eta$ (gradual warmup to half the rate), $32\eta$; and in whether they warm up. For each batch the error
# as a function of the rate has a minimum somewhere. How does this best rate grow with the batch? If each step
# is chosen as long as its noisy direction deserves, then, from a quadratic model of the loss (McCandlish et
# al.),
#
# $$\eta_\text{best}(N) \propto \frac{1}{1 + N_\text{noise} / N} .$$
#
# For batches far below the noise scale that is *proportional to $N$*: the linear rule. Far above it, it is
# *constant*: the direction is good already, and more images do not make it better. In between lie all the
# powers, $\sqrt k$ among them. The model is rough: one greedy step of SGD without momentum, in a landscape
# equally curved in all directions. We have measured the noise scale, so we can ask, for each stage, by which
# factor $k$ ranks may raise the best rate of one:

# %% tags=["measured"]
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
# the linear rule, which asks for 32 from the fourth epoch on, is too fast in the epochs in which most is
# learned. For 8 ranks, a batch of 256, it is right up to a factor of two as soon as the first epoch is over;
# for 128 ranks it is off by a factor of sixteen. **Guess** the errors of the linear rule with gradual warmup:

# %%
guess("8 ranks, test error", None, "%")
guess("128 ranks, test error", None, "%")

# %%
B = 0.1  # the base rate of all runs with five seeds
cold = {"plain": B, "sqrt": B * math.sqrt(32), "linear": B * 32}
warm = {"gradual, half": B * 32 / 2, "gradual": B * 32}
single, rates = large["plain, k = 1"], {"half": B / 2, "double": 2 * B}  # of one rank
fig, ax = plt.subplots(figsize=(7.4, 3.8))
for i, (name, points) in enumerate({"32 ranks, no warmup": cold, "32 ranks, gradual warmup": warm}.items()):
    style = {"marker": "os"[i], "color": palette[i], "ls": "", "label": name}
    means, bars = ([of(large[v]) for v in points] for of in (np.mean, interval))
    ax.errorbar(list(points.values()), means, yerr=bars, **style)
style = {"color": palette[2], "ls": ""}
ax.errorbar(B, single.mean(), yerr=interval(single), marker="^", label="one rank", **style)
found = [runs.loc[runs["variant"] == variant, "error"].item() for variant in rates]
ax.plot(rates.values(), found, marker="x", ms=8, label="one rank, one seed", **style)
ax.set(xscale="log", xlabel="learning rate that is reached", ylabel="test error / %", ylim=(10, None))
ax.set_title("Error against rate")
ax.legend()
plt.show()

# %% [markdown]
# *(Figure: test error against the learning rate that is reached, logarithmic. 32 ranks without warmup: three
# points, lowest in the middle, at √32 times the rate of one rank, and highest at 32 times. With gradual
# warmup, at 16 and 32 times: both near 16%, below the cold point at 32 times. One rank lies below all of
# them.)*

# %%
ladder = {1: "plain", 8: "gradual", 32: "gradual", 128: "gradual"}
of = {(v, k): some.sort_values("seed")["error"] for (v, k), some in five.groupby(["variant", "k"])}
fig, ax = plt.subplots(figsize=(7.4, 3.4))
for i, rungs in enumerate([ladder, dict.fromkeys((8, 32), "plain")]):
    style = {"color": palette[i], "marker": "os"[i], "ls": "", "mfc": [None, "w"][i]}
    means, bars = ([f(of[v, k]) for k, v in rungs.items()] for f in (np.mean, interval))
    at = [32 * k * (1, 1.06)[i] for k in rungs]  # side by side
    ax.errorbar(at, means, yerr=bars, label=["kη, gradual warmup", "naive: η"][i], **style)
ax.set(xscale="log", yscale="log", xlabel="images in an update", ylabel="test error / %", xlim=(24, 5e4))
ax.set_xticks([32, 256, 1024, 4096], ["32", "256", "1,024", "4,096"])
ax.set_yticks([12, 14, 17, 25, 50, 90], ["12", "14", "17", "25", "50", "90"])
ax.minorticks_off()
for stage in ("start", "after 1 epoch"):
    ax.axvline(scales[stage], color="0.5", marker="", ls=":")
    ax.text(scales[stage] * 1.08, 60, f"noise scale,\n{stage}", fontsize=8.5, va="center")
ax.axvspan(min(ends), max(ends), color="0.9")
ax.text(min(ends) * 1.1, 60, "noise scale, trained,\nfive seeds", fontsize=8.5, va="center")
ax.set_title("How far does the linear rule carry?")
ax.legend(loc="center left", fontsize=8.5)
plt.show()

# %%
for ranks in (8, 128):
    compare(f"{ranks} ranks, test error", of["gradual", ranks].mean())
for a, b in [(("gradual", 8), ("plain", 1)), (("plain", 8), ("plain", 1)), (("gradual", 8), ("plain", 8))]:
    print("{} {} ranks minus {} {}: {:+.2f} ± {:.2f}".format(*a, *b, *paired(of[a], of[b])))
print("128 ranks, errors:", of["gradual", 128].round(1).tolist(), "training losses of the last updates:")
print(losses_of("gradual", 128)[:, -1].round(1).tolist())

# %% [markdown]
# *(Figure: test error against the images of an update, both logarithmic. kη with gradual warmup: 32 and 256
# images nearly the same, 1,024 a few points more, 4,096 from 78 to 92%, near guessing. Naive: above it at 256
# images, level with it at 1,024. Dotted lines and a band mark the noise scales of 8.3.)*
#
# The first figure: the rate alone does not decide, at 3.2 the warmup does, too. Of the three cold rates the
# middle one is best. So $\sqrt k$ need not be a better *rule* than $k$; for our 1,024 images it may just lie
# nearer to the best rate, as the model says.
#
# The second is **compatible** with the model. With 8 ranks, $k\eta$ and a gradual warmup come within about
# half a point of one rank, with an eighth of its updates: Goyal's result, in small. But was the rule needed?
# Naive loses 1.2 points there, clearly; that the rule is better than naive, by 0.7 ± 0.7, is *not* told from
# zero. With 32 ranks it gains nothing over naive, and with 128 all seeds are near guessing. Whether the
# *rule* ends there, or 30 updates are too few for any, we cannot say: no other was run. (And 0.9⁶ = 53% of
# batch norm's moving averages are older than the six updates after the fall: the weights may deserve better.)
#
# On ImageNet the famous curve is flat up to 8,192 images. If the noise scale there is as much larger than
# ours, then $k$ is right and $\sqrt k$ too short; 8.3's measurement would tell. **A rule without the noise
# scale is half a rule.** So is one without a base rate: one rank hardly cares between 0.05 and 0.2 (the
# crosses), so "the rate that suits one rank" is uncertain by a factor of four, and with it $k\eta$. We took
# 0.1, the paper's, before the sweep.
#
# Two more things that did not help here. **γ = 0**: the last batch normalisation of each block starts at
# zero, so that the network starts as if it had no blocks. In the paper it gains a third of a point (8.5);
# here two of five seeds got much worse. **LARS** (You et al., arXiv 1708.03888) gives each kernel a step by
# *its own* length, $v \leftarrow mv + \eta \cdot 0.001\, |w|\, g/|g|$: at $\eta = 3.2$ that is 0.3% of it,
# and up to ten times as much with the momentum. (Biases and γ keep $\eta g$, there is no weight decay, and
# nothing was tuned.) It is not measurably different from gradual warmup alone; its seeds agree better.

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
for _ in range(40):
    v /= np.linalg.norm(v)
    product = hessian_times(v, here)
    largest, v = float(v @ product), product
steepest = v / np.linalg.norm(v)
print(f"largest curvature: about {largest:.1f}")

# %% [markdown]
# **Guess** before you compare networks by it. Lecture 03 has shown that batch normalisation takes the scale
# of the weights before it out again. We multiply all kernels of convolutions by 3. The network computes the
# same function. By which factor does the curvature in this direction change?

# %%
guess("curvature of the same network, kernels × 3", None, "×")

# %% tags=["measured"]
found = {}
for scale in (1, 3):
    scaled = np.where(kernels, scale * here, here)
    move_to(scaled)
    loss = float(gradient_of(x[:PROBE], y[:PROBE])[0])
    found[scale] = float(steepest @ hessian_times(steepest, scaled, epsilon=0.01 * scale))
    print(f"kernels × {scale}: loss {loss:.4f}, curvature {found[scale]:.4f}")
compare("curvature of the same network, kernels × 3", found[3] / found[1])
for variant in ("plain 32", "linear 32"):
    squares = [recorded[f"{variant} {s} {i}"] ** 2 for s in range(5) for i in parts]
    mean = math.sqrt(sum(w.sum() for w in squares if w.ndim == 4) / 5)
    print(f"length of all kernels after training, {variant}: {mean:.0f}")

# %% [markdown]
# **The same function, more than eight times flatter.** (Nine times, 3², were it not for the 0.001 that batch
# norm adds to a variance.) With batch normalisation the eigenvalue of a minimum is a number about the length
# of the weights as much as about the minimum (Dinh et al., arXiv 1703.04933), and training with a large rate
# makes weights long. A probe must not depend on what the function does not depend on. Li et al. (arXiv
# 1712.09913) draw random directions and give each *filter* in them the length of the same filter of the
# network: a step of 0.1 then means "10% of each filter", whatever its scale. We walk in such directions from
# the minima of four variants, five seeds each. **Guess:** by which factor does the loss rise more steeply
# around naive than around one rank?

# %%
guess("rise around naive / around one rank", None)


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
rises = {name: losses[:, [2, -3]].mean(1) - losses[:, 4] for name, losses in profiles.items()}  # (5,)
rows = {}
for i, (name, losses) in enumerate(profiles.items()):
    style = {"color": palette[i], "ls": ["-", "--", "-.", ":"][i]}
    ax.plot(distances, losses.T, marker="", lw=0.7, alpha=0.5, **style)
    ax.plot(distances, losses.mean(0), label=name, marker="os^D"[i], ms=4, **style)
    rows[name] = {"training loss": losses[:, 4].mean(), "rise at ±0.3": rises[name].mean()}
    if name != "naive":
        rows[name]["naive minus this"], rows[name]["±"] = paired(rises["naive"], rises[name])
ax.set(xlabel="distance, as a share of each filter", ylabel="training loss", ylim=(0, 3))
ax.set_title("Around the end of training, in random directions")
ax.legend()
plt.show()
dashed(pd.DataFrame(rows).T, 3)
for name in ("one rank", "gradual"):
    print("rise of linear minus {}: {:+.3f} ± {:.3f}".format(name, *paired(rises["linear"], rises[name])))
compare("rise around naive / around one rank", rises["naive"].mean() / rises["one rank"].mean())

# %% [markdown]
# *(Figure: training loss against the distance from the end of training, for four variants; thin lines are
# seeds. One rank, solid, lies lowest in the middle. Naive, dashed, rises most steeply. Linear and gradual
# rise about as one rank does, but lie higher.)*
#
# What Keskar et al. say can be seen: around **the large batch with the small rate the loss rises about twice
# as much** as around one rank, and the interval of the difference leaves out zero. But two things do not fit.
#
# - **It is not the batch.** Linear has the same batch of 1,024 images as naive, and the loss around it rises
#   much less; this is the clearest difference of the table. It has a large *rate*, and so, by the table of
#   8.3, the noise of small batches: the linear rule keeps it.
# - **Flat is not good.** Linear is not told apart from one rank and gradual by its rise, and errs most of
#   all. Here the ranking in flatness says little about the ranking in test error.
#
# And what this probe cannot say:
#
# - It averages. A random direction among 20,146 hardly touches the few *steepest* ones.
# - A cross-entropy that is larger in the middle may rise by more; ours differ by a factor of three.
# - Naive, with 120 short updates, has simply not arrived. One would have to train all to the same loss.
# - Not only filters can be scaled: Dinh et al. shift scale between two layers around a ReLU.
#
# It is one more page of the textbook that a small experiment can question, and cannot settle.

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
# unless $v$ is multiplied by $\eta_\text{new}/\eta_\text{old}$: the **momentum correction**. **Guess** which
# of the two Keras uses. We ask it, with a gradient that is always 1 and a rate that jumps from 0.1 to 3.2 and
# later falls to 0.32. How long is its first step after the jump, 32 or less?

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
# out. After 80% of the updates the rate falls by ten (8.4). **Guess:** by how much does the training loss
# change from the epoch before to the epoch after, *without* the correction?

# %%
guess("loss after the fall of the rate minus before, uncorrected", None)

# %%
fig, ax = plt.subplots(figsize=(7.4, 3.4))
change = {}
for i, name in enumerate(["gradual", "uncorrected"]):
    losses, style = losses_of(name), {"color": palette[i], "marker": "", "ls": ["-", "--"][i]}
    ax.plot(range(84, 120), losses[:, 84:].T, lw=0.7, alpha=0.6, **style)
    ax.plot(range(84, 120), losses[:, 84:].mean(0), lw=2.4, label=label[name], **style)
    change[name] = losses[:, 96:108].mean(1) - losses[:, 84:96].mean(1)
    print(f"epoch 9 minus epoch 8, {name}: {change[name].round(3).tolist()}")
ax.axvline(96, color="0.4", lw=0.9, marker="", ls=":")
ax.set(xlabel="update", ylabel="training loss", title="At update 96 the rate falls from 3.2 to 0.32")
ax.legend()
plt.show()
compare("loss after the fall of the rate minus before, uncorrected", change["uncorrected"].mean())
print("uncorrected minus gradual: {:.3f} ± {:.3f}".format(*paired(change["uncorrected"], change["gradual"])))
dashed(versus("gradual", ["gradual", "uncorrected", "shuffles"]))

# %% [markdown]
# *(Figure: training loss of the last 36 updates, thin lines for seeds, thick for means. Corrected, solid:
# after update 96 the loss is a little lower. Uncorrected, dashed: it rises for four updates, on average by
# 0.2, and comes back slowly.)*
#
# **There is the mistake.** The rate falls, the loss should; without the correction it *rises*, in five of
# five seeds, and the paired interval leaves out zero. The velocity still has the length of the old rate, and
# goes on where the small new steps cannot correct it. In the test error, 24 updates later, this is washed
# out: the interval holds zero. **Look for a mistake where it acts**, not only in the last number.
#
# ### Divide by kn, not by n
#
# The mean over all $kn$ images is what the rule was derived for. If every rank takes the mean over its $n$
# and all-reduce *adds* them up, the gradient is $k$ times too long; with the linear rule on top it is $k^2$.
# **Guess** the loss of the second update of 32 ranks; rightly averaged it is 2.9.

# %%
guess("loss of the second update, sum in place of mean", None)

# %% tags=["measured"]
firsts = {}
for name, change in {"mean": ("", ""), "sum": ("return B * k", "return B * k * k")}.items():
    code = load("linear", k=32, change=change)
    code["EPOCHS"] = 1
    firsts[name] = code["main"]()[0]
print(pd.DataFrame(firsts, index=range(1, 13)).T.round(1).to_string())
compare("loss of the second update, sum in place of mean", firsts["sum"][1])

# %% [markdown]
# (A gradient $k$ times as long and a rate $k$ times as large are the same step, so we may change the rate.)
# This mistake is loud. Its silent cousin is the mean of means where the ranks do *not* have equally many
# images, say 96 and 32:

# %% tags=["measured"]
model.set_weights(stages["after 1 epoch"])
many, few = order[:96], order[96:128]
g_many, g_few = (gradient_of(x[b], y[b])[1].numpy() for b in (many, few))
right, mean_of_means = (96 * g_many + 32 * g_few) / 128, (g_many + g_few) / 2
off = np.linalg.norm(mean_of_means - right) / np.linalg.norm(right)
print(f"the mean of means is off by {off:.0%} of the length of the mean")
print(f"an image of the second rank weighs {(1 / 32) / (1 / 96):.0f} times as much as one of the first")
print(f"noise as of {4 / (1 / 96 + 1 / 32):.0f} equally weighted images in place of 128")

# %% [markdown]
# Most of the 55% is noise: with images dealt at random, both means have the same expectation, and the wrong
# one has the noise of 96 images. It is *biased* where the ranks' data differ. Lecture 07 therefore gave each
# rank the same number of images.
#
# ### One shuffle for all
#
# If each rank shuffles all images *for itself* and takes its share of the steps, then some images are seen
# twice in an epoch and others not at all. **Guess:** with 32 ranks, which share of the images is not seen in
# an epoch?

# %%
guess("images not seen in an epoch, 32 shuffles", None, "%")

# %%
own = np.concatenate([np.random.default_rng(rank).permutation(SMALL)[: SMALL // k] for rank in range(k)])
unseen = 100 * (1 - len(np.unique(own)) / SMALL)
compare("images not seen in an epoch, 32 shuffles", unseen)
print(f"(1 - 1/k)^k = {100 * (1 - 1 / k) ** k:.1f}%, for many ranks 1/e = {100 / math.e:.1f}%")

# %% [markdown]
# More than a third. And the error? It is in the table above, in the row of own shuffles: −0.07 ± 3.17 points,
# an interval that would hide three. Each epoch leaves out another third, so after ten epochs nearly every
# image has been seen. **This mistake does not show in our errors.** A look at the indices finds it at once,
# as in lecture 07.
#
# ## 8.9 What does this say about ImageNet?
#
# First the source. Our slide has 41.78 ± 0.10% for the naive 8,192, a copy of the paper's table that we have
# read has 41.67 ± 0.10. Can arithmetic decide? A number of photographs is a whole number, so let us test
# that. *Before you run it:* what will the test say of 41.73, which nobody has claimed?

# %%
images, repeats, deviation = 50_000, 5, 0.10
for error in (41.78, 41.67, 41.73):
    print(f"{error}%: {error / 100 * images * repeats:,.0f} wrong of {images * repeats:,} in five runs")
apart = (41.78 - 41.67) / (deviation * math.sqrt(2 / repeats))
print(f"the two are {apart:.1f} standard errors apart; the effect of the batch is {41.67 - 23.60:.1f} points")

# %% [markdown]
# All three "pass": 0.01% are 25 photographs, so *every* error with two decimals is a whole number. **A test
# that cannot fail says nothing.** Nor does the distance decide: two sets of five runs may well differ by so
# much. One has to go to the original, and we only had copies. We keep both numbers; nothing that follows
# depends on a tenth of a point of eighteen.
#
# More important is which of the paper's differences are larger than *its* noise. From means and standard
# deviations of five runs each, against gradual warmup (with γ = 0, as its deviation is known):

# %%
rows = {}
best, best_spread = GOYAL["gamma 0"]
for name in ("plain, k = 1", "linear", "constant", "sqrt", "plain"):
    error, spread = GOYAL[name]
    error_of_difference = math.hypot(spread, best_spread) / math.sqrt(5)
    rows[label[name]] = {
        "minus gradual": error - best,
        "standard errors": (error - best) / error_of_difference,
    }
dashed(pd.DataFrame(rows).T, 1)

# %% [markdown]
# The paper's claim is exactly this: gradual warmup *reaches* the small batch (a seventh of a point, two
# standard errors, which is at the edge of what five runs can tell), and the others do not.
#
# Second, the time. Was it worth it? Four published trainings of ResNet-50, and the cost in device hours.

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
# From 29 hours to less than four minutes, while the *cost* of the three P100 rows hardly changed: that is
# what scaling well means. The 90% that Goyal et al. state for 256 devices agrees with it, in times rounded to
# hours. Akiba et al. state 80% for theirs: they start from elsewhere. (The last column assumes 90 epochs for
# all; core hours are another currency.) Without large batches that learn, none of these machines could have
# been kept busy: with 256 images an update, 2,176 devices would not even get one image each.
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
sizes.loc["standard error of one test error / points"] = [
    100 * math.sqrt(e * (1 - e) / N) for e, N in zip((0.236, 0.12), sizes.loc["test images"], strict=True)
]
display(sizes.map(lambda v: f"{v:,.0f}" if v >= 10 else f"{v:.2f}"))

# %% [markdown]
# **It can show mechanisms**, wherever we measure the quantity itself and not only its result: that one long
# step follows $k$ short ones only so far; that the noise scale grows during training; that a cold start at
# $k\eta$ begins with a rising loss; that an uncorrected velocity makes the loss rise where the rate falls;
# that the same function can be eight times flatter. Why $\sqrt k$ wins is already *inferred*, not measured.
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
# - **How far this goes, the noise scale may say.** It grew from some tens of images to thousands, so a batch
#   that is wasted at the start is worth its price later: a reason for a warmup. That the start is more *bent*
#   is none: per length of the step it is less.
# - **Matched scripts** differ in one line; five paired seeds and an interval tell an effect from luck. Ours
#   clearly contradict the rank of $\sqrt k$, which beats naive and LARS here; that the linear rule needs a
#   gradual warmup they support less clearly. The noise scale is a likely reason for both.
# - **Sharpness** of a network with batch normalisation means nothing before the scale of the weights is taken
#   out.
# - **Four mistakes**, most of them silent: decay scaled with the loss, momentum with an old rate, a sum or a
#   mean of means, and a shuffle for each rank. Look where they act: the final error may hide them.
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
