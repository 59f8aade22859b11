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
# A network is three sizes: its parameters, its multiply-adds and the numbers it must keep in memory. **Can
# you tell the first two exactly, and a lower bound for the third, before a single weight exists, and then
# build a network that has them?**
#
# You will
#
# - count a convolution, and with it any network,
# - predict which batch fits into a given memory,
# - say how deep a network must be to see far enough, and what a 1×1 reduction saves,
# - fold a batch normalisation into the convolution before it,
# - build a residual block whose identity path really is the identity, and a ResNet from a specification.
#
# The background is lecture 03. There are 20 points: 18 in 15 checks, and 2 for an answer in your own words.
# Each function has one hole, which sets what the function returns, and leaves what it is given unchanged.
# Fill the holes marked `YOUR CODE HERE`, run the free cell below each, then the checks; a check that fails
# says what it saw. Some checks also try cases that are not shown. A check with a hash knows whether your
# number is right without showing it; it cannot say what is wrong.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | N | images in a batch | K | filters (maps out) |
# | H, W | height and width of the maps | k | size of a filter, k × k |
# | C | channels in | N, H, W, C | order of the axes |
#
# Work is counted in multiply-adds, as in the papers on these networks. A multiply-add is two FLOPs, in which
# assignment 01 counts.

# %% given="setup"
import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start-up messages say nothing we need

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers

from cluster.checks import expect, unchanged

plt.style.use("cluster.course")
rng = np.random.default_rng(3)

# %% [markdown]
# ## 1. Count a convolution
#
# Do one by hand first. Maps of 4 × 5 pixels with 2 channels meet 3 filters of 3 × 3, with biases, stride 1
# and no padding. How many places does a filter find? How many weights has it? How many products is each
# output the sum of? (Lecture 03, section 3.1.) Along an axis of $H$ pixels with padding $p$ on both sides and
# stride $s$ there are $\lfloor (H + 2p - k) / s \rfloor + 1$ places, rounded down: a filter that would hang
# over the edge is left out.


