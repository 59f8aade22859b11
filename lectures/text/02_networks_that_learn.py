# %% [markdown]
# # 2 · Networks that learn
#
# **For decades, engineers designed the features by which programs recognise images. A network finds its
# own features in minutes. Which are better, and does that depend on the number of images?**
#
# LeNet-5 learned its features from images in 1998, and read bank cheques. Yet most recognisers kept two
# separate parts: *features*, numbers that people had designed to describe edges, and a simple classifier. In
# 2012 AlexNet (lecture 03) won ILSVRC, a contest with a million images, with learned features. A slide of
# Sato (2017) says that with the 1,000K images of ILSVRC "CNN wins", and with the 10K of PASCAL "non-CNN
# wins". So is it the network, or the number of images? We build both recognisers, and train them on more and
# more images. You will
#
# 1. build the **classical pipeline**, and find out how much of it needs an engineer;
# 2. write layers as matrix products, and predict the loss of an untrained network;
# 3. derive **back-propagation**, and check a gradient numerically;
# 4. train with **SGD**, choose a learning rate, and recognise **four failures** by their curves;
# 5. **measure** how many images learned features need to be better than designed ones.
#
# Notation: $N$ images; $C_1$, $C_2$, $C_3$ inputs, hidden neurons and outputs of a network of two
# layers; $\eta$ the learning rate. Terms are listed at the end.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=1, seed=2)

# %%
import json
import math
import os
import pathlib

os.environ["CLUSTER_RUNS"] = os.environ.get("CLUSTER_RUNS", "../runs")  # jobs, here

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
# ## 2.1 Features by an engineer
#
# Fashion-MNIST has images of ten kinds of clothing. The first step is from lecture 01: Sobel's two filters
# give a vector at each pixel, which points across the edge. Its length is the strength of the edge, its
# angle the direction.

# %%
x, y = fashion_mnist("train", 10_000)
x_test, y_test = fashion_mnist("test", 5_000)


def edges(x):
    """Strength and angle (0 to π) of the edge at each pixel: 2 × (N, 28, 28)."""
    image = np.pad(x[..., 0], ((0, 0), (1, 1), (1, 1)), mode="edge")
    across = image[:, :, 2:] - image[:, :, :-2]
    down = image[:, 2:] - image[:, :-2]
    right = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]
    below = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    return np.hypot(right, below), np.arctan2(below, right) % np.pi


length, angle = edges(x)
print(f"images {x.shape}, strength and angle {length.shape}")

# %% [markdown]
# If a shirt moves by a pixel, its pixels change, but it still has nearly the same edges *nearby*. So each
# cell of 4×4 pixels only adds up the strength of its edges in each of nine directions. An edge between two
# directions is divided between them. Finally, each block of 2×2 cells is scaled to length 1, so that faint
# and strong edges become comparable. These are *histograms of oriented gradients*, **HOG** (Dalal and Triggs
# 2005).


# %%
def hog(x, cell=4, bins=9):
    """Histograms of oriented gradients: x (N, 28, 28, 1) -> (N, 1296)."""
    length, angle = edges(x)
    position, cells, histograms = angle * (bins / np.pi), 28 // cell, []
    for b in range(bins):
        distance = np.abs((position - b + bins / 2) % bins - bins / 2)  # on a circle
        share = length * np.maximum(0, 1 - distance)
        share = share.reshape(-1, cells, cell, cells, cell)
        histograms.append(share.sum((2, 4)))  # (N, 7, 7)
    h = np.stack(histograms, -1)
    corners = h[:, :-1, :-1], h[:, :-1, 1:], h[:, 1:, :-1], h[:, 1:, 1:]
    blocks = np.concatenate(corners, -1)
    blocks /= np.sqrt((blocks**2).sum(-1, keepdims=True) + 0.01)  # (N, 6, 6, 36)
    return blocks.reshape(len(x), -1).astype(np.float32)


features, features_test = hog(x), hog(x_test)
print(f"{x[0].size} pixels -> {features.shape[1]} features")

# %%
fig, axes = plt.subplots(3, 4, figsize=(7.6, 5.8))
for row, i in zip(axes, [0, 1, 3], strict=True):
    row[0].imshow(x[i, ..., 0], cmap="gray_r")
    row[1].imshow(length[i], cmap="gray_r")
    strong = np.ma.masked_where(length[i] < 0.4, 180 / np.pi * angle[i])
    colours = row[2].imshow(strong, cmap="twilight", vmin=0, vmax=180)
    blocks = features[i].reshape(6, 6, 4, 9)[:, :, 0]  # the first cell of each block
    for b in range(9):
        down, right = np.mgrid[0:6, 0:6].reshape(2, 36)
        along = b * np.pi / 9 + np.pi / 2  # an edge runs across its gradient
        dx, dy = (0.9 * blocks[..., b].ravel() * f(along) for f in (np.cos, np.sin))
        row[3].plot([right - dx, right + dx], [down - dy, down + dy], "k-", marker="")
    row[3].set(xlim=(-0.7, 5.7), ylim=(5.7, -0.7), aspect="equal")
    row[0].set_ylabel(CLASSES[y[i]])
for ax, title in zip(axes[0], ["image", "strength", "angle", "HOG"], strict=True):
    ax.set_title(title)
plt.setp(axes, xticks=[], yticks=[])
fig.colorbar(colours, ax=axes, label="angle / °", shrink=0.6, ticks=[0, 90, 180])
plt.show()

# %% [markdown]
# *(Figure: an ankle boot, a T-shirt and a dress, each as an image, as the strength of its edges in grey, as
# their angle in colour, and as 6×6 cells with strokes along the edges, longer where there is more edge.)*
#
# The classifier computes ten scores $f \cdot W$, one per class, and chooses the class with the largest.
# Its weights $W$ are fitted by least squares to the score 1 for the right class and 0 for the others, with
# a small penalty on their size (*ridge regression*): one system of linear equations, without any
# randomness. **Guess** its test error with the pixels themselves, and with HOG.

# %%
guess("error with pixels", unit="%")
guess("error with HOG", unit="%")


def least_squares(f, y, penalty=10.0):
    """W (D + 1, 10) with the least |f W - onehot|² + penalty |W|²; f (N, D)."""
    f = np.c_[f, np.ones(len(f), f.dtype)]
    onehot = np.eye(10, dtype=f.dtype)[y]
    return np.linalg.solve(f.T @ f + penalty * np.eye(f.shape[1]), f.T @ onehot)


def error(scores, y):
    """Percentage of the rows whose largest score is not that of the label."""
    return float(100 * np.mean(scores.argmax(1) != y))


