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
# # Assignment 08: large batches
#
# Sixteen processors can compute the gradient of sixteen times as many images in the time that one processor
# needs for its share. An epoch then has sixteen times fewer updates. **How must the learning rate change so
# that the network still learns as much per epoch?**
#
# In this assignment you
#
# - write the learning rate as a function of the step, with three rules, four warmups, and drops to a tenth,
# - average the gradient of a large batch, and correct the momentum when the learning rate changes,
# - plan an experiment in which two recipes differ in one thing only, and submit it as one sweep,
# - decide which claims your recorded runs support, which they contradict, and which they leave open.
#
# The background is lecture 08.
#
# What you submit:
#
# - *Blanks*: 9 cells marked `YOUR CODE HERE`, most of them one to six lines, and one written answer.
# - *Recorded runs*: the folder `runs/`, which section 6 creates.
# - *Points*: 20. The learning rate has 7 points, the gradient 1, momentum 3, the experiment 3, the interval
#   1, the conclusions 3 and the written answer 2.
# - *Graded automatically*: 18 points, in 14 checks. All have hidden tests, mostly with other inputs.
# - *Graded manually*: 2 points, for the written answer in section 9.
# - *Time*: 4 to 5 hours. Sections 1 to 3 take about 1.5 hours, sections 4 and 5 together 1 hour, section 6
#   half an hour, sections 7 and 8 together 1 hour, and section 9 half an hour. This is the authors' plan for
#   someone who has read lecture 08; no student's time was measured.
#
# A *check* is a cell of autograder tests. Fill in a blank, run the example below it, then its checks. A
# failed check states what it found. Everything is written in NumPy. The whole sweep takes less than a minute
# on two cores.
#
# | symbol | meaning |
# |---|---|
# | n | images in the small batch |
# | k | how many times as large the large batch is: kn images, k workers with n each |
# | η | the learning rate that suits the small batch |
# | W | length of the warmup, in updates |
#
# All your functions must follow two rules. They do not modify their arguments, not even the shapes of arrays,
# and their results depend only on the arguments, not on earlier calls.

# %% given="setup"
import itertools

import matplotlib.pyplot as plt
import numpy as np

from cluster import jobs
from cluster.checks import expect, fresh_rng, has_failed, in_place, once, watched
from cluster.jobs import log
from cluster.training import data

plt.style.use("cluster.course")
IMAGES, EPOCHS, BATCH, LR = 8_192, 10, 32, 0.08  # N, epochs, n, η
WARMUP, DROPS = 5, (7, 9)  # epochs of warmup; epochs at whose start the rate drops to a tenth
MOMENTUM, DECAY = 0.9, 1e-4
SEEDS = (0, 1, 2, 3, 4)
RULES, WARMUPS = ("none", "linear", "sqrt"), ("none", "constant", "gradual", "geometric")

# %% [markdown]
# ## 1. The target: three rules
#
# - **none**: keep η. The gradient of the larger batch is less noisy, but with k times fewer updates the
#   weights move only 1/k as far.
# - **linear**: kη. If the gradient hardly changes during k updates with η, one update with kη moves the
#   weights just as far.
# - **sqrt**: √k·η. The noise of a mean over kn images is √k times smaller. This rule keeps the noise of an
#   *update* (the learning rate times the gradient) the same.


# %% solution="target-rate"
def target_rate(lr, k, rule):
    """Return the learning rate for a batch k times as large: a float.

    lr     η, a float
    k      a whole number, at least 1
    rule   "none", "linear" or "sqrt"
    """
    assert rule in RULES, f"rule={rule!r} is not one of {', '.join(RULES)}"
    ### BEGIN SOLUTION
    return lr * {"none": 1, "linear": k, "sqrt": k**0.5}[rule]
    ### END SOLUTION


# %%
for rule in ("none", "linear", "sqrt"):
    print(f"{rule:7} {target_rate(0.1, 16, rule):.2f}")

