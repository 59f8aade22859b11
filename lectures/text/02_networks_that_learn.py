# %% [markdown]
# # 2 · Networks that learn
#
# **An engineer needed twenty years for good features. Why does a network find better ones in a minute, and
# when does it not?**
#
# Until 2012 a recogniser of images had two parts. People designed *features*, numbers that describe edges
# and their directions; a simple classifier drew planes between them. Then a network that learned its
# features won ILSVRC, a contest with a million images. On PASCAL's ten thousand, says a slide of the
# course's sources [1], networks had not won. So is it the network, or the data? We build both recognisers,
# and then let the number of images decide.
#
# We aim at
#
# 1. building the **classical pipeline**, whose error is the number to beat;
# 2. writing layers as matrix products, and predicting the loss of an untrained network;
# 3. **back-propagation** by hand, its check, and its cost counted against the forward pass;
# 4. SGD in four steps, what the learning rate does, and **four failures** recognised by their curves;
# 5. **measuring** from how many images on a learned feature is the better one, and looking at it.
#
# Notation: $N$ images; $C_1$, $C_2$, $C_3$ numbers into, inside and out of a network of two layers; $\eta$
# the learning rate. Guess before you look: write your number into `guess`, or into the field below it.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=1, seed=2)

# %%
import json
import math
import os
import pathlib
import runpy

os.environ["CLUSTER_RUNS"] = os.environ.get("CLUSTER_RUNS", "../runs")  # jobs of this lecture

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display
from keras import layers

from cluster import jobs
from cluster.training.data import CLASSES, fashion_mnist
from cluster.training.models import lenet5

# %% [markdown]
# ## 2.1 The engineer's features
#
# Fashion-MNIST has photographs of ten kinds of clothing. The engineer's first step is lecture 01's: Sobel's
# filters, whose two answers at a pixel are a vector across the edge. Its length says how strong the edge
# is, its angle which way it runs.

# %%
x, y = fashion_mnist("train", 10_000)
x_test, y_test = fashion_mnist("test", 5_000)


def edges(x):
    """Sobel's filters: x (N, 28, 28, 1) -> length and angle (0 to π) of each pixel's edge, (N, 28, 28)."""
    image = np.pad(x[..., 0], ((0, 0), (1, 1), (1, 1)), mode="edge")
    across, down = image[:, :, 2:] - image[:, :, :-2], image[:, 2:] - image[:, :-2]
    right = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]
    below = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    return np.hypot(right, below), np.arctan2(below, right) % np.pi


length, angle = edges(x)
print(f"images {x.shape}, length and angle {length.shape}")

# %% [markdown]
# A shirt that lies one pixel further left has other pixels but nearly the same edges *somewhere near*. So
# in each cell of 4×4 pixels one only counts: how much edge in which of nine directions? An edge between two
# directions is shared. Last, blocks of 2×2 cells are brought to the same length, against bright and dark
# photographs. These are *histograms of oriented gradients* (HOG), published in 2005 [2], after decades of
# features by hand.


# %%
def hog(x, cell=4, bins=9):
    """Histograms of oriented gradients: x (N, 28, 28, 1) -> (N, 1296)."""
    length, angle = edges(x)
    position, cells, histograms = angle * (bins / np.pi), 28 // cell, []
    for b in range(bins):
        distance = np.abs((position - b + bins / 2) % bins - bins / 2)  # directions lie on a circle
        share = length * np.maximum(0, 1 - distance)
        histograms.append(share.reshape(-1, cells, cell, cells, cell).sum((2, 4)))  # (N, 7, 7)
    h = np.stack(histograms, -1)
    blocks = np.concatenate([h[:, :-1, :-1], h[:, :-1, 1:], h[:, 1:, :-1], h[:, 1:, 1:]], -1)
    blocks /= np.sqrt((blocks**2).sum(-1, keepdims=True) + 0.01)  # (N, 6, 6, 36)
    return blocks.reshape(len(x), -1).astype(np.float32)


features, features_test = (np.concatenate([hog(part) for part in np.split(s, 10)]) for s in (x, x_test))
print(f"{x[0].size} pixels -> {features.shape[1]} features")

# %%
shown = [0, 1, 3]
fig, axes = plt.subplots(3, 4, figsize=(7.6, 5.6))
for row, i in zip(axes, shown, strict=True):
    row[0].imshow(x[i, ..., 0], cmap="gray_r")
    row[1].imshow(length[i], cmap="gray_r")
    row[2].imshow(np.ma.masked_where(length[i] < 0.4, angle[i]), cmap="twilight", vmin=0, vmax=np.pi)
    blocks = features[i].reshape(6, 6, 4, 9)[:, :, 0]  # the first cell of each block
    for b in range(9):
        down, right, strength = *np.mgrid[0:6, 0:6].reshape(2, 36), blocks[..., b].ravel() * 0.9
        along = b * np.pi / 9 + np.pi / 2  # the edge lies across its gradient
        dx, dy = strength * np.cos(along), strength * np.sin(along)
        row[3].plot([right - dx, right + dx], [down - dy, down + dy], "k-", marker="", lw=1, alpha=0.6)
    row[3].set(xlim=(-0.7, 5.7), ylim=(5.7, -0.7), aspect="equal")
    row[0].set_ylabel(CLASSES[y[i]])
for ax, title in zip(axes[0], ["image", "edge: length", "angle", "histograms"], strict=True):
    ax.set_title(title)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
