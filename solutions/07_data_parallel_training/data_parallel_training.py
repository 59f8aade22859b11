# %% [markdown]
# # Assignment 07: make it data-parallel
#
# A network takes an hour to train. You are given a second processor. Does the training now take half an
# hour?
#
# The plan sounds simple. Start the same program twice; each of the two processes, called *ranks*, has its
# own copy of the network and its own half of the pictures. But two networks that learn from different
# pictures become two different networks. What must the ranks tell each other, and when, so that what runs
# is still *one* training?
#
# In this assignment you
#
# - take a training function that runs on one device, and add the few lines that let p ranks run it
#   together,
# - scale the learning rate with the number of ranks, and warm it up,
# - submit the training on two ranks, and compare its curve, time and weights with those of one device,
# - show that two ranks do what one process would have done: not roughly, but step by step,
# - find out from their numbers what is wrong with six scripts of others, and mend them.
#
# Everything runs on Fashion-MNIST, 28 × 28 grey pictures of clothes. There are 30 points: 28 in 23 checks,
# and 2 for an answer in your own words. Fill the thirteen holes marked `YOUR CODE HERE`: six of one to four
# lines, six letters, and six scripts. Run the free cell that follows, then the checks (the four functions of
# section 3 are tried together, under *Try it on ranks*); a check that fails says what it saw. Some checks
# also try cases that are not shown.
#
# | quantity | symbol | meaning |
# |---|---|---|
# | ranks | p | processes that train together, numbered from 0 |
# | batch | n | images that *one rank* sees in one step; all ranks together see p·n |
# | learning rate | η | the one that suits one rank with its batch of n |

# %% given="setup"
import contextlib
import hashlib
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start-up messages say nothing we need

import horovod.tensorflow as hvd
import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

from cluster import submit
from cluster.checks import expect, has_failed, on_ranks
from cluster.jobs import log, run_folder
from cluster.training import data, models
from cluster.training.models import digest

plt.style.use("cluster.course")
IMAGES, EPOCHS, BATCH, LR = 12_800, 3, 128, 0.2  # N, epochs, n, η

# %% [markdown]
# ## One device
#
# Here is the whole training on one device. Read it from top to bottom before you run anything: data,
# network, plan, the step, the loop, the result. `plan` holds the indices of each batch, one shuffle after
# the other (the last batch of an epoch holds what is left), so the loop itself is short. `digest` turns all
# weights into 64 hexadecimal digits, which two networks share only when their weights are equal to the last
# bit: we shall need it.


# %% given="train-on-one"
def train_on_one(images=IMAGES, epochs=EPOCHS, batch=BATCH, lr=LR, seed=0):
    """Train LeNet-5 on one device; returns its accuracy on test images and the digest of its weights."""
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
    """How many of the images x (N, 28, 28, 1) with labels y (N,) the network gets right, and N."""
    logits = net(x)  # (N, 10)
    return int(np.sum(np.argmax(logits, axis=1) == y)), len(y)


# %% [markdown]
# `submit` runs a function as a *job*: in processes of its own, here on this machine, elsewhere on the nodes
# of a cluster. What the function returns comes back as `job.result()`, what it logs as `job.metrics()`.

# %%
baseline = submit(train_on_one)
baseline.result()

# %% [markdown]
# ## Predict
#
# Before the second rank comes in, commit yourself. This is how long a step takes now, the median over the
# run without its first ten steps, in which TensorFlow compiles:


# %%
def seconds_a_step(job):
    """The median time between two steps of rank 0."""
    times = job.metrics().query("rank == 0").time.to_numpy()
    return np.median(np.diff(times)[10:])


print(f"{1e3 * seconds_a_step(baseline):.1f} ms a step of {BATCH} images")

# %% [markdown]
# LeNet-5 has 61,706 weights, and in each step the ranks will exchange a gradient: 61,706 numbers of 4 bytes
# each. Suppose that this machine moves 1 GB/s between two processes, and that each of the two
# messages of a ring of two takes 50 µs to get under way. Then the exchange costs this much:

# %%
p, alpha, beta = 2, 50e-6, 1 / 1e9  # ranks; seconds a message; seconds a byte
n_bytes = 4 * models.lenet5().count_params()
exchange = 2 * (p - 1) * alpha + 2 * (p - 1) / p * n_bytes * beta  # a ring all-reduce
print(f"{n_bytes / 1e6:.3f} MB of gradient, {1e3 * exchange:.2f} ms a step to exchange it (predicted)")

# %% [markdown]
# So, how many times as many images a second will two ranks train with? And will two ranks end with the
# accuracy of the run above, a better or a worse one? Write your guess down. Nobody grades it, but a guess
# that you cannot take back is how one learns to estimate.

# %%
my_speedup = None  # your guess, a number: images a second on two ranks / images a second on one
my_accuracy = None  # your guess: "better", "worse" or "the same"

# %% [markdown]
# ## 1. Each rank its own images
#
# A *shard* is the part of an epoch that one rank sees. Four things make shards right, and each is easy to
# get wrong unnoticed, since a training with wrong shards still learns:
#
# - **disjoint**: no image is seen by two ranks in one epoch, or the second rank's work is wasted;
# - **covering**: together the ranks see every image, or a part of the data is never learned;
# - **equally long**: otherwise one rank takes a step more than the others and waits, in the exchange of
#   that step, for ranks that have already gone home. A job like that hangs. Where N is not divisible by p,
#   leave out the N mod p images at the end of the shuffle: fewer than one a rank, and others in each epoch;
# - **freshly shuffled** in each epoch, and yet shuffled *once for all*: the ranks must cut the same
#   shuffle, and they can agree on it without a word, by drawing it from the same `[seed, epoch]`.


# %% solution="shard"
def shard(n, rank, size, epoch, seed):
    """Which of n images `rank` sees in `epoch`: an array of n // size indices.

    Shuffle as train_on_one does. Of the shuffle take every size-th index, starting at index `rank`: then the
    batches that the ranks see in one step are together the batch that one process would have seen.
    """
    assert 0 <= rank < size <= n, f"rank={rank}, size={size}, n={n}"
    ### BEGIN SOLUTION
    shuffle = np.random.default_rng([seed, epoch]).permutation(n)  # (n,), the same on every rank
    return shuffle[: n - n % size][rank::size]
    ### END SOLUTION


# %% [markdown]
# Eleven images on two ranks, small enough to check by eye. Which image is left out, and is it another one
# in the next epoch?

# %%
for epoch in range(2):
    for rank in range(2):
        print(f"epoch {epoch}, rank {rank}:", shard(11, rank, 2, epoch, seed=0))


# %% given="images-of"
def images_of(shards, n):
    """The indices in all shards, one after another; AssertionError where some are not indices of n images."""
    for rank, part in enumerate(shards):
        assert isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "iu", (
            f"the shard of rank {rank} is {part!r}: it should be an array of indices, (n // size,)"
        )
        assert len(part) > 0, f"the shard of rank {rank} is empty, of {n} images on {len(shards)} ranks"
    seen = np.concatenate(shards)
    assert seen.min() >= 0 and seen.max() < n, (
        f"indices run from {seen.min()} to {seen.max()} with {n} images"
    )
    return seen


# %% check="shards-disjoint" points=1 see="7.3"
"""No image is seen by two ranks in one epoch."""
for n, size in [(11, 2), (100, 4), (12_800, 2)]:
    seen = images_of([shard(n, rank, size, 0, 0) for rank in range(size)], n)
    twice = len(seen) - len(np.unique(seen))
    assert twice == 0, (
        f"{twice} of {n} images are seen more than once by {size} ranks. Do the ranks cut different parts of "
        "*one* shuffle? They do not if each takes the same part, or if each has shuffled for itself."
    )
### BEGIN HIDDEN TESTS
for n, size, epoch, seed in [(17, 3, 2, 9), (999, 7, 1, 4)]:
    seen = images_of([shard(n, rank, size, epoch, seed) for rank in range(size)], n)
    assert len(seen) == len(np.unique(seen)), f"with {n} images on {size} ranks, some are seen more than once"
    assert len(seen) > n - 2 * size, f"{size} ranks see {len(seen)} of {n} images: few enough to be different"
### END HIDDEN TESTS

# %% check="shards-cover" points=1 see="7.3"
"""Together the ranks see every image, but for at most the n mod p that cannot be divided evenly."""
for n, size in [(10, 2), (11, 2), (12_800, 2), (1_003, 4)]:
    seen = np.unique(images_of([shard(n, rank, size, 0, 0) for rank in range(size)], n))
    missed = n - len(seen)
    assert missed <= n % size, (
        f"{size} ranks miss {missed} of {n} images, where at most {n % size} may be left out. If it is a "
        "large part of them, look at the check above: images that one rank sees twice are missing elsewhere."
    )
### BEGIN HIDDEN TESTS
for n, size, epoch, seed in [(17, 3, 2, 9), (999, 7, 1, 4), (5, 5, 0, 0)]:
    seen = np.unique(images_of([shard(n, rank, size, epoch, seed) for rank in range(size)], n))
    assert len(seen) >= n - n % size, f"{size} ranks see {len(seen)} of {n} images"
### END HIDDEN TESTS

