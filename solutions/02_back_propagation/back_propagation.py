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
# # Assignment 02: back-propagation and SGD
#
# A network learns because each parameter moves in a direction that lowers the loss.
# Back-propagation computes these directions, layer by layer, starting with the last
# layer. Even if one of them is wrong, the loss often falls. **How do you make a network
# learn, and how do you know that its gradients are right?**
#
# In this assignment you
#
# - build a gradient checker that finds wrong gradients and reports when it cannot
#   decide,
# - write the forward and backward pass of three layers: dense, ReLU, and softmax with
#   cross-entropy,
# - propagate the gradient through a network of three layers, one of them a convolution,
# - build SGD with momentum from its four steps: sample, forward, backward, update,
# - train to a given accuracy in a given number of updates, and measure what wrong
#   gradients cost.
#
# The background is lecture 02. Its network has two dense layers and is written as one
# function; here each layer is a separate function.
#
# What you submit:
#
# - *Blanks*: 11 cells marked `YOUR CODE HERE`, most of them one to five lines, and one
#   written answer.
# - *Points*: 25, namely 5 for the gradient checker, 7 for the layers, 3 for the network,
#   7 for SGD, 1 for the recipe and 2 for the written answer.
# - *Graded automatically*: 23 points, in 20 checks. All have hidden tests, mostly with
#   inputs that are drawn for each submission.
# - *Graded manually*: 2 points, for the written answer in section 9.
# - *Time*: 4 to 6 hours. Section 1 takes 1.5 to 2 hours, sections 2 to 4 together 1 to
#   1.5, section 5 about 0.5 to 1, sections 6 to 8 together 1, and section 9 half an
#   hour. This is the authors' plan for someone who has read lecture 02; no student's
#   time was measured.
#
# A *check* is a cell of autograder tests. Fill in a blank, run the example below it,
# then its checks. A failed check states what it found. Everything is written in NumPy.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | N | images in a batch | C1, C2 | inputs and outputs of a dense layer |
# | H, W, C | height, width, channels | K, k | number of filters, each k × k |
# | L | loss | dy | ∂L/∂y, an array of the shape of y |
# | η | learning rate | m | momentum |
#
# Two rules apply to all your functions:
#
# - *They keep the dtype of their arguments.* If all arrays are float32, so are all
#   results, including the loss, and no intermediate result has a lower precision. The
#   visible tests check the dtype of each result; the hidden tests also detect a lower
#   precision.
# - *They leave their arguments unchanged*, including the shapes of arrays and the
#   entries of dictionaries.

# %% given="setup"
import contextlib

import matplotlib.pyplot as plt
import numpy as np

from cluster.checks import expect, fresh_rng, unchanged, watched
from cluster.training import data

plt.style.use("cluster.course")
rng = np.random.default_rng(2)
UPDATES, BATCH, TARGET = 200, 32, 0.70  # the accuracy to reach with 200 updates


def integers(*shape, rng=rng):
    """Return random integers from -4 to 4, as float64: their sums are exact."""
    return rng.integers(-4, 5, shape).astype(np.float64)


def expect_near(got, want, hints, name, share=1e-6):
    """Compare `got` with derivatives computed from small steps.

    Each value may differ by `share` of the largest one. hints is {explanation: the
    values that this mistake leads to}.
    """

    def wrong_values(values):
        return ~(np.abs(got - values) <= share * np.abs(values).max())

    got = np.asarray(got)
    assert got.shape == want.shape, (
        f"{name} has shape {got.shape}; it should have shape {want.shape}"
    )
    if (wrong := wrong_values(want)).any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        fitting = [
            words for words, values in hints.items() if not wrong_values(values).any()
        ]
        raise AssertionError(
            f"{name} has {wrong.sum()} of {want.size} values wrong, the first at "
            f"{list(first)}: it is {got[first]:.6g}, but small steps give another value."
            + "".join(f" Likely: {words}" for words in fitting[:1])
        )


# %% [markdown]
# ## 1. A gradient checker
#
# Between two points near x, the slope of the loss should agree with the gradient.
# Lecture 02 compares one slope, along a random direction; your checker compares one per
# entry and side, so that it detects an error in any single entry. How near should the
# points be? A slope computed with a step h has two sources of error:
#
# - The loss is curved. This error grows with h.
# - The loss is rounded. Its rounding error is about ε·|L|, where ε is the spacing of
#   floating-point numbers near 1 in the precision of the loss. In the slope this
#   becomes about ε·|L|/h, which grows as h gets *smaller*.
#
# A gradient checker gets a *tolerance*, the largest acceptable error. The tolerance
# determines the step: **rounding may use up a tenth of the tolerance**, so h =
# 10·ε·max(1, |L|) / tolerance. Three details decide whether the verdict can be trusted:
#
# - *Kinks.* ReLU has a kink at 0. A step across a kink mixes two slopes, so take steps
#   no longer than necessary. Exactly on the kink, the slopes on the left and on the
#   right differ, however short the steps are. Any value between these two slopes is a
#   valid gradient, so compute both.
# - *The step actually taken.* x + h is rounded, too: float32 numbers near 200 are
#   0.000015 apart. Take a step of at least 100 such spacings, and divide by the step
#   actually taken. `np.spacing(x)` returns the spacing with the sign of x, so use its
#   absolute value.
# - *The limit.* If h exceeds `largest`, the loss may curve too much within the step, so
#   no verdict is possible. The checker must then return "undecided", even if an entry
#   of the gradient is NaN. Only h is limited: near a large x, a step of 100 spacings
#   may be longer than `largest`.
#
# Even so, the verdict is uncertain for an error that nearly equals the tolerance. The
# checks use errors of at most 0.7 or at least 1.4 times the tolerance. The visible
# tests detect a step that is ten times too long or too short, but their arrays are
# small. Only the hidden tests detect a checker that skips entries of a larger array.
#
# **Predict.** A loss of 2.3 is computed in float32, and h may not exceed 0.01. What is
# the smallest tolerance for which the checker still reaches a verdict? And what is the
# smallest tolerance in float64? Enter your predictions; they are not graded.

# %%
predicted_float32 = None
predicted_float64 = None


# %% solution="check_gradient"
def check_gradient(loss, x, gradient, tolerance, largest=0.01):
    """Return whether an array is the gradient of a loss.

    The verdict is "right", "wrong" or "undecided".

    loss       a function of one array like x that returns a number; the dtype of this
               number, float32 or float64, is the precision in which it was computed
               and may differ from the dtype of x. A Python float has no attribute
               dtype, but np.asarray(number).dtype is float64. A loss may round x to
               float32; you need not allow for this, because float32 numbers near x are
               then at most h/100 apart
    x          an array of floats, of any shape
    gradient   the array to check, of the same shape as x
    tolerance  "right" if every entry is within this distance of the derivative (on a
               kink: of the nearest value between the slopes on its left and right);
               "wrong" if an entry is further away, or is NaN
    largest    the largest h allowed; "undecided" if h is larger, whatever the gradient
               contains. A step of 100 spacings may be longer
    """
    assert gradient.shape == x.shape, (
        f"gradient has shape {gradient.shape}; it should have the shape of x, {x.shape}"
    )
    ### BEGIN SOLUTION
    here = loss(x)
    epsilon = np.finfo(np.asarray(here).dtype).eps
    step = 10 * float(epsilon) * max(1, abs(float(here))) / tolerance
    verdict = "undecided" if step > largest else "right"
    for place in np.ndindex(x.shape) if verdict == "right" else ():
        slopes = []
        for sign in (-1, 1):
            moved = x.copy()
            moved[place] += sign * max(step, 100 * abs(float(np.spacing(x[place]))))
            taken = float(moved[place]) - float(x[place])
            slopes.append((float(loss(moved)) - float(here)) / taken)
        if not min(slopes) - tolerance <= gradient[place] <= max(slopes) + tolerance:
            verdict = "wrong"
            break
    ### END SOLUTION
    assert verdict in ("right", "wrong", "undecided"), (
        f"the verdict is {verdict!r}; it should be 'right', 'wrong' or 'undecided'"
    )
    return verdict


# %% [markdown]
# Try it on a sum of sines, whose gradient consists of the cosines. Each line shows the
# verdicts on a right gradient and on one that is off by five tolerances. Which of the
# four lines should report "undecided"?


# %% given="waves"
def waves(x):
    """Return a curved loss: 5 plus the sum of the sines of all entries."""
    return 5 + np.sum(np.sin(x))


def waves_in_float32(x):
    """Return the same loss, computed in float32."""
    return np.float32(5) + np.sum(np.sin(x.astype(np.float32)))


# %%
angles = np.array([[0.3, 1.2, -0.7], [2.1, -1.9, 0.4]])
for tolerance in (1e-2, 1e-6):
    for loss in (waves, waves_in_float32):
        right = check_gradient(loss, angles, np.cos(angles), tolerance)
        wrong = check_gradient(loss, angles, np.cos(angles) + 5 * tolerance, tolerance)
        print(
            f"tolerance {tolerance:g}, {loss.__name__:16}: "
            f"right gradient {right}, wrong {wrong}"
        )

# %% [markdown]
# Look at the last line: in float32, a tolerance of 10⁻⁶ would need a step of about 7.

# %% check="checker-catches" points=2 see="2.3"
"""Errors above the tolerance are detected; smaller ones are accepted (2 points).

The hidden tests use other shapes, a larger array, and errors in any single entry,
including infinite ones.
"""
angles = np.array([[0.3, 1.2, -0.7], [2.1, -1.9, 0.4], [0.9, -0.2, 1.6]])
right = np.cos(angles)
entry = np.zeros((3, 3))
entry[2, 2] = 1
gradients = {
    "the right gradient": (right, "right"),
    "one entry off by 0.7 tolerances": (right + 0.7e-6 * entry, "right"),
    "all entries off by 0.7 tolerances": (right - 0.7e-6, "right"),
    "the opposite sign": (-right, "wrong"),
    "divided by the number of entries": (right / 9, "wrong"),
    "the transpose": (right.T, "wrong"),
    "zeros": (0 * right, "wrong"),
    "one entry off by 0.01": (right + 1e-2 * entry, "wrong"),
    "one entry off by 1.4 tolerances": (right + 1.4e-6 * entry, "wrong"),
    "errors with the sum 0": (right + 1e-2 * (entry - entry[::-1]), "wrong"),
    "one entry NaN": (np.where(entry == 1, np.nan, right), "wrong"),
}
for what, (gradient, want) in gradients.items():
    with unchanged(angles=angles, gradient=gradient):
        verdict = check_gradient(waves, angles, gradient, 1e-6)
    assert verdict == want, (
        f"{what}: the verdict is {verdict!r}; it should be {want!r} "
        "(sum of sines, tolerance 1e-6)"
    )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(1)