plt.show()

# %% [markdown]
# *(Figure: an ankle boot, a T-shirt and a dress, each as image, as strength of its edges, as their angle in
# colour, and as a field of 6×6 small stars whose strokes lie along the edges.)*
#
# The classifier is one plane a class, $f \cdot W$ with the largest of ten numbers as answer, fitted by
# least squares to 1 for the right class and 0 for the others (with a small penalty on $W$): one system of
# linear equations, and nothing is left to chance. The same classifier gets the raw pixels, too. **Guess**
# its two errors on 5,000 test images.

# %%
guess("error with pixels", None, "%")
guess("error with HOG", None, "%")


def least_squares(f, y, penalty=10.0):
    """f (N, D) -> W (D + 1, 10), the last row a bias: the minimum of |f W - onehot|² + penalty |W|²."""
    f = np.c_[f, np.ones(len(f), f.dtype)]
    return np.linalg.solve(f.T @ f + penalty * np.eye(f.shape[1]), f.T @ np.eye(10)[y])


def error(scores, y):
    """Percent of the rows whose largest number is not that of the label."""
    return float(100 * np.mean(scores.argmax(1) != y))


pixels, pixels_test = x.reshape(len(x), -1), x_test.reshape(len(x_test), -1)
linear = {}
for name, f, f_test in (("pixels", pixels, pixels_test), ("HOG", features, features_test)):
    W = least_squares(f, y)
    linear[name] = error(f_test @ W[:-1] + W[-1], y_test)
    compare(f"error with {name}", linear[name])

# %% [markdown]
# Same images, same classifier. Is the difference what the engineer knew? HOG has more numbers than an image
# has pixels, and they are not linear in them. A control: as many numbers that know nothing, random sums of
# the pixels with what is negative cut off. **Guess** their error, too.

# %%
guess("error with random sums", None, "%")
R = np.random.default_rng(2).standard_normal((pixels.shape[1], features.shape[1])).astype(np.float32) / 28
f, f_test = np.maximum(pixels @ R, 0), np.maximum(pixels_test @ R, 0)
W = least_squares(f, y)
linear["random sums"] = error(f_test @ W[:-1] + W[-1], y_test)
compare("error with random sums", linear["random sums"])
margin = {name: 196 * math.sqrt(e / 100 * (1 - e / 100) / len(y_test)) for name, e in linear.items()}
print("95% intervals, points:", ", ".join(f"{name} ± {half:.1f}" for name, half in margin.items()))

# %% [markdown]
# More than half of the gain needs no engineer: many numbers that are not linear in the pixels are worth
# something by themselves, and they are what the next section calls an untrained hidden layer. The rest, from
# the random sums down to HOG, is what the engineer knew. HOG's error is the one to beat.
#
# ## 2.2 A layer is a matrix product
#
# A *neuron* multiplies its inputs with weights, adds them up with a bias, and cuts off what is negative: $a
# = \max(0, x \cdot w + b)$, the *rectified linear unit* (ReLU). $C_2$ neurons that see the same input are
# $C_2$ columns of a matrix, and $N$ images are $N$ rows of another. So a *fully connected* layer is
#
# $$a_{[N \times C_2]} = \max(0,\; x_{[N \times C_1]}\, w_{1\,[C_1 \times C_2]} + b_1), \qquad
# z_{[N \times C_3]} = a\, w_{2\,[C_2 \times C_3]} + b_2 .$$
#
# Without the cut two layers would be one: $x w_1 w_2$ is again a plane. A *convolution* has $w_1$ of $[C_2
# \times C_1 \times k \times k]$ and keeps the image; pooling halves $H$ and $W$; the classifier behind it
# sees $C_2 \cdot H/2 \cdot W/2$ numbers, hence the $w_2$ of $[C_2 H W / 4 \times C_3]$ of our source's
# slide [3]. Are these the shapes of Keras, too? (It keeps a filter as $k \times k \times C_1 \times C_2$.)

# %%
H, W, C1, C2, C3, k = 28, 28, 1, 8, 10, 3
dense = keras.Sequential(
    [keras.Input((H, W, C1)), layers.Flatten(), layers.Dense(128, "relu"), layers.Dense(C3)], name="dense"
)
small_cnn = keras.Sequential(name="convolution")
for layer in (keras.Input((H, W, C1)), layers.Conv2D(C2, k, padding="same", activation="relu"),
              layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(C3)):  # fmt: skip
    small_cnn.add(layer)
for model in (dense, small_cnn):
    print(f"{model.name}: {model.count_params():,} parameters")
    for layer in model.layers:
        weights = f"weights {layer.kernel.shape}" if layer.weights else ""
        print(f"  {layer.name.split('_')[0]:9} -> {layer.output.shape!s:20} {weights}")
