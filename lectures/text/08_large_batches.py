# %% [markdown]
# # 8 · Large batches
#
# **With 32 times as many images per update, may the learning rate be 32 times as large?**
#
# In lecture [07](07_data_parallel_training.ipynb), $k$ ranks with $n$ images each trained one network, so
# an update averaged over $kn$ images. But training with a batch of 8,192 images is a different *algorithm*
# from training with 256: it has fewer updates. Goyal et al. (2017) trained ResNet-50 on ImageNet with 256
# images per update to a test error of 23.60%. With 8,192 images, and nothing else changed, the error was
# 41.67%. In this lecture you will
#
# 1. **derive** the linear and the $\sqrt k$ rule for the learning rate;
# 2. **measure** the curvature of the loss and the noise of a gradient, on which they depend;
# 3. **compare** rules and warmups in matched pairs, with five seeds and intervals;
# 4. predict the best learning rate of many ranks from one rank, without fitting;
# 5. count the **steps to a target** that a larger batch saves;
# 6. say what a small experiment can and cannot show about ImageNet.
#
# Notation: $n$ is the number of images per rank and update, $k$ the number of ranks, $\eta$ the learning
# rate of one rank, $\ell$ the loss, and $w$ all weights as one vector.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=2)

# %%
import json
import math
import pathlib
import runpy

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import Markdown, display

# %% [markdown]
# ## 8.1 What a large batch costs: updates
#
# The length of a training run is usually fixed in epochs: ResNet-50 is trained for 90 passes over
# ImageNet. With $k$ times the batch there are only a $k$-th of the updates. **Guess** how many updates
# ResNet-50 gets in 90 epochs with a batch of 8,192.

# %%
guess("updates of ResNet-50 with a batch of 8,192")
IMAGENET, SMALL = 1_281_167, 12_288  # training images: ImageNet's, our experiment's