# %% solution="conv_cost"
def conv_cost(H, W, C, K, k, stride=1, padding=0, bias=True):
    """What a convolution of K filters of k × k costs for one image of H × W pixels and C channels.

    padding is the number of rows and columns of zeros on each side. Returns three things, all int:
    the shape of the output (H_out, W_out, K), the number of parameters, the number of multiply-adds.
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
"""2 × 3 places, 3 · (18 + 1) parameters, 2 · 3 · 3 sums of 18 products (1 point)."""
expect(
    conv_cost(4, 5, 2, K=3, k=3),
    ((2, 3, 3), 57, 324),
    {
        "the biases are missing; each filter has one (lecture 03, 3.1).": ((2, 3, 3), 54, 324),
        "there is one bias for each filter, not one for each of its weights or outputs.": (
            (2, 3, 3),
            72,
            324,
        ),
        "a filter has weights for each channel: k·k·C of them (lecture 03, 3.1).": ((2, 3, 3), 30, 162),
        "a filter of 3 × 3 fits into 4 × 5 pixels at 2 × 3 places only.": ((4, 5, 3), 57, 1080),
        "each multiply-add was counted twice; FLOPs are twice the multiply-adds (3.2).": ((2, 3, 3), 57, 648),
        "the biases were counted as products; they are only added.": ((2, 3, 3), 57, 342),
    },
    "conv_cost(4, 5, 2, K=3, k=3)",
)
expect(conv_cost(4, 5, 2, K=3, k=3, bias=False)[1], 54, name="parameters without biases")
### BEGIN HIDDEN TESTS
expect(conv_cost(6, 3, 5, K=4, k=2), ((5, 2, 4), 84, 800), name="another convolution")
### END HIDDEN TESTS

# %% check="conv-of-layers" points=2 see="3.2"
"""Stride, padding and real layers: AlexNet's first, a ResNet's first, a 1 × 1 (2 points)."""
expect(
    conv_cost(7, 9, 4, K=5, k=3, stride=2, padding=1)[0],
    (4, 5, 5),
    {
        "padding goes on both sides of an axis.": (3, 4, 5),
    },
    "the shape with stride 2 and padding 1",
)
# HASHED AUTOTEST conv_cost(227, 227, 3, K=96, k=11, stride=4)
# HASHED AUTOTEST conv_cost(224, 224, 3, K=64, k=7, stride=2, padding=3, bias=False)
### BEGIN HIDDEN TESTS
expect(
    conv_cost(28, 20, 192, K=16, k=1),
    ((28, 20, 16), 193 * 16, 28 * 20 * 192 * 16),
    name="a 1 × 1 convolution",
)
expect(
    conv_cost(10, 6, 3, K=2, k=4, stride=3, padding=2, bias=False),
    ((4, 3, 2), 96, 4 * 3 * 2 * 48),
    name="a filter of even size, stride 3",
)
expect(conv_cost(3, 8, 2, K=1, k=3, padding=2, stride=4), ((2, 3, 1), 19, 108), name="stride 4, one filter")
side, work = 100_003, 50_002 * 50_002 * 1_013 * 25 * 1_009  # more than a float can count
expect(
    conv_cost(side, side, 1_009, K=1_013, k=5, stride=2, padding=2),
    ((50_002, 50_002, 1_013), (25 * 1_009 + 1) * 1_013, work),
    name="a very large layer",
)
### END HIDDEN TESTS

# %% [markdown]
# A network is a list of layers, and your function counts it. Pooling and flattening have no parameters, a
# fully connected layer is a convolution of one pixel.


# %% given="network"
def network_cost(chain, shape):
    """Rows (name, shape of the output, parameters, multiply-adds) of a chain of layers, for one image."""
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

# %% check="lenet" points=1 see="3.1"
"""LeNet-5 for 32 × 32 pixels, the sums over all layers (1 point)."""
rows = network_cost(LENET, (32, 32, 1))
# HASHED AUTOTEST [sum(row[2] for row in rows), sum(row[3] for row in rows)]
assert [row[1] for row in rows][-4] == (5, 5, 16), "the maps before the classifier are 5 × 5 × 16"
### BEGIN HIDDEN TESTS
costs = [row[2:] for row in network_cost([("conv", 3, 3), ("pool", 2, 2), ("dense", 7)], (12, 10, 2))]
expect([list(cost) for cost in costs], [[57, 4_320], [0, 0], [427, 420]], name="the costs of another network")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. What fits into a given memory
#
# A training step holds for each parameter the weight, its gradient and its momentum; and for each image of
# the batch all outputs, for the way back (lecture 03, section 3.4). In float32, a number has 4 bytes.
#
# **Predict**: a network has 1,000 parameters and 50 outputs an image. Bytes for a batch of 10?


# %% solution="training_bytes"
def training_bytes(parameters, outputs, batch, itemsize=4):
    """Bytes of a training step with momentum, as an int, at the least.

    parameters and outputs (for one image) are numbers of numbers; itemsize is the bytes of one.
    """
    ### BEGIN SOLUTION
    needed = itemsize * (3 * parameters + batch * outputs)
    ### END SOLUTION
    return needed


# %%
print(training_bytes(1_000, 50, 10), "bytes")

# %% check="memory-by-hand" points=1 see="3.4"
"""3 · 1,000 numbers and 10 · 50, of 4 bytes each (1 point)."""
expect(
    training_bytes(1_000, 50, 10),
    14_000,
    {
        "the weights alone were counted; each has a gradient and a momentum (lecture 03, 3.4).": 6_000,
        "the momentum is missing (lecture 03, 3.4).": 10_000,
        "the outputs of one image were counted; each image of the batch has its own.": 12_200,
        "the parameters were counted once for each image; all images share them.": 122_000,
        "numbers were counted, not bytes.": 3_500,
    },
    "training_bytes(1_000, 50, 10)",
)
# HASHED AUTOTEST training_bytes(138_357_544, 15_086_568, 32)
### BEGIN HIDDEN TESTS
expect(training_bytes(7, 3, 5, itemsize=2), 72, name="numbers of two bytes")
expect(training_bytes(11, 0, 5, itemsize=8), 264, name="no outputs")
expect(
    training_bytes(10**17 + 3, 10**16 + 1, 7, 1),
    37 * 10**16 + 16,
    name="a network larger than a float can count",
)
### END HIDDEN TESTS

# %% [markdown]
# Now the other way round: the memory is given, the batch is asked for.


# %% solution="largest_batch"
def largest_batch(parameters, outputs, memory, itemsize=4):
    """The largest number of images whose training step fits into `memory` bytes; 0 where not one does."""
    ### BEGIN SOLUTION
    left = memory - 3 * parameters * itemsize
    batch = max(0, left // (outputs * itemsize))
    ### END SOLUTION
    return batch


# %%
print(largest_batch(1_000, 50, 14_000), largest_batch(1_000, 50, 13_999))

# %% check="memory-fits" points=2 see="3.4"
"""The batch that just fits, one byte less, and a network that does not fit at all (2 points)."""
for memory, images in [(14_000, 10), (13_999, 9), (12_199, 0), (12_200, 1), (5_000, 0)]:
    found = largest_batch(1_000, 50, memory)
    assert found == images, (
        f"with {memory} bytes {found} images were found, not {images}. 12,000 bytes are fixed, an image "
        "takes 200: a part of an image does not fit, and there are no fewer than 0 images (lecture 03, 3.4)"
    )
### BEGIN HIDDEN TESTS
for parameters, outputs, itemsize in [(7, 3, 4), (11_689_512, 4_766_184, 4), (500, 1, 2), (3, 10**16 + 1, 2)]:
    for batch in (1, 6, 31):
        memory = itemsize * (3 * parameters + batch * outputs)
        found = [largest_batch(parameters, outputs, memory + d, itemsize) for d in (-1, 0, 1)]
        assert found == [batch - 1, batch, batch], f"{found} images fit, not {[batch - 1, batch, batch]}"
### END HIDDEN TESTS

# %% [markdown]
# ## 3. How deep must a network be to see far enough?
#
# The receptive field of an output is the number of input pixels, along one side, that it depends on. Lecture
# 03 computes it (section 3.3); here is its function. You ask the other way round: how many layers of 3 × 3
# does it take until an output sees a given number of pixels? The layers number `every`, 2 · `every`, … have
# stride 2, the others stride 1; `every=0` means that none has stride 2.
#
# **Predict** for 224 pixels: how many layers without strides? And when every second layer has stride 2?


# %% given="field-of-a-chain"
def receptive_field(chain):
    """chain [(k, stride), …] from the input on -> pixels of the input that an output sees, along a side."""
    field, distance = 1, 1
    for k, stride in chain:
        field += (k - 1) * distance
        distance *= stride
    return field


# %% solution="layers_to_see"
def layers_to_see(pixels, every=0):
    """The smallest number of 3 × 3 layers, an int, until an output sees at least `pixels` ≥ 1 along a side.

    The layers number every, 2 · every, 3 · every, … have stride 2 (counted from 1), the others stride 1.
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
"""Without strides, then with stride 2 in every second layer, and with every layer of stride 2 (2 points)."""
asked = [(5, 0), (6, 0), (9, 2), (10, 2), (15, 1)]
expect(
    [layers_to_see(*case) for case in asked],
    [2, 3, 3, 4, 3],
    {
        "the strides were left out: after one of 2, neighbours are 2 pixels apart (3.3).": [2, 3, 4, 5, 7],
        "a layer's own stride was used for it, or came a layer too early (3.3).": [2, 3, 3, 3, 3],
        "a number that is reached exactly is enough; one layer more was taken.": [3, 3, 4, 4, 4],
        "a field of n layers is 1 + 2n, not 3n: neighbouring windows overlap (3.3).": [2, 2, 3, 4, 5],
    },
    "the layers for (pixels, every) = (5, 0), (6, 0), (9, 2), (10, 2) and (15, 1)",
)
# HASHED AUTOTEST [layers_to_see(224), layers_to_see(224, every=2)]
### BEGIN HIDDEN TESTS
expect(layers_to_see(1), 0, name="layers to see one pixel")
expect(layers_to_see(100, every=3), 13, name="layers to see 100 pixels, stride 2 in every third")
expect([layers_to_see(29, 2), layers_to_see(30, 2)], [6, 7], name="layers to see 29 and 30 pixels")
expect([layers_to_see(999), layers_to_see(1000)], [499, 500], name="layers to see 999 and 1,000 pixels")
side = 2**56  # 55 layers of stride 2 see one pixel less, which no logarithm of floats tells
expect([layers_to_see(side - 1, 1), layers_to_see(side, 1)], [55, 56], name="layers for a very large field")
for every in range(6):
    seen = [
        receptive_field([(3, 2 if every and i % every == 0 else 1) for i in range(1, n + 1)])
        for n in range(40)
    ]
    for pixels in [*range(1, 36), 1_000]:
        if pixels <= seen[-1]:
            fewest = next(n for n, field in enumerate(seen) if field >= pixels)
            expect(layers_to_see(pixels, every), fewest, name=f"layers_to_see({pixels}, {every})")