assert small_cnn.layers[-1].kernel.shape == (C2 * H * W // 4, C3)

# %% [markdown]
# The ten numbers $z$ become probabilities by *softmax*, $p_j = e^{z_j} / \sum_i e^{z_i}$, and the loss is
# the *cross-entropy*, $-\ln p$ of the right class, averaged over the images. **Guess:** what is it for a
# network that knows nothing yet? That gives ten classes a tenth each: $\ln 10 = 2.303$. Now with Keras'
# usual random weights, is it the same, more, or less?

# %%
guess("loss of the untrained dense network", None)
guess("loss of the same with pixels of 0 to 255", None)
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
rows = []
for name, scale in (("dense", 1), ("LeNet-5", 1), ("dense", 255)):
    for seed in range(5):
        keras.utils.set_random_seed(seed)
        model = keras.models.clone_model(dense) if name == "dense" else lenet5(seed, activation="relu")
        z = model(scale * x[:1000]).numpy()
        second = math.log(10) + z.var(1).mean() / 2
        loss = float(cross_entropy(y[:1000], z))
        rows.append((f"{name}, pixels to {scale}", loss, second, z.var(1).mean()))
columns = ["untrained", "loss", "ln 10 + variance / 2", "variance of z"]
untrained = pd.DataFrame(rows, columns=columns).groupby("untrained", sort=False).mean()
display(untrained.round(3))
compare("loss of the untrained dense network", untrained["loss"].iloc[0])
compare("loss of the same with pixels of 0 to 255", untrained["loss"].iloc[2])

# %% [markdown]
# It is more than $\ln 10$. A random network is not undecided, it is *wrongly decided*: its ten numbers
# differ. Expand the logarithm: if the $z$ of an image have the variance $v$, then $\ln\sum e^z \approx \ln
# 10 + \bar z + v/2$, and the right class has, on average, $\bar z$. The second column is this; it explains
# what is above $\ln 10$ while $v$ is small. For pixels of 0 to 255 it is useless, and the loss enormous.
# **A first loss far from $\ln 10$ says that the inputs or the weights have the wrong size**, before
# anything is trained.
#
# ## 2.3 Back-propagation by hand
#
# Which way should each of 100,000 weights move? The chain rule, from the loss backwards. Softmax and
# cross-entropy together have a simple derivative, what is predicted minus what is true:
#
# $$\mathrm dz = \frac{p - \text{onehot}}{N}, \quad
# \mathrm dw_2 = a^{\mathsf T}\,\mathrm dz, \quad
# \mathrm da = \mathrm dz\, w_2^{\mathsf T}, \quad
# \mathrm ds = \mathrm da \odot [s > 0], \quad
# \mathrm dw_1 = x^{\mathsf T}\,\mathrm ds .$$
#
# ($\mathrm dz$ stands for $\partial L/\partial z$; $s = x w_1 + b_1$; a bias gets the sum over the images of
# $\mathrm dz$ or $\mathrm ds$.) No rule has to be remembered: a
# gradient has the shape of what it belongs to, and mostly there is one product with that shape.


# %%
def loss_and_gradients(weights, x, y):
    """Two layers: x (N, C1), y (N,), weights [(C1, C2), (C2,), (C2, C3), (C3,)] -> loss, gradients alike."""
    (w1, b1, w2, b2), N = weights, len(x)
    s = x @ w1 + b1  # (N, C2)
    a = np.maximum(s, 0)
    z = a @ w2 + b2  # (N, C3)
    z = z - z.max(1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    loss = np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(N), y])
    dz = p.copy()
    dz[np.arange(N), y] -= 1
    dz /= N
    ds = (dz @ w2.T) * (s > 0)  # (N, C2)
    return loss, [x.T @ ds, ds.sum(0), a.T @ dz, dz.sum(0)]


def random_weights(rng, bias=0.0):
    """Random weights of 784, 128 and 10 numbers, whose sums keep the size of their inputs."""
    w1, w2 = rng.standard_normal((784, 128)) * (2 / 784) ** 0.5, rng.standard_normal((128, 10)) * 128**-0.5
    return [w.astype(np.float32) for w in (w1, np.full(128, bias), w2, np.zeros(10))]


# %% [markdown]
# Is it right? Walk a little way $\varepsilon$ along any direction $d$: the loss must change by
# $\varepsilon\,\langle \text{gradient}, d\rangle$. One random direction asks all weights at once. Lecture
# 01 (1.12) explains the error to expect: the curvature gives $\varepsilon^2$, rounding gives
# $10^{-16}/\varepsilon$, or $10^{-7}/\varepsilon$ in float32. **Guess** the exponent: at which
# $\varepsilon$ is the check sharpest in float64? We also hand it a gradient that forgets the cut, $[s>0]$.

# %%
guess("sharpest check: ε = 10 to the power of", None)
rng = np.random.default_rng(3)
weights = [w + 0.01 * rng.standard_normal(w.shape) for w in random_weights(rng)]
d = [rng.standard_normal(w.shape) for w in weights]
d = [v / math.sqrt(sum((u**2).sum() for u in d)) for v in d]
few, labels = pixels[:16].astype(float), y[:16]


def slope(weights, few, d, eps):
    """The loss's slope along d, by a difference."""
    ends = [loss_and_gradients([w + s * eps * v for w, v in zip(weights, d, strict=True)], few, labels)[0]
            for s in (1, -1)]  # fmt: skip
    return (ends[0] - ends[1]) / (2 * eps)


exact = sum((g * v).sum() for g, v in zip(loss_and_gradients(weights, few, labels)[1], d, strict=True))
narrow = [[np.float32(v) for v in part] for part in (weights, [few], d)]
eps = 10.0 ** np.arange(-11, 0)
off = {"float64": [abs(slope(weights, few, d, e) / exact - 1) for e in eps]}
off["float32"] = [abs(slope(narrow[0], narrow[1][0], narrow[2], np.float32(e)) / exact - 1) for e in eps]

