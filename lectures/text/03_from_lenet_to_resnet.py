# %% [markdown]
# # 3 · From LeNet to ResNet
#
# **What do you pay for accuracy: parameters, multiply-adds, or memory?**
#
# AlexNet (2012) and ResNet-152 (2015) have *the same number of parameters*, 61 and 60 million. One of them
# names the right class of an ImageNet photograph in 57 cases of 100, the other in 78. So what was bought in
# these three years, and what was paid? To answer we take five families of networks apart with pencil and
# counter, and train small ones where counting is not enough.
#
# We aim at
#
# 1. **building** LeNet-5, AlexNet, VGG, GoogLeNet and the ResNets in a few lines each, and counting their
#    parameters to the last one, also where papers and libraries count differently;
# 2. **predicting** parameters, multiply-adds and memory of any layer, with a counter that is checked against
#    two others;
# 3. knowing **why** each idea came (small filters, 1×1 convolutions, batch normalisation, shortcuts), from an
#    experiment that could have shown the opposite;
# 4. looking into a trained network in three ways;
# 5. reading a figure like "19.6 GFLOPS" with suspicion.
#
# Notation as in all lectures: $N$ images, $C$ channels, $H \times W$ pixels, $K$ filters, kernel size $k$,
# learning rate $\eta$. A multiply-add is two FLOPs: numbers of FLOPs count it twice, numbers of multiply-adds
# once. We mostly count **multiply-adds**, as He et al. do, who call them FLOPs.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=2, seed=3)

# %% [markdown]
# As in lecture 01 you **guess before you look**: write your number in place of `None`, or into the field, and
# the cell that computes it will hold it against you.

# %%
import json
import math
import pathlib
import resource
import sys

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
# LeCun, Bottou, Bengio and Haffner's network of 1998 read the amounts on bank cheques. Its plan is still the
# plan: convolutions that look at a small window, pooling that makes the picture smaller, more and more maps,
# and at the end a classifier of fully connected layers. Its ten outputs are *logits*, scores of any size;
# softmax, $e^{z_i} / \sum_j e^{z_j}$, makes probabilities of them where they are needed.


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
# **Guess:** each weight of a convolution is used at every pixel of its output, each weight of a fully
# connected layer once. On average over the whole network, how many multiply-adds does LeNet-5 make with one
# parameter? And ResNet-50, the youngest network of this lecture?

# %%
guess("multiply-adds for each parameter, LeNet-5", None)
guess("multiply-adds for each parameter, ResNet-50", None)

# %% [markdown]
# The counter. A convolution of $K$ filters of $k \times k \times C$ weights has $(k^2 C + 1)K$ parameters
# with biases, and every one of its $H_o W_o K$ outputs is a sum of $k^2 C$ products. A fully connected layer
# is the same with one pixel. Everything else (adding biases, pooling, normalising, ReLU) has few parameters
# and no sums of products: we shall see whether it may be neglected.


# %%
def parameters(layer):
    """Trainable parameters of a layer, from the shapes of its input and its settings."""
    if isinstance(layer, layers.Conv2D):
        C = layer.input.shape[-1] // layer.groups  # a filter sees the channels of its group only
        return (math.prod(layer.kernel_size) * C + layer.use_bias) * layer.filters
    if isinstance(layer, layers.Dense):
        return (layer.input.shape[-1] + layer.use_bias) * layer.units
    if isinstance(layer, layers.BatchNormalization):
        return 2 * layer.input.shape[-1]  # a scale and a shift for each channel
    return 0


def multiply_adds(layer):
    """Products that are summed up for one image."""
    if isinstance(layer, layers.Conv2D):
        window = math.prod(layer.kernel_size) * layer.input.shape[-1] // layer.groups
        return math.prod(layer.output.shape[1:]) * window
    return math.prod(layer.input.shape[1:]) * layer.units if isinstance(layer, layers.Dense) else 0


# %% [markdown]
# For the memory we count the numbers that a layer puts out and that the backward pass needs again. (A ReLU
# can overwrite its input, a reshape or a concatenation need not copy: we do not count them. In one place we
# count too many: an addition does not need its inputs again, so the output of a batch normalisation before
# one need not be kept. In the ResNets of 50 layers and more, in 3.8, that is a quarter of all.)

# %%
POOLING = (layers.MaxPooling2D, layers.AveragePooling2D, layers.GlobalAveragePooling2D)
KEPT = (layers.Conv2D, layers.Dense, layers.BatchNormalization, layers.Add, *POOLING)


def describe(layer):
    """A few words for a layer, as "conv 5×5, 6"."""
    if isinstance(layer, layers.Conv2D):
        k, s, g = layer.kernel_size[0], layer.strides[0], layer.groups
        return f"conv {k}×{k}, {layer.filters}" + (f" /{s}" if s > 1 else "") + (f" in {g} groups" * (g > 1))
    if isinstance(layer, layers.Dense):
        return f"dense {layer.units}"
    return type(layer).__name__.replace("2D", "").lower()


def count(model):
    """One row for each layer that computes: shape of the output and, for one image, the three counts."""
    found = [layer for layer in model.layers if isinstance(layer, KEPT)]
    table = pd.DataFrame({"layer": [describe(layer) for layer in found]})
    table["output"] = ["×".join(map(str, layer.output.shape[1:])) for layer in found]
    table["parameters"] = [parameters(layer) for layer in found]
    table["multiply-adds"] = [multiply_adds(layer) for layer in found]
    table["kept"] = [math.prod(layer.output.shape[1:]) for layer in found]
    return table


# %%
table = count(lenet5())
display(table)
totals = table[["parameters", "multiply-adds", "kept"]].sum()
print(totals.to_string())
compare("multiply-adds for each parameter, LeNet-5", totals["multiply-adds"] / totals["parameters"])

# %% [markdown]
# Read the shapes from top to bottom: the picture shrinks from 32 to 5 pixels a side while the maps grow from
# 1 to 16. Nearly all *parameters* sit below, in the fully connected layers, four fifths of them in the first,
# and most of the *work* is done above, in the two convolutions. Keep this in mind; it is about to get much
# more extreme.
#
# **61,706 parameters? The paper says 60,000.** Both are right, to the last digit. The LeNet-5 of 1998 has
# pooling layers with a trainable coefficient and a bias for each map; each of its third layer's 16 maps sees
# only some of the six maps before it (six see 3, nine see 4, one sees 6); and its output layer compares with
# ten fixed pictures, so it has no trainable parameters at all.

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
# (A pooled value has five connections, four pixels and a bias, for two parameters.) The sums are the paper's
# "60,000 trainable free parameters" and "340,908 connections". **When two counts of a network differ, look
# for the convention before you look for the error**: biases, moving statistics, groups, the classifier.
#
# ### Two witnesses
#
# Our own code must be checked, too. For the parameters the witness is Keras, which counts the elements of the
# variables it makes. For the multiply-adds it is TensorFlow's profiler, which knows nothing of Keras' layers:
# it looks at the *operations* in the graph and at their shapes. Both can be asked without allocating one
# weight: inside a `tf.Graph` a variable is a name and a shape. So a VGG of 553 MB costs us nothing. (Profile
# only what the output depends on: the graph also holds the drawing of the random start, two FLOPs a weight,
# and in LeNet-5 that would be nine tenths of "all else".)


# %%
def sketch(build, *arguments, **options):
    """The model that build() makes, as a drawing: variables have shapes and no memory."""
    with tf.Graph().as_default():
        return build(*arguments, **options)


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
    products = kinds.get("Conv2D", 0) + kinds.get("MatMul", 0)
    assert table["parameters"].sum() == theirs, f"{name}: Keras counts {theirs:,} parameters"
    assert 2 * table["multiply-adds"].sum() == products, f"{name}: TensorFlow counts {products:,} FLOPs"
    rest = table.attrs["rest"] = 1 - products / sum(kinds.values())
    print(f"{name:14} {theirs:12,} parameters {products // 2:15,} multiply-adds; all else {rest:.2%}")
    return table


lenet = check("LeNet-5", lenet5)

# %% [markdown]
# The last column says what we neglect: the share of biases, pooling and the like in the profiler's FLOPs. It
# is small here; watch it.

# %% [markdown]
# ## 3.2 AlexNet: where are the parameters, where is the work?
#
# Krizhevsky, Sutskever and Hinton, 2012: the same plan for photographs of 1000 classes, with ReLU in place of
# tanh, *dropout* (in training, half of the outputs of a layer are set to zero at random), and two graphics
# cards. The paper says 224×224 pixels; but 11×11 filters at stride 4 without padding fit $(224 - 11)/4 + 1 =
# 54.25$ times, and the paper's 55 wants 227. Everybody builds 227.
#
# In layers 2, 4 and 5 each card sees only the maps that lie on it: a filter sees half the channels. Today
# this is called a *grouped* convolution.