# %% check="rules-by-hand" points=1 see="8.3"
"""η = 0.1 and k = 16: the rates are 0.1 without a rule, 1.6 (linear) and 0.4 (square root) (1 point).

The hidden tests use other values of η and k.
"""
expect(
    [round(float(target_rate(0.1, 16, rule)), 9) for rule in ("none", "linear", "sqrt")],
    [0.1, 1.6, 0.4],
    {
        "k and √k are exchanged: √k goes with the noise of the gradient, k with the number of updates.": [
            0.1,
            0.4,
            1.6,
        ],
        "the learning rate was divided; a larger batch takes a larger one.": [0.1, 0.00625, 0.025],
        "the root was taken of kη, not of k alone.": [0.1, 1.6, 1.264911064],
    },
    "the list of rates for none, linear and sqrt",
)
### BEGIN HIDDEN TESTS
# Not detected: a rate of another type with the same value, such as an int for an int η, which is harmless.
# Float32 and rounded rates fail at the tenth digit, and a rate that is cached by k fails with another η.
rng = fresh_rng(1)
for k in (9, 9, 1, *rng.integers([2, 20, 200, 3000], [9, 200, 3000, 9000]).tolist()):
    lr = float(rng.uniform(0.01, 0.3))
    found = [float(target_rate(lr, k, rule)) for rule in ("none", "linear", "sqrt")]
    wanted = [lr, lr * k, lr * np.sqrt(k).item()]
    assert np.allclose(found, wanted, rtol=1e-10, atol=0), (
        f"for η = {lr} and k = {k} the rates are {found}; they should be {wanted}"
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The way to the target: four warmups
#
# At the beginning the weights are random, and the gradient changes within a short distance. A learning rate
# that is suitable later may then move the weights so far that training does not recover. A *warmup* avoids
# this. It consists of the updates 0 to W − 1:
#
# - **none**: the target from update 0 on,
# - **constant**: η before update W, the target from update W on,
# - **gradual**: η at update 0, then equal *increments* up to the target at update W,
# - **geometric**: η at update 0, then equal *factors* up to the target at update W.
#
# The gradual warmup was introduced by Goyal et al., [Accurate, large minibatch
# SGD](https://arxiv.org/abs/1706.02677) (2017). Halfway through the warmup, which of
# the last two has the higher learning rate?


# %% solution="warmed-up"
def warmed_up(step, lr, target, steps, kind):
    """Return the learning rate of update `step` = 0, 1, … with a warmup from lr to target: a float.

    step     a whole number, also far beyond the warmup
    target   at least lr
    steps    W, a whole number, 0 for no warmup at all
    kind     "none", "constant", "gradual" or "geometric"
    """
    assert kind in WARMUPS, f"kind={kind!r} is not one of {', '.join(WARMUPS)}"
    ### BEGIN SOLUTION
    if kind == "none" or step >= steps:
        return target
    if kind == "constant":
        return lr
    if kind == "geometric":
        return lr * (target / lr) ** (step / steps)
    return lr + (target - lr) * step / steps
    ### END SOLUTION


# %% [markdown]
# At what learning rate does each line begin, where does it bend, and at what rate does
# it end?

# %%
plt.figure(figsize=(6, 2.5))
for kind, marker in zip(WARMUPS, "svo^", strict=True):
    rates = [warmed_up(t, 0.1, 0.8, 10, kind) for t in range(16)]
    plt.plot(rates, marker=marker, markersize=4, label=kind)
plt.xlabel("update")
plt.ylabel("learning rate")
plt.ylim(0, 0.9)
plt.legend()
plt.show()

# %% check="warmup-by-hand" points=2 see="8.2"
"""From η = 0.1 in four updates to 0.5 (none, constant), 0.9 (gradual) or 1.6 (geometric) (2 points).

The hidden tests use other rates and lengths.
"""
by_hand = {
    "none": (0.5, [0.5] * 6),
    "constant": (0.5, [0.1] * 4 + [0.5] * 2),
    "gradual": (0.9, [0.1, 0.3, 0.5, 0.7, 0.9, 0.9]),
    "geometric": (1.6, [0.1, 0.2, 0.4, 0.8, 1.6, 1.6]),
}
hints = {
    "none": {
        "with kind none, there is a warmup all the same.": [0.1, 0.2, 0.3, 0.4, 0.5, 0.5],
        "without a warmup the rate is the target, not η.": [0.1] * 6,
    },
    "constant": {
        "the warmup lasts one update too long: update W has the target.": [0.1] * 5 + [0.5],
        "the warmup is one update too short: the W updates from 0 to W - 1 have η.": [0.1] * 3 + [0.5] * 3,
        "a constant warmup keeps η throughout, then jumps.": [0.1, 0.2, 0.3, 0.4, 0.5, 0.5],
    },
    "gradual": {
        "it starts at 0; the gradual warmup starts at η, the rate that suits one worker.": [
            0.0,
            0.225,
            0.45,
            0.675,
            0.9,
            0.9,
        ],
        "update 0 has grown already; it should have η.": [0.3, 0.5, 0.7, 0.9, 0.9, 0.9],
        "update W - 1 has the target already; from update 0 to update W there are W increments.": [
            0.1,
            0.366666667,
            0.633333333,
            0.9,
            0.9,
            0.9,
        ],
        "the increments add up to the target; together they should be target - η.": [
            0.1,
            0.325,
            0.55,
            0.775,
            0.9,
            0.9,
        ],
        "each update adds η; W equal increments should lead from η to the target.": [
            0.1,
            0.2,
            0.3,
            0.4,
            0.9,
            0.9,
        ],
        "it grows by equal factors; the increments should be equal.": [
            0.1,
            0.173205081,
            0.3,
            0.519615242,
            0.9,
            0.9,
        ],
        "it continues to grow after update W.": [0.1, 0.3, 0.5, 0.7, 0.9, 1.1],
    },
    "geometric": {
        "it grows by equal increments; each rate should be the one before times the same factor.": [
            0.1,
            0.475,
            0.85,
            1.225,
            1.6,
            1.6,
        ],
        "update 0 has grown already; it should have η.": [0.2, 0.4, 0.8, 1.6, 1.6, 1.6],
        "it continues to grow after update W.": [0.1, 0.2, 0.4, 0.8, 1.6, 3.2],
    },
}
for kind, (target, want) in by_hand.items():
    found = [round(float(warmed_up(t, 0.1, target, 4, kind)), 9) for t in range(6)]
    expect(found, want, hints.get(kind), f"the list of rates of updates 0 to 5 with warmup {kind}")
### BEGIN HIDDEN TESTS
# Not detected: a target below η, which the docstring excludes. Rounded rates and float32 fail at the tenth
# digit. Several rates are used with the same length, so a ramp that is cached by its length fails.
by_formula = {
    "none": lambda lr, target, part: target,
    "constant": lambda lr, target, part: lr if part < 1 else target,
    "gradual": lambda lr, target, part: lr + (target - lr) * min(part, 1),
    "geometric": lambda lr, target, part: lr * (target / lr) ** min(part, 1),
}
rng = fresh_rng(2)
length = int(rng.integers(9, 20))
for kind, rate in by_formula.items():
    for lr, times, W in zip(*rng.uniform([[0.01], [4]], [[0.1], [30]], (2, 3)), (6, 6, length), strict=True):
        lr, target = float(lr), float(times * lr)
        found = [float(warmed_up(t, lr, target, W, kind)) for t in range(W + 3)]
        wanted = [rate(lr, target, t / W) for t in range(W + 3)]
        assert np.allclose(found, wanted, rtol=1e-10, atol=0), (
            f"with warmup {kind} and W = {W} the rates are {found}; they should be {wanted}"
        )
### END HIDDEN TESTS

# %% check="warmup-edges" points=1 see="8.2"
"""A warmup of 100 updates, and updates long after it (1 point).

The hidden tests use the edges of what the docstring allows: W = 0, W = 1, W = 5,000, a target equal to η, a
late update.
"""
# AUTOTEST [float(warmed_up(t, 0.05, 1.6, 100, "gradual")) for t in (0, 1, 50, 99, 100, 101, 5000)]
# AUTOTEST [float(warmed_up(t, 0.05, 1.6, 100, "constant")) for t in (0, 99, 100, 5000)]
# AUTOTEST [float(warmed_up(t, 0.05, 1.6, 100, "geometric")) for t in (0, 1, 50, 99, 100, 5000)]
### BEGIN HIDDEN TESTS
# Not detected: a loop over the updates, which is right and fast enough for these numbers. A recursion over
# the updates fails with the longest warmup, as it does in the example of section 3.
rng = fresh_rng(3)
lr = float(rng.uniform(0.05, 0.2))
for kind in WARMUPS:
    at_once = float(warmed_up(0, lr, 4 * lr, 0, kind))
    assert np.isclose(at_once, 4 * lr), (
        f"with W = 0 update 0 has the rate {at_once}; it should be the target, {4 * lr} (kind {kind})"
    )
    flat = [float(warmed_up(t, lr, lr, 5, kind)) for t in range(8)]
    assert np.allclose(flat, lr), (
        f"if the target is η = {lr}, all rates should be {lr}; they are {flat} (kind {kind})"
    )
    one = [float(warmed_up(t, lr, 4 * lr, 1, kind)) for t in range(3)]
    first = 4 * lr if kind == "none" else lr
    assert np.allclose(one, [first, 4 * lr, 4 * lr]), (
        f"with W = 1 the rates are {one}; they should be {[first, 4 * lr, 4 * lr]} (kind {kind})"
    )
    halfway = {"none": 4 * lr, "constant": lr, "gradual": 2.5 * lr, "geometric": 2 * lr}[kind]
    middle = float(warmed_up(2_500, lr, 4 * lr, 5_000, kind))
    assert np.isclose(middle, halfway), (
        f"halfway through a warmup of 5,000 updates the rate is {middle}, not {halfway} (kind {kind})"
    )
    late = float(warmed_up(450_000, lr, 32 * lr, 100, kind))
    assert np.isclose(late, 32 * lr), (
        f"long after the warmup the rate is {late}; it should be {32 * lr} (kind {kind})"
    )
W = int(rng.choice([7, 8]))  # no length that occurred before
rises = np.diff([float(warmed_up(t, lr, 3 * lr, W, "gradual")) for t in range(W + 1)])
assert np.allclose(rises, 2 * lr / W), f"the gradual increments are {rises}; each should be {2 * lr / W:.6f}"
grows = np.log([float(warmed_up(t, lr, 3 * lr, W, "geometric")) for t in range(W + 1)])
factors = np.exp(np.diff(grows))
assert np.allclose(factors, 3 ** (1 / W)), f"the factors are {factors}; each should be {3 ** (1 / W):.6f}"
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The whole schedule
#
# Plans are stated in *epochs*, which are counted from 0. Here the warmup lasts five epochs, and the learning
# rate drops to a tenth at the start of epoch 7 and to a tenth of that at the start of epoch 9. The optimizer
# counts *updates*, and with a large batch an epoch has k times fewer of them. The same plan in epochs is then
# a different plan in updates.


# %% solution="learning-rate"
def learning_rate(step, k, rule, warmup, steps_an_epoch, lr=LR, warmup_epochs=WARMUP, drops=DROPS):
    """Return the learning rate of update `step` = 0, 1, …: a float.

    k, rule         the target is target_rate(lr, k, rule)
    warmup          the kind of warmup, one that warmed_up() knows; it lasts warmup_epochs epochs
    steps_an_epoch  number of updates per epoch
    drops           epochs, ascending: at the first update of each of them, the rate drops to a tenth of
                    what it was before
    """
    assert all(epoch >= warmup_epochs for epoch in drops), "no drop may come before the end of the warmup"
    ### BEGIN SOLUTION
    target = target_rate(lr, k, rule)
    rate = warmed_up(step, lr, target, warmup_epochs * steps_an_epoch, warmup)
    fallen = sum(step >= epoch * steps_an_epoch for epoch in drops)
    return rate * 0.1**fallen
    ### END SOLUTION


# %% [markdown]
# Both lines bend at the same epochs. At which updates does each line bend?

# %%
for k in (1, 16):
    S = IMAGES // (k * BATCH)
    rates = [learning_rate(t, k, "linear", "gradual", S) for t in range(EPOCHS * S)]
    times = np.arange(EPOCHS * S) / S
    plt.plot(times, rates, marker="", drawstyle="steps-post", label=f"k = {k}, {EPOCHS * S:,} updates")
plt.xlabel("epoch")
plt.ylabel("learning rate")
plt.yscale("log")
plt.legend()
plt.show()


# %% given="follows"
def follows():
    """Return whether a check of target_rate or warmed_up has failed.

    The checks of the schedule then deduct no further points for the same mistake.
    """
    faulty = [name for name in ("rules-by-hand", "warmup-by-hand", "warmup-edges") if has_failed(name)]
    if faulty:
        print(f"Correct {' and '.join(faulty)} first. The hidden tests of this check replace both functions.")
    return bool(faulty)


# %% check="schedule-by-hand" points=2 see="8.4"
"""η = 0.1, k = 4, two updates per epoch, two epochs of warmup, drops at epochs 3 and 4 (2 points).

The hidden tests use another plan with each rule and each warmup.
"""
plan = {"steps_an_epoch": 2, "lr": 0.1, "warmup_epochs": 2, "drops": (3, 4)}
warm = [0.1, 0.175, 0.25, 0.325, 0.4, 0.4]
judged = range(0) if follows() else range(10)
expect(
    [round(float(learning_rate(t, 4, "linear", "gradual", **plan)), 9) for t in judged],
    [*warm, 0.04, 0.04, 0.004, 0.004][: len(judged)],
    {
        "drops and warmup were counted in updates; they are given in epochs.": [0.1, 0.25, 0.4]
        + [0.04]
        + [0.004] * 6,
        "the warmup was counted in updates; it is given in epochs.": [0.1, 0.25]
        + [0.4] * 4
        + [0.04, 0.04, 0.004, 0.004],
        "the drops were counted in updates; they are given in epochs.": [0.1, 0.175, 0.25]
        + [0.0325]
        + [0.004] * 6,
        "the second drop starts from the target again; each drop leaves a tenth of the rate before.": [*warm]
        + [0.04] * 4,
        "a drop comes one update late; it should come with the first update of its epoch.": [*warm, 0.4]
        + [0.04] * 2
        + [0.004],
        "the rate drops to a tenth of η; it should drop to a tenth of kη.": [*warm, 0.01, 0.01, 0.001, 0.001],
        "the rate changes once per epoch; the warmup grows with each update.": [0.1] * 2
        + [0.25] * 2
        + [0.4, 0.4, 0.04, 0.04, 0.004, 0.004],
        "there is no drop, although drops is (3, 4).": [*warm] + [0.4] * 4,
    },
    "the list of rates of updates 0 to 9",
)


### BEGIN HIDDEN TESTS
# Not detected: drops that are not ascending, which the docstring excludes. A mistake in target_rate or
# warmed_up costs the points of its own checks only.
def by_rule(lr, k, rule):
    return lr * {"none": 1, "linear": k, "sqrt": k**0.5}[rule]


def by_kind(step, lr, target, steps, kind):
    if kind == "none" or step >= steps:
        return target
    part = step / steps
    return {"constant": lr, "gradual": lr + part * (target - lr), "geometric": lr * (target / lr) ** part}[
        kind
    ]


rng = fresh_rng(4)
S, epochs, k, more = rng.integers([2, 2, 5, 2], [5, 4, 13, 4]).tolist()
lr, drops = float(rng.uniform(0.03, 0.1)), (epochs + 1, epochs + 1 + more)
for rule in RULES:
    for kind in WARMUPS:
        high = by_rule(lr, k, rule)
        want = [by_kind(t, lr, high, S * epochs, kind) for t in range(S * (drops[1] + 1))]
        want = [rate / 10 ** sum(t >= S * drop for drop in drops) for t, rate in enumerate(want)]
        with watched("target_rate", by_rule), watched("warmed_up", by_kind):
            found = [float(learning_rate(t, k, rule, kind, S, lr, epochs, drops)) for t in range(len(want))]
        assert np.allclose(found, want, rtol=1e-10, atol=0), (
            f"with rule {rule} and warmup {kind} the rates are {found}; they should be {want}"
        )
### END HIDDEN TESTS

# %% check="schedule-of-each" points=1 see="8.4"
"""Other plans, and other pairs of rules and warmups (1 point).

The hidden tests use plans with three drops or none, without a warmup, with one update per epoch, and with a
drop at the end of the warmup.
"""
plan = {"steps_an_epoch": 2, "lr": 0.1, "warmup_epochs": 2, "drops": (3, 4)}
if not follows():
    small = [round(float(learning_rate(t, 1, "linear", "gradual", **plan)), 9) for t in range(10)]
    assert np.allclose(small[:6], 0.1), (
        f"with k = 1 the target is η = 0.1, but the rates of updates 0 to 5 are {small[:6]}"
    )
    for rule, warmup, first in [("sqrt", "none", 0.32), ("linear", "constant", 0.08)]:
        high = {"sqrt": 0.32, "linear": 1.28}[rule]
        expect(
            [float(learning_rate(t, 16, rule, warmup, 16)) for t in (0, 79, 80, 111, 112, 143, 144, 159)],
            [first] * 2 + [high] * 2 + [high / 10] * 2 + [high / 100] * 2,
            name=f"the list of rates of η = 0.08, k = 16, rule {rule} and warmup {warmup} at eight updates",
        )


### BEGIN HIDDEN TESTS
# Not detected: nothing known for plans that the docstring allows. This plan has the same k and some of the
# same updates as the visible plan of the previous check, so a rate that is cached by its update fails.
def by_rule(lr, k, rule):
    return lr * {"none": 1, "linear": k, "sqrt": k**0.5}[rule]


def by_kind(step, lr, target, steps, kind):
    if kind == "none" or step >= steps:
        return target
    part = step / steps
    return {"constant": lr, "gradual": lr + part * (target - lr), "geometric": lr * (target / lr) ** part}[
        kind
    ]


rng = fresh_rng(5)
S, lr = int(rng.integers(5, 10)), float(rng.uniform(0.1, 0.4))
others = {"steps_an_epoch": S, "lr": lr, "warmup_epochs": 1, "drops": (2, 4, 5)}
some = (0, S, 2 * S - 1, 2 * S, 4 * S - 1, 4 * S, 5 * S - 1, 5 * S)
for rule, high in [("none", lr), ("sqrt", 2 * lr), ("linear", 4 * lr)]:
    for kind, first in [("none", high), ("constant", lr), ("gradual", lr)]:
        with watched("target_rate", by_rule), watched("warmed_up", by_kind):
            found = [float(learning_rate(t, 4, rule, kind, **others)) for t in some]
        fallen = [high] * 2 + [high / 10] * 2 + [high / 100] * 2 + [high / 1000]
        assert np.allclose(found, [first, *fallen]), (
            f"with rule {rule} and warmup {kind} the rates are {found}; they should be {[first, *fallen]}"
        )
with watched("target_rate", by_rule), watched("warmed_up", by_kind):
    no_drops = float(learning_rate(40, 2, "linear", "gradual", 4, lr=lr, warmup_epochs=3, drops=()))
    plan = {"steps_an_epoch": 2, "lr": lr, "warmup_epochs": 0, "drops": (1,)}
    no_warmup = [float(learning_rate(t, 4, "linear", "gradual", **plan)) for t in range(4)]
    plan = {"steps_an_epoch": 2, "lr": lr, "warmup_epochs": 1, "drops": (1, 2)}
    at_once = [float(learning_rate(t, 4, "linear", "gradual", **plan)) for t in range(5)]
    plan = {"steps_an_epoch": 1, "lr": lr, "warmup_epochs": 2, "drops": (3, 6)}
    one_each = [float(learning_rate(t, 3, "linear", "gradual", **plan)) for t in range(7)]
assert np.isclose(no_drops, 2 * lr), (
    f"without drops the rate is {no_drops}; it should stay at the target, {2 * lr}"
)
for case, found, times in [
    ("a warmup of 0 epochs", no_warmup, [4, 4, 0.4, 0.4]),
    ("a drop at the end of the warmup", at_once, [1, 2.5, 0.4, 0.4, 0.04]),
    ("one update per epoch", one_each, [1, 2, 3, 0.3, 0.3, 0.3, 0.03]),
]:
    want = [lr * one for one in times]
    assert np.allclose(found, want), f"with {case} the rates are {found}; they should be {want}"
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The gradient of a large batch
#
# Each of k workers sums the gradients of its own images, and the sums are communicated. The loss to minimise
# is the *mean over all images*, plus the weight decay ½λ|w|² *once*. Two mistakes may go unnoticed with few
# workers. One is to divide each worker's sum by its own number of images and to add up the results, which
# makes the gradient of the loss about k times too large. The other is to let each worker add its own λw.


# %% solution="batch-gradient"
def batch_gradient(sums, seen, w, decay):
    """Return the gradient of the loss over the images of all workers, with weight decay: an array (d,).

    sums    (k, d): row j is the sum, over the images of worker j, of the gradients of their losses
    seen    (k,) the number of images of each worker, at least 1; the numbers may differ
    w       (d,) the weights
    decay   λ
    """
    sums, seen, w = np.asarray(sums), np.asarray(seen), np.asarray(w)
    assert sums.shape == (*seen.shape, *w.shape), f"sums {sums.shape}, seen {seen.shape}, w {w.shape}"
    ### BEGIN SOLUTION
    return sums.sum(axis=0) / seen.sum() + decay * w
    ### END SOLUTION


# %% [markdown]
# The first of two workers has three images, the second has one. Compute the result by hand first.

# %%
print(batch_gradient([[3.0, 0.0], [5.0, 4.0]], [3, 1], w=[10.0, -10.0], decay=0.1))

# %% check="gradient-by-hand" points=1 see="8.2"
"""Two workers with three images and one, and λ = 0.1 (1 point).

The hidden tests use other numbers of workers, and sums that nearly cancel and leave a small gradient.
"""
sums, seen, w = np.array([[3.0, 0.0], [5.0, 4.0]]), np.array([3, 1]), np.array([10.0, -10.0])
expect(
    batch_gradient(sums, seen, w, 0.1),
    np.array([3.0, 0.0]),
    {
        "it is the mean of the workers' means, but the workers have different numbers of images.": np.array(
            [4.0, 1.0]
        ),
        "the workers' means were added up; the mean is over all images.": np.array([7.0, 3.0]),
        "each row was added up, but a row is one worker's; add up the rows.": np.array([1.75, 1.25]),
        "each worker has added its weight decay; it belongs to the loss once.": np.array([4.0, -1.0]),
        "the weight decay was divided by the number of images, too; only the loss is a mean.": np.array(
            [2.25, 0.75]
        ),
        "the weight decay is missing.": np.array([2.0, 1.0]),
        "the decay was subtracted: the gradient of ½λ|w|² is λw.": np.array([1.0, 2.0]),
        "half of λw was added; it is λw once, not divided by 2 or by the workers.": np.array([2.5, 0.5]),
        "nothing was divided by the number of images.": np.array([9.0, 3.0]),
        "it was divided by the number of workers; the mean is over all images.": np.array([5.0, 1.0]),
    },
    "the gradient of two workers",
)
with in_place():
    before = sums.copy(), seen.copy(), w.copy()
    batch_gradient(sums, seen, w, 0.1)
    for name, now, then in zip(("sums", "seen", "w"), (sums, seen, w), before, strict=True):
        assert np.array_equal(now, then), f"batch_gradient has changed its argument {name}"
### BEGIN HIDDEN TESTS
# Not detected: λw computed in float32, and the dtype for float32 arguments. Both are harmless, because
# update() converts the gradient to float32.
rng = fresh_rng(6)
for k in (1, *rng.integers([2, 9], [9, 33]).tolist()):
    sums, seen, w = rng.normal(0, 9, (k, 5)), rng.integers(1, 9, k), rng.normal(0, 9, 5)
    expect(
        batch_gradient(sums, seen, w, 0.3),
        np.sum(sums, axis=0) / np.sum(seen) + 0.3 * w,
        name=f"the gradient of {k} workers",
    )
sums, seen = np.array([[2.0**30 + 12.0, 3.0], [-(2.0**30), 1.0]]), np.array([1, 3])  # nearly cancel
expect(
    batch_gradient(sums / 2**20, seen, np.zeros(2), 0.5),
    np.array([3.0, 1.0]) / 2**20,
    name="the gradient of sums that nearly cancel",
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Momentum while the learning rate changes
#
# Momentum is written in two forms. Some programs keep a decaying sum of gradients, $u_t = m\,u_{t-1} + g_t$,
# and subtract $\eta_t u_t$ from the weights. Others keep the *step* itself, which includes the learning rate:
#
# $$ v_t = m\,v_{t-1} + \eta_t\,g_t, \qquad w_t = w_{t-1} - v_t. $$
#
# While η is constant, both forms are equal, with $v_t = \eta u_t$. When η changes, they differ, because
# $v_{t-1}$ still contains the old learning rate. Goyal et al. correct this by *momentum correction*: they
# multiply the old $v$ by a factor that makes both forms equal again. Which factor is it?
#
# Goyal et al. train with *Nesterov's* momentum, whose step looks one update ahead along the velocity: in the
# first form $w_t = w_{t-1} - \eta_t\,(g_t + m\,u_t)$. How is this step written with $v_t$ instead of $u_t$?


# %% solution="momentum-step"
def momentum_step(w, v, gradient, lr, lr_before, momentum=MOMENTUM, nesterov=False):
    """Make one update, with the learning rate inside v, and return the new (w, v), both (d,).

    lr          the learning rate of this update
    lr_before   the learning rate of the previous update; in the first update it equals lr, and v is 0
    nesterov    whether the step is Nesterov's

    With the correction, the weights equal those of the other form: u = momentum * u + gradient, then
    w = w - lr * u, or with nesterov w = w - lr * (gradient + momentum * u). The arguments are not modified.
    """
    assert w.shape == v.shape == gradient.shape and lr_before > 0
    ### BEGIN SOLUTION
    v = momentum * (lr / lr_before) * v + lr * gradient
    return w - (momentum * v + lr * gradient if nesterov else v), v
    ### END SOLUTION


# %%
for nesterov in (False, True):
    print(momentum_step(np.ones(1), np.array([0.2]), np.ones(1), 0.4, 0.2, momentum=0.75, nesterov=nesterov))

# %% check="momentum-by-hand" points=1 see="8.8"
"""v = 0.2 was computed with learning rate 0.2, the new one is 0.4, and momentum is 0.75 (1 point).

The hidden tests use arrays of several elements, and learning rates that rise, fall or stay.
"""
with in_place():  # the next check tests whether the arguments stay unchanged
    plain = momentum_step(np.ones(1), np.array([0.2]), np.ones(1), 0.4, 0.2, momentum=0.75)
    ahead = momentum_step(np.ones(1), np.array([0.2]), np.ones(1), 0.4, 0.2, momentum=0.75, nesterov=True)
expect(
    [round(part.item(), 9) for part in plain],
    [0.3, 0.7],
    {
        "the momentum is not corrected: the old v still contains the old learning rate.": [0.45, 0.55],
        "the old v is neither damped nor corrected.": [0.4, 0.6],
        "the old v is corrected, but not damped: m is missing.": [0.2, 0.8],
        "the correction is upside down: it is the new learning rate divided by the old one.": [0.525, 0.475],
        "the gradient was corrected, too; it already has the new learning rate.": [-0.1, 1.1],
        "the step was multiplied by the learning rate again; v already contains it.": [0.72, 0.7],
        "the step was added; it should be subtracted.": [1.7, 0.7],
        "the weights moved by the old v.": [0.8, 0.7],
        "this is Nesterov's step, although nesterov is False.": [0.075, 0.7],
    },
    "the list of the new w and v",
)
expect(
    [round(part.item(), 9) for part in ahead],
    [0.075, 0.7],
    {
        "Nesterov's step is the same as the plain one.": [0.3, 0.7],
        "it looks ahead along the old v; it should look along the new one.": [0.45, 0.7],
        "m·v was multiplied by the learning rate again; v already contains it.": [0.39, 0.7],
        "the new v is not multiplied by m.": [-0.1, 0.7],
        "v itself looks ahead; it should stay m·v + η·g, corrected, and only w looks ahead.": [0.075, 0.925],
    },
    "with nesterov=True, the list of the new w and v",
)
### BEGIN HIDDEN TESTS
# Not detected: a result in float32 for float32 arguments, or in float64. update() converts it to float32.
rng = fresh_rng(7)
w, v, gradient = rng.standard_normal((3, 4))
for change in (1.0, 0.25, 70.0, 0.85, 1.01):  # from the previous learning rate to this one
    lr_before, momentum = rng.uniform([0.01, 0.5], [0.5, 0.95]).tolist()
    lr = change * lr_before
    new = momentum * lr / lr_before * v + lr * gradient
    for nesterov, step in [(False, new), (True, momentum * new + lr * gradient)]:
        with in_place():
            found = momentum_step(w.copy(), v.copy(), gradient.copy(), lr, lr_before, momentum, nesterov)
        expect(list(found), [w - step, new], name=f"another new w and v, nesterov={nesterov},")
### END HIDDEN TESTS

# %% check="momentum-same-path" points=2 see="8.8"
"""Both forms agree for 30 updates on a quadratic loss, while the learning rate rises and drops (2 points).

The hidden tests use other learning rates and other momenta.
"""


def path(rates, momentum, nesterov):
    """Return the weights after each update with your function and with the other form: (updates, 2) each."""
    bowl, here, v = np.array([1.0, 0.3]), np.array([1.0, -2.0]), np.zeros(2)
    other, u, ours, theirs = here, np.zeros(2), [], []
    for t, rate in enumerate(rates):
        given = here, v, bowl * here
        mine = tuple(array.copy() for array in given)
        with in_place():
            new = momentum_step(*mine, rate, rates[max(t - 1, 0)], momentum, nesterov=nesterov)
        for name, now, before in zip(("w", "v", "gradient"), mine, given, strict=True):
            assert np.array_equal(now, before), (
                f"momentum_step has changed its argument {name}. Return new arrays. "
                "(w -= v changes an argument, w = w - v does not.)"
            )
        here, v = new
        gradient = bowl * other
        u = momentum * u + gradient
        other = other - rate * (gradient + momentum * u if nesterov else u)
        ours.append(here)
        theirs.append(other)
    return np.array(ours), np.array(theirs)


for nesterov in (False, True):
    ours, theirs = path([0.05 * min(t + 1, 10) for t in range(20)] + [0.05] * 10, 0.8, nesterov)
    apart = ~np.isclose(ours, theirs, rtol=1e-9, atol=1e-12).all(axis=1)
    assert not apart.any(), (
        f"with nesterov={nesterov} the weights of the two forms differ from update {np.argmax(apart)} on, "
        f"by up to {np.abs(ours - theirs).max():.1e}: after that update they are {ours[np.argmax(apart)]} "
        f"with your function and {theirs[np.argmax(apart)]} with the other form"
    )
### BEGIN HIDDEN TESTS
# Not detected: nothing known. A velocity that is kept between calls fails, since each path starts from 0, and
# one in float32 fails at the ninth digit. The next call fails if the shape of an argument has changed.
momentum_step(np.ones(3), np.zeros(3), np.ones(3), 0.1, 0.1)
rng = fresh_rng(8)
low, high, *drops = (10 ** rng.uniform([-3.3, -0.5, *[-2] * 5], [-2.8, -0.3, *[-0.4] * 5])).tolist()
for rates in ([high] * 8, drops * 4, [low, high, low / 2] * 3, [0.9 * high, high]):
    momentum = float(rng.uniform(0.5, 0.9))
    for nesterov in (False, True):
        ours, theirs = path(rates, momentum, nesterov)
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-12), (
            f"with the learning rates {rates[:5]}…, momentum={momentum} and nesterov={nesterov} the weights "
            f"end at {ours[-1]} with your function and at {theirs[-1]} with the other form"
        )
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The experiment
#
# The network is small, so that thirty training runs take seconds: Fashion-MNIST, reduced to 14 × 14 pixels,
# and two hidden layers of 64 units. All its weights are in one vector w, so an update is one line. Read these
# cells; you need not change them.


# %% given="pictures"
def pictures():
    """Return 8,192 images (N, 196) and labels to train with, and 2,000 to test with, from Fashion-MNIST."""
    (x, y), (x_test, y_test) = data.fashion_mnist("train", IMAGES), data.fashion_mnist("test", 2_000)
    x, x_test = (a.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196) for a in (x, x_test))
    return x - x.mean(axis=0), y, x_test - x.mean(axis=0), y_test