# %% check="shards-equal-length" points=1 see="7.3"
"""All ranks take the same number of steps, also where the images cannot be divided evenly."""
for n, size in [(12_800, 2), (11, 2), (10, 4)]:
    lengths = [len(shard(n, rank, size, 0, 0)) for rank in range(size)]
    expect(
        lengths,
        [n // size] * size,
        {
            "what is left over went to the first ranks, which then wait for ever for the others": [
                n // size + (rank < n % size) for rank in range(size)
            ],
            "every rank sees the whole epoch, so nothing is divided": [n] * size,
        },
        f"the lengths of the shards of {n} images on {size} ranks",
    )
### BEGIN HIDDEN TESTS
for n, size in [(17, 3), (999, 7), (7, 7)]:
    shards = [shard(n, rank, size, 3, 1) for rank in range(size)]
    assert len(images_of(shards, n)) == n // size * size
    for part in shards:
        assert len(np.unique(part)) == n // size, "not all shards are n // size different images"
### END HIDDEN TESTS

# %% check="shards-reshuffled" points=1 see="7.3"
"""Each epoch has its own order, drawn from (seed, epoch) alone, so that it can be drawn again."""
first, again, second = (shard(1_000, 1, 2, epoch, 0) for epoch in (0, 0, 1))
assert np.array_equal(first, again), (
    "the same seed and epoch gave two different shards: no run can be repeated, and the ranks cannot agree"
)
assert not np.array_equal(np.sort(first), np.sort(second)), (
    "rank 1 sees the same images in epochs 0 and 1. The shuffle must depend on the epoch: without it each "
    "rank learns from its own part of the data for ever."
)
### BEGIN HIDDEN TESTS
for seed in (1, 2):
    one, other = shard(1_000, 0, 4, 3, seed), shard(1_000, 0, 4, 4, seed)
    assert not np.array_equal(np.sort(one), np.sort(other)), "the shuffle does not change from epoch to epoch"
    both = len(np.intersect1d(one, other))  # of 250 images each; two shuffles of 1,000 share about 62
    assert 30 < both < 100, f"two epochs share {both} of 250 images, so the second is no new shuffle"
    assert 80 < np.sum(np.diff(one) > 0) < 170, "the images of an epoch come in no random order"
assert not np.array_equal(shard(1_000, 0, 4, 3, 1), shard(1_000, 0, 4, 3, 2)), "the shuffle ignores the seed"
### END HIDDEN TESTS

# %% check="shards-make-one-batch" points=1 see="7.3"
"""At each step the ranks' batches are together the batch that one process would have seen."""
batch = 3
for n, size, epoch in [(12, 2, 0), (11, 2, 1), (100, 4, 2)]:
    shuffle = np.random.default_rng([0, epoch]).permutation(n)  # as train_on_one draws it
    shards = [shard(n, rank, size, epoch, seed=0) for rank in range(size)]
    for step in range(n // (size * batch)):
        together = np.sort(np.concatenate([part[step * batch : (step + 1) * batch] for part in shards]))
        alone = np.sort(shuffle[step * size * batch : (step + 1) * size * batch])
        assert np.array_equal(together, alone), (
            f"{n} images, {size} ranks with batches of {batch}, epoch {epoch}, step {step}: together the "
            f"ranks see the images {together}, one process would have seen {alone}. Is your shuffle that of "
            "all n images, drawn from [seed, epoch]? And does rank r take the indices r, r + p, r + 2p, … of "
            "it? A piece in one stretch belongs to other steps of the one process."
        )
### BEGIN HIDDEN TESTS
for n, size, epoch, seed, batch in [(17, 3, 2, 9, 2), (999, 7, 1, 4, 10), (64, 2, 3, 1, 8)]:
    shuffle = np.random.default_rng([seed, epoch]).permutation(n)
    shards = [shard(n, rank, size, epoch, seed) for rank in range(size)]
    for step in range(n // (size * batch)):
        together = np.concatenate([part[step * batch : (step + 1) * batch] for part in shards])
        alone = shuffle[step * size * batch : (step + 1) * size * batch]
        assert np.array_equal(np.sort(together), np.sort(alone)), (
            f"with {n} images on {size} ranks, the ranks' batches are not together the batch of one process"
        )
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The learning rate
#
# With p ranks, a step averages the gradient over p times as many images, and an epoch has p times fewer
# steps. If each step stayed as long as before, the weights would get p times less far in an epoch. The
# *linear scaling rule* makes up for it: p times the images, p times the learning rate, pη.
#
# At the very beginning, when the weights change fastest, steps that long can do damage. So one begins with
# η and lets it grow by the same amount at each step, until it reaches pη after W steps and stays there.
# This is the *gradual warmup* of Goyal et al., [Accurate, large minibatch
# SGD](https://arxiv.org/abs/1706.02677) (2017), who trained ResNet-50 on 256 GPUs with it; their W is the
# number of steps in five epochs.


# %% solution="learning-rate"
def learning_rate(step, lr, size, warmup):
    """The learning rate of update number `step` = 0, 1, …: a float.

    lr is η, that of one rank; size is p; warmup is W: lr at step 0, in equal increments up to size * lr at
    step W, and size * lr from there on.
    """
    assert step >= 0 and lr > 0 and size >= 1 and warmup >= 1
    ### BEGIN SOLUTION
    return lr + (size * lr - lr) * min(step / warmup, 1.0)
    ### END SOLUTION


# %% [markdown]
# Look at it for four ranks and a warmup of 20 steps. Where does the line begin, where does it bend, how
# high is it at the end?

# %%
steps = range(40)
plt.figure(figsize=(6, 2.5))
plt.plot(steps, [learning_rate(t, 0.1, 4, 20) for t in steps], "o-", markersize=3)
plt.xlabel("step")
plt.ylabel("learning rate")
plt.ylim(0, 0.5)
plt.show()

# %% check="warmup-by-hand" points=1 see="7.2"
"""η = 0.1, four ranks, a warmup of four steps: each step adds a quarter of the way from 0.1 to 0.4."""
expect(
    [round(float(learning_rate(t, 0.1, 4, 4)), 9) for t in range(7)],
    [0.1, 0.175, 0.25, 0.325, 0.4, 0.4, 0.4],
    {
        "the warmup starts at 0; gradual warmup starts at η, the rate that is safe on one rank": [
            0.4 * min(t / 4, 1) for t in range(7)
        ],
        "the learning rate is not scaled with the number of ranks": [0.1] * 7,
        "it is scaled, but not warmed up": [0.4] * 7,
        "it is warmed up, and then falls back to η": [0.1, 0.175, 0.25, 0.325] + [0.1] * 3,
        "η is divided among the ranks; they average their gradients, so it must grow": [0.025] * 7,
        "pη is reached one step early, at step W − 1: divide by W, not by W − 1": [
            0.1 + 0.3 * min(t / 3, 1) for t in range(7)
        ],
        "step 0 has the rate of step 1: `step` counts from 0, so no step + 1 is needed": [
            0.1 + 0.3 * min((t + 1) / 4, 1) for t in range(7)
        ],
        "it grows on after step W; there it must stay at pη": [0.1 + 0.3 * t / 4 for t in range(7)],
        "it ends at (p + 1)η: η is there from the start, so only (p − 1)η is to be added": [
            0.1 + 0.4 * min(t / 4, 1) for t in range(7)
        ],
        "it ends at (p − 1)η: the way goes from η to pη": [0.1 + 0.2 * min(t / 4, 1) for t in range(7)],
        "it grows from 0 to (p − 1)η: the η that it starts with is missing": [
            0.3 * min(t / 4, 1) for t in range(7)
        ],
        "it grows by the same factor at each step; gradual warmup adds the same amount": [
            round(0.1 * 4 ** min(t / 4, 1), 9) for t in range(7)
        ],
    },
    "the learning rate at steps 0 to 6",
)
### BEGIN HIDDEN TESTS
rates = [round(float(learning_rate(t, 0.5, 3, 5)), 9) for t in range(7)]
expect(rates, [0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.5], name="the learning rate with other numbers")
### END HIDDEN TESTS

# %% check="warmup-values" points=1 see="7.2"
"""Other ranks and warmups; on one rank nothing changes."""
### AUTOTEST [float(learning_rate(t, 0.2, 2, 50)) for t in (0, 1, 25, 49, 50, 51, 1_000)]
### AUTOTEST [float(learning_rate(t, 0.2, 1, 50)) for t in (0, 25, 50, 75)]
### BEGIN HIDDEN TESTS
for lr, size, warmup in [(0.1, 8, 5), (0.05, 256, 25_000), (0.3, 3, 1), (0.0123, 3, 7)]:
    rates = [learning_rate(t, lr, size, warmup) for t in range(0, 2 * warmup + 1, max(1, warmup // 5))]
    rises = np.diff([r for t, r in zip(range(0, warmup + 1, max(1, warmup // 5)), rates, strict=False)])
    assert np.isclose(rates[0], lr) and np.isclose(rates[-1], size * lr), "it must go from η to pη"
    assert np.allclose(rises, rises[0]), "the increments of the warmup are not equal"
### END HIDDEN TESTS

# %% [markdown]
# ## 3. What the ranks tell each other
#
# So far no rank has spoken to another. Three conversations remain, and one agreement to keep silent. For
# each conversation Horovod has a function that every rank calls, and that returns when all have called it.
# Hence the name, a *collective*; and hence the rule that a rank which leaves it out makes all the others
# wait.
#
# One matter of form. Keras 3 wraps its weights in `keras.Variable`; TensorFlow and Horovod want the
# TensorFlow variable inside, which is `variable.value`.
#
# ### The ranks start equal
#
# If two ranks begin with different weights and from then on take equal steps, they stay as far apart as
# they were. So before the first step all ranks take over the variables of rank 0: its weights, and the
# state of its optimizer too, which matters as soon as there is momentum, or when the training goes on from
# a checkpoint that only rank 0 has read.


# %% solution="broadcast"
def broadcast(variables):
    """Overwrite the keras.Variables of every rank with those of rank 0.

    hvd.broadcast_variables(tensorflow_variables, root_rank) does the sending.
    """
    assert all(isinstance(v, keras.Variable) for v in variables)
    ### BEGIN SOLUTION
    hvd.broadcast_variables([v.value for v in variables], root_rank=0)
    ### END SOLUTION


# %% [markdown]
# ### They take the same step
#
# The loss is the mean over the images. For p shards of equal size, the gradient over all images is the
# *mean* of the ranks' gradients:
#
# $$
# \frac{1}{pn}\sum_{r=1}^{p}\sum_{i=1}^{n} \nabla \ell_{r,i}
# \;=\; \frac{1}{p}\sum_{r=1}^{p}\Big(\frac{1}{n}\sum_{i=1}^{n} \nabla \ell_{r,i}\Big)
# $$
#
# Horovod wraps the tape: a `hvd.DistributedGradientTape` around your tape has a `gradient` that ends with
# an all-reduce, so that every rank gets the mean, and takes the same step.


# %% solution="average-gradient"
def average_gradient(tape, loss, variables):
    """The gradient of the loss, averaged over the ranks: a list of tensors, one for each keras.Variable.

    tape is the tf.GradientTape that recorded how this rank's loss, a scalar, came from the variables.
    """
    sources = [v.value for v in variables]
    ### BEGIN SOLUTION
    return hvd.DistributedGradientTape(tape).gradient(loss, sources)
    ### END SOLUTION


# %% [markdown]
# ### They report one number
#
# At the end each rank tests the network on its part of the test images, and the accuracy that counts is
# that over all of them. 2,001 test images cannot be divided evenly on two ranks, and a mean of two
# accuracies over different numbers of images is not the accuracy. What *can* be added up are counts.
#
# `hvd.allreduce(tensor, op=hvd.Sum)` returns on every rank the sum of the ranks' tensors. It takes a tensor,
# not Python's numbers: `tf.constant([3, 4], tf.float64)` makes one of them, and in this format the sum is
# exact for any count you will meet.


# %% solution="average-metric"
def average_metric(right, seen):
    """The share of right answers over all ranks, a float; this rank had `right` right among `seen` images."""
    assert 0 <= right <= seen and seen > 0, f"{right} right of {seen}"
    ### BEGIN SOLUTION
    right, seen = hvd.allreduce(tf.constant([right, seen], tf.float64), op=hvd.Sum)
    return float(right / seen)
    ### END SOLUTION


# %% [markdown]
# ### One of them writes
#
# The ranks share one folder. If all of them write the checkpoint, p processes write into the same file at
# the same time, and on a bad day what is left is a mixture. Their weights are equal, so let rank 0 write,
# alone.
#
# One more thing, since jobs are stopped when their time is up, and not when it suits them. A checkpoint
# that is half written when the job ends has destroyed the one before. So write to a name *beside* the real
# one, and rename when it is complete: `os.replace` either happens or does not, there is no half.


# %% solution="save-checkpoint"
def save_checkpoint(net, path):
    """Rank 0 saves the network at `path` (a pathlib.Path that ends in .keras); the other ranks write nothing.

    `net.save(beside)` saves it beside first, and then it is renamed, so that at any moment `path` holds the
    old checkpoint or the new one, whole, and never a part of one.
    """
    assert path.suffix == ".keras", f"Keras saves to a name that ends in .keras, not to {path.name}"
    beside = path.with_name(f"unfinished-{path.name}")
    ### BEGIN SOLUTION
    if hvd.rank() == 0:
        net.save(beside)
        os.replace(beside, path)
    ### END SOLUTION


# %% [markdown]
# ## The training, data-parallel
#
# Now all of it together. This is `train_on_one`, line by line, with your six functions where they belong;
# `# +` marks what distribution adds. Compare the two: everything else is as it was, but that the step
# stands in a cell of its own.
#
# Two details deserve a look. Each rank starts from a seed of its own, as processes do that nobody told to
# agree; that is what the broadcast is for. And the warmup lasts one epoch.


# %% given="train"
def train(images=IMAGES, epochs=EPOCHS, batch=BATCH, lr=LR, seed=0):
    """Train LeNet-5 on all ranks of the job, `batch` images a rank and step; returns as train_on_one does."""
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
    """One training step as a TensorFlow function of a batch (n, 28, 28, 1) and its labels (n,)."""
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
# None of this can be tried in a notebook, which is a single process. So the next cells are *trials*:
# functions that call yours with values small enough to work out by hand. `on_ranks(trial, inputs)` starts as
# many ranks as there are inputs, calls the trial on each, with `inputs[r]` on rank r, and returns what came
# of it: one outcome a rank. A rank is told its own inputs and no other's; what it knows of the others it has
# from your functions. Read the trials: they are also a recipe for testing distributed code of your own. In
# these trials Horovod says that the ranks are on two nodes, the first half of them on one, the rest on the
# other: `hvd.local_rank()` is a rank's number on its node, `hvd.cross_rank()` that of the node. Of two ranks
# each has a node of its own, so both have the local rank 0.


# %% given="trials"
def on_two_nodes():
    """From now on Horovod says that the first half of the ranks is on one node, the rest on another."""
    first = (hvd.size() + 1) // 2  # so many ranks are on the first node
    sizes = [first, hvd.size() - first]
    node, local = divmod(hvd.rank(), first)
    hvd.local_rank, hvd.local_size = (lambda: local), (lambda: sizes[node])
    hvd.cross_rank, hvd.cross_size = (lambda: node), (lambda: sum(local < size for size in sizes))


def try_start(weight, statistic, step):
    """Three variables of this rank's own; what has become of them?"""
    on_two_nodes()
    variables = [
        keras.Variable(weight),
        keras.Variable(statistic, trainable=False),  # as batch normalisation has them
        keras.Variable(step, trainable=False, dtype="int64"),  # as optimizers count
    ]
    broadcast(variables)
    return [v.numpy().tolist() for v in variables]


def try_gradient(slopes):
    """The loss is the sum of slopes · weights, so that the slopes are this rank's own gradient."""
    on_two_nodes()
    weights = [keras.Variable(np.zeros_like(slope)) for slope in slopes]
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(slope * w.value) for slope, w in zip(slopes, weights, strict=True))
    return [np.asarray(g).tolist() for g in average_gradient(tape, loss, weights)]


def try_metric(right, seen):
    """This rank had `right` of its `seen` images right."""
    on_two_nodes()
    return average_metric(right, seen)


# %% given="trial-checkpoint"
class Page(keras.Sequential):
    """Stands in for a network: saves a text, which says who wrote a file; is stopped at it, or loses it."""

    def __init__(self, text, stopped=False, lost=False):
        super().__init__()
        self.text, self.stopped, self.lost = text, stopped, lost

    def save(self, filepath, *_, **__):
        if self.lost:
            return
        Path(filepath).write_text(self.text[:4] if self.stopped else self.text)
        if self.stopped:
            raise InterruptedError("the job was stopped while it wrote")


def try_checkpoint(first, second, name="lenet5.keras", beside=None):
    """Save twice to the same path. `kept` is a second name of the file that the first save has left.

    beside: what another rank is just writing beside it, in a folder that the ranks share.
    """
    on_two_nodes()
    path = Path(name)  # in a folder of this rank's own: who writes?
    if beside is not None:
        path.with_name(f"unfinished-{name}").write_text(beside)
    save_checkpoint(Page(first), path)
    if path.exists():
        os.link(path, "kept")
    save_checkpoint(Page(second), path)


def try_power_cut(old, new):
    """Begin with an old checkpoint, or none, be stopped while saving a new one, then save it after all."""
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
    """The disk loses the new file while it is saved: is the old checkpoint still there?"""
    on_two_nodes()
    path = Path("lenet5.keras")
    path.write_text(old)
    with contextlib.suppress(OSError):
        save_checkpoint(Page(new, lost=True), path)


# %% given="trial-training"
def try_training(x, y, batch, lr, warmup, steps, seed=0):
    """The first steps of `train` with other images: this rank's losses, and the weights it ends with."""
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


# %% given="evidence"
def evidence(trial, inputs, **options):
    """What a trial returned on each rank: a list; AssertionError says how it ended otherwise."""
    found = on_ranks(trial, inputs, **options)
    for rank, outcome in enumerate(found):
        error = outcome.error
        value = " (Is it a keras.Variable where Horovod wants the variable.value?)"
        wrapped = "no attribute 'assign'" in error or "no attribute 'ref'" in error
        assert not error, f"rank {rank} ended with {error}{value if wrapped else ''}"
    waiting = [f"rank {rank} in {o.unfinished}()" for rank, o in enumerate(found) if o.unfinished]
    assert not waiting, (
        f"it reached its time limit: {', '.join(waiting)}. Some rank left out a collective, and "
        "others waited for it: does every rank call it, or does it stand in an `if` on the rank?"
    )
    return [outcome.value for outcome in found]


def written(trial, inputs):
    """{file: its text} on each rank after a trial; of the texts in the inputs, or "something else"."""
    evidence(trial, inputs)  # says so, if it did not run
    texts = {text for own in inputs for text in own.values() if text is not None}
    texts = {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}
    ranks = on_ranks(trial, inputs)
    return [{name: texts.get(sha, "something else") for name, (_, sha, _) in r.files.items()} for r in ranks]


# %% [markdown]
# These are the inputs, rank 0's first. Work out what you expect before you run them: the variables of each
# rank after the broadcast, the averaged gradient (3 and 5), the metric (3 of 4 and 1 of 6 images right),
# and the files. A `NotImplementedError` names a hole that is still empty. *unfinished: it waits in f()*
# means that this rank sat in f, waiting for another one that never came.

# %% given="by-hand"
START = [{"weight": 7.0, "statistic": 1.5, "step": 3}, {"weight": 9.0, "statistic": 2.5, "step": 0}]
SLOPES = [{"slopes": [3.0]}, {"slopes": [5.0]}]
COUNTS = [{"right": 3, "seen": 4}, {"right": 1, "seen": 6}]
TEXTS = [{"first": "epoch 1 of rank 0", "second": "epoch 2 of rank 0"}]
TEXTS += [{"first": "epoch 1 of rank 1", "second": "epoch 2 of rank 1"}]
CUT = [{"old": "the old one", "new": "the new one"}]  # one rank: a job that is stopped stops on all of them
TRIALS = [(try_start, START), (try_gradient, SLOPES), (try_metric, COUNTS)]
TRIALS += [(try_checkpoint, TEXTS), (try_power_cut, CUT), (try_lost, CUT)]

# %% tags=["measured"]
for trial, inputs in TRIALS:
    for rank, outcome in enumerate(on_ranks(trial, inputs)):
        waits = outcome.unfinished and f"unfinished: it waits in {outcome.unfinished}()"
        what = outcome.error or waits or outcome.value or [*outcome.files]
        print(f"{trial.__name__:14} rank {rank}  {what}")

# %% check="ranks-start-equal" points=2 see="7.2"
"""Ranks that begin with different variables have rank 0's after the broadcast."""
found = evidence(try_start, START)
expect(
    [weight for weight, _, _ in found],
    [7.0, 7.0],
    {
        "nothing was sent: the ranks keep their own weights": [7.0, 9.0],
        "the weights were averaged; a broadcast takes over rank 0's": [8.0, 8.0],
        "the last rank's weights were sent, not rank 0's": [9.0, 9.0],
    },
    "the weight on ranks 0 and 1",
)
expect(
    [rest for _, *rest in found],
    [[1.5, 3], [1.5, 3]],
    {
        "only what is trained was sent. The ranks part in the rest: the state of the optimizer, and what "
        "batch normalisation keeps": [[1.5, 3], [2.5, 0]]
    },
    "what is not trained, on ranks 0 and 1",
)
### BEGIN HIDDEN TESTS
other = [{"weight": 0.1, "statistic": 1 / 3, "step": 2**53 + 1}]  # an odd count that no float64 holds
other += [{"weight": np.nan, "statistic": np.inf, "step": 7}, {"weight": 0.0, "statistic": -1.0, "step": 0}]
found, first = evidence(try_start, other), [*np.array([0.1, 1 / 3], np.float32).tolist(), 2**53 + 1]
assert found == [first] * 3, "three ranks did not take over rank 0's variables, to the last bit"
arrays = [{"weight": np.arange(6.0).reshape(2, 3) * s, "statistic": [s], "step": [4 * s]} for s in (3, 7)]
found = evidence(try_start, arrays)
assert found == [[(3 * np.arange(6.0).reshape(2, 3)).tolist(), [3.0], [12]]] * 2, "arrays are not rank 0's"
### END HIDDEN TESTS

# %% check="gradient-by-hand" points=2 see="7.2"
"""Gradients 3 and 5 average to 4, on both ranks."""
expect(
    evidence(try_gradient, SLOPES),
    [[4.0], [4.0]],
    {
        "each rank keeps its own gradient, as a plain tape gives it: the networks drift apart": [
            [3.0],
            [5.0],
        ],
        "rank 0's gradient was sent to all: the others' images count for nothing": [[3.0], [3.0]],
        "the gradients were added up, not averaged: every step is p times too long (or they were divided by "
        "the ranks of a node: here each node has one)": [[8.0], [8.0]],
        "the mean was divided by p once more: every step is p times too short": [[2.0], [2.0]],
    },
    "the gradient on ranks 0 and 1",
)
### BEGIN HIDDEN TESTS
other = [{"slopes": [-1.0, np.array([1.5, 0.0])]}, {"slopes": [4.0, np.array([0.5, -8.0])]}]
expect(evidence(try_gradient, other), [[1.5, [1.0, -4.0]]] * 2, name="the mean of -1 and 4, and of an array")
other = [{"slopes": [slope]} for slope in (0.1, 70_000.0, -2.3)]  # float16 ends at 65,504
expect(
    evidence(try_gradient, other), [[23_332.6]] * 3, name="the mean of 0.1, 70,000 and -2.3 on three ranks"
)
### END HIDDEN TESTS

# %% check="metric-over-all-ranks" points=2 see="7.4"
"""3 of 4 and 1 of 6 images right are 4 of 10, and both ranks know it."""
expect(
    evidence(try_metric, COUNTS),
    [0.4, 0.4],
    {
        "each rank reports its own share of right answers": [3 / 4, 1 / 6],
        "the mean of the ranks' shares, although they saw different numbers of images": [11 / 24, 11 / 24],
        "rank 0's share, reported for all": [3 / 4, 3 / 4],
        "the shares were added up": [11 / 12, 11 / 12],
    },
    "the metric on ranks 0 and 1",
)
### BEGIN HIDDEN TESTS
other = [{"right": 0, "seen": 10}, {"right": 90, "seen": 100}]
expect(evidence(try_metric, other), [9 / 11] * 2, name="90 of 110 on ranks 0 and 1")
other = [{"right": r, "seen": s} for r, s in [(1, 1), (16_777_217, 33_554_433), (2, 3)]]
assert all(abs(share - 16_777_220 / 33_554_437) < 1e-12 for share in evidence(try_metric, other)), (
    "with large counts on three ranks the share is rounded: float32 has 24 bits"
)
### END HIDDEN TESTS

# %% check="one-rank-writes" points=1 see="7.4"
"""Rank 0 writes one checkpoint; the other rank writes nothing."""
files = [sorted(set(names) - {"kept"}) for names in written(try_checkpoint, TEXTS)]
expect(
    files,
    [["lenet5.keras"], []],
    {
        "every rank writes: p processes into one file (hvd.local_rank() is 0 once on each node, and here "
        "each rank has a node of its own)": [["lenet5.keras"], ["lenet5.keras"]],
        "nobody writes": [[], []],
        "the finished checkpoint was not renamed": [["unfinished-lenet5.keras"], []],
        "it was copied, not renamed": [["lenet5.keras", "unfinished-lenet5.keras"], []],
        "every rank saves beside and rank 0 only renames: p processes into one file": [
            ["lenet5.keras"],
            ["unfinished-lenet5.keras"],
        ],
    },
    "the files that ranks 0 and 1 wrote",
)
### BEGIN HIDDEN TESTS
other = [{"first": f"{seed}", "second": f"{seed + 5}", "name": "best.keras"} for seed in (31, 47, 53)]
found = written(try_checkpoint, other)
assert found[0].get("best.keras") in ("31", "36"), "what rank 0 leaves is not what its network has saved"
assert [set(names) - {"kept"} for names in found] == [{"best.keras"}, set(), set()]
shared = [own | {"beside": f"half {rank}" if rank else None} for rank, own in enumerate(other)]
for rank, names in enumerate(written(try_checkpoint, shared)[1:], 1):  # in a folder that the ranks share
    assert names == {"unfinished-best.keras": f"half {rank}"}, (
        f"rank {rank} has touched what rank 0 is just writing beside the checkpoint; it has now {names}"
    )
### END HIDDEN TESTS

# %% check="checkpoint-whole" points=1 see="7.4"
"""A job that is stopped while it writes leaves the checkpoint before; one that is not replaces it."""
cut, saved = written(try_power_cut, CUT)[0], written(try_checkpoint, TEXTS)[0]
old, new, first, second = *CUT[0].values(), *TEXTS[0].values()
assert saved, "rank 0 writes no checkpoint at all"
assert cut.get("after-the-cut") == old, (
    "after the cut the old checkpoint is lost: it was written into, or removed, before the new one was there"
)
assert written(try_lost, CUT)[0].get("lenet5.keras") == old, (
    "the old checkpoint is removed before the new one takes its name: os.replace does both at once"
)
assert cut.get("lenet5.keras") == new and saved.get("lenet5.keras") == second, (
    "a save that was not stopped has left the old checkpoint in place: the new one must take its name"
)
assert saved.get("kept") == first, (
    "the new checkpoint was written *into* the file of the old one, so a cut on the way leaves a part of "
    "each: os.replace gives the name to another file, a copy does not"
)
### BEGIN HIDDEN TESTS
found = written(try_power_cut, [{"old": "61", "new": "66"}])
assert found[0].get("after-the-cut") == "61" and found[0].get("lenet5.keras") == "66", "run again, it is lost"
assert set(found[0]) == {"after-the-cut", "lenet5.keras"}, "the unfinished file stays when it is finished"
found = written(try_power_cut, [{"old": None, "new": "66"}])
assert "after-the-cut" not in found[0], (
    "cut while it saves the first checkpoint of all, it leaves a part of one"
)
assert found[0] == {"lenet5.keras": "66"}, "after a cut at the first checkpoint, saved again, it is not there"
texts = [{"first": f"{seed}", "second": f"{seed + 5}"} for seed in (31, 47, 53)]
found = written(try_checkpoint, texts)[0]
assert (found.get("kept"), found.get("lenet5.keras")) == ("31", "36"), "it is written into the old file"
### END HIDDEN TESTS

# %% [markdown]
# ## Train
#
# On one rank nothing may change: p = 1 scales the learning rate by 1 and averages over one gradient, so
# that the weights are those of `train_on_one` to the last bit. (If you doubt it, try
# `submit(train).result()["weights"] == baseline.result()["weights"]`.) So `baseline` stands for one rank,
# and only the run on two ranks is new. This is the run that you hand in: it lies in `runs/`, beside this
# notebook, with its code, its metrics and its checkpoint, and when your notebook is graded it is replayed
# instead of run again; it counts only if its first eight steps, run again by the grader on two ranks, give
# the same losses. Hand in the notebook and this folder; if you change one of the six functions later, run
# this cell and all below again.

# %%
two = submit(train, ranks_per_node=2, time="00:04:00")
two.results()

# %% [markdown]
# ## Look
#
# A step on two ranks covers twice as many images, so the curves are drawn over the images seen. On the left
# the loss, averaged over the ranks and over 1,280 images; on the right the learning rate you wrote.

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
# *The figure:* two loss curves that fall from the same start, solid for one rank, dashed for two; the
# dashed one falls later in the first epoch and is near the solid one at the end. Beside them the learning
# rates: level on one rank, on two a ramp over the first epoch to twice the height.
#
# Do the curves lie on each other? Two ranks take half as many steps, each twice as long once the warmup is
# over: they follow the same road with fewer turns. In the first epoch, while the rate still grows, they lag
# behind, and the distance they lose there is a price of the larger batch.
#
# Now time.

# %%
speed = {}
for job in (baseline, two):
    speed[job.ranks] = BATCH * job.ranks / seconds_a_step(job)  # images / s
    print(
        f"p = {job.ranks}: {1e3 * seconds_a_step(job):5.1f} ms a step, {speed[job.ranks]:6,.0f} images/s, "
        f"accuracy {job.result()['accuracy']:.3f}"
    )
extra = seconds_a_step(two) - seconds_a_step(baseline)
print(
    f"speed-up {speed[2] / speed[1]:.2f} (your guess: {my_speedup or 'none'}), "
    f"efficiency {speed[2] / speed[1] / 2:.0%}; your guess of the accuracy: {my_accuracy or 'none'}"
)
print(
    f"a step on two ranks takes {1e3 * extra:.1f} ms more; predicted for the exchange {1e3 * exchange:.2f} ms"
)

# %% [markdown]
# A step on two ranks is a step on one, plus all that the second rank costs, and that is mostly more than
# the bytes on the wire. Before a gradient is exchanged, the ranks agree which gradients are ready on all of
# them, and they look for new ones only every so often. The faster rank waits for the slower. And two
# processes share one machine's memory, its caches and whatever else it is doing.
#
# An efficiency of more than 100% is no gift of the second rank. The two were measured one after the other,
# and on a machine that others use the run on one rank may have been the slower one for reasons of its own.
# Measure both again, in turns, before you believe it.
#
# Some of this does not grow with the work of a step; the waiting, and the contention for memory, partly do.
# Suppose for once that none of it grows, while the network, or the batch, gives a step several times as much
# to compute. What comes out is an upper bound:

# %%
for factor in (4, 16, 64):
    computing = factor * seconds_a_step(baseline)
    print(f"{factor:2} times the work: speed-up {2 * computing / (computing + extra):.2f} (at best)")

# %% [markdown]
# That is why this is done with large networks and large batches, and why LeNet-5, which has little to
# compute between two exchanges, is the hardest case rather than the easiest.
#
# Last, the weights. Two ranks that took the same steps from the same start must agree to the last bit, and
# they can: they apply the *same* averaged gradient to the *same* weights. One rank alone ends elsewhere: it
# has taken twice as many steps, and shorter ones.

# %%
for job in (baseline, two):
    for rank, result in enumerate(job.results()):
        print(f"p = {job.ranks}, rank {rank}: {result['weights'][:16]}…")

# %% [markdown]
# ## Is it one training?
#
# Everything so far could be right and the whole still wrong. So here is the question of the beginning, as a
# test. One process, without Horovod and without your functions, shuffles as `train_on_one` does, cuts the
# shuffle into batches of p·n, and takes each step by hand. Its losses must be those of the two ranks, step
# by step.


# %% given="one-process"
def one_process(x, y, steps, batch, lr, warmup, size=2, seed=0):
    """The first steps of one process with batches of size * batch images: losses (steps,) and weights."""
    net, losses = models.lenet5(seed), []
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    shuffle = np.random.default_rng([seed, 0]).permutation(len(y))
    plan = data.batches(shuffle, size * batch)
    for step, indices in enumerate(plan[:steps]):  # (p * n,)
        with tf.GradientTape() as tape:
            loss = cross_entropy(y[indices], net(x[indices], training=True))
        weights = [v.value for v in net.trainable_variables]
        rate = lr + (size - 1) * lr * min(step / warmup, 1)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(rate * g)
        losses.append(float(loss))
    return np.array(losses), net.get_weights()


# %% given="losses-of"
def losses_of(job, steps=8):
    """The first losses of a job, averaged over its ranks: (steps,)."""
    return job.metrics().groupby("step").loss.mean().to_numpy()[:steps]


# %% [markdown]
# How near must they be? Not equal: float32 keeps 24 bits, so each rounding is off by up to 6·10⁻⁸ of the
# value, and a sum over 256 images is rounded differently from two sums over 128 that are then averaged.
# From step to step these differences grow a little. The check allows 10⁻⁴ of the loss; look how far below
# that you are. A wrong start, shard, gradient or learning rate is above it within these eight steps, some
# of them only in the last. What they cannot show is an epoch that is not shuffled anew, the metric, or who
# writes.

# %% given="as-train"
AS_TRAIN = {"steps": 8, "batch": BATCH, "lr": LR, "warmup": IMAGES // 2 // BATCH}  # an epoch of two ranks

# %%
losses, _ = one_process(*data.fashion_mnist("train", IMAGES), **AS_TRAIN)
print("relative difference, steps 1 to 8:", " ".join(f"{d:.0e}" for d in np.abs(losses_of(two) / losses - 1)))

# %% [markdown]
# The checks train on less, 129 images in steps of 16 on two ranks, so that they can be run again after you
# have handed in: then on other images, of which each rank has those of its own shard, and `nan` for the
# rest. A mistake in one of your functions is a matter of that function's own checks. Where it is the only
# one, it costs no more when the notebook is graded: the three checks that follow then pass it over, or put
# the right function in its place. In your own notebook they fail all the same.


# %% given="few-images"
FEW = {"steps": 8, "batch": 8, "lr": 0.1, "warmup": 4}


def few_images(seed):
    """129 random images (129, 28, 28, 1) and their labels (129,)."""
    rng = np.random.default_rng(seed)
    return rng.random((129, 28, 28, 1), np.float32), rng.integers(0, 10, 129)


def trained(trial, x, y, shards=None, seed=0, **options):
    """What a training returns on two ranks; with `shards`, rank r has the images of shards[r], else nan."""
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
    """The only one of these functions that has failed a check of its own; "" where none has, or several."""
    faulty = [name for name in functions if any(map(has_failed, OWN_CHECKS[name]))]
    if len(faulty) != 1:
        return ""
    print(f"What is wrong with {faulty[0]} is said at its own check. It costs nothing more here.")
    return faulty[0]


# %% given="agree"
def weights_agree(found, weights=None):
    """Assert that all ranks have equal weights; where `weights` are given, and these but for rounding."""
    first = found[0]["weights"]
    for rank, other in enumerate(found):
        same = [np.array_equal(a, b) for a, b in zip(first, other["weights"], strict=True)]
        assert len(same) == 10 and all(same), (
            f"ranks 0 and {rank} ended with different networks. Either they started different (broadcast), "
            "or they took different steps (average_gradient)."
        )
    for got, want in zip(first, weights or first, strict=True):
        assert got.shape == want.shape and np.allclose(got, want, atol=1e-4), (
            "the ranks agree with each other, but not with one process: look at shard, average_gradient (a "
            "sum in place of a mean?) and learning_rate"
        )


def losses_agree(found, reference, within=1e-4):
    """Assert that the losses, averaged over the ranks, are those of one process, step by step."""
    assert all(len(rank["losses"]) == len(reference) for rank in found), "the ranks take fewer steps"
    ours = np.mean([rank["losses"] for rank in found], axis=0)
    assert np.all(np.abs(ours / reference - 1) < within), (
        f"the losses part: the ranks {ours.round(5)}, one process {reference.round(5)}. If they part at the "
        "first step, the ranks start from different weights (broadcast) or see other images (shard); if at a "
        "later one, their step is not that of the mean gradient (average_gradient) or has the wrong length "
        "(learning_rate)."
    )


# %% check="weights-equal" points=1 see="7.2"
"""After eight steps all ranks have the same weights, to the last bit: those of one training."""
if not follows(TRAINING):
    x, y = few_images(1)
    weights_agree(trained(try_training, x, y))
### BEGIN HIDDEN TESTS
if not follows(TRAINING):
    x, y = few_images(23)
    shards = [np.random.default_rng([5, 0]).permutation(129)[:128][rank::2] for rank in range(2)]
    weights_agree(trained(try_training, x, y, shards, seed=5), one_process(x, y, seed=5, **FEW)[1])
### END HIDDEN TESTS

# %% check="two-ranks-one-process" points=3 see="7.2"
"""Two ranks give the trajectory of one process on the same global batch, step by step."""
if not follows(TRAINING):
    x, y = few_images(1)
    losses_agree(trained(try_training, x, y), one_process(x, y, **FEW)[0])
### BEGIN HIDDEN TESTS
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
x, y = few_images(23)
shards = [np.random.default_rng([5, 0]).permutation(129)[:128][rank::2] for rank in range(2)]
found = trained(try_training, x, y, shards, seed=5, instead=ours)
losses_agree(found, one_process(x, y, seed=5, **FEW)[0])
### END HIDDEN TESTS

# %% [markdown]
# And what does the run leave behind for whoever wants to use the network? Its checkpoint, and in it the
# weights that the training ended with:


# %% given="left-behind"
# Runs in the notebook's process, which has the job and its files.
def left_behind():
    """What the run on two ranks left: the names of its files, and the digest of the checkpoint's weights."""
    files = sorted(path.name for path in two.folder.iterdir())
    net = keras.saving.load_model(two.folder / "lenet5.keras") if "lenet5.keras" in files else None
    return {"files": files, "weights": digest(net) if net else None}


# %%
print("the checkpoint holds the weights of the result:", left_behind()["weights"] == two.result()["weights"])


# %% given="first-steps"
def first_steps():
    """The first steps of `train` once more: this rank's losses."""
    x, y = data.fashion_mnist("train", IMAGES)
    return {"losses": try_training(x, y, **AS_TRAIN)["losses"]}


# %% check="recorded-run" points=1 see="7.4"
"""The run you hand in is whole and has learned; after handing in, its first steps are run again."""
if not follows(OWN_CHECKS):
    results = two.results(progress=False)  # raises the run's own error, if it ended badly
    assert len(results) == 2, f"the run has {len(results)} ranks; submit it with ranks_per_node=2"
    assert results[0]["weights"] == results[1]["weights"], (
        "the ranks of the run ended with different networks"
    )
    assert results[0]["accuracy"] > 0.6, f"accuracy {results[0]['accuracy']}: it has hardly learned anything"
    steps = EPOCHS * (IMAGES // 2 // BATCH)
    assert len(losses_of(two, steps=None)) == steps, f"the run on two ranks has to have {steps} steps"
    left = left_behind()
    assert "lenet5.keras" in left["files"], "the run has no checkpoint"
    assert "unfinished-lenet5.keras" not in left["files"], "the checkpoint was left half-way"
    assert left["weights"] == two.result()["weights"], (
        "the checkpoint does not hold the weights the training ended with"
    )
### BEGIN HIDDEN TESTS
if not follows(OWN_CHECKS):
    recorded, (reference, _) = losses_of(two), one_process(*data.fashion_mnist("train", IMAGES), **AS_TRAIN)
    again = evidence(first_steps, [{}, {}])
    losses_agree(again, recorded, within=1e-3)
    losses_agree(again, reference, within=1e-3)
### END HIDDEN TESTS

# %% [markdown]
# ## Six scripts that are not one training
#
# Each of the following scripts was meant to be data-parallel. Run as they were, five of them say nothing,
# and one never ends (with the `mean` below it stops and says so). None is one training. Such mistakes have
# been found in real courses and programs; here the network is three weights fitted to 12 points (13 for
# `wait`), so that you see every number. What a script should do is in its docstring. You will say what is
# wrong with it, and mend it, mostly in one line or two. In `echo` and `restart` a rank really has its own
# points only: those of the other rank are `nan` on it.
#
# `mean` and `from_rank_0` are an all-reduce and a broadcast that do not hang: they notice when another rank
# has gone home. Use these two, and no others, in your scripts.

# %% given="collectives"
HOME = "it waits for a rank that has gone home: this job hangs"


def here(number):
    """The sum over the ranks of 1 (in its script) or 0 (has gone home)."""
    return int(hvd.allreduce(tf.constant(number), op=hvd.Sum, name="here"))


def mean(value):
    """The mean over the ranks of an array (or number) that each of them has."""
    if here(1) < hvd.size():
        raise RuntimeError(HOME)
    return hvd.allreduce(tf.constant(value, tf.float64), op=hvd.Average, name="exchange").numpy()


def from_rank_0(value):
    """Rank 0's array, on every rank."""
    return mean(hvd.size() * np.array(value) * (hvd.rank() == 0))


# %% given="line"
def problem(seed, n):
    """n points: x (n, 3) and y (n,), a noisy linear function of x."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x @ [1.0, -2.0, 0.5] + rng.normal(size=n)


def loss_of(w, x, y):
    """Half the mean squared error of the weights w (3,)."""
    return float(np.mean((x @ w - y) ** 2) / 2)


def slope(w, x, y):
    """The gradient of `loss_of`: (3,)."""
    return x.T @ (x @ w - y) / len(y)


# %% given="found-1-and-2"
def twins_as_found(rank, size, x, y):
    """Two epochs in batches of 3 a rank; all ranks cut the shuffle that [7, epoch] gives.

    The batches of all ranks in one step are together the next 3 p points of the shuffle.
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
    """Two epochs in batches of 3 a rank; all ranks cut the shuffle that [7, epoch] gives.

    The batches of all ranks in one step are together the next 3 p points of the shuffle.
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
    """Six steps, each with all points; rank r has the points r, r + p, … only, the others are nan on it.

    `losses` are those over all points, one before each step.
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
    """Weights and velocity of a training that is to go on. Only rank 0 has the file; others begin at 0."""
    w, v = CHECKPOINT
    return (w, v) if hvd.rank() == 0 else (0 * w, 0 * v)


def restart_as_found(rank, size, x, y):
    """Go on from the checkpoint for four steps with momentum; rank r has the points r, r + p, … only."""
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
    """One epoch in batches of 3 a rank, of the shuffle that [7, 0] gives, without its last N mod p points.

    The batches of all ranks in one step are together the next 3 p points of the shuffle.
    """
    w, path, seen = np.zeros(3), [], []
    shuffle = np.random.default_rng([7, 0]).permutation(len(y))
    for batch in data.batches(shuffle[rank::size], 3):
        w = w - 0.1 * mean(slope(w, x[batch], y[batch]))
        path.append(w)
        seen.append(batch)
    return {"path": path, "seen": seen}


def best_as_found(rank, size, x, y):
    """Eight steps; rank 0 writes after each whose loss, over all points held out, is the lowest so far.

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
    """What a script returned on this rank; the ranks part when all have gone home from it."""
    CHECKPOINT[: len(checkpoint)] = map(np.array, checkpoint)
    try:
        return script(hvd.rank(), hvd.size(), x, y)
    finally:
        while here(0):
            pass


def points_for(name, seed, own=None, n=None, p=2):
    """What the script of this name gets on each of p ranks: all n points, or its `own` and else nan."""
    x, y = problem(seed, n or (13 if name == "wait" else 12))
    if own is None and name in ("echo", "restart"):  # which say that a rank has its own points only
        own = [np.arange(len(y))[rank::p] for rank in range(p)]
    for rank in range(p):
        others = np.delete(np.arange(len(y)), [] if own is None else own[rank])
        hidden = others if own is not None else []
        rank_x, rank_y = x.copy(), y.copy()
        rank_x[hidden], rank_y[hidden] = np.nan, np.nan
        yield {"x": rank_x, "y": rank_y}


# %% [markdown]
# Each of them ran on two ranks, and this is what they left. Look at each pair of lines as at the
# output of a run: what should be equal on the two ranks, and is not? What should differ, and does not?
# Where the weights part, look how the distance goes on: ranks with different starts and equal steps stay as
# far apart as they were; if it grows, their steps differ. ‖ stands between two epochs; `wait` has 13
# points.


# %% given="show"
def show(scripts):
    """Run the scripts {name: function} and print what they left, rank by rank."""
    for name, script in scripts.items():
        inputs = [{"script": script} | points for points in points_for(name, seed=4)]
        for rank, outcome in enumerate(on_ranks(exhibit, inputs)):
            found = lines(outcome.value, 2 if name in ("twins", "deck") else 1) if outcome.value else ()
            print(f"{name:8} rank {rank} ", "  ".join(found) or outcome.error or "did not end in time")


def lines(found, epochs):
    """What one script left after so many epochs, in short: texts."""
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
# ### Name them
#
# Which of these nine is it, for each of the six? Three are in none of them. The two checks below see only
# that you chose letters. Whether they are right is checked after you have handed in, and a point is for all
# three scripts of a check together.

# %% given="bugs"
BUGS = {
    "A": "The ranks start from different weights.",
    "B": "Every rank sees all points of the epoch: nothing is divided.",
    "C": "Each rank takes its part of a shuffle of its own.",
    "D": "One rank takes a step more than the others.",
    "E": "The gradient is added up, not averaged.",
    "F": "The ranks exchange what they report, not what they learn from.",
    "G": "A part of the state of the training is on rank 0 only.",
    "H": "Each rank decides by its own part of the data, and each of them writes.",
    "I": "The learning rate is scaled twice.",
}

# %% solution="diagnosis"
diagnosis = {"twins": None, "deck": None, "echo": None, "restart": None, "wait": None, "best": None}
### BEGIN SOLUTION
diagnosis = {"twins": "B", "deck": "C", "echo": "F", "restart": "G", "wait": "D", "best": "H"}
### END SOLUTION

# %% check="diagnosis-shuffles" points=1 see="7.8"
"""What is wrong with twins, deck and wait (1 point)."""
for name in ("twins", "deck", "wait"):
    if diagnosis[name] is None:
        raise NotImplementedError(f"{name} has no letter yet")
    assert diagnosis[name] in BUGS, f"{name}: {diagnosis[name]!r} is none of the letters {', '.join(BUGS)}"
### BEGIN HIDDEN TESTS
found = {name: diagnosis[name] for name in ("twins", "deck", "wait")}
assert found == {"twins": "B", "deck": "C", "wait": "D"}, f"not all of {found} are right"
### END HIDDEN TESTS

# %% check="diagnosis-messages" points=1 see="7.8"
"""What is wrong with echo, restart and best (1 point)."""
for name in ("echo", "restart", "best"):
    if diagnosis[name] is None:
        raise NotImplementedError(f"{name} has no letter yet")
    assert diagnosis[name] in BUGS, f"{name}: {diagnosis[name]!r} is none of the letters {', '.join(BUGS)}"
### BEGIN HIDDEN TESTS
found = {name: diagnosis[name] for name in ("echo", "restart", "best")}
assert found == {"echo": "F", "restart": "G", "best": "H"}, f"not all of {found} are right"
### END HIDDEN TESTS

# %% [markdown]
# ### Mend them
#
# Copy each script into its hole and mend it, such that the docstring becomes true. Leave what it returns as
# it is: the checks read it. Two ranks with batches of 3 must take the steps of one process with batches of
# 6, and each rank does its own part of the work only: the docstrings say now which points are its own.
# After you have handed in, the others are `nan` on it, in all six.


# %% solution="twins"
def twins(rank, size, x, y):
    """Two epochs in batches of 3 a rank; all ranks cut the shuffle that [7, epoch] gives.

    The batches of all ranks in one step are together the next 3 p points of the shuffle. Rank r takes those
    at r, r + p, …; a point that it takes in no epoch is nan on it.
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
    """Two epochs in batches of 3 a rank; all ranks cut the shuffle that [7, epoch] gives.

    The batches of all ranks in one step are together the next 3 p points of the shuffle. Rank r takes those
    at r, r + p, …; a point that it takes in no epoch is nan on it.
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
    """Six steps, each with all points; rank r has the points r, r + p, … only, the others are nan on it.

    `losses` are those over all points, one before each step.
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
    """Go on from the checkpoint for four steps with momentum; rank r has the points r, r + p, … only."""
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
    """One epoch in batches of 3 a rank, of the shuffle that [7, 0] gives, without its last N mod p points.

    The batches of all ranks in one step are together the next 3 p points of the shuffle. Rank r takes those
    at r, r + p, …; a point that it does not take is nan on it.
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
    """Eight steps; rank 0 writes after each whose loss, over all points held out, is the lowest so far.

    `lowest` is that loss, on every rank. Rank r has the points r, r + p, … only, also of those held out; the
    others are nan on it.
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
    """What your script of this name left on each rank: [rank 0's, rank 1's, …]."""
    inputs = [{"script": script} | points for points in points_for(name, seed, own, n, p)]
    inputs[0] |= {"checkpoint": checkpoint} if checkpoint else {}  # nobody else knows it
    found = evidence(exhibit, inputs)
    assert all(isinstance(what, dict) for what in found), f"{name} returns nothing: keep its last line"
    return found


# %% tags=["measured"]
show({"twins": twins, "deck": deck, "echo": echo, "restart": restart, "wait": wait, "best": best})


# %% given="line-of-one-process"
def path_of_one(x, y, batches):
    """The weights after each step of one process that takes these batches of points: (steps, 3)."""
    w, path = np.zeros(3), []
    for batch in batches:
        w = w - 0.1 * slope(w, x[batch], y[batch])
        path.append(w)
    return np.array(path)


def one_line(found, path, name, batches=None):
    """Assert that all ranks have the weights of one process after each step (that took these batches)."""
    for rank, what in enumerate(found):
        steps = len(what["path"])
        assert steps == len(path), f"{name}: rank {rank} takes {steps} steps, one process {len(path)}"
    ours = [np.array(what["path"]) for what in found]  # (steps, 3) each
    for rank, weights in enumerate(ours):
        shape = weights.shape[1:]
        assert shape == (3,), f"{name}: rank {rank} has weights of shape {shape}, not (3,)"
    for step, one in enumerate(path):
        first, *others = (weights[step] for weights in ours)
        assert np.isfinite([first, *others]).all(), (
            f"{name}: after step {step + 1} there are weights that are no numbers. Does a rank compute with "
            "points that it does not have (they are nan)? Each may use its own points only."
        )
        for rank, other in enumerate(others, 1):
            assert np.array_equal(first, other), (
                f"{name}: from step {step + 1} on the ranks have different weights, w = {first.round(4)} on "
                f"rank 0 and {other.round(4)} on rank {rank}"
            )
        assert np.allclose(first, one, rtol=1e-9), (
            f"{name}: the ranks have the same weights, but from step {step + 1} on not those of one process: "
            f"w = {first.round(4)}, one process has {np.round(one, 4)}. {why(found, batches, step)}"
        )


def why(found, batches, step):
    """What to look at when the ranks part from one process at this step (from 0): a text."""
    if batches is None:
        return "Do all ranks begin with all that rank 0 has, and is each step that of the mean gradient?"
    together = sorted(int(i) for what in found for i in what["seen"][step])
    alone = sorted(int(i) for i in batches[step])
    if together != alone:
        return (
            f"In this step the ranks together saw the points {together}, one process would have seen {alone}."
        )
    return "The points of this step are right, so look at the gradient and the length of the step."


def shared_out(found, n, epochs, name):
    """Assert that in each epoch the ranks see different points, and all of them but n mod p."""
    steps = [len(what["seen"]) // epochs for what in found]
    for epoch in range(epochs):
        seen = [
            i for what, s in zip(found, steps, strict=True) for b in what["seen"][epoch * s :][:s] for i in b
        ]
        assert len(seen) == len(set(seen)), f"{name}: in epoch {epoch} some points are seen more than once"
        whole = n - n % len(found)
        assert len(seen) == whole, f"{name}: in epoch {epoch} {len(seen)} of {n} points are seen"


def reported(found, key, want, name):
    """Assert that every rank reports this number, or these, under this name."""
    for rank, what in enumerate(found):
        got = np.array(what.get(key, np.nan), float)
        assert got.shape == np.shape(want) and np.allclose(got, want, rtol=1e-9), (
            f"{name}: rank {rank} reports {key} = {got.round(4)}, and not what the docstring says: over all "
            "points, on every rank"
        )


# %% check="twins-mended" points=1 see="7.3"
"""twins: what its docstring says is true now (1 point)."""
found, (x, y) = outcome_of(twins, "twins"), problem(4, 12)
shared_out(found, 12, 2, "twins")
shuffles = [np.random.default_rng([7, epoch]).permutation(12) for epoch in range(2)]
sixes = [batch for shuffle in shuffles for batch in data.batches(shuffle, 6)]
one_line(found, path_of_one(x, y, sixes), "twins", sixes)
### BEGIN HIDDEN TESTS
shuffles = [np.random.default_rng([7, epoch]).permutation(15) for epoch in range(2)]
own = [np.concatenate([shuffle[rank::3] for shuffle in shuffles]) for rank in range(3)]
found, (x, y) = outcome_of(twins, "twins", 17, own, 15, p=3), problem(17, 15)
nines = [batch for shuffle in shuffles for batch in data.batches(shuffle, 9)]
shared_out(found, 15, 2, "twins, with 15 points on three ranks")
one_line(found, path_of_one(x, y, nines), "twins, with 15 points on three ranks", nines)
### END HIDDEN TESTS

# %% check="deck-mended" points=1 see="7.3"
"""deck: what its docstring says is true now (1 point)."""
found, (x, y) = outcome_of(deck, "deck"), problem(4, 12)
shared_out(found, 12, 2, "deck")
shuffles = [np.random.default_rng([7, epoch]).permutation(12) for epoch in range(2)]
sixes = [batch for shuffle in shuffles for batch in data.batches(shuffle, 6)]
one_line(found, path_of_one(x, y, sixes), "deck", sixes)
### BEGIN HIDDEN TESTS
shuffles = [np.random.default_rng([7, epoch]).permutation(15) for epoch in range(2)]
own = [np.concatenate([shuffle[rank::3] for shuffle in shuffles]) for rank in range(3)]
found, (x, y) = outcome_of(deck, "deck", 17, own, 15, p=3), problem(17, 15)
nines = [batch for shuffle in shuffles for batch in data.batches(shuffle, 9)]
shared_out(found, 15, 2, "deck, with 15 points on three ranks")
one_line(found, path_of_one(x, y, nines), "deck, with 15 points on three ranks", nines)
### END HIDDEN TESTS

# %% check="echo-mended" points=1 see="7.2"
"""echo: what its docstring says is true now (1 point)."""


def echoes(found, x, y, name):
    """Assert that the ranks take the steps of one process with all points, and report its losses."""
    path = path_of_one(x, y, [np.arange(len(y))] * 6)
    one_line(found, path, name)
    reported(found, "losses", [loss_of(w, x, y) for w in (np.zeros(3), *path[:-1])], name)


echoes(outcome_of(echo, "echo"), *problem(4, 12), "echo")
### BEGIN HIDDEN TESTS
found = outcome_of(echo, "echo", 17, n=15, p=3)
echoes(found, *problem(17, 15), "echo, with 15 points on three ranks")
### END HIDDEN TESTS

# %% check="restart-mended" points=1 see="7.8"
"""restart: what its docstring says is true now (1 point)."""


def going_on(x, y, w=(0.5, 1.5, -1.0), v=(3.0, -1.0, 2.0)):
    """Four steps of one process from the checkpoint: its weights (4, 3), and its last velocity (3,)."""
    w, v, path = np.array(w), np.array(v), []
    for _ in range(4):
        v = 0.9 * v + slope(w, x, y)
        w = w - 0.1 * v
        path.append(w)
    return np.array(path), v


def goes_on(found, path, velocity, name):
    """Assert that all ranks have this path, and end with this velocity."""
    one_line(found, path, name)
    for rank, what in enumerate(found):
        same = np.shape(what["velocity"]) == (3,) and np.allclose(what["velocity"], velocity, rtol=1e-9)
        assert same, f"{name}: rank {rank} ends with another velocity than one process has"


goes_on(outcome_of(restart, "restart"), *going_on(*problem(4, 12)), "restart")
### BEGIN HIDDEN TESTS
found = outcome_of(restart, "restart", 17, n=15, p=3)
goes_on(found, *going_on(*problem(17, 15)), "restart, with 15 points on three ranks")
another = [(-1.0, 0.25, 2.0), (0.5, 4.0, -3.0)]
found = outcome_of(restart, "restart", 23, checkpoint=another)
goes_on(found, *going_on(*problem(23, 12), *another), "restart, with another checkpoint")
### END HIDDEN TESTS

# %% check="wait-mended" points=1 see="7.3"
"""wait: what its docstring says is true now (1 point)."""
found, (x, y) = outcome_of(wait, "wait"), problem(4, 13)
shared_out(found, 13, 1, "wait")
shuffle = np.random.default_rng([7, 0]).permutation(13)
sixes = [shuffle[:6], shuffle[6:12]]  # the last point of the shuffle is left out
one_line(found, path_of_one(x, y, sixes), "wait", sixes)
### BEGIN HIDDEN TESTS
own = [shuffle[:12][rank::2] for rank in range(2)]
found, (x, y) = outcome_of(wait, "wait", 17, own), problem(17, 13)
one_line(found, path_of_one(x, y, sixes), "wait, with other points", sixes)
shuffle = np.random.default_rng([7, 0]).permutation(17)
parts = [shuffle[:9], shuffle[9:15]]
own = [shuffle[:15][rank::3] for rank in range(3)]
found, (x, y) = outcome_of(wait, "wait", 23, own, 17, p=3), problem(23, 17)
shared_out(found, 17, 1, "wait, with 17 points on three ranks")
one_line(found, path_of_one(x, y, parts), "wait, with 17 points on three ranks", parts)
### END HIDDEN TESTS

# %% check="best-mended" points=1 see="7.4"
"""best: what its docstring says is true now (1 point)."""


def lowest_after(x, y):
    """The steps of one process after which the loss over the points held out is the lowest, and that loss."""
    w, lowest, steps = np.zeros(3), np.inf, []
    for step in range(8):
        w = w - 0.5 * slope(w, x[:8], y[:8])
        loss = loss_of(w, x[8:], y[8:])
        if loss < lowest:
            lowest, steps = loss, [*steps, step]
    return steps, lowest


found = outcome_of(best, "best")
assert found[1]["saved"] == [], f"rank 1 has written as well, after steps {found[1]['saved']}"
want, lowest = lowest_after(*problem(4, 12))
assert found[0]["saved"] == want, (
    f"rank 0 has written after steps {found[0]['saved']}, not {want}: does it know the loss over all points "
    "held out, or over its own?"
)
reported(found, "lowest", lowest, "best")
### BEGIN HIDDEN TESTS
found = outcome_of(best, "best", 17, [np.arange(16)[rank::4] for rank in range(4)], n=16, p=4)
want, lowest = lowest_after(*problem(17, 16))
assert [what["saved"] for what in found] == [want, [], [], []], "on four ranks others are the steps"
reported(found, "lowest", lowest, "best, on four ranks")
### END HIDDEN TESTS

# %% [markdown]
# ### In your own words (2 points, read by a person)
#
# A job trains on four ranks, with 12,800 images and batches of 128 a rank. After each step all four have the
# same weights; the loss falls smoothly, and in the end the network is as good as that of one device. Its
# owner concludes that four ranks train as one process with batches of 512 would. **Name a mistake with which
# all of this is seen. Why do the weights not show it, and what does? Explain in about three sentences**, with
# a number that the job must have if it is right.

# %% [markdown] explain="equal-weights" points=2
# ### BEGIN SOLUTION
# **Rubric.** One point for the mistake and why the weights hide it, one for what shows it, with a number;
# half a point where one of the two parts is missing. Any mistake that fits counts; language and length cost
# nothing.
#
# - *Mistake*: every rank takes all the images, so that the mean of four equal gradients is one of them, and
#   four ranks repeat what one device does. Or each cuts a shuffle of its own; the gradients are added up; the
#   learning rate is scaled twice. Equal weights say that the ranks began equal and took equal steps. They do
#   not say whose images the steps came from, nor how long the right step is.
# - *What shows it*: 25 steps an epoch, 12,800 / (4 · 128), where undivided data have 100; 512 different
#   images a step; 4η in the recorded learning rates. Or the losses of the first steps, which must be those of
#   one process with batches of 512.
#
# **Two points.** "If every rank sees all images, each has the same gradient, and their mean is that gradient:
# the weights are equal because all four do the same. It is then the training of one device, four times over.
# The log shows it: an epoch has 100 steps and should have 25."
#
# **One point.** "The gradients may be summed instead of averaged. All ranks add up the same numbers, so they
# stay equal although every step is four times too long." (What would show it is missing.)
#
# **No point.** "The ranks could start from different weights." (Then the weights would differ.)
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - What makes a training data-parallel are six lines or so: shards, a scaled and warmed-up learning rate, a
#   broadcast, an averaged gradient, a metric over all ranks, one writer.
# - p ranks with batches of n are one process with a batch of p·n, and one can *check* that, step by step,
#   down to the rounding of float32.
# - Ranks that start equal and take equal steps stay equal to the last bit. Comparing digests costs next to
#   nothing and catches most mistakes.
# - A mistake has a fingerprint: equal lines where the ranks should differ, different ones where they should
#   be equal, and the step at which they part. Equal weights alone prove nothing.
# - The second processor does not turn an hour into half an hour. It doubles the computing and adds an
#   exchange to every step; what it is worth depends on how the two compare.
#
# Open questions, to take along:
#
# 1. Your two ranks share a machine. On two machines, which of α and β gets worse, and by how much would a
#    step of LeNet-5 grow on a network of 1 Gbit/s?
# 2. Suppose a GPU computes a step of LeNet-5 ten times as fast as your core. Does that make data-parallel
#    training more worthwhile, or less?
# 3. With p = 64 the linear rule asks for 64η. When does it stop working, and what would you see first?