### END HIDDEN TESTS

# %% [markdown]
# ## 4. What a 1 × 1 reduction saves
#
# GoogLeNet puts a 1 × 1 convolution with r filters before its K filters of k × k (lecture 03, section 3.5).
# At each pixel, the direct way costs k·k·C·K multiply-adds. And the detour? **Predict** for C = 192, K = 32,
# k = 5: up to how many r does the detour *save*?


# %% solution="reduced_cost"
def reduced_cost(C, K, k, r):
    """Multiply-adds for each pixel, as an int: a 1 × 1 convolution from C to r, then k × k from r to K."""
    ### BEGIN SOLUTION
    multiply_adds = C * r + k * k * r * K
    ### END SOLUTION
    return multiply_adds


# %% solution="break_even"
def break_even(C, K, k):
    """The largest r for which the detour costs less than the direct convolution, as an int; 0 if none."""
    ### BEGIN SOLUTION
    direct, each = k * k * C * K, C + k * k * K
    r = (direct - 1) // each
    ### END SOLUTION
    return r


# %%
print(
    reduced_cost(192, 32, 5, 16), "instead of", 25 * 192 * 32, "; it saves up to r =", break_even(192, 32, 5)
)

# %% check="reduction-cost" points=1 see="3.5"
"""4 channels to 2, then 3 × 3 to 5 maps: 4·2 + 9·2·5 (1 point)."""
expect(
    reduced_cost(4, 5, 3, 2),
    98,
    {
        "the 1 × 1 convolution itself is missing; it has C·r weights (lecture 03, 3.5).": 90,
        "the k × k filters still see all C channels; after the reduction there are r (3.5).": 188,
        "the reduction sees C channels and not K.": 100,
    },
    "reduced_cost(4, 5, 3, 2)",
)
# HASHED AUTOTEST reduced_cost(192, 32, 5, 16)
### BEGIN HIDDEN TESTS
expect(reduced_cost(7, 3, 2, 11), 7 * 11 + 4 * 11 * 3, name="reduced_cost(7, 3, 2, 11)")
expect(reduced_cost(5, 8, 1, 3), 15 + 24, name="reduced_cost(5, 8, 1, 3)")
size = 10**9 + 7
expect(reduced_cost(size, size, 7, 10**8 + 1), 50 * size * (10**8 + 1), name="a very large reduction")
### END HIDDEN TESTS

