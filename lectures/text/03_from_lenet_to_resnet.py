# %% [markdown]
# # 3 · From LeNet to ResNet
#
# **With the weights that torchvision publishes, AlexNet (2012) finds the right one of 1,000 classes for
# 57 of 100 ImageNet photographs, and ResNet-152 (2015) for 78. Both have about sixty million parameters.
# What changed?**
#
# You will
#
# 1. build LeNet-5, AlexNet, VGG, an inception module and the ResNets in a few lines each;
# 2. count the **parameters**, the **multiply-adds** and the **stored outputs** of every layer, and
#    compare the totals with published ones;
# 3. learn what each idea is for: ReLU and dropout, small filters, 1×1 convolutions, global average
#    pooling, batch normalisation, shortcuts;
# 4. see what a comparison of thirteen published networks can show, and what it cannot.
#
# Notation: $N$ images, $C$ channels, $H \times W$ pixels, $K$ filters, kernel size $k$, learning rate
# $\eta$. A multiply-add is two FLOPs. We count **multiply-adds**, which He et al. call FLOPs.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=2, seed=3)

# %%
import itertools
import json
import math
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display
from keras import layers

from cluster.training.data import CLASSES, fashion_mnist

# %% [markdown]
# ## 3.1 LeNet-5, and a counter
#
# The network of LeCun, Bottou, Bengio and Haffner (1998) read the amounts on bank cheques. Its plan is
# still in use: convolutions with small windows, pooling, more and more channels (*maps*), and a
# classifier of fully connected (*dense*) layers at the end.
#
# **Pooling** replaces each 2×2 window of a map by one number: here its mean, in later networks its
# maximum. (AlexNet's 3×3 windows overlap.) It has no weights. The next layers have a quarter of the
# pixels to process, and their filters see twice as far. If the image moves by one pixel, the pooled map
# usually changes less than the map before it.


# %%
def lenet5():
    """LeNet-5 as it is usually built today, for (N, 32, 32, 1)."""
    x = image = keras.Input((32, 32, 1))
    x = layers.Conv2D(6, 5, activation="tanh")(x)  # (N, 28, 28, 6)
    x = layers.AveragePooling2D(2)(x)  # (N, 14, 14, 6)
    x = layers.Conv2D(16, 5, activation="tanh")(x)  # (N, 10, 10, 16)
    x = layers.AveragePooling2D(2)(x)  # (N, 5, 5, 16)
    x = layers.Flatten()(x)  # (N, 400)
    x = layers.Dense(120, activation="tanh")(x)
    x = layers.Dense(84, activation="tanh")(x)
    return keras.Model(image, layers.Dense(10)(x))


# %% [markdown]
# A convolution of $K$ filters of $k \times k \times C$ weights has $(k^2 C + 1)K$ parameters with biases,
# and each of its $H_o W_o K$ outputs is a sum of $k^2 C$ products. A dense layer is a 1×1 convolution on
# an image of one pixel. (The filters of a *grouped* convolution see only the channels of their group,
# those of a *depthwise* one a single channel.) We neglect all other operations; *Further* checks our
# counts against two others.
#
# **Guess**: each weight of a convolution is used at every pixel of its output, each weight of a dense
# layer once. How many multiply-adds does LeNet-5 make per parameter, on average?

# %%
guess("multiply-adds per parameter, LeNet-5")


def parameters(layer):
    """Trainable parameters of a layer, from its input's shape and its settings."""
    C = layer.input.shape[-1] if isinstance(layer, COUNTED) else 0
    if isinstance(layer, layers.Conv2D):
        each = math.prod(layer.kernel_size) * C // layer.groups
        return (each + layer.use_bias) * layer.filters
    if isinstance(layer, layers.DepthwiseConv2D):
        return (math.prod(layer.kernel_size) + layer.use_bias) * C
    if isinstance(layer, layers.Dense):
        return (C + layer.use_bias) * layer.units
    return 2 * C  # of a normalisation: a scale and a shift for each channel


# %%
def multiply_adds(layer):
    """Products that are added up for one image."""
    if isinstance(layer, layers.Dense):
        return math.prod(layer.input.shape[1:]) * layer.units
    if not isinstance(layer, WEIGHTED):
        return 0
    groups = getattr(layer, "groups", 1)
    C = layer.input.shape[-1] // groups if isinstance(layer, layers.Conv2D) else 1
    return math.prod(layer.output.shape[1:]) * math.prod(layer.kernel_size) * C


WEIGHTED = (layers.Conv2D, layers.DepthwiseConv2D, layers.Dense)
COUNTED = (*WEIGHTED, layers.BatchNormalization, layers.LayerNormalization)
POOLING = layers.MaxPooling2D, layers.AveragePooling2D, layers.GlobalAveragePooling2D
KEPT = (*COUNTED, *POOLING, layers.Add, layers.Multiply, layers.Activation)

# %% [markdown]
# For the memory we count the outputs that the backward pass needs again (*kept*). A ReLU can overwrite
# its input, and reshaping or concatenating need not copy, so we do not count them.


# %%
def describe(layer):
    """A short description of a layer, such as "conv 5×5, 6"."""
    if isinstance(layer, layers.Conv2D):
        k, stride, groups = layer.kernel_size[0], layer.strides[0], layer.groups
        more = f" /{stride}" * (stride > 1) + f" in {groups} groups" * (groups > 1)
        return f"conv {k}×{k}, {layer.filters}{more}"
    name = type(layer).__name__.replace("2D", "").lower()
    return f"{name} {layer.units}" if isinstance(layer, layers.Dense) else name


def count(model):
    """A row for each layer that computes: its output, and three counts per image."""
    rows = []
    for layer in (layer for layer in model.layers if isinstance(layer, KEPT)):
        shape = layer.output.shape[1:]
        row = {"layer": describe(layer), "output": "×".join(map(str, shape))}
        row |= {"parameters": parameters(layer), "multiply-adds": multiply_adds(layer)}
        rows.append(row | {"kept": math.prod(shape)})
    return pd.DataFrame(rows)


# %%
table = count(lenet5())
display(table)
totals = table[["parameters", "multiply-adds", "kept"]].sum()
reuse = totals["multiply-adds"] / totals["parameters"]
compare("multiply-adds per parameter, LeNet-5", reuse)
dense = table[table["layer"].str.startswith("dense")]
dense = dense[["parameters", "multiply-adds"]].sum() / totals
claim("Nearly all parameters are in the dense layers", dense["parameters"] > 0.95)
claim("most of the work is done in the convolutions", dense["multiply-adds"] < 0.2)

# %% [markdown]
# From top to bottom, the image shrinks while the number of maps grows. Nearly all parameters are in the
# dense layers, and most of the work is done in the convolutions. (*Work* means multiply-adds. The paper
# counts 60,000 parameters; *Further* derives them.)
#
# ## 3.2 AlexNet: where are the parameters, where is the work?
#
# Krizhevsky, Sutskever and Hinton (2012) used the same plan for photographs of 1,000 classes, with 1.2
# million training images. How can a network a thousand times as large be trained at all? The paper
# reports what each idea contributed:
#
# - **ReLU**, $\max(0, x)$: its slope is 1 for every positive input, while tanh is nearly flat for large
#   ones. A small network reaches 25% training error on CIFAR-10 six times as fast as with tanh.
# - **Dropout**: in training, half of the outputs of two dense layers, drawn at random, are set to 0. This
#   reduces overfitting, but takes about twice as many steps.
# - **Augmentation**: crops of 224×224 pixels out of 256×256, their mirror images, and shifted colours.
# - **Two GPUs** of 3 GB, each with half of the maps: 1.7 percentage points more accurate than half as
#   many maps on one GPU.
#
# In layers 2, 4 and 5 a filter sees only the maps on its own GPU: two groups. (The paper says 224×224
# pixels, but without padding, 55×55 outputs of 11×11 filters at stride 4 need 227.) **Guess**: what share
# of AlexNet's parameters is in its five convolutions? And what share of its multiply-adds?

# %%
guess("share of parameters in AlexNet's convolutions", unit="%")
guess("share of multiply-adds in AlexNet's convolutions", unit="%")


def alexnet(groups=2):
    """AlexNet on two GPUs, or with groups=1 on one; without its normalisation."""
    x = image = keras.Input((227, 227, 3))
    plan = [(96, 11, 4, 1), (256, 5, 1, groups), (384, 3, 1, 1)]
    plan += [(384, 3, 1, groups), (256, 3, 1, groups)]
    for i, (maps, k, stride, g) in enumerate(plan, 1):
        look = {"padding": "valid" if i == 1 else "same", "activation": "relu"}
        x = layers.Conv2D(maps, k, stride, groups=g, **look)(x)
        if i in (1, 2, 5):
            x = layers.MaxPooling2D(3, 2)(x)
    x = layers.Flatten()(x)
    for units in (4096, 4096):
        x = layers.Dropout(0.5)(layers.Dense(units, activation="relu")(x))
    return keras.Model(image, layers.Dense(1000)(x))


# %% [markdown]
# Counting needs only shapes: inside a `tf.Graph` a variable has a shape but no memory.


# %%
def sketch(build, *arguments, **options):
    """The model that build() makes, with variables that have shapes and no memory."""
    with tf.Graph().as_default():
        return build(*arguments, **options)


alex, share = count(sketch(alexnet)), {}
display(alex)
convolutions = alex["layer"].str.startswith("conv")
for what in ("parameters", "multiply-adds"):
    share[what] = 100 * alex.loc[convolutions, what].sum() / alex[what].sum()
    compare(f"share of {what} in AlexNet's convolutions", share[what])


# %%
def layer_bars(table, title):
    """Shares of each layer in the three counts, side by side, from the input down."""
    shown = table[~table["layer"].str.contains("pool")]
    size = (9.5, 0.9 + 0.21 * len(shown))
    fig, axes = plt.subplots(1, 3, figsize=size, sharey=True)
    for ax, column in zip(axes, ("parameters", "multiply-adds", "kept"), strict=True):
        bars = ax.barh(range(len(shown)), 100 * shown[column] / table[column].sum())
        for bar, layer in zip(bars, shown["layer"], strict=True):
            bar.set(hatch="//" * layer.startswith("dense"), ec=palette[0], fc="white")
        total = f"{table[column].sum() / 1e6:,.1f} million"
        ax.set(title=f"{column}\n{total}", xlabel="% of the network")
        ax.title.set_fontsize(10)
    axes[0].set_yticks(range(len(shown)), shown["layer"])
    axes[0].invert_yaxis()
    fig.suptitle(title, x=0.01, ha="left", weight="bold")
    plt.show()


# %%
layer_bars(alex, "AlexNet")
claim("4% of the parameters and 92% of the work are in the convolutions",
      [round(s) for s in share.values()] == [4, 92])  # fmt: skip