# %%
def alexnet(groups=2):
    """AlexNet; groups=2 as on two cards, groups=1 whole. (Local response normalisation has no parameters.)"""
    x = image = keras.Input((227, 227, 3))
    plan = [(96, 11, 4, 1), (256, 5, 1, groups), (384, 3, 1, 1), (384, 3, 1, groups), (256, 3, 1, groups)]
    for i, (maps, k, stride, g) in enumerate(plan, 1):
        padding = "valid" if i == 1 else "same"
        x = layers.Conv2D(maps, k, stride, padding=padding, groups=g, activation="relu")(x)
        if i in (1, 2, 5):
            x = layers.MaxPooling2D(3, 2)(x)
    x = layers.Flatten()(x)
    for units in (4096, 4096):
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model(image, layers.Dense(1000)(x))


# %% [markdown]
# **Guess:** which share of AlexNet's parameters lies in its five convolutions? And which share of its
# multiply-adds?

# %%
guess("share of parameters in AlexNet's convolutions", None, "%")
guess("share of multiply-adds in AlexNet's convolutions", None, "%")

# %%
alex = count(sketch(alexnet))
display(alex)
convolutions = alex["layer"].str.startswith("conv")
for what in ("parameters", "multiply-adds"):
    share = alex.loc[convolutions, what].sum() / alex[what].sum()
    compare(f"share of {what} in AlexNet's convolutions", 100 * share)


# %%
def layer_bars(table, title, columns=("parameters", "multiply-adds", "kept")):
    """Shares of each layer in the three counts, side by side, from the input down."""
    shown = table[~table["layer"].str.contains("pool")]
    names = {"kept": "outputs kept"}
    fig, axes = plt.subplots(1, 3, figsize=(9.5, 0.9 + 0.21 * len(shown)), sharey=True)
    for ax, column, colour in zip(axes, columns, palette, strict=False):
        dense = shown["layer"].str.startswith("dense")
        bars = ax.barh(range(len(shown)), 100 * shown[column] / table[column].sum(), color=colour)
        for bar, is_dense in zip(bars, dense, strict=True):
            bar.set(hatch="//" if is_dense else "", edgecolor="white" if is_dense else colour)
        total = f"{table[column].sum() / 1e6:,.1f} million"
        ax.set(title=f"{names.get(column, column)}\n{total}", xlabel="% of the network")
        ax.title.set_fontsize(10)
    axes[0].set_yticks(range(len(shown)), shown["layer"])
    axes[0].invert_yaxis()
    fig.suptitle(title, x=0.01, ha="left", weight="bold")
    plt.show()


layer_bars(alex, "AlexNet: three different networks, depending on what you count")

# %% [markdown]
# *(Figure: three columns of horizontal bars, one bar for each layer of AlexNet from input to output; the
# fully connected layers are hatched. Parameters: the convolutions are hardly visible, the first fully
# connected layer holds more than half. Multiply-adds: the five convolutions share most of them. Outputs: the
# first convolution alone holds more than a third. The poolings have no bar: they hold the rest of the
# outputs, so those bars do not add up to 100%.)*
#
# **This picture is the lecture in one line: the parameters are in the fully connected layers, the work is in
# the convolutions, the memory is in the first layers.** Whoever says that a network is "large" must say in
# which of the three. It decides, too, what hurts when training is distributed: in lecture 06 each *parameter*
# is sent over the network in each step, and in AlexNet most of them do hardly any work.
#
# Now the slide from which this course started: "5 convolutional layers, 3 fully connected layers, 650K
# neurons, 60M weights", and "1.5 GFLOPS" for an image.

# %%
whole = check("AlexNet, whole", alexnet, groups=1)
neurons = alex.loc[~alex["layer"].str.contains("pool"), "kept"].sum()
assert sketch(alexnet).count_params() == alex["parameters"].sum()  # two groups: one witness of two
print(f"two groups: {alex['parameters'].sum():,} parameters, {alex['multiply-adds'].sum():,} multiply-adds")
print(f"neurons (outputs of convolutions and fully connected layers): {neurons:,}")
for name, t in {"two groups": alex, "whole": whole}.items():
    adds = t["multiply-adds"].sum() / 1e9
    print(f"{name:11} {adds:.2f} G multiply-adds = {2 * adds:.2f} GFLOP")

# %% [markdown]
# 60M weights and 650K neurons hold, both rounded down. (The paper's own drawing has 253,440 neurons in the
# first layer. That is 55·48·96, not 55·55·96: one more convention.) 1.5 GFLOPS is AlexNet *on two cards*,
# counted in **FLOPs**, two for each multiply-add. Remember this when the slide's next number comes. (And an
# amount of work is FLOP, with no S: FLOPS is FLOP a second, a speed.) For the grouped network the first
# witness agrees and the second is missing: Keras hands grouped convolutions to a compiler where the profiler
# cannot see them. A check that you cannot make, you report.

# %% [markdown]
# ## 3.3 VGG: the same filter, again and again
#
# Simonyan and Zisserman, 2014: away with the 11×11 and 5×5 filters. Every convolution is 3×3, and depth does
# the rest. Why is that a good trade? A pixel of the output of two 3×3 convolutions *sees* 5×5 pixels of the
# input, one of three sees 7×7. How far a whole network sees, its **receptive field**, follows from two
# numbers that we carry from layer to layer: the field $r$ and the distance $j$ of neighbouring outputs,
# measured in input pixels.


# %%
def receptive_field(chain):
    """[(k, stride), …] from the input on -> pixels of the input, along one side, that an output sees."""
    r, j = 1, 1
    for k, stride in chain:
        r += (k - 1) * j  # k - 1 more outputs of the layer before, j pixels apart
        j *= stride
    return r


for n, k in [(2, 5), (3, 7)]:
    print(f"{n} layers of 3×3: {receptive_field([(3, 1)] * n)} pixels, {n * 9} C² weights;", end=" ")
    print(f"one {k}×{k}: {receptive_field([(k, 1)])} pixels, {k**2} C²")

# %% [markdown]
# With $C$ channels in and out: fewer weights, less work, the same view, and one or two more ReLUs in between.
# That is the whole argument. The price is the third size: two or three times the outputs to keep.


# %%
VGG = {"A": (1, 1, 2, 2, 2), "B": (2, 2, 2, 2, 2), "D": (2, 2, 3, 3, 3), "E": (2, 2, 4, 4, 4)}


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
vggs = {name: check(f"VGG {name}", vgg, name) for name in "DE"}
vggs |= {name: count(sketch(vgg, name)) for name in "AB"}
for name, millions in paper.items():
    print(f"VGG {name}: {vggs[name]['parameters'].sum() / 1e6:.2f} M parameters, the paper: {millions}")
    assert round(vggs[name]["parameters"].sum() / 1e6) == millions
layer_bars(vggs["D"], "VGG-16")

# %% [markdown]
# *(Figure: as before, for the 16 layers of VGG-16. Parameters: one hatched bar, the first fully connected
# layer, holds three quarters. Multiply-adds: most convolutions have 12%, those that double the maps 6%, the
# last three 3%, the first 0.6%. Outputs: two fifths of them come from the first two layers; the poolings
# again have no bar.)*
#
# The paper's four counts hold, and so do both witnesses. And "all else" has become less than a thousandth:
# from here on, multiply-adds *are* the work. (GoogLeNet's many poolings and the ResNets' normalisations will
# make it some thousandths again.)
#
# The slide says "19.6 GFLOPS" for VGG, a number of He et al. (2015), who write that ResNet-152 is "still"
# cheaper than "VGG-16/19 nets (15.3/19.6 billion FLOPs)". Count:

# %%
for name, said in {"D": 15.3, "E": 19.6}.items():
    t = vggs[name]
    only = t.loc[t["layer"].str.startswith("conv"), "multiply-adds"].sum() / 1e9
    print(f"VGG {name}: {t['multiply-adds'].sum() / 1e9:.2f} G multiply-adds, {only:.2f} G of them in")
    print(f"       convolutions, {2 * t['multiply-adds'].sum() / 1e9:.1f} GFLOP; the paper: {said}")

# %% [markdown]
# Two things come out. These are *multiply-adds*, and the slide's 1.5 for AlexNet was in FLOPs: **it compares
# apples with half-apples**. And the paper's own pair is uneven: 19.6 counts the whole VGG-19, while 15.3 is
# VGG-16 without its fully connected layers. Small, but it is the kind of thing you find only by counting.
#
# "Training VGG for 50 epochs on ImageNet uses more than 1 ExaFlop", says the slide. Lecture 01 has computed
# it, and with counts of our own it holds for both networks: an Exa is $10^{18}$.

# %%
IMAGES = 1.28e6  # of ImageNet's training set
for name, t in {"AlexNet": alex, "VGG-16": vggs["D"], "VGG-19": vggs["E"]}.items():
    forward = t["multiply-adds"].sum() * IMAGES * 50
    print(f"{name:8} 50 epochs: forward {forward:.2e} multiply-adds; training {6 * forward:.2e} FLOP")