# %% given="network"
SIZES = (196, 64, 64, 10)


def layers(w):
    """Return the layers in a vector of weights w (d,): [(weights (m, n), biases (n,)), …], views."""
    found, at = [], 0
    for m, n in itertools.pairwise(SIZES):
        found.append((w[at : at + m * n].reshape(m, n), w[at + m * n : at + m * n + n]))
        at += m * n + n
    return found


def initial(seed):
    """Return random weights (d,), float32: He's initialisation, biases 0."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(SIZES))
    w = np.zeros(sum(m * n + n for m, n in pairs), np.float32)
    for weights, _ in layers(w):
        weights[:] = rng.standard_normal(weights.shape) * np.sqrt(2 / len(weights))
    return w


# %% given="gradient-sum"
def forward(w, x):
    """Return the inputs of each layer, and the logits (N, 10), for images x (N, 196)."""
    inputs = [x]
    for weights, biases in layers(w)[:-1]:
        inputs.append(np.maximum(inputs[-1] @ weights + biases, 0))
    weights, biases = layers(w)[-1]
    return inputs, inputs[-1] @ weights + biases


def gradient_sum(w, x, y):
    """Return sums over images x (N, 196) with labels y (N,): of the loss, and of its gradients (d,)."""
    inputs, logits = forward(w, x)
    likely = np.exp(logits - logits.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)  # (N, 10)
    loss = -np.log(likely[np.arange(len(y)), y] + 1e-30).sum()
    likely[np.arange(len(y)), y] -= 1  # ∂ loss / ∂ logits
    total, slope = np.empty_like(w), likely
    for (weights, _), (dw, db), a in zip(layers(w)[::-1], layers(total)[::-1], inputs[::-1], strict=True):
        dw[:], db[:] = a.T @ slope, slope.sum(axis=0)
        slope = (slope @ weights.T) * (a > 0)
    return float(loss), total


# %% given="error"
def error(w, x, y):
    """Return the percentage of the images x (N, 196) that the network classifies wrongly."""
    return round(100 * float(np.mean(forward(w, x)[1].argmax(axis=1) != y)), 2)


# %% given="train"
def train(recipe):
    """Train once per seed with a recipe, {"name": …, "k": …, "rule": …, "warmup": …}.

    Return the test errors in percent, one per seed; the losses of the first updates with the first seed; and
    the learning rate of each update.
    """
    x, y, x_test, y_test = pictures()
    batch = recipe["k"] * BATCH
    S = IMAGES // batch  # updates per epoch
    plan = [recipe["k"], recipe["rule"], recipe["warmup"], S]
    rates = [float(learning_rate(t, *plan)) for t in range(EPOCHS * S)]
    found = {"error": [], "first": [], "rates": np.array(rates)}
    for seed in SEEDS:
        w, rng = initial(seed), np.random.default_rng(seed)
        v = np.zeros_like(w)
        for epoch in range(EPOCHS):
            losses = []
            # `or LR`: momentum_step() divides by the previous rate, and a wrong schedule may begin at 0.
            for step, indices in enumerate(data.batches(rng.permutation(IMAGES), batch), epoch * S):
                w, v, loss = update(w, v, x[indices], y[indices], rates[step], rates[max(step - 1, 0)] or LR)
                losses.append(loss)
            found["first"] += losses[:8] if seed == SEEDS[0] and epoch == 0 else []
            log(
                step=seed * EPOCHS + epoch + 1,
                steps=len(SEEDS) * EPOCHS,
                epoch=epoch + 1,
                loss=np.mean(losses),
            )
        found["error"].append(error(w, x_test, y_test))
    return found


# %% given="update"
def update(w, v, x, y, lr, lr_before):
    """Make one update with your functions; return the new w and v, float32, and the mean loss before it."""
    with np.errstate(all="ignore"):  # if training diverges, numbers overflow, but training continues
        loss, total = gradient_sum(w, x, y)
        gradient = batch_gradient(total[None], np.array([len(y)]), w, DECAY)
        w, v = momentum_step(w, v, np.asarray(gradient, np.float32), lr, lr_before)
    return np.asarray(w, np.float32), np.asarray(v, np.float32), loss / len(y)


# %% [markdown]
# There are six recipes, all with the same images, epochs, seeds, momentum and weight decay. Here one process
# computes the gradient of a batch of 16n images, so there is one worker.
#
# | name | meaning |
# |---|---|
# | `small` | the small batch, without a rule and without a warmup |
# | `naive` | a batch sixteen times as large, nothing else changed |
# | `sqrt` | like `naive`, but with the square-root rule |
# | `linear` | like `naive`, but with the linear rule |
# | `constant` | like `linear`, but with a constant warmup |
# | `gradual` | like `linear`, but with a gradual warmup |


# %% solution="recipes"
def recipes():
    """Return the six recipes, in the order of the table: a list of {"name", "k", "rule", "warmup"}.

    Write them as `rows`, a list of six tuples (name, k, rule, warmup).
    """
    keys = ("name", "k", "rule", "warmup")
    ### BEGIN SOLUTION
    rows = [
        ("small", 1, "none", "none"),
        ("naive", 16, "none", "none"),
        ("sqrt", 16, "sqrt", "none"),
        ("linear", 16, "linear", "none"),
        ("constant", 16, "linear", "constant"),
        ("gradual", 16, "linear", "gradual"),
    ]
    ### END SOLUTION
    return [dict(zip(keys, row, strict=True)) for row in rows]


# %%
recipes()

# %% check="recipes-matched" points=1 see="8.4"
"""Two recipes that are compared differ in one thing only (1 point).