third = alex.loc[0, "kept"] / alex["kept"].sum() > 1 / 3
claim("more than a third of the kept outputs are those of the first layer", third)

# %% [markdown]
# *(Figure: three columns of horizontal bars, a bar for each layer of AlexNet from input to output; the
# dense layers are hatched. Parameters: hardly any in the convolutions, more than half in the first dense
# layer. Multiply-adds: most in the five convolutions. Kept: the first convolution has the longest bar.)*
#
# 4% of the parameters and 92% of the work are in the convolutions, and more than a third of the kept
# outputs are those of the first layer. Which layer is "large" depends on the count. Data-parallel
# training sends one gradient per *parameter* in each step (lecture 06), and most of AlexNet's parameters
# do hardly any work.
#
# ## 3.3 VGG: the same filter, again and again
#
# Simonyan and Zisserman (2014) replaced the 11×11 and 5×5 filters by more layers of 3×3. An output of two
# 3×3 convolutions *sees* 5×5 pixels of the input, and an output of three sees 7×7. This **receptive
# field** is computed layer by layer from two numbers, both in pixels of the input: the field $r$ and the
# distance $j$ between neighbouring outputs.


# %%
def receptive_field(chain):
    """[(k, stride), …] from the input on -> pixels per side that an output sees."""
    r, j = 1, 1
    for k, stride in chain:
        r += (k - 1) * j  # k - 1 more outputs of the layer before, j pixels apart
        j *= stride
    return r


for n, k in [(2, 5), (3, 7)]:
    seen = receptive_field([(3, 1)] * n), receptive_field([(k, 1)])
    print(f"{n} layers of 3×3 see {seen[0]} pixels with {n * 9} C² weights;", end=" ")
    print(f"one of {k}×{k} sees {seen[1]} with {k**2} C²")

# %% [markdown]
# With $C$ channels in and out, stacked small filters cover the same field with fewer weights and less
# work, and have one or two more ReLUs in between. However, they keep two or three times as many outputs.

# %%
VGG = {"A": (1, 1, 2, 2, 2), "B": (2, 2, 2, 2, 2)}
VGG |= {"D": (2, 2, 3, 3, 3), "E": (2, 2, 4, 4, 4)}


def vgg(which="D"):
    """VGG of 11 (A), 13 (B), 16 (D) or 19 (E) layers with weights."""
    x = image = keras.Input((224, 224, 3))
    for n, maps in zip(VGG[which], (64, 128, 256, 512, 512), strict=True):
        for _ in range(n):
            x = layers.Conv2D(maps, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)  # half the side, and then twice the maps
    x = layers.Flatten()(x)
    for units in (4096, 4096):
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model(image, layers.Dense(1000)(x))


# %%
paper = {"A": 133, "B": 133, "D": 138, "E": 144}  # millions, table 2 of the paper
vggs = {name: count(sketch(vgg, name)) for name in paper}
millions = {name: vggs[name]["parameters"].sum() / 1e6 for name in paper}
layer_bars(vggs["D"], "VGG-16")
agree = {name: round(n) for name, n in millions.items()} == paper
claim("The counter finds the paper's four numbers of parameters", agree)
for name, t, slide in ("AlexNet", alex, 1.5), ("VGG-19", vggs["E"], 19.6):
    work = t["multiply-adds"].sum() / 1e9
    print(f"{name}: {work:.2f} G multiply-adds, {2 * work:.2f} GFLOP; slide {slide}")

# %% [markdown]
# *(Figure: as before, for the 16 layers of VGG-16. Parameters: one hatched bar, the first dense layer,
# holds three quarters. Multiply-adds: six convolutions have 12% each, those that double the maps 6%, the
# last three 3%, the first hardly any. Kept: the first two layers have two fifths.)*
#
# The counter finds the paper's four numbers of parameters. The last two lines check a slide (Sato 2017),
# which gives "1.5 GFLOPS" per image for AlexNet and "19.6" for VGG. AlexNet's number counts FLOPs, VGG's
# multiply-adds, so the slide makes VGG look half as expensive as it is. (Of He et al.'s numbers for
# VGG-16 and VGG-19, 15.3 and 19.6 billion, only the first leaves out the dense layers.) **If two counts
# differ, compare their conventions before you look for an error.**
#
# ## 3.4 What fits into the memory?
#
# SGD with momentum stores three numbers per parameter: the weight, its gradient and its *momentum*, a
# running sum of earlier gradients. A training step also stores the kept outputs of each image in the
# batch. In float32:
#
# $$\text{bytes} \approx 4\,(3 \cdot \text{parameters} + N \cdot \text{kept})$$
#
# **Guess**: AlexNet was trained with batches of 128 on GPUs of 3 GB. How large a batch of VGG-16 would
# fit on such a GPU?

# %%
guess("images of VGG-16 in 3 GB")