# %% [markdown]
# (Six: two FLOPs a multiply-add, and three products of the same size, forward, for the weights and for the
# images; lecture 01.)

# %% [markdown]
# ## 3.4 What fits into the memory?
#
# A training step must hold, for each parameter, the weight, its gradient and its *momentum*, the running sum
# of earlier gradients along which the optimiser steps: three numbers. And for each *image* of the batch the
# outputs that we called kept. In float32:
#
# $$\text{bytes} \approx 4\,(3 \cdot \text{parameters} + N \cdot \text{kept})$$
#
# **Guess:** AlexNet was trained with batches of 128 on cards of 3 GB. How many images of VGG-16 would have
# fitted on such a card?

# %%
guess("images of VGG-16 in 3 GB", None)


# %%
def images_that_fit(table, memory=3e9):
    """The largest batch by the formula above; 0 where not even the parameters fit."""
    return max(0, int((memory / 4 - 3 * table["parameters"].sum()) // table["kept"].sum()))


for name, t in {"AlexNet": alex, "VGG-16": vggs["D"]}.items():
    fixed, each = 12 * t["parameters"].sum() / 1e9, 4 * t["kept"].sum() / 1e6
    print(f"{name}: {fixed:.2f} GB fixed, {each:.1f} MB an image, {images_that_fit(t)} images in 3 GB")
compare("images of VGG-16 in 3 GB", images_that_fit(vggs["D"]))

# %% [markdown]
# A formula for memory must be measured like everything else. Here is a mini-AlexNet for the 28×28 pictures of
# Fashion-MNIST, which will be with us for the rest of the lecture: eight layers, of which any can be left
# out. We run it forward and back with larger and larger batches, and ask the operating system for the largest
# memory this process ever had. The slope is the bytes that an image costs. (Once a kernel: the largest memory
# never falls. To repeat, restart the kernel. `he_normal` draws random weights with the variance $2 / (k^2
# C)$, which keeps signals behind a ReLU at their size.)


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


mini = mini_alexnet()
display(count(mini))

# %% [markdown]
# **Guess:** the counter says how many bytes an image keeps. How many times as many will the step really take?

# %%
guess("memory of a step over what is kept", None, "×")
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # softmax inside


@tf.function(reduce_retracing=True)
def gradients(images, labels):
    """Forward and backward once; the gradients are added up so that none can be left out."""
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, mini(images, training=True))
    return [tf.reduce_sum(g) for g in tape.gradient(loss, [v.value for v in mini.trainable_variables])]


# %% tags=["measured"]
batches, peaks = [512, 1024, 2048, 3072], []
unit = 1 if sys.platform == "darwin" else 1024  # macOS tells bytes, Linux KiB
for N in batches:
    for _ in range(2):
        gradients(tf.zeros((N, 28, 28, 1)), tf.zeros(N, tf.int32))
    peaks.append(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
slope = np.polyfit(batches, peaks, 1)[0]
kept = 4 * count(mini)["kept"].sum()
print(f"predicted {kept / 1e3:.0f} kB an image, measured {slope / 1e3:.0f} kB")
compare("memory of a step over what is kept", slope / kept)

# %% [markdown]
# More than predicted: from run to run between one and a half and a little more than two times. On the way
# back, the gradient of an output needs as much room as the output, and while the gradients of the largest
# layers are computed most of the outputs are still there; a library's scratch memory comes on top. So, for a
# program that recomputes nothing, the formula is a **lower bound**, and twice the part of the images is a
# good guess for what a step takes. What remains true is the shape: the *fixed* part goes with the parameters,
# the part that grows with the batch goes with the first layers. Was it for this that AlexNet needed two
# cards? Its authors say so: the network was too large for the 3 GB of one. We count it whole, without groups:

# %%
fixed, each = 12 * whole["parameters"].sum() / 1e9, 4 * whole["kept"].sum() / 1e9  # GB
bound, doubled = fixed + 128 * each, fixed + 2 * 128 * each
print(f"AlexNet, whole, batch 128: at least {bound:.1f} GB,", end=" ")
print(f"with the part of the images doubled {doubled:.1f} GB")

# %% [markdown]
# Our count does not explain it: by the shapes the whole network fits on one card. What else their program
# kept in memory, copies of the windows (lecture 01) or the next batch, one cannot tell from them. Counts
# answer what they are asked.

# %% [markdown]
# ## 3.5 GoogLeNet: 1×1 convolutions make room
#
# Szegedy et al., 2014, asked which filter a layer should have, 1×1, 3×3 or 5×5, and answered: all, side by
# side, and concatenate. That would be expensive, were it not for the 1×1 convolutions that first *reduce* the
# channels.
#
# ![Four ways to build a layer, drawn as boxes from bottom to top. VGG: two 3×3 convolutions in a row.
# Inception: four branches side by side, a 1×1; a 1×1 that reduces and then a 3×3; a 1×1 that reduces and then
# a 5×5; a pooling and then a 1×1; a concatenation joins them. Residual: two 3×3 convolutions, and an arrow
# around them that is added to their result. Bottleneck: a 1×1 that reduces, a 3×3, a 1×1 that expands again,
# and the arrow around them.](figures/03_blocks.svg)


# %%
def conv(x, maps, k, stride=1):
    return layers.Conv2D(maps, k, stride, padding="same", activation="relu")(x)


def inception(x, one, three, five, pool):
    """x (N, H, W, C) -> (N, H, W, one + three[1] + five[1] + pool); (a, b): reduced to a, then b maps"""
    pooled = layers.MaxPooling2D(3, 1, padding="same")(x)
    branches = [
        conv(x, one, 1),
        conv(conv(x, three[0], 1), three[1], 3),
        conv(conv(x, five[0], 1), five[1], 5),
        conv(pooled, pool, 1),
    ]
    return layers.Concatenate()(branches)


# %% [markdown]
# **Guess:** the first module gets 28×28 pixels of 192 channels. By which factor does the reduction to 16
# channels make its 5×5 branch cheaper?

# %%
guess("1×1 reduction before the 5×5", None, "×")

# %%
direct, reduced = 25 * 192 * 32, 192 * 16 + 25 * 16 * 32  # weights; each is used 28² times
print(f"{direct * 28**2 / 1e6:.1f} and {reduced * 28**2 / 1e6:.1f} million multiply-adds")
compare("1×1 reduction before the 5×5", direct / reduced)

# %% [markdown]
# The whole network is nine such modules, and in place of the large fully connected layers an average over
# the whole map. (We leave out the two auxiliary classifiers, which exist in training only.)

# %%
MODULES = {  # 1×1, (reduce, 3×3), (reduce, 5×5), pool projection; the paper's K parameters, M operations
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
    """GoogLeNet for (N, 224, 224, 3), without its auxiliary classifiers."""
    x = image = keras.Input((224, 224, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(x, 64, 7, 2))  # (N, 56, 56, 64)
    x = conv(conv(x, 64, 1), 192, 3)
    for name, (*plan, _, _) in MODULES.items():
        if name in ("3a", "4a", "5a"):
            x = layers.MaxPooling2D(3, 2, padding="same")(x)
        x = inception(x, *plan)
    x = layers.GlobalAveragePooling2D()(x)  # (N, 7, 7, 1024) -> (N, 1024)
    return keras.Model(image, layers.Dense(1000)(x))


google = check("GoogLeNet", googlenet)

# %% [markdown]
# Its paper prints parameters and operations of each module (table 1): a rare chance to check ourselves module
# by module. Each has six convolutions.

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
# The *work* agrees to within a million in eight of nine modules. The *parameters* agree in some (with K =
# 1024), and in others they differ by up to 8%, although the filters are the paper's own: with the printed
# widths, 4a cannot have 364 K. We believe the widths. (And the first layer's 2.7 K cannot be 7·7·3·64 = 9,408
# weights. The paper's total of 1.5 G operations and our 1.58 G differ by that same layer: the table has 34 M
# for it, and these weights make 118 M.)
#
# The slide of another of our sources gives GoogLeNet **5M** parameters. That is probably the introduction of
# the paper speaking, "12 times fewer" than AlexNet's 60; its own table sums up to 6.96 million (K = 1024),
# and the network has 7.00. A figure can be copied for years without being counted once.

# %%
facts = {"AlexNet": alex, "VGG-16": vggs["D"], "VGG-19": vggs["E"], "GoogLeNet": google}


def summary(facts):
    """Millions of parameters, G multiply-adds and MB kept, an image; and the reuse of a parameter."""
    totals = pd.DataFrame({n: t[["parameters", "multiply-adds", "kept"]].sum() for n, t in facts.items()}).T
    table = pd.DataFrame({"M parameters": totals["parameters"] / 1e6})
    table["G multiply-adds"] = totals["multiply-adds"] / 1e9
    table["MB kept"] = 4 * totals["kept"] / 1e6
    table["multiply-adds a parameter"] = totals["multiply-adds"] / totals["parameters"]
    return table.astype(float)


display(summary(facts).round(2))

# %% [markdown]
# Look at the last column. AlexNet uses a parameter a dozen times, GoogLeNet hundreds of times: it has no
# large fully connected layer. **Parameters were not made cheaper, they were made to work.**

# %% [markdown]
# ## 3.6 How many layers do we need?
#
# Zeiler and Fergus (2013) took layers out of AlexNet and trained what was left. It is the classical
# experiment on depth, and the slides show it. Their table 3, error in %, and what was left when each was
# trained anew:

# %%
ZEILER = pd.DataFrame(
    {"train": [35.1, 27.4, 27.4, 41.8, 71.1], "test": [40.5, 40.0, 44.8, 45.4, 71.3]},
    index=["none", "7", "6, 7", "3, 4", "3, 4, 6, 7"],  # layers that are missing
)  # top-1 error on ImageNet's training and validation set: the highest score is on a wrong class

# %% [markdown]
# Two fully connected layers with 54 million parameters can go, and it costs a few points. Two convolutions
# can go, and it costs a few points. But all four together, and the network breaks down: *depth*, not any one
# layer, seems to be what counts.
#
# We repeat it in small: our mini-AlexNet on 5,000 pictures of Fashion-MNIST, 10 epochs, three seeds each.
# That takes minutes, so the runs were made as jobs (`runs/03_small_networks.py`) and recorded. All the small
# networks of 3.6 to 3.8 were trained alike: SGD with momentum 0.9, batch 50, a learning rate of 0.02 (here)
# or 0.05 (3.8) that falls along a cosine, or a constant one (3.7); the training error is measured on the
# first 2,000 training images, with the moving averages of batch normalisation (3.7) where there is one.
# **Guess:** by how many points does the test error rise when layers 3, 4, 6 and 7 are missing? (Theirs rose
# by 31.)

# %%
guess("points lost without 3, 4, 6, 7", None, " points")
record = json.loads(pathlib.Path("runs/03_small_networks.json").read_text())
runs = pd.DataFrame(
    [row | {"part": job["arguments"]["part"].strip("'")} for job in record["jobs"] for row in job["rows"]]
)
for curve in ("train", "test", "loss"):
    runs[curve] = [epochs[curve][-1] for epochs in runs["epochs"]]
first = record["jobs"][0]
print(f"RECORDED RUNS: {len(record['jobs'])} jobs of {first['submitted'][:10]}, {first['machine']['cpu']},")
print(f"seeds {sorted(runs['seed'].unique().tolist())}, {record['train']} training and {record['test']} test")
print(f"images, batch {record['batch']}, TensorFlow {first['versions']['tensorflow']}; the first one:")
print(first["command"])

# %%
depth = runs[runs["part"] == "depth"]
for removed, group in depth.groupby("removed"):  # is what was trained what we have built here?
    skip = [int(i) for i in removed.split(", ")] if removed != "none" else []
    assert set(group["parameters"]) == {sketch(mini_alexnet, skip).count_params()}
ours = depth.groupby("removed")[["parameters", "train", "test"]].agg(["mean", "min", "max"]).loc[ZEILER.index]
ours = ours.drop(columns=[("parameters", "min"), ("parameters", "max")])
display(ours.round(1))
loss = ours.loc["3, 4, 6, 7", ("test", "mean")] - ours.loc["none", ("test", "mean")]
compare("points lost without 3, 4, 6, 7", loss)

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.3), sharey=True)
places, names = np.arange(len(ZEILER)), {"train": "training error", "test": "validation or test error"}
for ax, what in zip(axes, names, strict=True):
    theirs = ZEILER[what] - ZEILER.loc["none", what]
    seeds = depth.pivot(index="removed", columns="seed", values=what).loc[ZEILER.index]
    own = seeds - seeds.loc["none"].mean()
    ax.bar(places - 0.15, theirs, 0.3, color="0.8", edgecolor="0.3", label="AlexNet, ImageNet (paper)")
    look = {"ls": "", "marker": "o", "color": palette[1], "mfc": "none"}
    ax.plot(places + 0.15, own, **look, label=["mini-AlexNet, each of three seeds", "_", "_"])
    ax.axhline(0, color="0.3", lw=0.8, marker="")
    ax.set_xticks(places, ZEILER.index)
    ax.set(xlabel="layers left out", title=names[what])
axes[0].set_ylabel("points above the whole network")
axes[0].legend(loc="upper left")
plt.show()

# %% [markdown]
# *(Figure: points of error above the whole network, for five networks, on the left of the training and on the
# right of the validation or test set. Grey bars, AlexNet on ImageNet: between −8 and +7 points for one or two
# missing layers, above thirty for four. Circles, our mini-AlexNet: all of them within three points of zero.)*
#
# **Ours does not show what the textbook shows.** The network without four layers, with a tenth of the
# parameters, is as good as the whole one, within the spread of three seeds. What differs? Look at the
# *training* error, the left half. Theirs without four layers gets 71% of its *training* images wrong: what is
# left does not even learn its own examples. Ours fits its training images about as well as before. Ten kinds
# of clothing in 28×28 grey pixels are no task for which eight layers are needed, so taking some away cannot
# hurt. An experiment on depth needs a task that is hard enough for depth to matter. We report what we found,
# and turn the question round: what happens if we make the network *deeper*?

# %% [markdown]
# ## 3.7 Batch normalisation: what does it change?
#
# In 2014 the deepest networks were trained with crutches: VGG's began with the weights of a shallower one,
# trained before, and GoogLeNet had its auxiliary classifiers. Ioffe and Szegedy's remedy (2015) is a
# layer that takes each channel over the whole batch, subtracts the mean, divides by the standard deviation,
# and then lets the network choose scale $\gamma$ and shift $\beta$ for itself:
#
# $$y = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad \mu, \sigma^2
# \text{ over } N, H, W \text{ of the batch}.$$


# %%
def batch_norm(x, gamma, beta, epsilon=1e-3):
    """x (N, H, W, C) -> the same shape, normalised over all but the last axis"""
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta, mean, variance


rng = np.random.default_rng(3)
x = rng.normal(5, 3, (32, 7, 7, 4)).astype(np.float32)
keras_norm = layers.BatchNormalization(momentum=0.9)
ours, mean, variance = batch_norm(x, gamma=1, beta=0)
difference = np.abs(keras_norm(x, training=True) - ours).max()
print(f"largest difference from Keras: {difference:.1e}")
print(f"moving mean after one step: {keras_norm.moving_mean.numpy().round(3)}, batch mean {mean.round(3)}")
assert difference < 1e-5 and np.allclose(keras_norm.moving_mean, 0.1 * mean, atol=1e-4)

# %% [markdown]
# So there are **four** numbers for each channel: $\gamma$ and $\beta$ are trained, and two *moving averages*
# of mean and variance are only collected, with momentum 0.9: `new = 0.9 old + 0.1 of this batch`. (Our
# choice, for short runs; Keras' default is 0.99. It has nothing to do with the optimiser's momentum.) When
# the network is used, *they* stand in for the batch, so that one image's result does not depend on its
# neighbours. Keras' `count_params` counts all four, most papers two, and in a distributed training only two
# of them have a gradient to be averaged; the other two are a well-known trap of lecture 07.
#
# What does the layer *do*? One property can be seen at once. Whatever scale the convolution before it has,
# batch normalisation takes it out again:

# %%
kernel = tf.Variable(rng.normal(0, 0.2, (3, 3, 4, 8)).astype(np.float32))
target = rng.normal(0, 1, (32, 7, 7, 8)).astype(np.float32)
for scale in (1, 2, 10):
    scaled = tf.Variable(scale * kernel)
    with tf.GradientTape() as tape:
        y = tf.nn.conv2d(x, scaled, 1, "SAME")
        mean, variance = tf.nn.moments(y, (0, 1, 2))
        loss = tf.reduce_mean(target * (y - mean) / tf.sqrt(variance + 1e-3))
    size = tf.norm(tape.gradient(loss, scaled)).numpy()
    print(f"weights × {scale:2}: loss {loss:.5f}, length of the gradient {size:.6f}")

# %% [markdown]
# The loss does not care about the scale of the weights, and the gradient gets *smaller* as they grow. So a
# step that was far too large makes the weights long, and longer weights take smaller steps in direction: the
# layer brakes by itself. If that is what matters, then we should see it in one place above all: with batch
# normalisation, **much larger learning rates** must still work.
#
# The experiment: a plain network of eight layers, with and without batch normalisation, eight learning
# rates, three epochs, three seeds. **Guess:** say that a network has *learned* when its mean test error is
# below 60% (guessing has 90). How many times as large may the learning rate be with batch normalisation?


# %%
guess("largest learning rate with over without batch norm", None, "×")


def stack(blocks, residual, norm=True, filters=8, shape=(14, 14, 1)):
    """6 * blocks + 2 layers: plain, or with shortcuts around each pair, which have no parameters."""

    def conv(x, maps, stride=1):
        options = {"padding": "same", "use_bias": not norm, "kernel_initializer": "he_normal"}
        x = layers.Conv2D(maps, 3, stride, **options)(x)
        return layers.BatchNormalization(momentum=0.9)(x) if norm else x

    x = image = keras.Input(shape)
    x = layers.ReLU()(conv(x, filters))
    for maps in (filters, 2 * filters, 4 * filters):
        for _ in range(blocks):
            stride = 1 if x.shape[-1] == maps else 2
            y = conv(layers.ReLU()(conv(x, maps, stride)), maps)
            if residual:
                if stride == 2:  # every second pixel, and zeros for the new maps
                    x = keras.ops.pad(x[:, ::2, ::2], [[0, 0], [0, 0], [0, 0], [0, maps - x.shape[-1]]])
                y = layers.Add()([x, y])
            x = layers.ReLU()(y)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(10, kernel_initializer="he_normal")(x))


# %%
norm = runs[runs["part"] == "norm"]
for flag, group in norm.groupby("norm"):
    assert set(group["parameters"]) == {sketch(stack, 1, residual=False, norm=flag).count_params()}
fig, ax = plt.subplots(figsize=(7.6, 3.7))
for flag, name in [(False, "without"), (True, "with batch normalisation")]:
    errors = norm[norm["norm"] == flag].groupby("rate")["test"].agg(["mean", "min", "max"])
    ax.fill_between(errors.index, errors["min"], errors["max"], alpha=0.25, color=palette[flag])
    style = {"color": palette[flag], "ls": "-" if flag else "--", "marker": "os"[flag]}
    ax.plot(errors.index, errors["mean"], label=name, **style)
ax.axhline(90, color="0.4", ls=":", marker="")
ax.text(0.001, 91.5, "guessing", color="0.3", fontsize=9)
ax.set(xscale="log", xlabel=r"learning rate $\eta$", ylabel="test error after 3 epochs / %", ylim=(0, 100))
ax.set_title("The range of learning rates (line: mean, band: all of three seeds)")
ax.legend(loc="lower left")
plt.show()

# %% [markdown]
# *(Figure: test error against learning rate from 0.001 to 3. Without batch normalisation, dashed: a valley
# between 0.01 and 0.1, then up to 90%, guessing, from 0.3 on. With it, solid: lower everywhere, flat between
# 0.01 and 0.3, and still below 60% at 3.)*

# %%
means = norm.groupby(["norm", "rate"])["test"].mean().unstack("norm")
largest = {flag: means.index[(means[flag] < 60).to_numpy()].max() for flag in (False, True)}
compare("largest learning rate with over without batch norm", largest[True] / largest[False])
for flag in (False, True):
    best = means[flag].idxmin()
    three = norm[(norm["norm"] == flag) & (norm["rate"] == best)]["test"].round(1).tolist()
    name = "with" if flag else "without"
    print(f"{name:8} best rate {best:g}: mean error {means[flag].min():.1f}%, seeds {three}")

# %% [markdown]
# The prediction holds. Without batch normalisation the limit lies between 0.1 and 0.3; with it, at 3 or
# beyond. So the factor is more than ten; on our grid of rates it reads 30, and since the largest rate tried
# still learns, there is no upper bound. At the best rate of each the gain is a few points, larger than the
# spread of the seeds. Three epochs measure how *fast* a network learns, not how good it gets: we claim no
# more than that. And there is a price, which the count of multiply-adds does not show: the layer needs a pass
# over its input for the statistics and another to use them, and keeps one more set of outputs for the way
# back.

# %% [markdown]
# ## 3.8 ResNet: deeper is worse, and then it is not
#
# With batch normalisation one can train twenty layers. So why not fifty-six? He, Zhang, Ren and Sun (2015)
# found that a deeper *plain* network gets worse, and not because it overfits: its **training** error is
# higher. That is odd. The deeper network could always imitate the shallower one, by letting the additional
# layers do nothing. It seems that it cannot *find* this solution. Their remedy: make doing nothing the
# default. A block computes what is to be *added* to its input,
#
# $$y = x + F(x),$$
#
# and if $F$ is zero, the block is not there. Our `stack` above builds both kinds, with exactly the same
# parameters, as they did for CIFAR-10. Eight epochs on 14×14 pixels, one learning rate for all depths, tuned
# for none; with eight layers this comes out:

# %%
KINDS = {False: "plain", True: "residual"}
residual = runs[runs["part"] == "residual"].assign(layers=lambda t: (6 * t["blocks"] + 2).astype(int))
stacks = {(6 * n + 2, flag): sketch(stack, n, flag) for n in (1, 3, 9) for flag in KINDS}
for key, group in residual.groupby(["layers", "residual"]):
    assert set(group["parameters"]) == {stacks[key].count_params()}
found = residual.groupby(["layers", "residual"])[["train", "test"]].agg(["mean", "min", "max"])
display(found.loc[8].rename(KINDS).round(1))

# %% [markdown]
# No difference. **Guess** the training error with 56 layers:

# %%
guess("training error, plain, 56 layers", None, "%")
guess("training error, residual, 56 layers", None, "%")

# %%
for flag, name in KINDS.items():
    compare(f"training error, {name}, 56 layers", found.loc[(56, flag), ("train", "mean")])
    last = residual[(residual["layers"] == 56) & (residual["residual"] == flag)]["loss"]
    print(f"    and the loss in the last epoch, over the seeds: {last.min():.2f} to {last.max():.2f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6))
for flag, name in KINDS.items():
    style = {"color": palette[flag], "ls": "-" if flag else "--", "marker": "os"[flag]}
    for what, fill in [("train", "none"), ("test", palette[flag])]:
        some = found.xs(flag, level="residual")[what]
        ends = [some["mean"] - some["min"], some["max"] - some["mean"]]
        axes[0].errorbar(some.index, some["mean"], yerr=ends, label=f"{name}, {what}", mfc=fill, **style)
    for deep, shade in [(20, 0.45), (56, 1.0)]:
        curves = residual[(residual["layers"] == deep) & (residual["residual"] == flag)]["epochs"]
        train = np.array([epochs["train"] for epochs in curves])  # (seeds, epochs)
        axes[1].plot(range(1, 9), train.mean(0), alpha=shade, label=f"{name}, {deep} layers", **style)
        axes[1].fill_between(range(1, 9), train.min(0), train.max(0), alpha=0.15, color=palette[flag])
axes[0].set(xlabel="layers", ylabel="error / %", title="After 8 epochs", xticks=[8, 20, 56], ylim=(0, None))
axes[1].set(xlabel="epoch", ylabel="training error / %", title="On the way", ylim=(0, None))
for ax in axes:
    ax.legend(fontsize=8.5)
plt.show()

# %%
display(found.round(1))

# %% [markdown]
# *(Figure, left: error against the number of layers, 8, 20 and 56. Plain networks, dashed: training and test
# error rise a little at 20 and to around 40% at 56 layers. Residual networks, solid: the training error falls
# from 8 to 20 layers and stays low at 56, the test error stays near 15%. Right: the training error of 20 and
# 56 layers over eight epochs; the plain 56 layers stay far above the other three.)*
#
# This time the small experiment shows what the paper shows, with all of three seeds on the same side: plain
# networks get worse with depth, **on the images they were trained on**, and shortcuts without a single
# parameter remove that. (Nor is it the fault of the moving averages: the recorded *loss* was taken in
# training, with the statistics of each batch, and says the same.) Two honest words. The residual network of
# 56 layers is no better than that of 20, here: our task has no use for more depth, as 3.6 has taught us. And
# eight epochs are few: the error of the plain network was still falling.

# %% [markdown]
# ### But why?
#
# The popular answer is that the gradient *vanishes* on its way through 56 layers. The paper itself doubts it:
# with batch normalisation the signals keep their size. We can look. **Guess:** in the plain network of 56
# layers, before the first step, take for each layer the length of the gradient over that of the weights, and
# divide the first layer's by the last convolution's. A vanishing gradient is much below 1.

# %%
guess("gradient, first over last layer, plain 56", None, "×")

# %%
pictures, labels = fashion_mnist("train", 64)
half = pictures.reshape(-1, 14, 2, 14, 2, 1).mean((2, 4))  # (64, 14, 14, 1): 2 × 2 pixels become one


def length(tensors):
    return float(tf.linalg.global_norm(tensors))


def probe(model):
    """Loss and gradients of the convolutions' weights on 64 images, and these weights."""
    kernels = [v for v in model.trainable_variables if len(v.shape) == 4]

    @tf.function
    def evaluate():
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(half, training=True))
        return loss, tape.gradient(loss, [v.value for v in kernels])

    return evaluate, kernels


# %% [markdown]
# And a second, sharper question. A gradient is a promise: go a short way $\delta$ against it, and the loss
# falls by $\delta$ times its length. So take the step and see **which share of the promise is kept**. We
# measure $\delta$ in units of the length of all weights. A loss cannot fall below zero: where the promise is
# larger than the whole loss, it *cannot* be kept, and we draw such points grey. Where it is smaller than
# $10^{-5}$, float32 cannot see whether it is kept, and we leave them out. (For each seed the weights of the
# convolutions are drawn anew. The cell takes half a minute, most of it for compiling 56 layers.)

# %%
STEPS = [1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2]


def promises(blocks, residual, seeds=(0, 1, 2)):
    """Per seed: promised and real fall of the loss for each step; the loss; gradient over weight by layer."""
    evaluate, kernels = probe(stack(blocks, residual))
    promised, real, losses, sizes = [], [], [], []
    for seed in seeds:
        for i, v in enumerate(kernels):
            v.assign(keras.initializers.HeNormal(seed=1000 * seed + i)(v.shape))
        start = [v.numpy() for v in kernels]
        loss, gradient = evaluate()
        slope, scale = length(gradient), length(start)
        falls = []
        for step in STEPS:
            for v, w, g in zip(kernels, start, gradient, strict=True):
                v.assign(w - step * scale / slope * g)
            falls.append(float(loss - evaluate()[0]))
        promised.append([step * scale * slope for step in STEPS])
        real.append(falls)
        losses.append(float(loss))
        sizes.append([length([g]) / length([w]) for w, g in zip(start, gradient, strict=True)])
    return [np.array(found) for found in (promised, real, losses, sizes)]  # each has the seeds first


# %% tags=["measured"]
probed = {(n, flag): promises(n, flag) for n in (1, 3, 9) for flag in (False, True)}
sizes = probed[9, False][3]
compare("gradient, first over last layer, plain 56", np.median(sizes[:, 0] / sizes[:, -1]))

# %% tags=["measured"]
kept = {key: np.where(p > 1e-5, fall / p, np.nan) for key, (p, fall, *_) in probed.items()}
rows = {}
for (n, flag), (promised, real, losses, _) in probed.items():
    row = {"loss at the start": losses.mean(), "promise for 1e-4": promised.mean(0)[STEPS.index(1e-4)]}
    row |= {"fall for 1e-4": real.mean(0)[STEPS.index(1e-4)], "largest fall": real.max(1).mean()}
    rows[f"{KINDS[flag]}, {6 * n + 2} layers"] = row
display(pd.DataFrame(rows).T.round(3))
steps = [f"{step:g}" for step in STEPS]
shares = pd.DataFrame({name: v.mean(0) for name, v in zip(rows, kept.values(), strict=True)}, index=steps)
display(shares.round(2))  # a column for each network, a row for each step

# %%
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), width_ratios=[1, 1.35])
for (n, flag), (promised, _, losses, sizes) in probed.items():
    style = {"color": palette[flag], "ls": "-" if flag else "--", "marker": {1: "o", 3: "s", 9: "^"}[n]}
    style |= {"label": f"{KINDS[flag]}, {6 * n + 2}", "mfc": palette[flag] if flag else "none"}
    if n == 9:
        axes[0].semilogy(np.linspace(0, 1, sizes.shape[1]), np.median(sizes, 0), **style | {"marker": ""})
    share = kept[n, flag]
    possible = promised.mean(0) < losses.mean()
    axes[1].plot(STEPS, share.mean(0), **style | {"color": "0.75", "label": None, "mfc": "0.9"})
    axes[1].plot(STEPS, np.where(possible, share.mean(0), np.nan), **style)
    axes[1].fill_between(STEPS, share.min(0), share.max(0), where=possible, color=palette[flag], alpha=0.12)