def linear_error(f, f_test):
    """Test error of the least-squares classifier with these features."""
    W = least_squares(f, y)
    return error(f_test @ W[:-1] + W[-1], y_test)


pixels, pixels_test = x.reshape(len(x), -1), x_test.reshape(len(x_test), -1)
linear = {"pixels": linear_error(pixels, pixels_test)}
linear["HOG"] = linear_error(features, features_test)
for name in ("pixels", "HOG"):
    compare(f"error with {name}", linear[name])

# %% [markdown]
# Does the engineer's knowledge make the difference? HOG also has more numbers than an image has pixels, and
# they are not linear in the pixels. As a **control** we take features without any knowledge: random sums of
# the pixels, with negative values set to zero. **Guess** the error with 4,000 of them.

# %%
guess("error with 4,000 random sums", unit="%")
rng = np.random.default_rng(2)
R = rng.standard_normal((784, 4000)).astype(np.float32) / 28
sums, sums_test = np.maximum(pixels @ R, 0), np.maximum(pixels_test @ R, 0)
counts = [150, 400, 1296, 4000]
random = [linear_error(sums[:, :n], sums_test[:, :n]) for n in counts]
compare("error with 4,000 random sums", random[-1])

# %%
fig, ax = plt.subplots(figsize=(6.8, 3.8))
half = [1.96 * math.sqrt(e * (100 - e) / len(y_test)) for e in random]
ax.errorbar(counts, random, half, marker="o", ls="-", label="random sums", capsize=3)
for name, n, marker in (("pixels", 784, "s"), ("HOG", 1296, "D")):
    half = 1.96 * math.sqrt(linear[name] * (100 - linear[name]) / len(y_test))
    ax.errorbar(n, linear[name], half, marker=marker, ls="", label=name, capsize=3)
ax.set(xscale="log", xlabel="number of features", ylabel="test error / %")
ax.set_xticks(counts, [f"{n:,}" for n in counts])
ax.minorticks_off()
ax.set_title("The same classifier, 10,000 images, 95% intervals")
ax.legend()
plt.show()
without = (linear["pixels"] - random[-1]) / (linear["pixels"] - linear["HOG"])
print(f"4,000 random sums bring {without:.0%} of HOG's gain over pixels")
claim("more than three quarters of HOG's gain needs no engineer", without > 0.75)
claim("the error falls with their number", random == sorted(random, reverse=True))
claim("with as many numbers, HOG is better", random[2] - linear["HOG"] > 1.5)  # 95%

# %% [markdown]
# *(Figure: test error over the number of features, logarithmic, with intervals. The random sums start above
# the pixels and fall to slightly above HOG.)*
#
# More than three quarters of HOG's gain needs no engineer, only many numbers that are not linear in the
# pixels; the error falls with their number. Such random sums are what the next section calls an untrained
# hidden layer. The engineer's knowledge saves features: with as many numbers, HOG is better.
#
# ## 2.2 A layer is a matrix product
#
# A *neuron* multiplies its inputs by weights, adds them up with a bias, and sets negative results to zero:
# $a = \max(0, x \cdot w + b)$, a *rectified linear unit* (**ReLU**). The weights of $C_2$ neurons with the
# same inputs are the columns of a matrix, and $N$ images are the rows of another. So two *dense* layers are
#
# $$a_{[N \times C_2]} = \max(0,\; x_{[N \times C_1]}\, w_{1\,[C_1 \times C_2]} + b_1), \qquad
# z_{[N \times C_3]} = a\, w_{2\,[C_2 \times C_3]} + b_2 .$$
#
# Without the ReLU, two layers would be one: $x w_1 w_2$ is linear again.
#
# ![The network of two layers as a graph. Boxes from left to right: images x, sums s = x w1 + b1, ReLU
# a = max(0, s), outputs z = a w2 + b2, and the loss L with the labels y. Solid arrows to the right are the
# forward pass. Dashed arrows to the left are the backward pass with dz, da and ds; two of them lead down
# to the gradients of w2 and w1.](figures/02_network.svg)
#
# A *convolution* has weights $w_1$ of $[C_2 \times C_1 \times k \times k]$ and its output is again an
# image; *pooling* halves $H$ and $W$ by taking the largest (or mean) value of each 2×2 window, so that a
# shift by a pixel changes less. A classifier behind it sees $C_2 \cdot H/2 \cdot W/2$ numbers, hence the
# $w_2$ of $[C_2 H W / 4 \times C_3]$ on Codreanu's slide (2018). Does Keras use these shapes, too?

# %%
H, W, C1, C2, C3, k = 28, 28, 1, 8, 10, 3
two_layers = [layers.Flatten(), layers.Dense(128, "relu"), layers.Dense(C3)]
dense = keras.Sequential([keras.Input((H, W, C1)), *two_layers], name="dense")
small_cnn = keras.Sequential([keras.Input((H, W, C1))], name="convolution")
small_cnn.add(layers.Conv2D(C2, k, padding="same", activation="relu"))
for layer in (layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(C3)):
    small_cnn.add(layer)
for model in (dense, small_cnn):
    print(f"{model.name}: {model.count_params():,} parameters")
    for layer in model.layers:
        weights = f"weights {layer.kernel.shape}" if layer.weights else ""
        print(f"  {layer.name.split('_')[0]:9} -> {layer.output.shape!s:20} {weights}")