def images_that_fit(table, memory=3e9):
    """The largest batch by the formula; 0 if not even the parameters fit."""
    free = memory / 4 - 3 * table["parameters"].sum()
    return max(0, int(free // table["kept"].sum()))


whole = count(sketch(alexnet, groups=1))
fit = {"AlexNet": images_that_fit(whole), "VGG-16": images_that_fit(vggs["D"])}
compare("images of VGG-16 in 3 GB", fit["VGG-16"])
claim("AlexNet fits on one GPU with its batch of 128", fit["AlexNet"] > 128)

# %% [markdown]
# By this count AlexNet fits on one GPU with its batch of 128, without groups, although its authors say
# that it was too large for one. The formula is a lower bound: the backward pass also stores gradients of
# outputs, and libraries need workspace. *Further* measures one and a half to about two times the
# formula's bytes per image. Even that does not explain the two GPUs. The shapes do not show what else the
# authors' program stored.
#
# ## 3.5 GoogLeNet: 1×1 convolutions make room
#
# Szegedy et al. (2014) asked which filter a layer should have, 1×1, 3×3 or 5×5, and answered: all of
# them, side by side. That would be expensive, but 1×1 convolutions first *reduce* the number of channels.
#
# ![Five blocks as columns of boxes from bottom to top; each box says its filters and its number of maps,
# and a strip on it batch normalisation or ReLU. VGG: two 3×3 convolutions of 256 maps. Inception (module
# 3a, from 192 maps): four branches side by side, 1×1 to 64; 1×1 to 96, 3×3 to 128; 1×1 to 16, 5×5 to 32;
# pooling, 1×1 to 32; a concatenation joins them. Residual (ResNet-34): 3×3 to 64 with batch norm and
# ReLU, 3×3 to 64 with batch norm; an arrow around both is added, then ReLU. Bottleneck (ResNet-50), from
# 256 maps: 1×1 to 64, 3×3 to 64, 1×1 to 256, and the arrow around. ResNeXt: the same with 128 maps
# inside, the 3×3 in 32 groups.](figures/03_blocks.svg)
#
# **Guess**: the first module's input has 28×28 pixels and 192 channels. By what factor does the reduction
# to 16 channels make its 5×5 branch cheaper?

# %%
guess("1×1 reduction before the 5×5", unit="×")


def conv(x, maps, k, stride=1):
    """A convolution that keeps the size of the image, and ReLU."""
    return layers.Conv2D(maps, k, stride, padding="same", activation="relu")(x)


def inception(x, one, three, five, pool):
    """x (N, H, W, C) to the sum of all maps; (a, b): reduced to a, then b maps."""
    pooled = layers.MaxPooling2D(3, 1, padding="same")(x)
    reduced = [conv(conv(x, a, 1), b, k) for (a, b), k in ((three, 3), (five, 5))]
    return layers.Concatenate()([conv(x, one, 1), *reduced, conv(pooled, pool, 1)])


direct, reduced = 25 * 192 * 32, 192 * 16 + 25 * 16 * 32  # weights
compare("1×1 reduction before the 5×5", direct / reduced)

# %% [markdown]
# ## 3.6 An average instead of dense layers
#
# GoogLeNet's end is different, too: after nine modules it takes the mean of each map (*global average
# pooling*) and has a single dense layer. **Guess**: suppose that VGG-16 ended in the same way, with the
# means of its last 512 maps and one dense layer for the 1,000 classes. What share of its parameters would
# remain?

# %%
guess("VGG-16 with an average at its end, parameters that remain", unit="%")
dense = vggs["D"]["layer"].str.startswith("dense")
body = vggs["D"].loc[~dense, ["parameters", "multiply-adds"]].sum()
left = 100 * (body["parameters"] + 513 * 1000) / vggs["D"]["parameters"].sum()
compare("VGG-16 with an average at its end, parameters that remain", left)
same = body["multiply-adds"] / vggs["D"]["multiply-adds"].sum()
claim("99% of the work remains", round(100 * same) == 99)

# %% [markdown]
# Only a ninth of the parameters is left, but 99% of the work remains. All networks below end in this way.
# GoogLeNet has 7 million parameters, a ninth of AlexNet's, but does more work. (A slide says 5 million;
# *Further* compares the network with the paper's table.)
#
# ## 3.7 Batch normalisation: what does it change?
#
# Deep networks were hard to train: VGG started from the weights of a shallower network, and GoogLeNet had
# auxiliary classifiers halfway. Ioffe and Szegedy (2015) added a layer that normalises each channel over
# the batch. It subtracts the mean $\mu$, divides by the standard deviation $\sigma$, and applies a scale
# $\gamma$ and a shift $\beta$:
#
# $$y = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad \mu, \sigma^2
# \text{ over } N, H, W \text{ of the batch}.$$
#
# So there are four numbers per channel. $\gamma$ and $\beta$ are trained. *Moving averages* of mean and
# variance are collected during training, and replace those of the batch at inference. They have no
# gradient, which matters in lecture 07.
#
# What does the layer *do*? It removes the scale of the convolution's output. So the loss does not depend
# on the scale of the weights, and with weights ten times as large the gradient is a tenth (shown in
# *Further*). A step that is far too large makes the weights large, and the next steps then change the
# network less. If this effect matters, training should tolerate much larger learning rates.
#
# We train a plain network of eight layers, with and without batch normalisation, for three epochs on
# 5,000 images of 14×14 pixels. There are eight constant learning rates and three seeds (SGD with momentum
# 0.9, batches of 50; recorded by `runs/03_small_networks.py`). We say that a network learns at a rate if
# its mean test error is below 60%; guessing gives 90%. **Guess**: by what factor does batch normalisation
# raise the largest such rate?

# %%
guess("largest learning rate with over without batch norm", unit="×")


def stack(blocks, residual, norm=True, filters=8, shape=(14, 14, 1)):
    """6 * blocks + 2 layers: plain, or with a shortcut around each pair."""
    x = image = keras.Input(shape)
    x = layers.ReLU()(normed(x, filters, norm))
    for maps in (filters, 2 * filters, 4 * filters):
        for _ in range(blocks):
            stride = 1 if x.shape[-1] == maps else 2
            y = normed(layers.ReLU()(normed(x, maps, norm, stride)), maps, norm)
            if residual:
                if stride == 2:  # every second pixel, and zeros for the new maps
                    more = [[0, 0], [0, 0], [0, 0], [0, maps - x.shape[-1]]]
                    x = keras.ops.pad(x[:, ::2, ::2], more)
                y = layers.Add()([x, y])
            x = layers.ReLU()(y)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(10, kernel_initializer="he_normal")(x))


# %%
def normed(x, maps, norm=True, stride=1):
    """A 3×3 convolution, and batch normalisation if norm."""
    options = {"use_bias": not norm, "kernel_initializer": "he_normal"}
    x = layers.Conv2D(maps, 3, stride, padding="same", **options)(x)
    return layers.BatchNormalization(momentum=0.9)(x) if norm else x


record = json.loads(pathlib.Path("runs/03_small_networks.json").read_text())
runs = {}  # of each part of the experiment
for job in record["jobs"]:
    runs.setdefault(job["arguments"]["part"].strip("'"), []).extend(job["rows"])
runs = {part: pd.DataFrame(rows) for part, rows in runs.items()}
for part, what in itertools.product(runs.values(), ("train", "test")):
    part[what] = [epochs[what][-1] for epochs in part["epochs"]]  # the last error
print("RECORDED on", record["jobs"][0]["submitted"][:10])

# %%
fig, ax = plt.subplots(figsize=(7.6, 3.7))
largest = {}
for flag, name in [(False, "without"), (True, "with batch normalisation")]:
    one = runs["norm"][runs["norm"]["norm"] == flag]
    errors = one.groupby("rate")["test"].agg(["mean", "min", "max"])
    look = {"color": palette[flag], "ls": "-" if flag else "--", "marker": "os"[flag]}
    ax.plot(errors.index, errors["mean"], label=name, **look)
    band = {"alpha": 0.25, "color": palette[flag], "label": "its three seeds"}
    ax.fill_between(errors.index, errors["min"], errors["max"], **band)
    largest[flag] = errors.index[errors["mean"] < 60].max()
ax.axhline(90, color="0.4", ls=":", marker="", label="guessing")
ax.set(xscale="log", xlabel=r"learning rate $\eta$", ylim=(0, 100))
ax.set_ylabel("test error after 3 epochs, %")
ax.legend(bbox_to_anchor=(1, 1), loc="upper left", fontsize=9)
plt.show()
larger = largest[True] / largest[False]
compare("largest learning rate with over without batch norm", larger)
claim("the largest rate is ten times as large", np.isclose(larger, 10))

# %% [markdown]
# *(Figure: test error over the learning rate, 0.001 to 3. Without batch normalisation, dashed: a valley
# between 0.01 and 0.1, and 90% from 0.3 on. With it, solid: lower everywhere and flat between 0.01 and 1;
# at 3 the band reaches from 50% to guessing.)*
#
# On our grid the largest rate is ten times as large. (At a rate of 3, one of the three seeds is no better
# than guessing.) This does not prove the reason, because other explanations predict larger rates, too:
# steadier inputs to each layer (the paper's own) and a smoother loss (Santurkar et al. 2018). Three
# epochs show how fast a network learns, not how good it becomes. The price does not appear in
# multiply-adds: two passes over the layer's input, and one more set of outputs to keep.
#
# ## 3.8 ResNet: deeper is worse, and then it is not
#
# With batch normalisation twenty layers can be trained. Why not fifty-six? He, Zhang, Ren and Sun (2015)
# found that a deeper *plain* network is worse, and not because it overfits: its **training** error is
# higher, although it could equal the shallower network if the additional layers computed the identity.
# Their solution makes the identity easy to learn. A *residual* block computes what is added to its input,
# $y = x + F(x)$; if $F$ is zero, the block is the identity. The path of $x$ is the **shortcut**. Our
# `stack` builds both kinds, with equally many parameters. **Guess** the training errors with 56 layers.

# %%
guess("training error, plain, 56 layers", unit="%")
guess("training error, residual, 56 layers", unit="%")
KINDS, deep = {False: "plain", True: "residual"}, runs["residual"]
deep["layers"] = 6 * deep["blocks"].astype(int) + 2
means = deep.groupby(["residual", "layers"])[["train", "test"]].mean()
display(means.rename(KINDS).round(1).unstack())
train = deep.pivot(index="seed", columns=["residual", "layers"], values="train")
test = deep.pivot(index="seed", columns=["residual", "layers"], values="test")
compare("training error, plain, 56 layers", train[False, 56].mean())
compare("training error, residual, 56 layers", train[True, 56].mean())
claim("56 plain layers are worse than 20 on their own training images",
      (train[False, 56] > 3 * train[False, 20]).all())  # fmt: skip
claim("56 residual layers fit them better than 20 plain ones",
      (train[True, 56] < train[False, 20]).all())  # fmt: skip
deeper = [errors[True, 56] - errors[True, 20] for errors in (train, test)]
claim("no better than 20", deeper[0].mean() > 0)
signs = all(d.min() < 0 < d.max() for d in deeper)
claim("the sign of both differences changes from seed to seed", signs)
fits = (train[True, 8] < train[False, 8]) & (test[True, 8] > test[False, 8])
claim("fit the training images better and the test images worse", fits.all())

# %%
SPREAD = ["mean", "min", "max"]


def by_layers(ax):
    """Errors over the number of layers: means, and bars over the three seeds."""
    for flag, what in itertools.product(KINDS, ("train", "test")):
        some = deep[deep["residual"] == flag].groupby("layers")[what].agg(SPREAD)
        low, high = some["mean"] - some["min"], some["max"] - some["mean"]
        look = {"color": palette[flag], "ls": "-" if flag else "--"}
        look |= {"marker": "s", "mfc": "none"} if what == "test" else {"marker": "o"}
        look["label"] = f"{KINDS[flag]}, {what.replace('train', 'training')}"
        ax.errorbar(some.index, some["mean"], [low, high], **look)
    ax.set(xlabel="layers", ylabel="error after 8 epochs, %", xticks=[8, 20, 56])
    ax.legend(fontsize=9, loc="upper left", title="means; bars: the three seeds")


# %%
fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), sharey=True)
by_layers(axes[0])
rates = pd.concat([runs["rates"], deep[(deep["layers"] == 56) & ~deep["residual"]]])
swept = rates.groupby("rate")["train"].agg(SPREAD)
low, high = swept["mean"] - swept["min"], swept["max"] - swept["mean"]
axes[1].errorbar(swept.index, swept["mean"], [low, high], ls="--", label="plain, 56")
axes[1].axhline(train[False, 20].mean(), color="0.4", ls=":", label="plain, 20")
axes[1].set(xscale="log", xlabel=r"learning rate $\eta$", ylim=(0, 75))
axes[1].legend(fontsize=9, loc="upper right", title="training error")
plt.show()
claim("at none of four rates", swept["min"].min() > train[False, 20].max())

# %% [markdown]
# *(Figure, left: error over the number of layers. Plain networks, dashed: training and test error rise a
# little at 20 and steeply at 56 layers. Residual networks, solid: both stay low. Right: the training
# error of 56 plain layers at four learning rates, far above the dotted line of 20 plain layers.)*
#
# As in the paper, 56 plain layers are worse than 20 on their own training images, and 56 residual layers
# fit them better than 20 plain ones. Is the reason the depth, or the learning rate? All networks on the
# left were trained with a rate of 0.05. On the right, only the 56 plain layers have a choice: at none of
# four rates does a single seed reach the 20 layers.
#
# So shortcuts prevent the failure. They do not make depth *useful* here: on average 56 residual layers
# are no better than 20 on their training images, and hardly better on the test images; the sign of both
# differences changes from seed to seed. With 8 layers, residual networks fit the training images better
# and the test images worse, in all three seeds. Grey images of 14×14 pixels and ten classes do not need
# so many layers; ImageNet does. (Eight epochs are few, and three seeds do not show the full spread.)
#
# Why do plain networks fail? The popular answer is that the gradient *vanishes* on its way through 56
# layers. The paper itself doubts this. In our plain network the gradient at the start *grows* more than a
# hundredfold in the backward pass, and predicts the loss over a much shorter distance than with shortcuts
# (*Further*). Gradients at the start cannot show whether this is why training fails.
#
# ### The full family
#
# The ResNets for ImageNet have four stages. Their blocks have two 3×3 convolutions up to 34 layers, and
# are **bottlenecks** (figure in 3.5) from 50 layers on. If a block changes the shape, its shortcut is a
# 1×1 convolution.


# %%
def unit(x, maps, k, stride=1, bias=False, relu=True, groups=1):
    """Convolution, batch normalisation, ReLU."""
    options = {"padding": "same", "use_bias": bias, "groups": groups}
    x = layers.BatchNormalization()(layers.Conv2D(maps, k, stride, **options)(x))
    return layers.ReLU()(x) if relu else x


def block(x, maps, stride, bottleneck, late, bias, groups=1):
    """y = x + F(x). late: a bottleneck's stride is in its 3×3. groups > 1: ResNeXt."""
    if bottleneck:
        first, second = (1, stride) if late else (stride, 1)
        inside = maps if groups == 1 else 2 * maps
        y = unit(x, inside, 1, first, bias)
        y = unit(y, inside, 3, second, bias, groups=groups)
        y = unit(y, 4 * maps, 1, 1, bias, relu=False)
    else:
        y = unit(unit(x, maps, 3, stride, bias), maps, 3, 1, bias, relu=False)
    if x.shape[1:] != y.shape[1:]:
        x = unit(x, y.shape[-1], 1, stride, bias, relu=False)
    return layers.ReLU()(layers.Add()([x, y]))


# %%
RESNETS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
RESNETS |= {101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def resnet(depth, late=False, bias=False, groups=1):
    """ResNet of 18, 34, 50, 101 or 152 layers for (N, 224, 224, 3)."""
    x = image = keras.Input((224, 224, 3))
    x = unit(x, 64, 7, 2, bias)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)  # (N, 56, 56, 64)
    for stage, n in enumerate(RESNETS[depth]):
        for i in range(n):
            stride = 2 if stage > 0 and i == 0 else 1
            x = block(x, 64 * 2**stage, stride, depth >= 50, late, bias, groups)
    x = layers.GlobalAveragePooling2D()(x)  # (N, 7, 7, C) -> (N, C)
    return keras.Model(image, layers.Dense(1000)(x))