axes[0].set(xlabel="depth (0: input, 1: output)", ylabel="length of gradient / of weights")
axes[0].set_title("56 layers: it does not vanish", fontsize=11)
axes[1].set(xscale="log", xlabel="step / length of the weights", ylabel="share of the promise kept")
axes[1].set_title("How far does a gradient tell the truth?", fontsize=11)
axes[0].legend(fontsize=8.5)
axes[1].legend(fontsize=8.5, loc="lower left")
plt.show()

# %% [markdown]
# *(Figure, left: length of the gradient over that of the weights along the 56 layers, logarithmic. Residual:
# between 0.1 and one, falling slowly. Plain: a straight line from more than a hundred at the input down to
# 0.1 at the output. Right: share of the promised fall of the loss against the length of the step, from a
# ten-millionth to 3% of the weights' length. With 8 layers nearly all of it is kept up to steps of 0.3%,
# plain or not. With more layers the curves move to the left, the plain ones much further: plain with 20
# layers lies left of residual with 56, and plain with 56 layers falls from nearly one to zero between a
# ten-millionth and a hundred-thousandth. Grey: its points from a ten-thousandth on, and the last of plain
# with 20 and of residual with 56.)*
#
# So the popular answer is wrong, here: in the plain network with batch normalisation the gradient
# **explodes** towards the input. It is not a wrong gradient, but it is true only over a ten-millionth of the
# weights' length: at a millionth half of the promise is lost, with shortcuts at two or three thousandths. At
# a ten-thousandth it promises a fall of more than the whole loss (the first table) and keeps a hundredth of
# it. Depth makes every network rougher; but with shortcuts, 56 layers keep more of their promises than 20
# plain ones. (They also start from a larger loss, whose fall is cheap: it is enough to make the outputs
# smaller. Compare the ranges, not the falls.) A close relative is what Balduzzi et al. call *shattered
# gradients* (arXiv 1702.08591); Yang et al. (1902.08129) derive the explosion from batch normalisation
# itself. Our measurement is one of the start of training, on 64 pictures, and of 56 narrow layers; the paper
# reports gradients of healthy length for 34 wide ones. Why the plain network learns at all later we did not
# measure. One cause is known from 3.7: giant first steps make the weights long, and long weights take small
# steps. Probe a trained one and see.

