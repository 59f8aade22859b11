# %% [markdown]
# # 3 · From LeNet to ResNet
#
# **What do you pay for accuracy: parameters, multiply-adds, memory, or time?**
#
# AlexNet (2012) and ResNet-152 (2015) have the same number of parameters, 61 and 60 million. One of them
# names the right class of an ImageNet photograph in 57 cases of 100, the other in 78. What was bought in
# these three years, and what was paid? We take the families of networks apart with a counter, and train small
# ones where counting is not enough.
#
# You will
#
# 1. build LeNet-5, AlexNet, VGG, GoogLeNet and the ResNets in a few lines each;
# 2. predict parameters, multiply-adds and memory of any layer, with a counter that two others check;
# 3. know why each idea came: ReLU and dropout, small filters, 1×1 convolutions, batch normalisation,
#    shortcuts, groups;
# 4. tell what a picture of thirteen networks can prove, and what it cannot.
#
# Notation: $N$ images, $C$ channels, $H \times W$ pixels, $K$ filters, kernel size $k$, learning rate $\eta$.
# A multiply-add is two FLOPs. We count **multiply-adds**, as He et al. do, who call them FLOPs. Before each
# count write your guess into `guess`, or into the field below it: the cell that computes it compares.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=2, seed=3)

# %%
import json
import math
import pathlib
import resource
import sys
import time

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
# plan: convolutions that look at a small window, pooling, more and more maps, and at the end a classifier of
# fully connected layers.
#
# **Pooling** replaces each 2×2 window of a map by one number, its mean here, its maximum in later networks
# (AlexNet takes 3×3 windows that overlap). It has no weights. What follows has a quarter of the pixels to
# work on, and a filter behind it sees twice as far; and when the picture moves by one pixel, the pooled map
# changes less than the map.


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
# connected layer once. On average, how many multiply-adds does LeNet-5 make with one parameter? And
# ResNet-50?
#
# The counter: a convolution of $K$ filters of $k \times k \times C$ weights has $(k^2 C + 1)K$ parameters
# with biases, and each of its $H_o W_o K$ outputs is a sum of $k^2 C$ products. A fully connected layer is
# the same with one pixel. (The filters of a *grouped* convolution see the channels of their group only; one
# that is *depthwise* sees a single channel.) All else is neglected, and we check whether it may be.

# %%
guess("multiply-adds for each parameter, LeNet-5")
guess("multiply-adds for each parameter, ResNet-50")