# %%
PAPER = {18: 1.8, 34: 3.6, 50: 3.8, 101: 7.6, 152: 11.3}  # billions, He et al.
TORCHVISION = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032}
TORCHVISION |= {101: 44_549_160, 152: 60_192_808}
resnets = {d: count(sketch(resnet, d)) for d in RESNETS}
late = {d: count(sketch(resnet, d, late=True)) for d in (50, 101, 152)}
table = pd.DataFrame({"paper": PAPER})
for name, counts in (("counted", resnets), ("late stride", late)):
    work = {d: t["multiply-adds"].sum() / 1e9 for d, t in counts.items()}
    table[name] = pd.Series(work)
display(table.round(2).rename_axis("G multiply-adds"))
same = [t["parameters"].sum() == TORCHVISION[d] for d, t in resnets.items()]
claim("The parameters are those of torchvision, to the last one", all(same))
close = np.allclose(table["counted"], table["paper"], 0.02)
claim("the work is the paper's, within 2%", close)
sums = [t[["parameters", "multiply-adds"]].sum() for t in (alex, resnets[152])]
reuse = [total["multiply-adds"] / total["parameters"] for total in sums]
claim("a parameter of ResNet-152 is used 16 times as often as one of AlexNet",
      round(reuse[1] / reuse[0]) == 16)  # fmt: skip

# %% [markdown]
# The parameters are those of torchvision, to the last one; the work is the paper's, within 2%.
# Torchvision puts the stride of a bottleneck into its 3×3 convolution ("v1.5"), which costs 6% more work
# in ResNet-50. Without large dense layers, a parameter of ResNet-152 is used 16 times as often as one of
# AlexNet.
#
# ## 3.9 Later networks
#
# Later networks aim at the same accuracy at a lower cost, or a higher one at the same cost:
#
# - **ResNeXt** (2016) doubles the maps inside a bottleneck and splits its 3×3 into 32 groups, for nearly
#   the same work.
# - **MobileNetV2** (2018) goes further: depthwise 3×3 convolutions, between 1×1 convolutions that add and
#   remove maps.
# - **EfficientNet** (2019) has such blocks, arranged by an automatic search; a small network in each
#   block scales its maps. Larger versions increase depth, width and resolution together.
# - **ConvNeXt** (2022) is a ResNet redesigned to resemble a transformer, with depthwise 7×7 convolutions,
#   layer normalisation, GELU (a smooth ReLU) and long training.
#
# The accuracies are torchvision's (top-1: the highest score is on the right class; ImageNet's validation
# set, one 224×224 crop, version 1 of the weights). We count everything else. (*Further* builds GoogLeNet,
# of which torchvision's is a slight variant, and ConvNeXt-T. Torchvision's AlexNet is narrower and has no
# groups: 0.71 billion multiply-adds, about as many as the network of 3.2, while our ungrouped one in this
# table has 1.14.)


# %%
def facts(model):
    """[million parameters, billion multiply-adds, MB kept]"""
    total = count(model)[["parameters", "multiply-adds", "kept"]].sum()
    return list(total / [1e6, 1e9, 1e6 / 4])


# %%
V15, apps = {"late": True}, keras.applications
NETWORKS = {  # year, top-1 in %, and how it is built, or its facts
    "AlexNet": (2012, 56.522, alexnet, {"groups": 1}),
    "VGG-16": (2014, 71.592, vgg, {"which": "D"}),
    "VGG-19": (2014, 72.376, vgg, {"which": "E"}),
    "GoogLeNet": (2014, 69.778, [6.9986, 1.5827, 18.580], {}),
    "ResNet-18": (2015, 69.758, resnet, {"depth": 18}),
    "ResNet-34": (2015, 73.314, resnet, {"depth": 34}),
    "ResNet-50": (2015, 76.130, resnet, V15 | {"depth": 50}),
    "ResNet-101": (2015, 77.374, resnet, V15 | {"depth": 101}),
    "ResNet-152": (2015, 78.312, resnet, V15 | {"depth": 152}),
    "ResNeXt-50": (2016, 77.618, resnet, V15 | {"depth": 50, "groups": 32}),
    "MobileNetV2": (2018, 71.878, apps.MobileNetV2, {"weights": None}),
    "EfficientNet-B0": (2019, 77.692, apps.EfficientNetB0, {"weights": None}),
    "ConvNeXt-T": (2022, 82.520, [28.5825, 4.4559, 108.538], {}),
}

# %% [markdown]
# ## 3.10 What was paid?
#
# **Guess**: by what factors does ResNet-152 exceed AlexNet in multiply-adds and in kept outputs?

# %%
guess("multiply-adds of ResNet-152 over AlexNet's", unit="×")
guess("kept outputs of ResNet-152 over AlexNet's", unit="×")
PRICES, rows = ["M parameters", "G multiply-adds", "MB kept"], {}
for name, (year, top1, build, options) in NETWORKS.items():
    known = build if isinstance(build, list) else facts(sketch(build, **options))
    rows[name] = [year, *known, top1]
published = pd.DataFrame(rows, index=["year", *PRICES, "top-1"]).T
display(published.round(2).astype({"year": int}))
old, new = published.loc["AlexNet"], published.loc["ResNet-152"]
compare("multiply-adds of ResNet-152 over AlexNet's", new[PRICES[1]] / old[PRICES[1]])
compare("kept outputs of ResNet-152 over AlexNet's", new[PRICES[2]] / old[PRICES[2]])

# %%
fig, axes = plt.subplots(1, 3, figsize=(10.5, 4.4), sharey=True)
FAMILIES = {"ResNet": "o", "VGG": "s", "AlexNet": "X", "GoogLeNet": "P"}  # to 2015
FAMILIES |= {"ResNeXt": "h", "MobileNet": "v", "EfficientNet": "D", "ConvNeXt": "p"}
RETRAINED = 80.858  # ResNet-50, version 2 of torchvision's weights
for ax, column in zip(axes, PRICES, strict=True):
    for family, marker in FAMILIES.items():
        t = published[published.index.str.startswith(family)]
        names, year = " to ".join(t.index[[0, -1]].unique()), int(t["year"].iloc[0])
        look = {"marker": marker, "ls": "-", "color": palette[int(year > 2015)]}
        ax.plot(t[column], t["top-1"], label=f"{names}, {year}", **look)
    again = [published.loc["ResNet-50", column]], [RETRAINED]
    ax.plot(*again, "k^", label="ResNet-50, recipe of 2021")
    ax.set(xscale="log", xlabel=column)
axes[0].set_ylabel("top-1 accuracy, %")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %%
sixty = [59 < row["M parameters"] < 63 for row in (old, new)]
claim("about sixty million parameters", all(sixty))
rounded = [round(new[price] / old[price]) for price in PRICES[1:]]
claim("10 times the work and keeps 75 times the memory", rounded == [10, 75])
efficient, like = published.loc["EfficientNet-B0"], published.loc["ResNet-101"]
cheap = [round(like[price] / efficient[price]) for price in PRICES[:2]]
claim("an eighth of its parameters and a twentieth of its work",
      cheap == [8, 20] and efficient["top-1"] > like["top-1"])  # fmt: skip
gain, more = np.array([RETRAINED, new["top-1"]]) - published.loc["ResNet-50", "top-1"]
claim("gains twice as much as 102 more layers did", 2 <= gain / more < 2.5)

# %% [markdown]
# *(Figure: top-1 accuracy of thirteen networks over parameters, multiply-adds and kept megabytes, each
# logarithmic; blue to 2015, orange later. Lines join the five ResNets and the two VGGs. The ResNets rise
# along a flattening curve. Over parameters AlexNet and the VGGs lie far to the right of it, over
# multiply-adds the VGGs do. MobileNetV2, EfficientNet-B0 and ConvNeXt-T lie to the left of it, except
# MobileNetV2 over kept megabytes. A triangle nearly five points above ResNet-50 is the same network with
# the recipe of 2021.)*
#
# **What changed from 57 to 78?** Not the number of parameters: both have about sixty million parameters.
# They moved from dense layers, where each is used once per image, into convolutions, and batch
# normalisation and shortcuts made 152 layers trainable. Compared with our ungrouped AlexNet, ResNet-152
# does 10 times the work and keeps 75 times the memory. (Compared with the two-GPU network of 2012, or
# with torchvision's, it does 16 times the work.)
#
# Is that necessary? No. EfficientNet-B0 is as accurate as ResNet-101 with an eighth of its parameters and
# a twentieth of its work, though not in a twentieth of the *time* (*Further*), and it was trained with
# more augmentation. No count contains this **recipe**, everything about training except the network. With
# torchvision's recipe of 2021 (longer, with stronger augmentation; the triangle), ResNet-50 gains twice
# as much as 102 more layers did.
#
# Which of these changes *makes* a network accurate? Published networks cannot show it: the deeper ones
# are also later, keep more outputs, and have batch normalisation and shortcuts, and their recipes differ.
# An experiment that changes one thing can, as in 3.7 and 3.8. One such pair is published: torchvision's
# VGG-16 has an accuracy of 73.4% with batch normalisation and 71.6% without.
#
# ## What was learned
#
# 1. A layer has three sizes: $(k^2C + 1)K$ parameters, $H_oW_o k^2 C K$ multiply-adds and $H_oW_oK$
#    outputs to keep. In AlexNet and VGG each is largest in a different layer.
# 2. Counts depend on conventions: biases, groups, moving averages, multiply-adds or FLOPs, the position
#    of a stride.
# 3. Small filters, 1×1 reductions and global average pooling save parameters or work.
# 4. Batch normalisation makes the loss independent of the scale of the weights, and training tolerates
#    much larger learning rates.
# 5. Deep plain networks have a higher training error than shallower ones. In ours, the gradient at the
#    start does not vanish but grows in the backward pass. Shortcuts prevent the failure, without a single
#    parameter.
# 6. From 2012 to 2015, accuracy rose with depth and with kept outputs, and hardly with parameters; later
#    networks and recipes need less. Published networks cannot show which change makes a network accurate.
#
# **Open questions.** (a) Which has the lower test error at equal work, a wider network or a deeper one?
# (b) How would you separate the effect of depth from that of kept outputs? (c) *Hardware.* Which of the
# three counts limits training on your GPU, and which limits inference?
#
# **Today.** Convolutional networks run where memory and time are short, as on phones and in cameras. Most
# large vision models are transformers (Dosovitskiy et al. 2021). They keep the parts of this lecture: 1×1
# convolutions, called dense layers on tokens; a shortcut and a normalisation around every block; GELU
# instead of ReLU. Their parameters are counted in the same way; lecture 11 asks what to do if they do not
# fit.
#
# **Next.** Assignment 03, *Count and build*, asks for the counter, a residual block, and batch
# normalisation folded into a convolution. Then **[04, one device, fast](04_one_device_fast.ipynb)** asks
# how long these multiply-adds take.
#
# ## Further
#
# Nothing later in the course requires this section.
#
# ### Exercises
#
# 1. Count VGG-16 for 448×448 photographs. Which of the three counts grow, and by what factor? How does
#    the first dense layer change?
#
# <details><summary>Answer</summary>
#
# The convolutions' parameters stay the same; their multiply-adds and outputs grow fourfold. The first
# dense layer sees 14×14 instead of 7×7 positions, so its weights and its multiply-adds grow fourfold,
# too.
#
# </details>
#
# 2. Replace each 3×3 of `stack` by a depthwise 3×3 and a 1×1. By what factor do parameters and
#    multiply-adds of a layer with $C$ channels in and out fall? How do the kept outputs change?
#
# <details><summary>Answer</summary>
#
# $9C^2$ becomes $9C + C^2$, for both counts: a factor of $9C/(9 + C)$, 4.2 for $C$ = 8 and 7 for $C$ =
# 32. Two layers store their maps instead of one, so the kept outputs double.
#
# </details>
#
# 3. Inference keeps nothing for a backward pass. What determines its memory?
#
# <details><summary>Answer</summary>
#
# The parameters, once, and the largest sum of outputs that are needed at the same time: input and output
# of the largest layer, and whatever a shortcut must keep in the meantime.
#
# </details>
#
# At the computer: run `python runs/03_small_networks.py --seeds 3 4 --out runs/more_seeds.json` (about
# half an hour on two cores), and join both records in the cell that reads the first. Does any conclusion
# change? Give `probe` a `stack` with `norm=False`: does the gradient vanish now?
#
# ### Two independent counts
#
# Keras counts the variables that it creates. TensorFlow's profiler knows nothing of Keras' layers: it
# looks at the *operations* of the graph and at their shapes. (It cannot count AlexNet's groups, which
# Keras compiles, so we count AlexNet without groups.)