The hidden tests compare each recipe with the table.
"""
made = recipes()
found = {recipe["name"]: recipe for recipe in made}
names = ["small", "naive", "sqrt", "linear", "constant", "gradual"]
assert [recipe["name"] for recipe in made] == names, f"the recipes are {list(found)}, not {names}"
for recipe in found.values():
    assert list(recipe) == ["name", "k", "rule", "warmup"], f"{recipe} should have name, k, rule and warmup"
    assert recipe["k"] in (1, 16), f"{recipe}: k is how many times as large the batch is, here 1 or 16"
    assert recipe["rule"] in RULES, f"{recipe}: the rule should be one of {', '.join(RULES)}"
    assert recipe["warmup"] in WARMUPS, f"{recipe}: the warmup should be one of {', '.join(WARMUPS)}"
compared = ["small naive", "naive sqrt", "naive linear", "linear constant", "linear gradual"]
for one, other in map(str.split, compared):
    differ = [key for key in ("k", "rule", "warmup") if found[one][key] != found[other][key]]
    assert len(differ) == 1, (
        f"{one} and {other} differ in {', '.join(differ) or 'nothing'}; they should differ in one thing. If "
        "two things change at once, the runs cannot show which of them made the difference."
    )
### BEGIN HIDDEN TESTS
# Not detected: nothing known. The recipes are compared entry by entry, and the sweep must have the same ones.
assert made == once("recipes", lambda: made), "recipes() returns other recipes than before"
table = [(1, "none", "none"), (16, "none", "none"), (16, "sqrt", "none"), (16, "linear", "none")]
table += [(16, "linear", "constant"), (16, "linear", "gradual")]
for name, row in zip(names, table, strict=True):
    got = tuple(found[name][key] for key in ("k", "rule", "warmup"))
    assert got == row, f"{name} has (k, rule, warmup) = {got}; the table has {row}"
### END HIDDEN TESTS

# %% [markdown]
# **Predict.** What test error do you expect from each recipe, in percent? (Guessing has an error of 90%.)
# Your predictions are not graded. Write them down before you run the sweep.

# %%
my_guess = {"small": None, "naive": None, "sqrt": None, "linear": None, "constant": None, "gradual": None}

# %% [markdown]
# The six recipes form a *sweep*: one function, a list of items, and one job per item. `jobs.map(function,
# items)` submits a sweep and returns immediately. On a cluster the sweep is a job array, here it is a queue.
# `train` processes the whole batch in one process, so each job gets **one rank**, which is the default of
# `jobs.map`. A second rank would repeat the same computation.


# %% solution="submit-sweep"
def submit_sweep(function, items):
    """Submit a function over a list of items as one sweep, one job with one rank per item; return the Sweep.

    The items keep their order. A job that is already recorded is not run again.
    """
    ### BEGIN SOLUTION
    return jobs.map(function, items)
    ### END SOLUTION


# %% [markdown]
# Before you submit thirty training runs, try `submit_sweep` with a function that takes almost no time.


# %% given="trial"
def square(number):
    """Return the square of a number, the result of one job in the trial."""
    return number**2


def one_rank_each(sweep):
    """Return the sweep; if its jobs have several ranks, cancel it to save processor time."""
    assert isinstance(sweep, jobs.Sweep), (
        f"submit_sweep() has returned a {type(sweep).__name__}; return the Sweep that jobs.map() returns"
    )
    if sweep.ranks > 1:
        sweep.cancel()
    assert sweep.ranks == 1, f"each job has {sweep.ranks} ranks, which all compute the same; use one rank"
    return sweep


def trial(numbers):
    """Submit `square` twice over numbers; return [(number, its square)], and whether jobs ran twice."""
    first = one_rank_each(submit_sweep(square, numbers))
    squares = first.results(progress=False)
    second = one_rank_each(submit_sweep(square, numbers))
    second.results(progress=False)
    return list(zip(first.items, squares, strict=True)), second.last > first.last


# %%
trial([3, 4])

# %%
sweep = one_rank_each(submit_sweep(train, recipes()))
sweep.results()
sweep.table()[["name", "k", "rule", "warmup", "status", "loss", "seconds"]]

# %% [markdown]
# The sweep is recorded in `runs/`, next to this notebook. If you run the cell again, the recorded results are
# reused. **Submit `runs/` with the notebook.** The next sections are about your runs.


# %% given="recorded"
# Runs in the notebook's process, where `sweep` exists.
def recorded():
    """Return the results of the jobs: {name: {"error": [5 numbers], "first": […], "rates": array}}."""
    outcomes = sweep.results(progress=False)
    return {item["name"]: outcome for item, outcome in zip(sweep.items, outcomes, strict=True)}


# %%
for name, outcome in recorded().items():
    mean, spread = np.mean(outcome["error"]), np.std(outcome["error"], ddof=1)
    print(f"{name:9} {mean:5.1f} ± {spread:4.1f} %   guess {my_guess[name]}   each {outcome['error']}")

# %% check="sweep-recorded" points=1 see="8.4"
"""Your function submits one sweep of jobs with one rank each, and the recipes' sweep is recorded (1 point).