# %% check="break-even" points=1 see="3.5"
"""The largest r that still saves: one more, and it saves no longer (1 point)."""
for C, K, k in [(192, 32, 5), (4, 5, 3), (256, 256, 3), (4, 2, 2), (64, 64, 1), (1, 1, 1)]:
    r, direct = break_even(C, K, k), k * k * C * K
    most = [r for r in range(direct + 1) if C * r + k * k * r * K < direct][-1]
    assert r == most, (
        f"C={C}, K={K}, k={k}: r={r} was found, but {most} is the largest r for which C·r + k·k·r·K is "
        f"*less* than {direct}. Equal cost is no saving (lecture 03, 3.5)."
    )
### BEGIN HIDDEN TESTS
expect([break_even(C, 2, 2) for C in (1, 8, 24, 100)], [0, 3, 5, 7], name="break_even with K=2, k=2")
expect([break_even(9, K, 5) for K in (1, 2, 36)], [6, 7, 8], name="break_even with C=9, k=5")
# One multiply-add more than 999,999 times that of one r: 999,999 just save, which no quotient of floats sees.
expect(break_even(10**12 - 10**6 + 1, 10**6, 1), 999_999, name="break_even of a very large layer")
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A batch normalisation that disappears
#
# When a network is *used*, a batch normalisation is nothing but a multiplication and an addition for each
# channel (lecture 03, section 3.7): it subtracts the moving mean μ, divides by the root of the moving
# variance σ² + ε, scales by γ and shifts by β. The convolution before it multiplies and adds, too. So the
# two can be *one* convolution, with another kernel and another bias:
#
# $$\gamma\,\frac{(w * x + b) - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta \;=\; w' * x + b'$$