# %% [markdown]
# ### The full family
#
# The ResNets for ImageNet have four stages. Up to 34 layers their blocks are two 3×3 convolutions, as above;
# from 50 on they are **bottlenecks**, a 1×1 that reduces to a quarter, a 3×3, and a 1×1 that expands again
# (the drawing in 3.5). Where the shape changes, the shortcut is a 1×1 convolution.


# %%
def unit(x, maps, k, stride=1, bias=False, relu=True):
    """Convolution, batch normalisation, ReLU."""
    x = layers.Conv2D(maps, k, stride, padding="same", use_bias=bias)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def block(x, maps, stride, bottleneck, late, bias):
    """y = x + F(x). late: a bottleneck's stride is in its 3×3, not in its first 1×1."""
    if bottleneck:
        first, second = (1, stride) if late else (stride, 1)
        y = unit(unit(x, maps, 1, first, bias), maps, 3, second, bias)
        y = unit(y, 4 * maps, 1, 1, bias, relu=False)
    else:
        y = unit(unit(x, maps, 3, stride, bias), maps, 3, 1, bias, relu=False)
    if x.shape[1:] != y.shape[1:]:
        x = unit(x, y.shape[-1], 1, stride, bias, relu=False)
    return layers.ReLU()(layers.Add()([x, y]))