# %% tags=["measured"]
a = np.maximum(few @ weights[0] + weights[1], 0)
z = a @ weights[2] + weights[3]
dz = (np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(10)[labels]) / len(few)
uncut = [few.T @ (dz @ weights[2].T), (dz @ weights[2].T).sum(0), a.T @ dz, dz.sum(0)]  # no [s > 0]
wrong = sum((g * v).sum() for g, v in zip(uncut, d, strict=True))
fig, ax = plt.subplots(figsize=(7.2, 3.6))
for name, marker in (("float64", "o"), ("float32", "s")):
    ax.loglog(eps, np.maximum(off[name], 1e-13), marker=marker, label=f"right gradient, {name}")
found = abs(slope(weights, few, d, 1e-5) / wrong - 1)
ax.axhline(found, color=palette[2], ls=":", marker="", label="without the cut")
ax.set(xlabel=r"step $\varepsilon$", ylabel="relative difference", title="A gradient checked by differences")
ax.legend()
plt.show()
sharpest = eps[int(np.argmin(off["float64"]))]
compare("sharpest check: ε = 10 to the power of", math.log10(sharpest))

# %% [markdown]
# *(Figure: relative difference of slope and gradient against the step, both logarithmic. Two valleys: the
# one of float64 is deep, that of float32 shallow and further right, and at short steps float32 is all
# rounding. A dotted line far above both valleys: the gradient that forgets the cut.)*
#
# Where $\varepsilon^2$ and $10^{-16}/\varepsilon$ are equal, $\varepsilon$ is near $10^{-5}$; the valley lies
# further right. A step of length 1 shared out over 100,000 weights changes each of them little: the loss
# hardly bends on the way, and differs so little that rounding weighs more. At the right, both curves jump:
# so long a step carries sums $s$ across zero, where a ReLU has a kink and no derivative. In float64 the
# valley is so deep that a wrong formula stands out; in float32 a gradient that is off by a thousandth would
# hide in it. So check in float64, with steps that cross no kink, and train in float32.
#
# ### What does backward cost?
#
# Each forward product has two backward ones of the same size, one for the weights and one for the input. So
# backward : forward is 2 : 1, as lecture 01 says. **Guess** the ratio for our two layers, and for LeNet-5.
# We count the multiply-adds in the graph that TensorFlow makes for its own gradients.

# %%
guess("backward : forward, two layers", None)
guess("backward : forward, LeNet-5", None)


def executed(graph):
    """The operations on which the graph's outputs depend; others are there, but never executed."""
    found, waiting = {}, [tensor.op for tensor in graph.outputs]
    while waiting:
        op = waiting.pop()
        if op.name not in found:
            found[op.name] = op
            waiting += [tensor.op for tensor in op.inputs]
    return found.values()


# %%
def multiply_adds(model, backward):
    """Of all matrix products and convolutions in TensorFlow's graph, for one image."""

    def run(image, label):
        with tf.GradientTape() as tape:
            loss = cross_entropy(label, model(image))
        return tape.gradient(loss, [v.value for v in model.trainable_variables]) if backward else loss

    one, total = (tf.TensorSpec((1, 28, 28, 1)), tf.TensorSpec((1,), tf.int64)), 0
    for op in executed(tf.function(run, autograph=False).get_concrete_function(*one).graph):
        shapes = [tuple(tensor.shape) for tensor in op.inputs]
        if op.type == "MatMul":
            total += math.prod(op.outputs[0].shape) * shapes[0][0 if op.get_attr("transpose_a") else 1]
        elif op.type == "Conv2D":
            total += math.prod(op.outputs[0].shape) * math.prod(shapes[1][:3])
        elif op.type in ("Conv2DBackpropInput", "Conv2DBackpropFilter"):  # inputs[2]: the output's gradient
            filters = shapes[1] if op.type.endswith("Input") else tuple(op.outputs[0].shape)
            total += math.prod(shapes[2]) * math.prod(filters[:3])
    return total


# %%
counted = {}
for name, model in (("two layers", dense), ("LeNet-5", lenet5(0))):
    forward = multiply_adds(model, backward=False)
    counted[name] = {"forward": forward, "backward": multiply_adds(model, backward=True) - forward}
    counted[name]["ratio"] = counted[name]["backward"] / forward
    compare(f"backward : forward, {name}", counted[name]["ratio"])
display(pd.DataFrame(counted).T.round(2))

# %% [markdown]
# Not two. Nobody asks for the gradient of the *image*: the first layer has one backward product, not two.
# Of our two layers the first makes nearly all the work, so nearly a half of the two-to-one is never done;
# of LeNet-5's five it makes more than a quarter. 2 : 1 is the limit for deep networks.
#
# ## 2.4 SGD is four steps
#
# *Stochastic gradient descent*: **sample** a batch, **forward**, **backward**, **update**
# $w \leftarrow w - \eta\, g$. The whole of training is this loop.


# %%
def sgd(x, y, rate, seed=0, updates=300, bias=0.0):
    """Train the two layers: the weights, and the loss of each update."""
    rng, losses = np.random.default_rng(seed), []
    weights = random_weights(rng, bias)
    for _ in range(updates):
        batch = rng.integers(len(x), size=64)  # sample
        loss, gradients = loss_and_gradients(weights, x[batch], y[batch])  # forward, backward
        weights = [w - rate * g for w, g in zip(weights, gradients, strict=True)]  # update
        losses.append(float(loss))
    return weights, losses