def parameters(layer):
    """Trainable parameters of a layer, from the shapes of its input and its settings."""
    C = layer.input.shape[-1] if isinstance(layer, COUNTED) else 0
    if isinstance(layer, layers.Conv2D):
        return (math.prod(layer.kernel_size) * C // layer.groups + layer.use_bias) * layer.filters
    if isinstance(layer, layers.DepthwiseConv2D):
        return (math.prod(layer.kernel_size) + layer.use_bias) * C
    if isinstance(layer, layers.Dense):
        return (C + layer.use_bias) * layer.units
    return 2 * C  # of a normalisation: a scale and a shift for each channel


def multiply_adds(layer):
    """Products that are summed up for one image."""
    if isinstance(layer, layers.Conv2D | layers.DepthwiseConv2D):
        C = layer.input.shape[-1] // layer.groups if isinstance(layer, layers.Conv2D) else 1
        return math.prod(layer.output.shape[1:]) * math.prod(layer.kernel_size) * C
    return math.prod(layer.input.shape[1:]) * layer.units if isinstance(layer, layers.Dense) else 0


# %% [markdown]
# For the memory we count the numbers that a layer puts out and that the backward pass needs again. (A ReLU
# can overwrite its input, a reshape or a concatenation need not copy: we do not count them.)

# %%
WEIGHTED = (layers.Conv2D, layers.DepthwiseConv2D, layers.Dense)
COUNTED = (*WEIGHTED, layers.BatchNormalization, layers.LayerNormalization)
POOLING = (layers.MaxPooling2D, layers.AveragePooling2D, layers.GlobalAveragePooling2D)
KEPT = (*COUNTED, *POOLING, layers.Add, layers.Multiply, layers.Activation)


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
    shapes = [layer.output.shape[1:] for layer in found]
    table = pd.DataFrame({"layer": map(describe, found), "output": ["×".join(map(str, s)) for s in shapes]})
    counts = {"parameters": parameters, "multiply-adds": multiply_adds}
    return table.assign(
        **{n: [f(x) for x in found] for n, f in counts.items()}, kept=[*map(math.prod, shapes)]
    )


# %%
table = count(lenet5())
display(table)
totals = table[["parameters", "multiply-adds", "kept"]].sum()
print(totals.to_string())
compare("multiply-adds for each parameter, LeNet-5", totals["multiply-adds"] / totals["parameters"])

# %% [markdown]
# Read the shapes from top to bottom: the picture shrinks while the maps grow in number. Nearly all parameters
# sit below, in the fully connected layers; most of the work is done above, in the convolutions. (The paper
# counts 60,000 parameters: *Further* derives them.)
#
# ### Two witnesses
#
# For the parameters our witness is Keras, which counts the variables it makes. For the multiply-adds it is
# TensorFlow's profiler, which knows nothing of Keras' layers: it looks at the *operations* of the graph and
# at their shapes. Both can be asked without allocating a weight: inside a `tf.Graph` a variable is a name and
# a shape.


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
    products = sum(kinds.get(kind, 0) for kind in ("Conv2D", "DepthwiseConv2dNative", "MatMul"))
    assert table["parameters"].sum() == theirs, f"{name}: Keras counts {theirs:,} parameters"
    assert 2 * table["multiply-adds"].sum() == products, f"{name}: TensorFlow counts {products:,} FLOPs"
    rest = table.attrs["rest"] = 1 - products / sum(kinds.values())
    print(f"{name:14} {theirs:12,} parameters {products // 2:15,} multiply-adds; all else {rest:.2%}")
    return table


lenet = check("LeNet-5", lenet5)

# %% [markdown]
# The last column is what we neglect: the share of biases, pooling and the like in the profiler's FLOPs. Watch
# it shrink.
#
# ## 3.2 AlexNet: where are the parameters, where is the work?
#
# Krizhevsky, Sutskever and Hinton, 2012: the same plan for photographs of 1000 classes, with 1.2 million of
# them to train on. Why did a network a thousand times as large train at all? The paper says what each idea
# brought:
#
# - **ReLU**, $\max(0, x)$: its slope is 1 wherever it is not 0, while that of tanh fades. A small network
#   reaches 25% training error on CIFAR-10 six times as fast as with tanh.
# - **Dropout**: in training, half of the outputs of two fully connected layers, drawn at random, are set to
#   0. Much less overfitting, for twice the steps.
# - **Augmentation**: crops of 224×224 pixels out of 256×256, their mirror images, and shifted colours.
# - **Two GPUs** of 3 GB, each with half the maps: 1.7 points of top-1 against half as many maps on one card.
#
# In layers 2, 4 and 5 a filter sees only the maps on its own card: two groups. (The paper says 224×224
# pixels, but its 55×55 outputs of 11×11 filters at stride 4 need 227; everybody builds 227.) **Guess:** which
# share of AlexNet's parameters lies in its five convolutions? And which share of its multiply-adds?

# %%
guess("share of parameters in AlexNet's convolutions", unit="%")
guess("share of multiply-adds in AlexNet's convolutions", unit="%")


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
        x = layers.Dropout(0.5)(layers.Dense(units, activation="relu")(x))
    return keras.Model(image, layers.Dense(1000)(x))


# %%
alex, whole = count(sketch(alexnet)), check("AlexNet, whole", alexnet, groups=1)
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
# fully connected layers are hatched. Parameters: hardly any in the convolutions, more than half in the first
# fully connected layer. Multiply-adds: most in the five convolutions. Outputs: more than a third in the first
# convolution; the poolings, not drawn, hold the rest.)*
#
# Whoever says that a network is large must say in which of the three. When training is distributed, each
# *parameter* is sent over the network in each step (lecture 06), and in AlexNet most of them do hardly any
# work. (For the grouped network the second witness is missing: Keras hands grouped convolutions to a
# compiler where the profiler cannot see them.)
#
# ## 3.3 VGG: the same filter, again and again
#
# Simonyan and Zisserman, 2014: away with the 11×11 and 5×5 filters. Every convolution is 3×3, and depth does
# the rest. Why is that a good trade? A pixel behind two 3×3 convolutions *sees* 5×5 pixels of the input,
# behind three 7×7. How far a whole network sees, its **receptive field**, follows from two numbers that we
# carry from layer to layer: the field $r$ and the distance $j$ of neighbouring outputs, in pixels of the
# input.


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
# The price is the third size, two or three times the outputs to keep.


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
# last three 3%, the first hardly any. Outputs: two fifths of them come from the first two layers.)*
#
# The paper's four counts hold, and "all else" has become less than a thousandth. Now a slide of the decks
# that this course comes from: "1.5 GFLOPS" an image for AlexNet, "19.6" for VGG. (An amount of work is FLOP;
# FLOPS is a speed.) Do they compare?

# %%
slide = {"AlexNet": 1.5, "VGG-19": 19.6}
for name, t in {"AlexNet": alex, "VGG-19": vggs["E"]}.items():
    products = t["multiply-adds"].sum() / 1e9
    print(f"{name:8} {products:5.2f} G multiply-adds = {2 * products:5.2f} GFLOP; the slide: {slide[name]}")
dense = vggs["D"]["layer"].str.startswith("dense")
print(f"VGG-16 without its dense layers: {vggs['D'].loc[~dense, 'multiply-adds'].sum() / 1e9:.2f} G")

# %% [markdown]
# AlexNet's number is in FLOP, VGG's in multiply-adds: the slide makes VGG look half as expensive as it is.
# (It took VGG's from He et al., whose "VGG-16/19 nets (15.3/19.6 billion FLOPs)" is an uneven pair itself:
# the first is without the fully connected layers.)
#
# ## 3.4 What fits into the memory?
#
# A training step must hold, for each parameter, the weight, its gradient and its *momentum*, the running sum
# of earlier gradients along which the optimiser steps. And for each image of the batch the outputs that we
# called kept. In float32:
#
# $$\text{bytes} \approx 4\,(3 \cdot \text{parameters} + N \cdot \text{kept})$$
#
# **Guess:** AlexNet was trained with batches of 128 on cards of 3 GB. How many images of VGG-16 would have
# fitted on such a card?

# %%
guess("images of VGG-16 in 3 GB")


def images_that_fit(table, memory=3e9):
    """The largest batch by the formula above; 0 where not even the parameters fit."""
    return max(0, int((memory / 4 - 3 * table["parameters"].sum()) // table["kept"].sum()))


# %%
for name, t in {"AlexNet, whole": whole, "VGG-16": vggs["D"]}.items():
    fixed, each = 12 * t["parameters"].sum() / 1e9, 4 * t["kept"].sum() / 1e6
    print(f"{name}: {fixed:.2f} GB fixed, {each:.1f} MB an image, {images_that_fit(t)} images in 3 GB")
compare("images of VGG-16 in 3 GB", images_that_fit(vggs["D"]))

# %% [markdown]
# By this count the whole AlexNet, without groups, fits on one card with its batch, although its authors say
# that it was too large for one. So measure the formula. Here is a mini-AlexNet for the 28×28 pictures of
# Fashion-MNIST, eight layers of which any can be left out. We run it forward and back with larger and larger
# batches and ask the operating system for the largest memory this process ever had: the slope is the bytes
# that an image costs. (`he_normal` draws weights with variance $2 / (k^2 C)$, which keeps signals behind a
# ReLU at their size.) **Guess:** how many times what the counter says will the step really take?


# %%
guess("memory of a step over what is kept", unit="×")


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
mini = mini_alexnet()
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
# More than predicted, by one and a half to a little more than two from run to run. On the way back the
# gradient of an output needs as much room as the output, while most outputs are still there; a library's
# scratch memory comes on top. So, for a program that recomputes nothing, the formula is a lower bound, and
# twice the part of the images is a good guess. (Once a kernel: the largest memory never falls.) Even doubled
# it does not explain the two cards; what else their program kept, one cannot tell from shapes.
#
# ## 3.5 GoogLeNet: 1×1 convolutions make room
#
# Szegedy et al., 2014, asked which filter a layer should have, 1×1, 3×3 or 5×5, and answered: all, side by
# side. That would be expensive, were it not for the 1×1 convolutions that first *reduce* the channels.
#
# ![Five blocks as columns of boxes from bottom to top; each box says its filters and its number of maps, and
# a strip on it batch normalisation or ReLU. VGG: two 3×3 convolutions of 256 maps. Inception (module 3a, from
# 192 maps): four branches side by side, 1×1 to 64; 1×1 to 96, 3×3 to 128; 1×1 to 16, 5×5 to 32; pooling, 1×1
# to 32; a concatenation joins them. Residual (ResNet-34): 3×3 to 64 with batch norm and ReLU, 3×3 to 64 with
# batch norm; an arrow around both is added, then ReLU. Bottleneck (ResNet-50), from 256 maps: 1×1 to 64, 3×3
# to 64, 1×1 to 256, and the arrow around. ResNeXt: the same with 128 maps inside, the 3×3 in 32
# groups.](figures/03_blocks.svg)
#
# **Guess:** the first module gets 28×28 pixels of 192 channels. By which factor does the reduction to 16
# channels make its 5×5 branch cheaper?

# %%
guess("1×1 reduction before the 5×5", unit="×")


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


# %%
direct, reduced = 25 * 192 * 32, 192 * 16 + 25 * 16 * 32  # weights; each is used 28² times
print(f"{direct * 28**2 / 1e6:.1f} and {reduced * 28**2 / 1e6:.1f} million multiply-adds")
compare("1×1 reduction before the 5×5", direct / reduced)
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


google = check("GoogLeNet", googlenet)

# %% [markdown]
# Nine modules, and an average over the whole map in place of the large fully connected layers: a ninth of
# AlexNet's parameters, twice its work. (A slide of another source gives it 5M parameters; *Further* compares
# the paper's own table module by module.)
#
# ## 3.6 How many layers, how many images?
#
# Zeiler and Fergus (2013) took layers out of AlexNet and trained what was left (their table 3, errors on
# ImageNet's validation set). Without two fully connected layers, 54 of 61 million parameters: 44.8% where the
# whole network has 40.5. Without two convolutions, 45.4. Without all four, 71.3, and nearly the same on the
# *training* images: it cannot even learn these. Our mini-AlexNet shows nothing of the kind: in the recorded
# runs it is as good without these four layers (*Further*). Ten kinds of clothing in grey are no task that
# needs eight.
#
# What does limit a network on such data? Sun et al. (2017) found accuracy to grow with the *logarithm* of the
# number of images, up to 300 million. **Guess:** the network without layers 3, 4, 6 and 7 makes 300 steps of
# 50 images, drawn from 100 different ones, or from 10,000. What are the test errors? The training errors?

# %%
guess("test error, 100 images", unit="%")
guess("test error, 10,000 images", unit="%")
small = mini_alexnet([3, 4, 6, 7])


@tf.function
def sgd_step(images, labels, rate):
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, small(images, training=True))
    gradients = tape.gradient(loss, [v.value for v in small.trainable_variables])
    for v, g in zip(small.trainable_variables, gradients, strict=True):
        v.assign_sub(rate * g)


def learn(x, y, seed, steps=300):
    """Train `small` anew on batches of 50 out of x (N, 28, 28, 1); errors on x and on the test set in %."""
    rng = np.random.default_rng(seed)
    for i, v in enumerate(small.trainable_variables):
        v.assign(keras.initializers.HeNormal(seed=100 * seed + i)(v.shape) if len(v.shape) > 1 else 0 * v)
    for step in range(steps):
        take, rate = rng.integers(len(x), size=50), 0.1 * (1 - step / steps)
        sgd_step(tf.constant(x[take]), tf.constant(y[take]), tf.constant(rate, tf.float32))
    sets = [(x[:2000], y[:2000]), (test_x, test_y)]
    return [100 * np.mean(small(images).numpy().argmax(1) != labels) for images, labels in sets]


# %% tags=["measured"]
(all_x, all_y), (test_x, test_y) = fashion_mnist("train", 30_000), fashion_mnist("test", 2000)
sizes = [100, 300, 1000, 3000, 10_000]
errors = np.array([[learn(all_x[s::3][:n], all_y[s::3][:n], s) for s in range(3)] for n in sizes])
fig, ax = plt.subplots(figsize=(7.4, 3.5))
for which, name in enumerate(["on the images it was trained with", "on the test set"]):
    some = errors[:, :, which]  # (sizes, seeds)
    ax.plot(sizes, some.mean(1), label=name, color=palette[which])
    ax.fill_between(sizes, some.min(1), some.max(1), color=palette[which], alpha=0.2)
ax.set(xscale="log", xlabel="different training images", ylabel="error / %", ylim=(0, None))
ax.set_title("The same 300 steps (line: mean, band: all of three seeds)")
ax.legend()
plt.show()
compare("test error, 100 images", errors[0, :, 1].mean())
compare("test error, 10,000 images", errors[-1, :, 1].mean())

# %% [markdown]
# *(Figure: error against the number of different training images, 100 to 10,000, logarithmic. On the test set
# it falls, and flattens. On the images trained with it rises from nearly zero, until the two lines almost
# meet.)*
#
# With few images the network learns them by heart, and the gap between the two lines is what it did not
# learn about clothes. Each tenfold of images buys less than the one before, and the lines come close: of
# 10,000 images our steps see each one and a half times. Here more data help no more; a better network or
# longer training must.
#
# ## 3.7 Batch normalisation: what does it change?
#
# VGG's training began with the weights of a shallower network, GoogLeNet's had auxiliary classifiers
# half-way. Ioffe and Szegedy's remedy (2015) is a layer that takes each channel over the whole batch,
# subtracts the mean, divides by the standard deviation, and then lets the network choose scale $\gamma$ and
# shift $\beta$ for itself:
#
# $$y = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad \mu, \sigma^2
# \text{ over } N, H, W \text{ of the batch}.$$
#
# So there are four numbers for each channel: $\gamma$ and $\beta$ are trained; *moving averages* of mean and
# variance are only collected, and stand in for the batch's when the network is used. They have no gradient,
# and become a trap in lecture 07.
#
# What does the layer *do*? Whatever scale the convolution before it has, it takes it out again:

# %%
rng = np.random.default_rng(3)
x = rng.normal(5, 3, (32, 7, 7, 4)).astype(np.float32)
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
# The loss does not see the scale of the weights, and the gradient gets smaller as they grow. A step that was
# far too large makes the weights long, and long weights turn less. If that is what matters, much larger
# learning rates must still work.
#
# The experiment: a plain network of eight layers, with and without batch normalisation, eight learning rates,
# three epochs on 5,000 images of 14×14 pixels, three seeds. **Guess:** say that a network has learned when
# its mean test error is below 60% (guessing has 90). How many times as large may the rate be with batch
# normalisation? (Recorded by `runs/03_small_networks.py`: SGD with momentum 0.9, batch 50; the rate is
# constant here and falls along a cosine in 3.8.)


# %%
guess("largest learning rate with over without batch norm", unit="×")


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
norm = runs[runs["part"] == "norm"]
for flag, group in norm.groupby("norm"):  # is what was trained what we have built here?
    assert set(group["parameters"]) == {sketch(stack, 1, residual=False, norm=flag).count_params()}

# %%
fig, ax = plt.subplots(figsize=(7.6, 3.7))
largest = {}
for flag, name in [(False, "without"), (True, "with batch normalisation")]:
    errors = norm[norm["norm"] == flag].groupby("rate")["test"].agg(["mean", "min", "max"])
    ax.fill_between(errors.index, errors["min"], errors["max"], alpha=0.25, color=palette[flag])
    style = {"color": palette[flag], "ls": "-" if flag else "--", "marker": "os"[flag]}
    ax.plot(errors.index, errors["mean"], label=name, **style)
    largest[flag] = errors.index[errors["mean"] < 60].max()
ax.axhline(90, color="0.4", ls=":", marker="")
ax.text(0.001, 91.5, "guessing", color="0.3", fontsize=9)
ax.set(xscale="log", xlabel=r"learning rate $\eta$", ylabel="test error after 3 epochs / %", ylim=(0, 100))
ax.set_title("The range of learning rates (line: mean, band: all of three seeds)")
ax.legend(loc="lower left")
plt.show()
compare("largest learning rate with over without batch norm", largest[True] / largest[False])

# %% [markdown]
# *(Figure: test error against learning rate from 0.001 to 3. Without batch normalisation, dashed: a valley
# between 0.01 and 0.1, then up to 90%, guessing, from 0.3 on. With it, solid: lower everywhere, flat between
# 0.01 and 1; at 3 the band reaches from 50% to guessing.)*
#
# The prediction holds: with it all seeds learn at a rate ten times as large, and some at 3. (One seed of
# three guesses there; on another processor, which rounds otherwise, all three learned. At the edge luck
# decides, and the number printed divides two grid points.) It does not prove the reason: every explanation
# of this layer predicts larger rates, the paper's own (steadier inputs to each layer) and a later one (a
# smoother loss; Santurkar et al. 2018) as well. Three epochs measure how fast a network learns, not how good
# it gets.
# And there is a price that multiply-adds do not show: two passes over the layer's input, and one more set of
# outputs to keep.
#
# ## 3.8 ResNet: deeper is worse, and then it is not
#
# With batch normalisation one can train twenty layers. So why not fifty-six? He, Zhang, Ren and Sun (2015)
# found that a deeper *plain* network gets worse, and not because it overfits: its **training** error is
# higher, although it could imitate the shallower one by letting the additional layers do nothing. Their
# remedy makes doing nothing the default. A block computes what is to be *added* to its input, $y = x +
# F(x)$; if $F$ is zero, the block is not there. Our `stack` builds both kinds, with the same parameters. With
# eight layers there is no difference. **Guess** the training error with 56:

# %%
guess("training error, plain, 56 layers", unit="%")
guess("training error, residual, 56 layers", unit="%")
KINDS = {False: "plain", True: "residual"}
residual = runs[runs["part"] == "residual"].assign(layers=lambda t: (6 * t["blocks"] + 2).astype(int))
stacks = {(6 * n + 2, flag): sketch(stack, n, flag) for n in (1, 3, 9) for flag in KINDS}
for key, group in residual.groupby(["layers", "residual"]):
    assert set(group["parameters"]) == {stacks[key].count_params()}
found = residual.groupby(["layers", "residual"])[["train", "test"]].agg(["mean", "min", "max"])
display(found.loc[8].rename(KINDS).round(1))


def bars(t):
    """For errorbar: the mean of the seeds, and how far down and up the others reach."""
    return {"y": t["mean"], "yerr": [t["mean"] - t["min"], t["max"] - t["mean"]]}


tuned = runs[runs["part"].isin(["residual", "rates"]) & (runs["blocks"] == 9) & runs["residual"].eq(False)]
swept = tuned.groupby("rate")["train"].agg(["mean", "min", "max"])  # plain, 56 layers
best = tuned[tuned["rate"] == swept["mean"].idxmin()].set_index("seed")["train"]
plain20 = residual[(residual["layers"] == 20) & ~residual["residual"].astype(bool)].set_index("seed")["train"]

# %%
fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True)
for flag, name in KINDS.items():
    compare(f"training error, {name}, 56 layers", found.loc[(56, flag), ("train", "mean")])
    style = {"color": palette[flag], "ls": "-" if flag else "--", "marker": "os"[flag]}
    for what, fill in [("train", "none"), ("test", palette[flag])]:
        some = found.xs(flag, level="residual")[what]
        axes[0].errorbar(some.index, **bars(some), label=f"{name}, {what}", mfc=fill, **style)
    for deep, shade in [(20, 0.45), (56, 1.0)]:
        curves = residual[(residual["layers"] == deep) & (residual["residual"] == flag)]["epochs"]
        train = np.array([epochs["train"] for epochs in curves])  # (seeds, epochs)
        axes[1].plot(range(1, 9), train.mean(0), alpha=shade, label=f"{name}, {deep} layers", **style)
        axes[1].fill_between(range(1, 9), train.min(0), train.max(0), alpha=0.15, color=palette[flag])
axes[2].errorbar(swept.index, **bars(swept), label="plain, 56 layers", ls="--", color=palette[0])
for key, line in {(20, False): ":", (56, True): "-"}.items():
    label, level = f"{KINDS[key[1]]}, {key[0]} layers, at 0.05", found.loc[key, ("train", "mean")]
    axes[2].axhline(level, color=palette[key[1]], ls=line, marker="", label=label)
axes[0].set(xlabel="layers", ylabel="error / %", title="After 8 epochs", xticks=[8, 20, 56], ylim=(0, 100))
axes[1].set(xlabel="epoch", title="Training, on the way")
axes[2].set(xscale="log", xlabel=r"learning rate $\eta$", title="Training, other rates")
for ax in axes:
    ax.legend(fontsize=8, loc="upper right")
plt.show()
print(f"plain, 56 layers, best of {len(swept)} rates ({swept['mean'].idxmin()}):", end=" ")
print(f"{best.mean():.1f}%; worse than plain 20 at 0.05 in {(best > plain20).sum()} of {len(best)} seeds")

# %% [markdown]
# *(Figure, left: error against the number of layers, 8, 20 and 56. Plain networks, dashed: training and test
# error rise a little at 20 and steeply at 56 layers. Residual networks, solid: they stay low. Middle: the
# training error of 20 and 56 layers over eight epochs; the plain 56 layers stay far above the other three.
# Right: the training error of the plain 56 layers against the learning rate; level lines mark plain 20,
# dotted, and residual 56 layers, solid.)*
#
# As in the paper, plain networks get worse with depth on the images they were trained on, and shortcuts
# without a single parameter remove that. Is it the depth, or the rate? All of them had 0.05, tuned for none.
# The panel on the right gives the plain 56 layers, and only them, the choice of a rate. Even its lowest point
# lies far above the dotted line, in every seed: the rate is no excuse. Limits: eight epochs are few; and a
# seed fixes the start and the order of the images but not the rounding, so another processor can end
# elsewhere with the same seed: three seeds of one machine show less than the whole spread.
#
# ### But why?
#
# The popular answer is that the gradient *vanishes* on its way through 56 layers. The paper itself doubts it.
# **Guess:** in the plain network of 56 layers, before the first step, take for each layer the length of the
# gradient over that of the weights, and divide the first layer's by the last convolution's. A vanishing
# gradient is much below 1.
#
# A second question: a gradient is a promise. Go a short way against it, and the loss falls by slope times
# way. Take the step, and see **which share of the promise is kept**.

# %%
guess("gradient, first over last layer, plain 56", unit="×")
pictures, labels = all_x[:64], all_y[:64]
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
# How long is a step? In units of the length of all weights, or such that each layer moves by the same share
# of its own: we try both. Where the promise is larger than the whole loss it *cannot* be kept; where it is
# below $10^{-5}$, float32 cannot see it. Both are left out of the drawing.

# %%
STEPS = np.array([1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2])
WAYS = ("all weights", "each layer")  # whose length a step is measured by


def promises(blocks, residual, seeds=(0, 1, 2)):
    """Shares of the promise kept (seeds, ways, steps), NaN where not drawn; gradient over weight by layer."""
    evaluate, kernels = probe(stack(blocks, residual))
    shares, sizes = np.full((len(seeds), len(WAYS), len(STEPS)), np.nan), []
    for i, seed in enumerate(seeds):
        for j, v in enumerate(kernels):
            v.assign(keras.initializers.HeNormal(seed=1000 * seed + j)(v.shape))
        start, (loss, gradient) = [v.numpy() for v in kernels], evaluate()
        sizes.append([length([g]) / length([w]) for w, g in zip(start, gradient, strict=True)])
        whole = length(start) / length(gradient)
        for way, factors in enumerate([[whole] * len(kernels), [1 / size for size in sizes[-1]]]):
            slope = sum(f * length([g]) ** 2 for f, g in zip(factors, gradient, strict=True))
            for s in np.flatnonzero((STEPS * slope > 1e-5) & (STEPS * slope < float(loss))):
                for v, w, f, g in zip(kernels, start, factors, gradient, strict=True):
                    v.assign(w - STEPS[s] * f * g)
                shares[i, way, s] = float(loss - evaluate()[0]) / (STEPS[s] * slope)
    return shares, np.array(sizes)


# %% tags=["measured"]
probed = {(n, flag): promises(n, flag) for n in (1, 3, 9) for flag in (False, True)}
sizes = probed[9, False][1]
compare("gradient, first over last layer, plain 56", np.median(sizes[:, 0] / sizes[:, -1]))
rows = {}
for (n, flag), (shares, _) in probed.items():
    kept = [STEPS[np.flatnonzero(mean >= 0.5)[-1]] for mean in shares.mean(0)]
    rows[f"{KINDS[flag]}, {6 * n + 2} layers"] = [f"{step:.0e}" for step in kept]
print("the longest step of our grid that keeps half of its promise, as a share of the length of")
display(pd.DataFrame(rows, index=WAYS).T)

# %%
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), width_ratios=[1, 1.35])
for (n, flag), (shares, sizes) in probed.items():
    style = {"color": palette[flag], "ls": "-" if flag else "--", "marker": {1: "o", 3: "s", 9: "^"}[n]}
    style |= {"label": f"{KINDS[flag]}, {6 * n + 2}", "mfc": palette[flag] if flag else "none"}
    if n == 9:
        axes[0].semilogy(np.linspace(0, 1, sizes.shape[1]), np.median(sizes, 0), **style | {"marker": ""})
    share = shares[:, 0]
    axes[1].plot(STEPS, share.mean(0), **style)
    axes[1].fill_between(STEPS, share.min(0), share.max(0), color=palette[flag], alpha=0.12)