# %%
def by_tensorflow(graph):
    """FLOPs of a graph by kind of operation, from TensorFlow's profiler."""
    wanted = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    node = tf.compat.v1.profiler.profile(graph, cmd="op", options=wanted | {"output": "none"})
    kinds = {}
    while node.children:  # a chain, one kind of operation below the other
        node = node.children[0]
        kinds[node.name] = node.float_ops
    return kinds


# %%
def check(name, build, *arguments, **options):
    """Count a network and compare with both witnesses; returns the table of its layers."""
    with tf.Graph().as_default() as graph:
        model = build(*arguments, **options)
        y = model(tf.compat.v1.placeholder(tf.float32, (1, *model.input.shape[1:])))  # for one image
    only = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(add_shapes=True), [y.op.name])
    with tf.Graph().as_default() as forward:  # without the random start of the weights
        tf.import_graph_def(only, name="")
    table, kinds = count(model), by_tensorflow(forward)
    theirs = sum(math.prod(v.shape) for v in model.trainable_variables)
    products = sum(kinds.get(kind, 0) for kind in ("Conv2D", "DepthwiseConv2dNative", "MatMul"))
    assert table["parameters"].sum() == theirs, f"{name}: Keras counts {theirs:,} parameters"
    assert 2 * table["multiply-adds"].sum() == products, f"{name}: TensorFlow counts {products:,} FLOPs"
    rest = table.attrs["rest"] = 1 - products / sum(kinds.values())
    print(f"{name:14} {theirs:12,} parameters {products // 2:15,} multiply-adds; all else {rest:.2%}")
    return table


checked = {"LeNet-5": check("LeNet-5", lenet5), "VGG-16": check("VGG-16", vgg)}
checked["AlexNet"] = check("AlexNet", alexnet, groups=1)
checked["ResNet-50"] = check("ResNet-50", resnet, 50)
rest = {name: table.attrs["rest"] for name, table in checked.items()}
claim("less than 2% everywhere", max(rest.values()) < 0.02)

# %% [markdown]
# Parameters and products agree exactly. What the counter neglects (biases, pooling and the like) is less
# than 2% everywhere.
#
# ### GoogLeNet, module by module
#
# Its paper prints parameters and operations of each module (table 1).

# %%
MODULES = {  # 1×1, (reduce, 3×3), (reduce, 5×5), pool; the paper's K parameters, M operations
    "3a": (64, (96, 128), (16, 32), 32, 159, 128),
    "3b": (128, (128, 192), (32, 96), 64, 380, 304),
    "4a": (192, (96, 208), (16, 48), 64, 364, 73),
    "4b": (160, (112, 224), (24, 64), 64, 437, 88),
    "4c": (128, (128, 256), (24, 64), 64, 463, 100),
    "4d": (112, (144, 288), (32, 64), 64, 580, 119),
    "4e": (256, (160, 320), (32, 128), 128, 840, 170),
    "5a": (256, (160, 320), (32, 128), 128, 1072, 54),
    "5b": (384, (192, 384), (48, 128), 128, 1388, 71),
}


# %%
def googlenet():
    """GoogLeNet for (N, 224, 224, 3), without its auxiliary classifiers, which exist in training only."""
    x = image = keras.Input((224, 224, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(x, 64, 7, 2))  # (N, 56, 56, 64)
    x = conv(conv(x, 64, 1), 192, 3)
    for name, (*plan, _, _) in MODULES.items():
        if name in ("3a", "4a", "5a"):
            x = layers.MaxPooling2D(3, 2, padding="same")(x)
        x = inception(x, *plan)
    x = layers.GlobalAveragePooling2D()(x)  # (N, 7, 7, 1024) -> (N, 1024)
    return keras.Model(image, layers.Dense(1000)(x))


google = sketch(googlenet)
claim("the numbers of 3.9", np.allclose(facts(google), NETWORKS["GoogLeNet"][2], rtol=1e-3))
google = check("GoogLeNet", googlenet)

# %%
rows = google[google["layer"].str.startswith("conv")].iloc[3:]  # after the three convolutions at the bottom
ours = rows.groupby(np.repeat(list(MODULES), 6), sort=False)[["parameters", "multiply-adds"]].sum()
table = pd.DataFrame({"parameters / 1024": ours["parameters"] / 1024, "paper, K": 0})
table["paper, K"] = [plan[-2] for plan in MODULES.values()]
table["million multiply-adds"] = ours["multiply-adds"] / 1e6
table["paper, M"] = [plan[-1] for plan in MODULES.values()]
display(table.round(1))
outside = 2.7 + 112 + 1000  # the same table: first convolutions and classifier
theirs = (table["paper, K"].sum() + outside) * 1024 / 1e6
print(f"sum of the paper's column, K = 1024: {theirs:.2f} M parameters", end="; ")
print(f"our network: {google['parameters'].sum() / 1e6:.2f} M")

# %% [markdown]
# Our network has the numbers of 3.9. The *work* agrees with the paper's to within a million in eight of
# nine modules. The *parameters* agree in some modules (with K = 1024) and differ by up to 8% in others,
# although the filters are the paper's own: with the printed widths, 4a cannot have 364 K. We trust the
# widths. (Also, the first layer has 7·7·3·64 = 9,408 weights, not 2.7 K. The paper's total of 1.5 G
# operations and ours differ by about this layer.) A slide gives GoogLeNet 5 million parameters, probably
# from the paper's introduction, "12 times fewer" than AlexNet's 60.
#
# ### ConvNeXt-T


# %%
def convnext(maps=(96, 192, 384, 768), blocks=(3, 3, 9, 3)):
    """ConvNeXt-T for (N, 224, 224, 3), without LayerScale (one factor for each map of a block)."""

    def norm(x):
        return layers.LayerNormalization(epsilon=1e-6)(x)

    x = image = keras.Input((224, 224, 3))
    x = norm(layers.Conv2D(maps[0], 4, 4)(x))
    for stage, n in enumerate(blocks):
        C = maps[stage]
        x = layers.Conv2D(C, 2, 2)(norm(x)) if stage else x
        for _ in range(n):
            y = norm(layers.DepthwiseConv2D(7, padding="same")(x))
            y = layers.Activation("gelu")(layers.Dense(4 * C)(y))  # on (N, H, W, C): a 1×1 convolution
            x = layers.Add()([x, layers.Dense(C)(y)])
    return keras.Model(image, layers.Dense(1000)(norm(layers.GlobalAveragePooling2D()(x))))


ours = facts(sketch(convnext))
print(f"{ours[0]:.4f} million parameters, {ours[1]:.2f} G multiply-adds")
factors = sum(np.multiply((96, 192, 384, 768), (3, 3, 9, 3)))
claim("the numbers of 3.9", np.allclose(ours, NETWORKS["ConvNeXt-T"][2], rtol=1e-4))
claim("With its factors it has torchvision's 28,589,128 parameters",
      round(1e6 * ours[0]) + factors == 28_589_128)  # fmt: skip

# %% [markdown]
# These are the numbers of 3.9. With its factors it has torchvision's 28,589,128 parameters.
#
# ### How much memory does a step take?
#
# We run forward and backward passes of a mini-AlexNet for the 28×28 images of Fashion-MNIST with larger
# and larger batches. The operating system reports the peak memory of the process, and we fit a line to
# it: its slope is the memory per image. (Any of the eight layers can be left out, which the next section
# uses. `he_normal` draws weights with variance $2 / (k^2 C)$, so that the outputs of all layers have a
# similar size.)


# %%
def mini_alexnet(removed=()):
    """AlexNet's eight layers for (N, 28, 28, 1), without those in `removed`."""
    x = image = keras.Input((28, 28, 1))
    options = {"activation": "relu", "kernel_initializer": "he_normal"}
    for i, maps in enumerate([16, 32, 48, 48, 32], 1):
        if i not in removed:
            x = layers.Conv2D(maps, 5 if i == 1 else 3, padding="same", **options)(x)
        if i in (1, 2, 5):
            x = layers.MaxPooling2D(3, 2)(x)
    x = layers.Flatten()(x)
    for i in (6, 7):
        if i not in removed:
            x = layers.Dense(256, **options)(x)
    return keras.Model(image, layers.Dense(10, kernel_initializer="he_normal")(x))


# %%
import resource
import sys
import time

mini = mini_alexnet()
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function(reduce_retracing=True)
def gradients(images, labels):
    """Forward and backward once; the gradients are added up so that none can be left out."""
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, mini(images, training=True))
    return [tf.reduce_sum(g) for g in tape.gradient(loss, [v.value for v in mini.trainable_variables])]