# %% [markdown]
# No formula gives the learning rate: one tries several. Trials know nothing of each other, so each is
# a job: `jobs.map` runs a function once for each item, here on this machine, on a cluster as a Slurm array.
# **Guess** the largest rate that still learns, if a factor of $\sqrt{10}$ lies between two trials.

# %%
guess("largest rate that learns", None)


def trial(rate):
    """A rate's losses with three seeds, the means of the last 50 of 300 updates."""
    x, y = fashion_mnist("train", 5000)
    with np.errstate(all="ignore"):  # some diverge
        return [float(np.mean(sgd(x.reshape(5000, 784), y, rate, seed)[1][-50:])) for seed in range(3)]


RATES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
sweep = jobs.map(trial, RATES, name="02-rates", backend="local", time="00:10:00", max_parallel=2)
ends = np.array(sweep.results(progress=False), float)  # (rates, seeds)

# %% tags=["measured"]
fig, ax = plt.subplots(figsize=(7.2, 3.6))
ax.axhline(math.log(10), color="0.4", lw=1, ls=":", marker="")
ax.text(0.0011, math.log(10) + 0.1, "ln 10: guessing", fontsize=9)
ax.plot(RATES, np.median(ends, 1), marker="", color=palette[0])
ax.plot(RATES, ends, "o", ms=4, ls="", color=palette[0])
learns = np.isfinite(ends).all(1) & (ends < math.log(10)).all(1)
largest = max(rate for rate, good in zip(RATES, learns, strict=True) if good)
ax.axvspan(largest * 10**0.25, 20, color=palette[1], alpha=0.15)
ax.text(largest * 2.2, 0.3, "not all seeds learn", fontsize=9)
ax.set(xscale="log", ylim=(0, 3), xlim=(0.0008, 20), xlabel=r"learning rate $\eta$")
ax.set(ylabel="loss, last 50 of 300 updates", title="Nine jobs: loss against rate, three seeds")
plt.show()
best = RATES[int(np.nanargmin(np.median(ends, 1)))]
compare("largest rate that learns", largest)
for rate, good in zip(RATES, np.isfinite(ends) & (ends < math.log(10)), strict=True):
    if rate >= best:
        print(f"rate {rate:g}: {good.sum()} of 3 seeds learn{', the lowest loss' if rate == best else ''}")

# %% [markdown]
# *(Figure: the loss after 300 updates against the rate, logarithmic. Too small a rate learns too little in
# 300 updates; the curve falls to a broad valley, rises steeply, and in a shaded region, where not all
# seeds learn, it is at guessing or above.)*
#
# To the left the loss rises slowly: too little way was made. To the right it breaks: the step is longer
# than the valley is wide, and the seeds part before none of them learns. There rounding decides: the same
# seeds all learned at a rate of 1 on one processor, and not on another. The best rate lies within a factor
# of ten of the edge. A rate a little too small costs time, one a little too large the training.
#
# **Momentum** gives the weights a velocity, $v \leftarrow m v - \eta g$, $w \leftarrow w + v$. A gradient
# that stays the same is added up to $1 + m + m^2 + \ldots = 1/(1-m)$ times. So the prediction: with $m =
# 0.9$ and $\eta$ a network learns as without momentum and $10\,\eta$. Keras measures it.


# %% tags=["measured"]
def history(rate, momentum, seed):
    """Loss of four epochs of 5,000 images: 50 updates each."""
    keras.utils.set_random_seed(seed)
    model = keras.models.clone_model(dense)
    model.compile(keras.optimizers.SGD(rate, momentum), cross_entropy)
    return model.fit(x[:5000], y[:5000], batch_size=100, epochs=4, verbose=0).history["loss"]


settings = {"η = 0.01": (0.01, 0.0), "η = 0.01, m = 0.9": (0.01, 0.9), "η = 0.1": (0.1, 0.0)}
losses = {name: [history(*how, seed) for seed in range(3)] for name, how in settings.items()}
display(pd.DataFrame({name: np.mean(runs, 0) for name, runs in losses.items()}, index=range(1, 5)).round(3))
gap = np.array(losses["η = 0.01, m = 0.9"]) - np.array(losses["η = 0.1"])
print("momentum minus tenfold rate, by epoch; a row for each seed:", gap.round(3), sep="\n")

# %% [markdown]
# The prediction is nearly right: a slow start, as the velocity must grow first, and then much the same. The
# small difference that remains, the formula does not explain.
#
# ### Four ways to fail
#
# Training rarely stops with an error. It leaves a curve. We break the same program in four ways: biases of
# $-10$, so that all ReLUs are *dead* (below zero for every image, where neither value nor gradient passes); a
# rate of 10; pixels of 0 to 255; labels shuffled against the images. **Guess** how many of the four have a
# first loss that is far, by half or more, from that of a healthy training.

# %%
guess("failures that the first loss gives away", None)
train_x, train_y = pixels[:5000], y[:5000]
mixed = np.random.default_rng(1).permutation(train_y)
FAILURES = {
    "healthy": {},
    "dead ReLUs": {"bias": -10.0},
    "rate too large": {"rate": 10.0},
    "pixels 0 to 255": {"x": 255 * train_x},
    "labels shuffled": {"y": mixed},
}
curves, rows = {}, {}
for name, change in FAILURES.items():
    with np.errstate(all="ignore"):
        runs = [sgd(**{"x": train_x, "y": train_y, "rate": 0.1} | change, seed=seed) for seed in range(3)]
        (w1, b1, w2, b2), _ = runs[0]
        s = (255 if "255" in name else 1) * pixels_test @ w1 + b1
        wrong = error(np.maximum(s, 0) @ w2 + b2, y_test)
    curves[name] = np.array([losses for _, losses in runs])  # (seeds, updates)
    rows[name] = {
        "first loss": curves[name][:, 0].mean(),
        "last 50": curves[name][:, -50:].mean(),
        "dead neurons, %": 100 * np.mean(~(s > 0).any(0)),
        "test error, %": wrong,
    }