axes[0].set(xlabel="depth (0: input, 1: output)", ylabel="length of gradient / of weights")
axes[0].set_title("56 layers: it does not vanish", fontsize=11)
axes[1].set(xscale="log", xlabel="step / length of all weights", ylabel="share of the promise kept")
axes[1].set_title("How far does a gradient tell the truth?", fontsize=11)
axes[0].legend(fontsize=8.5)
axes[1].legend(fontsize=8.5, loc="lower left")
plt.show()

# %% [markdown]
# *(Figure, left: length of the gradient over that of the weights along the 56 layers, logarithmic. Residual:
# falling slowly. Plain: a nearly straight line that falls by orders of magnitude from the input to the
# output. Right: share of the promised fall of the loss against the length of the step. With more layers the
# curves move to the left, the plain ones much further: plain with 20 layers lies a little left of residual
# with 56, and plain with 56 far left of all.)*
#
# So the popular answer is wrong, here: with batch normalisation the gradient of the plain network
# **explodes** towards the input, and is true over a way that is shorter by orders of magnitude than with
# shortcuts. (Balduzzi et al. call a close relative *shattered gradients*; Yang et al. derive the explosion
# from batch normalisation itself.) We measured the start of training, on 64 pictures, in narrow layers; He
# et al. report gradients of healthy length for 34 wide ones.
#
# ### The full family
#
# The ResNets for ImageNet have four stages. Up to 34 layers their blocks are two 3×3 convolutions; from 50 on
# they are **bottlenecks** (the drawing in 3.5). Where the shape changes, the shortcut is a 1×1 convolution.