# %% solution="fold"
def fold(w, b, gamma, beta, mean, variance, epsilon=1e-3):
    """Kernel and bias of the one convolution that does the work of a convolution and its normalisation.

    w (k, k, C, K); b, gamma, beta, mean and variance (K,). Returns w' (k, k, C, K) and b' (K,).
    """
    assert b.shape == gamma.shape == beta.shape == mean.shape == variance.shape == w.shape[-1:]
    ### BEGIN SOLUTION
    scale = gamma / np.sqrt(variance + epsilon)
    folded_w = w * scale
    folded_b = (b - mean) * scale + beta
    ### END SOLUTION
    assert folded_w.shape == w.shape and folded_b.shape == b.shape
    return folded_w, folded_b


# %% [markdown]
# By hand: one weight 2, bias 1, γ = 3, β = 10, μ = 5, σ² = 4, and ε = 0. What are w' and b'?

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
        "the bias of the convolution was left as it is; it is normalised, too (lecture 03, 3.7).": [3.0, 3.5],
        "the bias was scaled, but the mean was not subtracted.": [3.0, 11.5],
        "the mean was subtracted without being scaled.": [3.0, 6.5],
        "it is divided by the variance; the standard deviation is its root (lecture 03, 3.7).": [1.5, 7.0],
        "γ is missing.": [1.0, 8.0],
        "β is missing.": [3.0, -6.0],
    },
    "the folded weight and bias",
)
### BEGIN HIDDEN TESTS
other = [np.array([number]) for number in (2.0, -4.0, 1.0, 5.0, 16.0)]
w, b = fold(np.array([[[[6.0]]]]), *other, epsilon=0.0)
expect([float(np.ravel(w)[0]), float(b[0])], [-6.0, 4.0], name="another folded weight and bias")
### END HIDDEN TESTS

# %% check="fold-in-a-layer" points=1 see="3.7"
"""On random maps the one convolution gives what convolution and normalisation gave (1 point)."""
for k, C, K, epsilon in [(1, 3, 4, 1e-3), (3, 2, 5, 1e-3), (3, 4, 4, 0.5)]:
    w, x = rng.normal(size=(k, k, C, K)), rng.normal(size=(20, k, k, C))  # 20 windows
    b, gamma, beta, mean = rng.normal(size=(4, K))
    variance = rng.uniform(0.01, 2, K)
    with unchanged(w=w, b=b, gamma=gamma, beta=beta, mean=mean, variance=variance):
        folded_w, folded_b = fold(w, b, gamma, beta, mean, variance, epsilon)
    before = np.tensordot(x, w, 3) + b  # (20, K): each window meets each filter
    after = gamma * (before - mean) / np.sqrt(variance + epsilon) + beta
    expect(np.tensordot(x, folded_w, 3) + folded_b, after, name=f"20 outputs with k={k}, C={C}, K={K}")
### BEGIN HIDDEN TESTS
w, x = rng.normal(size=(3, 3, 2, 3)), rng.normal(size=(20, 3, 3, 2))
b, gamma, beta, mean = rng.normal(size=(4, 3)) + np.array([[2.0**26], [0], [0], [2.0**26]])
variance = np.array([0.0, 1e-6, 3.0])  # the first of a channel that never changes
folded_w, folded_b = fold(w, b, gamma, beta, mean, variance)
after = gamma * (np.tensordot(x, w, 3) + (b - mean)) / np.sqrt(variance + 1e-3) + beta
expect(np.tensordot(x, folded_w, 3) + folded_b, after, name="20 outputs far from 0, before the normalisation")
### END HIDDEN TESTS