The hidden tests submit other items.
"""
made = recipes()
squares, run_again = trial([3, 4])
expect(squares, [(3, 9), (4, 16)], name="the trial of submit_sweep")
assert not run_again, (
    "submit_sweep has rerun jobs that were already recorded; jobs.map() reuses recorded jobs"
)
assert sweep.ranks == 1, f"each job has {sweep.ranks} ranks, which all compute the same; use one rank"
items = [dict(item) for item in sweep.items]
assert items == made, f"the sweep has the recipes {items}, and recipes() returns {made}; run the sweep again"
states = [str(status) for status in sweep.statuses]
assert set(states) == {"done"}, f"the states of the items are {states}; see sweep.failures"
outcomes = recorded()
for recipe in made:
    name, k, rule, warmup = (recipe[key] for key in ("name", "k", "rule", "warmup"))
    assert name in outcomes, f"the sweep has no recipe {name!r}; run recipes() and the sweep again"
    updates = EPOCHS * IMAGES // (BATCH * k)
    assert len(outcomes[name]["rates"]) == updates, (
        f"the recorded run of {name} has {len(outcomes[name]['rates'])} updates; it should have {updates}"
    )
    assert len(outcomes[name]["error"]) == len(SEEDS), f"{name} should have {len(SEEDS)} errors, one per seed"
    some = range(0, updates, updates // 32)
    rates = [float(learning_rate(t, k, rule, warmup, updates // EPOCHS)) for t in some]
    assert np.allclose(np.asarray(outcomes[name]["rates"])[:: updates // 32], rates), (
        f"the recorded learning rates of {name} are not those of your learning_rate; run the sweep again"
    )
### BEGIN HIDDEN TESTS
# Not detected: a function that waits for the results before it returns, and one that wraps `function`. Both
# record the same sweep.
numbers = fresh_rng(9).choice(10**6, 2, replace=False).tolist()
expect(trial(numbers)[0], [(number, number**2) for number in numbers], name="another trial")
assert made == once("recipes", lambda: made), "recipes() returns other recipes than before"
before = once("outcomes", lambda: outcomes)
for name, outcome in outcomes.items():
    same = all(np.array_equal(outcome[key], before[name][key]) for key in ("error", "first", "rates"))
    assert same, f"the recorded run of {name} has other results than before"
### END HIDDEN TESTS

# %% check="runs-recomputed" points=1 see="8.4"
"""The first updates of each recorded run are computed again with your functions (1 point).