# %%
def unit(x, maps, k, stride=1, bias=False, relu=True, groups=1):
    """Convolution, batch normalisation, ReLU."""
    x = layers.Conv2D(maps, k, stride, padding="same", use_bias=bias, groups=groups)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def block(x, maps, stride, bottleneck, late, bias, groups=1):
    """y = x + F(x). late: a bottleneck's stride is in its 3×3, not in its first 1×1. groups > 1: ResNeXt."""
    if bottleneck:
        first, second = (1, stride) if late else (stride, 1)
        inside = maps if groups == 1 else 2 * maps
        y = unit(unit(x, inside, 1, first, bias), inside, 3, second, bias, groups=groups)
        y = unit(y, 4 * maps, 1, 1, bias, relu=False)
    else:
        y = unit(unit(x, maps, 3, stride, bias), maps, 3, 1, bias, relu=False)
    if x.shape[1:] != y.shape[1:]:
        x = unit(x, y.shape[-1], 1, stride, bias, relu=False)
    return layers.ReLU()(layers.Add()([x, y]))


# %%
RESNETS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def resnet(depth, late=False, bias=False, groups=1):
    """ResNet of 18, 34, 50, 101 or 152 layers for (N, 224, 224, 3)."""
    x = image = keras.Input((224, 224, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(unit(x, 64, 7, 2, bias))  # (N, 56, 56, 64)
    for stage, n in enumerate(RESNETS[depth]):
        for i in range(n):
            stride = 2 if stage > 0 and i == 0 else 1
            x = block(x, 64 * 2**stage, stride, depth >= 50, late, bias, groups)
    x = layers.GlobalAveragePooling2D()(x)  # (N, 7, 7, C) -> (N, C)
    return keras.Model(image, layers.Dense(1000)(x))


# %%
paper = {18: 1.8, 34: 3.6, 50: 3.8, 101: 7.6, 152: 11.3}  # billions, table 1 of He et al.
torchvision = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
resnets = {d: check(f"ResNet-{d}", resnet, d) for d in (18, 50)}
resnets |= {d: count(sketch(resnet, d)) for d in (34, 101, 152)}
late = {d: count(sketch(resnet, d, late=True)) for d in (50, 101, 152)}
for d, known in torchvision.items():
    assert resnets[d]["parameters"].sum() == known
table = pd.DataFrame({"paper": paper, "counted": {d: t["multiply-adds"].sum() for d, t in resnets.items()}})
table["late stride"] = pd.Series({d: t["multiply-adds"].sum() for d, t in late.items()})
table[["counted", "late stride"]] /= 1e9
display(table.sort_index().round(2))  # G multiply-adds
reuse = resnets[50]["multiply-adds"].sum() / resnets[50]["parameters"].sum()
compare("multiply-adds for each parameter, ResNet-50", reuse)

# %% [markdown]
# Parameters: equal to torchvision's published counts, to the last one. Work: the paper's table, within 2%.
# Libraries of today put the stride of a bottleneck into its 3×3 ("v1.5"), for 6% more work in ResNet-50. The
# slide gives ResNets "3.6–11.6 GFLOPS", in multiply-adds again. And the question of 3.1 is answered: without
# large fully connected layers a parameter is used an order of magnitude more often than AlexNet's.
#
# ## 3.9 Later networks
#
# What came after asked how to get the same for less, or more for the same:
#
# - **ResNeXt** (2016) widens the 3×3 of a bottleneck and cuts it into 32 groups: equal work, more maps.
# - **MobileNetV2** (2018) goes to the end of that road: a 3×3 that is depthwise, between two 1×1.
# - **EfficientNet** (2019) is of such blocks, with depth, width and picture grown together; a small network
#   in each block weighs its maps.
# - **ConvNeXt** (2022) is a ResNet rebuilt in the fashion of transformers: depthwise 7×7, layer
#   normalisation, GELU, and their long training.


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


counted = count(sketch(convnext))["parameters"].sum()
print(
    f"ConvNeXt-T: {counted:,} parameters and {sum(np.multiply((96, 192, 384, 768), (3, 3, 9, 3))):,} factors"
)
assert counted + 6_624 == 28_589_128  # torchvision's

# %% [markdown]
# The accuracies are those that torchvision publishes (top-1 on ImageNet's validation set, one 224×224 crop,
# version 1 of its weights); all else we count: the depth, too, as the number of layers with weights on the
# longest way. (Its AlexNet and GoogLeNet are slight variants of ours.)


# %%
def depth(model):
    """Layers with weights on the longest way from the input to the output."""
    deep = {}
    for op in model.operations:  # each comes after those it needs
        before = [deep.get(id(tensor), 0) for tensor in keras.tree.flatten(op.input)]
        deep[id(op.output)] = max(before, default=0) + isinstance(op, WEIGHTED)
    return max(deep.values())


apps = keras.applications
NETWORKS = {  # year, top-1 in %, and how it is built
    "AlexNet": (2012, 56.522, alexnet, {"groups": 1}),
    "VGG-16": (2014, 71.592, vgg, {"which": "D"}),
    "VGG-19": (2014, 72.376, vgg, {"which": "E"}),
    "GoogLeNet": (2014, 69.778, googlenet, {}),
    "ResNet-18": (2015, 69.758, resnet, {"depth": 18}),
    "ResNet-34": (2015, 73.314, resnet, {"depth": 34}),
    "ResNet-50": (2015, 76.130, resnet, {"depth": 50, "late": True}),
    "ResNet-101": (2015, 77.374, resnet, {"depth": 101, "late": True}),
    "ResNet-152": (2015, 78.312, resnet, {"depth": 152, "late": True}),
    "ResNeXt-50": (2016, 77.618, resnet, {"depth": 50, "late": True, "groups": 32}),
    "MobileNetV2": (2018, 71.878, apps.MobileNetV2, {"weights": None}),
    "EfficientNet-B0": (2019, 77.692, apps.EfficientNetB0, {"weights": None}),
    "ConvNeXt-T": (2022, 82.520, convnext, {}),
}

# %%
models = {name: sketch(build, **options) for name, (_, _, build, options) in NETWORKS.items()}
facts = {name: count(model) for name, model in models.items()}
totals = pd.DataFrame({name: t[["parameters", "multiply-adds", "kept"]].sum() for name, t in facts.items()}).T
table = pd.DataFrame({"year": {name: row[0] for name, row in NETWORKS.items()}})
table["M parameters"] = totals["parameters"] / 1e6
table["G multiply-adds"] = totals["multiply-adds"] / 1e9
table["MB kept"] = 4 * totals["kept"] / 1e6
table["depth"] = {name: depth(model) for name, model in models.items()}
table["top-1"] = {name: row[1] for name, row in NETWORKS.items()}
display(table.round(2))
NEAR = {  # of the picture in 3.10: where a name stands, in points; a short one and its place
    "AlexNet": ((0, 13, "center"), "A", (0, 13, "center")),
    "VGG-16": ((-4, -25, "center"), "V16", (-17, -3, "right")),
    "VGG-19": ((4, 18, "center"), "V19", (4, 18, "center")),
    "GoogLeNet": ((-5, -12, "right"), "G", (0, 7, "center")),
    "ResNet-18": ((5, -13, "left"), "18", (0, -13, "center")),
    "ResNet-34": ((8, -3, "left"), "34", (0, 9, "center")),
    "ResNet-50": ((-9, -5, "right"), "50", (9, -7, "left")),
    "ResNet-101": ((8, -12, "left"), "101", (8, -12, "left")),
    "ResNet-152": ((-4, 12, "center"), "152", (0, 12, "center")),
    "ResNeXt-50": ((-9, 3, "right"), "X", (-9, -3, "right")),
    "MobileNetV2": ((0, 7, "center"), "M", (6, -3, "left")),
    "EfficientNet-B0": ((6, 7, "center"), "E", (0, 7, "center")),
    "ConvNeXt-T": ((0, 11, "center"), "C", (0, 11, "center")),
}

# %%
drawn = {"LeNet-5": lenet} | {
    n: facts[n] for n in ("AlexNet", "VGG-16", "GoogLeNet", "ResNet-34", "ResNet-50")
}
boxes = {}  # of each network: (pixels a side, maps, is it a fully connected layer?)
for name, t in drawn.items():
    weighted = t[t["layer"].str.match("conv|dense")]
    shapes = [[int(n) for n in shape.split("×")] for shape in weighted["output"]]
    boxes[name] = [(s[0] if len(s) > 1 else 1, s[-1], len(s) == 1) for s in shapes]
high = [20 + max(side for side, *_ in some) for some in boxes.values()]
fig, axes = plt.subplots(len(boxes), 1, figsize=(9.5, 6.6), sharex=True, height_ratios=high)
for ax, (name, some), top in zip(axes, boxes.items(), high, strict=True):
    right = 0
    for i, (side, maps, dense) in enumerate(some):
        look = {"color": palette[dense], "alpha": (0.6, 1.0)[i % 2], "lw": 1.5 if dense else 0}
        ax.add_patch(plt.Rectangle((right, -side / 2), maps, side, **look))
        right += maps
    ax.text(right + 300, 0, name, va="center", weight="bold")
    ax.set(xlim=(0, 32_000), ylim=(-top / 2, top / 2), yticks=[])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
axes[-1].set_xlabel("maps, one layer behind the other")
fig.suptitle("Six networks to one scale (height: pixels a side of a map)", x=0.01, ha="left", weight="bold")
plt.show()

# %% [markdown]
# *(Figure: six networks as rows of boxes, from the input at the left; a layer is as long as it has maps and
# as high as its maps have pixels a side. LeNet-5 is hardly more than a dot. AlexNet: a low short body and a
# long orange line, its fully connected layers, one pixel high. VGG-16: a high steep start, a staircase down,
# and the same orange line. GoogLeNet and the ResNets: low, with a short end in place of the line.)*
#
# ## 3.10 What do you pay for accuracy?
#
# One price is missing, the one you pay in the end: time. We measure the forward pass of one image, on this
# machine (all but ResNeXt-50: TensorFlow has no grouped convolution for CPUs without a compiler). **Guess:**
# EfficientNet-B0 makes a quarter of GoogLeNet's multiply-adds. How many times its time does it take?

# %%
guess("time of EfficientNet-B0 over GoogLeNet", unit="×")


def clock(build, options, repeats=9):
    """Milliseconds for one image through the network, (repeats,), after two runs that are not counted."""
    model = build(**options)
    forward = tf.function(lambda images: model(images, training=False))
    image, taken = tf.random.normal((1, *model.input.shape[1:])), []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        forward(image).numpy()
        taken.append(1e3 * (time.perf_counter() - start))
    return taken[2:]


# %% tags=["measured"]
timed = {n: clock(*row[2:]) for n, row in NETWORKS.items() if n != "ResNeXt-50"}  # see above
spread = pd.DataFrame(timed).quantile([0.25, 0.5, 0.75]).T
spread["G multiply-adds a second"] = 1e3 * table["G multiply-adds"] / spread[0.5]
display(spread.rename(columns={0.25: "ms, quartile", 0.5: "median", 0.75: "quartile"}).round(1))
table["ms an image"] = spread[0.5]
ratio = spread.loc["EfficientNet-B0", 0.5] / spread.loc["GoogLeNet", 0.5]
compare("time of EfficientNet-B0 over GoogLeNet", ratio)
prices = ["M parameters", "G multiply-adds", "MB kept", "depth", "ms an image", "year"]
ranks = {"nine, to 2015": table[table["year"] < 2016].rank().corr(), "all": table.rank().corr()}
print("rank correlation with the top-1 accuracy:")
display(pd.DataFrame({name: r.loc[prices, "top-1"] for name, r in ranks.items()}).round(2))
among = ranks["nine, to 2015"].loc["depth"]
print(f"depth among the nine: with memory {among['MB kept']:.2f}, with year {among['year']:.2f}")

# %% [markdown]
# Time is not multiply-adds: the rate in the last column differs several times from network to network. The
# depthwise layers compute little with each number that they load (lecture 01's roofline), many small
# operations leave the machine waiting, and AlexNet loads all its weights for a single image. Now the
# picture:

# %%
fig, axes = plt.subplots(1, 3, figsize=(10.5, 4.8), sharey=True)
for ax, column in zip(axes, ["G multiply-adds", "depth", "ms an image"], strict=True):
    for later, t in table.groupby(table["year"] > 2015):
        look = {"alpha": 0.35, "edgecolor": "0.2", "marker": "D" if later else "o"}
        ax.scatter(t[column], t["top-1"], s=5 * t["M parameters"], facecolor=palette[later], **look)
    ax.scatter(table[column], table["top-1"], s=6, color="black")
    for name, row in table[table[column].notna()].iterrows():
        full, short, place = NEAR[name]
        label, (*offset, end) = (name, full) if ax is axes[0] else (short, place)
        where = {"textcoords": "offset points", "xytext": offset, "ha": end, "fontsize": 8}
        ax.annotate(label, (row[column], row["top-1"]), **where)
    ax.set(xscale="log", xlabel=column)
    ax.margins(0.16)
    ax.xaxis.set_major_locator(plt.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(plt.NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
x, old, new = *table.loc["ResNet-50", ["G multiply-adds", "top-1"]], 80.858  # version 2 of its weights
axes[0].annotate("", (x, new), (x, old), arrowprops={"arrowstyle": "->"})
axes[0].text(0.85 * x, new, "ResNet-50\ntrained in 2021", ha="right", fontsize=8)
axes[0].set_ylabel("top-1 accuracy / %")
plt.show()

# %% [markdown]
# *(Figure: top-1 accuracy of thirteen networks against multiply-adds, depth and measured time, each
# logarithmic; the area of a mark is the number of parameters; networks after 2015 are diamonds. Names are
# written in the first panel and shortened in the others; ResNeXt-50 is missing in the last. Up to 2015:
# AlexNet alone at the bottom, the ResNets climb along one flattening curve, the two VGGs are huge bubbles to
# the right of it. MobileNetV2, EfficientNet-B0 and ConvNeXt-T lie to the left of it. An arrow lifts ResNet-50
# by nearly five points.)*
#
# **So what do you pay for accuracy?** Not parameters: AlexNet and ResNet-152 have the same number. Among
# the nine networks up to 2015, memory and depth go with accuracy far more closely than parameters do. Which
# of the two is it? Nine networks cannot tell: one pair of neighbours that changes places moves such a
# coefficient by as much as the two differ, and the deeper ones are the later ones, keep more, and have batch
# normalisation and shortcuts. Multiply-adds need not be paid: each of the later four gets at least what an
# earlier network got with more of them. Depth and memory go with accuracy among all thirteen nearly as
# before.
#
# And the arrow shows what none of our counts contains. The same ResNet-50, trained anew with the recipe of
# 2021 (longer, with stronger augmentation), gains more than the way from 50 to 152 layers did: accuracies
# published in different years compare recipes as well as networks. What would separate the prices is an
# experiment that changes one thing, as in 3.7 and 3.8. One such pair is published: with batch normalisation
# torchvision's VGG-16 has 73.4% in place of 71.6.
#
# ## What was learned
#
# 1. A layer has three sizes: $(k^2C + 1)K$ parameters, $H_oW_o k^2 C K$ multiply-adds, $H_oW_oK$ numbers to
#    keep. In AlexNet and VGG they live in three different places.
# 2. Counts depend on conventions: biases, groups, moving averages, multiply-adds or FLOP, the place of a
#    stride.
# 3. Small filters, 1×1 reductions and an average in place of the fully connected layers save parameters or
#    work. Multiply-adds that are saved need not save time.
# 4. Batch normalisation makes the loss blind to the scale of the weights, and far larger rates work.
# 5. Deep plain networks fail on their training set. In ours the gradient did not vanish but explode;
#    shortcuts without parameters repair it.
# 6. Across published networks depth, memory, year and training recipe go together: a correlation is no price.
#
# **Open questions.** (a) Which data set of 5,000 images would need eight layers? Can you say it before you
# train? (b) Inference keeps nothing for a way back. What decides the memory then?
#
# Assignment 03, *Count and build*, asks for the counter, a residual block, and batch normalisation folded
# into a convolution. Next: **04, one device, fast**, asks how long all these multiply-adds take.
#
# ## Further
#
# For reading on; nothing in the lecture depends on it.
#
# ### The 60,000 parameters of 1998
#
# Our LeNet-5 has more parameters than the paper says. Both are right. The LeNet-5 of 1998 has pooling layers
# with a trainable coefficient and a bias for each map; each of its third layer's 16 maps sees only some of
# the six maps before it (six see 3, nine see 4, one sees 6); and its output layer compares with ten fixed
# pictures, so it has no trainable parameters. (A pooled value has five connections, four pixels and a bias,
# for two parameters.) The sums are the paper's "60,000 trainable free parameters" and "340,908 connections".
# When two counts of a network differ, look for the convention before you look for the error.

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
# "60M weights" and "650K neurons" are the two-card network's, both rounded down. One number of the paper does
# not follow: under its drawing the first layer has 253,440 neurons, which is 55·48·96, while the shapes give
# 55·55·96. With 253,440 the layers add up to less than the 650,000 of its abstract.

# %%
neurons = alex.loc[~alex["layer"].str.contains("pool"), "kept"]
assert sketch(alexnet).count_params() == alex["parameters"].sum()  # two groups: the first witness
print(f"two groups: {alex['parameters'].sum():,} parameters, {alex['multiply-adds'].sum():,} multiply-adds")
print(
    f"neurons (outputs of convolutions and dense layers): {neurons.sum():,}, first layer {neurons.iloc[0]:,}"
)
print(f"with 253,440 in the first layer: {neurons.sum() - neurons.iloc[0] + 253_440:,}")

# %% [markdown]
# ### GoogLeNet's own table
#
# Its paper prints parameters and operations of each module (table 1), so we can check module by module.

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
# weights. The paper's total of 1.5 G operations and ours differ by that same layer.) The 5M of a slide is
# probably the introduction speaking, "12 times fewer" than AlexNet's 60.
#
# ### How many parameters has ResNet-50?
#
# You will meet four answers. All are right, each by its convention. (A bias before a batch normalisation is
# useless: the mean takes it out. Keras has it nevertheless. The number of trainable tensors comes back in
# lecture 06, where each of them must travel.) For CIFAR-10 the paper states parameters of our own `stack`.

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
# The moving averages follow `new = 0.9 old + 0.1 of this batch`. (Our choice, for short runs; Keras' default
# is 0.99. It has nothing to do with the optimiser's momentum.)
#
# ### Layers taken out of a small network
#
# Zeiler and Fergus' table 3 beside our mini-AlexNet: 5,000 pictures of Fashion-MNIST, 10 epochs, a rate that
# falls from 0.02 along a cosine, three seeds each, recorded. The training error is measured on the first
# 2,000 training images.

# %%
ZEILER = pd.DataFrame(
    {"train": [35.1, 27.4, 27.4, 41.8, 71.1], "test": [40.5, 40.0, 44.8, 45.4, 71.3]},
    index=["none", "7", "6, 7", "3, 4", "3, 4, 6, 7"],  # layers that are missing
)  # top-1 error on ImageNet's training and validation set: the highest score is on a wrong class
fewer = runs[runs["part"] == "depth"]
for removed, group in fewer.groupby("removed"):  # is what was trained what we have built here?
    skip = [int(i) for i in removed.split(", ")] if removed != "none" else []
    assert set(group["parameters"]) == {sketch(mini_alexnet, skip).count_params()}
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

# %% [markdown]
# *(Figure: points of error above the whole network, for five networks, on the left of the training and on the
# right of the validation or test set. Grey bars, AlexNet on ImageNet: between −8 and +7 points for one or two
# missing layers, above thirty for four. Circles, our mini-AlexNet: all of them within three points of zero.)*
#
# Look at the training error. Theirs without four layers does not learn its own examples; ours, with a tenth
# of the parameters, fits its training images about as well as before.
#
# ### What has it learned?
#
# AlexNet's first layer, the best-known picture of the field, shows edges in all directions and blobs of
# colour (figure 3 of its paper; Zeiler and Fergus look at the layers above). That took 1.2 million
# photographs and 90 epochs. Our mini-AlexNet's filters after ten epochs still nearly are their random start,
# as the weights that were recorded with the runs show, and yet it is right most of the time: a random filter
# answers to edges, too, and the layers above it learn to read the answers.

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
# **Occlusion.** Cover a 6×6 square of the picture and ask how sure the network still is of the right class;
# slide the square over all places. **Predict** for the boot: where does it hurt most?


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
# *(Figure: four maps, each with the outline of its picture in red: a boot, a bag, a shirt and trousers. Light
# means that the network is still sure when the square is centred there, dark that it is not; the square
# with a black and white edge is the covered place where it hurts most.)*
#
# Look where the dark places lie, and at the printed mean grey under the worst one: 0 is empty background.
# What hurts most can be a square where there was nothing, which turns the outline into that of something
# else. A grey square is part of a new outline: the occluder is part of the question.
#
# **Which picture does the network like best?** Start from grey noise and climb: change the *pixels* along the
# gradient of one class's score. **Predict:** will you recognise the ten pictures?


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
train_x, train_y = all_x[: record["train"]], all_y[: record["train"]]
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
# one can see, with goodwill, the slant of a sandal or a sneaker, or the shaft of a boot. All are drawn
# inverted: black is a pixel of 1, ink, and white a pixel of 0.)*
#
# For nearly every class the network is certain of noise (read the row; where it is not, 150 steps were too
# few or another class was near). It has learned what separates ten classes on the pictures that it saw;
# nobody told it that other pictures exist. Remember it whenever someone calls a probability "confidence".
# When rough pictures and ink cost something, there are things to be recognised; but then it was *we* who
# said what a picture of clothes is like.
#
# ### Exercises
#
# 1. Count VGG-16 for 448×448 photographs. Which of the three counts grow, and by how much? What becomes of
#    the first fully connected layer?
# 2. Replace each 3×3 of `stack` by a depthwise 3×3 and a 1×1. Predict all three counts first, and the time.
# 3. Give `promises` an argument `norm` and call it with `norm=False`: does the gradient vanish now? Draw both
#    panels again.
# 4. Put $\gamma = 0.1$ in place of 1 into the last batch normalisation of each block. What does `promises`
#    say for 56 layers? And with $\gamma = 0$: which kernels have a gradient at all, and why does the network
#    learn nevertheless? (Lecture 08 meets this trick again, with large batches.)
# 5. Cover with white (0) and with the mean picture in place of grey. Which of the occlusion maps change?
# 6. Run `python runs/03_small_networks.py --seeds 3 4 --out runs/more_seeds.json` (some minutes) and join the
#    two where the record is read: `record["jobs"] +=
#    json.loads(pathlib.Path("runs/more_seeds.json").read_text())["jobs"]`. Does any conclusion change?
#
# ## References
#
# - LeCun, Bottou, Bengio, Haffner: *Gradient-based learning applied to document recognition*, Proc. IEEE
#   1998.
# - Krizhevsky, Sutskever, Hinton: *ImageNet classification with deep convolutional neural networks*
#   (AlexNet), NIPS 2012.
# - Zeiler, Fergus: *Visualizing and understanding convolutional networks*, arXiv 1311.2901.
# - Simonyan, Zisserman: *Very deep convolutional networks* (VGG), arXiv 1409.1556.
# - Szegedy et al.: *Going deeper with convolutions* (GoogLeNet), arXiv 1409.4842.
# - Ioffe, Szegedy: *Batch normalization*, arXiv 1502.03167; Santurkar et al.: *How does batch normalization
#   help optimization?*, arXiv 1805.11604.
# - He, Zhang, Ren, Sun: *Deep residual learning for image recognition* (ResNet), arXiv 1512.03385.
# - Xie et al.: *Aggregated residual transformations* (ResNeXt), arXiv 1611.05431.
# - Balduzzi et al.: *The shattered gradients problem*, arXiv 1702.08591; Yang et al.: *A mean field theory of
#   batch normalization*, arXiv 1902.08129.
# - Xiao, Rasul, Vollgraf: *Fashion-MNIST*, arXiv 1708.07747.
# - Sun, Shrivastava, Singh, Gupta: *Revisiting unreasonable effectiveness of data*, arXiv 1707.02968.
# - Sandler et al.: *MobileNetV2*, arXiv 1801.04381. Tan, Le: *EfficientNet*, arXiv 1905.11946. Liu et al.: *A
#   ConvNet for the 2020s* (ConvNeXt), arXiv 2201.03545.
# - Accuracies and sizes: [torchvision's table of
#   weights](https://docs.pytorch.org/vision/stable/models.html); the training of 2021: [its
#   recipe](https://pytorch.org/blog/how-to-train-state-of-the-art-models-using-torchvision-latest-primitives/).
# - Slides: V. Codreanu, *Introduction to high-performance machine learning*; H. Sato, *A study of parallel
#   computation for deep learning on TSUBAME*.