# %% [markdown]
# ## 6. A residual block
#
# y = ReLU(x + F(x)) (lecture 03, section 3.8). F is convolution 3 × 3, batch normalisation, ReLU,
# convolution 3 × 3, batch normalisation; the convolutions have no biases, and the first has the stride. The
# way around F (the shortcut, or skip connection) is the **identity** where shapes agree. Only where they do
# not, it is a 1 × 1 convolution with that stride and without bias, and a batch normalisation.
#
# Two tools are given. `conv` makes one such convolution, with the padding that all have here, and its
# normalisation.


# %% given="conv"
def conv(x, maps, k, stride=1):
    """x (N, H, W, C) -> (N, H / stride, W / stride, maps): convolution without bias, batch normalisation."""
    x = layers.Conv2D(maps, k, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


# %% solution="residual_block"
def residual_block(x, maps, stride=1):
    """x (N, H, W, C) -> (N, H / stride, W / stride, maps), Keras tensors; see above."""
    ### BEGIN SOLUTION
    F = layers.ReLU()(conv(x, maps, 3, stride))
    F = conv(F, maps, 3)
    shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
    y = layers.ReLU()(layers.Add()([shortcut, F]))
    ### END SOLUTION
    return y


# %% [markdown]
# And `try_block` builds a block, gives each convolution the same simple filters, each normalisation the same
# β (and γ so that it changes nothing else), and sends the numbers −2, −1, 0, 1, 2 through it. `kernel=0`
# makes all convolutions zero; `kernel=-1` makes each give back its input with the opposite sign.
#
# `fill` gives a network weights that depend on nothing but their kind, their shape and a seed. Two networks
# of the same layers then compute the same, in whatever order they were built: so `outputs` can be compared.


# %% given="try-block"
def try_block(kernel, beta, C=1, maps=1, stride=1):
    """Outputs of a block for maps filled with −2 … 2, its output's shape and its number of parameters."""
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
    """Set each weight of a network by its kind, its shape and the seed alone."""
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
    """What a network, filled with weights, computes for three random images, as an array."""
    fill(model, seed)
    x = np.random.default_rng(seed).normal(0, 10, (3, *model.input.shape[1:])).astype(np.float32)
    return np.asarray(model(x, training=training))


def block_outputs(C, maps, stride, seed=0, training=False):
    """Outputs of a residual block for maps of 6 × 8 pixels."""
    image = keras.Input((6, 8, C))
    return outputs(keras.Model(image, residual_block(image, maps, stride)), seed, training)


# %%
print(try_block(kernel=0, beta=0))

# %% check="block-identity" points=1 see="3.8"
"""Where F is zero, the block does nothing but its last ReLU; its way around has no parameters (1 point)."""
found, none = try_block(kernel=0, beta=0), [0.0] * 5
expect(
    found["outputs"],
    [0.0, 0.0, 0.0, 1.0, 2.0],
    {
        "nothing of x arrives: there is no way around F, or it is a convolution (lecture 03, 3.8).": none,
        "the last ReLU is missing.": [-2.0, -1.0, 0.0, 1.0, 2.0],
        "x arrives twice.": [0.0, 0.0, 0.0, 2.0, 4.0],
    },
    "the outputs for −2 … 2 with all filters zero",
)
expect(
    try_block(kernel=0, beta=0, C=6, maps=6)["parameters"],
    2 * 9 * 36 + 4 * 6,
    {
        "the way around is a 1 × 1 convolution although the shapes agree (lecture 03, 3.8).": 720,
        "there is one convolution with its normalisation in F, not two.": 336,
    },
    "the parameters of a block from 6 to 6 maps",
)
### BEGIN HIDDEN TESTS
expect(try_block(0, 0, C=3, maps=3)["outputs"], [0.0, 0.0, 0.0, 1.0, 2.0], name="3 to 3 maps, filters zero")
### END HIDDEN TESTS

# %% check="block-order" points=1 see="3.8"
"""x is added before the last ReLU, and there is a ReLU inside F (1 point)."""
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
        "F goes through the last ReLU before x is added; add first (lecture 03, 3.8).": [
            -2.0,
            -1.0,
            0.0,
            1.0,
            2.0,
        ],
        "F goes through a ReLU of its own before x is added (lecture 03, 3.8).": [0.0, 0.0, 0.0, 1.0, 2.0],
    },
    "the outputs with F = −1",
)
expect(
    try_block(kernel=-1, beta=0)["outputs"],
    [0.0, 0.0, 0.0, 1.0, 2.0],
    {"there is no ReLU between the two convolutions of F.": [0.0, 0.0, 0.0, 2.0, 4.0]},
    "the outputs with filters that turn the sign",
)
### BEGIN HIDDEN TESTS
# AUTOTEST close(block_outputs(4, 4, 1, seed=1), rtol=1e-3)
### END HIDDEN TESTS