# %%
RESNETS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def resnet(depth, late=False, bias=False):
    """ResNet of 18, 34, 50, 101 or 152 layers for (N, 224, 224, 3)."""
    x = image = keras.Input((224, 224, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(unit(x, 64, 7, 2, bias))  # (N, 56, 56, 64)
    for stage, n in enumerate(RESNETS[depth]):
        for i in range(n):
            stride = 2 if stage > 0 and i == 0 else 1
            x = block(x, 64 * 2**stage, stride, depth >= 50, late, bias)
    x = layers.GlobalAveragePooling2D()(x)  # (N, 7, 7, C) -> (N, C)
    return keras.Model(image, layers.Dense(1000)(x))


# %% [markdown]
# **How many parameters has ResNet-50?** You will meet four answers. Which of them is right?

# %%
for bias, name in [(False, "no biases before a batch norm (torchvision)"), (True, "with biases (Keras)")]:
    model = sketch(resnet, 50, bias=bias)
    trainable = sum(math.prod(v.shape) for v in model.trainable_variables)
    print(f"{name:44} {trainable:,} trainable, {model.count_params():,} with moving averages")
print(f"keras.applications.ResNet50: {sketch(keras.applications.ResNet50, weights=None).count_params():,}")
print(f"trainable tensors, with biases: {len(model.trainable_variables)}")

# %% [markdown]
# All of them, each by its convention. (A bias before a batch normalisation is useless: the mean takes it out.
# Keras has it nevertheless. The 214 tensors come back in lecture 06, where each of them must travel.)

# %%
paper = {18: 1.8, 34: 3.6, 50: 3.8, 101: 7.6, 152: 11.3}  # billions, table 1 of He et al.
torchvision = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
resnets = {d: check(f"ResNet-{d}", resnet, d) for d in (18, 34, 50)}
resnets |= {d: count(sketch(resnet, d)) for d in (101, 152)}
late = {d: count(sketch(resnet, d, late=True)) for d in (50, 101)}
late[152] = check("ResNet-152, late", resnet, 152, late=True)
for d, known in torchvision.items():
    assert resnets[d]["parameters"].sum() == known
table = pd.DataFrame({"paper": paper, "counted": {d: t["multiply-adds"].sum() for d, t in resnets.items()}})
table["late stride"] = pd.Series({d: t["multiply-adds"].sum() for d, t in late.items()})
table[["counted", "late stride"]] /= 1e9
display(table.round(2))  # G multiply-adds
print(f"ResNet-152, late, and all else: {table.loc[152, 'late stride'] / (1 - late[152].attrs['rest']):.2f}")

# %% [markdown]
# Parameters: equal to torchvision's published counts, to the last one. Work: the paper's table, within 2%.
# Libraries of today put the stride of a bottleneck into its 3×3 ("v1.5"), which costs 6% more for ResNet-50
# and 3 and 2% for the deeper ones. The slide's "3.6–11.6 GFLOPS" for ResNets begin with the paper's
# ResNet-34; but the paper's ResNet-152 has 11.3, with the late stride 11.51, and with the profiler's small
# operations 11.54; from where the slide has 11.6 we could not find out. And for CIFAR-10, where the paper
# states parameters, our own `stack`:

# %%
for n, said in {3: 0.27, 5: 0.46, 9: 0.85}.items():
    counted = count(sketch(stack, n, True, filters=16, shape=(32, 32, 3)))["parameters"].sum() / 1e6
    print(f"ResNet-{6 * n + 2:<3} {counted:.3f} M, the paper: {said} M")
    assert abs(counted - said) < 0.005

# %% [markdown]
# That also answers the question of 3.1, and then the slide's line as a whole can be put into one unit:

# %%
said = {"AlexNet": 1.5, "VGG-19": 19.6, "ResNet-34": 3.6, "ResNet-152": 11.6}
facts |= {f"ResNet-{d}": t for d, t in resnets.items()}
reuse = summary(facts)["multiply-adds a parameter"]
compare("multiply-adds for each parameter, ResNet-50", reuse["ResNet-50"])
table = summary(facts).loc[list(said), ["G multiply-adds"]]
table["GFLOP"] = 2 * table["G multiply-adds"]
table["in AlexNets"] = table["GFLOP"] / table.loc["AlexNet", "GFLOP"]
table["the slide's GFLOPS"] = said
table["its AlexNets"] = table["the slide's GFLOPS"] / said["AlexNet"]
display(table.round(2))

# %% [markdown]
# The first row is in FLOPs, the other three are in multiply-adds: so the slide makes every other network look
# half as expensive, against AlexNet, as it is.

# %% [markdown]
# ## 3.9 What has it learned?
#
# The weights of one mini-AlexNet of 3.6 were recorded with the runs, as float16. Do they still do what they
# did?

# %%
with np.load("runs/03_mini_alexnet.npz") as file:
    mini.set_weights([file[str(i)].astype(np.float32) for i in range(len(file.files))])
test_x, test_y = fashion_mnist("test", record["test"])
logits = mini.predict(test_x, batch_size=500, verbose=0)
error = 100 * np.mean(logits.argmax(1) != test_y)
recorded = depth[(depth["removed"] == "none") & (depth["seed"] == 0)]["test"].item()
print(f"test error {error:.2f}%, recorded {recorded:.2f}%")
assert abs(error - recorded) < 0.3  # float16 may turn a few close decisions
boot, bag, shirt, trouser = (
    int(np.flatnonzero((test_y == c) & (logits.argmax(1) == c))[0]) for c in (9, 8, 6, 1)
)

# %% [markdown]
# **First: the filters of the first layer, and what they answer.** Sixteen filters of 5×5, and their maps for
# one boot. AlexNet's well-known first layer shows edges in all directions and blobs of colour. **Predict:**
# will these?

# %%
layer_outputs = [layer.output for layer in mini.layers if isinstance(layer, layers.Conv2D)]
look = keras.Model(mini.input, layer_outputs)
maps = look(test_x[boot : boot + 1])  # a list of (1, H, W, C)
filters = mini.layers[1].kernel.numpy()  # (5, 5, 1, 16)
limit = np.abs(filters).max()
fig, axes = plt.subplots(4, 16, figsize=(9.5, 2.7))
for i in range(16):
    axes[0, i].imshow(filters[..., 0, i], cmap="gray", vmin=-limit, vmax=limit)
    for row, level in [(1, 0), (2, 2), (3, 4)]:
        axes[row, i].imshow(maps[level][0, ..., i], cmap="gray")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
for ax, name in zip(axes[:, 0], ("1: filters", "1: maps", "3: maps", "5: maps"), strict=True):
    ax.set_ylabel(f"layer {name}", rotation=0, ha="right", va="center")
plt.show()
print(f"maps of one boot: {[tuple(m.shape[1:]) for m in maps]}; layer 5, zero for this boot:", end=" ")
print(f"{int((maps[4].numpy().max((0, 1, 2)) == 0).sum())} of {maps[4].shape[-1]}")

# %% [markdown]
# *(Figure: four rows of sixteen small grey images. First row: the 5×5 filters, which look like noise. Second
# row: the maps of layer 1 show the boot, each with other edges or with its whole area lit; in two of them the
# background is lit. Third and fourth row: the first sixteen of the 48 maps of layer 3 and of the 32 of layer
# 5, of 6×6 pixels, in which no boot is recognised any more, and many of which are black. Each map is scaled
# to its own brightest pixel.)*
#
# Noise! And yet the maps below them show edges, and the network is right most of the time. Have the filters
# hardly been trained? The runs started from known seeds, so the *random start* can be drawn again and
# compared, layer by layer:

# %%
trained = [layer.kernel.numpy() for layer in mini.layers if layer.weights]
starts = [keras.initializers.HeNormal(seed=i)(w.shape).numpy() for i, w in enumerate(trained, 1)]
for i, (w, start) in enumerate(zip(trained, starts, strict=True), 1):
    alike = np.corrcoef(w.ravel(), start.ravel())[0, 1]
    print(f"layer {i}: correlation of the weights with their random start {alike:.2f}")

# %% [markdown]
# So it is: after ten epochs the filters still nearly *are* their random start, and only the last layer has
# moved far. A random filter answers to edges, too, and what stands above it learns to read the answers. The
# clean edges of AlexNet's first layer took 1.2 million pictures and 90 epochs. The deeper maps, of few
# pixels, tell *where something is* rather than how it looks.
#
# **Second: occlusion.** Cover a 6×6 square of the picture and ask how sure the network still is of the right
# class; slide the square over all places. **Predict** for the boot: where does it hurt most?


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
    ax.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 6, 6, fc="none", ec="white", lw=1.5))
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
# *(Figure: four maps, each with the outline of its picture in red: a boot, a bag, a shirt and trousers. Light
# means that the network is still sure when the square is centred there, dark that it is not; the white square
# is the covered place where it hurts most.)*
#
# Did you expect the sole, the heel, the lace? Look where the dark places lie, and at the printed mean grey
# under the worst one: 0 is empty background. What hurts most can be a square *where there was nothing*, which
# turns the outline into that of something else. The network has learned outlines, and a grey square is part
# of a new one. The occluder is part of the question: exercise 5.
#
# **Third: which picture does the network like best?** Start from grey noise and climb: change the *pixels*
# along the gradient of one class's score. **Predict:** will you recognise the ten pictures?