The hidden tests train one of the recipes again to the end, with one of the seeds.
"""
outcomes, made = recorded(), recipes()
x, y, x_test, y_test = pictures()
order = np.random.default_rng(SEEDS[0]).permutation(IMAGES)
for recipe in made:
    name, batch = recipe["name"], recipe["k"] * BATCH
    plan = [recipe["k"], recipe["rule"], recipe["warmup"], IMAGES // batch]
    rates = [float(learning_rate(t, *plan)) for t in range(4)]
    w, losses = initial(SEEDS[0]), []
    v = np.zeros_like(w)
    for step in range(4):
        indices = order[step * batch : (step + 1) * batch]
        loss, total = gradient_sum(w, x[indices], y[indices])
        with in_place():  # other checks test whether the arguments stay unchanged
            gradient = np.asarray(batch_gradient(total[None], np.array([batch]), w, DECAY), np.float32)
            w, v = momentum_step(w, v, gradient, rates[step], rates[max(step - 1, 0)] or LR)
        w, v = np.asarray(w, np.float32), np.asarray(v, np.float32)
        losses.append(loss / batch)
    assert np.allclose(outcomes[name]["first"][:4], losses, rtol=2e-3), (
        f"the recorded run of {name} begins with the losses {np.round(outcomes[name]['first'][:4], 4)}; "
        f"your functions now give {np.round(losses, 4)}. Run the sweep again"
    )
### BEGIN HIDDEN TESTS
# Not detected: invented errors of the recipes and seeds that are not trained again. They gain no points,
# because the checks of section 8 use other errors.
assert made == once("recipes", lambda: made), "recipes() returns other recipes than before"
for name, outcome in once("outcomes", lambda: outcomes).items():
    same = all(np.array_equal(outcome[key], outcomes[name][key]) for key in ("error", "first", "rates"))
    assert same, f"the recorded run of {name} has other results than before"
rng = fresh_rng(10)
name, number = str(rng.choice(["naive", "sqrt", "gradual"])), int(rng.integers(5))
warm = np.minimum(np.arange(160) / 80, 1)
fallen = 10.0 ** ((np.arange(160) >= 112) * 1.0 + (np.arange(160) >= 144))
rates = {"naive": 0.08, "sqrt": 0.32, "gradual": 0.08 + 1.2 * warm}[name] / fallen
# If a function is not right yet, its own checks fail, and training ends differently.
own = "rules-by-hand warmup-by-hand warmup-edges schedule-by-hand schedule-of-each gradient-by-hand"
right = not any(map(has_failed, f"{own} momentum-by-hand momentum-same-path recipes-matched".split()))
with in_place():
    corrected_step = momentum_step(np.zeros(2), np.ones(2), np.ones(2), 0.1, 1.0, 0.9)
corrected = np.allclose(list(corrected_step), [[-0.19] * 2, [0.19] * 2])


def trained_again(seed, updates):
    """Return the weights after these updates with this seed, and the losses before them."""
    w, rng, losses = initial(seed), np.random.default_rng(seed), []
    u = np.zeros_like(w)
    while len(losses) < updates:
        for indices in data.batches(rng.permutation(8_192), 512)[: updates - len(losses)]:
            loss, total = gradient_sum(w, x[indices], y[indices])
            u = np.float32(0.9) * u + total / np.float32(512) + np.float32(1e-4) * w
            w = w - np.float32(rates[len(losses)]) * u
            losses.append(loss / 512)
    return w, losses


outcome, (_, losses) = outcomes[name], trained_again(SEEDS[0], 8)
same = outcome["rates"].shape == rates.shape and np.allclose(outcome["rates"], rates)
begins = len(outcome["first"]) == 8 and np.allclose(outcome["first"], losses, rtol=2e-3)
assert begins or not right, (
    f"{name}: after retraining, the first losses are {np.round(losses, 4)}; the recorded ones are "
    f"{np.round(outcome['first'], 4)}"
)
if corrected and same and begins:
    end, recorded_end = error(trained_again(SEEDS[number], 160)[0], x_test, y_test), outcome["error"][number]
    assert abs(end - recorded_end) < 4, (
        f"{name}: after retraining, the error is {end:.1f} %; the recorded error is {recorded_end:.1f} %"
    )
### END HIDDEN TESTS

# %% [markdown]
# Look at the training loss of the recipes. Each curve shows the mean loss in each
# epoch, averaged over the seeds.

# %%
curves = sweep.metrics()
styles = ["-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1))]
for i, name in enumerate(recorded()):
    epochs = curves[curves["item"] == i].groupby("epoch")["loss"]
    plt.plot(epochs.mean(), linestyle=styles[i], label=name)
    plt.fill_between(epochs.mean().index, epochs.min(), epochs.max(), alpha=0.15)
plt.xlabel("epoch")
plt.ylabel("training loss")
plt.yscale("log")
plt.axhline(np.log(10), color="gray", linewidth=1, linestyle="-", marker="")
plt.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1), columnspacing=1)
plt.show()

# %% [markdown]
# *The figure:* six curves over ten epochs, each with a band from the lowest to the highest loss among the
# seeds. Guessing has a loss of ln 10 = 2.3 (the grey line). Epochs are counted from 1 here, so the drops come
# at 8 and 10. In the first five epochs `constant` and `naive` are equal: both use the same learning rate on
# the same images. A wide band means that the result depends on the seed and, if training diverges, even on
# rounding. Your numbers may therefore differ from other students' numbers.
#
# ## 7. How certain is a difference?
#
# Each recipe was trained five times. Is one really better than another, or is the difference due to chance?
# All recipes have the same seeds, and a seed determines the initial weights and the order of the images. So
# compare two recipes seed by seed. This gives five differences, and their mean has an uncertainty. With $m$
# differences $d_i$ (here $m$ is not the momentum) the 95% confidence interval of their mean is
#
# $$ \bar d \;\pm\; t_m\, \frac{s}{\sqrt m}, \qquad s^2 = \frac{1}{m-1} \sum_i (d_i - \bar d)^2, $$
#
# with Student's $t$ for m − 1 degrees of freedom. The table `T95` below lists it by m. (The interval assumes
# that the differences are normally distributed. Five numbers cannot show this, so the interval is an
# estimate, not a proof.)

# %% given="student-t"
# By the number m of differences: Student's t for m - 1 degrees of freedom.
T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


# %% solution="interval"
def interval(errors, others):
    """Return the 95% confidence interval of the mean of errors - others, seed by seed: (low, high), floats.

    errors, others   lists of m numbers, one per seed, in the order of the seeds; T95[m] is t

    The ends are not rounded.
    """
    assert len(errors) == len(others) and len(errors) in T95
    ### BEGIN SOLUTION
    d = np.array(errors) - np.array(others)
    half = T95[len(d)] * d.std(ddof=1) / np.sqrt(len(d))
    low, high = float(d.mean() - half), float(d.mean() + half)
    ### END SOLUTION
    return float(low), float(high)


# %%
print(interval([23.4, 21.8, 28.0, 22.6, 26.2], [20.4, 20.8, 20.0, 20.6, 20.2]))

# %% check="interval-by-hand" points=1 see="8.5"
"""Differences 3, 1, 8, 2, 6: their mean is 4, s² = 8.5, t = 2.776 (1 point).