# %% tags=["measured"]
fig, axes = plt.subplots(1, 4, figsize=(10.6, 3))
for ax, name in zip(axes, list(FAILURES)[1:], strict=True):
    ax.plot(curves["healthy"].mean(0), color="0.6", lw=1, marker="", ls="-")
    for losses in curves[name]:
        ax.plot(losses, color=palette[1], lw=1, marker="", ls="-")
    ax.axhline(math.log(10), color="k", lw=0.8, ls=":", marker="")
    ax.set(xlabel="update", title=name)
    if curves[name].max() < 4:
        ax.set(ylim=(2.1, 2.6))  # close to ln 10: drawn large
    else:
        ax.set(yscale="log", ylim=(0.3, 2 * np.nanmax(curves[name])))
axes[0].set_ylabel("loss")
plt.show()
display(pd.DataFrame(rows).T.round(2))
usual = rows["healthy"]["first loss"]
told = [name for name in list(FAILURES)[1:] if abs(rows[name]["first loss"] / usual - 1) > 0.5]
compare("failures that the first loss gives away", len(told))

# %% [markdown]
# *(Figure: four panels, loss against update, a healthy training in grey in each, $\ln 10$ dotted. The two in
# the middle have a logarithmic axis of many powers of ten, the outer two show 2.1 to 2.6 only. Dead ReLUs:
# begins at exactly $\ln 10$ and hardly leaves it. Rate too large: begins as the healthy one, peaks far
# above, then scatters a little above $\ln 10$. Pixels of 0 to 255: begins at hundreds, peaks many powers of
# ten above, and lies flat but for a few spikes. Labels shuffled: begins as the healthy one, stays near $\ln
# 10$, noisy, and falls a little.)*
#
# All four end near $\ln 10$, where nothing is known. In three nearly all neurons are dead (the table has
# their share, of the first seed on the test images) and pass no gradient: born dead, or killed by a step
# that made the weights so negative that the sums, over pixels that are never negative, lie far below zero.
# The *beginning* tells more: exactly $\ln 10$ and flat, which by 2.2 takes $z$ without variance; a normal
# first loss and then a peak, which says rate; an enormous first loss, which says scale, and that the rate
# which suited small pixels is far too large for them. The fourth has no dead neuron and nothing to learn but
# the images by heart, which takes longer: no number of this training shows it, one image beside its label
# does. So keep the curve from its first update on, and count the neurons that never fire.
#
# ## 2.5 Data size decides
#
# Now the question of the lecture. Four classifiers get the same images: HOG with a linear classifier; an
# *MLP* (two layers, as ours) with as many parameters as LeNet-5; *LeNet-5*, two convolutions with pooling
# and three fully connected layers, here with ReLU; and LeNet-5 with *augmentation*. All are trained by SGD
# with momentum, in batches of 32, all with the same number of updates at a size. (An *epoch*, in the table,
# is as many as show each image once.) Each has five seeds, and each seed draws its own images. The rates
# were chosen by single trials on training images. The script is `runs/02_data_size.py`, its runs are
# recorded.
#
# **Guess:** from how many images on does LeNet-5 err less than HOG?

# %%
guess("LeNet-5 beats HOG from", None, " images")
record = json.loads(pathlib.Path("runs/02_data_size.json").read_text())
runs = pd.DataFrame([{"images": job["images"], **row} for job in record["jobs"] for row in job["rows"]])
T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # Student's t, 97.5%, by the number of seeds


def interval(values):
    """Half of the 95% interval of a mean."""
    values = np.asarray(values, float)
    return T[len(values)] * values.std(ddof=1) / math.sqrt(len(values))


errors = runs.groupby(["images", "classifier"])["error"].agg(["mean", interval]).unstack()
names = ["HOG", "MLP", "LeNet-5", "augmented"]
table = errors["mean"][names]
table.insert(0, "updates", {job["images"]: job["updates"] for job in record["jobs"]})
table.insert(1, "epochs", record["batch"] * table["updates"] / table.index)
display(table.round(1))

# %%
fig, ax = plt.subplots(figsize=(7.2, 4.2))
for i, name in enumerate(names):
    mean, half = errors["mean"][name], errors["interval"][name]
    ax.plot(mean.index, mean, color=palette[i], label=name)
    ax.fill_between(mean.index, mean - half, mean + half, color=palette[i], alpha=0.2, lw=0)
ax.set(xscale="log", yscale="log", xlabel="training images", ylabel="test error / %")
ax.set_yticks([8, 10, 15, 20, 30, 40], ["8", "10", "15", "20", "30", "40"])
ax.minorticks_off()
ax.set_title("Four classifiers, five seeds, 95% intervals")
ax.legend()
plt.show()

# %% [markdown]
# *(Figure: test error against the number of images, both logarithmic, one line with a band for each
# classifier. All fall. HOG lies lowest up to 10,000 images and flattens; LeNet-5 begins highest, falls
# fastest, crosses the MLP before 10,000 and HOG before 60,000. LeNet-5 with augmentation falls beside it, and
# from 1,000 images on lies above it.)*
#
# The bands hold for one mean. For a comparison take differences within a seed, which has the same images in
# both: what a lucky draw of images does, it does to both.