# %%
def favourite(jitter, smooth, ink, steps=150):
    """(10, 28, 28, 1): from noise, uphill along the score of each class; roughness and ink cost"""
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
train_x, train_y = fashion_mnist("train", record["train"])
means = np.stack([train_x[train_y == c].mean(0) for c in range(10)])
rows = {"mean picture": means, "climbed freely": favourite(0, 0, 0)}
rows["climbed at a cost"] = favourite(1, 0.03, 0.05)
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
# *(Figure: ten columns, one for each class, three rows. Mean pictures: blurred but recognisable clothes.
# Climbed freely: black and white noise. Climbed at a cost: grey and black strokes on white, in some of which
# one can see, with goodwill, the two legs of trousers, the sole of a sneaker or the handle of a bag. All are
# drawn inverted: black is a pixel of 1, ink, and white a pixel of 0.)*
#
# The network is *certain* of noise (the printed probabilities). It has learned what **separates** ten classes
# on the pictures that it saw; nobody ever told it that other pictures exist. That is worth remembering
# whenever someone calls a probability of 1.00 "confidence". When rough pictures and ink cost something, and
# the picture is shifted by a pixel at each step, so that no single pixel counts, there are things to be
# recognised; but then it was *we* who said what a picture of clothes is like. Every visualisation that looks
# good has such a prior in it.