The hidden tests use other numbers of seeds.
"""
errors, others = [23.4, 21.8, 28.0, 22.6, 26.2], [20.4, 20.8, 20.0, 20.6, 20.2]


def around(mean, half):
    return (round(mean - half, 2), round(mean + half, 2))


expect(
    tuple(round(float(end), 2) for end in interval(errors, others)),
    around(4, 3.61946),
    {
        "the difference has the other sign: it should be errors - others.": around(-4, 3.61946),
        "s² was divided by m; it should be divided by m - 1.": around(4, 3.23734),
        "√m is missing: s is the spread of the seeds, s/√m that of their mean.": around(4, 8.09336),
        "t is missing.": around(4, 1.30384),
        "t is that of the normal distribution, 1.96; for five differences it is 2.776.": around(4, 2.55553),
        "t was looked up for m - 1; T95 is a table by m.": around(4, 4.14882),
        "the seeds were not compared one by one, but as two independent samples.": around(4, 3.26106),
        "the lists were sorted, so that differences of different seeds were taken.": around(4, 2.85807),
        "the centre is the median; it should be the mean.": around(3, 3.61946),
    },
    "the interval",
)
### BEGIN HIDDEN TESTS
# Not detected: another t that agrees to three digits. That is also right: T95 has only four or five digits.
# Ends rounded to four digits or fewer fail, and so does a t for a fixed number of seeds.
rng = fresh_rng(11)
for m in (2, 3, 4, 7, 10):
    errors, others = rng.uniform(10, 90, m), rng.uniform(10, 90, m)
    d = errors - others
    half = T95[m] * np.sqrt(np.sum((d - d.mean()) ** 2) / (m - 1) / m)
    low, high = interval(errors.tolist(), others.tolist())
    found = f"with {m} seeds the interval is {low:.7f} to {high:.7f}, its"
    assert abs((low + high) / 2 - d.mean()) < 1e-6, f"{found} centre should be {d.mean():.7f}"
    assert abs((high - low) / 2 / half - 1) < 1e-3, f"{found} half width should be {half:.7f}"
### END HIDDEN TESTS

# %% [markdown]
# ## 8. What do the runs show?
#
# Your function gives one of four answers to each of nine claims:
#
# - `"supported"`: the whole interval of the difference is on the claim's side of 0,
# - `"contradicted"`: the whole interval is on the other side,
# - `"undecided"`: the interval includes 0, also as an end,
# - `"not shown"`: no run of the sweep measured what the claim is about.
#
# With another seed or on another machine, some answers may differ. So write a function that derives them from
# the errors. You call it with your errors, and the checks call it with other errors.

# %% given="claims"
CLAIMS = {
    "A": "Sixteen times the batch, with nothing else changed, has a higher error than the small batch.",
    "B": "At 16n the square-root rule has a lower error than no rule.",
    "C": "At 16n the linear rule without warmup has a lower error than no rule.",
    "D": "At 16n a constant warmup makes the error of the linear rule lower than without warmup.",
    "E": "At 16n the linear rule has a lower error with a gradual warmup than with a constant one.",
    "F": "At 16n the linear rule with gradual warmup has a lower error than the square-root rule.",
    "G": "At 16n the linear rule with gradual warmup still has a higher error than the small batch.",
    "H": "On sixteen processors, training at 16n takes less time than training at n on one.",
    "I": "A ResNet-50 on ImageNet with a batch of 8,192 images needs a gradual warmup.",
}
ANSWERS = ("supported", "contradicted", "undecided", "not shown")

# %%
errors = {name: outcome["error"] for name, outcome in recorded().items()}
for one, other in [("naive", "small"), ("gradual", "small")]:  # add the pairs that you need
    low, high = interval(errors[one], errors[other])
    print(f"{one:9} - {other:9} {low:7.2f} to {high:6.2f} percentage points")


# %% solution="conclusions"
def conclude(errors, interval=interval):
    """Return the answer to each claim, one of ANSWERS: {"A": …, …, "I": …}.

    errors     {recipe: [an error in percent per seed]}, in any order of the recipes
    interval   interval(one, other) is the interval of the mean of one - other, a pair (low, high). Use this
               argument, because the checks pass another function
    """
    ### BEGIN SOLUTION
    answers = {"H": "not shown", "I": "not shown"}
    for claim, lower, higher in [
        ("A", "small", "naive"),
        ("B", "sqrt", "naive"),
        ("C", "linear", "naive"),
        ("D", "constant", "linear"),
        ("E", "gradual", "constant"),
        ("F", "gradual", "sqrt"),
        ("G", "small", "gradual"),
    ]:
        low, high = interval(errors[lower], errors[higher])
        answers[claim] = "supported" if high < 0 else "contradicted" if low > 0 else "undecided"
    return answers
    ### END SOLUTION


# %%
for claim, answer in sorted(conclude(errors).items()):
    print(f"{answer:12}  {claim}  {CLAIMS[claim]}")

# %% check="conclusions-measured" points=2 see="8.5"
"""How often each answer occurs for claims A to G, with made-up errors (2 points).