# %% tags=["measured"]
batches, peaks = [512, 1024, 2048, 3072], []
per = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
for N in batches:
    for _ in range(2):
        gradients(tf.zeros((N, 28, 28, 1)), tf.zeros(N, tf.int32))
    peaks.append(per * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
slope = np.polyfit(batches, peaks, 1)[0]
kept = 4 * count(mini)["kept"].sum()
print(f"predicted {kept / 1e3:.0f} kB an image, measured {slope / 1e3:.0f} kB")
claim("More than the formula", slope > kept)

# %% [markdown]
# More than the formula, by a factor of one and a half to about two from run to run: gradients of outputs
# and the library's workspace are added. (Run this cell only once per kernel, because the recorded peak
# never decreases.)
#
# ### How many layers, how many images?
#
# Zeiler and Fergus (2013) took layers out of AlexNet and trained the rest (their table 3, errors on
# ImageNet's validation set). The whole network has an error of 40.5%; without two dense layers (54 of 61
# million parameters) it is 44.8%, without two convolutions 45.4%, without all four 71.3%, and nearly as
# much on the *training* images. Does our mini-AlexNet need these four layers? It was trained on 5,000
# images of Fashion-MNIST for 10 epochs, with a learning rate that falls from 0.02 along a cosine and with
# three seeds (recorded).

# %%
ZEILER = pd.DataFrame(
    {"train": [35.1, 27.4, 27.4, 41.8, 71.1], "test": [40.5, 40.0, 44.8, 45.4, 71.3]},
    index=["none", "7", "6, 7", "3, 4", "3, 4, 6, 7"],  # layers that are missing
)  # top-1 error on ImageNet's training and validation set: the highest score is on a wrong class
fewer = runs["depth"]
for removed, group in fewer.groupby("removed"):  # the networks that were trained
    skip = [int(i) for i in removed.split(", ")] if removed != "none" else []
    assert set(group["parameters"]) == {sketch(mini_alexnet, skip).count_params()}

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.3), sharey=True)
places, names = np.arange(len(ZEILER)), {"train": "training error", "test": "validation or test error"}
for ax, what in zip(axes, names, strict=True):
    theirs = ZEILER[what] - ZEILER.loc["none", what]
    seeds = fewer.pivot(index="removed", columns="seed", values=what).loc[ZEILER.index]
    ax.bar(places - 0.15, theirs, 0.3, color="0.8", edgecolor="0.3", label="AlexNet, ImageNet (paper)")
    look = {"ls": "", "marker": "o", "color": palette[1], "mfc": "none"}
    label = ["mini-AlexNet, each of three seeds", "_", "_"]
    ax.plot(places + 0.15, seeds - seeds.loc["none"].mean(), **look, label=label)
    ax.set_xticks(places, ZEILER.index)
    ax.set(xlabel="layers left out", title=names[what])
axes[0].set_ylabel("points above the whole network")
axes[0].legend(loc="upper left")
plt.show()
less = fewer.groupby("removed")["test"].mean()
claim("within a point", abs(less["3, 4, 6, 7"] - less["none"]) < 1)

# %% [markdown]
# *(Figure: points of error above the whole network, for five networks, left of the training, right of the
# validation or test set. Grey bars, AlexNet on ImageNet: between −8 and +7 points for one or two missing
# layers, above thirty for four. Circles, our mini-AlexNet: all within three points of zero.)*
#
# Without four of its layers, AlexNet fails even on its training images. Without the same layers, our
# mini-AlexNet has a tenth of its parameters, and its mean test error stays within a point. Ten kinds of
# clothing in grey images do not need eight layers.
#
# What limits a network on such data? Sun et al. (2017) found that accuracy grows with the *logarithm* of
# the number of images, up to 300 million. We train the small network for 300 steps with batches of 50,
# drawn from 100 to 10,000 different images:

# %%
small = mini_alexnet([3, 4, 6, 7])


@tf.function
def sgd_step(images, labels, rate):
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, small(images, training=True))
    gradients = tape.gradient(loss, [v.value for v in small.trainable_variables])
    for v, g in zip(small.trainable_variables, gradients, strict=True):
        v.assign_sub(rate * g)


def learn(x, y, seed, steps=300):
    """Train `small` from scratch on batches of 50 from x (N, 28, 28, 1); errors on x and test set in %."""
    rng = np.random.default_rng(seed)
    for i, v in enumerate(small.trainable_variables):
        v.assign(keras.initializers.HeNormal(seed=100 * seed + i)(v.shape) if len(v.shape) > 1 else 0 * v)
    for step in range(steps):
        take, rate = rng.integers(len(x), size=50), 0.1 * (1 - step / steps)
        sgd_step(tf.constant(x[take]), tf.constant(y[take]), tf.constant(rate, tf.float32))
    sets = [(x[:2000], y[:2000]), (test_x, test_y)]
    return [100 * np.mean(small(images).numpy().argmax(1) != labels) for images, labels in sets]


# %% tags=["measured"]
all_x, all_y = fashion_mnist("train", 30_000)
test_x, test_y = fashion_mnist("test", 2000)
sizes = [100, 300, 1000, 3000, 10_000]
errors = np.array([[learn(all_x[s::3][:n], all_y[s::3][:n], s) for s in range(3)] for n in sizes])
fig, ax = plt.subplots(figsize=(7.4, 3.5))
for which, name in enumerate(["on the images it was trained with", "on the test set"]):
    some = errors[:, :, which]  # (sizes, seeds)
    ax.plot(sizes, some.mean(1), label=name, color=palette[which])
    ax.fill_between(sizes, some.min(1), some.max(1), color=palette[which], alpha=0.2)
ax.set(xscale="log", xlabel="different training images", ylabel="error, %", ylim=(0, None))
ax.legend()
plt.show()
test = errors[:, :, 1].mean(1)
claim("Each tenfold increase gains less than the one before",
      test[0] - test[2] > test[2] - test[4] > 0)  # fmt: skip

# %% [markdown]
# *(Figure: error over the number of different training images, 100 to 10,000, logarithmic; line: mean,
# band: three seeds. The test error falls and flattens. The training error rises from nearly zero, until
# the two lines almost meet.)*
#
# With few images the network memorises them; the gap between the lines shows how much worse it is on new
# images. Each tenfold increase gains less than the one before. With 10,000 images, 300 steps show it each
# image 1.5 times, so more images could hardly help; more steps or a better network might (lecture 02).
#
# ### Does the gradient vanish?
#
# Before the first step, we divide the norm of the gradient by the norm of the weights for each
# convolution of the plain network of 56 layers. **Guess** the first layer's ratio divided by the last
# one's. If the gradient vanishes, it is much less than 1.

# %%
guess("gradient, first over last layer, plain 56", unit="×")
half = all_x[:64].reshape(-1, 14, 2, 14, 2, 1).mean((2, 4))  # (64, 14, 14, 1)


def probe(model):
    """Loss and gradients of the convolutions' weights on 64 images, and these weights."""
    kernels = [v for v in model.trainable_variables if len(v.shape) == 4]

    @tf.function
    def evaluate():
        with tf.GradientTape() as tape:
            loss = cross_entropy(all_y[:64], model(half, training=True))
        return loss, tape.gradient(loss, [v.value for v in kernels])

    return evaluate, kernels


# %%
fig, ax = plt.subplots(figsize=(7, 3.6))
for flag, kind in KINDS.items():
    (evaluate, kernels), sizes = probe(stack(9, flag)), []
    for seed in range(3):
        for j, v in enumerate(kernels):
            v.assign(keras.initializers.HeNormal(seed=1000 * seed + j)(v.shape))
        pairs = zip(evaluate()[1], kernels, strict=True)
        sizes.append([float(tf.norm(g) / tf.norm(v)) for g, v in pairs])
    look = {"color": palette[flag], "ls": "-" if flag else "--", "marker": ""}
    sizes = np.median(sizes, axis=0)
    ax.semilogy(1 + np.arange(len(sizes)), sizes, label=kind, **look)
    if not flag:
        compare("gradient, first over last layer, plain 56", sizes[0] / sizes[-1])
        grows = sizes[0] > 100 * sizes[-1]
        claim("does not vanish; it grows more than a hundredfold", grows)
ax.set(xlabel="layer, from the input", ylabel="length of gradient / of weights")
ax.legend(title="56 layers, at the start")
plt.show()

# %% [markdown]
# *(Figure: length of the gradient over that of the weights along the layers, logarithmic. Residual:
# falling slowly. Plain: a nearly straight line that falls by more than two orders of magnitude from the
# input to the output.)*
#
# Here the gradient of the plain network does not vanish; it grows more than a hundredfold in the backward
# pass, up to the input. Yang et al. (2019) derive this from batch normalisation itself. So a learning
# rate that suits the last layers is probably far too large for the first ones. We look only at the start,
# at 64 images and at narrow layers; He et al. report healthy gradient norms for plain networks of up to
# 34 wide layers.
#
# ### How far does a gradient describe the loss?
#
# To first order, a short step against the gradient lowers the loss by slope times length. We take the
# step and measure **what share of this predicted fall occurs**. The length of the step is a fraction of
# the length of all weights, or of each layer's weights. (We leave out steps with a predicted fall above
# the loss, which cannot occur, or below $10^{-5}$, which float32 does not resolve.)

# %%
STEPS = np.array([1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2])
WAYS = ("all weights", "each layer")  # whose length the step is a fraction of


def length(tensors):
    return float(tf.linalg.global_norm(tensors))


def occurs(blocks, residual, seeds=(0, 1, 2)):
    """Shares of the predicted fall that occur, (seeds, ways, steps); NaN: left out."""
    evaluate, kernels = probe(stack(blocks, residual))
    shares = np.full((len(seeds), len(WAYS), len(STEPS)), np.nan)
    for i, seed in enumerate(seeds):
        for j, v in enumerate(kernels):
            v.assign(keras.initializers.HeNormal(seed=1000 * seed + j)(v.shape))
        start, (loss, gradient) = [v.numpy() for v in kernels], evaluate()
        sizes = [length([g]) / length([w]) for w, g in zip(start, gradient, strict=True)]
        whole = length(start) / length(gradient)
        for way, factors in enumerate([[whole] * len(kernels), [1 / size for size in sizes]]):
            slope = sum(f * length([g]) ** 2 for f, g in zip(factors, gradient, strict=True))
            for s in np.flatnonzero((STEPS * slope > 1e-5) & (STEPS * slope < float(loss))):
                for v, w, f, g in zip(kernels, start, factors, gradient, strict=True):
                    v.assign(w - STEPS[s] * f * g)
                shares[i, way, s] = float(loss - evaluate()[0]) / (STEPS[s] * slope)
    return shares


# %%
probed = {(n, flag): occurs(n, flag) for n in (1, 3, 9) for flag in KINDS}
reach, fig = {}, plt.figure(figsize=(7, 3.8))
for (n, flag), shares in probed.items():
    half_way = [STEPS[np.flatnonzero(mean >= 0.5)[-1]] for mean in shares.mean(0)]
    reach[f"{KINDS[flag]}, {6 * n + 2} layers"] = half_way
    look = {"color": palette[flag], "ls": "-" if flag else "--", "marker": {1: "o", 3: "s", 9: "^"}[n]}
    look |= {"label": f"{KINDS[flag]}, {6 * n + 2}", "mfc": palette[flag] if flag else "none"}
    share = shares[:, 0]
    plt.plot(STEPS, share.mean(0), **look)
    plt.fill_between(STEPS, share.min(0), share.max(0), color=palette[flag], alpha=0.12)