# Not detected: a sample of more than nine tenths of the entries, occasionally; and
# errors with views that are not contiguous, since the autograder passes copies.
for shape in [(5,), (2, 1, 7), (6, 5)]:
    x = fresh.uniform(-1, 1, shape)
    scale = fresh.uniform(1, 2, shape)

    def loss(x, scale=scale):
        return 50 + np.sum(scale * np.sin(x))

    right = scale * np.cos(x)
    assert check_gradient(loss, x, right, 1e-6) == "right", (
        f'a right gradient of shape {shape}: the verdict is not "right"'
    )
    places = [
        tuple(0 for _ in shape),
        tuple(n - 1 for n in shape),
        tuple(n // 2 for n in shape),
    ]
    for place in places:
        for error in (1.4e-6, -1.4e-6, 1.0, np.inf, -np.inf, np.nan):
            gradient = right.copy()
            gradient[place] += error
            verdict = check_gradient(loss, x, gradient, 1e-6)
            assert verdict == "wrong", (
                f"an error of {error} at {place} of an array of shape {shape}: the "
                f"verdict is {verdict!r}"
            )
        for error in (0.7e-6, -0.7e-6):
            gradient = right.copy()
            gradient[place] += error
            verdict = check_gradient(loss, x, gradient, 1e-6)
            assert verdict == "right", (
                f"an error of {error} at {place} of an array of shape {shape}: the "
                f"verdict is {verdict!r}"
            )
x, scale = (
    fresh.uniform(-1, 1, (12, 17)),
    fresh.uniform(1, 2, (12, 17)),
)  # one error of 204 entries


def loss_of_many(x):
    return 50 + np.sum(scale * np.sin(x))


right = scale * np.cos(x)
assert check_gradient(loss_of_many, x, right + 0.7e-6, 1e-6) == "right", (
    "all 204 entries are off by 0.7 tolerances, so the gradient is right"
)
for place in zip(fresh.permutation(12)[:5], fresh.permutation(17)[:5], strict=True):
    gradient = right.copy()
    gradient[place] -= 1.4e-6
    verdict = check_gradient(loss_of_many, x, gradient, 1e-6)
    assert verdict == "wrong", (
        f"one entry of 204, at {place}, is off by 1.4 tolerances: {verdict!r}"
    )
### END HIDDEN TESTS

# %% check="checker-passes" points=1 see="2.3"
"""The step suits steep and large losses, and x of any size and sign (1 point).

The hidden tests use other losses, and float32 numbers far from 0.
Follow the details in the text: |L| and the spacing at each single entry determine the
step, and the slope is divided by the step actually taken.
"""
steep = np.array([0.002, -0.001, 0.0005])
far = np.array([2.0e4, -3.0e4, 1.23e4])
mixed, steepness = np.array([0.3, 1.0e12, -0.2]), np.array([100, 1.0, 100])
many, pair = np.linspace(-1, 1, 40), np.array([0.3, 0.5])


def steep_loss(x):
    """Return a steep and curved loss: the sum of the sines of 1000 x."""
    return np.sum(np.sin(1000 * x))


def far_loss(x):
    """Return 1 plus the sum of the sines of 10 (x - far), for numbers far from 0."""
    return 1 + np.sum(np.sin(10 * (x - far)))


def mixed_loss(x):
    """Return a loss that is flat in the large entry and steep in the two small ones."""
    return 1 + np.sum(np.sin(steepness * (x - mixed)))


def rounding_loss(x):
    """Return 1 plus the sum of the sines of 10 x - 10 far; the product 10 x is rounded."""
    return 1 + np.sum(np.sin(10 * x - 10 * far))


def negative_loss(x):
    """Return the sum of the sines of x, minus 130."""
    return np.sum(np.sin(x)) - 130


def zero_loss(x):
    """Return the difference of two sums that are equal at `pair`."""
    return np.sum(np.sin(x)) - np.sum(np.sin(pair))


for loss, x, slope, tolerance, suitable in [
    (steep_loss, steep, 1000 * np.cos(1000 * steep), 1e-3, [2e-12] * 3),
    (far_loss, far, np.full(3, 10.0), 1e-2, [4e-10, 4e-10, 2e-10]),
    (far_loss, far, np.full(3, 10.0), 5e-6, [4.4e-10] * 3),
    (mixed_loss, mixed, steepness, 1e-2, [2e-13, 1e-2, 2e-13]),
    (rounding_loss, far, np.full(3, 10.0), 1.0, [4e-10, 4e-10, 2e-10]),
    (negative_loss, many, np.cos(many), 1e-6, [3e-7] * 40),
    (zero_loss, pair, np.cos(pair), 1e-6, [2e-9] * 2),
]:
    for error, want in [(0, "right"), (0.7, "right"), (1.4, "wrong"), (20, "wrong")]:
        taken = np.zeros(x.shape)

        def recorded(moved, loss=loss, x=x, taken=taken):
            """Return the loss, and record the longest step in each entry."""
            np.maximum(taken, np.abs(moved - x), out=taken)
            return loss(moved)

        gradient, which = slope.copy(), 0 if want == "wrong" else slice(None)
        gradient[which] += error * tolerance
        verdict = check_gradient(recorded, x.copy(), gradient, tolerance)
        assert verdict == want, (
            f"{loss.__name__}, tolerance {tolerance:g}: for a gradient with "
            f"{'its first entry' if want == 'wrong' else 'all entries'} off by {error} "
            f"tolerances, the verdict is {verdict!r}; it should be {want!r}. The first "
            f"entries of x are {x[:3]}. The longest steps there were {taken[:3]}; steps "
            f"of about {suitable[:3]} suit this loss, and a slope is divided by the step "
            "actually taken."
        )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(2)
# Not detected: a step that is too long for a loss that is almost linear over it. Near
# kinks the next check detects it, and the check of the limit detects a factor of 2.5.
far = fresh.integers(10_000, 40_000, 3) * np.array([1.0, -1.0, 1.0])
slope = 1000 * np.cos(1000 * (far % 1))
phase = far - far % 1
for gradient, want in [
    (slope, "right"),
    (slope + 0.5, "wrong"),
    (slope - 0.5, "wrong"),
]:
    verdict = check_gradient(
        lambda x: np.sum(np.sin(1000 * (x - phase))), far, gradient, 0.05
    )
    assert verdict == want, (
        f"x is in the tens of thousands: the verdict on a {want} gradient is {verdict!r}"
    )
x = fresh.uniform(0.2, 0.6, 2) * np.array([1, -1])
for gradient, want in [(2e6 * x, "right"), (2e6 * x * 1.01, "wrong")]:
    verdict = check_gradient(lambda x: 1e6 * np.sum(x * x), x, gradient, 100.0)
    assert verdict == want, (
        f"a large loss: the verdict on a {want} gradient is {verdict!r}"
    )
for gradient, want in [(np.zeros(2), "right"), (np.array([0, 1.4e-6]), "wrong")]:
    verdict = check_gradient(lambda x: np.float64(0), x, gradient, 1e-6)
    assert verdict == want, (
        f"the loss is 0 everywhere: the verdict on a {want} gradient is {verdict!r}"
    )
sines = 1 + np.sum(np.sin(x))
for error, want in [
    (0, "right"),
    (5e-6, "wrong"),
]:  # a loss of 0: the difference of larger numbers
    verdict = check_gradient(
        lambda x: 1 + np.sum(np.sin(x)) - sines, x, np.cos(x) + error, 1e-6
    )
    assert verdict == want, (
        f"the loss is 0 at x: the verdict on a {want} gradient is {verdict!r}"
    )
far = fresh.uniform(130, 250, 30).astype(np.float32)
far[::3] *= -1
slope = 0.7 * np.cos(far * np.float32(0.7)).astype(float)
level = np.sum(np.sin(far * np.float32(0.7)))
for error, want in [
    (0, "right"),
    (0.2, "wrong"),
]:  # 0.7 x is rounded, too: short steps drown in it
    verdict = check_gradient(
        lambda x: np.sum(np.sin(x * np.float32(0.7))) - level,
        far,
        (slope + error).astype(np.float32),
        0.03,
    )
    assert verdict == want, (
        f"x is in the hundreds, in float32: the verdict on a {want} gradient is {verdict!r}"
    )
### END HIDDEN TESTS

# %% check="checker-near-a-kink" points=1 see="2.3"
"""Near a kink, one slope is right; on a kink, any value between both slopes (1 point).

The hidden tests use a loss with other slopes on the two sides.
"""


def hinges(x):
    """Return 1 plus the sum of the ReLUs of all entries, weighted by 1, 2, 3 …"""
    return 1 + np.sum(np.arange(1, x.size + 1) * np.maximum(x, 0))


near = np.array([1e-6, -1e-6, 3e-7, -3e-7])
own_side = np.array([1.0, 0.0, 3.0, 0.0])
cases = [
    (near, own_side, "right"),
    (near, own_side[::-1], "wrong"),
    (
        near,
        np.array([1.0, 2.0, 3.0, 0.0]),
        "wrong",
    ),  # the second entry: the other side
    (near, np.array([0.5, 0.0, 3.0, 0.0]), "wrong"),
    (np.zeros(2), np.zeros(2), "right"),
    (np.zeros(2), np.array([1.0, 2.0]), "right"),
    (np.zeros(2), np.array([0.7, 0.2]), "right"),
    (np.zeros(2), np.array([0.0, 2.5]), "wrong"),
    (np.zeros(2), np.array([-0.5, 0.0]), "wrong"),
]
for x, gradient, want in cases:
    verdict = check_gradient(hinges, x, gradient, 1e-4)
    assert verdict == want, (
        f"the gradient {gradient} at x = {x} is {want}; the verdict is {verdict!r}"
    )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(3)
# Not detected: a step up to 2e-7, fifty times the largest h here. The check of the
# limit detects a step that is 2.5 times too long.
x, order = np.array([2e-7, 0.0, -2e-7, 1.0, 0.0]), fresh.permutation(5)
for weight in fresh.uniform(0.5, 2) * np.array([1, 0.01]):  # slopes differ by 3 weights

    def bent(x, weight=weight):
        return 2 + weight * np.sum(np.where(x > 0, -x, 2 * x))

    for gradient, want in [
        ([-1.0, 0.3, 2.0, -1.0, -1.0], "right"),
        ([-1.0, 1.3, 2.0, -1.0, 2.0], "right"),
        ([-1.0, 2.00007, 2.0, -1.0, -1.00007], "right"),
        ([-1.0, 2.00014, 2.0, -1.0, 0.0], "wrong"),
        ([-1.0, 0.0, 2.0, -1.0, -1.00014], "wrong"),
        ([-1.0, 0.3, -1.0, -1.0, 0.0], "wrong"),
        ([-1.0, 2.2, 2.0, -1.0, 0.0], "wrong"),
        ([-1.0, 0.0, 2.0, -1.0, -1.2], "wrong"),
        ([0.5, 0.0, 2.0, -1.0, 0.0], "wrong"),
    ]:
        verdict = check_gradient(
            bent, x[order], weight * np.array(gradient)[order], weight * 1e-4
        )
        assert verdict == want, (
            f"near and on kinks where the slope changes by {3 * weight:g}, the verdict "
            f"on a {want} gradient is {verdict!r}; the slopes on both sides count"
        )
### END HIDDEN TESTS

# %% check="checker-knows-its-limit" points=1 see="2.3"
"""If h exceeds the longest step allowed, the verdict is "undecided" (1 point).

The hidden tests use other losses, tolerances and values of `largest`.
"""
angles = np.array([0.3, 1.2, -0.7, 2.1])
right, single = np.cos(angles), angles.astype(np.float32)
decided, undecided = ("right", "wrong"), ("undecided", "undecided")


def waves_in_float64(x):
    """Return the same loss, computed in float64 for any dtype of x."""
    return 5 + np.sum(np.sin(x.astype(np.float64)))


for loss, x, tolerance, largest, want in [
    (waves_in_float32, single, 1e-2, 0.01, decided),
    (waves_in_float32, single, 1e-6, 0.01, undecided),
    (waves, angles, 1e-6, 0.01, decided),
    (waves_in_float32, angles, 1e-6, 0.01, undecided),
    (waves_in_float64, abs(single), 1e-4, 0.01, decided),
    (waves, angles, 1e-15, 0.01, undecided),
    (waves, angles, 1e-6, 1e-9, undecided),
    (waves_in_float32, single, 1e-2, 1e-4, undecided),
]:
    for error, verdict in zip((0, 5 * tolerance), want, strict=True):
        gradient = (right + error).astype(x.dtype)
        found = check_gradient(loss, x, gradient, tolerance, largest=largest)
        assert found == verdict, (
            f"a gradient off by {error:g}, {loss.__name__}, x of dtype {x.dtype}, "
            f"tolerance {tolerance:g}, largest {largest:g}: the verdict is {found!r}; "
            f"it should be {verdict!r}"
        )
found = check_gradient(waves_in_float32, angles, right, 1e-6, largest=1000.0)
assert found != "undecided", (
    "waves_in_float32, tolerance 1e-6: h is about 7, but the verdict is 'undecided' "
    "although `largest` is 1000"
)
found = check_gradient(waves_in_float32, single, np.full(4, np.nan), 1e-6)
assert found == "undecided", (
    f"h exceeds `largest` and the gradient is NaN: the verdict is {found!r}; it should "
    "be 'undecided'"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(4)
# Not detected: an h between 0.4 and 2.5 times the one of the text, which is sensible.
pixels = fresh.integers(70, 255, 4).astype(np.float32)
others = fresh.uniform(-2, 2, 4)
slope = 3 * np.cos(pixels.astype(float) - 200)


def of_pixels(x):
    return np.float32(2) + np.float32(np.sum(3 * np.sin(x.astype(float) - 200)))


for tolerance, error, want in [
    (0.05, 0, "right"),
    (0.05, 0.5, "wrong"),
    (1e-6, 0, "undecided"),
]:
    found = check_gradient(
        of_pixels, pixels, (slope + error).astype(np.float32), tolerance
    )
    assert found == want, (
        f"x is in the hundreds, in float32: the verdict is {found!r}; it should be {want!r}"
    )


def large(x):
    return np.float32(1e5) + np.sum(np.sin(x))


found = check_gradient(
    large, others.astype(np.float32), np.cos(others).astype(np.float32), 1e-2
)
assert found == "undecided", (
    f"a loss of 100,000 in float32, tolerance 0.01: the verdict is {found!r}"
)
for gradient in (right * np.nan, right * np.inf, -right):  # of the visible test
    found = check_gradient(waves_in_float32, angles, gradient, 1e-6)
    assert found == "undecided", (
        f"h exceeds `largest`, gradient {gradient}: {found!r}, not 'undecided'"
    )
for loss, epsilon in [
    (waves, np.finfo(np.float64).eps),
    (waves_in_float32, np.finfo(np.float32).eps),
]:
    for tolerance in (1e-3, 3e-2):
        h = 10 * float(epsilon) * max(1, float(loss(others))) / tolerance
        for times, undecided in [(0.4, True), (2.5, False)]:
            found = check_gradient(
                loss, others, np.cos(others), tolerance, largest=times * h
            )
            assert (found == "undecided") == undecided, (
                f"`largest` is {times} h, and the verdict is {found!r}"
            )
### END HIDDEN TESTS

# %% [markdown]
# Compare your prediction: with h = 0.01, the tolerance is 10·ε·2.3 / 0.01.

# %%
for dtype, predicted in [
    (np.float32, predicted_float32),
    (np.float64, predicted_float64),
]:
    finest = 10 * np.finfo(dtype).eps * 2.3 / 0.01
    print(f"{dtype.__name__}: smallest tolerance {finest:.1e}; predicted {predicted}")

# %% [markdown]
# The two tolerances have the same ratio as the two values of ε, about 5 · 10⁸. This is
# why gradients are checked in float64.

# %% [markdown]
# ## 2. A dense layer
#
# Each output is a weighted sum of all inputs of an image, plus a bias. Written directly
# as code, the definition is correct but slow:


# %% given="dense-definition"
def dense_by_definition(x, w, b):
    """Compute a dense layer by its definition: x (N, …), w (C1, C2), b (C2,): y (N, C2)."""
    y = np.empty((len(x), w.shape[1]), x.dtype)
    for n in range(len(x)):
        for j in range(w.shape[1]):
            y[n, j] = np.sum(x[n].ravel() * w[:, j]) + b[j]
    return y


def differences(loss, x, step=1.0):
    """Return ∂loss/∂x by central differences; it is exact if the loss is linear."""
    gradient = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        gradient[place] = (loss(up) - loss(down)) / (2 * step)
    return gradient


# %% [markdown]
# Write the layer as one matrix product. If it follows a convolution, x has the shape
# (N, H, W, C); the numbers of an image are then read in the order of their indices, as
# `ravel` does above: the last index changes fastest. If all arguments are float32, so is
# the result.


# %% solution="dense"
def dense(x, w, b):
    """Return the outputs y (N, C2) of a dense layer, for images x (N, …) of C1 numbers.

    w (C1, C2) are the weights, b (C2,) the biases.
    """
    assert x[0].size == len(w), (
        f"an image has {x[0].size} numbers, but w has {len(w)} rows"
    )
    ### BEGIN SOLUTION
    y = x.reshape(len(x), -1) @ w + b
    ### END SOLUTION
    assert y.shape == (len(x), w.shape[1]), (
        f"the result has shape {y.shape}; it should have shape {(len(x), w.shape[1])}"
    )
    return y


# %% [markdown]
# The example has two images of three numbers, and two outputs. Compute the result by
# hand first; each row of the output belongs to one image.

# %%
print(
    dense(
        np.array([[1.0, 2, 3], [4, 5, 6]]),
        np.array([[1.0, 0], [0, 1], [1, 1]]),
        np.array([10.0, 20]),
    )
)

# %% check="dense-forward" points=1 see="2.2"
"""Weighted sums plus the bias, added once, for images of any shape (1 point).

The dtype is checked with float32 arguments. The hidden tests use other shapes, and
values that a lower precision would round.
"""
x = np.array([[1.0, 2, 3], [4, 5, 6]])
w, b = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([10.0, 20])
hints = {
    "the bias is missing.": np.array([[4.0, 5], [10, 11]]),
    "the bias was added to each product; add it once, to their sum.": np.array(
        [[34.0, 65], [40, 71]]
    ),
}
expect(dense(x, w, b), np.array([[14.0, 25], [20, 31]]), hints, "dense of two images")
x, w, b = integers(2, 3, 2, 2), integers(12, 5), integers(5)
with unchanged(x=x, w=w, b=b), watched("dense_by_definition") as calls:
    y = dense(x, w, b)
assert x.shape == (2, 3, 2, 2), f"dense changed the shape of x to {x.shape}"
hints = {
    "the numbers of an image were read in another order.": dense_by_definition(
        x.transpose(0, 3, 1, 2), w, b
    )
}
expect(
    y,
    dense_by_definition(x, w, b),
    hints,
    "dense of two images of 3 × 2 pixels, 2 channels",
)
assert calls.count == 0, (
    "dense calls dense_by_definition; write it as one matrix product"
)
y = dense(*(a.astype(np.float32) for a in (x, w, b)))
assert y.dtype == np.float32, (
    f"all arguments have dtype float32, but the result has dtype {y.dtype}"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(5)
# Not detected: a copy of the definition's loops. It is correct, but slow.
for shape, outputs in [
    ((1, 4), 3),
    ((5, 2, 3), 1),
    ((4, 1), 4),
    ((1, 2, 1, 3), 2),
    ((3, 3), 3),
]:
    x, w, b = (
        integers(*shape, rng=fresh),
        integers(int(np.prod(shape[1:])), outputs, rng=fresh),
        integers(outputs, rng=fresh),
    )
    expect(
        dense(x, w, b),
        dense_by_definition(x, w, b),
        name=f"dense of {shape} to {outputs}",
    )
bright, w, b = (
    integers(2, 3, rng=fresh) + 2.0**30,
    integers(3, 2, rng=fresh),
    np.full(2, -(2.0**30) - 1),
)
w[2] = 1 - w[0] - w[1]  # the bias cancels the brightness, if float64 was kept
expect(
    dense(bright, w, b),
    dense_by_definition(bright, w, b),
    name="dense of bright images",
)
x, w, b = (
    integers(*shape, rng=fresh).astype(np.float32) for shape in [(2, 3), (3, 4), (4,)]
)
x += np.float32(2**16)  # more than half precision holds; sums have less than 24 bits
b += np.float32(2**16)
expect(dense(x, w, b), dense_by_definition(x, w, b), name="dense of float32")
### END HIDDEN TESTS

# %% [markdown]
# Backward: the layer above passes down dy = ∂L/∂y. Which product of two of the matrices
# x, w and dy has the shape of w, and which has the shape of x? If the loss is a mean
# over the batch, dy already contains the division; this layer only sums. If all
# arguments are float32, so are dx, dw and db.


# %% solution="dense_gradient"
def dense_gradient(dy, x, w):
    """Return the gradients of a dense layer: dx, shaped like x, dw (C1, C2), db (C2,).

    dy (N, C2) is ∂L/∂y; x (N, …) and w (C1, C2) are the arguments of dense().
    """
    assert dy.shape == (len(x), w.shape[1]), (
        f"dy has shape {dy.shape}; y has shape {(len(x), w.shape[1])}"
    )
    ### BEGIN SOLUTION
    dx = (dy @ w.T).reshape(x.shape)
    dw = x.reshape(len(x), -1).T @ dy
    db = dy.sum(axis=0)
    ### END SOLUTION
    assert dx.shape == x.shape and dw.shape == w.shape, (
        f"dx has shape {dx.shape} and dw has shape {dw.shape}; "
        f"they should have the shapes {x.shape} and {w.shape}"
    )
    assert db.shape == w.shape[1:], (
        f"db has shape {db.shape}; it should have shape {w.shape[1:]}"
    )
    return dx, dw, db


# %% [markdown]
# Does your gradient checker agree? The loss L = Σ dy·y is linear in each argument, so
# rounding is the only error. All three lines should say "right"; if one says "wrong",
# its formula is wrong.

# %%
x, w, b, dy = integers(3, 2, 2), integers(4, 2), integers(2), integers(3, 2)
dx, dw, db = dense_gradient(dy, x, w)
print("dx", check_gradient(lambda x: np.sum(dy * dense(x, w, b)), x, dx, 1e-6))
print("dw", check_gradient(lambda w: np.sum(dy * dense(x, w, b)), w, dw, 1e-6))
print("db", check_gradient(lambda b: np.sum(dy * dense(x, w, b)), b, db, 1e-6))

# %% check="dense-weights" points=1 see="2.3"
"""dw and db are the slopes of the loss with respect to weights and biases (1 point).

The dtype is checked with float32 arguments. The hidden tests use other shapes, and
values that a lower precision would round.
"""
x, w, b, dy = integers(3, 2, 2), integers(4, 2), integers(2), integers(3, 2)
with unchanged(x=x, w=w, dy=dy), watched("differences") as calls:
    _, dw, db = dense_gradient(dy, x, w)
assert (x.shape, dy.shape) == ((3, 2, 2), (3, 2)), (
    f"dense_gradient changed the shape of x to {x.shape} or of dy to {dy.shape}"
)
want = differences(lambda w: np.sum(dy * dense_by_definition(x, w, b)), w)
hints = {
    "dw was averaged over the batch; the loss decides whether there is a mean.": want
    / 3,
    "dw has the opposite sign; a gradient points uphill.": -want,
}
expect(dw, want, hints, "dw")
want = differences(lambda b: np.sum(dy * dense_by_definition(x, w, b)), b)
hints = {
    "db was averaged over the batch; the loss decides whether there is a mean.": want
    / 3
}
expect(db, want, hints, "db")
assert calls.count == 0, "dense_gradient calls differences; write dw and db as formulas"
_, dw, db = dense_gradient(*(a.astype(np.float32) for a in (dy, x, w)))
assert dw.dtype == db.dtype == np.float32, (
    f"all arguments have dtype float32, but dw has dtype {dw.dtype} and db has dtype "
    f"{db.dtype}"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(6)
# Not detected: sums in loops, which are correct. Copied differences fail with large w.
for shape, outputs in [((1, 4), 3), ((5, 2, 1), 1), ((4, 4), 4), ((1, 2, 1, 3), 2)]:
    x, w, dy = (
        integers(*shape, rng=fresh),
        integers(int(np.prod(shape[1:])), outputs, rng=fresh),
        integers(shape[0], outputs, rng=fresh),
    )
    _, dw, db = dense_gradient(dy, x, w)
    for name, got, want in [
        (
            "dw",
            dw,
            np.einsum("ni,nj->ij", x.reshape(len(x), -1), dy),
        ),
        ("db", db, np.einsum("nj->j", dy)),
    ]:
        expect(got, want, name=f"{name} of {shape} to {outputs}")
x, w, dy = (
    integers(3, 5, rng=fresh),
    2.0**60 * (9 + integers(5, 2, rng=fresh)),
    integers(3, 2, rng=fresh),
)
_, dw, db = dense_gradient(dy, x, w)
expect(dw, np.einsum("ni,nj->ij", x, dy), name="dw, which does not depend on w")
expect(db, np.einsum("nj->j", dy), name="db, which does not depend on w")
bright, dy = integers(2, 3, rng=fresh), integers(2, 2, rng=fresh)
rest, row = float(fresh.integers(1, 5)), fresh.integers(1, 9, 2).astype(float)
bright[1], dy[1] = (
    bright[0],
    -dy[0],
)  # the images cancel each other, if float64 was kept
_, dw, db = dense_gradient(
    dy + np.array([[2.0**30], [-(2.0**30)]]), bright + 1, integers(3, 2, rng=fresh)
)
expect(dw, np.zeros((3, 2)), name="dw of large values that cancel")
_, dw, db = dense_gradient(
    np.array([[2.0**30 + rest], [-(2.0**30)]]),
    np.array([row, row]),
    integers(2, 1, rng=fresh),
)
expect(dw, rest * row.reshape(2, 1), name="dw of large values that nearly cancel")
expect(db, np.array([rest]), name="db of large values that nearly cancel")
x, w, dy = (
    integers(*shape, rng=fresh).astype(np.float32) for shape in [(2, 3), (3, 4), (2, 4)]
)
dy += np.float32(2**16)  # more than half precision holds; sums have less than 24 bits
_, dw, db = dense_gradient(dy, x, w)
expect(dw, np.einsum("ni,nj->ij", x, dy), name="dw of large values in float32")
expect(db, np.einsum("nj->j", dy), name="db of large values in float32")
### END HIDDEN TESTS

# %% check="dense-input" points=1 see="2.3"
"""dx is the slope of the loss with respect to each number of the images (1 point).

The dtype is checked with float32 arguments. The hidden tests use other shapes, and
values that a lower precision would round.
"""
x, w, b, dy = integers(3, 2, 2), integers(4, 2), integers(2), integers(3, 2)
with unchanged(x=x, w=w, dy=dy), watched("differences") as calls:
    dx, _, _ = dense_gradient(dy, x, w)
want = differences(lambda x: np.sum(dy * dense_by_definition(x, w, b)), x)
hints = {
    "dx was averaged over the batch; the loss decides whether there is a mean.": want
    / 3,
    "the numbers of an image are in another order than in x.": want.transpose(0, 2, 1),
}
expect(dx, want, hints, "dx")
assert calls.count == 0, "dense_gradient calls differences; write dx as a formula"
dx, _, _ = dense_gradient(*(a.astype(np.float32) for a in (dy, x, w)))
assert dx.dtype == np.float32, (
    f"all arguments have dtype float32, but dx has dtype {dx.dtype}"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(7)
# Not detected: sums in loops, which are correct. Copied differences fail with large x.
for shape, outputs in [((1, 4), 3), ((5, 2, 3), 1), ((4, 4), 4), ((2, 3, 2, 2), 2)]:
    x, w, dy = (
        integers(*shape, rng=fresh),
        integers(int(np.prod(shape[1:])), outputs, rng=fresh),
        integers(shape[0], outputs, rng=fresh),
    )
    dx, _, _ = dense_gradient(dy, x, w)
    want = np.einsum("nj,ij->ni", dy, w).reshape(shape)
    expect(dx, want, name=f"dx of {shape} to {outputs}")
x, w, dy = (
    2.0**60 * (9 + integers(3, 5, rng=fresh)),
    integers(5, 2, rng=fresh),
    integers(3, 2, rng=fresh),
)
expect(
    dense_gradient(dy, x, w)[0],
    np.einsum("nj,ij->ni", dy, w),
    name="dx, which does not depend on x",
)
rest, rows = float(fresh.integers(1, 5)), fresh.integers(1, 9, 2).astype(float)
w = np.stack([rows, rows], axis=1)
dx, _, _ = dense_gradient(np.array([[2.0**30 + rest, -(2.0**30)]]), np.ones((1, 2)), w)
expect(dx, rest * rows.reshape(1, 2), name="dx of large values that nearly cancel")
x, w, dy = (
    integers(*shape, rng=fresh).astype(np.float32) for shape in [(2, 3), (3, 4), (2, 4)]
)
dy += np.float32(2**16)
expect(
    dense_gradient(dy, x, w)[0],
    np.einsum("nj,ij->ni", dy, w),
    name="dx of large values in float32",
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. ReLU
#
# ReLU replaces each number x with max(0, x). At its kink, x = 0, any slope from 0 to 1
# is valid; use 0. If the arguments are float32, so are the results of both functions.


# %% solution="relu"
def relu(x):
    """Return max(0, x) for each number x of an array of any shape."""
    ### BEGIN SOLUTION
    y = np.maximum(x, 0)
    ### END SOLUTION
    return y


# %% solution="relu_gradient"
def relu_gradient(dy, x):
    """Return ∂L/∂x for y = relu(x) and dy = ∂L/∂y. The slope at x = 0 is 0."""
    assert dy.shape == x.shape, (
        f"dy has shape {dy.shape}; it should have the shape of x, {x.shape}"
    )
    ### BEGIN SOLUTION
    dx = np.where(x > 0, dy, np.zeros_like(dy))
    ### END SOLUTION
    return dx


# %% [markdown]
# The second array should contain a single non-zero gradient, at the position of the
# positive number.

# %%
print(
    relu(np.array([-2.0, 0, 3])),
    relu_gradient(np.array([10.0, 20, 30]), np.array([-2.0, 0, 3])),
)

# %% check="relu-both-ways" points=1 see="2.3"
"""Negative numbers become 0; the gradient is 0 unless x is positive (1 point).

The dtype is checked with float32 arguments. The hidden tests use tiny and large
numbers, and values that a lower precision would round.
"""
x = np.array([[-2.0, 0.0], [3.0, -1.0], [0.5, 4.0]])
dy = np.array([[10.0, 20], [30, 40], [-50, 60]])
with unchanged(x=x, dy=dy):
    y, dx = relu(x), relu_gradient(dy, x)
expect(y, np.array([[0.0, 0], [3, 0], [0.5, 4]]), name="relu")
hints = {
    "the slope at 0 is 1; use 0.": np.array([[0.0, 20], [30, 0], [-50, 60]]),
    "the gradient is 0 where dy is negative; it should be 0 where x is.": np.array(
        [[10.0, 20], [30, 40], [0, 60]]
    ),
    "the gradient is also 0 where dy is negative; use the sign of x only.": np.array(
        [[0.0, 0], [30, 0], [0, 60]]
    ),
    "dy is missing: multiply the slope of ReLU by it.": np.array(
        [[0.0, 0], [1, 0], [1, 1]]
    ),
}
expect(dx, np.array([[0.0, 0], [30, 0], [-50, 60]]), hints, "relu_gradient")
x, dy = x.astype(np.float32), dy.astype(np.float32)
for name, found in [("relu", relu(x)), ("relu_gradient", relu_gradient(dy, x))]:
    assert found.dtype == np.float32, (
        f"all arguments have dtype float32, but the result of {name} has dtype "
        f"{found.dtype}"
    )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(8)
# Not detected: nothing known. Both functions are exact, so the values must be equal.
x, dy = integers(2, 3, 4, 2, rng=fresh), integers(2, 3, 4, 2, rng=fresh)
expect(relu(x), (np.abs(x) + x) / 2, name="relu of 4 axes")
expect(relu_gradient(dy, x), dy * (np.sign(x) == 1), name="relu_gradient of 4 axes")
tiny = np.array([1e-300, -1e-300, 1e300])  # the limits of float64
expect(
    relu(tiny) > 0,
    np.array([True, False, True]),
    name="relu of tiny numbers, where they are positive",
)
expect(
    relu_gradient(np.ones(3), tiny),
    np.array([1.0, 0, 1]),
    name="relu_gradient at tiny numbers",
)
for dtype in (np.float64, np.float32):
    x, dy = (
        (50 * integers(5, 7, rng=fresh) / 3).astype(dtype),
        (50 * integers(5, 7, rng=fresh) / 7).astype(dtype),
    )
    for name, got, want in [
        ("relu", relu(x), np.where(x > 0, x, 0)),
        ("relu_gradient", relu_gradient(dy, x), np.where(x > 0, dy, 0)),
    ]:
        expect(got, want.astype(dtype), name=f"{name} of thirds and sevenths")
        assert np.array_equal(got, want), (
            f"{name} was computed in a lower precision than {dtype}"
        )
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Softmax and cross-entropy
#
# The outputs of the last layer are *logits* z, one per class. Softmax turns them into
# probabilities, $p_j = e^{z_j} / \sum_i e^{z_i}$. The loss of an image is $-\ln p$,
# where $p$ is the probability of its class. The loss of a batch is the mean over its
# images. Literal code for these formulas fails: e¹⁰⁰⁰ overflows in float32 and in
# float64, and if p is rounded to 0, its logarithm is −∞.
#
# Softmax does not change if you subtract the same number from all logits of an image.
# Which number keeps every exponential between 0 and 1? And how can you write the
# logarithm of the quotient without a quotient?
#
# Derive the gradient on paper: ∂L/∂z has a short formula, without a logarithm. The loss
# and the gradient have the dtype of the logits, float32 or float64. A Python float
# counts as float64: your gradient checker would assume that the loss was computed in
# float64.


# %% solution="softmax_cross_entropy"
def softmax_cross_entropy(logits, labels):
    """Return the loss of a batch (a number) and its gradient (shaped like the logits).

    logits (N, classes), labels (N,) integers from 0. The loss is the mean over the
    images. Correct for logits of any size, also in float32. Loss and gradient have the
    dtype of the logits; a Python float counts as float64.
    """
    assert labels.shape == logits.shape[:1], (
        f"{len(labels)} labels for logits {logits.shape}"
    )
    ### BEGIN SOLUTION
    N = len(logits)
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    loss = np.mean(np.log(sums[:, 0]) - shifted[np.arange(N), labels])
    dlogits = exponentials / sums
    dlogits[np.arange(N), labels] -= 1
    dlogits /= N
    ### END SOLUTION
    assert dlogits.shape == logits.shape, (
        f"dlogits has shape {dlogits.shape}; it should have shape {logits.shape}"
    )
    return loss, dlogits


# %% [markdown]
# The logits 0 and ln 3 give the probabilities 1/4 and 3/4. What is the loss if the
# second class is correct? The first number printed should equal the last one, and the
# two entries of the gradient should add up to 0.

# %%
print(
    softmax_cross_entropy(np.array([[0.0, np.log(3)]]), np.array([1])), -np.log(3 / 4)
)

# %% check="loss-by-hand" points=1 see="2.2"
"""The mean of -ln p; equal logits have the loss ln(number of classes) (1 point).

The hidden tests use other logits and compare ten digits.
"""
loss, _ = softmax_cross_entropy(np.zeros((4, 10)), np.array([0, 9, 3, 3]))
ln10 = float(np.log(10))
hints = {
    "the loss was summed over the images; it is their mean.": 4 * ln10,
    "the loss was divided by the number of classes, too.": ln10 / 10,
    "the sign is wrong; a loss is positive.": -ln10,
    "the logarithm has base 2.": float(np.log2(10)),
}
expect(float(loss), ln10, hints, "the loss of equal logits")
logits, labels = np.array([[0.0, np.log(3)], [np.log(7), 0.0]]), np.array([1, 1])
loss, _ = softmax_cross_entropy(logits, labels)
want = float(np.log(4 / 3) + np.log(8)) / 2
expect(float(loss), want, name="the loss of the probabilities 3/4 and 1/8")
### BEGIN HIDDEN TESTS
fresh = fresh_rng(9)
# Not detected: nothing known. Computing in float32 is detected by the tenth digit.
for N, classes in [(1, 3), (7, 2), (5, 12), (32, 10)]:
    logits, labels = integers(N, classes, rng=fresh), fresh.integers(0, classes, N)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    want = -sum(np.log(p[n, labels[n]]) for n in range(N)) / N
    loss, _ = softmax_cross_entropy(logits, labels)
    expect(
        float(loss), float(want), name=f"the loss of {N} images and {classes} classes"
    )
    assert abs(float(loss) - want) <= 1e-10 * want, (
        f"the loss of {N} images in float64 is off by a fraction of "
        f"{abs(float(loss) / want - 1):.1e}"
    )
    loss, _ = softmax_cross_entropy(logits.astype(np.float32), labels)
    off = abs(float(loss) - want)
    assert off <= 3e-6 * (1 + want), (
        f"the loss of {N} images in float32 is off by {off:.1e}"
    )
### END HIDDEN TESTS

# %% check="loss-stable" points=1 see="2.2"
"""Logits of ±1000 in float32: loss and gradient are finite and correct (1 point).

The loss and its gradient have the dtype of the logits. The hidden tests use other
logits, in float32 and float64.
"""
logits = np.array(
    [[1000, -1000, 0], [-1000, -1000, -1000], [1000, -1000, 0]], np.float32
)
mixed = [[1 / 3, -1 / 3, 0], [-2 / 9, 1 / 9, 1 / 9], [1 / 3, 0, -1 / 3]]
for labels, want, by_hand in [
    ([0, 0, 0], np.log(3) / 3, [[0, 0, 0], [-2 / 9, 1 / 9, 1 / 9], [0, 0, 0]]),
    ([1, 0, 2], (3000 + np.log(3)) / 3, mixed),
]:
    loss, dlogits = softmax_cross_entropy(logits, np.array(labels))
    assert np.isfinite(loss), (
        f"the loss of logits ±1000 with labels {labels} is {loss}. An exponential "
        "overflowed, or all exponentials of an image were rounded to 0: which of its "
        "logits can you subtract first?"
    )
    assert abs(float(loss) - want) < 1e-3, (
        f"the loss of logits ±1000 with labels {labels} is {float(loss):.4f}; "
        f"by hand it is {want:.4f}"
    )
    assert np.allclose(dlogits, by_hand, 0, 1e-4), (
        f"dlogits of logits ±1000 with labels {labels} has wrong values:\n{dlogits}"
    )
    for name, found in [("the loss", loss), ("dlogits", dlogits)]:
        assert np.asarray(found).dtype == np.float32, (
            f"the logits have dtype float32, but {name}, a {type(found).__name__}, has "
            f"dtype {np.asarray(found).dtype}"
        )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(10)
# Not detected: errors below 1e-4 in float32, which correct solutions have at 1000, too.
for dtype, shift in [(np.float32, 500), (np.float64, 5000), (np.float32, -500)]:
    small, labels = integers(6, 4, rng=fresh).astype(dtype), fresh.integers(0, 4, 6)
    p = np.exp(small.astype(float)) / np.exp(small.astype(float)).sum(
        axis=1, keepdims=True
    )
    want = float(-np.mean(np.log(p[np.arange(6), labels])))
    shifts = (
        (shift * np.arange(6)).reshape(6, 1).astype(dtype)
    )  # another one for each image
    loss, dlogits = softmax_cross_entropy(small + shifts, labels)
    assert abs(float(loss) - want) < 1e-3, (
        "a number added to all logits of an image changes the loss"
    )
    assert np.allclose(dlogits, (p - np.eye(4)[labels]) / 6, 0, 1e-3), (
        "a number added to all logits of an image changes dlogits"
    )
    assert dlogits.dtype == np.asarray(loss).dtype == dtype, (
        f"the logits have dtype {np.dtype(dtype)}, but dlogits has dtype "
        f"{dlogits.dtype} and the loss has dtype {np.asarray(loss).dtype}"
    )
### END HIDDEN TESTS

# %% check="loss-gradient" points=1 see="2.3"
"""dlogits is the slope of the loss in each logit, for any batch size (1 point).

The hidden tests use other batch sizes and numbers of classes, and compare more digits.
"""


def loss_by_definition(logits, labels):
    """Return the mean of -ln p by its definition, which is correct for small logits."""
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return -sum(np.log(p[n, labels[n]]) for n in range(len(labels))) / len(labels)


logits, labels = (
    np.array([[0.0, 1, -1], [2, 0.5, 0], [0, 0, 0], [-1, 0, 1]]),
    np.array([0, 2, 2, 1]),
)
want = differences(lambda z: loss_by_definition(z, labels), logits, 1e-4)
with unchanged(logits=logits, labels=labels), watched("differences") as calls:
    _, dlogits = softmax_cross_entropy(logits, labels)
hints = {
    "dlogits was not divided by the number of images; the loss is their mean.": 4
    * want,
    "dlogits was divided by the number of images twice.": want / 4,
    "dlogits was divided by the number of classes, too.": want / 3,
    "dlogits was divided by 32 instead of the number of images.": want * 4 / 32,
    "dlogits has the opposite sign; a gradient points uphill.": -want,
    "the labels are missing in dlogits.": differences(
        lambda z: np.mean(np.log(np.exp(z).sum(axis=1))), logits, 1e-4
    ),
}
expect_near(dlogits, want, hints, "dlogits")
assert calls.count == 0, (
    "softmax_cross_entropy calls differences; write dlogits as a formula"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(11)
# Not detected: nothing known. Copied differences have too few digits for 301 images.
for N, classes in [(1, 3), (7, 2), (5, 12), (301, 7)]:
    logits, labels = integers(N, classes, rng=fresh), fresh.integers(0, classes, N)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    want = (p - np.eye(classes)[labels]) / N
    _, dlogits = softmax_cross_entropy(logits, labels)
    expect(dlogits, want, name=f"dlogits of {N} images and {classes} classes")
    off = N * np.abs(dlogits - want).max()  # p is at most 1
    assert off <= 1e-11, f"N · dlogits of {N} images in float64 is off by {off:.1e}"
    _, dlogits = softmax_cross_entropy(logits.astype(np.float32), labels)
    assert dlogits.dtype == np.float32, (
        f"the logits have dtype float32, dlogits has dtype {dlogits.dtype}"
    )
    off = N * np.abs(dlogits - want).max()
    assert off <= 3e-6, f"N · dlogits of {N} images in float32 is off by {off:.1e}"
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Through three layers
#
# The network is a convolution with stride 2, ReLU, a dense layer, ReLU, and a dense
# layer that returns the logits. Its parameters are a dictionary: filters `w1` (k, k, C,
# K) and biases `b1` (K,), then `w2`, `b2`, `w3`, `b3` of the two dense layers. You
# wrote the convolution in assignment 01; the one below uses one matrix product per
# position in the window.


# %% given="convolution"
STRIDE = 2


def convolution(x, w, b):
    """Return y (N, H_out, W_out, K) for images x (N, H, W, C), w (k, k, C, K), b (K,)."""
    k = len(w)
    H_out, W_out = ((n - k) // STRIDE + 1 for n in x.shape[1:3])  # no padding
    y = np.zeros((len(x), H_out, W_out, w.shape[3]), x.dtype) + b
    for i in range(k):
        for j in range(k):
            pixels = x[
                :, i : i + STRIDE * H_out : STRIDE, j : j + STRIDE * W_out : STRIDE
            ]
            y += np.tensordot(pixels, w[i, j], 1)
    return y


def convolution_gradient(dy, x, w):
    """Return the gradients dx, dw and db of a convolution, for dy = ∂L/∂y."""
    k, (_, H_out, W_out, K) = len(w), dy.shape
    dx, dw = np.zeros_like(x), np.empty_like(w)
    for i in range(k):
        for j in range(k):
            rows = slice(i, i + STRIDE * H_out, STRIDE)
            cols = slice(j, j + STRIDE * W_out, STRIDE)
            dw[i, j] = x[:, rows, cols].reshape(-1, x.shape[3]).T @ dy.reshape(-1, K)
            dx[:, rows, cols] += np.tensordot(dy, w[i, j].T, 1)
    return dx, dw, dy.sum(axis=(0, 1, 2))


def new_parameters(
    seed, k=3, K=8, pixels=14, channels=1, hidden=32, classes=10, dtype=np.float32
):
    """Return random weights (He et al. 2015), zero biases; images of `pixels` × `pixels`."""
    draw = np.random.default_rng(seed)
    C1 = ((pixels - k) // STRIDE + 1) ** 2 * K
    shapes = {"w1": (k, k, channels, K), "w2": (C1, hidden), "w3": (hidden, classes)}
    weights = {
        n: draw.standard_normal(s) * np.sqrt(2 / np.prod(s[:-1]))
        for n, s in shapes.items()
    }
    biases = {"b1": np.zeros(K), "b2": np.zeros(hidden), "b3": np.zeros(classes)}
    return {name: value.astype(dtype) for name, value in (weights | biases).items()}


# %% [markdown]
# Write the forward pass first, and keep the arrays that the backward pass needs. Which
# arrays does each layer need? In the backward pass, each layer receives the gradient dy
# of its output and passes down the gradient dx of its input. The result of the
# convolution has the shape (N, H_out, W_out, K), and `dense_gradient` returns its dx in
# that shape. If the parameters and the images are float32, so are the loss and the
# gradients.


# %% solution="loss_and_gradients"
def loss_and_gradients(parameters, x, labels):
    """Return the loss of the network on a batch, and its gradients.

    parameters {"w1", "b1", "w2", "b2", "w3", "b3"}, x (N, H, W, C), labels (N,). Use
    the seven functions above: convolution, dense and relu, the gradient of each, and
    softmax_cross_entropy. Returns the loss, a number, and the gradients, a dictionary
    with the names and shapes of the parameters. All have the dtype of the parameters.
    """
    w1, b1, w2, b2, w3, b3 = (
        parameters[name] for name in ("w1", "b1", "w2", "b2", "w3", "b3")
    )
    ### BEGIN SOLUTION
    s1 = convolution(x, w1, b1)  # (N, H_out, W_out, K)
    a1 = relu(s1)
    s2 = dense(a1, w2, b2)  # (N, hidden)
    a2 = relu(s2)
    loss, ds3 = softmax_cross_entropy(dense(a2, w3, b3), labels)
    da2, dw3, db3 = dense_gradient(ds3, a2, w3)
    da1, dw2, db2 = dense_gradient(relu_gradient(da2, s2), a1, w2)
    _, dw1, db1 = convolution_gradient(relu_gradient(da1, s1), x, w1)
    gradients = {"w1": dw1, "b1": db1, "w2": dw2, "b2": db2, "w3": dw3, "b3": db3}
    ### END SOLUTION
    for name, value in parameters.items():
        assert gradients[name].shape == value.shape, (
            f"the gradient of {name} has shape {gradients[name].shape}; "
            f"{name} has shape {value.shape}"
        )
    return loss, gradients


# %% [markdown]
# Use your gradient checker again, on a small network in float64. The top three rows of
# each image are black and the biases start at zero, so some ReLU inputs lie exactly on
# the kink; the checker allows for this. All six lines should say "right".

# %%
small = new_parameters(0, K=2, pixels=7, hidden=4, classes=3, dtype=np.float64)
x, labels = rng.uniform(0, 1, (5, 7, 7, 1)), np.array([0, 2, 1, 1, 0])
x[:, :3] = 0  # black rows
_, gradients = loss_and_gradients(small, x, labels)
for name, gradient in gradients.items():

    def loss_of(value, name=name):
        """Return the loss with this parameter replaced by `value`."""
        return loss_and_gradients(small | {name: value}, x, labels)[0]

    print(name, check_gradient(loss_of, small[name], gradient, 1e-6))


# %% [markdown]
# The checks of this section replace your layers with slow ones that compute their
# gradients from small steps and keep the dtype of their arguments. A mistake in a layer
# therefore costs no points in this section. Their ReLU has the slope 0 at 0, as in
# section 3. Your own layers are used again in the last check of section 7.


# %% given="by-steps"
def dense_by_steps(dy, x, w):
    """Return the gradients of a dense layer, computed from small steps."""
    precision, (dy, x, w) = x.dtype, (a.astype(np.float64) for a in (dy, x, w))
    b = np.zeros(w.shape[1])
    gradients = (
        differences(lambda x: np.sum(dy * dense_by_definition(x, w, b)), x),
        differences(lambda w: np.sum(dy * dense_by_definition(x, w, b)), w),
        differences(lambda b: np.sum(dy * dense_by_definition(x, w, b)), b),
    )
    return tuple(gradient.astype(precision) for gradient in gradients)


def relu_by_definition(x):
    """Compute ReLU, one number at a time."""
    y = np.array([v if v > 0 else 0.0 for v in x.ravel()], x.dtype)
    return y.reshape(x.shape)


def relu_by_steps(dy, x, step=1e-6):
    """Return the gradient of ReLU from a step to the left, so the slope at 0 is 0."""
    wide = x.astype(np.float64)
    slope = (relu_by_definition(wide) - relu_by_definition(wide - step)) / step
    return dy * slope.astype(x.dtype)


def small_loss(logits, labels):
    """Return the mean of -ln p, correct for small logits."""
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return -sum(np.log(p[n, labels[n]]) for n in range(len(labels))) / len(labels)


def loss_by_steps(logits, labels):
    """Return the loss of small logits, and its gradient computed from small steps."""
    wide = logits.astype(np.float64)
    gradient = differences(lambda z: small_loss(z, labels), wide, 1e-4)
    loss = small_loss(wide, labels)
    return loss.astype(logits.dtype), gradient.astype(logits.dtype)


def network_by_definition(parameters, x, labels):
    """Return the loss of the network, with each layer computed by its definition."""
    p = parameters
    first = relu_by_definition(convolution(x, p["w1"], p["b1"]))
    second = relu_by_definition(dense_by_definition(first, p["w2"], p["b2"]))
    return small_loss(dense_by_definition(second, p["w3"], p["b3"]), labels)


@contextlib.contextmanager
def layers_by_definition():
    """Replace the layers with their definitions, with gradients from small steps.

    Calls are counted: one forward and one backward pass need one or two per function.
    """
    layers = {
        "dense": dense_by_definition,
        "dense_gradient": dense_by_steps,
        "relu": relu_by_definition,
        "relu_gradient": relu_by_steps,
        "softmax_cross_entropy": loss_by_steps,
        "convolution": convolution,
        "convolution_gradient": convolution_gradient,
    }
    with contextlib.ExitStack() as stack:
        calls = {
            name: stack.enter_context(watched(name, f)) for name, f in layers.items()
        }
        yield
    for name, called in calls.items():
        assert called.count <= 12, (
            f"loss_and_gradients called {name} {called.count} times; one forward and "
            "one backward pass call it once or twice"
        )


def network(seed, N, pixels, **sizes):
    """Return a small network in float64, N images and their labels."""
    draw = np.random.default_rng(seed)
    parameters = new_parameters(seed, pixels=pixels, dtype=np.float64, **sizes)
    parameters |= {
        name: draw.uniform(-0.1, 0.2, parameters[name].shape)
        for name in ("b1", "b2", "b3")
    }
    x = draw.uniform(0, 1, (N, pixels, pixels, sizes.get("channels", 1)))
    return parameters, x, draw.integers(0, sizes["classes"], N)


def gradients_of(names, parameters, x, labels):
    """Return the loss's derivatives with respect to these parameters, from small steps."""
    return {
        name: differences(
            lambda value, name=name: network_by_definition(
                parameters | {name: value}, x, labels
            ),
            parameters[name],
            1e-5,
        )
        for name in names
    }


# %% check="network-classifier" points=1 see="2.3"
"""The loss, and the gradients of the last dense layer, w3 and b3 (1 point).

The dictionary may list the parameters in any order. With float32 arguments, the loss
and all six gradients must have dtype float32. The hidden tests use other sizes and
larger gradients, and compare more digits.
"""
parameters, x, labels = network(1, N=4, pixels=5, K=2, hidden=3, classes=3)
with unchanged(x=x, labels=labels, **parameters), layers_by_definition():
    loss, gradients = loss_and_gradients(parameters, x, labels)
expect(
    float(loss), float(network_by_definition(parameters, x, labels)), name="the loss"
)
for name, want in gradients_of(("w3", "b3"), parameters, x, labels).items():
    hints = {
        "it was divided by the number of images again.": want / 4,
        "it was summed.": 4 * want,
    }
    expect_near(gradients[name], want, hints, f"the gradient of {name}")
with layers_by_definition():
    loss, gradients = loss_and_gradients(dict(sorted(parameters.items())), x, labels)
what = "if the dictionary lists the parameters in another order"
want = float(network_by_definition(parameters, x, labels))
expect(float(loss), want, name=f"the loss, {what},")
for name, want in gradients_of(("w3", "b3"), parameters, x, labels).items():
    expect_near(gradients[name], want, {}, f"the gradient of {name}, {what},")
single = {name: value.astype(np.float32) for name, value in parameters.items()}
with layers_by_definition():
    loss, gradients = loss_and_gradients(single, x.astype(np.float32), labels)
for name, found in [("loss", loss), *gradients.items()]:
    assert np.asarray(found).dtype == np.float32, (
        "parameters and images have dtype float32, but "
        f"{'the loss' if name == 'loss' else f'the gradient of {name}'} has dtype "
        f"{np.asarray(found).dtype}"
    )
### BEGIN HIDDEN TESTS
# Not detected: derivatives by steps with another convolution than the given one. They
# are more work than back-propagation, and training with them would exceed the limit.
fresh = fresh_rng(12)


def lively_network(names, N, pixels=6, **sizes):
    """Return a network and the gradients of these parameters, none so small that steps are inexact.

    Its ReLUs are on both sides of 0, and none is so near that a step crosses it.
    """
    while True:
        p, x, labels = network(int(fresh.integers(2**31)), N, pixels, **sizes)
        first = convolution(x, p["w1"], p["b1"])
        second = np.maximum(first, 0).reshape(N, -1) @ p["w2"] + p["b2"]
        layers = (first, second)
        if all(
            np.any(s < 0) and np.any(s > 0) and np.all(np.abs(s) > 5e-4) for s in layers
        ):
            wants = gradients_of(names, p, x, labels)
            if all(np.abs(want).max() > 0.1 for want in wants.values()):
                return p, x, labels, wants


for N, sizes in [
    (1, {"K": 1, "hidden": 2, "classes": 2}),
    (3, {"pixels": 5, "K": 3, "hidden": 4, "classes": 4, "k": 2}),
]:
    parameters, x, labels, wants = lively_network(("w3", "b3"), N, **sizes)
    with layers_by_definition():
        loss, gradients = loss_and_gradients(parameters, x, labels)
    assert sorted(gradients) == sorted(parameters), (
        f"the gradients have the names {sorted(gradients)}; they should be {sorted(parameters)}"
    )
    expect(
        float(loss),
        float(network_by_definition(parameters, x, labels)),
        name="the loss of other sizes",
    )
    for name, want in wants.items():
        expect_near(
            gradients[name],
            want,
            {},
            f"the gradient of {name}, with a batch of {N},",
            1e-7,
        )
stretched = {
    "w2": 4096 * parameters["w2"],
    "b2": 4096 * parameters["b2"],
    "w3": parameters["w3"] / 4096,
}
with layers_by_definition():
    _, gradients = loss_and_gradients(parameters | stretched, x, labels)
want = 4096 * wants["w3"]  # the inputs are 4096 times as large
expect_near(gradients["w3"], want, {}, "a large gradient of w3")
double, x, _, _ = lively_network(("b3",), 3, pixels=5, K=2, hidden=3, classes=3)
labels = fresh.permutation([0, 0, 1])  # a gradient of b3 that is not near 0
single = {name: value.astype(np.float32) for name, value in double.items()}
with layers_by_definition():
    loss, wide = loss_and_gradients(double, x, labels)
for name, found in [("loss", loss), *wide.items()]:
    assert np.asarray(found).dtype == np.float64, (
        f"all arguments have dtype float64, but {name} has dtype "
        f"{np.asarray(found).dtype}"
    )
with layers_by_definition():
    loss, gradients = loss_and_gradients(single, x.astype(np.float32), labels)
for name, gradient in gradients.items():
    assert gradient.dtype == np.float32, (
        f"all arguments have dtype float32, but {name} has dtype {gradient.dtype}"
    )
    expect_near(gradient, wide[name], {}, f"the gradient of {name} in float32", 1e-4)
### END HIDDEN TESTS

# %% check="network-hidden" points=1 see="2.3"
"""The gradients of the first dense layer, w2 and b2: through one ReLU (1 point).

The hidden tests use other sizes and larger gradients, and compare more digits.
"""
parameters, x, labels = network(2, N=4, pixels=5, K=2, hidden=3, classes=3)
with layers_by_definition():
    _, gradients = loss_and_gradients(parameters, x, labels)
for name, want in gradients_of(("w2", "b2"), parameters, x, labels).items():
    hints = {
        "it was divided by the number of images again.": want / 4,
        "it was summed.": 4 * want,
    }
    expect_near(gradients[name], want, hints, f"the gradient of {name}")
### BEGIN HIDDEN TESTS
# Not detected: as in the check of the classifier.
fresh = fresh_rng(13)


def lively_network(names, N, pixels=6, **sizes):
    """Return a network and the gradients of these parameters, none so small that steps are inexact.

    Its ReLUs are on both sides of 0, and none is so near that a step crosses it.
    """
    while True:
        p, x, labels = network(int(fresh.integers(2**31)), N, pixels, **sizes)
        first = convolution(x, p["w1"], p["b1"])
        second = np.maximum(first, 0).reshape(N, -1) @ p["w2"] + p["b2"]
        layers = (first, second)
        if all(
            np.any(s < 0) and np.any(s > 0) and np.all(np.abs(s) > 5e-4) for s in layers
        ):
            wants = gradients_of(names, p, x, labels)
            if all(np.abs(want).max() > 0.1 for want in wants.values()):
                return p, x, labels, wants


for N, sizes in [
    (1, {"K": 1, "hidden": 5, "classes": 2}),
    (3, {"pixels": 5, "K": 3, "hidden": 4, "classes": 4, "k": 2}),
]:
    parameters, x, labels, wants = lively_network(("w2", "b2"), N, **sizes)
    with layers_by_definition():
        _, gradients = loss_and_gradients(parameters, x, labels)
    for name, want in wants.items():
        expect_near(
            gradients[name],
            want,
            {},
            f"the gradient of {name}, with a batch of {N},",
            1e-7,
        )
stretched = {
    "w1": 4096 * parameters["w1"],
    "b1": 4096 * parameters["b1"],
    "w2": parameters["w2"] / 4096,
}
with layers_by_definition():
    _, gradients = loss_and_gradients(parameters | stretched, x, labels)
want = 4096 * wants["w2"]  # the inputs are 4096 times as large
expect_near(gradients["w2"], want, {}, "a large gradient of w2")
### END HIDDEN TESTS

# %% check="network-convolution" points=1 see="2.3"
"""The gradients of the convolution, w1 and b1: through two ReLUs (1 point).

The hidden tests use other sizes, larger gradients and ReLUs on their kink, and compare
more digits.
"""
parameters, x, labels = network(3, N=4, pixels=5, K=2, hidden=3, classes=3)
with layers_by_definition():
    _, gradients = loss_and_gradients(parameters, x, labels)
for name, want in gradients_of(("w1", "b1"), parameters, x, labels).items():
    hints = {
        "it was divided by the number of images again.": want / 4,
        "it was summed.": 4 * want,
    }
    expect_near(gradients[name], want, hints, f"the gradient of {name}")
### BEGIN HIDDEN TESTS
# Not detected: as in the check of the classifier.
fresh = fresh_rng(14)


def lively_network(names, N, pixels=6, **sizes):
    """Return a network and the gradients of these parameters, none so small that steps are inexact.

    Its ReLUs are on both sides of 0, and none is so near that a step crosses it.
    """
    while True:
        p, x, labels = network(int(fresh.integers(2**31)), N, pixels, **sizes)
        first = convolution(x, p["w1"], p["b1"])
        second = np.maximum(first, 0).reshape(N, -1) @ p["w2"] + p["b2"]
        layers = (first, second)
        if all(
            np.any(s < 0) and np.any(s > 0) and np.all(np.abs(s) > 5e-4) for s in layers
        ):
            wants = gradients_of(names, p, x, labels)
            if all(np.abs(want).max() > 0.1 for want in wants.values()):
                return p, x, labels, wants


for N, sizes in [
    (1, {"K": 1, "hidden": 5, "classes": 2}),
    (3, {"pixels": 5, "K": 3, "hidden": 4, "classes": 4, "k": 2, "channels": 2}),
]:
    parameters, x, labels, wants = lively_network(("w1", "b1"), N, **sizes)
    with layers_by_definition():
        _, gradients = loss_and_gradients(parameters, x, labels)
    for name, want in wants.items():
        expect_near(
            gradients[name],
            want,
            {},
            f"the gradient of {name}, with a batch of {N},",
            1e-7,
        )
with layers_by_definition():
    _, gradients = loss_and_gradients(
        parameters | {"w1": parameters["w1"] / 4096}, 4096 * x, labels
    )
want = 4096 * wants["w1"]  # the inputs are 4096 times as large
expect_near(gradients["w1"], want, {}, "a large gradient of w1")
want, sizes = np.zeros(3), {"K": 3, "hidden": 4, "classes": 4, "k": 2, "channels": 2}
while np.abs(want).max() < 0.02:
    parameters, x, labels, _ = lively_network(("b1",), 3, pixels=5, **sizes)
    x[:, :2] = (
        0  # black rows and biases of zero: ReLUs on their kink, where the slope is 0
    )
    on_kinks = parameters | {"b1": np.zeros(3)}
    here = network_by_definition(on_kinks, x, labels)
    steps = 1e-6 * np.eye(3)  # to the left
    lefts = [
        network_by_definition(on_kinks | {"b1": -step}, x, labels) for step in steps
    ]
    want = np.array([(here - left) / 1e-6 for left in lefts])
with layers_by_definition():
    _, gradients = loss_and_gradients(on_kinks, x, labels)
expect_near(gradients["b1"], want, {}, "the gradient of b1 on kinks", 1e-4)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Sample and update
#
# SGD repeats four steps: **sample** a batch, **forward** pass, **backward** pass,
# **update**. You have already written the forward and the backward pass.
#
# *Sample.* Each epoch visits every image once, in random order. (The lecture's `sgd`
# draws with replacement instead.) If the batch size does not divide the number of
# images, the last batch is smaller. The order must depend only on the seed, the epoch
# and the number of images, so that a run can be repeated.
# `np.random.default_rng([seed, epoch])` returns a generator with this property. The sum
# of seed and epoch is not a sufficient seed: epoch 1 of seed 0 would have the same
# order as epoch 0 of seed 1.


# %% solution="batches"
def batches(n, batch, seed, epoch):
    """Return the batches of one epoch: a list of arrays of indices from 0 to n - 1.

    Each array has `batch` indices; the last one may have fewer.
    """
    assert n > 0 and batch > 0, f"cannot make batches of {batch} images from {n} images"
    ### BEGIN SOLUTION
    order = np.random.default_rng([seed, epoch]).permutation(n)
    chosen = [order[i : i + batch] for i in range(0, n, batch)]
    ### END SOLUTION
    return chosen


# %% [markdown]
# Each line shows one epoch of seven images. Does each line contain the numbers 0 to 6,
# and do the two orders differ?

# %%
for epoch in range(2):
    print(epoch, batches(7, 3, seed=0, epoch=epoch))

# %% check="batches-cover" points=1 see="2.4"
"""Each image once per epoch; only the last batch may be smaller (1 point).

The hidden tests use other numbers of images, batch sizes, seeds and epochs.
"""
for n, batch in [(7, 3), (6, 3), (5, 8), (100, 32)]:
    found = [np.asarray(indices) for indices in batches(n, batch, seed=0, epoch=0)]
    hints = {
        "the last, smaller batch is missing; its images are never seen.": [batch]
        * (n // batch),
        "the last batch was filled up with images seen before.": [batch]
        * -(-n // batch),
    }
    want = [batch] * (n // batch) + [n % batch] * (n % batch > 0)
    lengths = [len(indices) for indices in found]
    expect(lengths, want, hints, f"the list of batch sizes of {n} images by {batch}")
    seen = np.sort(np.concatenate(found))
    assert np.array_equal(seen, np.arange(n)), (
        f"an epoch of {n} images visits {seen.tolist()}, not each image once"
    )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(15)
# Not detected: a wrong order, which is the next check.
for n, batch, seed, epoch in [
    (1, 1, 3, 0),  # the smallest
    (33, 32, 1, 5),  # a last batch of one image
    (3, 1, 0, 9),
    *fresh.integers([200, 5, 0, 0], [1000, 20, 10, 10], (3, 4)).tolist(),
]:
    found = [np.asarray(indices) for indices in batches(n, batch, seed, epoch)]
    lengths = [len(indices) for indices in found]
    assert lengths == [batch] * (n // batch) + [n % batch] * (n % batch > 0), (
        f"{n} images in batches of {batch}: the batch sizes are {lengths}"
    )
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(n)), (
        f"an epoch of {n} images in batches of {batch} does not visit each image once"
    )
### END HIDDEN TESTS

# %% check="batches-shuffled" points=1 see="2.4"
"""A different random order for each epoch and seed, always reproducible (1 point).

The hidden tests compare many seeds and epochs, and look for orders that are not random.
"""


def order_of(seed, epoch, n=384, batch=32):
    """Return all images of an epoch, in their order."""
    return np.concatenate(
        [np.asarray(indices) for indices in batches(n, batch, seed, epoch)]
    )


first, again = order_of(0, 0), order_of(0, 0)
assert np.array_equal(first, again), (
    "two calls with the same seed and epoch returned different orders"
)
for what, other in [
    ("epochs 0 and 1", order_of(0, 1)),
    ("seeds 0 and 1", order_of(1, 0)),
]:
    assert not np.array_equal(first, other), f"{what} have the same order"
assert not np.array_equal(order_of(0, 1), order_of(1, 0)), (
    "epoch 1 of seed 0 has the same order as epoch 0 of seed 1"
)
assert np.array_equal(first, order_of(0, 0, batch=48)), (
    "the order depends on the batch size; it should depend on the seed, the epoch and "
    "the number of images only"
)
### BEGIN HIDDEN TESTS
# Not detected: k · seed + epoch with a k that no run reaches, such as 10⁶: harmless.
# The seeds are not drawn: these pairs collide for the usual mistakes.
asked = [(seed, epoch) for seed in (0, 1, 2, 5) for epoch in (0, 1, 2, 5)]
asked += [(0, 10), (0, 100), (0, 1000), (1, 11), (11, 1), (1000, 0), (100, 0)]
orders = {one: order_of(*one) for one in asked}


def neighbours(order):
    """Return the pairs of consecutive images, in either direction."""
    pairs = np.stack([order[1:], order[:-1]], axis=1).tolist()
    return {(a, b) for a, b in pairs} | {(b, a) for a, b in pairs}


pairs = {one: neighbours(order) for one, order in orders.items()}
for one, order in orders.items():
    rises = np.mean(np.diff(order) > 0)
    assert 0.4 < rises < 0.6, (
        f"the images of an epoch are not in random order: {rises:.0%} of the "
        "neighbours rise"
    )
    parts = [set((order[i : i + 96] // 96).tolist()) for i in range(0, 384, 96)]
    assert all(len(part) == 4 for part in parts), (
        "some part of an epoch has no images of some part of the data set"
    )
    moved = np.mean(np.abs(order - np.arange(384)))
    assert moved > 100, "most images stay near their original position"
    assert abs(np.corrcoef(order, np.arange(384))[0, 1]) < 0.25, (
        "the order of an epoch correlates with the original order"
    )
    assert len(set((np.diff(order) % 384).tolist())) > 190, (
        "the differences between neighbours repeat"
    )
    for other, second in orders.items():
        same = np.mean(order == second)
        assert one == other or same < 0.05, (
            f"the orders of (seed, epoch) = {one} and {other} agree in {same:.0%} of "
            "their positions"
        )
        turn = np.mean((order - second) % 384 == (order[0] - second[0]) % 384)
        assert one == other or turn < 0.05, (
            f"the order of (seed, epoch) = {one} is that of {other} plus a constant"
        )
        shared = len(pairs[one] & pairs[other]) / 766
        assert one == other or shared < 0.05, (
            f"the orders of (seed, epoch) = {one} and {other} share {shared:.0%} of "
            "their pairs of neighbours"
        )
expect(
    order_of(2, 1), orders[2, 1], name="the order of a seed and an epoch, a second time"
)
expect(order_of(2, 1, batch=48), orders[2, 1], name="the order with another batch size")
large = order_of(3, 4, n=3072)
assert abs(np.corrcoef(large, np.arange(3072))[0, 1]) < 0.1, (
    "a buffer was shuffled, not all images"
)
short = (
    {e: order_of(0, e, 24, 24).tolist() for e in range(1, 130)},
    {s: order_of(s, 0, 24, 24).tolist() for s in range(1, 130)},
)
for k in range(1, 130):  # detects k · seed + epoch, and seed + k · epoch
    assert short[0][k] != short[1][1], f"seed 1 and epoch {k} have the same order"
    assert short[1][k] != short[0][1], f"epoch 1 and seed {k} have the same order"
### END HIDDEN TESTS

# %% [markdown]
# *Update.* Momentum keeps a decaying sum u of the gradients, one array per parameter w:
#
# $$ u \leftarrow m\,u + g, \qquad w \leftarrow w - \eta\,u. $$
#
# The sum u does not contain the learning rate, which can therefore change from step to
# step. While η is constant, the velocity v of the lecture equals −η u. The three
# dictionaries may list their names in different orders, so combine arrays that have the
# same name. If all arrays are float32, so are the new ones.


# %% solution="update"
def update(parameters, velocity, gradients, lr, momentum):
    """Make one step of SGD with momentum; return new parameters and a new velocity.

    parameters, velocity and gradients are dictionaries of arrays with the same names,
    in any order. velocity contains u, lr is η, momentum is m.
    """
    ### BEGIN SOLUTION
    velocity = {name: momentum * u + gradients[name] for name, u in velocity.items()}
    parameters = {name: w - lr * velocity[name] for name, w in parameters.items()}
    ### END SOLUTION
    return parameters, velocity


# %% [markdown]
# The next check also uses the helper below; there is nothing to fill in.


# %% given="changed-dictionaries"
def changed_dictionaries(parameters, velocity, gradients):
    """Return the names of the dictionaries whose entries update() replaces."""
    given = {"parameters": parameters, "velocity": velocity, "gradients": gradients}
    before = {name: dict(entries) for name, entries in given.items()}
    update(parameters, velocity, gradients, lr=0.1, momentum=0.5)
    return [
        name
        for name, entries in given.items()
        if any(entries.get(key) is not array for key, array in before[name].items())
    ]


# %% [markdown]
# The example takes three steps with a constant gradient of 1. Each line shows w and u,
# and u approaches 2. Why this number?

# %%
w, u = {"w": np.array([1.0])}, {"w": np.array([0.0])}
for _ in range(3):
    w, u = update(w, u, {"w": np.array([1.0])}, lr=0.1, momentum=0.5)
    print(w["w"], u["w"])

# %% check="momentum-by-hand" points=1 see="2.4"
"""Three steps by hand, the third with a lower learning rate (1 point).

Then the dictionaries list their names in different orders, and the arrays have dtype
float32. The hidden tests use other numbers, and values that a lower precision would
round.
"""
w, u, g = {"w": np.array([1.0, 0.0])}, {"w": np.zeros(2)}, {"w": np.array([1.0, -2.0])}
found = []
for lr in (0.1, 0.1, 0.01):
    with unchanged(w=w["w"], u=u["w"], g=g["w"]):
        w, u = update(w, u, g, lr, 0.5)
    found.append([round(float(w["w"][0]), 9), round(float(u["w"][0]), 9)])
changed = changed_dictionaries(w, u, g)
assert not changed, (
    f"update changed entries of {' and '.join(changed)}; return new dictionaries"
)
hints = {
    "the momentum is missing.": [[0.9, 1.0], [0.8, 1.0], [0.79, 1.0]],
    "u contains the learning rate, which may change from step to step.": [
        [0.9, 0.1],
        [0.75, 0.15],
        [0.665, 0.085],
    ],
    "the gradient was multiplied by 1 - m; the sum contains it unchanged.": [
        [0.95, 0.5],
        [0.875, 0.75],
        [0.86625, 0.875],
    ],
    "the step goes uphill.": [[1.1, 1.0], [1.25, 1.5], [1.2675, 1.75]],
    "w was moved by the velocity of the previous step.": [
        [1.0, 1.0],
        [0.9, 1.5],
        [0.885, 1.75],
    ],
    "this is Nesterov's momentum, which looks one step ahead.": [
        [0.85, 1.0],
        [0.675, 1.5],
        [0.65625, 1.75],
    ],
}
want = [[0.9, 1.0], [0.75, 1.5], [0.7325, 1.75]]
expect(found, want, hints, "the list of w[0] and u[0] after each of the three steps")
w, u, g = (
    {name: np.array(values, np.float32) for name, values in entries.items()}
    for entries in [
        {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]},
        {"b": [8.0, 4.0], "c": [0.0, 12.0], "a": [2.0, 6.0]},
        {"c": [1.0, 1.0], "a": [5.0, 7.0], "b": [1.0, 3.0]},
    ]
)
new_w, new_u = update(w, u, g, lr=0.5, momentum=0.25)
for what, found, want in [
    ("w", new_w, {"a": [-1.75, -2.25], "b": [1.5, 2.0], "c": [4.5, 4.0]}),
    ("u", new_u, {"a": [5.5, 8.5], "b": [3.0, 4.0], "c": [1.0, 4.0]}),
]:
    assert sorted(found) == ["a", "b", "c"], (
        f"the new dictionary of {what} has the names {sorted(found)}; it should have "
        "a, b and c"
    )
    for name, values in want.items():
        assert found[name].dtype == np.float32, (
            f"all arrays have dtype float32, but {what} of the parameter {name!r} has "
            f"dtype {found[name].dtype}"
        )
        assert found[name].tolist() == values, (
            f"{what} of the parameter {name!r} is {found[name].tolist()}; it should be "
            f"{values}. The three dictionaries list their names in different orders."
        )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(16)
# Not detected: another order of the operations, which changes the last digit only.
names = ["filters", "b", "w9"]
w, u, g = (
    {n: 1000 * integers(2, i + 1, rng=fresh) for i, n in enumerate(names)}
    for _ in range(3)
)
part = fresh.choice(np.arange(1, 8) / 8, 2, replace=False).tolist()
for lr, m in [part, (0.5, 0.0), (0.0, 0.5), (2.0, 1.0)]:  # and the limits
    new_w, new_u = update(w, u, g, lr, m)
    expect(sorted(new_w), sorted(names), name="the names of the parameters")
    for n in names:
        expect(new_u[n], m * u[n] + g[n], name=f"u for lr = {lr}, momentum = {m}")
        expect(
            new_w[n],
            w[n] - lr * (m * u[n] + g[n]),
            name=f"w for lr = {lr}, momentum = {m}",
        )
w, u, g = (
    {n: integers(3, rng=fresh) for n in order}
    for order in (names, names[::-1], names[1:] + names[:1])
)
new_w, new_u = update(w, u, g, *part)
for n in names:
    expect(
        new_u[n],
        part[1] * u[n] + g[n],
        name="u, if the dictionaries have the names in other orders",
    )
    expect(
        new_w[n],
        w[n] - part[0] * (part[1] * u[n] + g[n]),
        name="w, if the names are in other orders",
    )
for dtype, share in [(np.float64, 1e-14), (np.float32, 1e-6)]:
    w, u, g = ({"a": (fresh.uniform(1, 2, 40)).astype(dtype)} for _ in range(3))
    new_w, new_u = update(w, u, g, 0.3, 0.7)
    want_u = 0.7 * u["a"].astype(float) + g["a"]
    for name, got, want in [
        ("u", new_u["a"], want_u),
        ("w", new_w["a"], w["a"] - 0.3 * want_u),
    ]:
        assert got.dtype == dtype, (
            f"all arrays have dtype {np.dtype(dtype)}, but {name} has dtype {got.dtype}"
        )
        off = np.abs(got - want).max()
        assert off <= share * 4, f"{name} in {np.dtype(dtype)} is off by {off:.1e}"
### END HIDDEN TESTS

# %% [markdown]
# ## 7. The four steps
#
# Now combine the four steps. The velocity starts as one array of zeros per parameter,
# with the shape and dtype of the parameter, and is never reset during the training run.
# A new epoch changes only the order of the images. The run ends after exactly `updates`
# updates, even in the middle of an epoch.


# %% solution="train"
def train(parameters, x, labels, updates, batch, lr, momentum, seed):
    """Train by SGD with momentum; return the last parameters and a list of losses.

    x (n, H, W, C), labels (n,). The list contains one loss per update: that of its
    batch, with the parameters before this update. Epoch 0 is followed by epoch 1, and
    so on. Use batches, loss_and_gradients and update.
    """
    assert updates >= 0 and len(x) == len(labels), (
        f"{len(x)} images, {len(labels)} labels, {updates} updates"
    )
    ### BEGIN SOLUTION
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    losses, epoch = [], 0
    while len(losses) < updates:
        for indices in batches(len(x), batch, seed, epoch)[: updates - len(losses)]:
            loss, gradients = loss_and_gradients(
                parameters, x[indices], labels[indices]
            )
            parameters, velocity = update(parameters, velocity, gradients, lr, momentum)
            losses.append(float(loss))
        epoch += 1
    ### END SOLUTION
    assert len(losses) == updates, (
        f"the list has {len(losses)} losses; it should have {updates}, one per update"
    )
    return parameters, losses


# %% [markdown]
# The images are from Fashion-MNIST, reduced to 14 × 14 pixels so that an update takes
# milliseconds. Its 10,000 test images are enough here: we train on the first 3,000 and
# test on the next 2,000.


# %% given="images"
def load_images(first, count):
    """Return x (count, 14, 14, 1), with a mean of about 0, and labels (count,)."""
    x, labels = data.fashion_mnist("test", first + count)
    x = x[first:].reshape(count, 14, 2, 14, 2, 1).mean(axis=(2, 4))
    return (x - np.float32(0.29)) / np.float32(0.33), labels[first:]


def accuracy(parameters, x, labels):
    """Return the fraction of the images that the network classifies correctly."""
    p = parameters
    first = np.maximum(convolution(x, p["w1"], p["b1"]), 0)
    second = np.maximum(
        np.tensordot(first, p["w2"].reshape(*first.shape[1:], -1), 3) + p["b2"], 0
    )
    return float(
        np.mean(
            np.argmax(np.einsum("nh,hc->nc", second, p["w3"]) + p["b3"], axis=1)
            == labels
        )
    )


# %%
x_train, labels_train = load_images(0, 3_000)
x_test, labels_test = load_images(3_000, 2_000)
trained, losses = train(
    new_parameters(0),
    x_train,
    labels_train,
    UPDATES,
    BATCH,
    lr=0.01,
    momentum=0.0,
    seed=0,
)
print(f"{accuracy(trained, x_test, labels_test):.1%} correct after {UPDATES} updates")
plt.figure(figsize=(6, 2.5))
plt.plot(losses)
plt.axhline(np.log(10), linestyle="--", color="black", label="ln 10")
plt.xlabel("update")
plt.ylabel("loss of its batch")
plt.ylim(0, None)
plt.legend()
plt.show()

# %% [markdown]
# *Figure: the loss of each batch against the update number. The dashed line, ln 10, is
# the loss of equal logits. The curve should start near this line or above it, and fall
# below it within the first 50 updates. It should also stay noisy, because each batch
# contains different images.*

# %% check="four-steps" points=2 see="2.4"
"""Sample, forward, backward, update, in this order (2 points).

The hidden tests use other numbers of images and updates.
"""
seen, sampled = [], []


def recorded_batches(n, batch, seed, epoch):
    """Return images 4, 3 | 2, 1 | 0 in an even epoch, and the reverse in an odd one."""
    order = np.arange(n)[:: -1 if epoch % 2 == 0 else 1]
    sampled.append(f"{n} images by {batch}, seed {seed}, epoch {epoch}")
    return [order[i : i + batch] for i in range(0, n, batch)]


def recorded_gradients(parameters, x, labels):
    """Return the sum of the parameters as the loss, and gradients of 1."""
    seen.append(
        f"images {x.ravel().tolist()} labels {labels.tolist()} "
        f"at {parameters['a'].tolist()}"
    )
    return parameters["a"].sum(), {"a": np.ones(2)}


def recorded_update(parameters, velocity, gradients, lr, momentum):
    """Add 1 to each parameter and 10 to each velocity."""
    u = np.asarray(velocity.get("a", np.nan))
    seen.append(f"update u {u.tolist()} lr {lr} momentum {momentum}")
    return {"a": parameters["a"] + gradients["a"]}, {"a": u + 10}


start, five = {"a": np.array([5.0, 6.0])}, np.arange(5.0).reshape(5, 1) + 0.1
with (
    watched("batches", recorded_batches),
    watched("loss_and_gradients", recorded_gradients),
    watched("update", recorded_update),
    unchanged(a=start["a"], x=five),
):
    last, losses = train(
        start, five, np.arange(5) + 100, 4, batch=2, lr=0.1, momentum=0.9, seed=7
    )
epochs = [f"5 images by 2, seed 7, epoch {epoch}" for epoch in range(2)]
# A train that calls batches ahead, or once per update, is correct, too.
asked = list(dict.fromkeys(sampled))
assert asked[:2] == epochs, (
    f"train calls batches for {asked}; it should call it for {epochs}"
)
expected = [
    "images [4.1, 3.1] labels [104, 103] at [5.0, 6.0]",
    "update u [0.0, 0.0] lr 0.1 momentum 0.9",
    "images [2.1, 1.1] labels [102, 101] at [6.0, 7.0]",
    "update u [10.0, 10.0] lr 0.1 momentum 0.9",
    "images [0.1] labels [100] at [7.0, 8.0]",
    "update u [20.0, 20.0] lr 0.1 momentum 0.9",
    "images [0.1, 1.1] labels [100, 101] at [8.0, 9.0]",
    "update u [30.0, 30.0] lr 0.1 momentum 0.9",
]
for number, (found, want) in enumerate(zip(seen, expected, strict=False), start=1):
    assert found == want, (
        f"call {number} of loss_and_gradients or update is\n    {found}\nand should be\n"
        f"    {want}"
        + "\nThe velocity should contain one array per parameter, with its shape."
        * (found.startswith("update u ") and not found.startswith("update u ["))
    )
assert len(seen) == len(expected), (
    f"train calls loss_and_gradients and update {len(seen)} times for 4 updates; it "
    f"should call them {len(expected)} times. The last calls: {seen[-3:]}"
)
expect(last["a"], np.array([9.0, 10.0]), name="the array of parameters at the end")
expect(
    [float(loss) for loss in losses],
    [11.0, 13.0, 15.0, 17.0],
    name="the list of losses",
)


def no_update(parameters, velocity, gradients, lr, momentum):
    """Change nothing; record the dtype of the velocity."""
    seen.append(f"dtype {np.asarray(velocity['a']).dtype}")
    return parameters, velocity


for dtype in ("float32", "float64"):
    seen.clear()
    with (
        watched("batches", recorded_batches),
        watched("loss_and_gradients", recorded_gradients),
        watched("update", no_update),
    ):
        train({"a": np.ones(2, dtype)}, five, np.arange(5), 1, 2, 0.1, 0.9, seed=7)
    assert f"dtype {dtype}" in seen, (
        f"the parameters have dtype {dtype}, but the velocity has {seen[-1]}"
    )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(17)
# Not detected: nothing known. Each case has other numbers of images and updates.
seed, (rate, decay) = int(fresh.integers(2, 9)), fresh.uniform(0.2, 0.8, 2).tolist()
for updates, n, batch in [  # none, one, parts of epochs, batches larger than the data
    (0, 5, 2),
    (1, 5, 2),
    (9, 5, 2),
    (6, 4, 2),
    (8, 3, 5),
    (7, 7, 1),
]:
    start, images = {"a": integers(2, rng=fresh)}, integers(n, 2, rng=fresh)
    parameters, velocity, want, done, epoch = dict(start), {"a": np.zeros(2)}, [], 0, 0

    def of_batch(parameters, x, labels):
        """Return a loss that differs for each batch and for each order of labels."""
        towards = (x.T @ (1.0 + labels)) / len(x)
        return np.sum((parameters["a"] - towards) ** 2), {
            "a": parameters["a"] - towards
        }

    def one_update(parameters, velocity, gradients, lr, momentum):
        """SGD with momentum."""
        velocity = {"a": momentum * velocity["a"] + gradients["a"]}
        return {"a": parameters["a"] - lr * velocity["a"]}, velocity

    def some_batches(n, batch, seed, epoch):
        """Return an order that depends on all arguments."""
        order = np.roll(np.arange(n), epoch + seed)
        return [order[i : i + batch] for i in range(0, n, batch)]

    labels = np.arange(n) % 3
    while done < updates:
        for indices in some_batches(n, batch, seed, epoch)[: updates - done]:
            loss, gradients = of_batch(parameters, images[indices], labels[indices])
            parameters, velocity = one_update(
                parameters, velocity, gradients, rate, decay
            )
            want.append(float(loss))
            done += 1
        epoch += 1
    with (
        watched("batches", some_batches),
        watched("loss_and_gradients", of_batch),
        watched("update", one_update),
    ):
        last, losses = train(start, images, labels, updates, batch, rate, decay, seed)
    expect(
        last["a"],
        parameters["a"],
        name=f"the parameters after {updates} updates, {n} images by {batch}",
    )
    expect(
        [float(loss) for loss in losses], want, name=f"the losses of {updates} updates"
    )
### END HIDDEN TESTS

# %% [markdown]
# Does the network learn? The next check trains it with all your functions: 200 updates
# of 32 images, plain SGD with a rather low learning rate. More than 60% of 2,000 unseen
# images must be classified correctly. The hidden tests call your `train` with different
# images and a better learning rate, and require a higher accuracy. For these tests,
# `update` is replaced by a correct function that counts the updates.

# %% check="network-learns" points=2 see="2.4"
"""After 200 updates, more than 60% of unseen images are correct (2 points)."""
x, labels = load_images(0, 3_000)
trained, losses = train(
    new_parameters(1), x, labels, UPDATES, BATCH, lr=0.01, momentum=0.0, seed=1
)
reached = accuracy(trained, *load_images(3_000, 2_000))
assert reached > 0.60, (
    f"{reached:.1%} of the images are correct after {UPDATES} updates; more than 60% "
    f"should be. The loss went from {np.mean(losses[:20]):.2f} to "
    f"{np.mean(losses[-20:]):.2f}"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(18)
# Not detected: mistakes that cost a few percentage points; other checks detect them.
x, labels = load_images(5_000, 3_000)
x_unseen, labels_unseen = load_images(8_000, 2_000)
other_names = fresh.permutation(10)  # the classes have other numbers
# The seed is not drawn: how much is learnt depends on it.
start, made = new_parameters(5), []


def counted(parameters, velocity, gradients, lr, momentum):
    """SGD with momentum, from the parameters of the previous update."""
    for name, value in (made[-1] if made else start).items():
        assert np.array_equal(parameters[name], value), (
            f"{name} has changed between two updates"
        )
    velocity = {name: momentum * u + gradients[name] for name, u in velocity.items()}
    made.append(
        {name: value - lr * velocity[name] for name, value in parameters.items()}
    )
    return made[-1], velocity


with watched("update", counted) as calls:
    trained, _ = train(start, x, other_names[labels], UPDATES, BATCH, 0.1, 0.0, 5)
assert 0 < calls.count <= UPDATES, (
    f"train made {calls.count} updates; it may make 1 to {UPDATES}"
)
for name, value in made[-1].items():
    assert np.array_equal(trained[name], value), (
        f"{name} is not the result of the last update"
    )
reached = accuracy(made[-1], x_unseen, other_names[labels_unseen])
assert reached > 0.68, (
    f"{reached:.1%} of other images are correct; more than 68% should be"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. A recipe
#
# With the same 200 updates of 32 images the network can reach **at least 70%, as the
# mean of three training runs with different initial weights and orders.** Choose two
# numbers, the learning rate and the momentum. Lecture 02 shows the effect of a learning
# rate that is too low or too high. One idea saves many trials: if the gradient is
# constant for a while, how large does u become, and which learning rate would plain SGD
# need to move as far?


# %% solution="recipe"
def recipe():
    """Return learning rate and momentum for 200 updates: {"lr": float, "momentum": float}."""
    ### BEGIN SOLUTION
    chosen = {"lr": 0.02, "momentum": 0.9}
    ### END SOLUTION
    return chosen


# %% [markdown]
# The hidden tests use only these two numbers from your code. They train a correct
# network with different images and three different seeds, and average the three
# accuracies. So leave a margin: each of the two runs below should be clearly above 70%.

# %%
for seed in range(2):
    trained, _ = train(
        new_parameters(seed),
        x_train,
        labels_train,
        UPDATES,
        BATCH,
        **recipe(),
        seed=seed,
    )
    print(
        f"seed {seed}: {accuracy(trained, x_test, labels_test):.1%} correct, "
        f"with {recipe()}"
    )

# %% check="recipe-reaches" points=1 see="2.4"
"""With your numbers, three training runs reach 70% on average (1 point)."""
chosen = recipe()
assert sorted(chosen) == ["lr", "momentum"], (
    f"a recipe has the keys lr and momentum, not {sorted(chosen)}"
)
lr, momentum = float(chosen["lr"]), float(chosen["momentum"])
assert np.isfinite(lr) and lr > 0, (
    f"the learning rate is {lr}; it should be positive and finite"
)
assert 0 <= momentum < 1, (
    f"the momentum is {momentum}; it should be at least 0 and below 1"
)
### BEGIN HIDDEN TESTS
# Not detected: numbers tuned on all the images. The seeds here are different ones, and not
# drawn, because the accuracy depends on them.


def slopes(p, x, labels):
    """Return the gradients of the network."""
    s1 = convolution(x, p["w1"], p["b1"])
    a1 = np.maximum(s1, 0).reshape(len(x), -1)
    s2 = a1 @ p["w2"] + p["b2"]
    a2 = np.maximum(s2, 0)
    s3 = a2 @ p["w3"] + p["b3"]
    e = np.exp(s3 - s3.max(axis=1, keepdims=True))
    d3 = (
        e / e.sum(axis=1, keepdims=True) - np.eye(10, dtype=x.dtype)[labels]
    ) / np.float32(len(x))
    d2 = d3 @ p["w3"].T * (s2 > 0)
    _, dw1, db1 = convolution_gradient(
        (d2 @ p["w2"].T).reshape(s1.shape) * (s1 > 0), x, p["w1"]
    )
    below = {"w1": dw1, "b1": db1, "w2": a1.T @ d2, "b2": d2.sum(axis=0)}
    return below | {"w3": a2.T @ d3, "b3": d3.sum(axis=0)}


x, labels = load_images(5_000, 3_000)
x_unseen, labels_unseen = load_images(8_000, 2_000)
reached = []
for seed in (11, 12, 13):
    p, order = new_parameters(seed), np.random.default_rng(seed)
    u = {name: np.zeros_like(value) for name, value in p.items()}
    batch_of = [
        i for _ in range(3) for i in np.split(order.permutation(3_000)[:2_976], 93)
    ]
    with np.errstate(all="ignore"):
        for indices in batch_of[:UPDATES]:
            g = slopes(p, x[indices], labels[indices])
            u = {name: momentum * u[name] + g[name] for name in p}
            p = {name: p[name] - lr * u[name] for name in p}
        reached.append(accuracy(p, x_unseen, labels_unseen))
assert np.mean(reached) >= TARGET, (
    f"the mean accuracy of three runs is {np.mean(reached):.1%}; it should be at least 70%"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Does a wrong gradient show?
#
# Now introduce four faults on purpose. Each one multiplies some gradients by a number.
# For each fault, the cell below makes three training runs of 60 updates with your
# recipe. It compares them with three fault-free runs that start from the same weights
# and see the images in the same order.
#
# **Predict.** Which of these faults will be visible in the accuracy? Enter your
# predictions; they are not graded.

# %%
my_guess = {
    "filters frozen": None,
    "filters uphill": None,
    "last bias × 32": None,
    "hidden weights / 10": None,
}

# %% given="faults"
FAULTS = {
    "none": {},
    "filters frozen": {"w1": 0, "b1": 0},
    "filters uphill": {"w1": -1, "b1": -1},
    "last bias × 32": {"b3": 32},
    "hidden weights / 10": {"w2": 0.1},
}


def trained_with(factors, right, seed):
    """Return the accuracy after 60 updates with your recipe.

    The gradients are those of the function `right`, multiplied by `factors`.
    """

    def faulty(parameters, x, labels):
        loss, gradients = right(parameters, x, labels)
        return loss, {
            name: np.float32(factors.get(name, 1)) * g for name, g in gradients.items()
        }

    with watched("loss_and_gradients", faulty):
        done, _ = train(
            new_parameters(seed),
            x_train,
            labels_train,
            60,
            BATCH,
            **recipe(),
            seed=seed,
        )
    return accuracy(done, x_test, labels_test)


# %%
found = {
    name: [trained_with(factors, loss_and_gradients, seed) for seed in range(3)]
    for name, factors in FAULTS.items()
}
for name, accuracies in found.items():
    differ = [
        f"{100 * (a - b):+5.1f}" for a, b in zip(accuracies, found["none"], strict=True)
    ]
    print(
        f"{name:20} {' '.join(f'{a:.1%}' for a in accuracies)}   "
        f"minus none: {' '.join(differ)}"
    )

# %% [markdown]
# Each line shows the accuracies of three seeds, then their differences from the runs
# without a fault, in percentage points. First look at the *spread* of the first line:
# its highest accuracy minus its lowest. Then compare the differences in the other lines
# with this spread.

# %% [markdown]
# ### Written answer (2 points, graded manually)
#
# Answer with numbers from *your own* table, in about six sentences:
#
# 1. Which of the four faults would you have noticed from the accuracy alone? Count a
#    fault as noticed if, in most of its runs, the accuracy is lower than without a
#    fault by more than the spread. If the difference is about equal to the spread, both
#    answers are accepted. Quote your recipe, the spread, and the differences of two
#    faults: the one with the largest effect and the one with the smallest.
# 2. Why can a network whose filters never learn still reach a useful accuracy? And why
#    can a network learn even if one gradient is multiplied by a wrong factor?
# 3. Quote the line of *your* `check_gradient` that would detect "hidden weights / 10".
#    Then name a mistake that spoils training although your checker reports "right", and
#    explain why it does.

# %% [markdown] explain="wrong-gradients-learn" points=2
# ### BEGIN SOLUTION
# **Rubric.** The numbers are those of the student's own table. Language and length are
# not graded.
#
# | points | for |
# |---|---|
# | ½ | 1: the spread, the differences of two faults, and a verdict that fits them |
# | ½ | 2: the other layers have right gradients and can use random features |
# | ¼ | 2: a positive factor is another learning rate for that parameter |
# | ¼ | 3: a line of the student's own function that compares an entry with the slopes |
# | ½ | 3: a mistake that the checker cannot detect, with the reason |
#
# - *Visible faults*: the table depends on the recipe. Without a fault the accuracies
#   differ by 2 to 9 percentage points from seed to seed, so a student who trains only
#   once cannot judge a difference. The authors tried seven recipes. In all seven,
#   uphill filters have the largest effect, 4 to 61 percentage points, and would be
#   noticed in most runs. The other three faults usually cost less than 9 percentage
#   points. With a momentum of 0.9 and a learning rate of 0.02, the spread is 5: frozen
#   filters (1 to 3) and the last bias × 32 (1 to 7) mostly stay within the spread, and
#   hidden weights / 10 (4 to 6) are close to it. With plain SGD and a learning rate of
#   0.2 or more, frozen filters cost up to 42 points in some runs, and even all four
#   faults may be noticed.
# - *Why the rest learns*: the features of random filters still differ from image to
#   image, so the dense layers can use them. With a wrong but positive factor, the
#   direction is still downhill.
# - *The line*: the comparison of `gradient[place]` with the two slopes and the
#   tolerance, in any form. A gradient divided by 10 is off by 90% of its value.
# - *What the checker cannot detect*: anything wrong in the loss itself, as long as the
#   gradient belongs to that loss (labels assigned to other images, a ReLU missing in
#   both passes, inputs that are not scaled), and anything in the update (learning rate,
#   velocity, order of the images).
#
# **Two points.** "With 0.02 and 0.9, my three runs without a fault have 71, 67 and 72%,
# a spread of 5. Only the uphill filters (-9, -24, -4) mostly exceed it; with frozen
# filters (-3, -1, -2) I would have blamed the seed. The dense layers get correct
# gradients and learn to use random filters, but a factor only changes the learning rate
# of one parameter. `if abs(g - slope) > tolerance` finds the tenth. If the labels
# belong to other images, the checker says right, since the gradient is that of this
# loss."
#
# **One point.** "The uphill filters are noticed, they lose up to 24 points, frozen ones
# not (-1 to -3, my runs differ by 5), because the other layers still learn." (Nothing
# on the factor, no line, no mistake that the checker cannot detect.)
#
# **No points.** "All wrong gradients are noticed, because the loss does not fall." (The
# table says otherwise.)
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - A slope computed with a step has two errors, and the tolerance determines the step.
#   At a kink both slopes count, and in float32 some questions cannot be decided.
# - The gradients of a dense layer are two matrix products and a sum; the gradient of
#   softmax with cross-entropy has a short formula. Only the loss divides by the batch
#   size; the layers only sum.
# - Back-propagation keeps the inputs of each layer and visits the layers in reverse
#   order.
# - SGD consists of four steps: sample, forward, backward, update. A falling loss is
#   weak evidence that the gradients are right.
#
# ## Open questions
#
# 1. `convolution_gradient` also computes the gradient of the images, which the first
#    layer does not need. What fraction of its work is this, and how would you avoid it?
# 2. Which arrays must the forward pass keep, and how many bytes do they take for a
#    batch of 32? For a batch of 3,200?
# 3. Your gradient checker computes two losses per parameter. Back-propagation computes
#    all gradients for the cost of about two more forward passes. For how many
#    parameters is back-propagation cheaper?
# 4. A loss computed in float16 has an ε of about 0.001. What is the smallest tolerance
#    that a checker with the steps of this assignment could decide, and how are
#    gradients tested in practice if training uses float16?