claim("The sizes agree", small_cnn.layers[-1].kernel.shape == (C2 * H * W // 4, C3))

# %% [markdown]
# The sizes agree, but Keras stores filters as $k \times k \times C_1 \times C_2$.
#
# *Softmax* turns the ten outputs $z$ into probabilities, $p_j = e^{z_j} / \sum_i e^{z_i}$. The loss is the
# *cross-entropy*, $-\ln p$ of the right class, averaged over the images. A network that gives each class
# the probability 1/10 has the loss $\ln 10 = 2.303$.
#
# Before training, the weights are drawn at random (*initialisation*), with a variance that falls with the
# number $C$ of inputs, so that sums over many inputs do not become larger than sums over few: $2/C$ for
# ReLU (He et al. 2015), or two divided by the sum of inputs and outputs, as Keras does (Glorot and Bengio
# 2010). **Guess** the loss of an untrained network in Keras, and with pixels of 0 to 255 instead of 0 to 1.

# %%
guess("loss of the untrained dense network")
guess("the same with pixels of 0 to 255")
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
rows = []
for name, scale in (("dense", 1), ("LeNet-5", 1), ("dense", 255)):
    for seed in range(5):
        keras.utils.set_random_seed(seed)
        clone = keras.models.clone_model
        model = clone(dense) if name == "dense" else lenet5(seed, activation="relu")
        z = model(scale * x[:1000]).numpy()
        v, loss = z.var(1).mean(), float(cross_entropy(y[:1000], z))
        rows.append((f"{name}, pixels to {scale}", loss, math.log(10) + v / 2, v))
columns = ["untrained", "loss", "ln 10 + variance / 2", "variance of z"]
untrained = pd.DataFrame(rows, columns=columns).groupby("untrained", sort=False).mean()
display(untrained.round(3))
loss, predicted = untrained["loss"], untrained["ln 10 + variance / 2"]
compare("loss of the untrained dense network", loss.iloc[0])
compare("the same with pixels of 0 to 255", loss.iloc[2])

# %%
claim("A random network starts with a higher loss", (loss > math.log(10)).all())
explained = (predicted.iloc[0] - math.log(10)) / (loss.iloc[0] - math.log(10))
claim("explains most of the dense network's excess", 0.8 < explained < 1.2)
claim("useless for pixels of 0 to 255", predicted.iloc[2] > 10 * loss.iloc[2])

# %% [markdown]
# A random network starts with a higher loss, because its ten outputs differ: it prefers some class,
# usually a wrong one. If the outputs of an image have the variance $v$, then $\ln\sum e^z \approx \ln 10 +
# \bar z + v/2$, and the right class has $\bar z$ on average. This estimate, the second column, explains
# most of the dense network's excess; it is useless for pixels of 0 to 255, where $v$ is not small. **A
# first loss far from $\ln 10$ usually means that inputs or weights have the wrong size**, before anything
# is trained.
#
# ## 2.3 Back-propagation
#
# In which direction should each of 100,000 weights move? The chain rule answers this, from the loss
# backwards (the lower arrows of the figure). Softmax and cross-entropy together have a simple derivative,
# the predicted minus the true probabilities:
#
# $$\mathrm dz = \frac{p - \text{onehot}}{N}, \quad
# \mathrm dw_2 = a^{\mathsf T}\,\mathrm dz, \quad
# \mathrm da = \mathrm dz\, w_2^{\mathsf T}, \quad
# \mathrm ds = \mathrm da \odot [s > 0], \quad
# \mathrm dw_1 = x^{\mathsf T}\,\mathrm ds .$$
#
# Here $\mathrm dz$ stands for $\partial L/\partial z$, $s = x w_1 + b_1$; a row of onehot is 1 for the
# right class and 0 otherwise; $\odot$ multiplies elementwise; $[s > 0]$ is 1 or 0. The gradient of a bias
# is the sum of $\mathrm dz$ or $\mathrm ds$ over the images. To remember it: a gradient has its variable's
# shape, and usually only one product has that shape.


# %%
def loss_and_gradients(weights, x, y):
    """Two layers, x (N, C1), y (N,): the loss and the gradients of the four weights."""
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
    """Random weights for 784, 128 and 10 numbers, with variances 2/784 and 1/128."""
    w1 = rng.standard_normal((784, 128)) * (2 / 784) ** 0.5
    w2 = rng.standard_normal((128, 10)) * 128**-0.5
    return [w.astype(np.float32) for w in (w1, np.full(128, bias), w2, np.zeros(10))]


# %% [markdown]
# Is this gradient right? A step of length $\varepsilon$ in a direction $d$ must change the loss by
# $\varepsilon\, \langle \text{gradient}, d\rangle$, and a random direction tests all weights at once. Lecture
# 01 (1.12) explains which errors to expect of the difference $(L(\varepsilon) -
# L(-\varepsilon))/2\varepsilon$: the curvature cancels, the third derivative leaves $\varepsilon^2 L'''/6$,
# and rounding leaves $10^{-16}/\varepsilon$ in float64, $10^{-7}/\varepsilon$ in float32. **Guess** the best
# $\varepsilon$ in float64. We also check a wrong gradient, without the factor $[s>0]$.

# %%
guess("best step in float64: ε = 10 to the power of")
rng = np.random.default_rng(3)
weights = [w + 0.01 * rng.standard_normal(w.shape) for w in random_weights(rng)]
d = [rng.standard_normal(w.shape) for w in weights]
d = [v / math.sqrt(sum((u**2).sum() for u in d)) for v in d]
few, labels = pixels[:16].astype(float), y[:16]


def slope(eps, dtype=np.float64):
    """Slope of the loss along d, from a difference, with all numbers of a dtype."""
    w, u, images = ([v.astype(dtype) for v in part] for part in (weights, d, [few]))
    ends = [[a + dtype(h) * b for a, b in zip(w, u, strict=True)] for h in (eps, -eps)]
    plus, minus = (loss_and_gradients(end, images[0], labels)[0] for end in ends)
    return (plus - minus) / (2 * eps)


def along(gradient):
    """The slope along d that a gradient predicts."""
    return sum((g * v).sum() for g, v in zip(gradient, d, strict=True))


# %% tags=["measured"]
exact = along(loss_and_gradients(weights, few, labels)[1])
eps = 10.0 ** np.arange(-11, 0)
types = {"float64": (np.float64, "o"), "float32": (np.float32, "s")}
off = {n: [abs(slope(e, t) / exact - 1) for e in eps] for n, (t, _) in types.items()}
a = np.maximum(few @ weights[0] + weights[1], 0)
z = a @ weights[2] + weights[3]
dz = (np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(10)[labels]) / len(few)
ds = dz @ weights[2].T  # without [s > 0]
uncut = abs(slope(1e-5) / along([few.T @ ds, ds.sum(0), a.T @ dz, dz.sum(0)]) - 1)
fig, ax = plt.subplots(figsize=(7.2, 3.6))
for name, (_, marker) in types.items():
    ax.loglog(eps, np.maximum(off[name], 1e-13), marker=marker, label=f"right, {name}")
ax.axhline(uncut, color=palette[2], ls=":", marker="", label="without [s > 0]")
ax.set(xlabel=r"step $\varepsilon$", ylabel="relative difference")
ax.set_title("A gradient, checked by differences")
ax.legend()
plt.show()

# %% tags=["measured"]
sharpest = eps[int(np.argmin(off["float64"]))]
lowest = {name: min(values) for name, values in off.items()}
compare("best step in float64: ε = 10 to the power of", math.log10(sharpest))
claim("the wrong formula stands out", uncut > 1000 * lowest["float64"])
blunt = lowest["float32"] > 100 * lowest["float64"]
claim("float32 is less sharp by a factor of more than 100", blunt)
kinks = off["float64"][-1] > 100 * lowest["float64"]
claim("At the right end the difference grows", kinks)

# %% [markdown]
# *(Figure: relative difference between slope and gradient over the step, both logarithmic. Two valleys:
# the one of float64 is deep, the one of float32 shallow and further right. A dotted line far above the
# valley of float64 is the gradient without [s > 0].)*
#
# In float64 the wrong formula stands out; float32 is less sharp by a factor of more than 100, and would
# hide a small error. The errors $\varepsilon^2$ and $10^{-16}/\varepsilon$ are equal near $10^{-5}$; a
# small $L'''$ allows longer steps. At the right end the difference grows, much faster than
# $\varepsilon^2$, because long steps carry some $s$ across zero, where a ReLU has a kink and no
# derivative. So check gradients in float64, with steps that cross no kink.
#
# **What does the backward pass cost?** Each forward product has two backward products of the same size,
# one for the weights and one for the input, except in the first layer: the gradient of the *image* is not
# needed. So the ratio is 2 : 1 for deep networks, but hardly above 1 : 1 for our two layers, most of whose
# work is in the first. *Further* counts it in TensorFlow's graph.
#
# ## 2.4 SGD is four steps
#
# *Stochastic gradient descent* (**SGD**) repeats four steps: **sample** a batch, **forward**, **backward**,
# and **update**, $w \leftarrow w - \eta\, g$ with the gradient $g$.


# %%
def sgd(x, y, rate, seed=0, updates=300, bias=0.0):
    """Train the two layers: the weights, and the loss of each update."""
    rng, losses = np.random.default_rng(seed), []
    weights = random_weights(rng, bias)
    for _ in range(updates):
        batch = rng.integers(len(x), size=64)  # sample
        loss, g = loss_and_gradients(weights, x[batch], y[batch])  # forward, backward
        weights = [w - rate * dw for w, dw in zip(weights, g, strict=True)]  # update
        losses.append(float(loss))
    return weights, losses


_, one_batch = sgd(pixels[:64], y[:64], rate=0.1)
print(f"64 images: loss {one_batch[0]:.2f} at first, {one_batch[-1]:.2f} at the end")
claim("falls below a tenth of its start", one_batch[-1] < one_batch[0] / 10)

# %% [markdown]
# **Overfit one batch first.** On 64 images the loss falls below a tenth of its start. A network that cannot
# memorise a single batch has a bug or an unsuitable learning rate, and this test takes a second. (`sgd` draws
# with replacement, so an update sees about 63% of them.)
#
# No formula gives the learning rate, so one tries several. **Never choose by the test set**, or its error
# will be too low. So we hold out training images (a *validation set*), and compare the rates on these. The
# trials are independent jobs: `jobs.map` runs a function once per item, here on this machine, on a cluster as
# a job array. A rate *learns* if the training loss is below half of $\ln 10$ after 300 updates. **Guess** the
# largest rate with which all three seeds learn.

# %%
guess("largest learning rate that learns")


def trial(rate):
    """[training loss at the end, held-out error] with a learning rate, three seeds."""
    x, y = fashion_mnist("train", 7000)  # the last 2,000 are held out
    x, rows = x.reshape(7000, 784), []
    with np.errstate(all="ignore"):  # some diverge
        for seed in range(3):
            (w1, b1, w2, b2), losses = sgd(x[:5000], y[:5000], rate, seed)
            z = np.maximum(x[5000:] @ w1 + b1, 0) @ w2 + b2
            rows.append([float(np.mean(losses[-50:])), error(z, y[5000:])])
    return rows


RATES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
options = {"name": "02-rates", "backend": "local", "time": "00:10:00"}
sweep = jobs.map(trial, RATES, max_parallel=2, **options)
ends, held_out = np.moveaxis(np.array(sweep.results(progress=False), float), 2, 0)

# %% tags=["measured"]
fig, ax = plt.subplots(figsize=(7.2, 3.6))
for level, text in ((math.log(10), "ln 10"), (math.log(10) / 2, "half of ln 10")):
    ax.axhline(level, color="0.4", lw=1, ls=":", marker="")
    ax.text(0.0011, level + 0.06, text, fontsize=9)
ax.plot(RATES, np.median(ends, 1), marker="", color=palette[0], label="median")
ax.plot(RATES, ends[:, 0], "o", ms=4, ls="", color=palette[0], label="one seed")
ax.plot(RATES, ends[:, 1:], "o", ms=4, ls="", color=palette[0])
ax.set(xscale="log", ylim=(0, 3), xlabel=r"learning rate $\eta$")
ax.set(ylabel="loss, last 50 of 300 updates", title="Nine jobs, three seeds each")
ax.legend(loc="lower left")
plt.show()

# %% tags=["measured"]
learns = np.isfinite(ends) & (ends < math.log(10) / 2)  # (rates, seeds)
largest = max(rate for rate, good in zip(RATES, learns, strict=True) if good.all())
best = RATES[int(np.argmin(np.median(held_out, 1)))]
compare("largest learning rate that learns", largest)
for rate, good, wrong in zip(RATES, learns.sum(1), np.median(held_out, 1), strict=True):
    print(f"rate {rate:g}: {good} of 3 seeds learn, held-out error {wrong:.1f}%")
near = largest / 10 <= best <= largest
claim("a factor of ten of the largest rate that learns", near)
beyond = learns[np.array(RATES) > 9 * largest]
claim("at ten times that rate, no seed learns", not beyond.any())

# %% [markdown]
# *(Figure: the loss after 300 updates over the learning rate, logarithmic, with a point for each seed. The
# loss falls up to a rate of 0.3, and is close to ln 10 for 1 and more.)*
#
# With small rates 300 updates are too few; with large ones the steps become longer than the valley is
# wide. The best rate lies within a factor of ten of the largest rate that learns; at ten times that rate,
# no seed learns. Slightly too small a rate costs time; slightly too large a rate costs the run.
#
# **Momentum** gives the weights a velocity, $v \leftarrow m v - \eta g$, $w \leftarrow w + v$. A constant
# gradient is applied $1 + m + m^2 + \ldots = 1/(1-m)$ times. So we predict that $m = 0.9$ with $\eta$ learns
# as fast as $10\,\eta$ without momentum.


# %% tags=["measured"]
def history(rate, momentum, seed):
    """Loss of four epochs of 5,000 images: 50 updates each."""
    keras.utils.set_random_seed(seed)
    model = keras.models.clone_model(dense)
    model.compile(keras.optimizers.SGD(rate, momentum), cross_entropy)
    fit = model.fit(x[:5000], y[:5000], batch_size=100, epochs=4, verbose=0)
    return fit.history["loss"]


settings = {"η = 0.01": (0.01, 0.0), "η = 0.01, m = 0.9": (0.01, 0.9)}
settings["η = 0.1"] = (0.1, 0.0)
losses = {name: [history(*how, s) for s in range(3)] for name, how in settings.items()}
every = {n: pd.DataFrame(runs, columns=range(1, 5)).T for n, runs in losses.items()}
display(pd.concat(every, axis=1, names=["", "seed"]).rename_axis("epoch").round(2))
gap = np.array(losses["η = 0.01, m = 0.9"]) - np.array(losses["η = 0.1"])
claim("starts more slowly, with each seed", (gap[:, 0] > 0).all())
later, small = np.abs(gap[:, 1:]).max(), np.array(losses["η = 0.01"])[:, 1:]
claim("differs from the tenfold rate by less than 0.1 later on", later < 0.1)
claim("and is far ahead of the same rate without momentum", (small - later).min() > 0.8)

# %% [markdown]
# The prediction is nearly right. Momentum starts more slowly, with each seed, because its velocity must
# grow first. It differs from the tenfold rate by less than 0.1 later on, and is far ahead of the same rate
# without momentum.
#
# ### Four ways to fail
#
# Training rarely fails with an error message, but its loss curve shows what is wrong. We break the program
# in four ways: biases of $-10$, so that all ReLUs are *dead* (zero for every image, with zero gradient); a
# learning rate of 10; pixels of 0 to 255; labels shuffled against the images. **Guess** in how many of the
# four the *first* loss differs from that of a healthy run by half or more.

# %%
guess("failures visible in the first loss")
train_x, train_y = pixels[:5000], y[:5000]
mixed = np.random.default_rng(1).permutation(train_y)
FAILURES = {"healthy": {}, "dead ReLUs": {"bias": -10.0}}
FAILURES |= {"rate too large": {"rate": 10.0}, "pixels 0 to 255": {"x": 255 * train_x}}
FAILURES["labels shuffled"] = {"y": mixed}
curves, rows = {}, {}
for name, change in FAILURES.items():
    setting = {"x": train_x, "y": train_y, "rate": 0.1} | change
    with np.errstate(all="ignore"):
        runs = [sgd(**setting, seed=seed) for seed in range(3)]
        s = [setting["x"][:2000] @ w1 + b1 for (w1, b1, *_), _ in runs]
    curves[name] = np.array([losses for _, losses in runs])  # (seeds, updates)
    first, last = curves[name][:, 0].mean(), curves[name][:, -50:].mean()
    dead = 100 * np.mean(~(np.array(s) > 0).any(1))
    rows[name] = {"first loss": first, "last 50": last, "dead neurons, %": dead}

# %% tags=["measured"]
fig, axes = plt.subplots(2, 2, figsize=(8, 5.4), sharex=True)
for ax, name in zip(axes.flat, list(FAILURES)[1:], strict=True):
    look = {"lw": 1, "marker": "", "ls": "-"}
    ax.plot(curves["healthy"].mean(0), color="0.6", label="healthy", **look)
    ax.plot(curves[name][0], color=palette[1], label="broken, each seed", **look)
    ax.plot(curves[name][1:].T, color=palette[1], **look)
    ax.axhline(math.log(10), color="k", lw=0.8, ls=":", marker="", label="ln 10")
    ax.set(title=name, ylim=(0.3, 3))
    if np.nanmax(curves[name]) > 4:
        ax.set(yscale="log", ylim=(0.3, 2 * np.nanmax(curves[name])))
axes[0, 0].legend(loc="center right")
fig.supxlabel("update")
fig.supylabel("loss")
plt.show()

# %% tags=["measured"]
table = pd.DataFrame(rows).T
display(table.round(2))
visible = (table["first loss"] / table["first loss"]["healthy"] - 1).abs() > 0.5
compare("failures visible in the first loss", visible.sum())
failed = table.drop("healthy")
close = (failed["last 50"] - math.log(10)).abs() < 0.15
claim("All four end where nothing is known", close.all())
claim("nearly all neurons are dead", (failed["dead neurons, %"][:3] > 90).all())
no_variance = abs(table["first loss"]["dead ReLUs"] - math.log(10))
claim("Dead ReLUs start exactly there", no_variance < 1e-3)
large = curves["rate too large"]
normal = not visible["rate too large"]
claim("a normal first loss and then a peak", normal and np.nanmax(large) > 20)
none = failed["dead neurons, %"]["labels shuffled"] < 10
claim("with shuffled labels hardly a neuron is dead", none)

# %% [markdown]
# *(Figure: four panels, loss over updates, a healthy run in grey in each, $\ln 10$ dotted. Dead ReLUs: the
# loss stays at $\ln 10$. Rate too large: it starts like the healthy run, peaks far above, and returns to
# about $\ln 10$. Pixels of 0 to 255: it starts at hundreds, peaks many powers of ten higher, and returns
# to $\ln 10$. Labels shuffled: it stays near $\ln 10$.)*
#
# All four end where nothing is known, near $\ln 10$. In the first three, nearly all neurons are dead: from
# the start, or after steps that made the weights so negative that every sum is below zero. But they
# *start* differently. Dead ReLUs start exactly there: their outputs have no variance (2.2). With too large
# a rate there is a normal first loss and then a peak; with inputs of the wrong scale the first loss is
# enormous. The fourth has no such sign, and with shuffled labels hardly a neuron is dead: look at some
# images with their labels. (Long training memorises even wrong labels.) So plot the loss from the first
# update, and count dead neurons.
#
# ## 2.5 How many images does it take?
#
# Now the question of the lecture. Three classifiers are trained on the same images: **HOG** with a linear
# classifier; **HOG + hidden**, the same features with a hidden layer and about as many parameters as
# LeNet-5; and **LeNet-5** (lecture 03), two convolutions with pooling and three dense layers, with ReLU.
# HOG + hidden is the control: it has learned layers, too, but on designed features.
#
# How long should they train? In an earlier version, all had the same number of updates. From 1,000 images on,
# the one with the lower *training* loss had the lower test error, so perhaps it only measured which learns
# faster.
#
# **Each run is now trained until more training no longer helps**, by rules fixed beforehand. The last 2,500
# training images are held out. After each epoch, or 50 updates if an epoch has fewer, the held-out error is
# measured. If three measurements bring no new minimum, the learning rate is divided by five; the third time,
# training ends (*early stopping*). The weights with the lowest held-out error are tested, once. Each size and
# classifier has its own learning rate: the first seed tries four (two with 55,000 images), and the held-out
# error decides. Up to 10,000 images, no two seeds share an image; with 55,000, they share all.
#
# The runs are recorded (`runs/02_data_size.py`). **Guess** from how many images on LeNet-5 has a lower test
# error than HOG with a linear classifier.

# %%
guess("LeNet-5 beats HOG from", unit=" images")
record = json.loads(pathlib.Path("runs/02_data_size.json").read_text())
runs = pd.DataFrame([row for job in record["jobs"] for row in job["rows"]])
NAMES = ["HOG", "HOG + hidden", "LeNet-5"]
T = {3: 4.303, 4: 3.182, 5: 2.776}  # Student's t, 97.5%, by number of seeds


def interval(values):
    """Half of the 95% confidence interval of a mean over seeds."""
    return T[len(values)] * np.std(values, ddof=1) / math.sqrt(len(values))


groups = runs[runs["classifier"].isin(NAMES)].groupby(["images", "classifier"])
errors = groups["error"].agg(["mean", interval, "size"]).unstack()
display(errors["mean"][NAMES].round(1).assign(seeds=errors["size"]["HOG"]))
wins = errors["mean"]["LeNet-5"] < errors["mean"]["HOG"]
compare("LeNet-5 beats HOG from", wins.index[wins][0])

# %%
fig, (ax, course) = plt.subplots(1, 2, figsize=(9.6, 4.2))
for name, marker in zip(NAMES, "Dso", strict=True):
    mean, half = errors["mean"][name], errors["interval"][name]
    ax.errorbar(mean.index, mean, half, marker=marker, capsize=3, label=name)
ax.set(xscale="log", yscale="log", xlabel="training images", ylabel="test error / %")
ax.set_yticks([8, 10, 12, 15, 20, 25], [8, 10, 12, 15, 20, 25])
ax.minorticks_off()
ax.legend(title="95% intervals")
lenet = runs[(runs["classifier"] == "LeNet-5") & (runs["seed"] == 0)]
for images, measured in zip(lenet["images"], lenet["held_out"], strict=True):
    at = range(1, len(measured) + 1)
    course.plot(at, measured, marker="", label=f"{images:,}")
course.set(xlabel="measurement: an epoch, or 50 updates", ylabel="held-out error / %")
course.set(title="LeNet-5, until training ends", ylim=(8, 40))
course.legend(title="training images")
plt.show()

# %%
paired = runs.pivot(index=["images", "seed"], columns="classifier", values="error")
gaps, low, high = {}, {}, {}
for name in NAMES[:2]:
    gap = (paired["LeNet-5"] - paired[name]).groupby("images").agg(["mean", interval])
    gaps[f"LeNet-5 − {name}"] = gap
    low[name], high[name] = gap["mean"] - gap["interval"], gap["mean"] + gap["interval"]
display(pd.concat(gaps, axis=1).round(2))
claim("With 300 to 3,000 images HOG has the lower error", min(low["HOG"].iloc[:3]) > 0)
level = low["HOG"][10_000] < 0 < high["HOG"][10_000]
claim("With 10,000 images they cannot be distinguished", level)
claim("With 55,000 images LeNet-5 has the lower error", high["HOG"][55_000] < 0)
shrinks = gaps["LeNet-5 − HOG"]["mean"].is_monotonic_decreasing
claim("LeNet-5 gains more from each further image", shrinks)
hidden = (low["HOG + hidden"] > 0).all()
claim("HOG with a hidden layer beats LeNet-5 at every size", hidden)

# %% [markdown]
# *(Figure: two panels. Left: test error over the number of images, both logarithmic, one line with intervals
# for each classifier. LeNet-5 starts far above the two lines of HOG and falls faster. Right: the held-out
# error of LeNet-5 over the measurements, one line for each number of images; each is flat at its end.)*
#
# We compare classifiers of the same seed, which have the same images. **With few images HOG wins, with many
# LeNet-5 does.** With 300 to 3,000 images HOG has the lower error, although more training would not help
# LeNet-5, by our rule: HOG contains knowledge that LeNet-5 must learn: edges matter, and their exact position
# hardly does. LeNet-5 gains more from each further image. With 10,000 images they cannot be distinguished.
# With 55,000 images LeNet-5 has the lower error. The direction agrees with Sato's slide.
#
# **But is it the features?** HOG with a hidden layer beats LeNet-5 at every size. With 55,000 images this
# hidden layer gains more over HOG than LeNet-5 does, so LeNet-5's lead over HOG is no evidence that
# features learned from pixels are better. Larger networks and more images may change this: AlexNet had a
# thousand times as many parameters and twenty times as many images.
#
# **Limits.** Each classifier had few learning rates, and some of the best are the largest or smallest of the
# list: wider lists might change a gap. None used weight decay or dropout. The intervals cover only the seeds:
# other test images would typically change an error of 10% by about 0.3 points, and a gap by a similar amount,
# half of LeNet-5's lead. So the lead may not hold on others. The seeds of 55,000 images differ only in
# initial weights and order.
#
# If images are few, *augmentation* makes new ones (*Further* tests shifts and mirror images, with 1,000
# images only), or features are learned elsewhere (*Today*).
#
# ## 2.6 What has the network found?
#
# Everything in LeNet-5 before its last layer computes 84 features. So we can give *these* to the classifier
# of 2.1, scaled to variance 1: the 84 features of an untrained LeNet-5, and those that the recorded one has
# learned from the same 10,000 images. **Guess** the test error with the learned ones.

# %%
guess("error with 84 learned features", unit="%")
saved, found = np.load("runs/02_data_size.npz"), {}
network = lenet5(0, activation="relu")
before_last = keras.Model(network.input, network.layers[-2].output)
for name in ("84 untrained", "84 learned"):
    parts = [[before_last(p).numpy() for p in np.split(s, 10)] for s in (x, x_test)]
    f, f_test = map(np.concatenate, parts)  # (N, 84)
    found[name] = f / f.std(), f_test / f.std()
    network.set_weights([saved[f"10000/{i}"] for i in range(10)])  # for the second turn
both = zip((features, features_test), found["84 learned"], strict=True)
found["HOG + 84 learned"] = [np.hstack(pair) for pair in both]
linear |= {name: linear_error(*pair) for name, pair in found.items()}
compare("error with 84 learned features", linear["84 learned"])
display(pd.Series(linear, name="test error / %").round(1).to_frame())


# %%
def differ(a, b):
    """Whether two errors differ by more than the interval of 5,000 test images."""
    half = 196 * math.sqrt((linear[a] + linear[b]) / 100 / 5000)
    return abs(linear[a] - linear[b]) > half


untrained, learned, union = list(linear)[-3:]
claim("far better than 84 untrained ones", linear[untrained] > 1.5 * linear[learned])
claim("HOG's 1,296 cannot be distinguished from them", not differ("HOG", learned))
better = linear[union] < min(linear["HOG"], linear[learned])
clear = differ(union, "HOG") and differ(union, learned)
claim("Together they are better than either", better and clear)

# %% [markdown]
# The 84 learned features are far better than 84 untrained ones: training changes the features, not only
# the last layer. With this classifier HOG's 1,296 cannot be distinguished from them, and few learned
# features do the work of many designed ones. Together they are better than either, so each offers a linear
# classifier something that the other does not. HOG, for example, discards brightness.
#
# ## What was learned
#
# 1. HOG is edges, histograms and scaling. Most of its gain over pixels needs no engineer, only many features
#    that are not linear in the pixels; an engineer needs fewer.
# 2. A layer is a matrix product. The loss of an untrained network is $\ln 10$ plus half the variance of
#    its outputs, as long as that is small.
# 3. Back-propagation costs two products for each forward product, except in the first layer. Check a
#    gradient in float64, along a random direction, with steps that cross no kink.
# 4. SGD samples, computes forward and backward, and updates. Its learning rate is chosen on held-out images;
#    here the best is close to the largest that learns. Failed runs end alike but start differently.
# 5. HOG with a linear classifier beats LeNet-5 with few images and loses with many. With a hidden layer HOG
#    wins at all sizes that we tried, so the number of images is not the whole answer. Compare classifiers
#    when more training no longer helps them, not after equal numbers of updates.
#
# **Open questions.** (a) HOG is a convolution, a pooling and a normalisation. Which of its parts could SGD
# improve, and from which start? (b) With 300 images, our rules still used 2,500 held-out ones. How would
# you choose a rate, and when to stop, without them? (c) *Hardware.* The backward pass needs $x$, $s$ and
# $a$ of all layers again. Where are they kept, and what does a GPU do whose memory is too small?
#
# **Today.** Gradients are no longer derived by hand: `jax.grad`, PyTorch's autograd and TensorFlow's tape
# build the backward graph of 2.3. JAX's `check_grads` checks one random direction, as in 2.3, and
# PyTorch's `gradcheck` is meant for double precision. If there are few images, one starts from a network
# that was trained on many. Oquab et al. (2014), cited on Sato's slide, transferred features from ILSVRC to
# PASCAL and beat the best methods there: learned features won with ten thousand images, too, but were
# learned elsewhere. DINOv2 (Oquab et al. 2023) learns from 142 million images without labels; with its
# features a linear classifier, as in 2.6, is enough for many tasks.
#
# **Next.** In assignment 02 you build three layers, one of them a convolution, train them, and write a
# gradient checker that catches wrong gradients. Then **[03, from LeNet to
# ResNet](03_from_lenet_to_resnet.ipynb)** asks which layers a network needs.
#
# ## Further
#
# Nothing later in the course requires this section.
#
# ### Exercises
#
# 1. The two layers have 784, 128 and 10 numbers. How many multiply-adds do a forward pass and a backward pass
#    need for one image? What is the ratio for 784, 128, 128 and 10?
#
# <details><summary>Answer</summary>
#
# Forward 784·128 + 128·10 = 101,632. Backward: one product for the first layer, two for the second,
# 100,352 + 2·1,280 = 102,912: a ratio of 1.01. With another hidden layer forward 118,016 and backward
# 100,352 + 2·(16,384 + 1,280) = 135,680: 1.15.
#
# </details>
#
# 2. The ten outputs of an untrained network have the variance 1. What first loss does 2.2 predict? What does
#    it predict if all weights of the last layer are divided by ten?
#
# <details><summary>Answer</summary>
#
# $\ln 10 + 1/2$ = 2.80. With a tenth of the weights the variance is 1/100, and $\ln 10 + 1/200$ = 2.31.
#
# </details>
#
# 3. A parabola $L = \lambda w^2/2$ has the update $w \leftarrow (1 - \eta\lambda)\,w$. For which $\eta$ does
#    SGD converge? Which $\eta$ reaches the minimum in one step? Why can a network have no such $\eta$?
#
# <details><summary>Answer</summary>
#
# It converges if $|1 - \eta\lambda| < 1$, that is $\eta < 2/\lambda$, and reaches the minimum at once with
# $\eta = 1/\lambda$. A network has many curvatures: a rate that suits the flat directions diverges along
# the steep ones.
#
# </details>
#
# At the computer: give `hog` cells of 2 or 7 pixels. Which is better with 1,000 images, and which with
# 10,000? Give `sgd` a `bias` of -1 and of -2: how many neurons die, and do any come back? Train on
# shuffled labels of 500 images for 3,000 updates: does the loss stay at $\ln 10$? What does this say about
# a low training loss?
#
# ### The cost of the backward pass, counted
#
# TensorFlow builds the graph of its own gradients. We count its multiply-adds for one image.


# %%
def executed(graph):
    """The operations on which the graph's outputs depend."""
    found, waiting = {}, [tensor.op for tensor in graph.outputs]
    while waiting:
        op = waiting.pop()
        if op.name not in found:
            found[op.name] = op
            waiting += [tensor.op for tensor in op.inputs]
    return found.values()


def multiply_adds(model, backward):
    """Of all matrix products and convolutions in TensorFlow's graph, for one image."""

    def run(image, label):
        with tf.GradientTape() as tape:
            loss = cross_entropy(label, model(image))
        weights = [v.value for v in model.trainable_variables]
        return tape.gradient(loss, weights) if backward else loss

    one, total = (tf.TensorSpec((1, 28, 28, 1)), tf.TensorSpec((1,), tf.int64)), 0
    traced = tf.function(run, autograph=False).get_concrete_function(*one)
    for op in executed(traced.graph):
        shapes = [tuple(tensor.shape) for tensor in op.inputs]
        out = tuple(op.outputs[0].shape) if op.outputs else ()
        if op.type == "MatMul":
            total += math.prod(out) * shapes[0][0 if op.get_attr("transpose_a") else 1]
        elif op.type == "Conv2D":
            total += math.prod(out) * math.prod(shapes[1][:3])
        elif op.type in ("Conv2DBackpropInput", "Conv2DBackpropFilter"):
            filters = shapes[1] if op.type.endswith("Input") else out
            total += math.prod(shapes[2]) * math.prod(filters[:3])
    return total


# %%
counted = {}
for name, model in (("two layers", dense), ("LeNet-5", lenet5(0))):
    forward = multiply_adds(model, backward=False)
    backward = multiply_adds(model, backward=True) - forward
    counted[name] = {"forward": forward, "backward": backward}
table = pd.DataFrame(counted).T
ratio = table["ratio"] = table["backward"] / table["forward"]
display(table.round(2))
claim("hardly more than one for the two layers", 1 < ratio["two layers"] < 1.05)
claim("clearly below two for LeNet-5", ratio["LeNet-5"] < 1.8)

# %% [markdown]
# The ratio is hardly more than one for the two layers, and clearly below two for LeNet-5, whose first layer
# has more than a quarter of the work.
#
# ### Shift or flip?
#
# A shirt one pixel further left is a shirt. *Augmentation* shows each image at random positions, or mirrored
# with probability 1/2. But do mirrored images occur in the test set? We compare each image with the mean
# image of its class, and with the mirror image of that mean. The record also has LeNet-5 with 1,000 images
# and one of the two augmentations, at the learning rate that was best without. (Other numbers of images were
# not tried: the question here is which of the two helps.)

# %%
nearer = {}
for c in (5, 7, 9, 0, 3, 8):
    f = pixels[y == c]
    mean = f.mean(0)
    mirror = mean.reshape(28, 28)[:, ::-1].ravel()
    own, other = (((f - m) ** 2).sum(1) for m in (mean, mirror))
    nearer[CLASSES[c]] = 100 * np.mean(own < other)
display(pd.Series(nearer, name="nearer to the mean than to its mirror / %").round(0))
shoes = [nearer[name] for name in ("Sandal", "Sneaker", "Ankle boot")]
claim("nine of ten shoes face the same way", min(shoes) > 90)
others = [nearer[name] for name in ("T-shirt/top", "Dress", "Bag")]
claim("fewer than eight of ten T-shirts, dresses and bags do", max(others) < 80)
change = paired.loc[1000, ["shift", "flip"]].sub(paired.loc[1000, "LeNet-5"], axis=0)
change = change.dropna().agg(["mean", interval])
display(change.rename_axis("test error minus that without").round(2))
gained, half = change.loc["mean"], change.loc["interval"]
claim("Shifts lower the test error", gained["shift"] < -half["shift"])
unclear = abs(gained["flip"]) < half["flip"]
claim("flips cannot be distinguished from no augmentation", unclear)

# %% [markdown]
# At least nine of ten shoes face the same way; fewer than eight of ten T-shirts, dresses and bags do, which
# are nearly symmetric. So a mirrored boot hardly occurs in the test set, while a shifted one is a normal
# image. Shifts lower the test error; flips cannot be distinguished from no augmentation. With three seeds,
# though, the interval of the flips is so wide that a gain as large as that of the shifts is not excluded. If
# augmentations are only tested together, one cannot see which of them helps.
#
# ### The first filters
#
# LeNet-5's first layer has six filters of 5×5 pixels. Do they resemble Sobel's, here in the form for 5×5
# pixels?

# %%
smooth, ramp = np.array([1, 4, 6, 4, 1]), np.array([-1, -2, 0, 2, 1])
sobel = np.stack([np.outer(smooth, ramp), np.outer(ramp, smooth)], -1)
start = lenet5(0, activation="relu").get_weights()[0][..., 0, :]
pictures = {"Sobel": sobel, "untrained": start}
pictures["10,000 images"] = saved["10000/0"][..., 0, :]
fig, axes = plt.subplots(3, 6, figsize=(8, 4.2))
for row, (name, f) in zip(axes, pictures.items(), strict=True):
    for i, ax in enumerate(row):
        if i < f.shape[-1]:
            top = np.abs(f[..., i]).max()
            ax.imshow(f[..., i].astype(float), cmap="RdBu", vmin=-top, vmax=top)
        ax.axis("off")
    row[0].text(-0.8, 2, name, rotation=90, va="center", ha="right")
fig.suptitle("blue: positive weights, red: negative ones")
plt.show()

# %% [markdown]
# *(Figure: rows of filters in red and blue. Sobel's two are smooth ramps; the six untrained ones are
# noise. Of the six trained ones the first two have mainly one sign on the left and the other on the right;
# the third is nearly the same as before training.)*
#
# The first two trained filters compare left with right, roughly as Sobel's first does, but are less regular.
# The third is still nearly its initial noise: training need not change every filter much. Six filters of one
# seed show no more than this.
#
# ### Terms
#
# **Batch**: the images of one update. **Cross-entropy**: $-\ln p$ of the right class. **Dead ReLU**: zero
# for every image. **Dense layer**: each output depends on all inputs. **Early stopping**: ending training,
# and choosing the weights, by the held-out error. **Epoch**: the updates that show each image once.
# **Feature**: a number computed from an image, for a classifier. **Held-out images** (validation set):
# training images that only select, here the learning rate and the end of training. **HOG**: histograms of
# oriented gradients. **Initialisation**: the random weights before training. **Learning rate**: factor of
# the gradient in an update. **Momentum**: the update also contains a decaying sum of earlier gradients.
# **Pooling**: the largest or mean value of each window. **ReLU**: $\max(0, x)$. **SGD**: stochastic
# gradient descent. **Softmax**: turns outputs into probabilities.
#
# ### Sources
#
# - Sato 2017, *A study of parallel computation for deep learning on TSUBAME* (slides): ILSVRC and PASCAL:
#   the opening, 2.5 · Codreanu 2018, *Introduction to high-performance machine learning* (slides): the
#   shapes of 2.2, the four steps of 2.4
# - Dalal and Triggs 2005, *Histograms of oriented gradients for human detection*, CVPR: 2.1 (the layout of
#   cells and blocks; sizes and classifier are ours)
# - LeCun, Bottou, Bengio and Haffner 1998, *Gradient-based learning applied to document recognition*:
#   LeNet-5 (the layers, as in `cluster.training.models`)
# - Glorot and Bengio 2010, *Understanding the difficulty of training deep feedforward neural networks*; He
#   et al. 2015, *Delving deep into rectifiers*, [1502.01852](https://arxiv.org/abs/1502.01852): variances
#   of weights, quoted from Keras' documentation of its initialisers: 2.2
# - Oquab, Bottou, Laptev and Sivic 2014, [Learning and transferring mid-level image
#   representations](https://openaccess.thecvf.com/content_cvpr_2014/html/Oquab_Learning_and_Transferring_2014_CVPR_paper.html)
#   (abstract): *Today* · Oquab et al. 2023, *DINOv2*, [2304.07193](https://arxiv.org/abs/2304.07193), read
#   in secondary texts: *Today*
# - JAX, [check_grads](https://docs.jax.dev/en/latest/_autosummary/jax.test_util.check_grads.html);
#   PyTorch,
#   [gradcheck](https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html):
#   *Today*
# - Zhang, Bengio, Hardt, Recht and Vinyals 2017, *Understanding deep learning requires rethinking
#   generalization*, [1611.03530](https://arxiv.org/abs/1611.03530) (abstract): shuffled labels are memorised:
#   2.4
# - Xiao, Rasul and Vollgraf 2017, *Fashion-MNIST*, [1708.07747](https://arxiv.org/abs/1708.07747): the
#   images
