# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Assignment 03: count and build
#
# Three numbers describe the size of a network: its parameters, its multiply-adds, and the numbers that
# training must keep in memory. **Can you compute the first two exactly, and a lower bound for the third,
# before a single weight exists, and then build the network that they describe?**
#
# In this assignment you
#
# - count the parameters and multiply-adds of a convolution, and of any chain of layers,
# - predict the largest batch that fits into a given memory,
# - compute how deep a network must be for a given receptive field, and what a 1 × 1 convolution saves,
# - fold a batch normalisation into the convolution before it,
# - build a residual block whose shortcut is the identity, and a ResNet from its specification.
#
# The background is lecture 03.
#
# What you submit:
#
# - *Blanks*: 9 cells marked `YOUR CODE HERE`, most of them one to six lines, and one written answer.
# - *Points*: 20. Counting a convolution has 4 points, memory 3, the receptive field 2, the 1 × 1
#   convolution 2, batch normalisation 2, the residual block 3, the ResNet 2 and the written answer 2.
# - *Graded automatically*: 18 points, in 15 checks. All have hidden tests, mostly with other inputs.
# - *Graded manually*: 2 points, for the written answer at the end.
# - *Time*: 4 to 5 hours. Sections 1 and 2 together take 1 to 1.5 hours, sections 3 and 4 together 1 hour,
#   section 5 half an hour, sections 6 and 7 together 1 to 1.5 hours, and the written answer half an hour.
#   This is an estimate for someone who has read lecture 03; no class has been timed.
#
# A *check* is a cell of autograder tests. Fill in a blank, run the example below it,
# then its checks. A failed check states what it found. A check with a hash recognises
# the correct number without containing it, so it cannot explain why another number is
# wrong.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | N | images in a batch | K | number of filters (output channels) |
# | H, W | height and width of an image | k | size of a filter, k × k |
# | C | input channels | N, H, W, C | order of the axes |
#
# Work is counted in multiply-adds, as in the papers on these networks. A multiply-add is two FLOPs, the unit
# of assignment 01.
#
# Three rules hold for all your functions. They leave their arguments unchanged, including the shapes of
# arrays. Counts are of type `int`: a `float` of the same value fails the check. (NumPy's integers are
# accepted, too, but `np.int64` overflows at 2⁶³.) And counts are exact, also above 2⁵³, where a float cannot
# represent every integer; the hidden tests use such counts. A loop of up to a million steps is fast enough;
# the docstrings state how large the arguments are.

# %% given="setup"
import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # hides TensorFlow's start-up messages

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers

from cluster.checks import expect, fresh_rng, has_failed, unchanged, watched

plt.style.use("cluster.course")
rng = np.random.default_rng(3)

# %% [markdown]
# ## 1. Count a convolution
#
# Start with an example by hand. Convolve images of 4 × 5 pixels and 2 channels with 3 filters of 3 × 3, with
# biases, stride 1 and no padding. At how many positions does a filter fit? How many weights does it have?
# How many products are summed in each output? (Lecture 03, section 3.1.)
#
# Along an axis of $H$ pixels with padding $p$ on both sides and stride $s$ there are
# $\lfloor (H + 2p - k) / s \rfloor + 1$ positions. The quotient is rounded down: a position where the filter
# would extend beyond the padding does not count.


# %% solution="conv_cost"
def conv_cost(H, W, C, K, k, stride=1, padding=0, bias=True):
    """Return the cost of a convolution of K filters of k × k for one image of H × W pixels and C channels.

    padding  rows and columns of zeros added on each of the four sides
    bias     whether each filter has a bias; a bias adds no multiply-adds

    Returns the output shape, a tuple (H_out, W_out, K), the number of parameters, and the number of
    multiply-adds, both int. H and W are at most 1,000 in the tests, C and K at most 200,000.
    """
    assert k <= H + 2 * padding and k <= W + 2 * padding, f"a filter of {k} does not fit into {H} × {W}"
    ### BEGIN SOLUTION
    H_out = (H + 2 * padding - k) // stride + 1
    W_out = (W + 2 * padding - k) // stride + 1
    shape = (H_out, W_out, K)
    parameters = (k * k * C + bias) * K
    multiply_adds = H_out * W_out * K * k * k * C
    ### END SOLUTION
    return shape, parameters, multiply_adds


# %%
print(conv_cost(4, 5, 2, K=3, k=3))

# %% check="conv-by-hand" points=1 see="3.1"
"""2 × 3 positions, 3 · (18 + 1) parameters, 2 · 3 · 3 sums of 18 products (1 point)."""
expect(
    conv_cost(4, 5, 2, K=3, k=3),
    ((2, 3, 3), 57, 324),
    {
        "the biases are missing; each filter has one (lecture 03, 3.1).": ((2, 3, 3), 54, 324),
        "there is one bias per filter, not one per weight or per output.": ((2, 3, 3), 72, 324),
        "a filter has k·k weights for each channel, so k·k·C (lecture 03, 3.1).": ((2, 3, 3), 30, 162),
        "a filter of 3 × 3 fits into 4 × 5 pixels at 2 × 3 positions only.": ((4, 5, 3), 57, 1080),
        "each multiply-add was counted twice; only FLOPs count it twice (3.2).": ((2, 3, 3), 57, 648),
        "the biases were counted as products; they are only added.": ((2, 3, 3), 57, 342),
        "height and width were exchanged.": ((3, 2, 3), 57, 324),
    },
    "conv_cost(4, 5, 2, K=3, k=3)",
)
expect(conv_cost(4, 5, 2, K=3, k=3, bias=False)[1], 54, name="the number of parameters without biases")
expect(conv_cost(4, 5, 2, K=3, k=3, bias=False)[2], 324, name="the number of multiply-adds without biases")
### BEGIN HIDDEN TESTS
H, W, C, K = (3 + fresh_rng(1).permutation(6)[:4]).tolist()
want = ((H - 1, W - 1, K), (4 * C + 1) * K, (H - 1) * (W - 1) * K * 4 * C)
expect(conv_cost(H, W, C, K=K, k=2), want, name=f"conv_cost({H}, {W}, {C}, {K=}, k=2)")
### END HIDDEN TESTS