# %%
paired = runs.pivot(index=["images", "seed"], columns="classifier", values="error")
pairs = {
    "MLP − HOG": paired["MLP"] - paired["HOG"],
    "LeNet-5 − HOG": paired["LeNet-5"] - paired["HOG"],
    "LeNet-5 − MLP": paired["LeNet-5"] - paired["MLP"],
    "augmented − LeNet-5": paired["augmented"] - paired["LeNet-5"],
    "augmented − HOG": paired["augmented"] - paired["HOG"],
}
difference = {name: d.groupby("images").agg(["mean", interval]) for name, d in pairs.items()}
words = {
    name: d.apply(lambda row: f"{row['mean']:+.1f} ± {row['interval']:.1f}", axis=1)
    for name, d in difference.items()
}
display(pd.DataFrame(words))
gap = pairs["LeNet-5 − HOG"].unstack()  # (sizes, seeds)
change = gap.iloc[-1] - gap.iloc[0]
print(f"LeNet-5 − HOG, change from {gap.index[0]} to {gap.index[-1]:,} images: ", end="")
print(f"{change.mean():+.1f} ± {interval(change):.1f}")
print("training loss at the end, mean of five seeds:")
display(runs.pivot_table(index="images", columns="classifier", values="loss")[names].round(3))
better = difference["LeNet-5 − HOG"]
below = better.index[better["mean"] + better["interval"] < 0]
compare("LeNet-5 beats HOG from", below[0] if len(below) else math.inf)

# %% [markdown]
# **With few images the engineer wins.** Already with a hundred, HOG errs less than each network, by more
# than the interval of the difference. The features carry knowledge that no image has to pay for: edges
# matter, their exact place hardly. Structure alone does not help: with a hundred images LeNet-5 errs more
# than the plain MLP with as many parameters.
#
# **With many it loses.** LeNet-5's distance to HOG shrinks at every step, as a ratio of the errors, too; with
# 60,000 images it has changed its sign, in every seed. So the slide's claim [1] holds here at both ends, and
# the change lies between 10,000 and 60,000 images. The MLP has as many parameters and no structure, and
# stays behind: what pays is structure *and* images.
#
# What did the last step buy? Not images alone. From 10,000 to 60,000 every image is still seen six times,
# so that there are six times as many updates. That is how data are used in practice, and all four classifiers
# had the same. But the training losses warn: a hundred images LeNet-5 has learned by heart, and what it
# lacks is images. From a thousand on it is not finished, and lacks *updates* as well. Fewer images, shown as
# often as the 60,000 are, may bring it further than the curve says; exercise 5 asks.
#
# **Augmentation does not pay here**, against what is usual: with few images its interval holds zero,
# from 1,000 on it is worse than none. Its training loss is the highest of all, as more images to learn need
# more updates. What it is worth to a network that is trained to the end, this experiment cannot say.
#
# ### Augmentation, counted
#
# A shifted shirt is a shirt. Augmentation tells this to a network by showing it each image at another place,
# here 5×5 shifts, mirrored or not. For photographs a slide [1], after Wu et al. [4], counts crops: a square
# of 224 pixels in one of 512 can lie at 82,944 places. **Guess** how many there are.

# %%
guess("places of a crop of 224 in 512", None)
experiment = runpy.run_path("runs/02_data_size.py")
one = np.repeat(x[:1], 2000, axis=0)
seen = {image.tobytes() for image in experiment["augment"](one, np.random.default_rng(0))}
places = (512 - 224 + 1) ** 2
compare("places of a crop of 224 in 512", places)
print(f"82,944 = {math.isqrt(82_944)}²; from 0 to 512 - 224 there are {512 - 224 + 1} in each direction")
print(f"our augmentation makes {len(seen)} images of the first one; 5 · 5 · 2 = {5 * 5 * 2}")
assert np.allclose(experiment["hog"](x[:100]), features[:100], atol=1e-5)  # the runs have the HOG of 2.1

# %% [markdown]
# The slide forgot one end. More important: neighbouring crops are nearly the same image. Fifty copies are
# no fifty new shirts.
#
# ## 2.6 What the network has found
#
# LeNet-5's first layer has six filters of 5×5 pixels. Nobody told them about Sobel. **Guess:** Sobel's two
# filters span a plane in the 25 numbers of a filter. How much of a filter's length² lies in it, on average,
# after training? (A random filter: 2 of 25 dimensions, 8%.)

# %%
guess("of the filters in Sobel's plane", None, "%")
smooth = np.array([1, 4, 6, 4, 1])  # Sobel's filter for 5 x 5 pixels
slope5 = np.array([-1, -2, 0, 2, 1])
sobel = np.stack([np.outer(smooth, slope5), np.outer(slope5, smooth)], -1).reshape(25, 2)
sobel = sobel / np.linalg.norm(sobel, axis=0)
filters = {"untrained": lenet5(0).layers[1].get_weights()[0][..., 0, :]}
filters |= {f"{job['images']:,} images": np.array(job["filters"]) for job in record["jobs"]}


def share(f):
    """Percent of each filter's length² in the plane of Sobel's two: f (5, 5, K) -> (K,)"""
    f = f.reshape(25, -1)
    return 100 * ((sobel.T @ f) ** 2).sum(0) / (f**2).sum(0)