# %% check="block-changes-shape" points=1 see="3.8"
"""From 6 to 10 maps with stride 2, which stands on the first convolution of F and on the way around; and, not
shown, where only maps or only pixels change (1 point)."""
found = try_block(kernel=0, beta=0, C=6, maps=10, stride=2)
expect(found["shape"], [2, 2, 10], name="the shape of the output")
expect(
    found["parameters"],
    9 * 60 + 9 * 100 + 60 + 6 * 10,
    {
        "the way around has no normalisation.": 9 * 60 + 9 * 100 + 60 + 4 * 10,
        "the way around has a bias.": 9 * 60 + 9 * 100 + 60 + 7 * 10,
        "the way around is a 3 × 3 convolution; 1 × 1 is enough to change a shape.": 2_040,
    },
    "the parameters of a block from 6 to 10 maps",
)
# AUTOTEST close(block_outputs(2, 3, 2), rtol=1e-3)
### BEGIN HIDDEN TESTS
expect(try_block(0, 0, C=6, maps=6, stride=2)["parameters"], 2 * 9 * 36 + 36 + 6 * 6, name="6 to 6, stride 2")
expect(try_block(0, 0, C=2, maps=6)["parameters"], 9 * 12 + 9 * 36 + 12 + 6 * 6, name="2 to 6, stride 1")
expect(try_block(1, 0, C=1, maps=2)["outputs"], [0.0, 0.0, 0.0, 3.0, 6.0], name="1 to 2 maps, filters of 1")
# AUTOTEST close(block_outputs(3, 3, 2, seed=1), rtol=1e-3)
# AUTOTEST close(block_outputs(3, 5, 1, seed=2), rtol=1e-3)
# AUTOTEST close(block_outputs(5, 2, 2, seed=3, training=True), rtol=1e-3)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. A ResNet from its specification
#
# A network of 6n + 2 layers, for pictures of 28 × 28 pixels:
#
# 1. `conv` 3 × 3 to f maps, and ReLU;
# 2. three stages of n residual blocks each, with f, 2f and 4f maps; the first block of the second and of the
#    third stage has stride 2;
# 3. global average pooling, and a fully connected layer to 10 classes, with biases and without softmax.


# %% solution="resnet"
def resnet(n, f):
    """A keras.Model for (N, 28, 28, 1) with 6n + 2 layers, built from conv and residual_block; see above."""
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
    """Trainable parameters, number of 3 × 3 convolutions, and of classes."""
    model = resnet(n, f)
    kernels = [weight.shape for weight in model.weights if weight.name == "kernel"]
    return {
        "parameters": int(sum(math.prod(v.shape) for v in model.trainable_variables)),
        "3 × 3 convolutions": sum(shape[:2] == (3, 3) and len(shape) == 4 for shape in kernels),
        "classes": int(model.output.shape[-1]),
    }


def resnet_outputs(n, f, seed=0, training=False):
    """Outputs of your network for three random images."""
    return outputs(resnet(n, f), seed, training)


# %%
print(describe_resnet(1, 16))

