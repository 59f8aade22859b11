# %% [markdown]
# # Assignment 07: make it data-parallel
#
# A network takes an hour to train. With a second processor, does training take half an hour?
#
# The plan sounds simple: start the same program twice. Each of the two processes, called *ranks*, has its own
# copy of the network and its own half of the images. But two networks that learn from different images become
# two different networks. What must the ranks communicate, and when, so that together they are still *one*
# training run?
#
# In this assignment you
#
# - add to a training function for one device the few lines that let p ranks run it together,
# - scale the learning rate with the number of ranks, and warm it up,
# - submit the training on two ranks, and compare its loss, time and weights with those of one device,
# - show, step by step, that two ranks do what one process would have done,
# - find the mistakes of six scripts from their output, and correct them.
#
# The background is lecture 07. The training uses Fashion-MNIST, greyscale images of clothes with 28 × 28
# pixels.
#
# What you submit:
#
# - *Blanks*: 13 cells marked `YOUR CODE HERE`: six functions of one to four lines, a table of six letters,
#   and six scripts to correct. There is also one written answer.
# - *Recorded runs*: the folder `runs/`, which contains the training on one rank and on two.
# - *Points*: 30. The shards (each rank's images) have 5 points, the learning rate 2, and broadcast, gradient,
#   metric and checkpoint 2 each. The training on two ranks has 5, the six scripts 8, the written answer 2.
# - *Graded automatically*: 28 points, in 23 checks. All have hidden tests, mostly with other inputs.
# - *Graded manually*: 2 points, for the written answer at the end.
# - *Time*: 6 to 8 hours. The part before section 1 takes half an hour, sections 1 and 2 about 1 to 1.5 hours,
#   section 3 about 1.5 to 2, the training on two ranks 1, the six scripts 1.5 to 2.5, and the written answer
#   half an hour. This is the authors' plan for someone who has read lecture 07; no student's time was
#   measured.
#
# A *check* is a cell of autograder tests. Fill in a blank, run the example below it, then its checks. (You
# run the four functions of section 3 together, under *Try it on ranks*.) A failed check states what it found.
#
# | quantity | symbol | meaning |
# |---|---|---|
# | ranks | p | processes that train together, numbered from 0 |
# | batch | n | images that *one rank* sees in one step; all ranks together see p·n |
# | learning rate | η | the learning rate that suits one rank with its batch of n |
#
# One rule holds for all your functions: a result depends only on the arguments, not on earlier calls.

# %% given="setup"
import contextlib
import hashlib
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # hides TensorFlow's start-up messages

import horovod.tensorflow as hvd
import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

from cluster import submit
from cluster.checks import expect, fresh_rng, has_failed, on_ranks, once
from cluster.jobs import log, run_folder
from cluster.training import data, models
from cluster.training.models import digest

plt.style.use("cluster.course")
IMAGES, EPOCHS, BATCH, LR = 12_800, 3, 128, 0.2  # N, epochs, n, η

# %% [markdown]
# ## One device
#
# Here is the complete training on one device. Read it from top to bottom before you run anything: data,
# network, plan, step, loop and result. `plan` contains the indices of each batch, one epoch after the other
# (the last batch of an epoch may be smaller), so the loop itself is short. `digest` turns all weights into 64
# hexadecimal digits. Two networks have the same digest only if their weights are equal to the last bit.


# %% given="train-on-one"
def train_on_one(images=IMAGES, epochs=EPOCHS, batch=BATCH, lr=LR, seed=0):
    """Train LeNet-5 on one device; return its accuracy on test images and the digest of its weights."""
    x, y = data.fashion_mnist("train", images)  # (N, 28, 28, 1), (N,)
    net, optimizer = models.lenet5(seed), keras.optimizers.SGD(lr)
    shuffles = [np.random.default_rng([seed, epoch]).permutation(images) for epoch in range(epochs)]
    plan = [indices for shuffle in shuffles for indices in data.batches(shuffle, batch)]
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def update(images, labels):  # (n, 28, 28, 1), (n,)
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, net(images, training=True))
        gradient = tape.gradient(loss, [v.value for v in net.trainable_variables])
        optimizer.apply(gradient, net.trainable_variables)
        return loss

    for step, indices in enumerate(plan):
        loss = update(x[indices], y[indices])
        log(step=step + 1, steps=len(plan), loss=float(loss))
    right, seen = count_right(net, *data.fashion_mnist("test", 2_001))
    net.save(run_folder() / "lenet5.keras")
    return {"accuracy": right / seen, "weights": digest(net)}


# %% given="count-right"
def count_right(net, x, y):
    """Return how many of the images x (N, 28, 28, 1) with labels y (N,) are classified correctly, and N."""
    logits = net(x)  # (N, 10)
    return int(np.sum(np.argmax(logits, axis=1) == y)), len(y)


# %% [markdown]
# `submit` runs a function as a *job* in separate processes, either on this machine, as here, or on the nodes
# of a cluster. `job.result()` is what the function returns, and `job.metrics()` is what it logs.

# %%
baseline = submit(train_on_one)
baseline.result()

# %% [markdown]
# ## Predict
#
# Make a prediction before you add the second rank. The next cell prints the time per step on one rank. It is
# the median over the run without the first ten steps, in which TensorFlow compiles:


# %%
def seconds_a_step(job):
    """Return the median time between two steps of rank 0."""
    times = job.metrics().query("rank == 0").time.to_numpy()
    return np.median(np.diff(times)[10:])


print(f"{1e3 * seconds_a_step(baseline):.1f} ms per step of {BATCH} images")

# %% [markdown]
# LeNet-5 has 61,706 weights. In each step the ranks will exchange a gradient, which consists of 61,706
# numbers of 4 bytes each. Suppose that this machine moves 1 GB/s between two processes, and that each of the
# two messages of a ring of two ranks has a latency of 50 µs. The exchange then takes this long:

# %%
p, alpha, beta = 2, 50e-6, 1 / 1e9  # ranks; seconds per message; seconds per byte
n_bytes = 4 * models.lenet5().count_params()
exchange = 2 * (p - 1) * alpha + 2 * (p - 1) / p * n_bytes * beta  # a ring all-reduce
print(f"{n_bytes / 1e6:.3f} MB of gradient, {1e3 * exchange:.2f} ms per step to exchange it (predicted)")

# %% [markdown]
# What speed-up do you expect from two ranks, in images per second? And will their accuracy be better or worse
# than that of the run above? Write down your predictions; they are not graded.

# %%
my_speedup = None  # your prediction, a number: images/s on two ranks / images/s on one
my_accuracy = None  # your prediction: "better", "worse" or "the same"

# %% [markdown]
# ## 1. Each rank has its own images
#
# A *shard* is the part of an epoch that one rank sees. Shards need four properties. A mistake in any of them
# is easy to miss, since training with wrong shards still learns:
#
# - **disjoint**: no two ranks see the same image in one epoch; otherwise the second rank's work is wasted;
# - **covering**: together the ranks see every image; otherwise a part of the data is never learned;
# - **equally long**: otherwise one rank takes one step more than the others, and in the exchange of that step
#   it waits forever for ranks that have already finished. If N is not divisible by p, leave out the N mod p
#   images at the end of the shuffle. There are fewer than p of these images, and they differ from epoch to
#   epoch;
# - **reshuffled** in each epoch, with the *same* shuffle on all ranks. The ranks can agree on it without
#   communication if they draw it from the same `[seed, epoch]`.


# %% solution="shard"
def shard(n, rank, size, epoch, seed):
    """Return the images out of n that `rank` sees in `epoch`: an array of n // size indices.

    Shuffle as train_on_one does, for any seed. Take every size-th index of the shuffle, starting at index
    `rank`: then the batches that the ranks see in one step together make up the batch of one process.
    """
    assert 0 <= rank < size <= n, f"rank={rank}, size={size}, n={n}"
    ### BEGIN SOLUTION
    shuffle = np.random.default_rng([seed, epoch]).permutation(n)  # (n,), the same on every rank
    return shuffle[: n - n % size][rank::size]
    ### END SOLUTION


# %% [markdown]
# Eleven images on two ranks are few enough to check by eye. Which image is left out, and is a different one
# left out in the next epoch?

# %%
for epoch in range(2):
    for rank in range(2):
        print(f"epoch {epoch}, rank {rank}:", shard(11, rank, 2, epoch, seed=0))


# %% given="images-of"
def images_of(shards, n):
    """Return the indices in all shards, one after another; check that they are indices of n images."""
    for rank, part in enumerate(shards):
        assert isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "iu", (
            f"the shard of rank {rank} is {part!r}; it should be an array of indices, (n // size,)"
        )
        assert len(part) > 0, f"the shard of rank {rank} is empty, with {n} images on {len(shards)} ranks"
    seen = np.concatenate(shards)
    assert seen.min() >= 0 and seen.max() < n, (
        f"the indices of {n} images should be 0 to {n - 1}; they are {seen.min()} to {seen.max()}"
    )
    return seen


def other_epochs(shard):
    """Return [((n, size, epoch, seed), the shards of all ranks)]: epochs that all hidden tests judge."""
    rng, cases = fresh_rng(1), [(5, 5, 0, 0)]  # one image per rank
    for size, epoch in zip((1, 3, 7, 2, 5), rng.permutation(8).tolist(), strict=False):
        n = size * int(rng.integers(3, 150)) + int(rng.integers(min(1, size - 1), size))
        cases.append((n, size, epoch + 1, int(rng.integers(1, 2**31)) + 2**40 * (size == 5)))
    return [
        ((n, size, epoch, seed), [shard(n, rank, size, epoch, seed) for rank in range(size)])
        for n, size, epoch, seed in cases
    ]


# %% check="shards-disjoint" points=1 see="7.3"
"""No two ranks see the same image in one epoch (1 point).

The hidden tests use other numbers of images and ranks, other epochs and seeds.
"""
for n, size in [(11, 2), (100, 4), (12_800, 2)]:
    shards = [shard(n, rank, size, 0, 0) for rank in range(size)]
    seen = images_of(shards, n)
    twice = len(seen) - len(np.unique(seen))
    same = all(np.array_equal(shards[0], part) for part in shards)
    assert twice == 0, (
        f"{twice} of {n} images are seen more than once by {size} ranks"
        + (": all ranks have the same shard." if same else ", although the shards differ.")
        + " The ranks should take different parts of *one* shuffle."
    )
### BEGIN HIDDEN TESTS
# Not detected: shards that do not cover the epoch, which the next check detects.
for (n, size, _, _), shards in once("shards", other_epochs, shard):
    seen = images_of(shards, n)
    assert len(seen) == len(np.unique(seen)), f"with {n} images on {size} ranks, some are seen more than once"
    assert len(seen) > n - 2 * size, f"{size} ranks see only {len(seen)} of {n} images"
### END HIDDEN TESTS

# %% check="shards-cover" points=1 see="7.3"
"""Together the ranks see every image, except at most n mod p that cannot be divided evenly (1 point).

The hidden tests use other numbers of images and ranks, other epochs and seeds.
"""
for n, size in [(10, 2), (11, 2), (12_800, 2), (1_003, 4)]:
    seen = np.unique(images_of([shard(n, rank, size, 0, 0) for rank in range(size)], n))
    missed = n - len(seen)
    assert missed <= n % size, (
        f"{size} ranks miss {missed} of {n} images, but at most {n % size} may be left out. An image that "
        "two ranks see takes the place of another one; the check above counts these."
    )
### BEGIN HIDDEN TESTS
# Not detected: which images are left out. shards-make-one-batch detects it.
for (n, size, _, _), shards in once("shards", other_epochs, shard):
    seen = np.unique(images_of(shards, n))
    assert len(seen) >= n - n % size, f"{size} ranks see {len(seen)} of {n} images"