def updates(images, epochs, batch):
    return epochs * (images // batch)


BATCHES = [(IMAGENET, 90, batch) for batch in (256, 8192, 32768)]
BATCHES += [(SMALL, 10, batch) for batch in (32, 256, 1024, 4096)]
table = pd.DataFrame(BATCHES, columns=["images", "epochs", "batch"])
table["batch / images, %"] = (100 * table["batch"] / table["images"]).round(2)
table["updates"] = [updates(*row) for row in BATCHES]
display(table)
compare("updates of ResNet-50 with a batch of 8,192", updates(IMAGENET, 90, 8192))

# %% [markdown]
# The last four rows are our own experiment with images of Fashion-MNIST, 32 per rank. It has the same
# *ratio* of batches, 1,024 to 32, but a much larger share of the images, and only 120 updates (8.9).
#
# A large batch needs no cluster. With **gradient accumulation** one GPU adds up the gradients of $k$ small
# batches before it changes the weights. The update is the same, but takes $k$ times as long.
#
# ## 8.2 One long step instead of k short ones
#
# Start at $w_t$ and take $k$ short steps with the batches $B_0 \ldots B_{k-1}$, or one long step with all
# of them at a learning rate $\hat\eta$:
#
# $$w_{t+k} = w_t - \eta \sum_{j<k} \nabla\ell(B_j, w_{t+j}), \qquad \hat w_{t+1} = w_t -
# \hat\eta\,\frac1k \sum_{j<k} \nabla\ell(B_j, w_t).$$
#
# The two differ only in *where* the gradients are computed. If the gradient hardly changes during the $k$
# steps, both end at nearly the same point for $\hat\eta = k\eta$. This is the **linear rule** of Krizhevsky
# (2014) and Goyal et al., who call the assumption strong.
#
# ![Contour lines of a loss with a path of eight short steps and one long step. Left, in a round bowl,
# both end close together. Right, in a curved, narrow valley, the long step ends high on the opposite
# wall.](figures/08_steps.svg)
#
# We test this assumption on a small residual network before training and after one epoch, with three
# seeds.


# %%
experiment = runpy.run_path("runs/08_large_batches.py")  # all variants of the script
load = experiment["load"]  # what a variant's script defines, without training
stages = {}  # (seed, stage): weights
for seed in range(3):
    code = load("plain", seed=seed)
    code["EPOCHS"] = 1  # the first of ten
    model = code["network"]()
    stages[seed, "start"] = model.get_weights()
    stages[seed, "after 1 epoch"] = code["main"]()[2]
x, y = code["images"]("train", SMALL)

# %% [markdown]
# As in the formulas, all weights form one vector.

# %%
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
trained = model.trainable_variables
cuts = np.cumsum([math.prod(w.shape) for w in trained])[:-1]


def position():
    """All trainable weights as one vector."""
    return np.concatenate([w.numpy().ravel() for w in trained])


def move_to(vector):
    """Set the weights of the network to a vector."""
    for w, part in zip(trained, np.split(vector, cuts), strict=True):
        w.assign(part.reshape(w.shape))


def loss_at(vector, x, y):
    """The loss of a batch with the weights of a vector."""
    move_to(vector)
    return float(cross_entropy(y, model(x, training=True)))


# %%
@tf.function(reduce_retracing=True)
def gradient_of(x, y):
    """The gradient of a batch's mean loss as one vector."""
    with tf.GradientTape() as tape:
        loss = cross_entropy(y, model(x, training=True))
    gradients = tape.gradient(loss, [w.value for w in trained])
    return tf.concat([tf.reshape(g, [-1]) for g in gradients], 0)


def walk(batches, eta):
    """Take a step of plain SGD with each batch of indices."""
    for batch in batches:
        move_to(position() - eta * gradient_of(x[batch], y[batch]).numpy())


# %% [markdown]
# **Guess:** we take 32 steps of plain SGD (no momentum) with 32 images each at $\eta = 0.1$, and from the
# same point one step with all 1,024 images at $32\eta = 3.2$. What is the cosine of the angle between the
# two displacements (1: the same direction, 0: a right angle)?

# %% tags=["measured"]
guess("cosine of the long and the short way, start")
guess("cosine of the long and the short way, after 1 epoch")
n, k, order = 32, 32, np.random.default_rng(8).permutation(SMALL)
whole, rows = order[: k * n], []
for (seed, stage), weights in stages.items():
    model.set_weights(weights)
    here = position()
    before, g = loss_at(here, x[whole], y[whole]), gradient_of(x[whole], y[whole])
    for eta in (0.01, 0.03, 0.1, 0.3):
        move_to(here)
        walk(whole.reshape(k, n), eta)
        short, long = position() - here, -k * eta * g.numpy()
        cosine = short @ long / np.linalg.norm(short) / np.linalg.norm(long)
        row = {"stage": stage, "kη": k * eta, "seed": seed, "cosine": cosine}
        for name, way in {"long": long, "short": short}.items():
            row[f"{name} / before"] = loss_at(here + way, x[whole], y[whole]) / before
        rows.append(row)
both = pd.DataFrame(rows)

# %% tags=["measured"]
columns = ["cosine", "short / before", "long / before"]
steps = both.groupby(["stage", "kη"])[columns].mean().unstack(0)  # of three seeds
display(steps.round(2))
for stage in ("start", "after 1 epoch"):
    at = steps["cosine"].loc[k * 0.1, stage]
    compare(f"cosine of the long and the short way, {stage}", at)
less = steps["cosine", "start"] < steps["cosine", "after 1 epoch"]
claim("at each learning rate the two directions agree less at the start", less.all())
below = steps["long / before"] < 1
claim("lowers the loss at the two smaller learning rates", below[:2].all(axis=None))
claim("raises it at the two larger ones", not below[2:].any(axis=None))
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
steps["cosine"].plot(ax=axes[0], logx=True, marker="o", ylim=(0, 1.05), ylabel="cosine")
axes[0].set(xlabel="learning rate of the long step", title="Same direction?")
ratios = steps[["short / before", "long / before"]]
ratios.columns = [f"{way.split()[0]} way, {stage}" for way, stage in ratios]
ratios.plot(ax=axes[1], logx=True, style=["C0o-", "C1s-", "C0o--", "C1s--"])
axes[1].set(xlabel=axes[0].get_xlabel(), title="Loss after / loss before")
plt.show()

# %% [markdown]
# *(Figure: left, the cosine falls from nearly 1 as the learning rate of the long step grows, and falls
# earlier at the start. Right, the short steps always lower the loss, the long step only up to a learning
# rate of 1.)*
#
# The assumption holds only over short distances: the long step lowers the loss at the two smaller
# learning rates and raises it at the two larger ones. At each learning rate the two directions agree less
# at the start. This is the classical reason for a **warmup**, which begins with short steps.
#
# Is the loss more curved there? The derivative of the gradient is the Hessian $H$. Its product with a
# vector needs only two gradients:
# $Hv \approx (\nabla\ell(w + \epsilon v) - \nabla\ell(w - \epsilon v)) / 2\epsilon$. This gives the
# curvature along the gradient, $c = g^\top H g / |g|^2$, and by power iteration a lower bound of the
# largest eigenvalue $\lambda$. On a parabola of curvature $c$, a step lowers the loss if its learning
# rate is below $2/c$.


# %% tags=["measured"]
def hessian_times(v, here, some, epsilon=0.01):
    """H v at `here`, of the loss on some images."""
    sides = []
    for sign in (1, -1):
        move_to(here + sign * epsilon * v)
        sides.append(gradient_of(x[some], y[some]).numpy())
    move_to(here)
    return (sides[0] - sides[1]) / (2 * epsilon)


def curvatures(weights, steps=9):
    """Curvature along the gradient, and along the vectors of a power iteration."""
    model.set_weights(weights)
    here, v, found = position(), gradient_of(x[whole], y[whole]).numpy(), []
    for _ in range(steps):
        v /= np.linalg.norm(v)
        product = hessian_times(v, here, whole)
        found.append(float(v @ product))
        v = product
    return found


# %% tags=["measured"]
rows = []
for (seed, stage), weights in stages.items():
    found = curvatures(weights)
    rows.append({"seed": seed, "stage": stage, "c": found[0], "λ ≥": max(found)})
curvature = pd.DataFrame(rows).pivot(index="seed", columns="stage")
display(curvature.round(2))
more = curvature["c", "start"] > curvature["c", "after 1 epoch"]
claim("the loss is more curved at the start in all three seeds", more.all())
longest = 2 / curvature["c", "after 1 epoch"].max()
claim("After an epoch 2/c is still below", longest < 3.2)

# %% [markdown]
# Along the gradient, the loss is more curved at the start in all three seeds, although the loss ratios
# above do not show it. After an epoch $2/c$ is still below $k\eta = 3.2$. Goyal et al. show that the linear
# rule works up to large batches; the derivation alone does not explain this.
#
# ## 8.3 How noisy is a gradient?
#
# What does a large batch improve? The gradient of $n$ images is the gradient $G$ of all images plus noise.
# If images are drawn independently, the noise of $kn$ images has a $k$-th of the variance:
#
# $$\mathrm E\,|g_{kn}|^2 = |G|^2 + \operatorname{tr}\Sigma\,/\,kn .$$
#
# $\Sigma$ is the covariance of one image's gradient. If the second term is the larger one, a step is
# mostly noise, and a larger batch gives a better direction. The two terms are equal at a batch of
#
# $$N_\text{noise} = \operatorname{tr}\Sigma\,/\,|G|^2 ,$$
#
# the *simple noise scale* of McCandlish et al. (2018). With batch normalisation a single image has no
# gradient of its own, since the 32 images of a rank are normalised together. We therefore measure the
# variance between groups of $n = 32$ images, and $\operatorname{tr}\Sigma$ means $n$ times that variance.
# **Guess** the noise scale, in images.


# %%
guess("noise scale at the start", unit=" images")
guess("noise scale after 1 epoch", unit=" images")
guess("noise scale after 10 epochs", unit=" images")


def noise_scale(weights):
    """tr Σ / |G|², in images, from one pass over all images in groups of n."""
    model.set_weights(weights)
    groups = np.split(order, SMALL // n)
    g = np.stack([gradient_of(x[group], y[group]).numpy() for group in groups])
    return float(n * g.var(0).sum() / (g.mean(0) ** 2).sum())


def allowed(scale, k):
    """The factor by which k ranks may raise the learning rate; the scale in images."""
    return (1 + scale / n) / (1 + scale / (k * n))


# %% tags=["measured"]
code, snapshots = load("plain"), {0: stages[0, "start"]}  # epoch: weights of one rank
watched = code["network"]()
code["network"] = lambda: watched
code["log"] = lambda step, **rest: snapshots.update({step: watched.get_weights()})
code["main"]()
scales = {epoch: noise_scale(snapshots[epoch]) for epoch in (0, 1, 2, 3, 5, 8, 10)}
full = [scales[epoch] for epoch in (1, 2, 3, 5, 8)]  # until the learning rate falls
factor = {epoch: allowed(scale, k) for epoch, scale in scales.items()}
display(pd.DataFrame({"noise scale": scales, "factor, 32 ranks": factor}).T.round(1))
for epoch, when in (0, "at the start"), (1, "after 1 epoch"), (10, "after 10 epochs"):
    compare(f"noise scale {when}", scales[epoch])
claim("it grows at least fourfold in the first epoch", scales[1] > 4 * scales[0])
claim("at least fourfold once more at the end", scales[10] > 4 * scales[8])
claim("between 100 and 1,000 images", min(full) > 100 and max(full) < 1000)
claim("about twice that of one rank", 1.6 < factor[0] < 2.5)

# %% [markdown]
# In this run (one seed) it grows at least fourfold in the first epoch, and at least fourfold once more at
# the end, when the learning rate falls to a tenth (8.4). From epoch 1 to epoch 8 it lies between 100 and
# 1,000 images. At the start a few dozen images determine the direction, and most of the work on a batch of
# 1,024 is wasted.
#
# Which learning rate does this allow? For a quadratic loss, the best step along a noisy gradient satisfies
# (McCandlish et al.)
#
# $$\eta_\text{best}(N) \propto \frac{1}{1 + N_\text{noise} / N} :$$
#
# proportional to the batch $N$ far below the noise scale, and constant far above it. The table's last row
# is the factor by which this model lets 32 ranks raise the learning rate. The figure compares it with the
# linear rule and the *gradual warmup* of Goyal et al., which rises from $\eta$ to $k\eta$ in equal steps,
# here within 3 epochs.

# %% tags=["measured"]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
axes[0].plot(list(scales), list(scales.values()), "o-", label="noise scale")
for batch, dots in {n: ":", k * n: "--"}.items():
    axes[0].axhline(batch, color="0.4", ls=dots, marker="", label=f"batch {batch:,}")
axes[0].set(yscale="log", xlabel="epoch", ylabel="images", title="Noise scale")
axes[1].plot([0, 3, 10], [1, k, k], "--", marker="", label="linear rule, warmup")
axes[1].plot(list(factor), list(factor.values()), "o-", label="noise-scale model")
axes[1].axhline(math.sqrt(k), marker="", ls=":", color="0.3", label="√k")
axes[1].set(xlabel="epoch", ylabel="factor", title="Learning rate: 32 ranks / one")
axes[0].legend(fontsize=8.5), axes[1].legend(fontsize=8.5)
plt.show()
above = np.interp(list(factor), [0, 3, 10], [1, k, k]) > list(factor.values())
claim("from the first epoch on the linear rule is above the model", above[1:].all())

# %% [markdown]
# *(Figure: left, the noise scale grows from tens of images to hundreds and, at the end, thousands. Right,
# the model's factor on the learning rate starts near 2 and rises slowly, while the dashed linear rule
# reaches 32 after three epochs.)*
#
# The model, too, asks for a warmup: at the start the learning rate of 32 ranks is about twice that of one
# rank. But its warmup is slower: from the first epoch on the linear rule is above the model. The model is
# simple: it ignores momentum and assumes the same curvature in every direction.
#
# What does each rule preserve if the gradient changes little for $k$ steps?
#
# | | mean displacement of k batches | its covariance |
# |---|---|---|
# | $k$ short steps | $k\eta G$ | $k\eta^2\Sigma/n$ |
# | linear, $\hat\eta = k\eta$ | $k\eta G$, **the same** | $k\eta^2\Sigma/n$, **the same** |
# | $\hat\eta = \sqrt k\,\eta$ | $\sqrt k\,\eta G$ | $\eta^2\Sigma/n$: that of *one* short step |
# | unchanged, $\hat\eta = \eta$ | $\eta G$ | $\eta^2\Sigma/(kn)$ |
#
# The linear rule preserves both the progress and the noise of an epoch. The $\sqrt k$ rule preserves the
# noise *of an update*: Krizhevsky (2014) cites it as theory, and then uses the linear rule because it did
# better; Hoffer et al. (2017) prescribe it.

# %% [markdown]
# ## 8.4 Matched scripts
#
# "We added warmup, and the error fell" is convincing only if nothing else changed. We use **one script**,
# and each variant replaces one line of another.

# %%
rows = ["| variant | parent | its line |\n|---|---|---|"]
for name in ("linear", "sqrt", "constant", "gradual", "sqrt, gradual", "uncorrected"):
    parent, _, new = experiment["VARIANTS"][name]
    rows.append(f"| {name} | {parent} | `{new.removesuffix('  # <-')}` |")
display(Markdown("\n".join(rows)))
source = experiment["script"]("gradual")
print(source[source.index("    for epoch in") : source.index("        small =")])

# %% [markdown]
# One process stands in for all $k$ ranks, since an all-reduce with averaging yields the mean over $kn$
# images. On real ranks batch normalisation sees the $n$ images *of its rank*, so the script normalises in
# groups of $n$ (*ghost batch normalisation*, Hoffer et al. 2017), and the loss is the same function for
# every $k$. `B` is the learning rate of one rank, $\eta = 0.1$. A warmup lasts `W` updates (3 epochs),
# and from 80% of the `T` updates on every variant uses a tenth of its learning rate.
#
# **Guess** the test error after ten epochs with 32 ranks. With one rank it is about 12%.

# %% tags=["measured"]
guess("32 ranks, unchanged learning rate, test error", unit="%")
guess("32 ranks, linear rule, test error", unit="%")
record = json.loads(pathlib.Path("runs/08_large_batches.json").read_text())
results = experiment["reader"](record)  # column, variant and k: of five seeds


def errors_of(variant, k):
    """The final test errors of five seeds / %: (5,)."""
    return results("errors", variant, k)[:, -1]


# %% [markdown]
# ## 8.5 Rules and warmups
#
# For the errors of five runs we give the mean and its 95% confidence interval, assuming a normal
# distribution: $\bar e \pm 2.776\, s / \sqrt 5$, by Student's $t$. Conclusions rest on **matched pairs**
# that differ in one line: we compute the difference for each seed, and the interval of *these* five
# differences. The last column contains Goyal et al.'s means (section 5; 8,192 images, 256 in the first row;
# warmup of 5 epochs; γ = 0, see *Further*).


# %%
def interval(values):
    """Half of the 95% interval of the mean, by Student's t."""
    assert len(values) == 5, "2.776 is Student's t for five values"
    return 2.776 * np.std(values, ddof=1) / math.sqrt(5)


def difference(a, b):
    """Mean difference, seed by seed, and half of its interval."""
    return (a - b).mean(), interval(a - b)


def plus_minus(mean, half):
    """As text; in brackets if the interval contains zero."""
    text = f"{mean:+.2f} ± {half:.2f}"
    return text if abs(mean) > half else f"({text})"


# %%
recipes = {"unchanged": "plain", "√k": "sqrt", "√k, gradual warmup": "sqrt, gradual"}
recipes |= {"linear": "linear", "linear, constant warmup": "constant"}
recipes |= {"linear, gradual warmup": "gradual"}
PAPER = [23.60, 41.67, np.nan, 26.22, 24.84, 25.88, 23.74]  # error / %
GOYAL = dict(zip(["one rank", *recipes], PAPER, strict=True))
large = {"one rank": errors_of("plain", 1)}
large |= {name: errors_of(variant, 32) for name, variant in recipes.items()}
table = {name: {"error / %": e.mean(), "±": interval(e)} for name, e in large.items()}
display(pd.DataFrame(table).T.round(2).assign(ImageNet=pd.Series(GOYAL)))
compare("32 ranks, unchanged learning rate, test error", large["unchanged"].mean())
compare("32 ranks, linear rule, test error", large["linear, gradual warmup"].mean())

# %%
PAIRS = {
    "√k − unchanged": ("√k", "unchanged"),
    "linear − unchanged": ("linear", "unchanged"),
    "linear − √k, both warmed up": ("linear, gradual warmup", "√k, gradual warmup"),
    "linear with gradual warmup − unchanged": ("linear, gradual warmup", "unchanged"),
    "gradual warmup − none, linear": ("linear, gradual warmup", "linear"),
    "gradual warmup − none, √k": ("√k, gradual warmup", "√k"),
    "constant warmup − none, linear": ("linear, constant warmup", "linear"),
}
pairs = {p: difference(large[a], large[b]) for p, (a, b) in PAIRS.items()}
table = pd.DataFrame({"here": {p: plus_minus(*d) for p, d in pairs.items()}})
table["for 7 pairs"] = [plus_minus(m, 1.83 * h) for m, h in pairs.values()]
theirs = {p: GOYAL[a] - GOYAL[b] for p, (a, b) in PAIRS.items()}
display(table.assign(ImageNet=pd.Series(theirs).round(2)))

# %%
fig, ax = plt.subplots(figsize=(8, 3.4))
for row, errors in enumerate(reversed(large.values())):
    labels = ("a seed", "mean") if row == 0 else (None, None)
    ax.plot(errors, [row] * 5, "o", mfc="none", color="0.45", ms=5, label=labels[0])
    ax.plot(errors.mean(), row - 0.3, "D", color=palette[0], ms=6, label=labels[1])
ax.set_yticks(range(len(large)), list(reversed(large))), ax.legend()
ax.set(xscale="log", xlabel="test error / %", title="32 ranks, and one")
plt.show()

# %%
fourth = results("losses", "constant", 32)[:, 36:48].max(1).round(1)
print("constant warmup, highest loss of the fourth epoch, each seed:", fourth)
cost = [difference(large[name], large["one rank"]) for name in recipes]
claim("every variant costs more than a point", min(m - h for m, h in cost) > 1)
sign = [np.sign(m) * (abs(m) > h) for m, h in pairs.values()]
sure = [np.sign(m) * (abs(m) > 1.83 * h) for m, h in pairs.values()]
claim("√k is better than an unchanged learning rate", sure[0] == -1)
claim("the linear rule seems worse than doing nothing", (sign[1], sure[1]) == (1, 0))
claim("seems worse than √k", (sign[2], sure[2]) == (1, 0))
claim("not distinguishable from an unchanged learning rate", sign[3] == 0)
claim("gradual warmup helps the linear rule", sure[4] == -1)
claim("makes no measurable difference to √k", sign[5] == 0)
claim("constant warmup does harm", sure[6] == 1 and (fourth > 7).all())

# %% [markdown]
# *(Figure: test errors of seven variants with five seeds each. One rank is lowest, near 12%, and constant
# warmup is highest, from 33 to 49%.)*
#
# - **A large batch costs accuracy** for the same epochs: every variant costs more than a point against
#   one rank.
# - **Without warmup** √k is better than an unchanged learning rate. The linear rule seems worse than
#   doing nothing.
# - **With gradual warmup** the linear rule is not distinguishable from an unchanged learning rate and
#   seems worse than √k.
# - **Warmup and learning rate interact**: gradual warmup helps the linear rule but makes no measurable
#   difference to √k.
# - **Constant warmup does harm**: in every seed the loss exceeds 7 in the fourth epoch.
#
# Of seven 95% intervals, at least one misses the true value with a probability of up to 35%. The column
# *for 7 pairs* has Bonferroni's correction: intervals for $1 - 0.05/7$ are 1.83 times as wide. Two results
# do not survive it: that the linear rule is worse than doing nothing and, with warmup, than √k.
#
# Goyal et al. found the same order of the three warmups, but on ImageNet the linear rule with gradual
# warmup clearly beats √k. This is no contradiction: they show that the rule holds up to 8,192 images per
# update, which is 0.6% of ImageNet with 14,040 updates, and fails beyond. Our batch is 8.3% of the
# images, with 120 updates. What determines where the rule ends?
#
# ## 8.6 The best learning rate of a batch
#
# For each of four batches, seven learning rates were compared by their test errors with five seeds, with
# gradual warmup above $\eta$. **Guess** which multiples of $\eta$ are best for 8 and for 128 ranks.

# %%
guess("8 ranks, best of seven learning rates / η")
guess("128 ranks, best of seven learning rates / η")
sweep = {  # ranks: {learning rate / η: errors of five seeds}
    ranks: {f: errors_of(variants[f], ranks) for f in sorted(variants)}
    for ranks, variants in experiment["SWEEP"].items()
}
best, level, rows = {}, {}, {}
for ranks, some in sweep.items():
    best[ranks] = min(some, key=lambda f: some[f].mean())
    gaps = {f: difference(errors, some[best[ranks]]) for f, errors in some.items()}
    near = [f for f, (mean, half) in gaps.items() if mean <= half]
    level[ranks] = min(near), max(near)
    rows[ranks] = {"best / η": f"{best[ranks]:.3g}, {some[best[ranks]].mean():.1f}%"}
    rows[ranks]["not distinguishable / η"] = "{:.3g} to {:.3g}".format(*level[ranks])
    rows[ranks]["linear rule − best"] = plus_minus(*gaps[ranks])
display(pd.DataFrame(rows).T.rename_axis("ranks"))
for ranks in (8, 128):
    compare(f"{ranks} ranks, best of seven learning rates / η", best[ranks])
claim("2η is not distinguishable", all(level[r][0] <= 2 for r in (1, 8, 128)))

# %% [markdown]
# The valleys are so broad that a list of minima proves little: for 1, 8 and 128 ranks $2η$ is not
# distinguishable from the best. A sharper question is how the *same* increase affects different batches,
# seed by seed.

# %%
effect = {}  # (from / η, ranks): points of five seeds
for (a, b), some in {(1, 4): (1, 8, 32), (4, 16): (8, 32, 128)}.items():
    for ranks in some:
        effect[a, ranks] = sweep[ranks][b] - sweep[ranks][a]
        gap = plus_minus(*difference(effect[a, ranks], 0))
        print(f"from {a}η to {b}η, {ranks} ranks: {gap} points")
for ranks in (8, 32):
    mean, half = difference(effect[1, ranks], effect[1, 1])
    print(f"from 1η to 4η, {ranks} ranks minus 1: {plus_minus(mean, half)} points")
claim("helps 32 ranks more than one", mean < -1.96 * half)  # corrected for 8 intervals
claim("four of five test errors rise", (effect[4, 128] > 0).sum() == 4)
loss = [results("losses", v, 128)[:, -6:].mean() for v in ("reach 2", "reach 16")]
print("128 ranks, last six training losses at 2η and 16η: {:.2f}, {:.2f}".format(*loss))

# %% [markdown]
# Raising the learning rate fourfold helps 32 ranks more than one; for 8 ranks this holds only without a
# correction for all these intervals. A second fourfold increase makes no measurable difference to 8 and 32
# ranks. With 128 ranks four of five test errors rise, while the training losses are close. In 30 updates
# the moving averages of batch normalisation lag behind: with statistics estimated again on training images
# (`runs/08_statistics.py`), the mean error at $16\eta$ falls from 61% to 30%, and each seed's falls.
#
# Which learning rates should be best, judging from *one* rank? We multiply those not distinguishable from
# its best by $k$ (linear), by $\sqrt k$, or by the factor of 8.3 in epochs 1 to 8. Nothing is fitted. There
# is also a limit: with momentum $m$, gradient descent on a parabola of curvature $\lambda$ is stable for
# learning rates below $2(1 + m)/\lambda$, for every batch. The $\lambda$ of 8.2 are lower bounds, so the
# limit may be lower.

# %% tags=["measured"]
eta, m = 0.1, 0.9
bounds = curvature["λ ≥"].to_numpy()
cap, rows = [2 * (1 + m) / c for c in (bounds.max(), bounds.min())], {}
one = eta * np.array(level[1])  # level with the best of one rank
for ranks in sweep:
    rows[ranks] = {"measured": eta * np.array(level[ranks]), "linear": ranks * one}
    factors = np.sort([allowed(scale, ranks) for scale in full])[[0, -1]]
    rows[ranks] |= {"√k": ranks**0.5 * one, "noise": factors * one}
table = pd.DataFrame(rows).T.rename_axis("ranks")
display(table.map(lambda ends: "{:.2g} to {:.2g}".format(*ends)))
print("limit of curvature: {:.1f} to {:.1f}".format(*cap))
ends = {name: np.array(table[name].tolist()).T for name in table}  # (2, batches)
low, high = ends["measured"]
fits = {name: (low <= b) & (a <= high) for name, (a, b) in ends.items()}
claim("both ranges overlap with every measured one", (fits["√k"] & fits["noise"]).all())
claim("more than five times too high", ends["linear"][0, 3] > 5 * high[3])
claim("lies within its bounds", cap[0] < 1.6 < cap[1])

# %%
fig, axes = plt.subplots(1, 2, figsize=(10.4, 4.2))
for i, (ranks, some) in enumerate(sweep.items()):
    means, bars = ([of(e) for e in some.values()] for of in (np.mean, interval))
    style = {"color": palette[i], "marker": "os^D"[i], "label": f"ranks: {ranks}"}
    axes[0].errorbar([eta * f for f in some], means, yerr=bars, **style)
    axes[0].plot(eta * ranks, some[ranks].mean(), "o", ms=13, mfc="none", color="0.2")
x_at = n * np.array(list(sweep))
axes[1].vlines(x_at, low, high, lw=8, alpha=0.4, label="level with the best")
axes[1].vlines(1.2 * x_at, *ends["noise"], color="k", lw=2, label="noise-scale model")
for color, name in zip(palette[2:], ("linear", "√k"), strict=False):
    axes[1].fill_between(x_at, *ends[name], color=color, alpha=0.25, label=name)
axes[1].axhspan(*cap, color=palette[1], alpha=0.15, label="limit of curvature (bounds)")
axes[0].set(xlabel="learning rate (ring: linear rule)", ylabel="test error / %")
axes[1].set(xlabel="images per update", ylabel="learning rate")
for ax in axes:
    ax.set(xscale="log", yscale="log"), ax.legend(fontsize=8), ax.minorticks_off()
axes[0].set_yticks([12, 20, 40, 80], ["12", "20", "40", "80"])
plt.show()

# %% [markdown]
# *(Figure: left, test error against learning rate, with a valley for each batch, which is higher for larger
# batches. Rings mark the linear rule: at the bottom for 1 and 8 ranks, near chance for 128. Right, learning
# rates against the batch: wide bars are level with the best, thin bars show the noise-scale model, wedges
# the linear and the √k rule, and a band the limit of curvature.)*
#
# The √k rule and the noise-scale model give wide ranges, because the valley of one rank is broad, and both
# ranges overlap with every measured one. Five seeds cannot distinguish the two. The linear rule is more
# than five times too high for 128 ranks. Curvature may be one reason: 1.6, where the errors of 128 ranks
# explode, lies within its bounds. But most of this explosion is the lagging averages.
#
# The valleys also rise with the batch: **no learning rate replaces the missing updates.**

# %% [markdown]
# ## 8.7 Steps to a target
#
# The final error also depends on the length of training. Shallue et al. (2019) ask instead how many updates
# a batch needs to reach a fixed test error, with all hyperparameters tuned. They find three regimes:
# *perfect scaling* (twice the batch, half the updates), *diminishing returns*, and *maximal data
# parallelism*, where a larger batch saves nothing.
#
# Our goal is a mean training loss of 0.6 on 1,024 images. A warmup of 3 epochs would take 144 updates with
# 8 ranks, so we compare runs *without* warmup, each batch at the best of $\eta$, $\sqrt k\,\eta$ and
# $k\eta$. **Guess** the updates of 32 ranks if one rank needs about 290.

# %%
guess("updates to the goal, 32 ranks")
GOAL, rows = 0.6, {(1, "plain"): {}}
rows |= {(ranks, name): {} for ranks in (8, 32) for name in ("plain", "sqrt", "linear")}
for (ranks, variant), row in rows.items():
    losses = results("losses", variant, ranks)
    # One recorded loss is the mean of 1,024 images: of 32, 4 or 1 updates.
    row["of seeds"] = (1 + (losses < GOAL).argmax(1)) * (32 // ranks)
    row["updates"] = int(np.median(row["of seeds"]))
    row["images"] = n * ranks * row["updates"]
table = pd.DataFrame(rows).T.rename_axis(["ranks", "variant"])
display(table)
fewest = table["updates"].groupby("ranks").min()
compare("updates to the goal, 32 ranks", fewest[32])
claim("8 ranks save less than a factor of 8", fewest[1] / 8 < fewest[8] < fewest[1])
claim("the next factor of 4 saves less than 4", fewest[8] / 4 < fewest[32] < fewest[8])
tie = difference(rows[8, "linear"]["of seeds"], rows[8, "sqrt"]["of seeds"])
gap = difference(rows[32, "sqrt"]["of seeds"], rows[32, "plain"]["of seeds"])
claim("with 8 ranks linear and √k tie", abs(tie[0]) < tie[1])
claim("with 32 √k is fastest", gap[0] < -gap[1])

# %% [markdown]
# We are in the regime of diminishing returns: 8 ranks save less than a factor of 8, and the next factor of
# 4 saves less than 4. The column *images* shows the cost. With 8 ranks linear and √k tie, as far as five
# seeds can show; with 32 √k is fastest. In their 30 updates, with warmup, 128 ranks reach the goal in 1 of
# 35 runs.
#
# And for **equal numbers of updates**? With an unchanged learning rate, and before its final drop, we
# compare the training loss of updates 65 to 96, and the test error after 96 updates of 1,024 images with
# that after 384 updates of 32 images.

# %%
one, large = (results("losses", "plain", ranks) for ranks in (1, 32))
gap = difference(one[:, 2], large[:, 64:96].mean(1))
print("loss of updates 65 to 96, 32 images minus 1,024:", plus_minus(*gap))
one, large = (results("errors", "plain", ranks) for ranks in (1, 32))
test = difference(one[:, 0], large[:, 7])  # after epochs 1 and 8
print("test error, 384 updates of 32 minus 96 of 1,024:", plus_minus(*test), "points")
claim("the training loss is lower with the larger batch", gap[0] > gap[1])
claim("cannot tell them apart", abs(test[0]) < test[1])
tried = [results("losses", v, 128) < GOAL for v in experiment["SWEEP"][128].values()]
claim("the goal in 1 of 35 runs", sum(seeds.any(1).sum() for seeds in tried) == 1)

# %% [markdown]
# After equally many updates the training loss is lower with the larger batch. By their test errors, five
# seeds cannot tell them apart, although the larger batch had a quarter of the updates. Per update, we found
# no disadvantage of the large batch. Hoffer et al. (2017) tested this on several networks: with as many
# updates, √k and ghost batch normalisation, a large batch reached the test error of the small one.
#
# ## 8.8 A mistake that raises no error
#
# Goyal et al. list mistakes that only make the results a little worse. One concerns momentum, which can be
# written in two ways that agree if $\eta$ is constant:
#
# $$u \leftarrow m u + g, \quad w \leftarrow w - \eta u \qquad\text{or}\qquad v \leftarrow m v + \eta g,
# \quad w \leftarrow w - v.$$
#
# In the second the learning rate is *inside* the velocity. When it changes, the old gradients continue at
# the old learning rate, unless $v$ is multiplied by $\eta_\text{new}/\eta_\text{old}$: the **momentum
# correction**. PyTorch uses the first form. Which one does Keras use? We give it a gradient that is always
# 1, and a learning rate that jumps from 0.1 to 3.2 and later falls to 0.32. **Guess** its first step after
# the jump; in the first form it is about 31.

# %%
guess("Keras, first step after the jump")
rates = [0.1] * 30 + [3.2] * 30 + [0.32] * 30
lengths = {"outside": [], "inside": [], "inside, corrected": [], "Keras": []}
u = v = corrected = 0.0
weight, sgd = keras.Variable(0.0), keras.optimizers.SGD(0.1, momentum=m)
for last, rate in zip([rates[0], *rates], rates, strict=False):
    u, v, corrected = m * u + 1, m * v + rate, m * rate / last * corrected + rate
    before, sgd.learning_rate = float(weight.numpy()), rate
    sgd.apply([tf.constant(1.0)], [weight])
    step = before - float(weight.numpy())
    for name, length in zip(lengths, [rate * u, v, corrected, step], strict=True):
        lengths[name].append(length)
compare("Keras, first step after the jump", lengths["Keras"][30])
claim("learning rate inside", np.allclose(lengths["Keras"], lengths["inside"], 1e-3))

# %% [markdown]
# Keras has the learning rate inside, without the correction. When the learning rate falls, steps stay too
# long for a while. Our script applies the correction; the variant `uncorrected` does not. The learning rate
# falls after epoch 8, and the loss should fall, too.

# %%
fig, axes = plt.subplots(1, 2, figsize=(10.4, 3.4))
axes[0].plot(lengths["inside, corrected"], marker="", label="corrected")
axes[0].plot(lengths["Keras"], marker="", ls="--", label="not corrected (Keras)")
axes[0].set(xlabel="update", ylabel="length of the step", title="η = 0.1, 3.2, 0.32")
change = {}
names = {"gradual": "corrected", "uncorrected": "not corrected"}
for color, (variant, name) in zip(palette, names.items(), strict=False):
    losses, style = results("losses", variant, 32), {"c": color, "ls": "-", "ms": 0}
    axes[1].plot(range(84, 120), losses[:, 84:].T, lw=0.7, alpha=0.5, **style)
    axes[1].plot(range(84, 120), losses[:, 84:].mean(0), lw=2.4, label=name, **style)
    change[name] = losses[:, 96:108].mean(1) - losses[:, 84:96].mean(1)
    print(f"loss of epoch 9 minus epoch 8, {name}:", change[name].round(3).tolist())
axes[1].set(xlabel="update (thin: a seed)", ylabel="loss", title="η = 3.2, 0.32")
axes[0].legend(fontsize=8.5, loc="upper left"), axes[1].legend(fontsize=8.5)
plt.show()
gap = difference(errors_of("uncorrected", 32), errors_of("gradual", 32))
print("test error, uncorrected minus corrected:", plus_minus(*gap), "points")
claim("it rises in all five seeds", (change["not corrected"] > 0).all())
claim("the test errors of five seeds cannot show it", abs(gap[0]) < gap[1])

# %% [markdown]
# *(Figure: left, the length of the corrected step follows the learning rate at once, and that of the
# uncorrected step within about twenty updates. Right, the training losses of ten runs after update 96 fall
# a little with the correction; without it, they rise and fall back slowly.)*
#
# With the correction the loss falls. Without it, it rises in all five seeds. The mistake is visible only in
# this loss: twenty-four updates later the test errors of five seeds cannot show it.
#
# ## 8.9 What does this say about ImageNet?
#
# The paper rests on one difference: with gradual warmup, a batch of 8,192 reaches 23.74%, against 23.60%
# for 256.

# %%
CURVE = {256: 23.60, 512: 23.48, 1024: 23.53, 2048: 23.49, 4096: 23.56, 8192: 23.74}
CURVE |= {16384: 24.79, 32768: 27.55, 65536: 33.96}  # Goyal et al. / %
rule = {n * ranks: some[ranks] for ranks, some in sweep.items()}
above = {batch: errors.mean() - rule[n].mean() for batch, errors in rule.items()}
fig, ax = plt.subplots(figsize=(6.4, 3.4))
ax.plot(list(above), list(above.values()), "o-", label="here, against 32 images")
theirs = [error - CURVE[256] for error in CURVE.values()]
ax.plot(list(CURVE), theirs, "s--", label="ImageNet, against 256 images")
ax.set(xscale="log", ylim=(-1, 12), xlabel="images per update", ylabel="points")
ax.set_title("Linear rule: increase of the test error"), ax.legend()
plt.show()
mean, half = difference(rule[256], rule[32])
print("here, 256 images minus 32:", plus_minus(mean, half), "points")
claim("8 ranks cost a third of a point", half < mean < 0.5)
half = 2.306 * math.hypot(0.09, 0.12) / math.sqrt(5)  # t of 2 · 5 runs, not paired
print("ImageNet, 8,192 minus 256:", plus_minus(CURVE[8192] - CURVE[256], half))
claim("bends between 256 and 1,024 images", above[1024] > 3)

# %% [markdown]
# *(Figure: the increase of the test error with the linear rule and gradual warmup. Ours is nearly level up
# to 256 images, 4.5 points at 1,024 and beyond the axis at 4,096. ImageNet's is level up to 8,192 images,
# and then reaches 1, 4 and 10 points.)*
#
# Here 8 ranks cost a third of a point, a small cost that five seeds can measure, and the curve bends
# between 256 and 1,024 images. On ImageNet it bends above 8,192. There the interval barely includes zero:
# five runs do not distinguish the two batches, which does not show that they are equal. Shallue et al.
# found that neither rule holds for all networks and data, and found no evidence that large batches
# generalise worse.
#
# **A small experiment can show mechanisms** if it measures the quantity directly. **It cannot show**
# whether a recipe reaches 23.74% on ImageNet, or where the linear rule ends there. For your network, repeat
# the measurements. The noise scale costs one pass over the data.
#
# ## 8.10 Today
#
# - **Adam**: Malladi et al. (2022) derive and test the $\sqrt k$ rule for it.
# - **Beyond the range of a rule**: layer-wise learning rates, LARS (You et al. 2017) and, with Adam,
#   LAMB, which trained BERT with about 32,000 sequences per update (You et al. 2020).
# - **Critical batch size**: Zhang et al. (2024) found for language models that the largest useful batch
#   grows with the amount of data rather than with the model.
# - **Growing batches**: Llama 3 (2024) began with 4 million tokens per update and ended with 16 million.
#
# ## What was learned
#
# - For the same epochs a large batch has fewer updates. Longer steps compensate for this as long as the
#   gradient hardly changes along them.
# - A warmup has two reasons: at the start the loss is more curved, and the noise scale is small.
# - Matched pairs differ in one line. Five seeds and an interval distinguish an effect from luck, and seven
#   comparisons need wider intervals than one.
# - For 32 times the images, 4 to 16 times the learning rate was not distinguishable from the best here, and
#   32 times was worse. Without a fit, √k and the noise-scale model are compatible with all batches.
# - The steps to a target fall more slowly than the batch grows.
#
# **Your turn.** In assignment 08, [Large batches](../exercises/08_large_batches/large_batches.ipynb), you
# write the schedule as a function of the step, submit an experiment like this one as a sweep of jobs, and
# draw conclusions that your recorded runs must support.
#
# ## Further
#
# ### Exercises
#
# 1. The noise scale is 1,000 images and each rank has 250. According to the model of 8.3, by what factor
#    may 4, 16 and 64 ranks raise the learning rate?
#
# <details><summary>Answer</summary>
#
# The factor is $(1 + 4) / (1 + 4/k)$: 2.5, 4 and 4.7. No number of ranks may raise the learning rate more
# than fivefold.
#
# </details>
#
# 2. In that training, the updates to a goal are proportional to $1 + N_\text{noise}/N$ (McCandlish et
#    al.). How many ranks need half the updates of 4 ranks, and how many times as many images do they
#    process?
#
# <details><summary>Answer</summary>
#
# For 4 ranks, $N = 1{,}000$ gives $1 + 1 = 2$. Half of it, $1 + 0$, is the limit of an infinite batch and
# is never reached. 16 ranks give 1.25, so they need 0.63 of the updates, for 2.5 times the images.
#
# </details>
#
# 3. A colleague tests the linear rule with warmup against $\sqrt k$ without, three seeds each, and
#    reports the better mean. Name three changes that would make the result worth reporting.
#
# <details><summary>Answer</summary>
#
# Change one line at a time (both with warmup). Use the same seeds in both, at least five, and report the
# interval of the paired differences. Tune the learning rate of each on images that are not the test
# images.
#
# </details>
#
# ### Two more silent mistakes
#
# If every rank takes the mean over its $n$ images and the all-reduce *adds* these means, the gradient is
# $k$ times too long. With the linear rule in addition, the step is $k^2$ times as long. In another mistake
# each rank draws *its own* shuffle of all images. What fraction of the images is then seen by none of 32
# ranks in an epoch?

# %% tags=["measured"]
firsts = {}
for name, power in {"mean": 1, "sum": 2}.items():
    code = load("linear", k=32)
    code["rate"] = lambda t, power=power: eta * k**power  # as if the gradient were k times as long
    code["EPOCHS"] = 1
    firsts[name] = code["main"]()[0]
print(pd.DataFrame(firsts, index=range(1, 13)).T.round(1).to_string())
own = np.concatenate([np.random.default_rng(rank).permutation(SMALL)[: SMALL // k] for rank in range(k)])
print(f"not seen: {1 - len(np.unique(own)) / SMALL:.1%}; (1 - 1/k)^k = {(1 - 1 / k) ** k:.1%}")
gap = difference(errors_of("shuffles", 32), errors_of("gradual", 32))
print("test error, own shuffles minus a common one:", plus_minus(*gap), "points")
claim("The sum shows at once", max(firsts["sum"]) > 10 * max(firsts["mean"]))
claim("our test errors cannot show it", abs(gap[0]) < gap[1])

# %% [markdown]
# The sum shows at once in the loss, even compared with the mean, whose loss also rises after starting at
# $k\eta$ without warmup. The effect of separate shuffles is not visible: each epoch leaves out a different
# third, so after ten epochs nearly all images have been seen, and our test errors cannot show it. The
# indices show it, as in lecture 07.
#
# ### Sharp minima?
#
# Keskar et al. (2016) gave a reason why large batches should generalise worse: their noise is too small
# to leave *sharp* minima, where the loss rises steeply on all sides. A natural measure of sharpness is
# the largest eigenvalue of the Hessian. But batch normalisation makes the output independent of the scale
# of the weights before it (lecture 03). We multiply all kernels of convolutions by 3: the network
# computes the same function. By what factor does the curvature change?

# %% tags=["measured"]
with np.load("runs/08_large_batches.npz") as file:
    recorded = {name: file[name].astype(np.float32) for name in file.files}
parts = range(len(model.get_weights()))
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
    loss = loss_at(scaled, x[PROBE], y[PROBE])
    found[scale] = float(steepest @ hessian_times(steepest, scaled, PROBE, epsilon=0.01 * scale))
    print(f"kernels × {scale}: loss {loss:.4f}, curvature {found[scale]:.4f}")
claim("more than eight times flatter", found[1] > 8 * found[3])

# %% [markdown]
# The same function is more than eight times flatter. (It would be exactly nine times, 3², without the
# 0.001 that batch normalisation adds to a variance.) With batch normalisation the eigenvalue describes
# the length of the weights as much as the minimum. (Dinh et al. 2017 show the same for rescaled ReLU
# networks.) Li et al. (2018) draw random directions and rescale each *filter* in them to the norm of the
# network's own filter, so that a step of 0.1 means "10% of each filter". We walk in such directions from
# the final weights of four variants, five seeds each.


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


# %% tags=["measured"]
distances = np.linspace(-0.6, 0.6, 9)
profiles, rng = {}, np.random.default_rng(8)
KEPT = {"one rank": "plain 1", "unchanged": "plain 32", "linear": "linear 32", "gradual": "gradual 32"}
for name, variant in KEPT.items():
    profiles[name] = []
    for seed in range(5):
        model.set_weights([recorded[f"{variant} {seed} {i}"] for i in parts])
        here = position()
        for way in (direction(rng), direction(rng)):
            losses = [loss_at(here + a * way, x[PROBE], y[PROBE]) for a in distances]
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
    rows[name] = {"training loss": f"{losses[:, 4].mean():.3f}", "rise at ±0.3": f"{rises[name].mean():.3f}"}
    rows[name]["unchanged minus this"] = plus_minus(*difference(rises["unchanged"], rises[name]))
ax.set(xlabel="distance, as a share of each filter (thin: a seed)", ylabel="training loss", ylim=(0, 3))
ax.set_title("Around the final weights, in random directions")
ax.legend()
plt.show()
del rows["unchanged"]["unchanged minus this"]
display(pd.DataFrame(rows).T)
more = {name: difference(rises["unchanged"], rises[name]) for name in ("one rank", "linear")}
claim("the loss rises more than around one rank", more["one rank"][0] > more["one rank"][1])
claim("the same batch, and rises less", more["linear"][0] > more["linear"][1])

# %% [markdown]
# *(Figure: training loss against the distance from the final weights, for four variants; thin lines are
# seeds. One rank has the lowest loss in the middle. With an unchanged learning rate the loss rises most
# steeply. The linear rule has the highest loss in the middle and rises about as one rank does, and with
# gradual warmup the rise is in between.)*
#
# Around the large batch with an unchanged learning rate, the loss rises more than around one rank. But the
# linear rule has the same batch, and rises less, although its test error is higher. So here the batch alone
# does not decide sharpness, and a flatter minimum does not mean a lower test error. The probe has limits: a
# random direction in 20,000 dimensions has almost no component along the few *steepest* ones, which Keskar
# et al. mean, and the variants end at different losses. It neither confirms nor refutes their claim.
#
# ### Weight decay: scaling the loss is not scaling the learning rate
#
# In some frameworks it is easier to multiply the *loss* by $k$ than the learning rate. Without weight
# decay the two are equivalent. With it, the step is $\eta\,(k\nabla\ell + \lambda w)$ instead of
# $k\eta\,(\nabla\ell + \lambda w)$: the decay is $k$ times too weak. For a loss $\frac12 (w - 1)^2$ and
# $\lambda = 0.25$ the right end is $w = 0.8$.

# %%
decay, w = 0.25, {"rate × 8": 0.0, "loss × 8": 0.0}
for _ in range(300):
    w["rate × 8"] -= 8 * 0.01 * ((w["rate × 8"] - 1) + decay * w["rate × 8"])
    w["loss × 8"] -= 0.01 * (8 * (w["loss × 8"] - 1) + decay * w["loss × 8"])
print({name: round(end, 3) for name, end in w.items()})
assert math.isclose(w["rate × 8"], 1 / (1 + decay), rel_tol=1e-6)
assert math.isclose(w["loss × 8"], 1 / (1 + decay / 8), rel_tol=1e-6)

# %% [markdown]
# Scaling the loss leads to the minimum of a different problem, with an eighth of the decay.
#
# ### Two recipes that did not help here
#
# **γ = 0**: the last batch normalisation of each block starts at zero, so that the network starts as if
# it had no blocks. In the paper this lowers the error by 0.37 percentage points with 8,192 images (24.11
# to 23.74%) and by 0.24 with 256 (23.84 to 23.60%). **LARS** (You et al. 2017) scales the step of each
# kernel by the length of *that* kernel, $v \leftarrow mv + \eta \cdot 0.001\, |w|\, g/|g|$; nothing was
# tuned here.

# %%
for name in ("gamma 0", "LARS"):
    gap = difference(errors_of(name, 32), errors_of("gradual", 32))
    print(f"{name} minus gradual warmup alone: {plus_minus(*gap)} points;", end=" ")
    print("seeds:", errors_of(name, 32).round(1).tolist())
    claim("Neither is distinguishable from gradual warmup alone", abs(gap[0]) < gap[1])

# %% [markdown]
# Neither is distinguishable from gradual warmup alone. With γ = 0 two seeds got much worse.
#
# ### Was it worth it?
#
# This table compares four published training runs of ResNet-50 and their cost in device hours.

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
HISTORY["images/s per device"] = 90 * IMAGENET / HISTORY["minutes"] / 60 / HISTORY["devices"]
display(HISTORY.round(1))
eight, goyal, akiba, _ = HISTORY["device hours"]
print(f"efficiency against 8 devices: {eight / goyal:.0%} on 256, {eight / akiba:.0%} on 1,024")
print(
    f"for comparison Codreanu et al. 2017, 104,000 KNL cores for 28 min: {104_000 * 28 / 60:,.0f} core hours"
)

# %% [markdown]
# The time fell from 29 hours to less than four minutes, while the cost of the three P100 rows hardly
# changed. The 90% that Goyal et al. state for 256 devices agrees with our 91%, which comes from times
# rounded to hours. Akiba et al. state 80% for theirs, against one of their own nodes (lecture 10). The last
# column assumes 90 epochs for all; core hours are not comparable with device hours. With 256 images per
# update, 2,176 devices would not even get one image each.
#
# ### Terms
#
# **Critical batch size**: the batch beyond which a larger one saves few updates. **Ghost batch
# normalisation**: normalising parts of a batch separately. **Gradient accumulation**: adding up gradients
# of several batches before an update. **Linear rule**: $k$ times the batch, $k$ times the learning rate.
# **Momentum correction**: multiplying the velocity by $\eta_\text{new}/\eta_\text{old}$. **Noise scale**:
# $\operatorname{tr}\Sigma/|G|^2$. **Warmup**: starting with a smaller learning rate.
#
# ### Sources
#
# - Goyal et al. 2017, *Accurate, large minibatch SGD*, [1706.02677](https://arxiv.org/abs/1706.02677),
#   read in full: 8.1 to 8.9. Its "test errors" are those of the validation set
# - Krizhevsky 2014, *One weird trick for parallelizing convolutional neural networks*,
#   [1404.5997](https://arxiv.org/abs/1404.5997), section 5: 8.2, 8.3
# - McCandlish et al. 2018, *An empirical model of large-batch training*,
#   [1812.06162](https://arxiv.org/abs/1812.06162), section 2: 8.3, 8.6, exercise 2
# - Hoffer, Hubara and Soudry 2017, *Train longer, generalize better*,
#   [1705.08741](https://arxiv.org/abs/1705.08741): 8.4, 8.7
# - Shallue et al. 2019, *Measuring the effects of data parallelism on neural network training*,
#   [1811.03600](https://arxiv.org/abs/1811.03600), sections 1 and 4: 8.7
# - Malladi et al. 2022, [2205.10287](https://arxiv.org/abs/2205.10287); You et al. 2020, *LAMB*,
#   [1904.00962](https://arxiv.org/abs/1904.00962); Zhang et al. 2024,
#   [2410.21676](https://arxiv.org/abs/2410.21676); Llama team 2024,
#   [2407.21783](https://arxiv.org/abs/2407.21783), section 3.4; of each the abstract or a secondary text:
#   8.10
# - You et al. 2017, *LARS*, [1708.03888](https://arxiv.org/abs/1708.03888); Keskar et al. 2016,
#   [1609.04836](https://arxiv.org/abs/1609.04836); Dinh et al. 2017,
#   [1703.04933](https://arxiv.org/abs/1703.04933); Li et al. 2018,
#   [1712.09913](https://arxiv.org/abs/1712.09913): *Further*
# - Akiba et al. 2017, [1711.04325](https://arxiv.org/abs/1711.04325); Mikami et al. 2018,
#   [1811.05233v1](https://arxiv.org/abs/1811.05233v1); Codreanu et al. 2017,
#   [1711.04291](https://arxiv.org/abs/1711.04291): *Further*
# - Documentation of `torch.optim.SGD`: 8.8