# %% [markdown]
# ## 3.10 What do you pay for accuracy?
#
# Now the picture we have been working for. Computation and parameters are *our counts*. The accuracies on
# ImageNet are those that torchvision publishes for its weights (top-1, one 224×224 crop, version 1 of the
# weights), measured in one way for all, which is fairer than the papers' own. (Its AlexNet and GoogLeNet are
# slight variants of ours, GoogLeNet's weights were taken over, and its bottlenecks have the late stride.)
# **Guess:** AlexNet has 57%. With which top-1 accuracy does VGG-16 reward you for 21 times the work?


# %%
guess("top-1 of VGG-16", None, "%")

# %%
TOP1 = {"AlexNet": 56.522, "VGG-16": 71.592, "VGG-19": 72.376, "GoogLeNet": 69.778, "ResNet-18": 69.758}
TOP1 |= {"ResNet-34": 73.314, "ResNet-50": 76.130, "ResNet-101": 77.374, "ResNet-152": 78.312}
facts |= {f"ResNet-{d}": t for d, t in late.items()}
published = summary(facts).assign(top1=TOP1)
compare("top-1 of VGG-16", published.loc["VGG-16", "top1"])

# %%
own = {f"{KINDS[flag]} {deep}": count(model) for (deep, flag), model in stacks.items()}
small = summary(own | {"mini-AlexNet": count(mini)})
by_kind = residual.groupby(["layers", "residual"])["test"].mean()
errors = {f"{KINDS[flag]} {deep}": error for (deep, flag), error in by_kind.items()}
errors["mini-AlexNet"] = depth[depth["removed"] == "none"]["test"].mean()
small["top1"] = 100 - pd.Series(errors)
display(published.round(2))
in_small = {"M parameters": "k parameters", "G multiply-adds": "M multiply-adds", "MB kept": "kB kept"}
display((small * [1e3, 1e3, 1e3, 1, 1]).rename(columns=in_small).round(1))


# %%
def bubbles(ax, table, unit, colour, hatch, scale, offsets):
    """Accuracy against multiply-adds; the area of a bubble is its number of parameters."""
    work, top1 = table["G multiply-adds"] * {"G": 1, "million": 1e3}[unit], table["top1"]
    look = {"facecolor": colour, "alpha": 0.35, "edgecolor": "0.2", "hatch": hatch}
    ax.scatter(work, top1, s=scale * table["M parameters"], **look)
    ax.scatter(work, top1, s=6, color="black")
    for name in table.index:
        where = {"textcoords": "offset points", "xytext": offsets.get(name, (0, 9)), "fontsize": 8.5}
        ax.annotate(name, (work[name], top1[name]), ha="center", **where)
    ax.margins(0.12)
    ax.set(xscale="log", xlabel=f"{unit} multiply-adds an image", ylabel="top-1 accuracy / %")


# %%
fig, axes = plt.subplots(1, 2, figsize=(9.8, 4.6), width_ratios=[1.6, 1])
apart = {"GoogLeNet": (-8, 9), "ResNet-18": (12, -15), "VGG-16": (-4, -36), "VGG-19": (2, 26)}
apart |= {"AlexNet": (0, 17), "ResNet-152": (0, 14), "ResNet-101": (-26, 10)}
bubbles(axes[0], published, "G", palette[0], None, 9, apart)
apart = {"plain 8": (0, -15), "residual 20": (-14, 11), "plain 20": (-32, -5), "mini-AlexNet": (12, -23)}
bubbles(
    axes[1], small, "million", palette[1], "//", 1500, apart | {"residual 56": (-6, 16), "plain 56": (0, 13)}
)
axes[1].set_xticks([1, 3, 10], ["1", "3", "10"])
axes[0].set_title("ImageNet: computation counted here,\naccuracy published", fontsize=10.5)
axes[1].set_title("Fashion-MNIST, 5,000 images:\nour recorded runs", fontsize=10.5)
plt.show()

# %% [markdown]
# *(Figure, left: top-1 accuracy on ImageNet against multiply-adds, logarithmic; the area of a bubble is the
# number of parameters, on a scale of its own in each half. AlexNet lies alone at the bottom left, a large
# bubble. The ResNets climb from 18 to 152 layers along one flattening curve. The two VGGs are huge bubbles
# far to the right of that curve. GoogLeNet, the smallest bubble, lies on it at its lower end. Right, hatched:
# our own small networks on Fashion-MNIST, all near 85%, but for the plain one of 56 layers, which lies far
# below the residual one of the same size.)*

# %%
bare = {n: facts[n].loc[facts[n]["layer"] != "batchnormalization", "kept"].sum() for n in published.index}
ranks = published.assign(bare=bare).rename(columns={"bare": "kept, without batch norm"}).rank().corr()["top1"]
print("rank correlation with the accuracy, nine published networks:")
print(ranks.drop("top1").round(2).to_string())

# %% [markdown]
# **So what do you pay for accuracy?** Not parameters: AlexNet and ResNet-152 have the same number, and their
# correlation is near zero. Multiply-adds, *if* they are well spent: the ResNets climb with their work, each
# doubling a little less than the one before, but ResNet-34 beats VGG-16 at a quarter of the work and a sixth
# of the parameters, and our plain network of 56 layers pays for its depth with a *loss*. (These VGGs have no
# batch normalisation. With it torchvision's VGG-16 has 73.4 and VGG-19 74.2: the *accuracy* of ResNet-34 is
# in part normalisation. What remains is the price, a quarter of the work.) And, of all three, what goes with
# accuracy most closely is the **memory**, which nobody prints: who uses a parameter again and again, at many
# places and in many layers, must keep the outcome of each use. (The number stays as high without the outputs
# of batch normalisation, which the older networks lack. But nine networks, chosen because they were good, are
# a small sample: a correlation to think about, no law.) Memory bounds the batch; so this is where the next
# lectures begin.
#
# On our side of the picture nothing of the kind can be seen, except the last point. Six of seven networks, an
# order of magnitude apart in work, make nearly the same errors: 5,000 small pictures are used up. What small
# data can show is whether a network *can be trained* (3.7, 3.8). What it is *worth*, they do not show, and
# nothing was trained on ImageNet here: for that one needs the rest of this course.

# %% [markdown]
# ## What was learned
#
# 1. A layer has three sizes: $(k^2C + 1)K$ parameters, $H_oW_o k^2 C K$ multiply-adds, $H_oW_oK$ numbers to
#    keep. In AlexNet and VGG they live in three different places of the network.
# 2. Counts depend on conventions: biases, groups, moving averages, multiply-adds or FLOPs, the place of a
#    stride. Two right counts can be derived from each other; some published figures cannot.
# 3. In a convolution each parameter is used $H_oW_o$ times, whatever the filter; in a fully connected layer
#    once. Leaving out the large fully connected layers (an average in their place), and more convolutions on
#    larger maps, raised the average from a dozen to hundreds. Small filters and 1×1 reductions save
#    parameters *and* work.
# 4. Batch normalisation makes the loss blind to the scale of the weights: here the largest usable learning
#    rate grew more than tenfold.
# 5. Deep plain networks fail *on their training set*. In ours the gradient did not vanish; it exploded, and
#    held only over a ten-millionth of the weights' length. A shortcut without parameters repairs it.
# 6. A network can be certain of noise.
#
# **Open questions.** (a) Without four layers our mini-AlexNet was as good as before. Which data set of the
# same size would need them? Can you say it before you train? (b) A 1×1 convolution has a low arithmetic
# intensity, a 3×3 a high one (lecture 01). By which factor do multiply-adds then mispredict the *time* of
# GoogLeNet against VGG on your machine? (c) Inference keeps nothing for a way back. What decides the memory
# then, and which of the networks would you put into a phone?
#
# **Exercises.** Assignment 03, *Count and build*, asks for the counter, a residual block, and batch
# normalisation folded into a convolution. Beyond it:
#
# 1. Count VGG-16 for 448×448 photographs. Which of the three counts grow, and by how much? What becomes of
#    the first fully connected layer?
# 2. Replace each 3×3 of `stack` by a depthwise 3×3 (as `Conv2D(..., groups=C)`; our counter does not know
#    `DepthwiseConv2D`) and a 1×1. Predict all three counts first.
# 3. Give `promises` an argument `norm` and call it with `norm=False`: does the gradient vanish now? Draw both
#    panels again.
# 4. Put $\gamma = 0.1$ in place of 1 into the last batch normalisation of each block. What does `promises`
#    say for 56 layers? And with $\gamma = 0$: which kernels have a gradient at all, and why does the network
#    learn nevertheless? (Lecture 08 meets this trick again, with large batches.)
# 5. Cover with white (0) and with the mean picture in place of grey. Which of the occlusion maps change?
# 6. Run `python runs/03_small_networks.py --seeds 3 4 --out runs/more_seeds.json` (some minutes) and join the
#    two where the record is read: `record["jobs"] +=
#    json.loads(pathlib.Path("runs/more_seeds.json").read_text())["jobs"]`. Does any row of 3.6 move out of
#    the spread?
#
# Next: **04, one device, fast**, asks how long all these multiply-adds take, and why it is not in proportion.