### END HIDDEN TESTS

# %% check="shards-equal-length" points=1 see="7.3"
"""All ranks take the same number of steps, even if the images cannot be divided evenly (1 point).

The hidden tests use other numbers of images and ranks.
"""
for n, size in [(12_800, 2), (11, 2), (10, 4)]:
    lengths = [len(shard(n, rank, size, 0, 0)) for rank in range(size)]
    expect(
        lengths,
        [n // size] * size,
        {
            "the first ranks got the remaining images, so they wait forever for the others.": [
                n // size + (rank < n % size) for rank in range(size)
            ],
            "every rank sees the whole epoch, so nothing is divided.": [n] * size,
        },
        f"the list of lengths of the shards of {n} images on {size} ranks",
    )
### BEGIN HIDDEN TESTS
# Not detected: shards that share images, which shards-disjoint detects.
for (n, size, _, _), shards in once("shards", other_epochs, shard):
    assert len(images_of(shards, n)) == n // size * size
    for part in shards:
        assert len(np.unique(part)) == n // size, "not every shard has n // size different images"
### END HIDDEN TESTS

# %% check="shards-reshuffled" points=1 see="7.3"
"""Each epoch has a shuffle that only (seed, epoch) determines, so it can be drawn again (1 point).

The hidden tests use other seeds and epochs.
"""
first, again, second = (shard(1_000, 1, 2, epoch, 0) for epoch in (0, 0, 1))
assert np.array_equal(first, again), (
    "the same seed and epoch gave two different shards; then no run can be repeated, and the ranks differ"
)
assert not np.array_equal(np.sort(first), np.sort(second)), (
    "rank 1 sees the same images in epochs 0 and 1. The shuffle must depend on the epoch; otherwise each "
    "rank learns from its own part of the data only."
)
### BEGIN HIDDEN TESTS
# Not detected: a shuffle of (seed, epoch) that differs from train_on_one's. shards-make-one-batch detects it.
rng = fresh_rng(2)
epoch, (seed, another) = int(rng.integers(9)), rng.choice(10**6, 2, replace=False).tolist()
for own in (seed, another):
    one, other = shard(1_000, 0, 4, epoch, own), shard(1_000, 0, 4, epoch + 1, own)
    assert not np.array_equal(np.sort(one), np.sort(other)), "the shuffle does not change from epoch to epoch"
    both = len(np.intersect1d(one, other))  # of 250 images each; two shuffles of 1,000 share about 62
    assert 30 < both < 100, f"two epochs share {both} of 250 images, so the second is not shuffled again"
    assert 80 < np.sum(np.diff(one) > 0) < 170, "the images of an epoch are not in random order"
same = np.array_equal(shard(1_000, 0, 4, epoch, seed), shard(1_000, 0, 4, epoch, another))
assert not same, "the shuffle ignores the seed"
### END HIDDEN TESTS

# %% check="shards-make-one-batch" points=1 see="7.3"
"""In each step the ranks' batches together make up the batch of one process (1 point).

The hidden tests use other numbers of images and ranks, a large seed, and one rank.
"""
batch = 3
for n, size, epoch in [(12, 2, 0), (11, 2, 1), (100, 4, 2)]:
    shuffle = np.random.default_rng([0, epoch]).permutation(n)  # as train_on_one draws it
    shards = [shard(n, rank, size, epoch, seed=0) for rank in range(size)]
    for step in range(n // (size * batch)):
        together = np.sort(np.concatenate([part[step * batch : (step + 1) * batch] for part in shards]))
        alone = np.sort(shuffle[step * size * batch : (step + 1) * size * batch])
        assert np.array_equal(together, alone), (
            f"{n} images, {size} ranks with batches of {batch}, epoch {epoch}, step {step}: together the "
            f"ranks see the images {together}; one process would have seen {alone}. Do you shuffle all n "
            "images, with a generator from [seed, epoch], and does a rank take every size-th index?"
        )
    place = np.argsort(shuffle)  # of each image in the shuffle
    for rank, part in enumerate(shards):
        assert np.all(place[part] % size == rank), (
            f"{n} images, {size} ranks, epoch {epoch}: rank {rank} takes the indices "
            f"{np.sort(place[part])} of the shuffle; it should take {rank}, {rank + size}, …"
        )
### BEGIN HIDDEN TESTS
# Not detected: the order within a batch, which does not change the mean gradient.
for (n, size, epoch, seed), shards in once("shards", other_epochs, shard):
    shuffle, batch = np.random.default_rng([seed, epoch]).permutation(n), 2
    for step in range(n // (size * batch)):
        together = np.concatenate([part[step * batch : (step + 1) * batch] for part in shards])
        alone = shuffle[step * size * batch : (step + 1) * size * batch]
        assert np.array_equal(np.sort(together), np.sort(alone)), (
            f"with {n} images on {size} ranks, the ranks' batches together differ from that of one process"
        )
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The learning rate
#
# With p ranks, a step averages the gradient over p times as many images, and an epoch has p times fewer
# steps. With steps of the same length, the weights would move only 1/p as far in an epoch. The *linear
# scaling rule* compensates for this: with p times as many images per step, the learning rate is pη.
#
# At the beginning, when the weights change fastest, such long steps can make training diverge. So training
# begins with η and increases it by the same amount at each step, until it reaches pη after W steps and stays
# there. This is the *gradual warmup* of Goyal et al., [Accurate, large minibatch
# SGD](https://arxiv.org/abs/1706.02677) (2017), who trained ResNet-50 on 256 GPUs with it. Their W is the
# number of steps in five epochs.


# %% solution="learning-rate"
def learning_rate(step, lr, size, warmup):
    """Return the learning rate of update number `step` = 0, 1, …: a float, not rounded.

    lr       η, the learning rate of one rank
    size     p
    warmup   W: the rate is lr at step 0, grows in equal increments to size * lr at step W, and stays there
    """
    assert step >= 0 and lr > 0 and size >= 1 and warmup >= 1
    ### BEGIN SOLUTION
    return lr + (size * lr - lr) * min(step / warmup, 1.0)
    ### END SOLUTION


# %% [markdown]
# Plot it for four ranks and a warmup of 20 steps. At which rate does the line begin, where does it bend, and
# at which rate does it end?

# %%
steps = range(40)
plt.figure(figsize=(6, 2.5))
plt.plot(steps, [learning_rate(t, 0.1, 4, 20) for t in steps], "o-", markersize=3)
plt.xlabel("step")
plt.ylabel("learning rate")
plt.ylim(0, 0.5)
plt.show()

# %% check="warmup-by-hand" points=1 see="7.2"
"""η = 0.1, four ranks, four steps of warmup: each adds a quarter of the difference from 0.1 to 0.4 (1 point).

The hidden tests use other numbers.
"""
expect(
    [round(float(learning_rate(t, 0.1, 4, 4)), 9) for t in range(7)],
    [0.1, 0.175, 0.25, 0.325, 0.4, 0.4, 0.4],
    {
        "the warmup starts at 0; gradual warmup starts at η, the rate that suits one rank.": [0.0, 0.1, 0.2]
        + [0.3]
        + [0.4] * 3,
        "the learning rate is not scaled with the number of ranks.": [0.1] * 7,
        "it is scaled, but not warmed up.": [0.4] * 7,
        "it is warmed up, and then drops back to η.": [0.1, 0.175, 0.25, 0.325] + [0.1] * 3,
        "η is divided among the ranks; they average their gradients, so it must grow.": [0.025] * 7,
        "pη is reached one step early, at step W − 1; it should be reached at step W.": [0.1, 0.2, 0.3]
        + [0.4] * 4,
        "step 0 has the rate of step 1; `step` counts from 0.": [0.175, 0.25, 0.325] + [0.4] * 4,
        "it continues to grow after step W; there it must stay at pη.": [
            0.1,
            0.175,
            0.25,
            0.325,
            0.4,
            0.475,
            0.55,
        ],
        "it ends at (p + 1)η; the increments should add up to (p − 1)η.": [0.1, 0.2, 0.3, 0.4] + [0.5] * 3,
        "it ends at (p − 1)η; it should lead from η to pη.": [0.1, 0.15, 0.2, 0.25] + [0.3] * 3,
        "it grows from 0 to (p − 1)η: the η that it starts with is missing.": [0.0, 0.075, 0.15, 0.225]
        + [0.3] * 3,
        "it grows by equal factors; gradual warmup has equal increments.": [0.1, 0.141421356, 0.2]
        + [0.282842712]
        + [0.4] * 3,
    },
    "the list of learning rates at steps 0 to 6",
)
### BEGIN HIDDEN TESTS
# Not detected: a float32 with the same digits. The next check compares ten digits.
rng = fresh_rng(3)
ranks, warmup = int(rng.choice([3, 5])), int(rng.choice([4, 5]))  # so the rates have two decimal places
for lr in (rng.choice(9, 2, replace=False) + 1) / 10:
    rates = [round(float(learning_rate(t, float(lr), ranks, warmup)), 9) for t in range(warmup + 2)]
    want = [round(lr * (1 + (ranks - 1) * min(t / warmup, 1)), 9) for t in range(warmup + 2)]
    expect(rates, want, name="the list of learning rates with other numbers")
### END HIDDEN TESTS

# %% check="warmup-values" points=1 see="7.2"
"""Other ranks and warmups; on one rank nothing changes (1 point).

The hidden tests use up to 256 ranks, a warmup of one step, and compare ten digits.
"""
### AUTOTEST [float(learning_rate(t, 0.2, 2, 50)) for t in (0, 1, 25, 49, 50, 51, 1_000)]
### AUTOTEST [float(learning_rate(t, 0.2, 1, 50)) for t in (0, 25, 50, 75)]
### BEGIN HIDDEN TESTS
# Not detected: nothing known. A rate that is cached by its step fails, because η changes in between.
rng = fresh_rng(4)
cases = [(int(rng.integers(4, 16)), int(rng.integers(3, 9))), (256, int(rng.integers(20_000, 30_000)))]
cases += [(3, 1), (3, 7), (3, 7)]  # a warmup of one step, and one that the next η repeats
for size, warmup in cases:
    lr = float(rng.uniform(0.01, 0.5))
    rates = [learning_rate(t, lr, size, warmup) for t in range(0, 2 * warmup + 1, max(1, warmup // 5))]
    rises = np.diff([r for t, r in zip(range(0, warmup + 1, max(1, warmup // 5)), rates, strict=False)])
    assert np.allclose([rates[0], rates[-1]], [lr, size * lr], rtol=1e-10), (
        f"η = {lr}, {size} ranks, W = {warmup}: the learning rate goes from {rates[0]:.12g} to "
        f"{rates[-1]:.12g}; it should go from {lr} to {size * lr:.12g}, not rounded"
    )
    assert np.allclose(rises, rises[0], rtol=1e-8), (
        f"η = {lr}, {size} ranks, W = {warmup}: the increments of the warmup should be "
        f"equal; they are {rises}"
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 3. What the ranks communicate
#
# So far the ranks have not communicated. Now they need three exchanges, and a rule for which rank writes.
# Each exchange is a *collective* operation of Horovod: a function that every rank must call, and that returns
# when all ranks have called it. If one rank does not call it, all others wait.
#
# Keras 3 wraps its weights in `keras.Variable`. TensorFlow and Horovod need the TensorFlow variable inside,
# `variable.value`.
#
# ### Equal starts
#
# If two ranks begin with different weights and then take equal steps, their difference stays the same. So
# before the first step all ranks receive the variables of rank 0. These are its weights and the state of its
# optimizer. The state matters with momentum, or if training resumes from a checkpoint that only rank 0 has
# read.


# %% solution="broadcast"
def broadcast(variables):
    """Overwrite the keras.Variables of every rank with those of rank 0, whatever their dtype.

    hvd.broadcast_variables(tensorflow_variables, root_rank) sends a list of them.
    """
    assert all(isinstance(v, keras.Variable) for v in variables)
    ### BEGIN SOLUTION
    hvd.broadcast_variables([v.value for v in variables], root_rank=0)
    ### END SOLUTION


# %% [markdown]
# ### Equal steps
#
# The loss is the mean over the images. For p shards of equal size, the gradient over all images is the
# *mean* of the ranks' gradients:
#
# $$
# \frac{1}{pn}\sum_{r=1}^{p}\sum_{i=1}^{n} \nabla \ell_{r,i}
# \;=\; \frac{1}{p}\sum_{r=1}^{p}\Big(\frac{1}{n}\sum_{i=1}^{n} \nabla \ell_{r,i}\Big)
# $$
#
# Horovod wraps the tape. The method `gradient` of a `hvd.DistributedGradientTape` around your tape ends with
# an all-reduce, so every rank gets the mean and takes the same step.


# %% solution="average-gradient"
def average_gradient(tape, loss, variables):
    """Return the gradient of the loss, averaged over the ranks: a list of tensors, one per keras.Variable.

    tape   the tf.GradientTape that recorded how this rank's loss, a scalar, came from the variables; the
           loss depends on each of them
    """
    sources = [v.value for v in variables]
    ### BEGIN SOLUTION
    return hvd.DistributedGradientTape(tape).gradient(loss, sources)
    ### END SOLUTION


# %% [markdown]
# ### One accuracy
#
# At the end each rank tests the network on its part of the test images. The training run reports the accuracy
# over all test images. Two ranks cannot divide 2,001 test images evenly, and a mean of two accuracies over
# different numbers of images is not the accuracy over all of them. Counts, however, *can* be added up.
#
# `hvd.allreduce(tensor, op=hvd.Sum)` returns on every rank the sum of the ranks' tensors. It requires a
# tensor, such as `tf.constant([3, 4], tf.float64)`, not Python numbers. In float64 the sum is exact for all
# counts in this assignment.


# %% solution="average-metric"
def average_metric(right, seen):
    """Return the fraction of correct answers over all ranks, a float, not rounded, on every rank.

    right, seen   this rank classified `right` of its `seen` images correctly
    """
    assert 0 <= right <= seen and seen > 0, f"{right} right of {seen}"
    ### BEGIN SOLUTION
    right, seen = hvd.allreduce(tf.constant([right, seen], tf.float64), op=hvd.Sum)
    return float(right / seen)
    ### END SOLUTION


# %% [markdown]
# ### One rank writes
#
# The ranks share one folder. If all of them write the checkpoint, p processes write to the same file at the
# same time, and the file may end up corrupted. Their weights are equal, so only rank 0 needs to write.
#
# A job may also be killed while it writes. The previous checkpoint is then lost, and the new one is
# incomplete. So write to another name *next to* the real one, and rename the file when it is complete.
# `os.replace` is atomic: at any moment `path` is either the old file or the new one.


# %% solution="save-checkpoint"
def save_checkpoint(net, path):
    """Rank 0 saves the network at `path` (a pathlib.Path that ends in .keras); other ranks write nothing.

    First save to `beside`, next to `path`, with `net.save(beside)`. Then rename that file, so that at any
    moment `path` is a complete checkpoint, the old one or the new one. No other file remains.
    """
    assert path.suffix == ".keras", f"the file name should end in .keras; it is {path.name}"
    beside = path.with_name(f"unfinished-{path.name}")
    ### BEGIN SOLUTION
    if hvd.rank() == 0:
        net.save(beside)
        os.replace(beside, path)
    ### END SOLUTION


# %% [markdown]
# ## The training, data-parallel
#
# Now everything is combined. This is `train_on_one` with your six functions inserted; `# +` marks the lines
# that are new. Compare the two. All other lines are unchanged, except that the step is in a separate cell.
#
# Note two details. Each rank starts with its own seed, as independent processes do; the broadcast then makes
# their weights equal. And the warmup lasts one epoch.


# %% given="train"
def train(images=IMAGES, epochs=EPOCHS, batch=BATCH, lr=LR, seed=0):
    """Train LeNet-5 on all ranks, with `batch` images per rank and step; return as train_on_one does."""
    hvd.init()  # +
    rank, size = hvd.rank(), hvd.size()  # +
    x, y = data.fashion_mnist("train", images)  # (N, 28, 28, 1), (N,)
    net, optimizer = models.lenet5(seed + rank), keras.optimizers.SGD(lr)
    optimizer.build(net.trainable_variables)
    shards = [shard(images, rank, size, epoch, seed) for epoch in range(epochs)]  # + (N // p,) each
    plan = [indices for part in shards for indices in data.batches(part, batch)]
    broadcast(net.variables + optimizer.variables)  # +
    update = make_update(net, optimizer)

    for step, indices in enumerate(plan):
        optimizer.learning_rate = learning_rate(step, lr, size, warmup=len(plan) // epochs)  # +
        loss = update(x[indices], y[indices])
        log(step=step + 1, steps=len(plan), loss=float(loss), lr=float(optimizer.learning_rate))
    x, y = data.fashion_mnist("test", 2_001)
    accuracy = average_metric(*count_right(net, x[rank::size], y[rank::size]))  # +
    save_checkpoint(net, run_folder() / "lenet5.keras")  # +
    return {"accuracy": accuracy, "weights": digest(net)}


# %% given="make-update"
def make_update(net, optimizer):
    """Return one training step, a TensorFlow function of a batch (n, 28, 28, 1) and its labels (n,)."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def update(images, labels):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, net(images, training=True))
        gradient = average_gradient(tape, loss, net.trainable_variables)  # +
        optimizer.apply(gradient, net.trainable_variables)
        return loss

    return update


# %% [markdown]
# ## Try it on ranks
#
# A notebook is a single process, so you cannot try collectives in it. The next cells define *trials*, which
# are functions that call yours with values that are small enough to work out by hand. `on_ranks(trial,
# inputs)` starts as many ranks as there are inputs, calls the trial on each, with `inputs[r]` on rank r,
# and returns one outcome per rank. A rank gets only its own inputs. It gets values of other ranks only
# through your functions. You can test other distributed code in the same way. In these trials Horovod
# reports that the ranks are on two nodes, half of them on each. `hvd.local_rank()` is a rank's number on
# its node, and `hvd.cross_rank()` is the number of the node. If there are two ranks, each is alone on its
# node, so both have the local rank 0.


# %% given="trials"
def on_two_nodes():
    """Make Horovod report that the first half of the ranks is on one node, the rest on another."""
    tf.config.run_functions_eagerly(True)  # otherwise TensorFlow compiles Horovod's functions, for seconds
    first = (hvd.size() + 1) // 2  # number of ranks on the first node
    sizes = [first, hvd.size() - first]
    node, local = divmod(hvd.rank(), first)
    hvd.local_rank, hvd.local_size = (lambda: local), (lambda: sizes[node])
    hvd.cross_rank, hvd.cross_size = (lambda: node), (lambda: sum(local < size for size in sizes))


def try_start(weight, statistic, step):
    """Broadcast three variables of this rank; return their values afterwards."""
    on_two_nodes()
    variables = [
        keras.Variable(weight),
        keras.Variable(statistic, trainable=False),  # as batch normalisation has them
        keras.Variable(step, trainable=False, dtype="int64"),  # as optimizers count
    ]
    broadcast(variables)
    return [v.numpy().tolist() for v in variables]


def try_gradient(slopes):
    """Average the gradient of the loss slopes · weights, whose gradient on this rank is the slopes."""
    on_two_nodes()
    weights = [keras.Variable(np.zeros_like(slope)) for slope in slopes]
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(slope * w.value) for slope, w in zip(slopes, weights, strict=True))
    return [np.asarray(g).tolist() for g in average_gradient(tape, loss, weights)]


def try_metric(right, seen):
    """Return the metric if this rank classified `right` of its `seen` images correctly."""
    on_two_nodes()
    return average_metric(right, seen)


# %% given="trial-checkpoint"
class Page(keras.Sequential):
    """Stands for a network: saves a text that shows which rank wrote it, is stopped, or loses the file."""

    def __init__(self, text, stopped=False, lost=False):
        super().__init__()
        self.text, self.stopped, self.lost = text, stopped, lost

    def save(self, filepath, *_, **__):
        if self.lost:
            return
        Path(filepath).write_text(self.text[:4] if self.stopped else self.text)
        if self.stopped:
            assert Path.cwd() in Path(filepath).absolute().parents, (
                f"{filepath} is not next to the checkpoint: in another file system, it would be copied "
                "instead of renamed"
            )
            raise InterruptedError("the job was stopped while it wrote")


def try_checkpoint(first, second, name="lenet5.keras", beside=None):
    """Save twice to the same path; `kept` is a second name for the file of the first save.

    beside: the contents of a file that another rank is writing next to it, in a shared folder.
    """
    on_two_nodes()
    path = Path(name)  # in this rank's own folder, which shows who writes
    if beside is not None:
        path.with_name(f"unfinished-{name}").write_text(beside)
    save_checkpoint(Page(first), path)
    if path.exists():
        os.link(path, "kept")
    save_checkpoint(Page(second), path)


def try_power_cut(old, new):
    """Start with an old checkpoint or none, get killed while saving a new one, then save it completely."""
    on_two_nodes()
    path = Path("lenet5.keras")
    if old is not None:
        path.write_text(old)
    with contextlib.suppress(InterruptedError):
        save_checkpoint(Page(new, stopped=True), path)
    if path.exists():
        os.link(path, "after-the-cut")  # as `kept` above
    save_checkpoint(Page(new), path)


def try_lost(old, new):
    """Lose the new file while it is saved. Is the old checkpoint still there?"""
    on_two_nodes()
    path = Path("lenet5.keras")
    path.write_text(old)
    with contextlib.suppress(OSError):
        save_checkpoint(Page(new, lost=True), path)


# %% given="trial-training"
def try_training(x, y, batch, lr, warmup, steps, seed=0):
    """Take the first steps of `train` with other images; return this rank's losses and final weights."""
    rank, size = hvd.rank(), hvd.size()
    net, optimizer = models.lenet5(seed + rank), keras.optimizers.SGD(lr)
    optimizer.build(net.trainable_variables)
    plan = data.batches(shard(len(y), rank, size, 0, seed), batch)
    broadcast(net.variables + optimizer.variables)
    update, losses = make_update(net, optimizer), []
    for step, indices in enumerate(plan[:steps]):
        optimizer.learning_rate = learning_rate(step, lr, size, warmup)
        losses.append(float(update(x[indices], y[indices])))
    return {"losses": losses, "weights": net.get_weights()}


def try_eagerly(**inputs):
    """Do what try_training does, with steps that TensorFlow does not compile, which takes seconds."""
    tf.config.run_functions_eagerly(True)
    return try_training(**inputs)


# %% given="evidence"
def evidence(trial, inputs, **options):
    """Return a list of what a trial returned on each rank; raise AssertionError if a rank did not return."""
    found = on_ranks(trial, inputs, **options)
    for rank, outcome in enumerate(found):
        error = outcome.error
        value = " (Horovod requires variable.value instead of a keras.Variable)"
        wrapped = "no attribute 'assign'" in error or "no attribute 'ref'" in error
        assert not error, (  # without the call stack in TensorFlow's errors
            f"rank {rank} ended with "
            f"{' '.join(line for line in error.splitlines() if line and '  File' not in line)}"
            f"{value if wrapped else ''}"
        )
    waiting = [f"rank {rank} in {o.unfinished}()" for rank, o in enumerate(found) if o.unfinished]
    assert not waiting, (
        f"the trial reached its time limit: {', '.join(waiting)}. A collective returns when all ranks have "
        "called it: does every rank call it, outside any `if` that depends on the rank?"
    )
    return [outcome.value for outcome in found]


def written(trial, inputs):
    """Return {file: contents} for each rank after a trial: a text from the inputs, or "something else"."""
    evidence(trial, inputs)  # raises AssertionError if it did not run
    texts = {text for own in inputs for text in own.values() if text is not None}
    texts = {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}
    ranks = on_ranks(trial, inputs)
    return [{name: texts.get(sha, "something else") for name, (_, sha, _) in r.files.items()} for r in ranks]


# %% [markdown]
# These are the inputs of the trials, those for rank 0 first. Work out the results before you run the trials:
# the variables of each rank after the broadcast, the averaged gradient (of 3 and 5), the metric (3 of 4 and 1
# of 6 images are correct), and the files. A `NotImplementedError` names a blank that is still empty.
# *unfinished: it waits in f()* means that this rank called f and waited for a rank that did not call it.

# %% given="by-hand"
START = [{"weight": 7.0, "statistic": 1.5, "step": 3}, {"weight": 9.0, "statistic": 2.5, "step": 0}]
SLOPES = [{"slopes": [3.0]}, {"slopes": [5.0]}]
COUNTS = [{"right": 3, "seen": 4}, {"right": 1, "seen": 6}]
TEXTS = [{"first": "epoch 1 of rank 0", "second": "epoch 2 of rank 0"}]
TEXTS += [{"first": "epoch 1 of rank 1", "second": "epoch 2 of rank 1"}]
CUT = [{"old": "the old one", "new": "the new one"}]  # one rank: a killed job ends on all its ranks
TRIALS = [(try_start, START), (try_gradient, SLOPES), (try_metric, COUNTS)]
TRIALS += [(try_checkpoint, TEXTS), (try_power_cut, CUT), (try_lost, CUT)]

# %% tags=["measured"]
for trial, inputs in TRIALS:
    for rank, outcome in enumerate(on_ranks(trial, inputs)):
        waits = outcome.unfinished and f"unfinished: it waits in {outcome.unfinished}()"
        what = outcome.error or waits or outcome.value or [*outcome.files]
        print(f"{trial.__name__:14} rank {rank}  {what}")

# %% check="ranks-start-equal" points=2 see="7.2"
"""After the broadcast, ranks with different initial variables have those that rank 0 has (2 points).

The hidden tests use three ranks, arrays, and values that a lower precision cannot represent.
"""
found = evidence(try_start, START)
expect(
    [weight for weight, _, _ in found],
    [7.0, 7.0],
    {
        "the ranks keep their own weights: nothing was sent, or it was not assigned to the variables.": [
            7.0,
            9.0,
        ],
        "the weights were averaged; a broadcast takes over rank 0's.": [8.0, 8.0],
        "the last rank's weights were sent, not rank 0's.": [9.0, 9.0],
    },
    "the list of weights on ranks 0 and 1",
)
expect(
    [rest for _, *rest in found],
    [[1.5, 3], [1.5, 3]],
    {
        "only trainable variables were sent. The state of the optimizer and the statistics of a batch "
        "normalisation then differ between the ranks.": [[1.5, 3], [2.5, 0]]
    },
    "the list of variables that are not trainable, on ranks 0 and 1",
)
### BEGIN HIDDEN TESTS
# Not detected: how the variables are sent. Any collective that leaves rank 0's values on all ranks is right.
rng = fresh_rng(5)
large = 2**53 + 1 + 2 * rng.integers(1000, size=2)  # odd counts that no float64 holds
weights = rng.uniform(0.1, 9, (3, 2, 3)) * [[[1.0]], [[np.nan]], [[-1.0]]]
other = [
    {"weight": weights[0].tolist(), "statistic": rng.uniform(0.1, 9, 1).tolist(), "step": large.tolist()}
]
other += [{"weight": weights[1].tolist(), "statistic": [np.inf], "step": [7, 1]}]
other += [{"weight": weights[2].tolist(), "statistic": [-1.0], "step": [0, 0]}]
found = evidence(try_start, other)
first = [*(np.float32(other[0][name]).tolist() for name in ("weight", "statistic")), large.tolist()]
assert found == [first] * 3, (
    f"after the broadcast, the variables on three ranks are {found}; on all ranks they "
    f"should be exactly those of rank 0, {first}"
)
### END HIDDEN TESTS

# %% check="gradient-by-hand" points=2 see="7.2"
"""Gradients 3 and 5 average to 4, on both ranks (2 points).

The hidden tests use several variables, three ranks, and values that a lower precision cannot represent.
"""
expect(
    evidence(try_gradient, SLOPES),
    [[4.0], [4.0]],
    {
        "each rank keeps its own gradient, as a plain tape returns it, so the networks diverge.": [
            [3.0],
            [5.0],
        ],
        "all ranks have rank 0's gradient, so the images of the others are ignored.": [[3.0], [3.0]],
        "the gradients were added up, so each step is p times too long. (They may have been divided by the "
        "number of ranks of a node: here each node has one.)": [[8.0], [8.0]],
        "the mean was divided by p once more, so each step is p times too short.": [[2.0], [2.0]],
    },
    "the list of gradients on ranks 0 and 1",
)
### BEGIN HIDDEN TESTS
# Not detected: a variable on which the loss does not depend, which the docstring excludes.
rng = fresh_rng(6)
large = rng.uniform(66_000, 90_000)  # float16 ends at 65,504
one = rng.permutation([rng.uniform(0.1, 1), large, -rng.uniform(1, 9)])
several = rng.integers(-9, 9, (3, 2)).astype(float)
other = [{"slopes": [float(one[rank]), several[rank]]} for rank in range(3)]
expect(
    evidence(try_gradient, other),
    [[one.mean().item(), several.mean(axis=0).tolist()]] * 3,
    name="the mean of three numbers, and that of three arrays",
)
### END HIDDEN TESTS

# %% check="metric-over-all-ranks" points=2 see="7.4"
"""With 3 of 4 and 1 of 6 images correct, both ranks return 4 of 10 (2 points).

The hidden tests use other counts, some of them large, and three ranks.
"""
expect(
    evidence(try_metric, COUNTS),
    [0.4, 0.4],
    {
        "each rank reports its own fraction of right answers.": [3 / 4, 1 / 6],
        "it is the mean of the ranks' fractions, but they saw different numbers of images.": [
            11 / 24,
            11 / 24,
        ],
        "all ranks report rank 0's fraction.": [3 / 4, 3 / 4],
        "the fractions were added up.": [11 / 12, 11 / 12],
        "only rank 0 has the result.": [0.4, None],
    },
    "the list of metrics on ranks 0 and 1",
)
### BEGIN HIDDEN TESTS
# Not detected: counts above 2⁵³, which no data set has. Rounded fractions and float32 fail.
rng = fresh_rng(7)
many = 2**24 + 3 + 6 * int(rng.integers(10**6))  # odd, so no float32 holds it; the sum is no multiple of 3
counts = [(1, 1), (many, 2 * many + 3 + 6 * int(rng.integers(99))), (2, 3)]
other = [{"right": right, "seen": seen} for right, seen in counts]
found = evidence(try_metric, [other[i] for i in rng.permutation(3)])
share = (many + 3) / sum(one["seen"] for one in other)
assert all(abs(one - share) < 1e-12 for one in found), (
    f"with large counts, three ranks return {found}; the fraction should be {share:.12f}. Sums of these "
    "counts are exact in float64."
)
### END HIDDEN TESTS

# %% check="one-rank-writes" points=1 see="7.4"
"""Rank 0 writes one checkpoint, and the other rank writes nothing (1 point).

The hidden tests use three ranks, another name, and a folder in which other files are being written.
"""
files = [sorted(set(names) - {"kept"}) for names in written(try_checkpoint, TEXTS)]
expect(
    files,
    [["lenet5.keras"], []],
    {
        "every rank writes, so p processes write to one file. (hvd.local_rank() is 0 once on each node, and "
        "here each rank has a node of its own.)": [["lenet5.keras"], ["lenet5.keras"]],
        "no rank writes.": [[], []],
        "the finished checkpoint was not renamed.": [["unfinished-lenet5.keras"], []],
        "it was copied, not renamed.": [["lenet5.keras", "unfinished-lenet5.keras"], []],
        "every rank saves next to the checkpoint, and only rank 0 renames: p processes write to one file.": [
            ["lenet5.keras"],
            ["unfinished-lenet5.keras"],
        ],
    },
    "the lists of files that ranks 0 and 1 wrote",
)
### BEGIN HIDDEN TESTS
# Not detected: a file that is removed again before the function returns. It is harmless unless ranks share
# its name, which is why another rank is writing such a file here.
rng = fresh_rng(8)
name, texts = f"best-{rng.integers(100)}.keras", rng.choice(10**6, (3, 2), replace=False).astype(str).tolist()
other = [{"first": first, "second": second, "name": name} for first, second in texts]
shared = [own | {"beside": f"half {rank}" if rank else None} for rank, own in enumerate(other)]
found = written(try_checkpoint, shared)
assert found[0].get(name) in texts[0], "rank 0's file is not the one that its network has saved"
assert set(found[0]) - {"kept"} == {name}
for rank, names in enumerate(found[1:], 1):  # in a folder that the ranks share
    assert names == {f"unfinished-{name}": f"half {rank}"}, (
        f"rank {rank} has changed the file that rank 0 is writing; its files are now {names}"
    )
### END HIDDEN TESTS

# %% check="checkpoint-whole" points=1 see="7.4"
"""A job that is killed while it writes keeps the old checkpoint; a complete save replaces it (1 point).

The hidden tests kill a job at its first checkpoint, and save twice with other contents.
"""
cut, saved = written(try_power_cut, CUT)[0], written(try_checkpoint, TEXTS)[0]
old, new, first, second = *CUT[0].values(), *TEXTS[0].values()
assert saved, "rank 0 does not write a checkpoint"
assert cut.get("after-the-cut") == old, (
    "after the job was killed, the old checkpoint is lost: it was overwritten or removed before the new one "
    "was complete"
)
assert written(try_lost, CUT)[0].get("lenet5.keras") == old, (
    "the new file was not written, and the old checkpoint is lost, too: it was removed before the new one "
    "was renamed. os.replace does both at once"
)
assert cut.get("lenet5.keras") == new and saved.get("lenet5.keras") == second, (
    "after a complete save, `path` is still the old checkpoint; the new one must replace it"
)
assert saved.get("kept") == first, (
    "the new checkpoint was written *into* the file of the old one, so a job that is killed halfway leaves "
    "a mixture of both. Use os.replace: a copy overwrites the old file"
)
### BEGIN HIDDEN TESTS
# Not detected: a new file whose bytes are not on the disk when it is renamed (no fsync). A kill does not lose
# these bytes, only a power failure does.
old, new, second = fresh_rng(9).choice(10**6, 3, replace=False).astype(str).tolist()
found = written(try_power_cut, [{"old": old, "new": new}])
assert found[0].get("after-the-cut") == old and found[0].get("lenet5.keras") == new, (
    "after a kill and a second save, one of the checkpoints is lost"
)
assert set(found[0]) == {"after-the-cut", "lenet5.keras"}, "the unfinished file remains after the save"
found = written(try_power_cut, [{"old": None, "new": new}])
assert "after-the-cut" not in found[0], "a job that is killed at its first checkpoint leaves a part of one"
assert found[0] == {"lenet5.keras": new}, "after a kill at the first checkpoint, the second save is missing"
found = written(try_checkpoint, [{"first": new, "second": second}])[0]
assert (found.get("kept"), found.get("lenet5.keras")) == (new, second), "a save writes into the old file"
### END HIDDEN TESTS

# %% [markdown]
# ## Train
#
# On one rank nothing may change: p = 1 scales the learning rate by 1 and averages one gradient, so the
# weights are those of `train_on_one` to the last bit. (You can verify this with
# `submit(train).result()["weights"] == baseline.result()["weights"]`.) So `baseline` also serves as the run
# on one rank, and only the run on two ranks is new. **Submit this run with the notebook.** It is in `runs/`,
# next to this notebook, with its code, metrics and checkpoint. During grading it is replayed instead of run
# again. It counts only if the autograder gets the same losses when it runs the first eight steps again on two
# ranks. If you change one of the six functions later, run this cell and all cells below again.

# %%
two = submit(train, ranks_per_node=2, time="00:04:00")
two.results()

# %% [markdown]
# ## Compare
#
# A step on two ranks covers twice as many images, so the curves are drawn over the images seen. The left plot
# shows the loss, averaged over the ranks and over 1,280 images; the right plot shows your learning rate.

# %%
fig, (loss, rate) = plt.subplots(1, 2, figsize=(9, 3.2))
for job, line in ((baseline, "-"), (two, "--")):
    steps = job.metrics().groupby("step").mean()  # over the ranks
    images = steps.index * BATCH * job.ranks
    mean_loss = steps["loss"].rolling(10 // job.ranks, min_periods=1).mean()
    loss.plot(images, mean_loss, line, label=f"p = {job.ranks}")
    rate.plot(images, steps["lr"] if job is two else 0 * images + LR, line, label=f"p = {job.ranks}")
loss.set(xlabel="images seen", ylabel="training loss", ylim=(0, None))
rate.set(xlabel="images seen", ylabel="learning rate", ylim=(0, 0.45))
loss.legend()
plt.show()

# %% [markdown]
# *The figure:* two loss curves that decrease from the same value, solid for one rank, dashed for two. In the
# first epoch the dashed one decreases later; at the end it is close to the solid one. On the right, the
# learning rate of one rank is constant, and that of two ranks rises during the first epoch to twice the
# value.
#
# Do the curves agree? Two ranks take half as many steps, each twice as long after the warmup. In the first
# epoch, while the learning rate still grows, they lag behind. This delay is a cost of the larger batch.
#
# Now compare the times.

# %%
speed = {}
for job in (baseline, two):
    speed[job.ranks] = BATCH * job.ranks / seconds_a_step(job)  # images / s
    print(
        f"p = {job.ranks}: {1e3 * seconds_a_step(job):5.1f} ms per step, {speed[job.ranks]:6,.0f} images/s, "
        f"accuracy {job.result()['accuracy']:.3f}"
    )
extra = seconds_a_step(two) - seconds_a_step(baseline)
print(
    f"speed-up {speed[2] / speed[1]:.2f} (your prediction: {my_speedup or 'none'}), "
    f"efficiency {speed[2] / speed[1] / 2:.0%}; your prediction of the accuracy: {my_accuracy or 'none'}"
)
print(
    f"a step on two ranks takes {1e3 * extra:.1f} ms more; predicted for the exchange {1e3 * exchange:.2f} ms"
)

# %% [markdown]
# A step on two ranks takes longer than one on one rank, usually by more than the time to transfer the bytes.
# Before they exchange gradients, the ranks agree on which gradients are ready on all of them, and they check
# for new ones only at intervals. The faster rank waits for the slower one. And two processes share the memory
# and caches of one machine.
#
# If the efficiency is above 100%, the conditions of the two runs differed. They were measured one after the
# other, and on a shared machine other processes may have slowed down the run on one rank. Measure both again,
# alternating between them.
#
# Some of these costs do not grow with the computation per step; waiting and memory contention partly do.
# Suppose that none of them grows, while a larger network or batch multiplies the computation per step. The
# resulting speed-up is an upper bound:

# %%
for factor in (4, 16, 64):
    computing = factor * seconds_a_step(baseline)
    print(f"{factor:2} times the work: speed-up {2 * computing / (computing + extra):.2f} (at best)")

# %% [markdown]
# This is why large networks and large batches are trained data-parallel. LeNet-5 benefits least, because it
# computes little between two exchanges.
#
# Finally, compare the weights. Two ranks that took the same steps from the same start must agree to the
# last bit, because they apply the *same* averaged gradient to the *same* weights. A single rank ends with
# different weights, because it has taken twice as many steps, each of them shorter.

# %%
for job in (baseline, two):
    for rank, result in enumerate(job.results()):
        print(f"p = {job.ranks}, rank {rank}: {result['weights'][:16]}…")

# %% [markdown]
# ## Is it one training run?
#
# All checks so far may pass although the training as a whole is wrong. So return to the question at the
# beginning: are the ranks still one training run? One process, without Horovod and without your functions,
# shuffles as `train_on_one` does, cuts the shuffle into batches of p·n, and takes each step by hand. In each
# step its loss must agree with that of the two ranks.


# %% given="one-process"
RATES = {  # by W: the learning rates of the first eight steps on two ranks
    4: [0.1, 0.125, 0.15, 0.175, 0.2, 0.2, 0.2, 0.2],  # η = 0.1
    50: [0.2, 0.204, 0.208, 0.212, 0.216, 0.22, 0.224, 0.228],  # η = 0.2
}


def one_process(x, y, steps, batch, lr, warmup, seed=0):
    """Take the first steps as one process, with batches of 2 * batch images; return losses and weights."""
    assert RATES[warmup][0] == lr, f"RATES has no learning rates for lr = {lr} and warmup = {warmup}"
    net, losses = models.lenet5(seed), []
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    shuffle = np.random.default_rng([seed, 0]).permutation(len(y))
    plan = data.batches(shuffle, 2 * batch)
    for rate, indices in zip(RATES[warmup][:steps], plan, strict=False):  # (2 * batch,)
        with tf.GradientTape() as tape:
            loss = cross_entropy(y[indices], net(x[indices], training=True))
        weights = [v.value for v in net.trainable_variables]
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(rate * g)
        losses.append(float(loss))
    return np.array(losses), net.get_weights()


# %% given="losses-of"
def losses_of(job, steps=8):
    """Return the first losses of a job, averaged over its ranks: (steps,)."""
    return job.metrics().groupby("step").loss.mean().to_numpy()[:steps]


# %% [markdown]
# How close must the losses be? They cannot be equal. float32 has 24 bits, so each rounding causes a relative
# error of up to 6·10⁻⁸, and a sum over 256 images is rounded differently from the mean of two sums over 128.
# These differences grow slowly from step to step. The check allows a relative difference of 10⁻⁴; compare it
# with your differences. With a wrong start, shard, gradient or learning rate, the difference exceeds the
# tolerance within these eight steps, sometimes only in the last one. The losses do not reveal a missing
# reshuffle, a wrong metric, or which rank writes.

# %% given="as-train"
AS_TRAIN = {"steps": 8, "batch": BATCH, "lr": LR, "warmup": IMAGES // 2 // BATCH}  # an epoch of two ranks

# %%
losses, _ = one_process(*data.fashion_mnist("train", IMAGES), **AS_TRAIN)
print("relative difference, steps 1 to 8:", " ".join(f"{d:.0e}" for d in np.abs(losses_of(two) / losses - 1)))

# %% [markdown]
# The checks use a smaller training run, on 129 images with a global batch size of 16 on two ranks. During
# grading they use other images, and each rank has only the images of its own shard; the others are `nan`. A
# mistake in one of your functions costs the points of its own checks. If only one function is wrong, and a
# visible test detects it, you lose no other points during grading: the three checks that follow are then
# skipped, or use a correct function instead. In your notebook they still fail.


# %% given="few-images"
FEW = {"steps": 8, "batch": 8, "lr": 0.1, "warmup": 4}


def few_images(seed):
    """Return 129 random images (129, 28, 28, 1) and their labels (129,)."""
    rng = np.random.default_rng(seed)
    return rng.random((129, 28, 28, 1), np.float32), rng.integers(0, 10, 129)


def trained(trial, x, y, shards=None, seed=0, **options):
    """Return what a training trial returns on two ranks; with `shards`, rank r has only images shards[r]."""
    inputs = []
    for rank in range(2):
        own = slice(None) if shards is None else shards[rank]
        images = np.full_like(x, np.nan)
        images[own] = x[own]
        inputs.append({"x": images, "y": y, "seed": seed} | FEW)
    return evidence(trial, inputs, **options)


# %% given="own-checks"
OWN_CHECKS = {
    "shard": [
        *("shards-disjoint", "shards-cover", "shards-equal-length"),
        *("shards-reshuffled", "shards-make-one-batch"),
    ],
    "learning_rate": ["warmup-by-hand", "warmup-values"],
    "broadcast": ["ranks-start-equal"],
    "average_gradient": ["gradient-by-hand"],
    "average_metric": ["metric-over-all-ranks"],
    "save_checkpoint": ["one-rank-writes", "checkpoint-whole"],
}
TRAINING = ("shard", "learning_rate", "broadcast", "average_gradient")


def follows(functions):
    """Return the function that has failed its checks if it is the only one; otherwise ""."""
    faulty = [name for name in functions if any(map(has_failed, OWN_CHECKS[name]))]
    if len(faulty) != 1:
        return ""
    print(f"The checks of {faulty[0]} state what is wrong with it. It costs nothing more here.")
    return faulty[0]


# %% given="agree"
def weights_agree(found, weights=None):
    """Assert that all ranks have equal weights, and that these agree with `weights` up to rounding."""
    first = found[0]["weights"]
    for rank, other in enumerate(found):
        same = [np.array_equal(a, b) for a, b in zip(first, other["weights"], strict=True)]
        assert len(same) == 10 and all(same), (
            f"the weights of rank {rank} contain nan: does it use only the images of its shard (shard)?"
            if any(np.isnan(w).any() for w in other["weights"])
            else f"ranks 0 and {rank} ended with different networks. Do they start equal (broadcast), and do "
            "they take the same steps (average_gradient)?"
        )
    for got, want in zip(first, weights or first, strict=True):
        assert got.shape == want.shape and np.allclose(got, want, atol=1e-4), (
            "the ranks agree with each other, but not with one process: see the checks of shard, "
            "average_gradient and learning_rate"
        )


def losses_agree(found, reference, within=1e-4):
    """Assert that the losses, averaged over the ranks, are those of one process, step by step."""
    assert all(len(rank["losses"]) == len(reference) for rank in found), (
        "the ranks do not take as many steps as one process"
    )
    ours = np.mean([rank["losses"] for rank in found], axis=0)
    apart = ~(np.abs(ours / reference - 1) < within)
    assert not apart.any(), (
        f"the losses differ from step {np.argmax(apart)} on: the ranks have {ours.round(5)}, one process has "
        f"{reference.round(5)}. The first loss depends on the start (broadcast) and the images (shard), "
        "later ones also on the steps (average_gradient, learning_rate)."
    )


# %% check="weights-equal" points=1 see="7.2"
"""After eight steps all ranks have the same weights, to the last bit (1 point).

The hidden tests compare them with one process, on other images and with another seed.
"""
if not follows(TRAINING):
    x, y = few_images(1)
    weights_agree(trained(try_training, x, y))
### BEGIN HIDDEN TESTS
# Not detected: weights that are set to rank 0's after each step. The comparison of the losses detects them.
if not follows(TRAINING):
    seed, (x, y) = int(fresh_rng(10).integers(1, 10**6)), few_images(int(fresh_rng(11).integers(10**6)))
    shards = [np.random.default_rng([seed, 0]).permutation(129)[:128][rank::2] for rank in range(2)]
    losses, weights = once("one process", lambda: one_process(x, y, seed=seed, **FEW))
    weights_agree(trained(try_eagerly, x, y, shards, seed=seed), weights)
### END HIDDEN TESTS

# %% check="two-ranks-one-process" points=3 see="7.2"
"""Two ranks have the losses of one process on the same global batch, step by step (3 points).

The hidden tests use other images and another seed.
"""
if not follows(TRAINING):
    x, y = few_images(1)
    losses_agree(trained(try_training, x, y), one_process(x, y, **FEW)[0])
### BEGIN HIDDEN TESTS
# Not detected: mistakes on more than two ranks. The checks of each function use three or more.
ours = {
    "": "",
    "shard": """
def shard(n, rank, size, epoch, seed):
    return np.random.default_rng([seed, epoch]).permutation(n)[: n - n % size][rank::size]
""",
    "learning_rate": """
def learning_rate(step, lr, size, warmup):
    return lr + (size * lr - lr) * min(step / warmup, 1.0)
""",
    "broadcast": """
def broadcast(variables):
    hvd.broadcast_variables([v.value for v in variables], root_rank=0)
""",
    "average_gradient": """
def average_gradient(tape, loss, variables):
    return hvd.DistributedGradientTape(tape).gradient(loss, [v.value for v in variables])
""",
}[follows(TRAINING)]
seed, (x, y) = int(fresh_rng(10).integers(1, 10**6)), few_images(int(fresh_rng(11).integers(10**6)))
shards = [np.random.default_rng([seed, 0]).permutation(129)[:128][rank::2] for rank in range(2)]
losses, weights = once("one process", lambda: one_process(x, y, seed=seed, **FEW))
losses_agree(trained(try_eagerly, x, y, shards, seed=seed, instead=ours), losses)
### END HIDDEN TESTS

# %% [markdown]
# The run leaves a checkpoint with the weights at the end of training:


# %% given="left-behind"
# Runs in the notebook's process, which has the job and its files.
def left_behind():
    """Return the names of the files of the run on two ranks, and the digest of its checkpoint's weights."""
    files = sorted(path.name for path in two.folder.iterdir())
    net = keras.saving.load_model(two.folder / "lenet5.keras") if "lenet5.keras" in files else None
    return {"files": files, "weights": digest(net) if net else None}


# %%
print("the checkpoint holds the weights of the result:", left_behind()["weights"] == two.result()["weights"])


# %% given="first-steps"
def first_steps():
    """Take the first steps of `train` once more; return this rank's losses."""
    x, y = data.fashion_mnist("train", IMAGES)
    return {"losses": try_eagerly(x=x, y=y, **AS_TRAIN)["losses"]}


# %% check="recorded-run" points=1 see="7.4"
"""The submitted run is complete, its network has learned, and its checkpoint has the final weights (1 point).

The hidden tests run its first steps again.
"""
if not follows(OWN_CHECKS):
    results = two.results(progress=False)  # raises the run's own error, if it failed
    assert len(results) == 2, f"the run has {len(results)} ranks; submit it with ranks_per_node=2"
    assert results[0]["weights"] == results[1]["weights"], (
        "the ranks of the run ended with different networks"
    )
    assert results[0]["accuracy"] > 0.6, f"the accuracy is {results[0]['accuracy']}; it should exceed 0.6"
    steps = EPOCHS * (IMAGES // 2 // BATCH)
    logged = len(losses_of(two, steps=None))
    assert logged == steps, f"the run on two ranks has {logged} steps; it should have {steps}"
    left = left_behind()
    assert "lenet5.keras" in left["files"], "the run has no checkpoint"
    assert "unfinished-lenet5.keras" not in left["files"], "the run has an unfinished checkpoint"
    assert left["weights"] == two.result()["weights"], (
        "the checkpoint does not have the weights at the end of training"
    )
### BEGIN HIDDEN TESTS
# Not detected: invented metrics after the eighth step. They gain no points.
if not follows(OWN_CHECKS):
    recorded, (reference, _) = losses_of(two), one_process(*data.fashion_mnist("train", IMAGES), **AS_TRAIN)
    again = evidence(first_steps, [{}, {}])
    losses_agree(again, recorded, within=1e-3)
    losses_agree(again, reference, within=1e-3)
### END HIDDEN TESTS

# %% [markdown]
# ## Six scripts that are not one training run
#
# Each of the following scripts was meant to be data-parallel. Five of them report no error, and one would
# wait forever (the `mean` below stops it with an error). In none of them do the ranks perform one common
# training run. Such mistakes occur in real courses and programs. Here the network consists of three weights
# fitted to 12 points (13 for `wait`), so that you can see every number. The docstring of each script states
# what it should do. You will name the mistake of each script and correct it, usually in one or two lines. In
# `echo` and `restart` a rank has only its own points: those of the other rank are `nan`.
#
# `mean` and `from_rank_0` are an all-reduce and a broadcast that do not hang: they raise an error if another
# rank has finished. Use these two collectives and no others in your scripts.

# %% given="collectives"
HOME = "this job hangs: it waits for a rank that has finished"


def here(number):
    """Return the sum over the ranks of `number`: 1 if a rank is in its script, 0 if it has finished."""
    return int(hvd.allreduce(tf.constant(number), op=hvd.Sum, name="here"))


def mean(value):
    """Return the mean over the ranks of an array or a number."""
    if here(1) < hvd.size():
        raise RuntimeError(HOME)
    return hvd.allreduce(tf.constant(value, tf.float64), op=hvd.Average, name="exchange").numpy()


def from_rank_0(value):
    """Return rank 0's array, on every rank."""
    return mean(hvd.size() * np.array(value) * (hvd.rank() == 0))


# %% given="line"
def problem(seed, n):
    """Return n points: x (n, 3) and y (n,), a noisy linear function of x."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x @ [1.0, -2.0, 0.5] + rng.normal(size=n)


def loss_of(w, x, y):
    """Return half the mean squared error of the weights w (3,)."""
    return float(np.mean((x @ w - y) ** 2) / 2)


def slope(w, x, y):
    """Return the gradient of `loss_of`: (3,)."""
    return x.T @ (x @ w - y) / len(y)


# %% given="found-1-and-2"
def twins_as_found(rank, size, x, y):
    """Train two epochs, with batches of 3 per rank, on one shuffle per epoch, drawn from [7, epoch].

    In each step the batches of all ranks together are the next 3p points of the shuffle.
    """
    w, path, seen = np.zeros(3), [], []
    for epoch in range(2):
        shuffle = np.random.default_rng([7, epoch]).permutation(len(y))
        for batch in data.batches(shuffle, 3):
            w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
            path.append(w)
            seen.append(batch)
    return {"path": path, "seen": seen}


def deck_as_found(rank, size, x, y):
    """Train two epochs, with batches of 3 per rank, on one shuffle per epoch, drawn from [7, epoch].

    In each step the batches of all ranks together are the next 3p points of the shuffle.
    """
    w, path, seen = np.zeros(3), [], []
    for epoch in range(2):
        shuffle = np.random.default_rng([7 + rank, epoch]).permutation(len(y))
        for batch in data.batches(shuffle[rank::size], 3):
            w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
            path.append(w)
            seen.append(batch)
    return {"path": path, "seen": seen}


# %% given="found-3-and-4"
def echo_as_found(rank, size, x, y):
    """Take six steps, each with all points; rank r has only the points r, r + p, …, the others are nan.

    `losses` are the losses over all points, one before each step, the same on every rank.
    """
    w, path, losses = np.zeros(3), [], []
    mine = np.arange(len(y))[rank::size]
    for _ in range(6):
        losses.append(mean(loss_of(w, x[mine], y[mine])))
        w = w - 0.1 * slope(w, x[mine], y[mine])
        path.append(w)
    return {"path": path, "losses": losses}


CHECKPOINT = [np.array([0.5, 1.5, -1.0]), np.array([3.0, -1.0, 2.0])]  # stands for the file of rank 0


def read_checkpoint():
    """Return the weights and velocity from which to resume. Only rank 0 has the file; others return 0."""
    w, v = CHECKPOINT
    return (w, v) if hvd.rank() == 0 else (0 * w, 0 * v)


def restart_as_found(rank, size, x, y):
    """Resume from the checkpoint for four steps with momentum; rank r has only the points r, r + p, …."""
    w, v = read_checkpoint()
    w, path = from_rank_0(w), []
    mine = np.arange(len(y))[rank::size]
    for _ in range(4):
        v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
        w = w - 0.1 * v
        path.append(w)
    return {"path": path, "velocity": v}


# %% given="found-5-and-6"
def wait_as_found(rank, size, x, y):
    """Train one epoch, with batches of 3 per rank, on the shuffle from [7, 0] without its last N mod p.

    In each step the batches of all ranks together are the next 3p points of the shuffle.
    """
    w, path, seen = np.zeros(3), [], []
    shuffle = np.random.default_rng([7, 0]).permutation(len(y))
    for batch in data.batches(shuffle[rank::size], 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
    return {"path": path, "seen": seen}


def best_as_found(rank, size, x, y):
    """Take eight steps; rank 0 writes after each one with the lowest loss over all held-out points so far.

    `lowest` is that loss, on every rank.
    """
    w, lowest, saved = np.zeros(3), np.inf, []
    mine, held_out = np.arange(0, 8)[rank::size], np.arange(8, len(y))[rank::size]
    for step in range(8):
        w = w - 0.5 * mean(slope(w, x[mine], y[mine]))
        loss = loss_of(w, x[held_out], y[held_out])
        if loss < lowest:
            lowest = loss
            saved.append((step, w))  # stands for the writing of the file
    return {"saved": [step for step, _ in saved], "lowest": lowest}


# %% given="exhibit"
AS_FOUND = {
    "twins": twins_as_found,
    "deck": deck_as_found,
    "echo": echo_as_found,
    "restart": restart_as_found,
    "wait": wait_as_found,
    "best": best_as_found,
}


def exhibit(script, x, y, checkpoint=()):
    """Run a script on this rank; return its result when all ranks have finished."""
    CHECKPOINT[: len(checkpoint)] = map(np.array, checkpoint)
    try:
        return script(hvd.rank(), hvd.size(), x, y)
    finally:
        while here(0):
            pass


def points_for(name, seed, own=None, n=None, p=2):
    """Yield the inputs of a script for each of p ranks: all n points, or its `own` points and else nan."""
    x, y = problem(seed, n or (13 if name == "wait" else 12))
    if own is None and name in ("echo", "restart"):  # a rank has its own points only
        own = [np.arange(len(y))[rank::p] for rank in range(p)]
    for rank in range(p):
        others = np.delete(np.arange(len(y)), [] if own is None else own[rank])
        hidden = others if own is not None else []
        rank_x, rank_y = x.copy(), y.copy()
        rank_x[hidden], rank_y[hidden] = np.nan, np.nan
        yield {"x": rank_x, "y": rank_y}


# %% [markdown]
# The next cells run each script on two ranks and print the output. For each pair of lines, ask two questions.
# What should be equal on the two ranks, but is not? What should differ, but does not? If the weights differ,
# see how the difference develops. With different starts and equal steps it stays the same; if it grows, the
# steps differ. The sign ‖ separates two epochs. `wait` has 13 points.


# %% given="show"
def show(scripts):
    """Run the scripts {name: function} and print what they returned, rank by rank."""
    for name, script in scripts.items():
        inputs = [{"script": script} | points for points in points_for(name, seed=4)]
        for rank, outcome in enumerate(on_ranks(exhibit, inputs)):
            found = lines(outcome.value, 2 if name in ("twins", "deck") else 1) if outcome.value else ()
            print(f"{name:8} rank {rank} ", "  ".join(found) or outcome.error or "did not end in time")


def lines(found, epochs):
    """Yield a summary of what a script returned after this number of epochs."""
    if "seen" in found:
        batches = [" ".join(f"{i:2}" for i in batch) for batch in found["seen"]]
        each = max(1, len(batches) // epochs)
        yield "saw " + " ‖ ".join(" | ".join(batches[i : i + each]) for i in range(0, len(batches), each))
    if "losses" in found:
        yield "losses " + " ".join(f"{loss:.3f}" for loss in found["losses"])
    if "path" in found:
        yield "w[0] " + " ".join(f"{w[0]:+.3f}" for w in found["path"])
    if "saved" in found:
        yield f"saved after steps {found['saved']}, loss {found['lowest']:.3f}"


# %% tags=["measured"]
show(AS_FOUND)

# %% [markdown]
# ### Name the mistakes
#
# Which of these nine mistakes does each of the six scripts have? Three mistakes occur in none of them. The
# visible tests of the two checks only test that you chose letters. The hidden tests compare them with the
# correct ones. Each check has one point, for all three of its scripts together.

# %% given="bugs"
BUGS = {
    "A": "The ranks start from different weights.",
    "B": "Every rank sees all points of the epoch: nothing is divided.",
    "C": "Each rank takes its part of a shuffle of its own.",
    "D": "One rank takes a step more than the others.",
    "E": "The gradient is added up, not averaged.",
    "F": "The ranks exchange what they report, but not what they learn from.",
    "G": "A part of the state of the training is on rank 0 only.",
    "H": "Each rank decides by its own part of the data, and each rank writes.",
    "I": "The learning rate is scaled twice.",
}

# %% solution="diagnosis"
diagnosis = {"twins": None, "deck": None, "echo": None, "restart": None, "wait": None, "best": None}
### BEGIN SOLUTION
diagnosis = {"twins": "B", "deck": "C", "echo": "F", "restart": "G", "wait": "D", "best": "H"}
### END SOLUTION

# %% check="diagnosis-shuffles" points=1 see="7.8"
"""The mistakes of twins, deck and wait (1 point).

The hidden tests compare all three letters.
"""
for name in ("twins", "deck", "wait"):
    if diagnosis[name] is None:
        raise NotImplementedError(f"{name} has no letter yet")
    assert diagnosis[name] in BUGS, f"{name}: {diagnosis[name]!r} is not one of the letters {', '.join(BUGS)}"
### BEGIN HIDDEN TESTS
# Not detected: three guessed letters. One guess of 504 is right.
found = {name: diagnosis[name] for name in ("twins", "deck", "wait")}
assert found == {"twins": "B", "deck": "C", "wait": "D"}, f"not all of {found} are right"
### END HIDDEN TESTS

# %% check="diagnosis-messages" points=1 see="7.8"
"""The mistakes of echo, restart and best (1 point).

The hidden tests compare all three letters.
"""
for name in ("echo", "restart", "best"):
    if diagnosis[name] is None:
        raise NotImplementedError(f"{name} has no letter yet")
    assert diagnosis[name] in BUGS, f"{name}: {diagnosis[name]!r} is not one of the letters {', '.join(BUGS)}"
### BEGIN HIDDEN TESTS
# Not detected: three guessed letters. One guess of 504 is right.
found = {name: diagnosis[name] for name in ("echo", "restart", "best")}
assert found == {"echo": "F", "restart": "G", "best": "H"}, f"not all of {found} are right"
### END HIDDEN TESTS

# %% [markdown]
# ### Correct them
#
# Copy each script into its blank and correct it so that it does what its docstring states. Do not change what
# it returns, because the checks use it. Two ranks with batches of 3 must take the same steps as one process
# with batches of 6, and each rank must use only its own points, as the docstrings now state. In the hidden
# tests the other points are `nan` in all six scripts.


# %% solution="twins"
def twins(rank, size, x, y):
    """Train two epochs, with batches of 3 per rank, on one shuffle per epoch, drawn from [7, epoch].

    In each step the batches of all ranks together are the next 3p points of the shuffle. Rank r takes
    the indices r, r + p, … of the shuffle; a point that it takes in no epoch is nan on this rank.
    """
    ### BEGIN SOLUTION
    w, path, seen = np.zeros(3), [], []
    for epoch in range(2):
        shuffle = np.random.default_rng([7, epoch]).permutation(len(y))
        for batch in data.batches(shuffle[rank::size], 3):
            w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
            path.append(w)
            seen.append(batch)
    return {"path": path, "seen": seen}
    ### END SOLUTION


# %% solution="deck"
def deck(rank, size, x, y):
    """Train two epochs, with batches of 3 per rank, on one shuffle per epoch, drawn from [7, epoch].

    In each step the batches of all ranks together are the next 3p points of the shuffle. Rank r takes
    the indices r, r + p, … of the shuffle; a point that it takes in no epoch is nan on this rank.
    """
    ### BEGIN SOLUTION
    w, path, seen = np.zeros(3), [], []
    for epoch in range(2):
        shuffle = np.random.default_rng([7, epoch]).permutation(len(y))
        for batch in data.batches(shuffle[rank::size], 3):
            w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
            path.append(w)
            seen.append(batch)
    return {"path": path, "seen": seen}
    ### END SOLUTION


# %% solution="echo"
def echo(rank, size, x, y):
    """Take six steps, each with all points; rank r has only the points r, r + p, …, the others are nan.

    `losses` are the losses over all points, one before each step, the same on every rank.
    """
    ### BEGIN SOLUTION
    w, path, losses = np.zeros(3), [], []
    mine = np.arange(len(y))[rank::size]
    for _ in range(6):
        losses.append(mean(loss_of(w, x[mine], y[mine])))
        w = w - 0.1 * mean(slope(w, x[mine], y[mine]))
        path.append(w)
    return {"path": path, "losses": losses}
    ### END SOLUTION


# %% solution="restart"
def restart(rank, size, x, y):
    """Resume from the checkpoint for four steps with momentum; rank r has only the points r, r + p, …."""
    ### BEGIN SOLUTION
    w, v = read_checkpoint()
    w, v, path = from_rank_0(w), from_rank_0(v), []
    mine = np.arange(len(y))[rank::size]
    for _ in range(4):
        v = 0.9 * v + mean(slope(w, x[mine], y[mine]))
        w = w - 0.1 * v
        path.append(w)
    return {"path": path, "velocity": v}
    ### END SOLUTION


# %% solution="wait"
def wait(rank, size, x, y):
    """Train one epoch, with batches of 3 per rank, on the shuffle from [7, 0] without its last N mod p.

    In each step the batches of all ranks together are the next 3p points of the shuffle. Rank r takes
    the indices r, r + p, … of the shuffle; a point that it does not take is nan on this rank.
    """
    ### BEGIN SOLUTION
    w, path, seen = np.zeros(3), [], []
    shuffle = np.random.default_rng([7, 0]).permutation(len(y))
    for batch in data.batches(shuffle[: len(y) - len(y) % size][rank::size], 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
    return {"path": path, "seen": seen}
    ### END SOLUTION


# %% solution="best"
def best(rank, size, x, y):
    """Take eight steps; rank 0 writes after each one with the lowest loss over all held-out points so far.

    `lowest` is that loss, on every rank. Rank r has only the points r, r + p, … of all points, including the
    held-out ones; the others are nan.
    """
    ### BEGIN SOLUTION
    w, lowest, saved = np.zeros(3), np.inf, []
    mine, held_out = np.arange(0, 8)[rank::size], np.arange(8, len(y))[rank::size]
    for step in range(8):
        w = w - 0.5 * mean(slope(w, x[mine], y[mine]))
        loss = mean(loss_of(w, x[held_out], y[held_out]))
        if loss < lowest:
            lowest = loss
            if rank == 0:
                saved.append((step, w))  # stands for the writing of the file
    return {"saved": [step for step, _ in saved], "lowest": lowest}
    ### END SOLUTION


# %% given="script"
def outcome_of(script, name, seed=4, own=None, n=None, p=2, checkpoint=()):
    """Return what your script returned on each rank: [rank 0's result, rank 1's, …]."""
    inputs = [{"script": script} | points for points in points_for(name, seed, own, n, p)]
    inputs[0] |= {"checkpoint": checkpoint} if checkpoint else {}  # only rank 0 gets it
    found = evidence(exhibit, inputs)
    assert all(isinstance(what, dict) for what in found), f"{name} should return a dict: keep its last line"
    return found


# %% tags=["measured"]
show({"twins": twins, "deck": deck, "echo": echo, "restart": restart, "wait": wait, "best": best})


# %% given="line-of-one-process"
def path_of_one(x, y, batches):
    """Return the weights after each step of one process that takes these batches of points: (steps, 3)."""
    w, path = np.zeros(3), []
    for batch in batches:
        w = w - 0.1 * slope(w, x[batch], y[batch])
        path.append(w)
    return np.array(path)


def one_line(found, path, name, batches=None):
    """Assert that after each step all ranks have the weights of one process, which takes `batches`."""
    for rank, what in enumerate(found):
        steps = len(what["path"])
        assert steps == len(path), f"{name}: rank {rank} takes {steps} steps; one process takes {len(path)}"
    ours = [np.array(what["path"]) for what in found]  # (steps, 3) each
    for rank, weights in enumerate(ours):
        shape = weights.shape[1:]
        assert shape == (3,), f"{name}: rank {rank} has weights of shape {shape}; it should be (3,)"
    for step, one in enumerate(path):
        first, *others = (weights[step] for weights in ours)
        assert np.isfinite([first, *others]).all(), (
            f"{name}: after step {step + 1} some weights are nan or infinite. Points that a rank does not "
            "have are nan: each rank may use its own points only."
        )
        for rank, other in enumerate(others, 1):
            assert np.array_equal(first, other), (
                f"{name}: from step {step + 1} on the ranks have different weights, w = {first.round(4)} on "
                f"rank 0 and {other.round(4)} on rank {rank}"
            )
        assert np.allclose(first, one, rtol=1e-9), (
            f"{name}: the ranks have equal weights, but from step {step + 1} on not those of one process: "
            f"w = {first.round(4)}, one process has {np.round(one, 4)}, a difference of up to "
            f"{np.abs(first - one).max():.1e}. {why(found, batches, step)}"
        )


def why(found, batches, step):
    """Return a hint, as text, if the ranks differ from one process at this step, counted from 0."""
    if batches is None:
        return "Do all ranks begin with all that rank 0 has, and is each step that of the mean gradient?"
    together = sorted(int(i) for what in found for i in what["seen"][step])
    alone = sorted(int(i) for i in batches[step])
    if together != alone:
        return (
            f"In this step the ranks together saw the points {together}, one process would have seen {alone}."
        )
    return "The points of this step are right; check the gradient and the length of the step."


def shared_out(found, n, epochs, name):
    """Assert that in each epoch the ranks see different points, and together all except n mod p of them."""
    steps = [len(what["seen"]) // epochs for what in found]
    for epoch in range(epochs):
        seen = [
            i for what, s in zip(found, steps, strict=True) for b in what["seen"][epoch * s :][:s] for i in b
        ]
        assert len(seen) == len(set(seen)), f"{name}: in epoch {epoch} some points are seen more than once"
        whole = n - n % len(found)
        assert len(seen) == whole, f"{name}: in epoch {epoch} the ranks see {len(seen)} points, not {whole}"


def reported(found, key, want, name):
    """Assert that every rank reports the number or the numbers `want` as `key`."""
    for rank, what in enumerate(found):
        got = np.array(what.get(key, np.nan), float)
        assert got.shape == np.shape(want) and np.allclose(got, want, rtol=1e-9), (
            f"{name}: rank {rank} reports {key} = {got}; on every rank it should be "
            f"{np.array(want)}, computed over all points"
        )


# %% check="twins-mended" points=1 see="7.3"
"""twins does what its docstring states (1 point).

The hidden tests use other points, three ranks, and `nan` for the points of the other ranks.
"""
found, (x, y) = outcome_of(twins, "twins"), problem(4, 12)
shared_out(found, 12, 2, "twins")
shuffles = [np.random.default_rng([7, epoch]).permutation(12) for epoch in range(2)]
sixes = [batch for shuffle in shuffles for batch in data.batches(shuffle, 6)]
one_line(found, path_of_one(x, y, sixes), "twins", sixes)
### BEGIN HIDDEN TESTS
# Not detected: the order of the points within a batch, which does not change the gradient.
rng = fresh_rng(12)
n, seed = 3 * int(rng.integers(5, 8)), int(rng.integers(5, 10**6))
shuffles = [np.random.default_rng([7, epoch]).permutation(n) for epoch in range(2)]
own = [np.concatenate([shuffle[rank::3] for shuffle in shuffles]) for rank in range(3)]
found, (x, y) = outcome_of(twins, "twins", seed, own, n, p=3), problem(seed, n)
nines = [batch for shuffle in shuffles for batch in data.batches(shuffle, 9)]
shared_out(found, n, 2, "twins, with other points on three ranks")
one_line(found, path_of_one(x, y, nines), "twins, with other points on three ranks", nines)
### END HIDDEN TESTS

# %% check="deck-mended" points=1 see="7.3"
"""deck does what its docstring states (1 point).

The hidden tests use other points, three ranks, and `nan` for the points of the other ranks.
"""
found, (x, y) = outcome_of(deck, "deck"), problem(4, 12)
shared_out(found, 12, 2, "deck")
shuffles = [np.random.default_rng([7, epoch]).permutation(12) for epoch in range(2)]
sixes = [batch for shuffle in shuffles for batch in data.batches(shuffle, 6)]
one_line(found, path_of_one(x, y, sixes), "deck", sixes)
### BEGIN HIDDEN TESTS
# Not detected: the order of the points within a batch, which does not change the gradient.
rng = fresh_rng(13)
n, seed = 3 * int(rng.integers(5, 8)), int(rng.integers(5, 10**6))
shuffles = [np.random.default_rng([7, epoch]).permutation(n) for epoch in range(2)]
own = [np.concatenate([shuffle[rank::3] for shuffle in shuffles]) for rank in range(3)]
found, (x, y) = outcome_of(deck, "deck", seed, own, n, p=3), problem(seed, n)
nines = [batch for shuffle in shuffles for batch in data.batches(shuffle, 9)]
shared_out(found, n, 2, "deck, with other points on three ranks")
one_line(found, path_of_one(x, y, nines), "deck, with other points on three ranks", nines)
### END HIDDEN TESTS

# %% check="echo-mended" points=1 see="7.2"
"""echo does what its docstring states (1 point).

The hidden tests use other points and three ranks.
"""


def echoes(found, x, y, name):
    """Assert that the ranks take the steps of one process with all points, and report its losses."""
    path = path_of_one(x, y, [np.arange(len(y))] * 6)
    one_line(found, path, name)
    reported(found, "losses", [loss_of(w, x, y) for w in (np.zeros(3), *path[:-1])], name)


echoes(outcome_of(echo, "echo"), *problem(4, 12), "echo")
### BEGIN HIDDEN TESTS
# Not detected: shards of unequal length, whose means would need weights. All shards here have equal length.
rng = fresh_rng(14)
n, seed = 3 * int(rng.integers(5, 8)), int(rng.integers(5, 10**6))
echoes(outcome_of(echo, "echo", seed, n=n, p=3), *problem(seed, n), "echo, with other points on three ranks")
### END HIDDEN TESTS

# %% check="restart-mended" points=1 see="7.8"
"""restart does what its docstring states (1 point).

The hidden tests use other points, three ranks and another checkpoint.
"""


def going_on(x, y, w=(0.5, 1.5, -1.0), v=(3.0, -1.0, 2.0)):
    """Take four steps in one process; return its weights (4, 3) and its last velocity (3,)."""
    w, v, path = np.array(w), np.array(v), []
    for _ in range(4):
        v = 0.9 * v + slope(w, x, y)
        w = w - 0.1 * v
        path.append(w)
    return np.array(path), v


def goes_on(found, path, velocity, name):
    """Assert that all ranks have the weights `path` and end with this velocity."""
    one_line(found, path, name)
    for rank, what in enumerate(found):
        same = np.shape(what["velocity"]) == (3,) and np.allclose(what["velocity"], velocity, rtol=1e-9)
        assert same, (
            f"{name}: rank {rank} ends with the velocity {what['velocity']}; one process ends with {velocity}"
        )


goes_on(outcome_of(restart, "restart"), *going_on(*problem(4, 12)), "restart")
### BEGIN HIDDEN TESTS
# Not detected: nothing known. Only rank 0 has this checkpoint, so copying its numbers into the code fails.
rng = fresh_rng(15)
n, seed = 3 * int(rng.integers(5, 8)), int(rng.integers(5, 10**6))
another = rng.uniform(1, 4, (2, 3)).tolist()
found = outcome_of(restart, "restart", seed, n=n, p=3, checkpoint=another)
path = going_on(*problem(seed, n), *another)
goes_on(found, *path, "restart, with other points and another checkpoint on three ranks")
### END HIDDEN TESTS

# %% check="wait-mended" points=1 see="7.3"
"""wait does what its docstring states (1 point).

The hidden tests use other points, another remainder and three ranks.
"""
found, (x, y) = outcome_of(wait, "wait"), problem(4, 13)
shared_out(found, 13, 1, "wait")
shuffle = np.random.default_rng([7, 0]).permutation(13)
sixes = [shuffle[:6], shuffle[6:12]]  # the last point of the shuffle is left out
one_line(found, path_of_one(x, y, sixes), "wait", sixes)
### BEGIN HIDDEN TESTS
# Not detected: the order of the points within a batch, which does not change the gradient.
rng = fresh_rng(16)
n, seed = int(rng.choice([14, 17, 23])), int(rng.integers(5, 10**6))  # two are left out
shuffle = np.random.default_rng([7, 0]).permutation(n)[: n - 2]
own, nines = [shuffle[rank::3] for rank in range(3)], data.batches(shuffle, 9)
found, (x, y) = outcome_of(wait, "wait", seed, own, n, p=3), problem(seed, n)
shared_out(found, n, 1, f"wait, with {n} points on three ranks")
one_line(found, path_of_one(x, y, nines), f"wait, with {n} points on three ranks", nines)
### END HIDDEN TESTS

# %% check="best-mended" points=1 see="7.4"
"""best does what its docstring states (1 point).

The hidden tests use other points and four ranks.
"""


def lowest_after(x, y):
    """Return the steps of one process after which the held-out loss is the lowest so far, and that loss."""
    w, lowest, steps = np.zeros(3), np.inf, []
    for step in range(8):
        w = w - 0.5 * slope(w, x[:8], y[:8])
        loss = loss_of(w, x[8:], y[8:])
        if loss < lowest:
            lowest, steps = loss, [*steps, step]
    return steps, lowest


found = outcome_of(best, "best")
assert found[1]["saved"] == [], f"rank 1 has also written, after steps {found[1]['saved']}"
want, lowest = lowest_after(*problem(4, 12))
assert found[0]["saved"] == want, (
    f"rank 0 has written after steps {found[0]['saved']}; according to the loss over all held-out points, it "
    f"should have written after {want}"
)
reported(found, "lowest", lowest, "best")
### BEGIN HIDDEN TESTS
# Not detected: a loss that equals the lowest one. It does not occur with random points.
rng, want = fresh_rng(17), []
while not 2 < len(want) < 8:  # some steps make the loss lower, some do not
    seed = int(rng.integers(5, 10**6))
    want, lowest = lowest_after(*problem(seed, 16))
found = outcome_of(best, "best", seed, [np.arange(16)[rank::4] for rank in range(4)], n=16, p=4)
assert [what["saved"] for what in found] == [want, [], [], []], (
    f"best: four ranks have written after steps {[what['saved'] for what in found]}; only "
    f"rank 0 should write, after {want}"
)
reported(found, "lowest", lowest, "best, on four ranks")
### END HIDDEN TESTS

# %% [markdown]
# ### Written answer (2 points, graded manually)
#
# A job trains on four ranks, with 12,800 images and batches of 128 per rank. After each step all four ranks
# have the same weights. The loss decreases smoothly, and at the end the network is as accurate as after
# training on one device. The owner of the job concludes that the four ranks train like one process with
# batches of 512. Answer in about four sentences:
#
# 1. Name a mistake that is consistent with all these observations. Why do the weights not reveal it?
# 2. Which number in the job's record would reveal it, and what would this number be without the mistake?
# 3. What is the same number in the record of *your* job `two`, and what would it be if `two` had this
#    mistake?

# %% [markdown] explain="equal-weights" points=2
# ### BEGIN SOLUTION
# **Rubric.** Any mistake that fits the observations is accepted. Language and length are not graded.
#
# | points | for |
# |---|---|
# | ½ | 1: a mistake that keeps the weights equal and lets the loss decrease |
# | ½ | 1: with equal starts and equal steps the weights stay equal, whichever images are used |
# | ½ | 2: a quantity that shows it, with the number for four ranks |
# | ½ | 3: the same number in the student's own run on two ranks, and its value with the mistake |
#
# - *Mistake*: every rank takes all the images, so the mean of four equal gradients is one of them, and four
#   ranks repeat what one device does. Other mistakes: each rank shuffles differently before it takes its
#   part; the gradients are added up; the learning rate is scaled twice.
# - *Evidence, on four ranks*: 25 steps per epoch, 12,800 / (4 · 128), but 100 with undivided data; 512
#   different images per step; 4η in the recorded learning rates. Also accepted: the losses of the first
#   steps, which must equal those of one process with batches of 512.
# - *On two ranks*: 50 steps per epoch and 150 in total, but 100 and 300 with undivided data; a final learning
#   rate of 0.4, but 0.8 if it is scaled twice. If the answer uses the first losses, it must quote those of
#   the student's own run.
#
# **Two points.** "If every rank sees all images, each has the same gradient, and their mean is that gradient:
# the weights are equal because all four do the same. The log shows it: an epoch has 100 steps and should have
# 25. My `two` has 150 steps in three epochs, 50 per epoch; with this mistake it would have 300."
#
# **One point.** "The gradients may be summed instead of averaged. All ranks add up the same numbers, so they
# stay equal although every step is four times too long." (No number, nothing about the student's own run.)
#
# **No points.** "The ranks could start from different weights." (Then the weights would differ.)
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - About six additions make training data-parallel: shards, a scaled and warmed-up learning rate, a
#   broadcast, an averaged gradient, a metric over all ranks, and one rank that writes.
# - p ranks with batches of n do the same as one process with a batch of p·n. You can *verify* this step by
#   step, up to the rounding of float32.
# - Ranks that start equal and take equal steps stay equal to the last bit. Comparing digests costs almost
#   nothing, but detects only mistakes that make the ranks differ.
# - Each mistake has typical symptoms: output that is equal although it should differ between the ranks,
#   output that differs although it should be equal, and the step at which the ranks begin to differ. Equal
#   weights alone prove nothing.
# - The second processor does not turn an hour into half an hour. It doubles the computing power, but adds an
#   exchange to every step.
#
# ## Open questions
#
# 1. Your two ranks share a machine. On two machines, which of α and β increases, and how much longer would a
#    step of LeNet-5 take on a network of 1 Gbit/s?
# 2. Suppose a GPU computes a step of LeNet-5 ten times as fast as your core. Does this make data-parallel
#    training more or less worthwhile?
# 3. With p = 64 the linear rule requires 64η. Up to which p does the rule work, and what would be the first
#    sign that it fails?