The hidden tests compare each answer, for many made-up errors.
"""
made_up = {"small": [10], "naive": [30], "sqrt": [20], "linear": [31], "constant": [40], "gradual": [18]}


def three_points(one, other):
    """Return an interval that extends three percentage points on each side of the difference."""
    difference = float(np.mean(one) - np.mean(other))
    return difference - 3, difference + 3


answers = conclude(made_up, three_points) or {}
assert set("ABCDEFG") <= set(answers), (
    f"your function answers the claims {sorted(answers)}; it should answer {list(CLAIMS)}"
)
wrong = {claim: answers[claim] for claim in "ABCDEFG" if answers[claim] not in ANSWERS}
assert not wrong, f"{wrong}: each answer should be one of {', '.join(ANSWERS)}"
found = [sum(answers[claim] == answer for claim in "ABCDEFG") for answer in ANSWERS]
assert found == [4, 1, 2, 0], (
    f"with {made_up} and three percentage points on each side, 4 of the claims A to G are supported, 1 is "
    "contradicted, 2 are undecided and 0 are not shown; your function returns "
    f"{found[0]}, {found[1]}, {found[2]} and {found[3]}"
)
### BEGIN HIDDEN TESTS
# Not detected: a function that changes the lists or the dictionary that it gets: the autograder passes
# copies. The order of the recipes differs from the table's, and the ends are 0 or at least 1/128 from it.
# Sorting the errors or leaving some out changes the interval. Half of them are errors of diverged runs.
rng, names = fresh_rng(12), ("small", "naive", "sqrt", "linear", "constant", "gradual")
sides = dict(zip("ABCDEFG", ["small naive", "sqrt naive", "linear naive", "constant linear"], strict=False))
sides |= {"E": "gradual constant", "F": "gradual sqrt", "G": "small gradual"}


def spreads(one, other):
    """Return the mean difference by seed, minus and plus half the range; some ends are 0."""
    differences = [a - b for a, b in zip(one, other, strict=True)]
    middle, half = sum(differences) / 4, (max(differences) - min(differences)) / 2
    return middle - half, middle + half


for base in [20, 90] * 12:
    errors = {name: (base + rng.integers(5, 12, 4) / 32).tolist() for name in rng.permutation(names).tolist()}
    answers, wanted = conclude(errors, spreads), {}
    for claim, pair in sides.items():
        low, high = spreads(*(errors[name] for name in pair.split()))
        wanted[claim] = "supported" if high < 0 else "contradicted" if low > 0 else "undecided"
    found = {claim: answers[claim] for claim in wanted}
    assert found == wanted, f"with the errors {errors} the answers are {found}; they should be {wanted}"
### END HIDDEN TESTS

# %% check="conclusions-beyond" points=1 see="8.9"
"""Claims H and I: what can a sweep of a small network in one process show about them? (1 point)

The hidden tests use several intervals.
"""
same = {name: [20.0, 21.0] for name in ("small", "naive", "sqrt", "linear", "constant", "gradual")}
answers = conclude(same, lambda one, other: (-1.0, 1.0))
for claim in "HI":
    assert answers.get(claim) in ANSWERS, f"{claim}: {answers.get(claim)!r} is not one of {ANSWERS}"
### BEGIN HIDDEN TESTS
# Not detected: nothing known. The answers to H and I must not depend on the errors.
rng = fresh_rng(13)
differing = {name: rng.uniform(5, 90, 2).tolist() for name in same}
for errors in (same, differing):
    for middle in (0, -2, 2):
        low, high = (middle + rng.uniform([-1.5, 0.5], [-0.5, 1.5])).tolist()
        answers = conclude(errors, lambda one, other, low=low, high=high: (low, high))
        found = [answers[claim] for claim in "HI"]
        assert found == ["not shown"] * 2, f"the answers to H and I are {found}; no run has measured either"
### END HIDDEN TESTS

# %% [markdown]
# ## 9. A written answer (2 points, graded manually)
#
# Which recipe would you use on sixteen processors, `sqrt` or `gradual`? Another student trained each of them
# once, with seed 0, and chose the one with the lower error. Answer in about three sentences, with numbers
# from *your* sweep:
#
# 1. What can this student conclude, and what do your five seeds show?
# 2. Which runs would you make next to decide between the two *rules*? Compare the two rows of your `recipes`
#    before you answer.

# %% [markdown] explain="sqrt-or-gradual" points=2
# ### BEGIN SOLUTION
# **Rubric.** The numbers are those of the student's own runs, and may differ from the samples'. Language and
# length are not graded.
#
# | points | for |
# |---|---|
# | ½ | 1: one seed is a single sample; the seeds disagree about which of the two is better |
# | ½ | 1: the student's own interval of the five differences, with its numbers, and whether it includes 0 |
# | ½ | 2: the recipes differ in two things, so √k needs a run with the gradual warmup, too |
# | ½ | 2: more seeds make the interval narrower, as 1/√m |
#
# - *One seed*: if all five differences in the student's own runs have the same sign, this answer is also
#   right: seed 0 then shows which one is better, but not by how much.
# - *Two things*: `sqrt` has no warmup and `gradual` has one. No number of seeds shows which of the rules is
#   better.
#
# **Two points.** "With seed 0 gradual has 14.65% and sqrt 15.3%, with seed 2 it is the other way around, so
# one seed shows nothing. Over five seeds the interval of gradual − sqrt is −0.64 to 0.80 percentage points.
# It includes 0, so my runs do not decide. Since sqrt has no warmup and gradual has one, I would first run √k
# with gradual warmup, and both with twenty seeds, which halves the interval."
#
# **One point.** "My interval is −0.64 to 0.80 and includes 0, so I cannot decide which one is better. I would
# train with more seeds, since the interval gets smaller." (The answer does not discuss the single seed and
# does not notice that two things differ.)
#
# **No points.** "gradual, because Goyal et al. found that it is needed for large batches."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - A schedule is a function of the step. It is planned in epochs, and with a larger batch each epoch has
#   fewer updates.
# - In the first updates the gradient changes quickly, so kη may be too high. A jump to kη after a constant
#   warmup may only postpone the failure that equal increments avoid. Your runs show whether this happened.
# - The gradient of a large batch is divided by the number of *all* its images. Weight decay is added once.
#   Momentum that contains the learning rate must be corrected when the learning rate changes.
# - Two recipes are compared seed by seed, and an interval that includes 0 does not show which is better. A
#   sweep shows nothing about a quantity that none of its runs measured.
#
# ## Open questions
#
# 1. The square-root rule was used without a warmup. Which runs would show the smallest k for which it needs
#    one?
# 2. Training with the large batch took one sixteenth of the updates. Suppose that
#    sixteen processors compute the gradient of the large batch in the time that one
#    needs for the small batch, and that the all-reduce adds half of that time. How many
#    times as fast is training?
# 3. The recipes with a high error took as much time as the others. How early in training could you have
#    noticed this, and what should a job on a cluster do then?