# %% check="resnet-specification" points=1 see="3.8"
"""n = 1, f = 16 has 77,754 parameters; a deeper, narrower one, not shown, by the same rule (1 point)."""
expect(
    describe_resnet(1, 16),
    {"parameters": 77_754, "3 × 3 convolutions": 7, "classes": 10},
    name="describe_resnet(1, 16)",
)
### BEGIN HIDDEN TESTS
expect(
    describe_resnet(2, 4),
    {
        "parameters": 44 + 608 + 2_128 + 8_352 + 170,  # first layer, three stages, classifier
        "3 × 3 convolutions": 13,
        "classes": 10,
    },
    name="describe_resnet(2, 4)",
)
expect(describe_resnet(3, 1)["3 × 3 convolutions"], 19, name="the 3 × 3 convolutions with n = 3")
### END HIDDEN TESTS

# %% check="resnet-outputs" points=1 see="3.8"
"""It computes what the specification says: every ReLU, every stride, the pooling, no softmax (1 point)."""
# AUTOTEST close(resnet_outputs(1, 4), rtol=1e-3)
### BEGIN HIDDEN TESTS
# AUTOTEST close(resnet_outputs(2, 3, seed=1), rtol=1e-3)
# AUTOTEST close(resnet_outputs(1, 2, seed=2, training=True), rtol=1e-3)
### END HIDDEN TESTS

# %% [markdown]
# ## What did it buy?
#
# With your own counter: parameters against multiply-adds of AlexNet's layers (whole, without groups). Which
# of the eight points would you take out to make the network *smaller*, and which to make it *faster*?

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
axes.set(xlabel="parameters", ylabel="multiply-adds an image", title="AlexNet, layer by layer")
plt.show()

# %% [markdown]
# *Parameters against multiply-adds of AlexNet's eight layers, both logarithmic. The five convolutions (round)
# lie at the upper left, with few parameters and much work; the three fully connected layers (square) at the
# lower right, on the dotted line where multiply-adds equal parameters. A convolution is named by its maps,
# the side of its filters, its stride and its padding.*
#
# ### In your own words (2 points, read by a person)
#
# One engineer wants AlexNet *smaller* on disk, another wants it *faster*; each may halve the maps (or
# outputs) of one layer. **Which layer should each take, and why is it not the same one? Explain in about
# three sentences**, with numbers from the table above: say what a layer's work has to do with its
# parameters.

# %% [markdown] explain="smaller-or-faster" points=2
# ### BEGIN SOLUTION
# **Rubric.** One point for the two layers, each with a number; one for the reason. Half a point each for
# one layer, or a layer without its number, or a reason that names the difference but not where it comes
# from. Halving a layer also halves the inputs of the next one: who counts that may choose a neighbour, with
# numbers.
#
# - *Layers*: smaller: the first fully connected one, 37.8 of 62.4 million parameters. Faster: the second
#   convolution (256 maps of 5 × 5), 448 of 1,135 million multiply-adds.
# - *Reason*: a filter is used at each place of its output (the second convolution at 27 · 27 = 729), a weight
#   of a fully connected layer once. So work is parameters times places: convolutions hold few parameters and
#   do the work, fully connected layers hold the parameters and do little.
#
# **Two points.** "For the disk I halve the first dense layer, which has 37.8 million of the 62.4 million
# parameters. For speed I halve the second convolution, which does 448 million multiply-adds, 40% of all, with
# 0.6 million parameters. It can, because each of its weights is used at all 729 places and a dense weight
# once."
#
# **One point.** "The dense layers are large and the convolutions slow, since filters are shared by all
# places." (The reason; no layer, no number.)
#
# **No point.** "The layer with the most parameters, for both: fewer parameters mean less work."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - Shapes alone give parameters and multiply-adds to the last number, and of the memory the least.
# - Parameters cost memory once, outputs cost it for every image.
# - A field grows by k − 1 steps a layer, and a stride makes all later steps longer.
# - A batch normalisation costs nothing once it is folded.
# - A residual block that computes nothing does no harm: so a deeper network need not be worse than a
#   shallower one.
#
# ## Questions to take with you
#
# 1. Your counter knows no bandwidth. Which of AlexNet's layers would take longer than its multiply-adds say?
# 2. Recomputing outputs on the way back saves memory and costs work. Which outputs would you drop first?
# 3. Why can the normalisation not be folded while the network is *trained*?