plt.xscale("log")
plt.xlabel("step / length of all weights")
plt.ylabel("share of the predicted fall")
plt.legend(fontsize=9, loc="lower left")
plt.show()
print("longest step of our grid with half of the predicted fall, as a fraction of the length of")
display(pd.DataFrame(reach, index=WAYS).T.map("{:.0e}".format))
far, near = reach["residual, 56 layers"][0], reach["plain, 56 layers"][0]
claim("a step a hundred times as short", near * 100 < far)

# %% [markdown]
# *(Figure: share of the predicted fall of the loss over the length of the step. With more layers the
# curves move to the left, the plain ones much further: plain with 20 layers lies a little left of
# residual with 56, and plain with 56 far left of all.)*
#
# At the start, the gradient of 56 plain layers predicts the loss only for a step a hundred times as short
# as with shortcuts, or for an even shorter one. (Balduzzi et al. 2017 call a close relative *shattered
# gradients*.)
#
# ### How deep are they?
#
# The depth is the number of layers with weights on the longest path, without the branches that only scale
# maps. How strongly do four counts and the year correlate with accuracy?


# %%
def depth(model):
    """Layers with weights on the longest path from the input to the output."""
    deep = {}
    for op in model.operations:  # each comes after those it needs
        inputs = keras.tree.flatten(op.input)
        inputs = inputs[:1] if isinstance(op, layers.Multiply) else inputs
        before = max((deep.get(id(tensor), 0) for tensor in inputs), default=0)
        deep[id(op.output)] = before + isinstance(op, WEIGHTED)
    return max(deep.values())


known = {"GoogLeNet": googlenet, "ConvNeXt-T": convnext}
models = {n: sketch(known.get(n, row[2]), **row[3]) for n, row in NETWORKS.items()}
deepest = published.assign(depth={name: depth(model) for name, model in models.items()})
ranks = {"nine, to 2015": deepest[deepest["year"] < 2016].rank().corr()["top-1"]}
ranks["all 13"] = deepest.rank().corr()["top-1"]
display(deepest["depth"].astype(int).to_frame().T)
display(pd.DataFrame(ranks).drop("top-1").round(2).rename_axis("rank correlation"))
closest = ranks["nine, to 2015"][["MB kept", "depth"]].min()
claim("memory and depth are correlated with accuracy far more strongly than parameters are",
      closest > 0.9 and ranks["nine, to 2015"]["M parameters"] < 0.2)  # fmt: skip

# %% [markdown]
# Among the nine networks up to 2015, memory and depth are correlated with accuracy far more strongly than
# parameters are. Nine networks cannot show which of the two matters: if two neighbours swap ranks, a
# coefficient changes by more than these two differ.
#
# ### How long does one image take?
#
# EfficientNet-B0 makes a quarter of GoogLeNet's multiply-adds. We time the forward pass of one image with
# all networks in turn, on this machine. (ResNeXt-50 is missing: without a compiler, TensorFlow has no
# grouped convolution for CPUs.)


# %% tags=["measured"]
def ready(name):
    """A function that sends one image through a network, and waits."""
    *_, build, options = NETWORKS[name]
    build = {"GoogLeNet": googlenet, "ConvNeXt-T": convnext}.get(name, build)
    model = build(**options)
    forward = tf.function(lambda images: model(images, training=False))
    image = tf.random.normal((1, *model.input.shape[1:]))
    return lambda: forward(image).numpy()


timed = {name: ready(name) for name in NETWORKS if name != "ResNeXt-50"}
taken = {name: [] for name in timed}
for turn in range(11):
    for name, call in timed.items():
        start = time.perf_counter()
        call()
        if turn > 1:  # the first two are not counted
            taken[name].append(1e3 * (time.perf_counter() - start))

# %% tags=["measured"]
spread = pd.DataFrame(taken).quantile([0, 0.5, 0.75]).T
spread.columns = ["ms, least", "median", "upper quartile"]
rate = 1e3 * published["G multiply-adds"] / spread["ms, least"]
display(spread.assign(rate=rate).rename(columns={"rate": "G multiply-adds per s"}).round(1))
slower = spread.loc["EfficientNet-B0", "ms, least"] / spread.loc["GoogLeNet", "ms, least"]
print(f"EfficientNet-B0 takes {slower:.2f} times as long as GoogLeNet")
claim("more than half of GoogLeNet's time", slower > 0.5)
fraction = spread.loc["EfficientNet-B0", "ms, least"] / spread.loc["ResNet-101", "ms, least"]
claim("more than a tenth of ResNet-101's", fraction > 0.1)
claim("VGG-16 makes more than twice as many multiply-adds per second",
      rate["VGG-16"] > 2 * rate["EfficientNet-B0"])  # fmt: skip

# %% [markdown]
# EfficientNet-B0 takes more than half of GoogLeNet's time, and more than a tenth of ResNet-101's: VGG-16
# makes more than twice as many multiply-adds per second. (We compare the shortest of nine times, which is
# least affected by other programs.) The likely reasons are that depthwise layers compute little with each
# number that they load (lecture 01's roofline), and that each of many small operations has a fixed cost.
# Lecture 04 measures where such a time is spent.
#
# ### The 60,000 parameters of 1998
#
# Our LeNet-5 has more parameters than the paper reports. Both numbers are right. The LeNet-5 of 1998 has
# pooling layers with a trainable coefficient and a bias for each map; each of its third layer's 16 maps
# sees only some of the six maps before it (six see 3, nine see 4, one sees 6); and its output layer
# compares its input with ten fixed images, so it has no trainable parameters. (A pooled value has two
# parameters but five connections: four pixels and a bias.) The sums are the paper's "60,000 trainable
# free parameters" and "340,908 connections".

# %%
sees = [3] * 6 + [4] * 9 + [6]  # maps that each of the 16 maps of C3 sees
paper = pd.DataFrame(
    {
        "parameters": [26 * 6, 2 * 6, sum(25 * n + 1 for n in sees), 2 * 16, 401 * 120, 121 * 84, 0],
        "uses of each": [28**2, 14**2 * 5 / 2, 10**2, 5**2 * 5 / 2, 1, 1, 0],
    },
    index=["C1", "S2", "C3", "S4", "C5", "F6", "output (fixed)"],
)
paper["connections"] = paper["parameters"] * paper["uses of each"]
paper.loc["output (fixed)", "connections"] = 84 * 10
display(paper.astype({"parameters": int, "connections": int}))
assert paper["parameters"].sum() == 60_000 and paper["connections"].sum() == 340_908  # as the paper says

# %% [markdown]
# ### The neurons of AlexNet
#
# "60M weights" and "650K neurons" describe the two-GPU network, both rounded down. One number of the
# paper does not follow from its shapes: in the caption of figure 2 the first layer has 253,440 neurons,
# which is 55·48·96, while the shapes give 55·55·96. With 253,440, the sum over all layers is less than
# the 650,000 of the abstract.

# %%
neurons = alex.loc[~alex["layer"].str.contains("pool"), "kept"]
assert sketch(alexnet).count_params() == alex["parameters"].sum()  # two groups: the first witness
print(f"two groups: {alex['parameters'].sum():,} parameters, {alex['multiply-adds'].sum():,} multiply-adds")
print(
    f"neurons (outputs of convolutions and dense layers): {neurons.sum():,}, first layer {neurons.iloc[0]:,}"
)
print(f"with 253,440 in the first layer: {neurons.sum() - neurons.iloc[0] + 253_440:,}")

# %% [markdown]
# ### How many parameters does ResNet-50 have?
#
# Four answers are in use. All are right; their conventions differ. (A bias before a batch normalisation
# has no effect, because the mean is subtracted. Keras has it nevertheless. Lecture 06 uses the number of
# trainable tensors, because the gradient of each must be sent.) For CIFAR-10 the paper states the
# parameters of networks that our `stack` builds.

# %%
for bias, name in [(False, "no biases before a batch norm (torchvision)"), (True, "with biases (Keras)")]:
    model = sketch(resnet, 50, bias=bias)
    trainable = sum(math.prod(v.shape) for v in model.trainable_variables)
    print(f"{name:44} {trainable:,} trainable, {model.count_params():,} with moving averages")
print(f"keras.applications.ResNet50: {sketch(keras.applications.ResNet50, weights=None).count_params():,}")
print(f"trainable tensors, with biases: {len(model.trainable_variables)}")
for n, paper in {3: 0.27, 5: 0.46, 9: 0.85}.items():
    counted = count(sketch(stack, n, True, filters=16, shape=(32, 32, 3)))["parameters"].sum() / 1e6
    print(f"ResNet-{6 * n + 2:<3} {counted:.3f} M, the paper: {paper} M")
    assert abs(counted - paper) < 0.005

# %% [markdown]
# ### Batch normalisation by hand
# The loss does not depend on the scale of the weights before the layer, and with weights ten times as
# large the gradient is a tenth:

# %%
rng = np.random.default_rng(3)
x = rng.normal(5, 3, (32, 7, 7, 4)).astype(np.float32)
kernel = tf.Variable(rng.normal(0, 0.2, (3, 3, 4, 8)).astype(np.float32))
target = rng.normal(0, 1, (32, 7, 7, 8)).astype(np.float32)
lengths = []
for scale in (1, 2, 10):
    scaled = tf.Variable(scale * kernel)
    with tf.GradientTape() as tape:
        y = tf.nn.conv2d(x, scaled, 1, "SAME")
        mean, variance = tf.nn.moments(y, (0, 1, 2))
        loss = tf.reduce_mean(target * (y - mean) / tf.sqrt(variance + 1e-3))
    lengths.append(tf.norm(tape.gradient(loss, scaled)).numpy())
    print(f"weights × {scale:2}: loss {loss:.5f}, gradient of length {lengths[-1]:.6f}")
tenth = 9.9 < lengths[0] / lengths[2] < 10.1
claim("with weights ten times as large the gradient is a tenth", tenth)


# %%
def batch_norm(x, gamma, beta, epsilon=1e-3):
    """x (N, H, W, C) -> the same shape, normalised over all but the last axis"""
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta, mean, variance


x = rng.normal(5, 3, (32, 7, 7, 4)).astype(np.float32)
keras_norm = layers.BatchNormalization(momentum=0.9)
ours, mean, variance = batch_norm(x, gamma=1, beta=0)
difference = np.abs(keras_norm(x, training=True) - ours).max()
print(f"largest difference from Keras: {difference:.1e}")
print(f"moving mean after one step: {keras_norm.moving_mean.numpy().round(3)}, batch mean {mean.round(3)}")
assert difference < 1e-5 and np.allclose(keras_norm.moving_mean, 0.1 * mean, atol=1e-4)