# %% check="conv-of-layers" points=2 see="3.2"
"""Stride, padding and real layers: the first of AlexNet and of a ResNet, and a 1 × 1 layer (2 points).

The hidden tests use other sizes, strides and paddings, filters of even size, and very large layers.
"""
expect(
    conv_cost(7, 9, 4, K=5, k=3, stride=2, padding=1)[0],
    (4, 5, 5),
    {
        "padding is added on both sides of an axis.": (3, 4, 5),
        "height and width were exchanged.": (5, 4, 5),
    },
    "the output shape with stride 2 and padding 1",
)
# HASHED AUTOTEST conv_cost(227, 227, 3, K=96, k=11, stride=4)
# HASHED AUTOTEST conv_cost(224, 224, 3, K=64, k=7, stride=2, padding=3, bias=False)
### BEGIN HIDDEN TESTS
# Not detected: a result that is right for these kinds of layers only, since the cases are finite.
fresh = fresh_rng(2)
for k, stride, padding, bias in [(1, 1, 0, True), (4, 3, 2, False), (3, 4, 2, True), (2, 5, 3, True)]:
    H, W, C, K = (k + stride + fresh.permutation(30)[:4]).tolist()
    places = [(n + 2 * padding - k) // stride + 1 for n in (H, W)]
    expect(
        conv_cost(H, W, C, K=K, k=k, stride=stride, padding=padding, bias=bias),
        ((*places, K), (k * k * C + bias) * K, places[0] * places[1] * K * k * k * C),
        name=f"conv_cost with {k=}, {stride=}, {padding=}, {bias=}",
    )
H, W = (4 * fresh.integers(240, 250, 2) + 1).tolist()  # an odd number of windows, so the count is odd, too
C, K = (2 * fresh.integers(50_000, 60_000, 2) + 1).tolist()
h, w = (H + 1) // 2, (W + 1) // 2
expect(
    conv_cost(H, W, C, K=K, k=5, stride=2, padding=2),
    ((h, w, K), (25 * C + 1) * K, h * w * K * 25 * C),
    name="conv_cost of a layer with more multiply-adds than a float can represent",
)
### END HIDDEN TESTS

# %% [markdown]
# A network is a list of layers, and your function counts it. Pooling and flattening have no parameters. A
# fully connected layer is a 1 × 1 convolution of a single pixel.


# %% given="network"
def network_cost(chain, shape):
    """Return rows (name, output shape, parameters, multiply-adds) of a chain of layers, for one image."""
    rows = []
    for layer in chain:
        H, W, C = shape
        kind, *numbers = layer
        if kind == "conv":
            shape, parameters, multiply_adds = conv_cost(H, W, C, *numbers)
        elif kind == "pool":
            k, stride = numbers
            shape, parameters, multiply_adds = ((H - k) // stride + 1, (W - k) // stride + 1, C), 0, 0
        else:
            shape, parameters, multiply_adds = conv_cost(1, 1, H * W * C, *numbers, 1)
        rows.append((" ".join(map(str, layer)), shape, parameters, multiply_adds))
    return rows


LENET = [("conv", 6, 5), ("pool", 2, 2), ("conv", 16, 5), ("pool", 2, 2), ("dense", 120), ("dense", 84)]
LENET += [("dense", 10)]

# %%
for name, shape, parameters, multiply_adds in network_cost(LENET, (32, 32, 1)):
    print(f"{name:10} {shape!s:14} {parameters:8,} {multiply_adds:10,}")

# %% [markdown]
# Each line shows a layer, its output shape, its parameters and its multiply-adds. Which layer has the most
# parameters, and which does the most work?

# %% check="lenet" points=1 see="3.1"
"""LeNet-5 for 32 × 32 pixels: the sums over all layers (1 point)."""
rows = network_cost(LENET, (32, 32, 1))
# HASHED AUTOTEST [sum(row[2] for row in rows), sum(row[3] for row in rows)]
expect([row[1] for row in rows][-4], (5, 5, 16), name="the shape before the classifier")
### BEGIN HIDDEN TESTS
fresh = fresh_rng(3)
C, K, width, (H, W) = (
    *fresh.integers(2, 6, 2).tolist(),
    int(fresh.integers(5, 9)),
    (4 + 2 * fresh.permutation(5))[:2].tolist(),
)
costs = [row[2:] for row in network_cost([("conv", K, 3), ("pool", 2, 2), ("dense", width)], (H, W, C))]
work, numbers = (H - 2) * (W - 2) * K * 9 * C, (H // 2 - 1) * (W // 2 - 1) * K
want = [[(9 * C + 1) * K, work], [0, 0], [(numbers + 1) * width, numbers * width]]
expect([list(cost) for cost in costs], want, name="the costs of another network")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Training within a given memory
#
# For each parameter, a training step keeps the weight, its gradient and its momentum.
# For each image of the batch, it keeps all outputs for the backward pass (lecture 03,
# section 3.4). In float32, a number takes 4 bytes.
#
# **Predict.** A network has 1,000 parameters and 50 outputs per image. How many bytes does a batch of 10
# need?


# %% solution="training_bytes"
def training_bytes(parameters, outputs, batch, itemsize=4):
    """Return the smallest number of bytes that a training step with momentum needs, as an int.

    parameters  number of parameters, at most 10¹⁸ in the tests
    outputs     number of outputs per image, at most 10¹⁸ in the tests
    batch       number of images
    itemsize    bytes per number, of parameters and outputs
    """
    ### BEGIN SOLUTION
    needed = itemsize * (3 * parameters + batch * outputs)
    ### END SOLUTION
    return needed


# %%
print(training_bytes(1_000, 50, 10), "bytes")

# %% check="memory-by-hand" points=1 see="3.4"
"""3 · 1,000 numbers and 10 · 50 numbers, of 4 bytes each (1 point).

The hidden tests use other item sizes, no outputs, and a very large network.
"""
expect(
    training_bytes(1_000, 50, 10),
    14_000,
    {
        "only the weights were counted; each has a gradient and a momentum (lecture 03, 3.4).": 6_000,
        "the momentum is missing (lecture 03, 3.4).": 10_000,
        "the outputs of one image were counted; each image of the batch has its own.": 12_200,
        "the parameters were counted once per image; all images share them.": 122_000,
        "numbers were counted, not bytes.": 3_500,
    },
    "training_bytes(1_000, 50, 10)",
)
expect(training_bytes(1_000, 50, 10, itemsize=2), 7_000, name="training_bytes with numbers of two bytes")
# HASHED AUTOTEST training_bytes(138_357_544, 15_086_568, 32)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(4)
for itemsize, least in [(3, 1), (8, 0), (4, 1)]:
    parameters, outputs, batch = (fresh.integers([1, least, 1], [50, 9 * least + 1, 9])).tolist()
    expect(
        training_bytes(parameters, outputs, batch, itemsize=itemsize),
        itemsize * (3 * parameters + batch * outputs),
        name=f"training_bytes({parameters}, {outputs}, {batch}, {itemsize=})",
    )
parameters, outputs = (2 * fresh.integers([10**16, 10**15], [10**17, 10**16]) + 1).tolist()
expect(
    training_bytes(parameters, outputs, 8, 1),
    3 * parameters + 8 * outputs,  # an odd number above 2⁵³
    name="training_bytes of a network with more bytes than a float can represent",
)
### END HIDDEN TESTS

# %% [markdown]
# Now solve the inverse problem: for a given memory, how large may the batch be?


# %% solution="largest_batch"
def largest_batch(parameters, outputs, memory, itemsize=4):
    """Return the largest number of images whose training step fits into `memory` bytes, as an int.

    Returns 0 if not even one image fits, or if the parameters alone do not fit. outputs is at least 1. The
    largest batch is below 100,000 in the tests; the other numbers are at most 10¹⁸.
    """
    ### BEGIN SOLUTION
    left = memory - 3 * parameters * itemsize
    batch = max(0, left // (outputs * itemsize))
    ### END SOLUTION
    return batch


# %%
print(largest_batch(1_000, 50, 14_000), largest_batch(1_000, 50, 13_999))

# %% check="memory-fits" points=2 see="3.4"
"""The batch that just fits, one byte less, and a network that does not fit (2 points).

The hidden tests use other networks and other item sizes.
"""
found = [largest_batch(1_000, 50, memory) for memory in (14_000, 13_999, 12_199, 12_200, 5_000)]
if not has_failed("memory-by-hand"):  # largest_batch may call training_bytes
    expect(
        found,
        [10, 9, 0, 1, 0],
        {
            "there are no batches of fewer than 0 images.": [10, 9, 0, 1, -35],
            "a batch that only fits in part was counted.": [10, 10, 1, 1, 0],
            "a batch that needs exactly the memory fits.": [9, 9, 0, 0, 0],
            "the momentum was left out; a parameter needs three numbers.": [30, 29, 20, 21, 0],
            "gradients and momentum were left out; a parameter needs three numbers.": [50, 49, 40, 41, 5],
            "outputs are numbers, of `itemsize` bytes each.": [40, 39, 3, 4, 0],
        },
        "the largest batches for 14,000, 13,999, 12,199, 12,200 and 5,000 bytes",
    )
    expect(largest_batch(1_000, 50, 28_700, itemsize=8), 11, name="the largest batch for numbers of 8 bytes")
### BEGIN HIDDEN TESTS
fresh = fresh_rng(5)
networks = [
    (int(fresh.integers(5, 50)), int(fresh.integers(2, 9)), 4),
    (*fresh.integers(4_000_000, 12_000_000, 2).tolist(), 4),
    (int(fresh.integers(300, 900)), 1, 2),  # the fewest outputs
    (3, 10**14 + int(fresh.integers(1, 1000)), 2),
]


def compare_batches(batches):
    """Compare largest_batch with batches that just fit, with one byte less and with one byte more."""
    for parameters, outputs, itemsize in networks:
        for batch in batches:
            memory = bytes_of_a_step(parameters, outputs, batch, itemsize)
            expect(
                [largest_batch(parameters, outputs, memory + d, itemsize) for d in (-1, 0, 1)],
                [batch - 1, batch, batch],
                name=f"largest_batch with {parameters:,} parameters, {outputs:,} outputs, {itemsize} bytes",
            )


def bytes_of_a_step(parameters, outputs, batch, itemsize=4):
    """Replace a training_bytes that has failed its own check."""
    return itemsize * (3 * parameters) + itemsize * (batch * outputs)


if has_failed("memory-by-hand"):
    with watched("training_bytes", bytes_of_a_step):
        found = [largest_batch(1_000, 50, memory) for memory in (14_000, 13_999, 12_199, 12_200, 5_000)]
        expect(found, [10, 9, 0, 1, 0], name="the largest batches, with a correct training_bytes,")
        compare_batches((1, 6, 31))
else:
    compare_batches((1, 6, 31, 4_099))
### END HIDDEN TESTS

# %% [markdown]
# ## 3. How deep must a network be to see far enough?
#
# The receptive field of an output is the number of input pixels, along one side, on which it depends.
# Lecture 03 computes it (section 3.3), and its function is provided below. Now solve the inverse problem:
# how many 3 × 3 layers are needed until an output depends on a given number of pixels along one side? The
# layers with the numbers `every`, 2 · `every`, … have stride 2, the others stride 1. With `every=0`, no
# layer has stride 2.
#
# **Predict** for 224 pixels: how many layers are needed without strides? And how many if every second layer
# has stride 2?


# %% given="field-of-a-chain"
def receptive_field(chain):
    """Return the receptive field along one side for a chain of layers [(k, stride), …], input side first."""
    field, distance = 1, 1
    for k, stride in chain:
        field += (k - 1) * distance
        distance *= stride
    return field


# %% solution="layers_to_see"
def layers_to_see(pixels, every=0):
    """Return the smallest number of 3 × 3 layers with a receptive field of at least `pixels` ≥ 1.

    Layers `every`, 2 · `every`, 3 · `every`, … have stride 2, the others stride 1; the first layer is
    number 1. Without any layer, one pixel is seen. The result is an int, at most 1,000 in the tests;
    pixels is at most 2⁵⁶.
    """
    ### BEGIN SOLUTION
    chain = []
    while receptive_field(chain) < pixels:
        number = len(chain) + 1
        chain.append((3, 2 if every and number % every == 0 else 1))
    number_of_layers = len(chain)
    ### END SOLUTION
    return number_of_layers


# %%
print(layers_to_see(224), layers_to_see(224, every=2))

# %% check="layers-to-see" points=2 see="3.3"
"""Without strides, with stride 2 in every second layer, and in every layer (2 points).

The hidden tests use other values of `pixels` and `every`, up to the limits in the docstring.
"""
cases = [(1, 0), (5, 0), (6, 0), (6, 3), (9, 2), (10, 2), (13, 1)]
expect(
    [layers_to_see(*case) for case in cases],
    [0, 2, 3, 3, 3, 4, 3],
    {
        "the strides were ignored; a stride of 2 doubles all later steps (3.3).": [0, 2, 3, 3, 4, 5, 6],
        "a stride affects the layers after its own, not its own layer (3.3).": [0, 2, 3, 3, 3, 3, 2],
        "layers were counted from 0; the first layer is number 1.": [0, 2, 3, 2, 3, 3, 3],
        "without any layer, one pixel is seen.": [1, 2, 3, 3, 3, 4, 3],
        "a field of exactly `pixels` is enough; one layer more was counted.": [1, 3, 3, 3, 4, 4, 3],
        "the field of n layers is 1 + 2n, not 3n: neighbouring windows overlap (3.3).": [1, 2, 2, 2, 3, 4, 5],
    },
    f"layers_to_see of (pixels, every) in {cases}",
)
# HASHED AUTOTEST [layers_to_see(224), layers_to_see(224, every=2)]
### BEGIN HIDDEN TESTS
# Not drawn: both sides of a step, and the limits. The loop covers all small cases, and some drawn ones.
expect(layers_to_see(1), 0, name="layers_to_see(1)")
expect(layers_to_see(100, every=3), 13, name="layers_to_see(100, every=3)")
expect([layers_to_see(29, 2), layers_to_see(30, 2)], [6, 7], name="layers_to_see of 29 and 30, every=2")
expect([layers_to_see(999), layers_to_see(1000)], [499, 500], name="layers_to_see of 999 and 1,000")
expect([layers_to_see(1999), layers_to_see(2000)], [999, 1000], name="layers_to_see of 1,999 and 2,000")
side = 2**56  # 55 layers of stride 2 see one pixel less, which a logarithm of floats does not show
expect([layers_to_see(side - 1, 1), layers_to_see(side, 1)], [55, 56], name="layers_to_see of 2**56, every=1")
fresh = fresh_rng(6)
for every in (*range(6), 7, 9, 50):
    seen = [
        receptive_field([(3, 2 if every and i % every == 0 else 1) for i in range(1, n + 1)])
        for n in range(60)
    ]
    for pixels in [*range(1, 36), *fresh.integers(36, 1_000, 3).tolist()]:
        if pixels <= seen[-1]:
            fewest = next(n for n, field in enumerate(seen) if field >= pixels)
            expect(layers_to_see(pixels, every), fewest, name=f"layers_to_see({pixels}, {every})")
### END HIDDEN TESTS

# %% [markdown]
# ## 4. What a 1 × 1 reduction saves
#
# GoogLeNet puts a 1 × 1 convolution with r filters before its K filters of k × k (lecture 03, section 3.5).
# Per pixel, the direct convolution costs k·k·C·K multiply-adds. How many multiply-adds do the two
# convolutions cost together?
#
# **Predict** for C = 192, K = 32, k = 5: up to which r does the reduction *save* multiply-adds?


# %% solution="reduced_cost"
def reduced_cost(C, K, k, r):
    """Return the multiply-adds per pixel of a 1 × 1 convolution from C to r channels, then k × k from r to K.

    The result is an int. C, K and r are at most 10¹⁰ in the tests.
    """
    ### BEGIN SOLUTION
    multiply_adds = C * r + k * k * r * K
    ### END SOLUTION
    return multiply_adds


# %% solution="break_even"
def break_even(C, K, k):
    """Return the largest r for which the reduction costs less than the direct convolution, as an int.

    Returns 0 if no r ≥ 1 saves multiply-adds. The result is at most 300,000 in the tests, so you may try one
    r after the other, from 0 upwards. C may be 10¹¹, so a loop over C would take too long.
    """
    ### BEGIN SOLUTION
    direct, each = k * k * C * K, C + k * k * K
    r = (direct - 1) // each
    ### END SOLUTION
    return r


# %%
print(reduced_cost(192, 32, 5, 16), "instead of", 25 * 192 * 32, "multiply-adds")
print("the reduction saves up to r =", break_even(192, 32, 5))

# %% check="reduction-cost" points=1 see="3.5"
"""From 4 channels to 2, then 3 × 3 to 5: 4·2 + 9·2·5 (1 point).

The hidden tests use other sizes, including k = 1, and very large ones.
"""
expect(
    reduced_cost(4, 5, 3, 2),
    98,
    {
        "the 1 × 1 convolution is missing; it has C·r weights (lecture 03, 3.5).": 90,
        "the k × k filters were counted with C input channels; after the reduction there are r (3.5).": 188,
        "the reduction was counted with K input channels; it has C.": 100,
        "the filters of the second convolution have k·k weights per channel, not one.": 18,
    },
    "reduced_cost(4, 5, 3, 2)",
)
# HASHED AUTOTEST reduced_cost(192, 32, 5, 16)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(7)
C, K, k, r = (2 + fresh.permutation(9)[:4]).tolist()
expect(reduced_cost(C, K, k, r), C * r + k * k * r * K, name=f"reduced_cost({C}, {K}, {k}, {r})")
size, r = 10**9 + int(fresh.integers(1, 10**6)), 10**8 + int(fresh.integers(1, 10**6))
expect(reduced_cost(size, size, 7, r), 50 * size * r, name="reduced_cost of a large layer")
### END HIDDEN TESTS

# %% check="break-even" points=1 see="3.5"
"""The largest r that still saves multiply-adds: r + 1 saves none (1 point).

The hidden tests use other sizes and one very large C. Equal cost saves nothing.
"""
cases = [(192, 32, 5), (4, 5, 3), (256, 250, 3), (4, 2, 2), (64, 64, 1), (1, 1, 1)]
found = [break_even(*case) for case in cases]
if not has_failed("reduction-cost"):  # break_even may call reduced_cost
    expect(
        found,
        [154, 3, 229, 2, 31, 0],
        {
            "equal cost is not a saving (lecture 03, 3.5).": [154, 3, 229, 2, 32, 0],
            "the 1 × 1 convolution also costs multiply-adds (lecture 03, 3.5).": [191, 3, 255, 3, 63, 0],
            "the smallest r that does not save was returned.": [155, 4, 230, 3, 32, 1],
        },
        f"break_even of (C, K, k) in {cases}",
    )
### BEGIN HIDDEN TESTS
# The direct convolution costs one multiply-add more than the reduction with r = 270,000, which therefore just
# saves. A quotient of floats does not show it. A loop over r is fast enough, a loop over C is not.
fresh = fresh_rng(8)
r = int(fresh.integers(263_000, 290_000))  # above 2¹⁸, where floats are far enough apart


def compare_reductions():
    """Compare break_even with small cases; of a cost that is equal, one multiply-add less is saved."""
    for K, k in [(2, 2), (2, 5), (int(fresh.integers(3, 60)), 3)]:
        sizes = [1, *fresh.integers(2, 100, 3).tolist()]
        want = [(C * K * k * k - 1) // (C + K * k * k) for C in sizes]
        expect([break_even(C, K, k) for C in sizes], want, name=f"break_even of {sizes} with {K=}, {k=}")
    expect(break_even(24, 2, 2), 5, name="break_even with an equal cost for r = 6")


def cost_of_a_reduction(C, K, k, r):
    """Replace a reduced_cost that has failed its own check."""
    return r * (C + K * k**2)


if has_failed("reduction-cost"):
    with watched("reduced_cost", cost_of_a_reduction):
        found = [break_even(*case) for case in cases]
        expect(found, [154, 3, 229, 2, 31, 0], name="break_even, with a correct reduced_cost,")
        compare_reductions()
else:
    compare_reductions()
    expect(break_even(r * r + r + 1, r + 1, 1), r, name="break_even with C of 7 · 10¹⁰")
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Fold a batch normalisation
#
# When a trained network is *used*, a batch normalisation is one multiplication and one addition per channel
# (lecture 03, section 3.7): it subtracts the moving mean μ, divides by √(σ² + ε) with the moving variance
# σ², multiplies by γ and adds β. The convolution before it also multiplies and adds. The two can therefore
# be replaced by *one* convolution, with a different kernel and bias:
#
# $$\gamma\,\frac{(w * x + b) - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta \;=\; w' * x + b'$$
#
# The function keeps the precision of its arrays: float32 in, float32 out; float64 in,
# float64 out. No intermediate result may have a lower precision.


# %% solution="fold"
def fold(w, b, gamma, beta, mean, variance, epsilon=1e-3):
    """Return kernel and bias of the one convolution that replaces a convolution and its normalisation.

    w (k, k, C, K); b, gamma, beta, mean and variance (K,), all of the same dtype, float32 or float64.
    Returns w' (k, k, C, K) and b' (K,), NumPy arrays of this dtype.
    """
    assert b.shape == gamma.shape == beta.shape == mean.shape == variance.shape == w.shape[-1:]
    ### BEGIN SOLUTION
    scale = gamma / np.sqrt(variance + epsilon)
    folded_w = w * scale
    folded_b = (b - mean) * scale + beta
    ### END SOLUTION
    assert folded_w.shape == w.shape and folded_b.shape == b.shape, (
        f"w' has shape {folded_w.shape} and b' {folded_b.shape}; they should have {w.shape} and {b.shape}"
    )
    return folded_w, folded_b


# %% [markdown]
# Compute an example by hand: one weight 2, bias 1, γ = 3, β = 10, μ = 5, σ² = 4, and ε = 0. What are w' and
# b'?

# %% given="one-weight"
one = [np.array([number]) for number in (1.0, 3.0, 10.0, 5.0, 4.0)]  # b, gamma, beta, mean, variance

# %%
print(fold(np.array([[[[2.0]]]]), *one, epsilon=0.0))

# %% check="fold-by-hand" points=1 see="3.7"
"""The scale is 3 / 2: the weight becomes 3, the bias (1 − 5) · 3 / 2 + 10 (1 point)."""
w, b = fold(np.array([[[[2.0]]]]), *one, epsilon=0.0)
expect(
    [float(np.ravel(w)[0]), float(b[0])],
    [3.0, 4.0],
    {
        "the bias of the convolution was not scaled; it is normalised, too (lecture 03, 3.7).": [3.0, 3.5],
        "the bias was scaled, but the mean was not subtracted.": [3.0, 11.5],
        "the mean was subtracted without being scaled.": [3.0, 6.5],
        "the variance was the divisor; the standard deviation is its square root (3.7).": [1.5, 7.0],
        "γ is missing.": [1.0, 8.0],
        "β is missing.": [3.0, -6.0],
        "the result was multiplied by the standard deviation instead of divided.": [12.0, -14.0],
    },
    "the folded weight and bias",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(9)
bias, beta, mean, weight, root = fresh.permutation(np.arange(2.0, 10))[:5].tolist()
scale = -float(fresh.integers(2, 5))
numbers = [np.array([number]) for number in (bias, scale * root, beta, mean, root**2)]
w, b = fold(np.array([[[[weight]]]]), *numbers, epsilon=0.0)
want = [scale * weight, (bias - mean) * scale + beta]
expect([float(np.ravel(w)[0]), float(b[0])], want, name="another folded weight and bias")
### END HIDDEN TESTS

# %% check="fold-in-a-layer" points=1 see="3.7"
"""On random windows, the folded convolution equals convolution and normalisation (1 point).

The hidden tests use variances near 0, values far from 0, and float32.
"""
for k, C, K, epsilon in [(1, 3, 4, 1e-3), (3, 2, 5, 1e-3), (3, 4, 4, 0.5)]:
    w, x = rng.normal(size=(k, k, C, K)), rng.normal(size=(20, k, k, C))  # 20 windows
    b, gamma, beta, mean = rng.normal(size=(4, K))
    variance = rng.uniform(0.01, 2, K)
    with unchanged(w=w, b=b, gamma=gamma, beta=beta, mean=mean, variance=variance):
        folded_w, folded_b = fold(w, b, gamma, beta, mean, variance, epsilon)
    for name, array in dict(b=b, gamma=gamma, beta=beta, mean=mean, variance=variance).items():
        assert array.shape == (K,), f"fold changed the shape of {name} from {(K,)} to {array.shape}"
    assert w.shape == (k, k, C, K), f"fold changed the shape of w from {(k, k, C, K)} to {w.shape}"
    before = np.tensordot(x, w, 3) + b  # (20, K): each window meets each filter
    after = gamma * (before - mean) / np.sqrt(variance + epsilon) + beta
    found = np.tensordot(x, folded_w, 3) + folded_b
    expect(found, after, name=f"20 outputs with k={k}, C={C}, K={K}")
    for name, array in [("w'", folded_w), ("b'", folded_b)]:
        assert array.dtype == np.float64, f"{name} of float64 arrays has dtype {array.dtype}, not float64"
    error = np.abs(found - after).max() / np.abs(after).max()
    assert error < 1e-12, (
        f"20 outputs with k={k}, C={C}, K={K} have a relative error of {error:.1e}, more than 1e-12: "
        "rounding in float64 is about 1e-16, in float32 about 1e-7"
    )
singles = [array.astype(np.float32) for array in (w, b, gamma, beta, mean, variance)]
for name, array in zip(("w'", "b'"), fold(*singles), strict=True):
    assert array.dtype == np.float32, f"{name} of float32 arrays has dtype {array.dtype}, not float32"
### BEGIN HIDDEN TESTS
fresh = fresh_rng(10)
w, x = fresh.normal(size=(3, 3, 2, 3)), fresh.normal(size=(20, 3, 3, 2))
b, gamma, beta, mean = fresh.normal(size=(4, 3)) + np.array([[2.0**26], [0], [0], [2.0**26]])
variance = np.array([0.0, 1e-6, 3.0])  # the first belongs to a channel that never changes
folded_w, folded_b = fold(w, b, gamma, beta, mean, variance)
after = gamma * (np.tensordot(x, w, 3) + (b - mean)) / np.sqrt(variance + 1e-3) + beta
expect(np.tensordot(x, folded_w, 3) + folded_b, after, name="20 outputs far from 0, before the normalisation")
singles = [array.astype(np.float32) for array in (w, 0.3 * gamma, gamma, beta, 0.7 * beta, variance)]
doubles = [array.astype(float) for array in singles]
folded = fold(*singles, epsilon=0.25)
scale = doubles[2] / np.sqrt(doubles[5] + 0.25)
expect(folded[0], (doubles[0] * scale).astype(np.float32), name="w' of float32 arrays")
shift = (doubles[1] - doubles[4]) * scale + doubles[3]
expect(folded[1], shift.astype(np.float32), name="b' of float32 arrays")
### END HIDDEN TESTS

# %% [markdown]
# ## 6. A residual block
#
# The block computes y = ReLU(x + F(x)), as in lecture 03, section 3.8, but with a different shortcut. F
# consists of a 3 × 3 convolution, batch normalisation, ReLU, a 3 × 3 convolution and batch normalisation.
# The convolutions have no biases, and the first one has the stride. The shortcut (or skip connection) is the
# **identity** if x and F(x) have the same shape. If the shapes differ, the shortcut is a 1 × 1 convolution
# with the same stride and without bias, followed by a batch normalisation.
#
# Two tools are provided. `conv` adds one such convolution, with the padding used throughout this section,
# and its normalisation.


# %% given="conv"
def conv(x, maps, k, stride=1):
    """Convolve x (N, H, W, C) without bias, and normalise: (N, ⌈H / stride⌉, ⌈W / stride⌉, maps)."""
    x = layers.Conv2D(maps, k, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


# %% solution="residual_block"
def residual_block(x, maps, stride=1):
    """Return the Keras tensor (N, ⌈H / stride⌉, ⌈W / stride⌉, maps) of a residual block for x (N, H, W, C).

    maps    number of output channels, of F and of the shortcut
    stride  an int of at least 1
    """
    ### BEGIN SOLUTION
    F = layers.ReLU()(conv(x, maps, 3, stride))
    F = conv(F, maps, 3)
    shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
    y = layers.ReLU()(layers.Add()([shortcut, F]))
    ### END SOLUTION
    return y


# %% [markdown]
# The second tool, `try_block`, builds a block, gives all convolutions the same simple filters and all
# normalisations the same β (and a γ that makes them change nothing else), and passes the numbers −2, −1, 0,
# 1, 2 through the block. With `kernel=0` all convolutions return zeros. With `kernel=-1` each convolution
# returns its input with the opposite sign.
#
# `fill` gives a network weights that depend only on their kind, their shape and a seed.
# Two networks with the same layers then compute the same outputs, even if their layers
# were built in a different order.


# %% given="try-block"
def try_block(kernel, beta, C=1, maps=1, stride=1):
    """Return a block's outputs for images filled with −2 … 2, its output shape and its parameters."""
    image = keras.Input((4, 4, C))
    model = keras.Model(image, residual_block(image, maps, stride))
    for weight in model.weights:
        if weight.name == "kernel":
            w = np.zeros(weight.shape, np.float32)
            w[tuple(n // 2 for n in weight.shape[:-2])] = kernel  # the weights in the middle of a filter
            weight.assign(w)
        elif weight.name in ("gamma", "beta"):
            value = math.sqrt(1 + 1e-3) if weight.name == "gamma" else beta  # 1e-3: the ε of Keras
            weight.assign(np.full(weight.shape, value))
    x = np.arange(-2.0, 3.0, dtype=np.float32)[:, None, None, None] * np.ones((1, 4, 4, C), np.float32)
    outputs = [round(float(v), 3) for v in model(x).numpy()[:, 0, 0, 0]]
    parameters = sum(math.prod(v.shape) for v in model.trainable_variables)
    return {"outputs": outputs, "shape": list(model.output.shape[1:]), "parameters": int(parameters)}


def fill(model, seed):
    """Set each weight of a network to values that depend only on its kind, its shape and the seed."""
    for weight in model.weights:
        sizes = [n for n in weight.shape if n > 1]  # a 1 × 1 convolution has the weights of a dense layer
        draw = np.random.default_rng([seed, *weight.name.encode(), *sizes])
        values = draw.uniform(-1, 1, weight.shape)
        if weight.name == "kernel":
            values *= math.sqrt(6 / math.prod(weight.shape[:-1]))  # outputs about as large as inputs
        elif weight.name in ("gamma", "moving_variance"):
            values = 1 + values / 2
        weight.assign(values)


def outputs(model, seed, training=False):
    """Return the outputs of a network, filled with weights, for three random images, as an array."""
    fill(model, seed)
    x = np.random.default_rng(seed).normal(0, 10, (3, *model.input.shape[1:])).astype(np.float32)
    return np.asarray(model(x, training=training))


def block_outputs(C, maps, stride, seed=0, training=False):
    """Return the outputs of a residual block for images of 6 × 8 pixels."""
    image = keras.Input((6, 8, C))
    return outputs(keras.Model(image, residual_block(image, maps, stride)), seed, training)


# %%
print(try_block(kernel=0, beta=0))

# %% [markdown]
# With all filters zero, F is 0. Which outputs should the block have for −2, −1, 0, 1, 2?

# %% check="block-identity" points=1 see="3.8"
"""If F is 0, the block computes only its last ReLU; an identity shortcut has no parameters (1 point)."""
found, none = try_block(kernel=0, beta=0), [0.0] * 5
expect(
    found["outputs"],
    [0.0, 0.0, 0.0, 1.0, 2.0],
    {
        "x does not reach the output: the shortcut is missing, or a convolution (lecture 03, 3.8).": none,
        "the last ReLU is missing.": [-2.0, -1.0, 0.0, 1.0, 2.0],
        "x was added twice.": [0.0, 0.0, 0.0, 2.0, 4.0],
    },
    "the outputs for −2 … 2 with all filters zero",
)
expect(
    try_block(kernel=0, beta=0, C=6, maps=6)["parameters"],
    2 * 9 * 36 + 4 * 6,
    {
        "the shortcut is a 1 × 1 convolution, but the shapes agree (lecture 03, 3.8).": 720,
        "F has one convolution with its normalisation, not two.": 336,
        "the convolutions of F have biases.": 2 * 9 * 36 + 6 * 6,
        "the normalisation after one convolution of F is missing.": 2 * 9 * 36 + 2 * 6,
        "both convolutions of F are the same layer, with the same weights.": 9 * 36 + 4 * 6,
    },
    "the parameters of a block from 6 to 6 channels",
)
### BEGIN HIDDEN TESTS
C = int(fresh_rng(11).integers(2, 6))
expect(
    try_block(0, 0, C=C, maps=C)["outputs"],
    [0.0, 0.0, 0.0, 1.0, 2.0],
    name=f"the outputs of a block from {C} to {C} channels with all filters zero",
)
### END HIDDEN TESTS

# %% check="block-order" points=1 see="3.8"
"""x is added before the last ReLU, and there is a ReLU inside F (1 point).

The hidden test compares the outputs of a block with random weights, in float32.
"""
expect(
    try_block(kernel=0, beta=1)["outputs"],
    [0.0, 0.0, 1.0, 2.0, 3.0],
    {"the normalisation after the second convolution is missing.": [0.0, 0.0, 0.0, 1.0, 2.0]},
    "the outputs with F = 1",
)
expect(
    try_block(kernel=0, beta=-1)["outputs"],
    [0.0, 0.0, 0.0, 0.0, 1.0],
    {
        "the last ReLU was applied to F alone; add x first (lecture 03, 3.8).": [-2.0, -1.0, 0.0, 1.0, 2.0],
        "F ends with a ReLU of its own; F ends with its normalisation (3.8).": [0.0, 0.0, 0.0, 1.0, 2.0],
    },
    "the outputs with F = −1",
)
expect(
    try_block(kernel=-1, beta=0)["outputs"],
    [0.0, 0.0, 0.0, 1.0, 2.0],
    {"there is no ReLU between the two convolutions of F.": [0.0, 0.0, 0.0, 2.0, 4.0]},
    "the outputs with filters that change the sign",
)
### BEGIN HIDDEN TESTS
# Not detected: other initial weights, and another momentum of the moving averages. Neither changes an output.
fresh = fresh_rng(12)


def reference(seed, training=False):
    """Return the weights of `fill`, `conv` and the residual block, in NumPy."""

    def weights(kind, *shape):
        draw = np.random.default_rng([seed, *kind.encode(), *(n for n in shape if n > 1)])
        values = draw.uniform(-1, 1, shape)
        if kind == "kernel":
            values *= math.sqrt(6 / math.prod(shape[:-1]))
        return 1 + values / 2 if kind in ("gamma", "moving_variance") else values

    def conv(x, maps, k, stride=1):
        pads = [max(0, (-(-n // stride) - 1) * stride + k - n) for n in x.shape[1:3]]
        padded = np.pad(x, [(0, 0), *((pad // 2, pad - pad // 2) for pad in pads), (0, 0)])
        view = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))[:, ::stride, ::stride]
        y = np.tensordot(view, weights("kernel", k, k, x.shape[3], maps).transpose(2, 0, 1, 3), 3)
        mean, variance = weights("moving_mean", maps), weights("moving_variance", maps)
        if training:
            mean, variance = y.mean(axis=(0, 1, 2)), y.var(axis=(0, 1, 2))
        return (y - mean) / np.sqrt(variance + 1e-3) * weights("gamma", maps) + weights("beta", maps)

    def block(x, maps, stride):
        F = conv(np.maximum(conv(x, maps, 3, stride), 0), maps, 3)
        return np.maximum((x if x.shape == F.shape else conv(x, maps, 1, stride)) + F, 0)

    return weights, conv, block


def images(seed, *shape):
    """Return the images of `outputs`."""
    return np.random.default_rng(seed).normal(0, 10, (3, *shape)).astype(np.float32)


def assert_close(got, want, name):
    """Compare outputs in float32 with a tolerance of 1e-3."""
    assert got.shape == want.shape and got.dtype == np.float32, f"{name}: {got.shape}, {got.dtype}"
    assert np.all(np.abs(got - want) <= 1e-3 * np.abs(want) + 1e-5 * np.abs(want).max()), name


seed, C = fresh.integers([10, 3], [10**6, 6]).tolist()
_, _, block = reference(seed)
assert_close(
    block_outputs(C, C, 1, seed=seed), block(images(seed, 6, 8, C), C, 1), f"the outputs of {C} channels"
)
### END HIDDEN TESTS

# %% check="block-changes-shape" points=1 see="3.8"
"""From 6 to 10 channels with stride 2: F's first convolution and the shortcut have the stride (1 point).

The hidden tests change only the channels, only the pixels, or both, with other strides and while training.
"""
found = try_block(kernel=0, beta=0, C=6, maps=10, stride=2)
expect(found["shape"], [2, 2, 10], name="the output shape")
expect(
    found["parameters"],
    9 * 60 + 9 * 100 + 60 + 6 * 10,
    {
        "the shortcut has no normalisation.": 9 * 60 + 9 * 100 + 60 + 4 * 10,
        "the shortcut has a bias.": 9 * 60 + 9 * 100 + 60 + 7 * 10,
        "the shortcut is a 3 × 3 convolution; 1 × 1 is enough to change a shape.": 2_040,
    },
    "the parameters of a block from 6 to 10 channels",
)
expect(
    [try_block(0, 0, C=2, maps=6)["parameters"], try_block(0, 0, C=6, maps=6, stride=2)["parameters"]],
    [9 * 12 + 9 * 36 + 12 + 6 * 6, 2 * 9 * 36 + 36 + 6 * 6],
    name="the parameters of blocks from 2 to 6 channels with stride 1, and from 6 to 6 with stride 2",
)
# AUTOTEST close(block_outputs(2, 3, 2), rtol=1e-3)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(13)
C, maps = (3 + fresh.permutation(4)[:2]).tolist()
expect(
    [try_block(0, 0, C=C, maps=C, stride=3)["parameters"], try_block(0, 0, C=maps, maps=C)["parameters"]],
    [2 * 9 * C * C + C * C + 6 * C, 9 * C * maps + 9 * C * C + C * maps + 6 * C],
    name=f"the parameters of blocks from {C} to {C} channels with stride 3, and from {maps} to {C}",
)
expect(
    try_block(0, 0, C=C, maps=maps, stride=4)["shape"], [1, 1, maps], name="the output shape with stride 4"
)
expect(
    try_block(1, 0, C=1, maps=C)["outputs"],
    [0.0, 0.0, 0.0, C + 1.0, 2 * C + 2.0],
    name=f"the outputs of a block from 1 to {C} channels with filters of 1",
)


def reference(seed, training=False):
    """Return the weights of `fill`, `conv` and the residual block, in NumPy."""

    def weights(kind, *shape):
        draw = np.random.default_rng([seed, *kind.encode(), *(n for n in shape if n > 1)])
        values = draw.uniform(-1, 1, shape)
        if kind == "kernel":
            values *= math.sqrt(6 / math.prod(shape[:-1]))
        return 1 + values / 2 if kind in ("gamma", "moving_variance") else values

    def conv(x, maps, k, stride=1):
        pads = [max(0, (-(-n // stride) - 1) * stride + k - n) for n in x.shape[1:3]]
        padded = np.pad(x, [(0, 0), *((pad // 2, pad - pad // 2) for pad in pads), (0, 0)])
        view = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))[:, ::stride, ::stride]
        y = np.tensordot(view, weights("kernel", k, k, x.shape[3], maps).transpose(2, 0, 1, 3), 3)
        mean, variance = weights("moving_mean", maps), weights("moving_variance", maps)
        if training:
            mean, variance = y.mean(axis=(0, 1, 2)), y.var(axis=(0, 1, 2))
        return (y - mean) / np.sqrt(variance + 1e-3) * weights("gamma", maps) + weights("beta", maps)

    def block(x, maps, stride):
        F = conv(np.maximum(conv(x, maps, 3, stride), 0), maps, 3)
        return np.maximum((x if x.shape == F.shape else conv(x, maps, 1, stride)) + F, 0)

    return weights, conv, block


def images(seed, *shape):
    """Return the images of `outputs`."""
    return np.random.default_rng(seed).normal(0, 10, (3, *shape)).astype(np.float32)


def assert_close(got, want, name):
    """Compare outputs in float32 with a tolerance of 1e-3."""
    assert got.shape == want.shape and got.dtype == np.float32, f"{name}: {got.shape}, {got.dtype}"
    assert np.all(np.abs(got - want) <= 1e-3 * np.abs(want) + 1e-5 * np.abs(want).max()), name


for C, maps, stride, training in [(3, 3, 2, False), (3, 5, 1, False), (5, 2, 2, True)]:
    seed = int(fresh.integers(10, 10**6))
    _, _, block = reference(seed, training)
    assert_close(
        block_outputs(C, maps, stride, seed=seed, training=training),
        block(images(seed, 6, 8, C), maps, stride),
        f"the outputs of a block from {C} to {maps} channels with {stride=}, {training=}",
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 7. A ResNet from its specification
#
# A network of 6n + 2 layers (the 1 × 1 convolutions of shortcuts do not count), for images of 28 × 28 pixels:
#
# 1. `conv` 3 × 3 to f channels, and ReLU;
# 2. three stages of n residual blocks each, with f, 2f and 4f channels; the first block of the second stage
#    and the first block of the third stage have stride 2, all other blocks have stride 1;
# 3. global average pooling, and a fully connected layer to 10 classes, with biases and without softmax.
#
# The checks of this section use your `residual_block`.


# %% solution="resnet"
def resnet(n, f):
    """Return a keras.Model for (N, 28, 28, 1) with 6n + 2 layers, built from conv and residual_block."""
    x = image = keras.Input((28, 28, 1))
    ### BEGIN SOLUTION
    x = layers.ReLU()(conv(x, f, 3))
    for maps in (f, 2 * f, 4 * f):
        for _ in range(n):
            x = residual_block(x, maps, stride=1 if x.shape[-1] == maps else 2)
    y = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    ### END SOLUTION
    return keras.Model(image, y)


# %% given="describe"
def describe_resnet(n, f):
    """Return the numbers of trainable parameters, of 3 × 3 convolutions, and of classes."""
    model = resnet(n, f)
    kernels = [weight.shape for weight in model.weights if weight.name == "kernel"]
    return {
        "parameters": int(sum(math.prod(v.shape) for v in model.trainable_variables)),
        "3 × 3 convolutions": sum(shape[:2] == (3, 3) and len(shape) == 4 for shape in kernels),
        "classes": int(model.output.shape[-1]),
    }


def resnet_outputs(n, f, seed=0, training=False):
    """Return the outputs of your network for three random images."""
    return outputs(resnet(n, f), seed, training)


# %%
print(describe_resnet(1, 16))

# %% check="resnet-specification" points=1 see="3.8"
"""With n = 1, f = 16 the network has 77,754 parameters, and with n = 2, f = 4 it has 11,302 (1 point).

The hidden tests use another n and f.
"""


def both(first, second):
    """Return the descriptions of the two networks with these numbers of parameters."""
    pairs = [(first, 7), (second, 13)]
    return [{"parameters": count, "3 × 3 convolutions": of_3, "classes": 10} for count, of_3 in pairs]


expect(
    [describe_resnet(1, 16), describe_resnet(2, 4)],
    both(77_754, 11_302),
    {
        "the last layer has no biases.": both(77_744, 11_292),
        "the last outputs were flattened; use global average pooling.": both(108_474, 18_982),
        "the first stage has a stride; only the second and third have one.": both(78_042, 11_326),
        "the first convolution has a bias instead of a normalisation; use conv.": both(77_738, 11_298),
        "the first convolution has no normalisation; use conv.": both(77_722, 11_294),
        "residual_block has a convolution on every shortcut (lecture 03, 3.8).": both(78_042, 11_718),
    },
    "the descriptions for (n, f) = (1, 16) and (2, 4)",
)
### BEGIN HIDDEN TESTS
f = int(fresh_rng(14).choice([2, 3, 5]))
stages = 6 * 9 * f * f + 12 * f  # three blocks from f to f channels
for maps in (2 * f, 4 * f):  # the first block has half the channels, and a shortcut of its own
    stages += 5 * 9 * maps * maps + 9 * maps * maps // 2 + maps * maps // 2 + 14 * maps
expect(
    describe_resnet(3, f),
    {"parameters": 9 * f + 2 * f + stages + 40 * f + 10, "3 × 3 convolutions": 19, "classes": 10},
    name=f"describe_resnet(3, {f})",
)
### END HIDDEN TESTS

# %% check="resnet-outputs" points=1 see="3.8"
"""The outputs follow from the specification: each ReLU, each stride, the pooling, no softmax (1 point).

The hidden tests use other n and f, and one of them runs while training.
"""
# AUTOTEST close(resnet_outputs(1, 4), rtol=1e-3)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(15)


def reference(seed, training=False):
    """Return the weights of `fill`, `conv` and the residual block, in NumPy."""

    def weights(kind, *shape):
        draw = np.random.default_rng([seed, *kind.encode(), *(n for n in shape if n > 1)])
        values = draw.uniform(-1, 1, shape)
        if kind == "kernel":
            values *= math.sqrt(6 / math.prod(shape[:-1]))
        return 1 + values / 2 if kind in ("gamma", "moving_variance") else values

    def conv(x, maps, k, stride=1):
        pads = [max(0, (-(-n // stride) - 1) * stride + k - n) for n in x.shape[1:3]]
        padded = np.pad(x, [(0, 0), *((pad // 2, pad - pad // 2) for pad in pads), (0, 0)])
        view = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))[:, ::stride, ::stride]
        y = np.tensordot(view, weights("kernel", k, k, x.shape[3], maps).transpose(2, 0, 1, 3), 3)
        mean, variance = weights("moving_mean", maps), weights("moving_variance", maps)
        if training:
            mean, variance = y.mean(axis=(0, 1, 2)), y.var(axis=(0, 1, 2))
        return (y - mean) / np.sqrt(variance + 1e-3) * weights("gamma", maps) + weights("beta", maps)

    def block(x, maps, stride):
        F = conv(np.maximum(conv(x, maps, 3, stride), 0), maps, 3)
        return np.maximum((x if x.shape == F.shape else conv(x, maps, 1, stride)) + F, 0)

    return weights, conv, block


def images(seed, *shape):
    """Return the images of `outputs`."""
    return np.random.default_rng(seed).normal(0, 10, (3, *shape)).astype(np.float32)


def assert_close(got, want, name):
    """Compare outputs in float32 with a tolerance of 1e-3."""
    assert got.shape == want.shape and got.dtype == np.float32, f"{name}: {got.shape}, {got.dtype}"
    assert np.all(np.abs(got - want) <= 1e-3 * np.abs(want) + 1e-5 * np.abs(want).max()), name


for n, f, training in [(2, 3, False), (1, 2, True)]:
    seed = int(fresh.integers(10, 10**6))
    weights, conv_in_numpy, block = reference(seed, training)
    x = np.maximum(conv_in_numpy(images(seed, 28, 28, 1), f, 3), 0)
    for maps in (f, 2 * f, 4 * f):
        for number in range(n):
            x = block(x, maps, 2 if number == 0 and maps > f else 1)
    want = x.mean(axis=(1, 2)) @ weights("kernel", 4 * f, 10) + weights("bias", 10)
    found = resnet_outputs(n, f, seed=seed, training=training)
    assert_close(found, want, f"the outputs for {n=}, {f=}, {training=}")
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Which layer would you change?
#
# Your counter gives the parameters and multiply-adds of AlexNet's layers (without groups). Which of the eight
# layers would you change to make the network *smaller*, and which to make it *faster*?

# %%
ALEXNET = [
    ("conv", 96, 11, 4),
    ("pool", 3, 2),
    ("conv", 256, 5, 1, 2),
    ("pool", 3, 2),
    ("conv", 384, 3, 1, 1),
]
ALEXNET += [("conv", 384, 3, 1, 1), ("conv", 256, 3, 1, 1), ("pool", 3, 2)]
ALEXNET += [("dense", 4096), ("dense", 4096), ("dense", 1000)]
costs = [row for row in network_cost(ALEXNET, (227, 227, 3)) if row[2]]
for name, shape, parameters, multiply_adds in costs:
    print(f"{name:15} {shape!s:14} {parameters:12,} {multiply_adds:14,}")
print(f"{'sum':30} {sum(row[2] for row in costs):12,} {sum(row[3] for row in costs):14,}")
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for i, (name, _, parameters, multiply_adds) in enumerate(costs):
    dense = name.startswith("dense")
    axes.loglog(parameters, multiply_adds, "s" if dense else "o", color="C1" if dense else "C0")
    place, side = ((8, -14) if dense or i == 4 else (6, 5)), "left"
    if i == 2:  # the third and the fifth convolution are equally large
        place, side = (-8, 4), "right"
    axes.annotate(name, (parameters, multiply_adds), place, textcoords="offset points", ha=side, fontsize=9)
axes.axline((1e6, 1e6), (1e7, 1e7), color="0.5", ls=":", marker="")
axes.text(1.1e6, 1.6e6, "multiply-adds = parameters", color="0.3", fontsize=9, ha="right")
axes.margins(x=0.2)
axes.set(xlabel="parameters", ylabel="multiply-adds per image", title="AlexNet, layer by layer")
plt.show()

# %% [markdown]
# *Parameters and multiply-adds of AlexNet's eight layers, both axes logarithmic. The five convolutions
# (round) lie at the upper left, with few parameters and many multiply-adds. The three fully connected layers
# (square) lie at the lower right, on the dotted line where the number of multiply-adds equals the number of
# parameters. The name of a convolution lists its filters, their size, the stride and the padding.*
#
# ### Written answer (2 points, graded manually)
#
# One engineer wants AlexNet to be *smaller* on disk, another wants it to be *faster*. Each may halve the
# number of filters (or outputs) of one layer. Answer in about five sentences:
#
# 1. Which layer should each of them choose? Halve it in `ALEXNET`, run the cell above again, and quote the
#    sums that you get before and after.
# 2. Why do they not choose the same layer? Quote the line of *your* `conv_cost` that explains the
#    difference.

# %% [markdown] explain="smaller-or-faster" points=2
# ### BEGIN SOLUTION
# **Rubric.** Language and length are not graded.
#
# | points | for |
# |---|---|
# | ½ | 1: the layer for a smaller network, with the sum of parameters after halving it |
# | ½ | 1: the layer for a faster network, with the sum of multiply-adds after halving it |
# | ½ | 2: the reason: a filter is used at each position of its output, a weight of a dense layer once |
# | ½ | 2: the line of the student's own function that multiplies by H_out · W_out |
#
# - *Layers*: for a smaller network the first dense layer (37.8 of 62.4 million parameters). Halving it also
#   halves the inputs of the next layer, which leaves about 35 million. For a faster network the second
#   convolution (448 of 1,135 million multiply-adds). Halving it also halves the third convolution's inputs,
#   which leaves about 836 million. A different layer is also right if its sums are smaller.
# - *Reason*: the work of a layer is its weights times the positions of its output (27 · 27 = 729 for the
#   second convolution, 1 for a dense layer). Convolutions have few parameters, but do most of the work.
# - *Line*: any line that shows that the multiply-adds contain H_out · W_out and the parameters do not.
#
# **Two points.** "For the disk I halve the first dense layer: 62.4 million parameters become 35.1 million.
# For speed I halve the second convolution: 1,135 million multiply-adds become 836 million, although it has
# only 0.6 million parameters. Its weights are used at all 729 positions and a dense weight once: in my
# function it is `work = places * weights`, while the parameters are `weights + K`."
#
# **One point.** "The dense layers are large and the convolutions slow, since filters are used at all
# positions; my line is `n = H_out * W_out * K * k * k * C`." (The reason and the line; no layer, no sum.)
#
# **No points.** "The layer with the most parameters, for both: fewer parameters mean less work."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - The shapes of the layers determine the exact numbers of parameters and multiply-adds, and a lower bound
#   for the memory.
# - Parameters occupy memory once; outputs occupy memory for every image of the batch.
# - A layer widens the receptive field by k − 1 steps, and a stride makes all later steps longer.
# - A batch normalisation costs nothing once it is folded into the convolution before it.
# - A residual block whose F is 0 passes its input on. A deeper network can therefore be at least as good as
#   a shallower one.
#
# ## Open questions
#
# 1. Your counter ignores memory bandwidth. Which of AlexNet's layers take longer than their multiply-adds
#    suggest?
# 2. Recomputing outputs in the backward pass saves memory and costs work. Which outputs would you recompute
#    first?
# 3. Why can a normalisation not be folded while the network is being *trained*?