shares = pd.DataFrame({name: np.sort(share(f))[::-1] for name, f in filters.items()}).T
shares["mean"] = shares.mean(axis=1)
display(shares.round(0))
compare("of the filters in Sobel's plane", shares["mean"].iloc[-1])

# %%
noise = np.random.default_rng(0).standard_normal((6, 6, 60_000))
smooth_noise = noise[1:, 1:] + noise[1:, :-1] + noise[:-1, 1:] + noise[:-1, :-1]  # each with three neighbours
for name, f in {"random": noise[1:, 1:], "random but smooth": smooth_noise}.items():
    means = share(f).reshape(-1, 6).mean(1)
    print(f"six {name} filters: {means.mean():.0f}% on average, 95% below {np.quantile(means, 0.95):.0f}%")

# %%
last = list(filters)[-1]
pictures = {"engineer": sobel.reshape(5, 5, 2), "untrained": filters["untrained"], last: filters[last]}
fig, axes = plt.subplots(4, 6, figsize=(8, 5.4))
for row, (name, f) in zip(axes, pictures.items(), strict=False):
    for i, ax in enumerate(row):
        if i < f.shape[-1]:
            top = np.abs(f[..., i]).max()
            ax.imshow(f[..., i], cmap="RdBu", vmin=-top, vmax=top)
        ax.axis("off")
    row[0].text(-0.6, 2, name, rotation=90, va="center", ha="right", fontsize=9)
answers = tf.nn.conv2d(x[:1], filters[last][:, :, None].astype(np.float32), 1, "SAME").numpy()
for i, ax in enumerate(axes[3]):
    top = np.abs(answers[..., i]).max()
    ax.imshow(answers[0, ..., i], cmap="RdBu", vmin=-top, vmax=top)
    ax.axis("off")
axes[3, 0].text(-3, 14, "answers", rotation=90, va="center", ha="right", fontsize=9)
plt.show()

# %% [markdown]
# *(Figure: rows of filters in red and blue. Sobel's two, for 5×5 pixels, are smooth ramps. The six
# untrained ones are noise. The six trained ones still look noisy; some are ramps or have one sign. Last
# row, their answers to an ankle boot, blue positive and red negative: some mark its edges, others its whole
# surface.)*
#
# The mean share lies above what noise has, but within what *smooth* noise has. So it does not say that the
# filters have become edge detectors: they may only have become smooth, as pictures are. Look at the six: a
# few resemble edges. Some answer to a whole surface (where the answer with its bias is negative, the ReLU
# cuts it off, and what passes is the background): the *brightness* of a shirt is information that the
# engineer threw away. And much of each filter is still the noise of its start, as is visible when you
# compare the rows: training moves weights only as far as the loss needs. Six filters of one seed a size
# carry no more than this.
#
# ## What was learned
#
# 1. The classical pipeline is edges, histograms and planes. The same linear classifier errs far less on
#    features than on pixels; more than half of that gain many random numbers bring, too.
# 2. A layer is a matrix product. An untrained network's loss is $\ln 10$ and half the variance of its
#    outputs more, as long as that is small.
# 3. Back-propagation is two products for each one of forward, but for the first layer one. It is checked in
#    float64 along a random direction, with steps too short to cross a kink.
# 4. SGD samples, goes forward, backward, and updates. Its best rate lies close to the edge of divergence.
#    Failed trainings end alike; they begin differently.
# 5. With few images hand-made features win: that is when a network does *not* find better ones. A network of
#    the right structure gains more from each further image, and with 60,000 images and six times the updates
#    it has overtaken them; one without that structure has not.
# 6. Some of its first filters resemble edges, others answer to what the engineer threw away. Six filters show
#    no more.
#
# **Open questions.** (a) HOG is a convolution, a pooling and a normalisation. Which of its parts could SGD
# improve, and with which start? (b) A test set of 10,000 images was used for every number of 2.5. What
# would be wrong with choosing the learning rates by it? (c) *Hardware.* Backward needs $x$, $s$ and $a$ of
# all layers again. Who keeps them, and what does a device do whose memory is too small?
#
# **Your turn.** Assignment 02 builds three layers, one of them a convolution, trains them, and asks for a
# gradient checker that catches wrong gradients. Next: **03, from LeNet to ResNet**, asks which layers.

# %% [markdown]
# ## Further
#
# ### Exercises
#
# 1. Give `hog` cells of 2 or 7 pixels. Which is better on 1,000 images, which on 10,000?
# 2. Let the first weights of `random_weights` be ten times as large. Predict the first loss by the formula
#    of 2.2, and say why it fails.
# 3. `sgd` with `bias=-1` and `-2`: how many neurons die, and do any come back?
# 4. Add to `runs/02_data_size.py` an augmentation that turns by a quarter. Predict its error first.
# 5. Give 1,000 images the 12,000 updates of the 60,000. Does LeNet-5 pass HOG then? Which would you bet on?
#
# ### Sources
#
# 1. H. Sato: *A study of parallel computation for deep learning on TSUBAME*, slides, 2017.
# 2. N. Dalal, B. Triggs: *Histograms of oriented gradients for human detection*, CVPR 2005.
# 3. V. Codreanu: *Introduction to high-performance machine learning*, slides, SURFsara and PRACE.
# 4. R. Wu et al.: *Deep Image: scaling up image recognition*, arXiv 1501.02876.