# %% [markdown]
# The moving averages follow `new = 0.9 old + 0.1 of this batch`. (We chose this momentum of 0.9 for short
# runs; Keras' default is 0.99. It has nothing to do with the optimiser's momentum.)
#
# ### What has it learned?
#
# AlexNet's trained first layer has filters for edges in all directions and for blobs of colour (figure 3
# of its paper; Zeiler and Fergus show higher layers). Its training took 1.2 million photographs and 90
# epochs. After ten epochs, the filters of our mini-AlexNet are still close to their random start, as the
# correlations below show. Yet the network is right for most test images: random filters respond to edges,
# too, and small changes in all layers are enough here.

# %%
with np.load("runs/03_mini_alexnet.npz") as file:
    mini.set_weights([file[str(i)].astype(np.float32) for i in range(len(file.files))])
assert record["test"] == len(test_x)
logits = mini.predict(test_x, batch_size=500, verbose=0)
error = 100 * np.mean(logits.argmax(1) != test_y)
recorded = fewer[(fewer["removed"] == "none") & (fewer["seed"] == 0)]["test"].item()
print(f"test error {error:.2f}%, recorded {recorded:.2f}%")
assert abs(error - recorded) < 0.3  # float16 may turn a few close decisions
trained = [layer.kernel.numpy() for layer in mini.layers if layer.weights]
starts = [keras.initializers.HeNormal(seed=i)(w.shape).numpy() for i, w in enumerate(trained, 1)]
for i, (w, start) in enumerate(zip(trained, starts, strict=True), 1):
    alike = np.corrcoef(w.ravel(), start.ravel())[0, 1]
    print(f"layer {i}: correlation of the weights with their random start {alike:.2f}")
boot, bag, shirt, trouser = (
    int(np.flatnonzero((test_y == c) & (logits.argmax(1) == c))[0]) for c in (9, 8, 6, 1)
)

# %% [markdown]
# **Occlusion.** Cover a 6×6 square of the image with grey, slide it over all positions, and record the
# probability of the right class. **Predict** for the boot: at which position does the probability fall
# most?


# %%
def occlusion(image, label, side=6):
    """image (28, 28, 1) -> (23, 23): probability of `label` with a grey square at each place"""
    places = 28 - side + 1
    covered = np.repeat(image[None], places**2, axis=0)
    for i in range(places):
        for j in range(places):
            covered[i * places + j, i : i + side, j : j + side] = 0.5
    scores = mini.predict(covered, batch_size=529, verbose=0)
    return tf.nn.softmax(scores).numpy()[:, label].reshape(places, places)


# %%
def show_occlusion(ax, index):
    """Draw the map of one test image; print what the network sees once the worst place is covered."""
    label, image = int(test_y[index]), test_x[index].copy()
    left = occlusion(image, label)
    shown = ax.imshow(left, cmap="cividis", vmin=0, vmax=1, extent=(2, 25, 25, 2))
    ax.contour(image[..., 0], levels=[0.1], colors="red", linewidths=1)
    i, j = np.unravel_index(left.argmin(), left.shape)
    for edge, width in (("white", 3), ("black", 1)):  # seen on dark and on light
        ax.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 6, 6, fc="none", ec=edge, lw=width))
    ax.set(xlim=(-0.5, 27.5), ylim=(27.5, -0.5), xticks=[], yticks=[])
    ax.set_title(f"{CLASSES[label]}: lowest {left.min():.2f}", fontsize=10)
    ax.grid(False)
    under = image[i : i + 6, j : j + 6].mean()
    image[i : i + 6, j : j + 6] = 0.5
    now = CLASSES[int(mini(image[None]).numpy().argmax())]
    print(f"{CLASSES[label]}: mean grey under the worst place {under:.2f}; covered, it is a {now}")
    return shown


# %%
fig, axes = plt.subplots(1, 4, figsize=(9.5, 2.6))
for ax, index in zip(axes, (boot, bag, shirt, trouser), strict=True):
    shown = show_occlusion(ax, index)
fig.colorbar(shown, ax=axes, shrink=0.8, label="probability left")
plt.show()

# %% [markdown]
# *(Figure: four maps, each with the outline of its garment in red: a boot, a bag, a shirt and trousers.
# Light means that the network is still sure when the square is centred there, dark that it is not; the
# square with a black and white edge marks the position with the lowest probability.)*
#
# Compare the dark positions with the printed mean grey under the worst one; 0 is empty background. At the
# worst position there may have been nothing to cover: the grey square turns the outline into that of
# another class. So an occlusion map depends on the occluder, too.
#
# **Which image has the highest score?** Start from grey noise and change the *pixels* along the gradient
# of one class's score. **Predict:** will you recognise the ten images?


# %%
def favourite(jitter, smooth, ink, steps=150):
    """(10, 28, 28, 1): from noise, along the gradient of each score minus costs of roughness and ink"""
    pixels = tf.Variable(rng.uniform(0.4, 0.6, (10, 28, 28, 1)).astype(np.float32))
    optimizer = keras.optimizers.Adam(0.03)

    @tf.function
    def climb(shift):
        with tf.GradientTape() as tape:
            scores = mini(tf.roll(pixels, shift, (1, 2)), training=False)
            rough = tf.reduce_sum(tf.image.total_variation(pixels))
            goal = tf.linalg.trace(scores) - smooth * rough - ink * tf.reduce_sum(pixels)
        optimizer.apply([-tape.gradient(goal, pixels)], [pixels])
        pixels.assign(tf.clip_by_value(pixels, 0, 1))

    for _ in range(steps):
        climb(tf.constant(rng.integers(-jitter, jitter + 1, 2), tf.int32))
    return pixels.numpy()


# %%
train_x, train_y = all_x[: record["train"]], all_y[: record["train"]]
means = np.stack([train_x[train_y == c].mean(0) for c in range(10)])
rows = {"mean image": means, "score only": favourite(0, 0, 0)}
rows["score minus costs"] = favourite(1, 0.03, 0.05)
fig, axes = plt.subplots(3, 10, figsize=(9.5, 3.2))
for i, (name, images) in enumerate(rows.items()):
    sure = tf.nn.softmax(mini.predict(images, verbose=0)).numpy().diagonal()
    print(f"{name:17} probability of its class: {sure.round(2)}")
    for c in range(10):
        axes[i, c].imshow(images[c, ..., 0], cmap="gray_r", vmin=0, vmax=1)
        axes[i, c].set(xticks=[], yticks=[])
        axes[i, c].grid(False)
        if i == 0:
            axes[i, c].set_title(CLASSES[c], fontsize=8)
    axes[i, 0].set_ylabel(name.replace(" ", "\n", 1), rotation=0, ha="right", va="center")
plt.show()

# %% [markdown]
# *(Figure: ten columns, one for each class, three rows. Mean images: blurred but recognisable clothes.
# Score only: black and white noise. Score minus costs: grey and black strokes on white, some of which
# resemble the slant of a sandal or a sneaker, or the shaft of a boot. All are drawn inverted: black is a
# pixel of 1, ink, and white a pixel of 0.)*
#
# For nearly every class the network is certain that some noise belongs to it (second row of numbers; in
# the exceptions, 150 steps were too few or another class was close). It has learned what separates ten
# classes in its training images, and nothing about other images, so such a probability does not measure
# confidence. If roughness and ink are penalised, some shapes can be recognised, but then *we* have
# specified what an image of clothes looks like.
#
# ### Terms
#
# **Bottleneck**: 1×1, 3×3 and 1×1 convolutions, the first of which reduces the channels. **Depthwise,
# grouped convolution**: each filter sees one channel, or those of its group. **Global average pooling**:
# each map is replaced by its mean. **Kept outputs** (stored activations): the outputs that the backward
# pass needs again. **Map**: one channel of a layer's output. **Multiply-add**: one product added to a
# sum, two FLOPs. **Receptive field**: the input pixels that an output depends on. **Recipe**: everything
# about training except the network. **Shortcut**: the path that adds a block's input to its output.
# **Top-1 accuracy**: the share of images whose highest score is that of the right class.
#
# ### Sources
#
# - LeCun, Bottou, Bengio, Haffner: *Gradient-based learning applied to document recognition*, Proc. IEEE
#   1998 (section II.B): 3.1, the 60,000 parameters.
# - Krizhevsky, Sutskever, Hinton: *ImageNet classification with deep convolutional neural networks*
#   (AlexNet), NIPS 2012 (sections 3 and 4, figures 2 and 3): 3.2.
# - Zeiler, Fergus: *Visualizing and understanding convolutional networks*, arXiv 1311.2901 (table 3):
#   layers left out.
# - Simonyan, Zisserman: *Very deep convolutional networks* (VGG), arXiv 1409.1556 (tables 1 and 2): 3.3.
# - Szegedy et al.: *Going deeper with convolutions* (GoogLeNet), arXiv 1409.4842 (table 1): 3.5, 3.6.
# - Ioffe, Szegedy: *Batch normalization*, arXiv 1502.03167 (section 3); Santurkar et al. 2018: *How does
#   batch normalization help optimization?*, arXiv 1805.11604 (abstract): 3.7.
# - He, Zhang, Ren, Sun: *Deep residual learning for image recognition* (ResNet), arXiv 1512.03385 (tables
#   1 and 6, sections 3 and 4.1): 3.8.
# - Xie et al.: *Aggregated residual transformations* (ResNeXt), arXiv 1611.05431 (table 1): 3.9.
# - Balduzzi et al.: *The shattered gradients problem*, arXiv 1702.08591; Yang et al. 2019: *A mean field
#   theory of batch normalization*, arXiv 1902.08129 (abstracts): gradients at the start.
# - Xiao, Rasul, Vollgraf: *Fashion-MNIST*, arXiv 1708.07747.
# - Sun, Shrivastava, Singh, Gupta: *Revisiting unreasonable effectiveness of data*, arXiv 1707.02968
#   (abstract): more images.
# - Sandler et al.: *MobileNetV2*, arXiv 1801.04381. Tan, Le: *EfficientNet*, arXiv 1905.11946. Liu et
#   al.: *A ConvNet for the 2020s* (ConvNeXt), arXiv 2201.03545 (architectures): 3.9.
# - Dosovitskiy et al. 2021: *An image is worth 16×16 words*, arXiv 2010.11929 (the model): *Today*.
# - Accuracies and sizes: [torchvision's table of
#   weights](https://docs.pytorch.org/vision/stable/models.html); the training of 2021: [its
#   recipe](https://pytorch.org/blog/how-to-train-state-of-the-art-models-using-torchvision-latest-primitives/).
# - Sato 2017, *A study of parallel computation for deep learning on TSUBAME* (slides): work per image ·
#   Codreanu 2018, *Introduction to high-performance machine learning* (slides)
