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
# # Assignment 04: feed the device
#
# The device is busy only if the data of each training step arrive in time: files must be read, images decoded
# and augmented, and batches copied. An incorrect input pipeline raises no error, and it may even be fast.
# **Can you build a pipeline that keeps one device busy, uses every image once per epoch and augments it
# differently each time, and can you prove it by counting?**
#
# In this assignment you
#
# - augment a whole batch in one call, with random numbers as an argument,
# - order the stages of an input pipeline so that no image is lost, read twice, or augmented in the same way
#   in each epoch,
# - find the phases in a profile that overlap, and predict which change makes a run shorter,
# - decide what a cache should keep if not everything fits, and count the bytes of a training step,
# - compile a step once, for all batch sizes and learning rates.
#
# The background is lecture 04.
#
# What you submit:
#
# - *Blanks*: 8 cells marked `YOUR CODE HERE`, and one written answer.
# - *Points*: 26. The augmentation has 4, the pipeline 12, the profile 1, the predictions 3, cache and bytes
#   2, the compiled step 2 and the written answer 2.
# - *Graded automatically*: 24 points, in 22 checks. All have hidden tests, mostly with other inputs. No
#   check measures time: the checks count calls and images.
# - *Graded manually*: 2 points, for the written answer in section 8.
# - *Optional*: section 9 has two more tasks, which have no points.
# - *Time*: 6 to 8 hours. Section 1 takes 1 to 1.5 hours, section 2 about 2.5 to 3.5, section 4 an hour, and
#   sections 3, 5, 6, 7 and 8 about 20 to 30 minutes each. This is the authors' plan for someone who has read
#   lecture 04. Another reader estimated 9 to 11 hours for an earlier version with 12 blanks, of which four
#   were removed. No student's time was measured.
#
# A *check* is a cell of autograder tests. Fill in a blank, run the example below it, then its checks. A
# failed check states what it found.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | n | images in the data set | N | images in a batch |
# | H, W, C | height, width, channels | s | the largest shift of an image, in pixels |
#
# Your functions must not modify their arguments.

# %% given="setup"
import itertools
import math
import os
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start-up messages say nothing we need

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

from cluster.checks import expect, fresh_rng, has_failed, watched

tf.config.threading.set_inter_op_parallelism_threads(1)  # one operation at a time, as on one GPU stream
plt.style.use("cluster.course")

# %% [markdown]
# ## 1. Augment a batch
#
# Each image is *shifted* by up to s pixels, and pixels that become empty are filled with black. About half of
# the images are also *mirrored*. The function does not draw random numbers itself, so that its results can be
# tested and repeated. It gets three numbers per image, $u_0, u_1, u_2$, uniformly distributed in [0, 1):
#
# - The image moves *down* by $\lfloor u_0 (2s + 1) \rfloor - s$ pixels and *right* by
#   $\lfloor u_1 (2s + 1) \rfloor - s$ pixels. Each of the 2s + 1 shifts along an axis is equally likely.
# - If $u_2 < 1/2$, the shifted image is then mirrored: left and right are swapped.
#
# The input pixels are bytes, and the output pixels are float32 numbers: 255 becomes 1. In the pipeline, the
# function comes *after* `batch`. It is called once per batch of N images, in a graph in which N is still
# unknown, so do not use a Python loop over the images. The other sizes must stay known in the graph, since
# the layers of a network need them. If an operation loses them, `tf.ensure_shape` declares them again.
#
# **Predict.** With s = 4, how many different images can be made from one?


# %% solution="augment"
def augment(images, numbers, s):
    """Shift each image by up to s pixels and mirror some of them, according to each image's numbers.

    images     (N, H, W, C) uint8, 0 to 255; in a graph, N is unknown (tf.shape(images)[0] is a tensor)
    numbers    (N, 3) float32 in [0, 1): u0, u1, u2 of each image
    s          the largest shift in pixels, an int, at least 0 and less than H and W

    Returns (N, H, W, C) float32 from 0 to 1.
    """
    ### BEGIN SOLUTION
    H, W = images.shape[1:3]
    moves = tf.cast(tf.floor(numbers[:, :2] * (2 * s + 1)), tf.int32)  # (N, 2), 0 to 2s
    down = 2 * s - moves[:, :1] + tf.range(H)  # (N, H): rows of the image with a frame of s
    across = tf.range(W)
    across = tf.where(numbers[:, 2:] < 0.5, across[::-1], across)  # (N, W)
    right = 2 * s - moves[:, 1:] + across
    framed = tf.pad(images, [[0, 0], [s, s], [s, s], [0, 0]])
    moved = tf.gather(tf.gather(framed, down, axis=1, batch_dims=1), right, axis=2, batch_dims=1)
    pictures = tf.cast(moved, tf.float32) / 255
    ### END SOLUTION
    return pictures


# %% given="in-a-pipeline"
def augmented(images, numbers, s, batch=None):
    """Return the output of `augment` in a pipeline: [array (n, H, W, C), static shape, dtype]."""
    data = tf.data.Dataset.from_tensor_slices((images, numbers)).batch(batch or len(images))
    data = data.map(lambda images, numbers: augment(images, numbers, s))
    shape, dtype = data.element_spec.shape, data.element_spec.dtype.name
    shape = list(shape) if shape.rank else []
    return [np.concatenate([pictures.numpy() for pictures in data]), shape, dtype]


# %%
corner = np.zeros((3, 28, 28, 1), np.uint8)
corner[:, 4:14, 4:20] = 255
corner[:, 8:14, 4:10] = 120
pictures, shape, dtype = augmented(
    corner, np.array([[0.5, 0.5, 0.9], [0.9, 0.5, 0.9], [0.5, 0.9, 0.1]], np.float32), s=4
)
print("static shape", shape, dtype, "; from", pictures.min(), "to", pictures.max())
fig, axes = plt.subplots(1, 3, figsize=(6, 2))
for ax, picture, words in zip(axes, pictures, ["as it is", "down", "right, mirrored"], strict=True):
    ax.imshow(picture[..., 0], cmap="gray", vmin=0, vmax=1)
    ax.set(title=words, xticks=[], yticks=[])
plt.show()

# %% [markdown]
# *The figure:* three images of a bright block with a grey corner at its lower left. The first is unchanged,
# the second is shifted down, the third is shifted right and then mirrored. Look at the position of the grey
# corner.

# %% check="augment-by-hand" points=1 see="4.1"
"""A 2 × 3 image unchanged, shifted down, shifted up, and shifted right and mirrored (1 point)."""
image = np.array([[51, 102, 153], [0, 204, 255]], np.uint8).reshape(1, 2, 3, 1)
numbers = np.array([[0.5, 0.5, 0.9], [0.99, 0.4, 0.7], [0.1, 0.6, 0.5], [0.5, 0.9, 0.2]], np.float32)
found, _, _ = augmented(np.repeat(image, 4, axis=0), numbers, 1)
assert found.shape == (4, 2, 3, 1), (
    f"the output for four 2 × 3 images has shape {found.shape}; it should have shape (4, 2, 3, 1)"
)
want = np.array(
    [
        [[0.2, 0.4, 0.6], [0.0, 0.8, 1.0]],
        [[0.0, 0.0, 0.0], [0.2, 0.4, 0.6]],
        [[0.0, 0.8, 1.0], [0.0, 0.0, 0.0]],
        [[0.4, 0.2, 0.0], [0.8, 0.0, 0.0]],
    ],
    np.float32,
)


def looks_like(rows, picture):
    """Return whether an image has these values, except for rounding and a common factor."""
    largest = max(float(np.abs(picture).max()), 1e-30)
    return np.allclose(picture[..., 0] / largest, np.array(rows) / np.max(rows), atol=0.01)


for i, what in enumerate(["not moved", "moved down", "moved up", "moved to the right, then mirrored"]):
    hints = {
        "it was moved in the opposite direction.": [[[0, 0.8, 1], [0, 0, 0]], [[0.2, 0.4, 0.6], [0, 0, 0]]],
        "pixels that leave at one edge return at the opposite edge; black should come in there.": [
            [[0, 0.8, 1], [0.2, 0.4, 0.6]],
            [[0.4, 0.2, 0.6], [0.8, 0, 1]],
        ],
        "empty pixels repeat the edge; black should come in there.": [
            [[0.2, 0.4, 0.6], [0.2, 0.4, 0.6]],
            [[0, 0.8, 1], [0, 0.8, 1]],
            [[0.4, 0.2, 0.2], [0.8, 0, 0]],
        ],
        "top and bottom were swapped instead of left and right.": [[[0, 0, 0.8], [0, 0.2, 0.4]]],
        "it was mirrored before it was moved, so that it moved in the opposite direction.": [
            [[0, 0.6, 0.4], [0, 1, 0.8]]
        ],
        "u0 and u1 were exchanged.": [[[0, 0.2, 0.4], [0, 0, 0.8]]] * (i == 1),
        "it was not mirrored, and u2 < 1/2.": [[[0, 0.2, 0.4], [0, 0, 0.8]]] * (i == 3),
        "it was mirrored, and u2 >= 1/2.": [
            [[0.6, 0.4, 0.2], [1, 0.8, 0]],
            [[0, 0, 0], [0.6, 0.4, 0.2]],
            [[1, 0.8, 0], [0, 0, 0]],
        ]
        * (i < 3),
        "it was not moved.": [[[0.2, 0.4, 0.6], [0, 0.8, 1]], [[0.6, 0.4, 0.2], [1, 0.8, 0]]],
    }
    if not looks_like(want[i], found[i]):
        likely = [words for words, all_ in hints.items() if any(looks_like(w, found[i]) for w in all_)][:1]
        raise AssertionError(
            f"the image with u = {numbers[i].astype(float).round(3).tolist()}, which should be {what}, has "
            f"the wrong values {found[i][..., 0].astype(float).round(3).tolist()}."
            + "".join(f" Likely: {words}" for words in likely)
        )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(1)
# Not detected: a function for one channel only; the checks below have two and three.
pixels, u = 10 + fresh.permutation(240)[:4], fresh.uniform(0, 0.3, 4)
image = pixels.astype(np.uint8).reshape(1, 2, 2, 1)
numbers = np.array([[u[0], u[1], 0.5], [0.7 + u[2], 0.7 + u[3], 0.49]], np.float32)
found, _, _ = augmented(np.repeat(image, 2, axis=0), numbers, 1)
for picture, rows in zip(found, [[[pixels[3], 0], [0, 0]], [[0, 0], [pixels[0], 0]]], strict=True):
    assert picture.shape == (2, 2, 1) and looks_like(rows, picture), (
        f"another image: wrong values {picture.tolist()}"
    )
### END HIDDEN TESTS


# %% given="by-definition"
def looks_alike(picture, other):
    """Return whether two images are equal except for a common factor."""
    a, b = (np.asarray(p, float) / max(float(np.abs(p).max()), 1e-30) for p in (picture, other))
    return a.shape == b.shape and np.allclose(a, b, atol=0.01)


def bright(*shape, seed):
    """Return random images without black pixels, each with one pixel of 255."""
    random = np.random.default_rng([seed, *shape])
    images = random.integers(20, 255, shape).astype(np.uint8)
    images[:, shape[1] // 2, shape[2] // 2, 0] = 255
    return images


# %% check="augment-each-move" points=1 see="4.2"
"""Along both axes, each of the 2s + 1 shifts occurs equally often (1 point)."""
dot = np.zeros((1, 9, 11, 1), np.uint8)
dot[0, 4, 5] = 255
steps = (np.arange(70) + 0.5) / 70
for axis, name in enumerate(["down", "to the right"]):
    numbers = np.full((70, 3), 0.5, np.float32)
    numbers[:, axis] = steps
    found, _, _ = augmented(np.repeat(dot, 70, axis=0), numbers, 3)
    assert (found.reshape(70, -1).max(axis=1) > 0).all(), (
        f"a dot in the middle, shifted {name} by at most 3 pixels, is no longer in the image"
    )
    rows, columns = np.unravel_index(found.reshape(70, -1).argmax(axis=1), (9, 11))
    moves = np.abs(rows - 4) + np.abs(columns - 5)
    counts = [int(np.sum(moves == m)) for m in range(5)]
    assert counts == [10, 20, 20, 20, 0], (
        f"with 70 evenly spaced numbers from 0 to 1, a dot is shifted {name} by 0, 1, 2, 3 and 4 pixels "
        f"{counts} times; with s = 3 each of the seven shifts from -3 to 3 should occur ten times"
    )
### BEGIN HIDDEN TESTS
# Not drawn: all shifts, and both ends of the interval of the numbers.
for s, axis in [(4, 0), (2, 1)]:
    steps = (np.arange(5 * (2 * s + 1)) + 0.5) / (5 * (2 * s + 1))
    numbers = np.full((len(steps), 3), 0.5, np.float32)
    numbers[:, axis] = steps
    found, _, _ = augmented(np.repeat(dot, len(steps), axis=0), numbers, s)
    place = np.unravel_index(found.reshape(len(steps), -1).argmax(axis=1), (9, 11))[axis] - (4, 5)[axis]
    assert sorted(np.abs(place)) == sorted(np.abs(np.repeat(np.arange(-s, s + 1), 5))), (
        f"with s = {s}, the shifts {sorted(place)} along axis {axis} are wrong"
    )
numbers = np.array([[0, 0, 0.9], [1 - 2**-24, 1 - 2**-24, 0.9], [0.5, 0.5, 0.5]], np.float32)
found, _, _ = augmented(np.repeat(dot, 3, axis=0), numbers, 2)
places = [np.argwhere(picture[..., 0] > 0).tolist() for picture in found]
assert [len(p) for p in places] == [1, 1, 1], (
    f"with numbers 0 and 1 - 2**-24 and s = 2, the dot is at {places}"
)
assert sorted(abs(r - 4) + abs(c - 5) for [[r, c]] in places) == [0, 4, 4], (
    f"with numbers 0 and 1 - 2**-24 and s = 2, the dot is at {places}"
)
### END HIDDEN TESTS

# %% check="augment-each-its-own" points=1 see="4.2"
"""Each image in a batch has its own shift and mirror image; with s = 0 only the mirror image (1 point)."""
images = bright(6, 5, 7, 3, seed=1)
numbers = np.random.default_rng(2).uniform(0, 1, (6, 3)).astype(np.float32)
together, alone = (augmented(images, numbers, 2, batch)[0] for batch in (6, 1))
for i in range(6):
    assert looks_alike(alone[i], together[i]), (
        f"with the same numbers, image {i} has different values in a batch of 6 than in a batch of its own"
    )
numbers = np.array([[0.3, 0.8, u] for u in (0.1, 0.9, 0.2, 0.8, 0.3, 0.7)], np.float32)
found, _, _ = augmented(images, numbers, 0)
for i, (image, picture) in enumerate(zip(images, found, strict=True)):
    assert not looks_alike(picture, image[::-1]), "top and bottom were swapped; only left and right may be"
    assert looks_alike(picture, image[:, ::-1] if i % 2 == 0 else image), (
        f"with s = 0 and u2 = {numbers[i, 2]:.1f}, an image should be "
        f"{'mirrored' if i % 2 == 0 else 'unchanged'}, but its values differ"
    )
### BEGIN HIDDEN TESTS
fresh = fresh_rng(2)
for shape, s in [((5, 6, 4, 1), 3), ((4, 3, 8, 2), 2)]:
    images, random = bright(*shape, seed=int(fresh.integers(10, 10**6))), fresh
    numbers = random.uniform(0, 1, (shape[0], 3)).astype(np.float32)
    together, alone = (augmented(images, numbers, s, batch)[0] for batch in (shape[0], 1))
    assert all(map(looks_alike, together, alone)), f"shape {shape}: values differ from a single image's"
    assert len(together) == shape[0] and together.max() > 0, f"the output has shape {together.shape}"
### END HIDDEN TESTS

# %% check="augment-numbers" points=1 see="4.2"
"""The output is float32, 255 becomes 1, and the static shape has height, width and channels (1 point)."""
images = np.arange(2 * 4 * 6 * 3).astype(np.uint8).reshape(2, 4, 6, 3)
images[0, 2, 3] = [255, 128, 1]
found, shape, dtype = augmented(images, np.full((2, 3), 0.6, np.float32), 0, batch=1)
assert dtype == found.dtype.name == "float32", f"the output has dtype {dtype}; it should have dtype float32"
assert shape[1:] == [4, 6, 3], (
    f"in the graph, the output has shape {shape}; its last three sizes should be [4, 6, 3], for the network"
)
largest = float(found.max())
likely = {1 / 255: "the image was divided by 255 twice.", 255: "the image was not divided by 255."}
likely = [words for value, words in likely.items() if math.isclose(largest, value, rel_tol=1e-4)]
assert math.isclose(largest, 1, rel_tol=1e-6), (
    f"a pixel of 255 became {largest:.6g}; it should be 1." + "".join(f" Likely: {words}" for words in likely)
)
middle = sorted(found[0, 2, 2:4].ravel().tolist())
assert any(math.isclose(v, 128 / 255, rel_tol=1e-5) for v in middle), (
    f"a pixel of 128 should become {128 / 255:.6f}; the values there are {middle}"
)
assert math.isclose(found[1].max(), 143 / 255, rel_tol=1e-5), (
    f"in an image without a pixel of 255, the largest, 143, became {found[1].max():.6f}; it should be "
    f"{143 / 255:.6f}: the divisor is 255 for every image"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(3)
every = fresh.permutation(256).astype(np.uint8).reshape(1, 16, 16, 1)
found, _, _ = augmented(every, np.full((1, 3), 0.6, np.float32), 0)
assert np.allclose(np.sort(found.ravel()), np.arange(256) / 255, rtol=1e-6, atol=1e-9), (
    "the values 0 to 255 should become k / 255 in float32"
)
found, _, _ = augmented(every, np.array([[0.1, 0.9, 0.1]], np.float32), 5)
assert found.min() >= 0 and found.max() <= 1 and found.shape == (1, 16, 16, 1), (
    f"after a shift by 5: shape {found.shape}, values {found.min()} to {found.max()}"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The pipeline
#
# A `tf.data` pipeline for training is built **once** and iterated once per epoch. `read` fetches and decodes
# an image; it is slow, like a disk or a network file system. `augment` takes a batch and its numbers. The
# pipeline must meet these requirements:
#
# - *Correct*: each image occurs once per epoch, with its own label. In each epoch the whole data set is
#   shuffled again. The last, smaller batch is kept, unless `drop_last` is true.
# - *No repeated work*: each file is read once, in the first epoch. At least `reads` files are read at a time,
#   and at most twice as many. `augment` is called once per batch.
# - *New augmentation*: each image gets new random numbers in each epoch.
# - *No waiting*: while the network works on a batch, the next one is prepared. At most 24 batches may be
#   ready at a time, since each of them takes memory.
# - *Repeatable*: with the same seed, a new pipeline has the same orders and numbers, whatever the images are.
#   With another seed, the orders and the triples of numbers differ.
#
# Three hints:
#
# - A call that waits occupies a **thread**. By default, a data set has only as many threads as the machine
#   has cores (`tf.data.Options().threading.private_threadpool_size`).
# - As lecture 04 showed, a plain `tf.random.uniform` in a map repeats its numbers in each epoch if a global
#   seed is set. A `tf.random.Generator` keeps its state from one epoch to the next. (`from_seed(seed)` starts
#   at position `seed` of one long sequence, so close seeds share single numbers. That is accepted here.)
# - If two parallel calls draw from the same generator, their order is not defined.
#
# **Predict.** With 10 files and batches of 4, how many calls of `read` and of `augment` do three epochs make?


# %% solution="pipeline"
def pipeline(files, labels, read, augment, batch, seed, drop_last=False, reads=4):
    """Return a tf.data.Dataset of batches (augmented images, labels); one iteration is one epoch.

    files      (n,) int64: the number that identifies each file; it may exceed 32 bits
    labels     (n,) int64: the label of each file; it may exceed 32 bits
    read       read(file) -> image (H, W, C) uint8; slow; returns the same image each time
    augment    augment(images (N, H, W, C) uint8, numbers (N, 3) float32 in [0, 1)) -> (N, H, W, C) float32
    batch      images per batch
    seed       an int, at least 0 and less than 2**31, which determines all orders and random numbers
    drop_last  whether to leave out a last batch that is smaller
    reads      number of files that are read at the same time
    """
    ### BEGIN SOLUTION
    data = tf.data.Dataset.from_tensor_slices((files, labels))
    data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads)
    data = data.cache().shuffle(len(files), seed=seed).batch(batch, drop_remainder=drop_last)
    generator = tf.random.Generator.from_seed(seed)

    def changed(images, labels):
        return augment(images, generator.uniform((tf.shape(images)[0], 3))), labels

    options = tf.data.Options()
    options.threading.private_threadpool_size = reads
    data = data.map(changed).prefetch(1).with_options(options)
    ### END SOLUTION
    return data


# %% [markdown]
# How do the checks count? A *desk* replaces the disk and the augmentation. It returns an image for each file
# that your pipeline reads, and a new random image for each image to be augmented, and it records every call.
# Only the desk knows which image belongs to which file, and which augmented image was made from it.
# (TensorFlow's own optimisations, which fuse maps and append a prefetch, are switched off, so that the counts
# describe the pipeline exactly as you wrote it.)


# %% given="desk"
SIZE, MADE = (4, 5, 1), (2, 3, 1)  # of an image from the disk, and of an augmented image of the desk
PATIENCE = 10  # seconds that the desk waits for a call that does not come
MOST_READY = 24  # batches that may be ready while the network works on another one


class Desk:
    """Replace the disk and the augmentation of a pipeline over n files, and record all calls.

    hold   "reads": reads wait until `reads` of them are in progress and no other starts; "step": the first
           step waits until the next batch is in progress and no other starts; "": nothing waits
    """

    def __init__(self, n, seed, hold="", reads=0):
        random = np.random.default_rng([seed, n, 4])
        self.images = random.integers(0, 256, (n, *SIZE)).astype(np.uint8)
        self.files = random.permutation(100_000)[:n] + 3 * 10**10
        self.labels = random.integers(0, 10**12, n)
        self.random, self.hold, self.reads = random, hold, min(reads, n)
        self.of_file = {int(file) % 2**32: i for i, file in enumerate(self.files)}
        self.of_image = {image.tobytes(): i for i, image in enumerate(self.images)}
        self.of_picture, self.epochs, self.since, self.latest = {}, [], None, 0.0
        self.under_way = self.most = self.ahead = 0
        self.early = False

    def __call__(self, what, *values):
        return getattr(self, "on_" + what)(*values)

    def on_epoch(self):
        """Start an epoch, to which later calls belong."""
        if self.early:  # calls before the first epoch belong to it
            self.early, self.since = False, None
        else:
            self.epochs.append({"reads": [], "calls": [], "dtypes": set(), "shapes": []})

    def on_begin(self):
        """Record the start of a read."""
        self.latest = time.monotonic()
        self.since = self.since or self.latest
        self.under_way += 1
        self.most = max(self.most, self.under_way)

    def on_go(self):
        """Return whether a read that has started may continue."""
        now = time.monotonic()
        return (self.most >= self.reads and now - self.latest > 0.1) or now - self.since > PATIENCE

    def on_read(self, file):
        """Return the image of a file."""
        self.under_way -= 1
        self.now()["reads"].append(int(file))
        place = self.of_file.get(int(file) % 2**32)  # read_once finds wrong numbers
        return np.zeros(SIZE, np.uint8) if place is None else self.images[place]

    def on_augment(self, images, numbers):
        """Return an augmented image for each image."""
        images, numbers, now = np.asarray(images), np.asarray(numbers), self.now()
        now["dtypes"] |= {f"images of {images.dtype.name}", f"numbers of {numbers.dtype.name}"}
        now["shapes"].append((images.shape, numbers.shape))
        self.latest = time.monotonic()
        places = [self.of_image.get(image.astype(np.uint8).tobytes(), -1) for image in images]
        pictures = self.random.uniform(0, 1, (len(images), *MADE)).astype(np.float32)
        rows = [np.ravel(numbers[i]) if i < len(numbers) else np.zeros(0) for i in range(len(images))]
        now["calls"].append((places, rows))
        for picture, place, row in zip(pictures, places, rows, strict=True):
            self.of_picture[picture.tobytes()] = (place, row)
        return pictures

    def on_next(self, size):
        """Return whether the first step may end, because no more batches are being prepared."""
        now, begun = time.monotonic(), self.begun(size)
        self.since = self.since or now
        if begun < 2:
            return now - self.since > PATIENCE
        return begun > MOST_READY + 1 or now - self.latest > 0.5

    def on_held(self, size):
        """Record the end of the first step."""
        self.ahead = self.begun(size) - 1

    def begun(self, size):
        """Return the number of batches of this size whose preparation has started in this epoch."""
        return math.ceil(sum(len(places) for places, _ in self.now()["calls"]) / max(1, size))

    def now(self):
        """Return the records of this epoch; before the first epoch, those of the first."""
        if not self.epochs:
            self.on_epoch()
            self.early = True
        return self.epochs[-1]

    def take(self, seen):
        """Record the output of the pipeline: for each epoch, a list of batches (images, labels)."""
        assert len(seen) == len(self.epochs), "the pipeline was not iterated"
        for epoch, batches in zip(self.epochs, seen, strict=True):
            pictures = [np.asarray(p, np.float32) for pictures, _ in batches for p in pictures]
            known = [self.of_picture.get(p.tobytes(), (-1, np.zeros(0))) for p in pictures]
            epoch["sizes"] = [len(pictures) for pictures, _ in batches]
            epoch["order"] = np.array([place for place, _ in known], int)
            epoch["numbers"] = [row for _, row in known]
            epoch["labels"] = np.concatenate([np.zeros(0, int), *(np.ravel(labels) for _, labels in batches)])
        return self


# %% given="feed"
def feed(files, labels, batch, seed, drop_last, reads, epochs, hold, desk):
    """Iterate your pipeline with the desk as its disk and augmentation: [[(images, labels), …], …]."""
    lock, open_ = threading.Lock(), [True]

    def ask(*question):
        with lock:  # one question at a time
            if not open_[0]:
                raise RuntimeError("the desk is closed")
            return desk(*question)

    def wait_for(*question):
        while not ask(*question):
            time.sleep(0.02)

    def from_disk(file):
        if hold == "reads":
            ask("begin")
            wait_for("go")
        time.sleep(0.002 * (int(file) % 3))  # some files take longer; the order must not depend on that
        return np.asarray(ask("read", int(file)), np.uint8)

    def made(images, numbers):
        return np.asarray(ask("augment", images, numbers), np.float32)

    def read(file):
        return tf.ensure_shape(tf.numpy_function(from_disk, [file], tf.uint8), SIZE)

    def augment(images, numbers):
        return tf.ensure_shape(tf.numpy_function(made, [images, numbers], tf.float32), (None, *MADE))

    as_written = tf.data.Options()
    as_written.autotune.enabled = as_written.experimental_optimization.inject_prefetch = False
    as_written.experimental_optimization.apply_default_optimizations = False
    seen, most = [], 3 * len(files) + 3  # batches of an epoch: enough for any that ends
    try:
        data = pipeline(files, labels, read, augment, batch, seed, drop_last, reads).with_options(as_written)
        for epoch in range(epochs):
            ask("epoch")
            seen.append([])
            for pictures, labels_of in data.take(most):
                seen[-1].append((pictures.numpy(), labels_of.numpy()))
                if hold == "step" and epoch == 0 and len(seen[-1]) == 1:
                    wait_for("next", len(pictures))
                    ask("held", len(pictures))
    finally:
        with lock:
            open_[0] = False
    return seen


# %% given="feed-many"
def feed_many(files, labels, batch, seed):
    """Return the labels of two epochs of your pipeline over many files, in order, without a desk."""

    def read(file):
        return tf.fill(SIZE, tf.cast(file % 251, tf.uint8))

    def augment(images, numbers):
        return tf.cast(images, tf.float32) / 255

    data, epochs = pipeline(files, labels, read, augment, batch, seed, False, 4), []
    for _ in range(2):
        batches = [labels_of.numpy() for _, labels_of in data.take(len(files) // batch + 1)]
        epochs.append(np.concatenate([np.zeros(0, int), *batches]))
    return epochs


# %% given="fed"
NOTES = {}  # of the pipelines that were iterated already, by their arguments


def fed(by, n=10, batch=4, epochs=2, seed=1, drop_last=False, reads=2, hold="", of=0):
    """Return the Desk of an iterated pipeline; by: the function `feed`, of: the seed of the images.

    For the same arguments, a pipeline is iterated only once.
    """
    case = (n, batch, epochs, seed, drop_last, reads, hold, of)
    mine = getattr(by, "__globals__", {}).get("pipeline")
    if NOTES.get(case, (None, None))[0] is not mine or case not in NOTES:
        desk = Desk(n, of, hold, reads)
        seen = by(desk.files, desk.labels, batch, seed, drop_last, reads, epochs, hold, desk)
        NOTES[case] = mine, desk.take(seen)
    return NOTES[case][1]


def in_words(places):
    """Return the first 12 of these numbers as a string."""
    return ", ".join(str(int(p)) for p in places[:12]) + (" …" if len(places) > 12 else "")


# %%
notes = fed(feed, n=10, batch=4, epochs=3, seed=7)
for number, epoch in enumerate(notes.epochs, 1):
    print(f"epoch {number}: {len(epoch['reads'])} reads, {len(epoch['calls'])} calls of augment, ", end="")
    print(f"batches of {epoch['sizes']}; images {in_words(epoch['order'])}")

# %% check="labels-stay" points=1 see="4.2"
"""In each epoch, each augmented image has the label of its original image (1 point)."""


def labels_stay(notes):
    """Assert that each augmented image has the label of its original."""
    for number, epoch in enumerate(notes.epochs, 1):
        order, labels = epoch["order"], epoch["labels"]
        assert len(order) == len(labels) > 0, (
            f"epoch {number} has {len(order)} images and {len(labels)} labels"
        )
        assert (order >= 0).all(), (
            f"in epoch {number}, {np.sum(order < 0)} of {len(order)} images were not made by `augment` from "
            "images that `read` returned"
        )
        wrong = np.sum(notes.labels[order] != labels)
        assert not wrong, f"in epoch {number}, {wrong} of {len(order)} images have a wrong label"


labels_stay(fed(feed, n=10, batch=4, epochs=3))
### BEGIN HIDDEN TESTS
# Not detected: labels of another dtype with the same values.
seed, of = fresh_rng(4).integers(100, 10**6, 2).tolist()  # the same in each check that uses these arguments
labels_stay(fed(feed, n=17, batch=5, epochs=3, seed=seed, of=of))
### END HIDDEN TESTS

# %% check="each-image-once" points=1 see="4.2"
"""Each image occurs exactly once per epoch (1 point)."""


def each_once(notes, n):
    """Assert that each epoch has each of n images once."""
    for number, epoch in enumerate(notes.epochs, 1):
        counts = np.bincount(epoch["order"][epoch["order"] >= 0], minlength=n)
        assert len(epoch["order"]) == n and (counts == 1).all(), (
            f"epoch {number} has {len(epoch['order'])} images of a data set of {n}; {np.sum(counts == 0)} of "
            f"them are missing, and {np.sum(counts > 1)} occur more than once"
        )


each_once(fed(feed, n=10, batch=4, epochs=3), 10)
### BEGIN HIDDEN TESTS
seed, of = fresh_rng(4).integers(100, 10**6, 2).tolist()  # the same in each check that uses these arguments
for n, batch in [(17, 5), (5, 9)]:
    each_once(fed(feed, n=n, batch=batch, epochs=3, seed=seed, of=of), n)
### END HIDDEN TESTS

# %% check="last-batch" points=1 see="4.4"
"""Ten images in batches of four: the batches have 4, 4 and 2 images; with drop_last, 4 and 4 (1 point)."""


def sizes_are(want, **case):
    """Assert that the batches of each epoch have these sizes."""
    for number, epoch in enumerate(fed(feed, **case).epochs, 1):
        assert epoch["sizes"] == want, (
            f"epoch {number} of {case['n']} images, with batch={case['batch']} and "
            f"drop_last={case['drop_last']}, has batch sizes {epoch['sizes']}; they should be {want}"
        )


sizes_are([4, 4, 2], n=10, batch=4, epochs=3, drop_last=False)
sizes_are([4, 4], n=10, batch=4, epochs=3, drop_last=True)
### BEGIN HIDDEN TESTS
seed, of = fresh_rng(4).integers(100, 10**6, 2).tolist()  # the same in each check that uses these arguments
sizes_are([5, 5, 5, 2], n=17, batch=5, epochs=3, seed=seed, drop_last=False, of=of)
sizes_are([6, 6], n=12, batch=6, drop_last=True, of=of)
sizes_are([5], n=5, batch=9, epochs=3, seed=seed, drop_last=False, of=of)
left_out = set()
for epoch in fed(feed, n=29, batch=10, epochs=12, drop_last=True, of=of).epochs:
    left_out |= set(range(29)) - set(epoch["order"].tolist())
assert len(left_out) > 9, f"with drop_last, only the images {left_out} were ever left out in 12 epochs"
### END HIDDEN TESTS

# %% check="read-once" points=1 see="4.2"
"""Each file is read once in the first epoch, and never again (1 point)."""


def read_once(notes, n):
    """Assert that the first epoch reads each file once, and later epochs read none."""
    first, *others = [epoch["reads"] for epoch in notes.epochs]
    assert sorted(first) == sorted(notes.files.tolist()), (
        f"the first epoch called `read` {len(first)} times, for {len(set(first))} different files of {n}; "
        f"{len(set(first) - set(notes.files.tolist()))} of these numbers are not in `files`"
    )
    for number, again in enumerate(others, 2):
        assert not again, (
            f"epoch {number} called `read` {len(again)} times; images that do not change can be cached"
        )


read_once(fed(feed, n=10, batch=4, epochs=3), 10)
### BEGIN HIDDEN TESTS
# Not detected: files that are read when the pipeline is built; they count for the first epoch.
seed, of = fresh_rng(4).integers(100, 10**6, 2).tolist()  # the same in each check that uses these arguments
read_once(fed(feed, n=17, batch=5, epochs=3, seed=seed, of=of), 17)
### END HIDDEN TESTS

# %% check="augment-once-a-batch" points=1 see="4.2"
"""`augment` is called once per batch, with bytes and three numbers per image (1 point)."""


def once_a_batch(notes):
    """Assert that each epoch calls `augment` once per batch, with the images of the batch."""
    for number, epoch in enumerate(notes.epochs, 1):
        calls, batches = epoch["shapes"], epoch["sizes"]
        assert calls, f"epoch {number} did not call `augment`: its images are those of an earlier epoch"
        assert len(calls) == len(batches), (
            f"epoch {number} called `augment` {len(calls)} times for {len(batches)} batches; each call costs "
            "time, however few images it has"
        )
        for (images, numbers), size in zip(sorted(calls), sorted(batches), strict=True):
            assert images == (size, *SIZE), (
                f"`augment` got images of shape {images}, for a batch of {size}; it should be {(size, *SIZE)}"
            )
            assert numbers == (size, 3), (
                f"`augment` got numbers of shape {numbers} for {size} images; it should be {(size, 3)}"
            )
        assert epoch["dtypes"] == {"images of uint8", "numbers of float32"}, (
            f"`augment` got {' and '.join(sorted(epoch['dtypes']))}; images should be uint8 until they are "
            "augmented (a cache of float32 takes four times the memory), and numbers should be float32"
        )


once_a_batch(fed(feed, n=10, batch=4, epochs=3))
### BEGIN HIDDEN TESTS
seed, of = fresh_rng(4).integers(100, 10**6, 2).tolist()  # the same in each check that uses these arguments
once_a_batch(fed(feed, n=17, batch=5, epochs=3, seed=seed, of=of))
### END HIDDEN TESTS

# %% check="new-order" points=2 see="4.2"
"""In each epoch the whole data set has a new order, and the batches are new (2 points)."""


def together(epoch):
    """Return the pairs of images that share a batch in an epoch."""
    cuts = np.cumsum([0, *epoch["sizes"]])
    batches = [epoch["order"][a:b].tolist() for a, b in itertools.pairwise(cuts)]
    return {frozenset((i, j)) for batch in batches for i in batch for j in batch if i < j}


def new_order(notes, n, batch):
    """Assert that the epochs have different orders of the images, over the whole data set."""
    orders = [epoch["order"] for epoch in notes.epochs]
    for number, (before, now) in enumerate(itertools.pairwise(orders), 2):
        assert not np.array_equal(before, now), (
            f"epoch {number} has the same order as the previous epoch: {in_words(now)}"
        )
    pairs = set().union(*map(together, notes.epochs))
    possible = n * (n - 1) // 2
    assert len(pairs) > 0.4 * possible, (
        f"in {len(orders)} epochs, only {len(pairs)} of {possible} pairs of images are ever in one batch; "
        "shuffle the images, not the batches"
    )
    from_the_end(orders, n, 0.7)
    unlike(orders, n, 0.15)


def unlike(orders, n, most):
    """Assert that the positions of an image in two epochs are not correlated."""
    places = np.full((len(orders), n), -1.0)
    for row, order in zip(places, orders, strict=True):
        row[order[order >= 0]] = np.flatnonzero(order >= 0)
    found = np.corrcoef(places)[np.triu_indices(len(orders), 1)].mean()
    assert found < most, (
        f"between epochs of {n:,} images, the positions of an image have a correlation of {found:.2f}; with "
        "a shuffle over the whole data set in each epoch, it is about 0"
    )


def from_the_end(orders, n, part):
    """Assert that some image moves forward by at least this fraction of the list of files."""
    early = max((int(np.max(order - np.arange(len(order)))) for order in orders if len(order)), default=0)
    assert early >= part * n, (
        f"no image of {n:,} comes more than {early:,} positions earlier than in the list of files, so the "
        "last files never come early; a shuffle mixes only the elements in its buffer"
    )


def new_order_of_many(n, batch, seed):
    """Assert that n images are shuffled over the whole data set."""
    labels = np.random.default_rng([n, 6]).permutation(10 * n)[:n]
    found = feed_many(np.arange(n), labels, batch, seed)
    places = dict(zip(labels.tolist(), range(n), strict=True))
    orders = [np.array([places.get(int(label), -1) for label in epoch], int) for epoch in found]
    for order in orders:
        from_the_end([order], n, 0.9)
    unlike(orders, n, 0.1)


new_order(fed(feed, n=40, batch=4, epochs=10), 40, 4)
new_order_of_many(12_000, 500, 1)
### BEGIN HIDDEN TESTS
# Not detected: one fixed order with a buffer of more than two thirds of the images, which mixes as well.
seed, of = fresh_rng(5).integers(100, 10**6, 2).tolist()
new_order(fed(feed, n=36, batch=6, epochs=12, seed=seed, of=of), 36, 6)
new_order_of_many(3_000, 100, seed)
### END HIDDEN TESTS

# %% check="new-numbers" points=2 see="4.2"
"""Each image gets new random numbers in each epoch, different from those of other images (2 points)."""


def all_numbers(notes):
    """Return the numbers with which the images of all epochs were augmented: (images, 3)."""
    rows = [row for epoch in notes.epochs for row in epoch["numbers"]]
    assert rows and {len(row) for row in rows} == {3}, (
        f"each image needs three numbers; the images have {set(map(len, rows))}"
    )
    return np.array(rows, float)


def new_numbers(notes):
    """Assert that all numbers of all epochs differ and are uniformly distributed."""
    numbers, epochs = all_numbers(notes), len(notes.epochs)
    distinct = len(np.unique(numbers, axis=0))
    assert distinct == len(numbers), (
        f"in {epochs} epochs, {len(numbers)} images were augmented with only {distinct} different triples of "
        "numbers"
    )
    single = len(np.unique(numbers))
    assert single > 0.95 * numbers.size, f"only {single} of {numbers.size} numbers are distinct"
    assert numbers.min() >= 0 and numbers.max() < 1, (
        f"the numbers are between {numbers.min():.3g} and {numbers.max():.3g}; they should be in [0, 1)"
    )
    relation = np.abs(np.corrcoef(numbers.T) - np.eye(3)).max()
    assert relation < 0.4, (
        f"u0, u1 and u2 have a correlation of up to {relation:.2f}; draw them independently"
    )
    mean, low, high = numbers.mean(), *np.quantile(numbers, [0.25, 0.75])
    assert abs(mean - 0.5) < 0.1 and abs(low - 0.25) < 0.13 and abs(high - 0.75) < 0.13, (
        f"the numbers have mean {mean:.2f} and quartiles {low:.2f} and {high:.2f}; uniform numbers have 0.5, "
        "0.25 and 0.75"
    )


new_numbers(fed(feed, n=40, batch=4, epochs=10))
### BEGIN HIDDEN TESTS
# Not detected: numbers that are correlated from one batch to the next.
seed, of = fresh_rng(5).integers(100, 10**6, 2).tolist()
new_numbers(fed(feed, n=36, batch=6, epochs=12, seed=seed, of=of))
new_numbers(fed(feed, n=40, batch=40, epochs=4, seed=0, of=of))
### END HIDDEN TESTS

# %% check="seed-decides" points=1 see="4.2"
"""The same seed gives the same orders and numbers, and another seed gives others (1 point)."""


def story(seed, of=0, **case):
    """Return (orders, numbers) for the epochs of a new pipeline with this seed."""
    notes = fed(feed, seed=seed, of=of, **case)
    orders, numbers = [epoch["order"].tolist() for epoch in notes.epochs], all_numbers_of(notes)
    assert any(orders), f"with seed {seed}, the pipeline returns no images"
    assert any(numbers), f"with seed {seed}, `augment` gets no numbers"
    return orders, numbers


def all_numbers_of(notes):
    return [np.ravel(row).tolist() for epoch in notes.epochs for row in epoch["numbers"]]


def in_common(one, other):
    """Return the number of non-empty lists that occur in both arguments."""
    return len({tuple(each) for each in one if each} & {tuple(each) for each in other if each})


case = dict(n=24, batch=3, epochs=2)
(orders, numbers), (again, numbers_again), (others, other_numbers) = (
    story(seed, of, **case) for seed, of in [(3, 0), (3, 1), (4, 0)]
)
assert orders == again, "two pipelines with the same seed have different orders"
assert numbers == numbers_again, "two pipelines with the same seed have different numbers"
same = in_common(orders, others), in_common(numbers, other_numbers)
assert not same[0], (
    f"seed 4 has {same[0]} of the {len(orders)} orders of seed 3, in the same or another epoch"
)
assert not same[1], (
    f"seed 4 has {same[1]} of the {len(numbers)} triples of numbers of seed 3, in the same or another epoch"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(6)
# Not detected: a seed that is reduced, if the seven seeds below remain different.
case, of = dict(n=20, batch=3, epochs=3), int(fresh.integers(100, 10**6))
assert story(11, of=of, **case) == story(11, of=of + 1, **case), (
    "with the same seed and other images, orders or numbers differ; they should depend on the seed only"
)
# The seeds are not drawn, because they collide for the usual mistakes.
# 1_011, 267, 65_547 and 1_000_011 have the last digits of 11, or its lowest 8 or 16 bits. Seeds that differ
# by a small multiple of 3 share triples if a call of Generator.from_seed(seed) draws more than four.
seen = [story(seed, of=of, **case) for seed in (0, 1, 11, 1_011, 267, 65_547, 1_000_011)]
assert not any(in_common(a[j], b[j]) for i, a in enumerate(seen) for b in seen[:i] for j in (0, 1)), (
    "two seeds have an order or numbers in common"
)
### END HIDDEN TESTS

# %% check="reads-at-a-time" points=1 see="4.2"
"""At least `reads` files are read at the same time, and at most twice as many (1 point)."""


def at_a_time(reads, n, of=0):
    """Assert that between `reads` and 2 * `reads` files are read at the same time."""
    notes = fed(feed, n=n, batch=4, epochs=1, reads=reads, hold="reads", of=of)
    assert notes.most >= reads, (
        f"at most {notes.most} files were read at the same time, with reads={reads}. Each read that waits "
        "occupies a thread, and parallel calls need as many threads"
    )
    assert notes.most <= 2 * reads, (
        f"{notes.most} files were read at the same time, with reads={reads}; at most {2 * reads} are "
        "allowed, since others use the disk, too"
    )


at_a_time(3, 9)
### BEGIN HIDDEN TESTS
at_a_time(40, 44, of=int(fresh_rng(7).integers(100, 10**6)))
### END HIDDEN TESTS

# %% check="next-batch-is-made" points=1 see="4.2"
"""While the network works on a batch, the next one is prepared, but not the whole epoch (1 point)."""


def made_ahead(**case):
    """Assert that `augment` prepares the next batch while the first step waits."""
    notes = fed(feed, hold="step", epochs=1, **case)
    assert (notes.epochs[0]["order"] >= 0).all(), "the output has images that `augment` did not return"
    assert notes.ahead >= 1, (
        f"during the first step, `augment` was called for {notes.ahead} other batches, so the device waits "
        "for each batch"
    )
    assert notes.ahead <= MOST_READY, (
        f"during the first step, {notes.ahead} or more other batches were prepared; at most {MOST_READY} may "
        "be ready, in prefetches and parallel maps together, since each of them takes memory"
    )


made_ahead(n=44, batch=1)
### BEGIN HIDDEN TESTS
# Not detected: a prefetch that only the first epoch has.
made_ahead(n=811, batch=27, drop_last=True, reads=30, of=int(fresh_rng(8).integers(100, 10**6)))
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Which phases overlap?
#
# A profiler records *events* `(phase, begin, end)`, in seconds and in no particular order. Events of one
# phase may overlap, for example sixteen simultaneous reads. For how long was *at least one* read in progress?
# For how long was at least one read in progress *while* the device worked?


# %% solution="both-busy"
def both_busy(events, phases):
    """Return for how many seconds all these phases are in progress at the same time, a float.

    events     a list of (phase, begin, end) in any order; events of one phase may overlap
    phases     a list of names; with one name: the seconds during which this phase is in progress

    A phase is in progress while at least one of its events is.
    """
    ### BEGIN SOLUTION
    times = sorted({t for _, begin, end in events for t in (begin, end)})
    seconds = 0.0
    for begin, end in itertools.pairwise(times):
        under_way = {phase for phase, b, e in events if b <= begin and end <= e}
        seconds += (end - begin) * (set(phases) <= under_way)
    ### END SOLUTION
    return seconds


# %%
some = [("read", 0, 4), ("read", 1, 5), ("step", 4, 7), ("read", 6, 8), ("step", 8, 9)]
for phases in (["read"], ["step"], ["read", "step"]):
    print(phases, both_busy(some, phases))


# %% given="busy-twice"
def busy_twice(events, phases):
    """Return the results of two calls with the same arguments, and the arguments afterwards."""
    return [float(both_busy(events, phases)) for _ in range(2)], events, phases


# %% check="profile-busy" points=1 see="4.1"
"""Reads from 0 to 4, 1 to 5 and 6 to 8 s: reading takes 7 s, 2 s of them during a step (1 point)."""
some = [("read", 6.0, 8.0), ("read", 0.0, 4.0), ("step", 4.0, 7.0), ("read", 1.0, 5.0), ("step", 8.0, 9.0)]
expect(
    float(both_busy(some, ["read"])),
    7.0,
    {
        "reads that overlap were counted twice.": 10.0,
        "the gap between 5 and 6 was counted.": 8.0,
    },
    "the seconds during which some read is under way",
)
expect(
    float(both_busy(some, ["read", "step"])),
    2.0,
    {
        "that is when a read *or* a step is under way.": 9.0,
        "that is the sum of both phases.": 11.0,
        "the seconds of all steps were counted.": 4.0,
    },
    "the seconds during which some read and some step are under way",
)
some, both = [("read", 6.0, 8.0), ("read", 0.0, 4.0), ("step", 4.0, 7.0)], ["step", "read"]
(first, second), events, phases = busy_twice(list(some), list(both))
assert first == second and [tuple(event) for event in events] == some and list(phases) == both, (
    f"both_busy() changed its arguments: events is now {events}, and phases is now {phases}"
)
### BEGIN HIDDEN TESTS
# Not detected: a resolution finer than a nanosecond.
rng = fresh_rng(9)
for count, phases in [(12, ["a"]), (30, ["a", "b"]), (40, ["c", "a", "b"]), (25, ["b", "c"]), (6, ["d"])]:
    begins, lengths = rng.integers(0, 60, count), rng.integers(0, 20, count)
    names = rng.choice(["a", "b", "c"], count).tolist()
    grid = {phase: np.zeros(80, bool) for phase in "abcd"}
    for name, begin, length in zip(names, begins, lengths, strict=True):
        grid[name][begin : begin + length] = True
    want = 0.25 * np.sum(np.all([grid[phase] for phase in phases], axis=0))
    events = [
        (name, 0.25 * float(begin), 0.25 * float(begin + length))
        for name, begin, length in zip(names, begins, lengths, strict=True)
    ]
    found = float(both_busy(events, phases))
    assert math.isclose(found, want, abs_tol=1e-9), (
        f"for {phases} in a profile of {count} events, both_busy() returned {found} s instead of {want} s"
    )
begins = rng.uniform(700, 700.02, 20)  # of a profiler with a finer clock, which began earlier
events = [("a" if i % 2 else "b", float(t), float(t + 0.0013 + i * 1e-5)) for i, t in enumerate(begins)]
changes = sorted((t, by, name) for name, *ends in events for t, by in zip(ends, (1, -1), strict=True))
for phases in (["a"], ["b"], ["b", "a"]):
    running, want, before = {"a": 0, "b": 0}, 0.0, 0.0
    for at, by, name in changes:
        want += (at - before) * all(running[phase] for phase in phases)
        running[name], before = running[name] + by, at
    assert math.isclose(float(both_busy(events, phases)), want, abs_tol=1e-9), (
        f"wrong seconds for {phases} in a profile of microseconds that starts at 700 s"
    )
### END HIDDEN TESTS

# %% [markdown]
# While the device is idle, it waits for the phases that are in progress. The provided function `waited_for`
# uses your `both_busy` to compute how long it waits for each phase.


# %% given="waited-for"
def waited_for(events):
    """Return {phase: seconds during which it is in progress and no step is}, until the last step ends.

    If several phases are in progress at the same time, the seconds count for each of them.
    """
    last = max(end for phase, _, end in events if phase == "step")
    before = [(phase, min(begin, last), min(end, last)) for phase, begin, end in events]
    others = {phase for phase, _, _ in events} - {"step"}
    return {p: both_busy(before, [p]) - both_busy(before, [p, "step"]) for p in others}


# %%
waited_for(
    [("read", 0, 4), ("decode", 3, 5), ("step", 5, 8), ("read", 5, 9), ("step", 10, 11), ("read", 10, 15)]
)

# %% [markdown]
# Now profile your own pipeline. Sleeps replace the disk and the device, so that the result does not depend on
# the number of cores. The timings vary from run to run, and they are not graded.


# %% given="profiled"
def profiled(reads, n=64, batch=8, disk=0.004, device=0.02):
    """Return the events of two epochs of your pipeline, with sleeps instead of computation."""
    events, zero = [], time.perf_counter()

    def noted(phase, seconds, value=None):
        begin = time.perf_counter() - zero
        time.sleep(seconds)
        events.append((phase, begin, time.perf_counter() - zero))
        return value

    def read(file):
        image = tf.numpy_function(
            lambda file: noted("read", disk, np.full(SIZE, file, np.uint8)), [file], tf.uint8
        )
        return tf.ensure_shape(image, SIZE)

    def change(images, numbers):
        made = tf.numpy_function(
            lambda i, u: noted("augment", 0.003, i.astype(np.float32)), [images, numbers], tf.float32
        )
        return tf.ensure_shape(made, (None, *SIZE))

    data = pipeline(np.arange(n), np.arange(n), read, change, batch, 0, False, reads)
    for _ in range(2):
        for _ in data:
            noted("step", device)
    first = min(begin for _, begin, _ in events)
    return [(phase, begin - first, end - first) for phase, begin, end in events]


# %% tags=["measured"]
fig, axes = plt.subplots(2, 1, figsize=(8, 3.5), sharex=True)
for ax, reads in zip(axes, (1, 8), strict=True):
    events = profiled(reads)
    for row, phase in enumerate(["read", "augment", "step"]):
        bars = [(begin, end - begin) for name, begin, end in events if name == phase]
        ax.broken_barh(bars, (row - 0.4, 0.8), alpha=0.7)
    ax.set(yticks=range(3), ylim=(2.5, -0.5), title=f"reads={reads}")
    ax.set_yticklabels(["read", "augment", "step"])
    waits = {phase: round(t, 2) for phase, t in waited_for(events).items()}
    print(f"reads={reads}: the device works {both_busy(events, ['step']):.2f} s and waits for {waits}")
axes[-1].set_xlabel("s")
plt.show()

# %% [markdown]
# *The figure:* two timelines of two epochs, each with one row for read, one for augment and one for step. In
# the first epoch, the first step begins only after all reads, since a shuffle over the whole data set first
# fills its buffer. With `reads=8`, the reads overlap and end sooner. Later steps follow each other closely,
# while `augment` prepares the next batch. In the second epoch, no file is read. Note when the first step
# begins for each value of `reads`; you will need both times for the written answer.
#
# ## 4. Predict a change
#
# A mean throughput hides bursts, so simulate a run batch by batch. The input prepares one batch after
# another, and each batch takes a different time. Between the input and the device is a *buffer* with b
# places.
#
# - Without a buffer (b = 0), nothing overlaps: prepare a batch, run its step, prepare the next batch.
# - With b ≥ 1, the input begins batch i as soon as batch i − 1 is ready **and** there is a place for batch i.
#   The first b batches have their places from the start. Each later batch i gets the place of batch i − b, as
#   soon as the device has taken batch i − b.
# - The device takes batch i as soon as batch i is ready and the previous step is over. Then its step begins.


# %% solution="run-seconds"
def run_seconds(produce, steps, buffer):
    """Return the time until the last step ends, in seconds, a float.

    produce    the seconds that the input needs for each batch, a list
    steps      the seconds that each step takes, a list of the same length
    buffer     the number of places between input and device, an int of at least 0
    """
    assert len(produce) == len(steps) > 0, "produce and steps need one value per batch"
    ### BEGIN SOLUTION
    made, taken, done = 0.0, [], 0.0
    for i, (making, step) in enumerate(zip(produce, steps, strict=True)):
        free = done if buffer == 0 else taken[i - buffer] if i >= buffer else 0.0
        made = max(made, free) + making
        taken.append(max(made, done))
        done = taken[-1] + step
    ### END SOLUTION
    return done


# %%
[run_seconds([2, 2, 2], [3, 1, 3], buffer) for buffer in (0, 1, 2, 3)]


# %% given="after-a-run"
def after_a_run(produce, steps, buffer):
    """Return the two lists after a call of run_seconds."""
    run_seconds(produce, steps, buffer)
    return produce, steps


# %% check="run-by-hand" points=1 see="4.2"
"""With batches of 2 s and steps of 3, 1 and 3 s, 0, 1 and 2 places take 13, 10 and 9 s (1 point)."""
hints = {
    0: {"without a buffer nothing overlaps; this is the time with one place.": 10.0},
    1: {
        "that is the time of the steps alone; a step begins only when its batch is made.": 7.0,
        "this is the time with two places.": 9.0,
        "this is the time without a buffer; a place is free again when the step of its batch begins.": 13.0,
    },
    2: {
        "that is the time of the steps alone; a step begins only when its batch is made.": 7.0,
        "this is the time with one place.": 10.0,
    },
}
for buffer, want in [(0, 13.0), (1, 10.0), (2, 9.0), (3, 9.0)]:
    found = float(run_seconds([2.0, 2.0, 2.0], [3.0, 1.0, 3.0], buffer))
    expect(found, want, hints.get(buffer), f"the seconds with a buffer of {buffer}")
### BEGIN HIDDEN TESTS
unit = float(fresh_rng(10).integers(2, 20)) / 4  # seconds
expect(float(run_seconds([5 * unit], [2 * unit], 0)), 7 * unit, name="one batch, no buffer")
expect(float(run_seconds([5 * unit], [2 * unit], 4)), 7 * unit, name="one batch, four places")
found = run_seconds([t * unit for t in (1, 1, 1, 6)], [t * unit for t in (4, 1, 1, 1)], 1)
expect(float(found), 13 * unit, name="another run by hand")
### END HIDDEN TESTS

# %% check="run-buffers" points=1 see="4.2"
"""A larger buffer never makes a run longer, with steady input or with bursts (1 point)."""
steady, bursts = [3.0] * 12, [1.0, 1.0, 1.0, 9.0] * 3
times = [[float(run_seconds(produce, [4.0] * 12, b)) for b in range(8)] for produce in (steady, bursts)]
for what, found in zip(("steady", "in bursts"), times, strict=True):
    assert found[0] == 84.0, (
        f"input {what} without a buffer takes {found[0]} s, not 12 times 3 s + 4 s = 84 s"
    )
    assert all(a >= b for a, b in itertools.pairwise(found)), (
        f"a larger buffer makes the run longer: it takes {found} s with 0 to 7 places"
    )
assert times[0][1:] == [51.0] * 7, (
    f"with steady input of 3 s and steps of 4 s, runs with 1 to 7 places take {times[0][1:]} s; each should "
    "take 51 s, for the first batch and twelve steps"
)
assert times[1][1] > times[1][2] > times[1][3], (
    f"with input in bursts, runs with 0 to 7 places take {times[1]} s; 2 places should be faster than 1, and "
    "3 faster than 2"
)
given = [2.0, 6.0, 4.0], [3.0, 1.0, 8.0]
after = after_a_run(*map(list, given), 2)
assert list(map(list, after)) == list(given), (
    f"run_seconds() changed its arguments: produce and steps are now {after}"
)
### BEGIN HIDDEN TESTS
# Not detected: a simulation by a clock that is slow for long runs.


def by_events(produce, steps, buffer):
    """Return the same result, simulated with a clock that ticks in whole seconds."""
    clock = place = made = done = 0
    making, working, store = None, 0, 0
    while done < len(steps):
        moved = True
        while moved:
            moved = False
            if making == 0:
                making, store, moved = None, store + 1, True
            if working == 0 and store and done + place < len(steps) and not place:
                store, place, working, moved = store - 1, 1, steps[done], True
            if place and working == 0:
                place, done, moved = 0, done + 1, True
            free = store < buffer if buffer else not (store or place)
            if making is None and made < len(produce) and free:
                making, made, moved = produce[made], made + 1, True
        if done == len(steps):
            break
        clock += 1
        making = None if making is None else making - 1
        working = max(0, working - 1)
    return float(clock)


rng = fresh_rng(11)
for count in (1, 2, 5, 20, 40):
    for buffer in (0, 1, 2, 3, 7):
        produce, steps = (rng.integers(1, 12, count).tolist() for _ in range(2))
        want = 0.37 * by_events(produce, steps, buffer)  # not exact in a lower precision
        found = float(run_seconds([0.37 * p for p in produce], [0.37 * t for t in steps], buffer))
        assert math.isclose(found, want, rel_tol=1e-9), (
            f"{count} batches, {buffer} places: {found} s is wrong"
        )
### END HIDDEN TESTS

# %% [markdown]
# Which change helps most? One more place in the buffer is a one-word change in the code, an input twice as
# fast takes an afternoon of work, and a device twice as fast costs money.


# %% solution="best-lever"
def best_lever(produce, steps, buffer):
    """Return the change that makes the run shortest: "buffer", "input" or "step".

    "buffer" adds one place, "input" halves each time in produce, and "step" halves each time in steps. Among
    equally good changes, return the cheapest: "buffer", then "input", then "step". Use run_seconds.
    """
    ### BEGIN SOLUTION
    half = {"input": [t / 2 for t in produce], "step": [t / 2 for t in steps]}
    seconds = {
        "buffer": run_seconds(produce, steps, buffer + 1),
        "input": run_seconds(half["input"], steps, buffer),
        "step": run_seconds(produce, half["step"], buffer),
    }
    lever = min(seconds, key=seconds.get)
    ### END SOLUTION
    return lever


# %%
print(
    best_lever([4.0] * 9, [3.0] * 9, 0),
    best_lever([4.0] * 9, [1.0] * 9, 1),
    best_lever([2.0] * 9, [5.0] * 9, 1),
)


# %% given="lever-twice"
def lever_twice(produce, steps, buffer):
    """Return the results of two calls with the same arguments, and the two lists afterwards."""
    return [best_lever(produce, steps, buffer) for _ in range(2)], produce, steps


# %% check="lever-found" points=1 see="4.6"
"""The best change, or the cheapest of equally good ones, also with input in bursts (1 point)."""
cases = [
    ([4.0] * 9, [3.0] * 9, 0, "buffer"),
    ([4.0] * 9, [1.0] * 9, 1, "input"),
    ([2.0] * 9, [5.0] * 9, 1, "step"),
]
bursts = [
    ([1.0, 1.0, 1.0, 9.0] * 4, [3.5] * 16, 1, "step"),
    ([9.0, 1.0, 1.0, 1.0] * 4, [3.0] * 16, 1, "step"),
    ([7.0, 1.0] * 6, [4.5] * 12, 1, "input"),
    ([2.0, 2.0, 8.0] * 4, [1.0, 8.0] * 6, 0, "buffer"),
]
if has_failed("run-by-hand") or has_failed("run-buffers"):  # then best_lever is judged without run_seconds
    cases, bursts = [], []
for produce, steps, buffer, want in cases + bursts:
    found = best_lever(produce, steps, buffer)
    assert found == want, (
        f"for produce = {produce}, steps = {steps}, buffer = {buffer}, best_lever() returned {found!r}; "
        f"{want!r} makes the run shorter, or equally short at a lower cost"
    )
given = [4.0, 2.0, 6.0], [8.0, 1.0, 3.0]
with watched("run_seconds", lambda produce, steps, buffer: 2 * produce[0] + steps[1] - buffer):
    (first, second), *after = lever_twice(*map(list, given), 2)
assert first == second and list(map(list, after)) == list(given), (
    f"best_lever() changed its arguments: produce and steps are now {after}"
)
### BEGIN HIDDEN TESTS
# Not detected: a comparison of more than three runs.


def another_machine(for_input, for_steps, for_places):
    """Return a different run_seconds, in which only the last batch and the first step count."""
    return lambda produce, steps, buffer: round(
        1000.0 + 2 * produce[2] * for_input + 1.5 * steps[0] * for_steps - buffer * for_places, 6
    )


factor = float(fresh_rng(12).integers(1, 12)) / 4  # of all weights, so the levers stay the same
for weights, want in [
    ((1, 1, 1), "input"),
    ((1, 2, 3), "step"),
    ((1, 1, 9), "buffer"),
    ((1, 1, 6), "buffer"),
    ((1, 1, 4), "input"),
    ((-1, -2, -1), "buffer"),
    ((2, 2, 5), "input"),
    ((-3, 1, -7), "step"),
]:
    with watched("run_seconds", another_machine(*(factor * weight for weight in weights))) as calls:
        found = best_lever([4.0, 7.0, 6.0], [8.0, 9.0, 3.0], 2)
    assert calls.count >= 3, "best_lever() must compare three runs with run_seconds()"
    assert found == want, f"with another run_seconds {weights}, best_lever() chose {found!r}, not {want!r}"
### END HIDDEN TESTS

# %% [markdown]
# ## 5. What should a cache keep?
#
# The lecture's cache kept decoded images. What should it keep if they do not fit into memory? The stages of a
# pipeline are listed in order, each with its *seconds* per image, the *bytes* per image of its output, and
# whether it is *random*. A cache after a stage saves the time of this stage and of all previous ones, in
# every epoch except the first. The cache must not come after a random stage, whose results would then be the
# same in each epoch, and n images must fit into the memory.


# %% solution="place-cache"
def place_cache(stages, n, memory):
    """Return the number of stages before the cache, an int; 0 if no position is possible.

    stages     a list of (seconds per image, bytes per image of the output, random), in their order
    n          the number of images
    memory     the largest allowed size of the cache, in bytes

    Choose the position that saves the most seconds; if several save equally many, that with the fewest bytes.
    """
    ### BEGIN SOLUTION
    best, place, saved = (0.0, 0), 0, 0.0
    for i, (seconds, size, random) in enumerate(stages, 1):
        if random:
            break
        saved += seconds
        if n * size <= memory and (place == 0 or (saved, -size) > best):
            best, place = (saved, -size), i
    ### END SOLUTION
    return place


# %%
STAGES = [(1.5e-3, 4_200, False), (0.4e-3, 16_384, False), (0.1e-3, 65_536, False), (0.2e-3, 3_136, True)]
[place_cache(STAGES, 60_000, memory * 10**6) for memory in (100, 300, 1_000, 8_000)]

# %% check="cache-placed" points=1 see="4.2"
"""The cache keeps files, decoded images or floats, whichever fit, and nothing random (1 point)."""
stages = [(1.5e-3, 4_200, False), (0.4e-3, 16_384, False), (0.1e-3, 65_536, False), (0.2e-3, 3_136, True)]
hints = {4: "a cache after the random stage keeps one version of each image for ever."}
for memory, want in [(100, 0), (300, 1), (1_000, 2), (8_000, 3), (252, 1)]:
    found = place_cache(stages, 60_000, memory * 10**6)
    assert found == want, (
        f"60,000 images and {memory} MB: place_cache() returned {found!r}; it should return {want}"
        + "".join(f". Likely: {words}" for wrong, words in hints.items() if found == wrong)
    )
small = [(1e-3, 9_000, False), (2e-3, 500, False), (0.0, 700, False), (1e-3, 100, False)]
expect(place_cache(small, 1_000, 10**6), 4, name="place_cache(), if the last stage has the smallest images,")
expect(place_cache(small[:3], 1_000, 10**6), 2, name="place_cache(), if the third stage takes no time,")
### BEGIN HIDDEN TESTS
# Not detected: another position with the same seconds and the same bytes, which is equally good.
rng = fresh_rng(13)
for _ in range(60):
    count = int(rng.integers(1, 7))
    stages = [
        (float(rng.integers(0, 4)) / 8, int(rng.integers(1, 9)) * 100, bool(rng.random() < 0.2))
        for _ in range(count)
    ]
    n, memory = 50, int(rng.integers(1, 9)) * 5_000
    possible = [
        (sum(t for t, _, _ in stages[: i + 1]), -stages[i][1], -i)
        for i in range(count)
        if n * stages[i][1] <= memory and not any(r for _, _, r in stages[: i + 1])
    ]
    found = place_cache(stages, n, memory)
    if not possible:
        assert found == 0, f"no position is possible for {stages}; place_cache() returned {found!r}, not 0"
        continue
    assert 1 <= found <= count and not any(r for _, _, r in stages[:found]), f"{stages}: {found!r}"
    assert n * stages[found - 1][1] <= memory, f"{n} images do not fit after {found} stages"
    assert (sum(t for t, _, _ in stages[:found]), -stages[found - 1][1]) == max(possible)[:2], (
        f"{stages}, n = {n}, memory = {memory}: {found!r}"
    )
assert place_cache([(1.0, 100, True), (1.0, 10, False)], 10, 10**9) == 0, "the first stage is random: 0"
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The bytes of a training step
#
# Assignment 03 counted the parameters and outputs of a plain step. A real step stores more. The network is a
# list of rows `(kind, outputs, trained, fixed)`, which contain the kind of a layer and the numbers of its
# outputs per image, of its trained parameters, and of its fixed ones (the running mean and variance of a
# batch normalisation). The first row is the input.
#
# - Parameters are float32. A trained parameter needs a weight, a gradient and the *slots* of the optimizer
#   (0 for plain SGD, 1 for momentum, 2 for Adam), in float32. A fixed parameter needs only its value.
# - For the backward pass, the outputs of all rows are stored, in `itemsize` bytes each, except those of kind
#   "relu": a ReLU overwrites its input.
# - With low-precision outputs (`itemsize` less than 4), there is also a copy of the trained parameters, in
#   `itemsize` bytes each.
# - Because of the prefetch, `ahead` more input batches wait on the device, with `itemsize` bytes per number.


# %% solution="step-bytes"
def step_bytes(rows, batch, slots=1, itemsize=4, ahead=1):
    """Return the bytes that a training step stores, an int.

    rows       a list of (kind, outputs per image, trained, fixed); the first row is the input
    batch      images per batch
    slots      slots of the optimizer per trained parameter
    itemsize   bytes per output
    ahead      batches of the input that wait on the device
    """
    ### BEGIN SOLUTION
    trained, fixed = (sum(row[i] for row in rows) for i in (2, 3))
    parameters = 4 * (trained * (2 + slots) + fixed) + (itemsize * trained if itemsize < 4 else 0)
    kept = sum(outputs for kind, outputs, _, _ in rows if kind != "relu") + ahead * rows[0][1]
    needed = parameters + batch * itemsize * kept
    ### END SOLUTION
    return needed


# %% given="rows"
def rows_of(chain, shape):
    """Return the rows of a chain of layers, for images of shape (H, W, C)."""
    H, W, C = shape
    rows = [("input", H * W * C, 0, 0)]
    for kind, *sizes in chain:
        trained = fixed = 0
        if kind == "conv":  # filters, size, stride; zeros at the edges
            K, k, stride = sizes
            trained, H, W, C = k * k * C * K, -(-H // stride), -(-W // stride), K
        elif kind == "norm":
            trained = fixed = 2 * C
        elif kind == "pool":
            H, W = 1, 1
        elif kind == "dense":
            trained, H, W, C = (H * W * C + 1) * sizes[0], 1, 1, sizes[0]
        rows.append((kind, H * W * C, trained, fixed))
    return rows


def block(K, stride=1):
    """Return the layers of a block: convolution, normalisation and ReLU."""
    return [("conv", K, 3, stride), ("norm",), ("relu",)]


BLOCKS = block(64) * 3 + block(128, 2) + block(128) * 3 + block(256, 2) + block(256) * 3
NETWORK = rows_of([*BLOCKS, ("pool",), ("dense", 100)], (64, 64, 3))

# %%
for batch in (1, 64, 256):
    print(batch, [f"{step_bytes(NETWORK, batch, itemsize=size) / 1e6:.0f} MB" for size in (4, 2)])

# %% check="bytes-by-hand" points=1 see="4.3"
"""Ten images, 139 trained and 4 fixed parameters; 57 stored and 12 waiting numbers per image (1 point)."""
tiny = [
    ("input", 12, 0, 0),
    ("conv", 20, 30, 0),
    ("norm", 20, 4, 4),
    ("relu", 20, 0, 0),
    ("dense", 5, 105, 0),
]
expect(
    step_bytes(tiny, 10),
    4444,
    {
        "the output of the ReLU was counted; it overwrites its input.": 5244,
        "the gradients are missing, or the slots of the optimizer.": 3888,
        "gradients and slots are missing.": 3332,
        "fixed parameters were counted with a gradient and a slot.": 4476,
        "the fixed parameters are missing.": 4428,
        "the batch that waits is missing, or the input of the batch in use.": 3964,
        "that is the memory for one image, not for ten.": 1960,
        "numbers were counted instead of bytes.": 1111,
    },
    "step_bytes(tiny, 10)",
)
expect(
    step_bytes(tiny, 10, slots=2, itemsize=2, ahead=0),
    4 * (139 * 4 + 4) + 2 * 139 + 10 * 2 * 57,
    {
        "the copy of the weights in lower precision is missing.": 4 * (139 * 4 + 4) + 10 * 2 * 57,
        "weights, gradients and slots are float32; they were counted in lower precision.": (
            2 * (139 * 4 + 4) + 2 * 139 + 10 * 2 * 57
        ),
        "outputs have itemsize bytes; they were counted with 4.": 4 * (139 * 4 + 4) + 2 * 139 + 10 * 4 * 57,
    },
    "step_bytes(tiny, 10, slots=2, itemsize=2, ahead=0)",
)
### BEGIN HIDDEN TESTS
# Not detected: a Python float for byte counts below 2**53, if it is converted to an int.
rng = fresh_rng(14)
for slots, itemsize, ahead, batch in [
    (0, 4, 3, 7),
    (1, 2, 1, 33),
    (2, 4, 0, 1),
    (2, 1, 2, 12),
    (1, 4, 1, 0),
    (1, 8, 1, 5),
]:
    rows = [("input", int(rng.integers(1, 99)), 0, 0)]
    for kind in rng.choice(["conv", "relu", "norm", "dense", "add"], 9).tolist():
        rows.append((kind, *(int(v) for v in rng.integers(0, 500, 3))))
    trained, fixed = sum(r[2] for r in rows), sum(r[3] for r in rows)
    want = 4 * ((2 + slots) * trained + fixed) + batch * itemsize * ahead * rows[0][1]
    want += (itemsize < 4) * itemsize * trained
    want += batch * itemsize * sum(r[1] for r in rows if r[0] != "relu")
    expect(step_bytes(rows, batch, slots, itemsize, ahead), want, name="the bytes of another network")
pixels, weights = (2 * rng.integers([10**15, 10**16], [10**16, 10**17]) + 1).tolist()
huge = [("input", pixels, 0, 0), ("dense", 3, weights, 0)]
expect(step_bytes(huge, 7), 12 * weights + 28 * (2 * pixels + 3), name="a very large network")
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Trace a step once
#
# The last batch of your pipeline is smaller, and the learning rate changes from step to step. Both make
# TensorFlow retrace a plain `tf.function`. Compile a step so that it is traced only **once**, for batches of
# any size and for learning rates of any kind: Python's floats and ints, NumPy's floats, and tensors.


# %% solution="compile-step"
def compile_step(step, shape):
    """Return a function with the arguments and the result of `step` that is traced only once.

    step       step(images, labels, rate), a Python function of tensors: images (N, *shape) float32,
               labels (N,) int64, rate () float32
    shape      the shape of an image, a tuple

    The returned function takes batches of any size, and a rate that is a number of any kind or a tensor. It
    computes in float32, as `step` does.
    """
    ### BEGIN SOLUTION
    kinds = [
        tf.TensorSpec((None, *shape), tf.float32),
        tf.TensorSpec((None,), tf.int64),
        tf.TensorSpec((), tf.float32),
    ]
    graph = tf.function(step, input_signature=kinds)

    def compiled(images, labels, rate):
        return graph(images, labels, tf.cast(rate, tf.float32))

    ### END SOLUTION
    return compiled


# %% given="stepped"
def stepped(shape, calls, trace):
    """Return the results of a compiled step for calls [(images, labels, kind of the rate, rate), …].

    Each time Python runs the step, the step calls trace(sizes of an image, type of the labels) and adds the
    returned number to the results.
    """

    @tf.autograph.experimental.do_not_convert
    def step(images, labels, rate):
        mark = tf.constant(float(trace(str(images.shape[1:]), labels.dtype.name)))
        sums = tf.reduce_sum(tf.reshape(images, (tf.shape(images)[0], -1)), axis=1)  # (N,)
        return mark + rate * tf.tensordot(sums, tf.cast(labels, tf.float32), 1)

    kinds = {"float": float, "int": int, "NumPy": np.float64, "NumPy32": np.float32}
    kinds["tensor"] = lambda value: tf.constant(value, tf.float32)
    compiled = compile_step(step, tuple(shape))
    results = []
    for images, labels, kind, rate in calls:
        results.append(float(compiled(tf.constant(images), tf.constant(labels), kinds[kind](rate))))
    return results


class Traces:
    """Count how often a step is traced, and return a different number each time."""

    def __init__(self, seed=0):
        self.marks, self.kinds, self.random = [], set(), np.random.default_rng([seed, 7])

    def __call__(self, *kinds):
        self.kinds.add(kinds)
        self.marks.append(int(self.random.integers(1, 1000)))
        return self.marks[-1]


def batches_of(shape, sizes, rates, seed=0):
    """Return [(images, labels, kind, rate)], and the number that the step adds to its mark for each call."""
    random, calls, sums = np.random.default_rng([seed, 9]), [], []
    for size, (kind, rate) in zip(sizes, rates, strict=True):
        images = random.uniform(0, 1, (size, *shape)).astype(np.float32)
        labels = random.integers(0, 300, size)
        calls.append((images, labels, kind, rate))
        pixels = images.reshape(size, -1).astype(float).sum(axis=1)
        sums.append(float(np.float32(rate)) * float(pixels @ labels))
    return calls, sums


# Of these only the ints are exact in a lower precision than float32.
RATES = [("float", 0.1), ("float", 0.037), ("int", 2), ("NumPy", 0.3), ("tensor", 0.7), ("NumPy32", 3.7)]

# %%
calls, sums = batches_of((2, 2, 1), [4, 4, 4, 4, 4, 3], RATES)
counted = Traces()
results = stepped((2, 2, 1), calls, counted)
print(f"{len(counted.marks)} traces in {len(calls)} calls")

# %% check="traced-once" points=1 see="4.4"
"""Six calls with five kinds of rates, the last with a smaller batch, need only one trace (1 point)."""


def traced_once(shape, sizes, rates, seed=0):
    """Assert that the step is traced once."""
    calls, _ = batches_of(shape, sizes, rates, seed)
    counted = Traces(seed)
    stepped(shape, calls, counted)
    count = len(counted.marks)
    assert count != len(calls), f"{count} traces in {len(calls)} calls: Python runs the step in every call"
    assert count == 1, (
        f"{count} traces in {len(calls)} calls, with batch sizes {in_words(sizes)} and rates "
        f"{', '.join(f'{kind} {rate}' for kind, rate in rates)}; there should be one trace"
    )


traced_once((2, 2, 1), [4, 4, 4, 4, 4, 3], RATES)
traced_once((2, 2, 1), [4, 4, 3], RATES[:3])
### BEGIN HIDDEN TESTS
fresh = fresh_rng(15)
(one, two), rates = (1 + fresh.permutation(9)[:2]).tolist(), fresh.uniform(0.1, 3, 4).round(2).tolist()
kinds = zip(("float", "tensor", "NumPy", "NumPy32"), rates, strict=True)
more, seed = [("int", one), ("int", two), *kinds, ("int", one)], int(fresh.integers(10, 10**6))
traced_once((3, 2), [5, 2, 1, 7, 5, 4, 6], more, seed=seed)
traced_once((4,), [8, 8, 8, 8, 8, 8, 1], more, seed=seed + 1)
### END HIDDEN TESTS

# %% check="traced-right" points=1 see="4.4"
"""The compiled step returns the same results as `step`, for each batch and each rate (1 point)."""


def computed_right(shape, sizes, rates, seed=0):
    """Assert that each result is a mark plus the number that the step adds to it."""
    calls, sums = batches_of(shape, sizes, rates, seed)
    counted = Traces(seed)
    results = stepped(shape, calls, counted)
    assert len(results) == len(sums), f"{len(results)} results for {len(sums)} calls"
    assert counted.kinds == {(str(tf.TensorShape(shape)), "int64")}, (
        f"in the graph, the sizes of an image and the type of the labels are {sorted(counted.kinds)}; they "
        f"should be {shape} and int64, as `step` and its layers need them"
    )
    for (images, _, kind, rate), result, added in zip(calls, results, sums, strict=True):
        near = 3e-6 * (abs(added) + 1000)  # float32
        assert any(abs(result - added - mark) < near for mark in counted.marks), (
            f"with {len(images)} images and rate {rate} ({kind}), the compiled step returned {result:.6g}, "
            "which is not the result of the step in float32"
        )


computed_right((2, 2, 1), [4, 4, 4, 4, 4, 3], RATES)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(16)
# Not detected: a result that is a NumPy number instead of a tensor.
(one, two), rates = (1 + fresh.permutation(9)[:2]).tolist(), fresh.uniform(0.1, 3, 4).round(2).tolist()
kinds = zip(("float", "tensor", "NumPy", "NumPy32"), rates, strict=True)
more, seed = [("int", one), ("int", two), *kinds, ("int", one)], int(fresh.integers(10, 10**6))
computed_right((3, 2), [5, 2, 1, 7, 5, 4, 6], more, seed=seed)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Written answer
#
# A run has 64 batches, and a step takes 10 ms. Compare three made-up inputs. The first takes 12 ms per batch.
# The second takes 7 ms, but 25 ms for every eighth batch, as if a file came from remote storage. The third
# takes 9 ms. The figure shows how long a run takes according to your `run_seconds`, as a function of the
# number of places in the buffer.

# %%
INPUTS = {
    "12 ms each": [12.0] * 64,
    "7 ms, each 8th 25 ms": ([7.0] * 7 + [25.0]) * 8,
    "9 ms each": [9.0] * 64,
}
PLACES = [0, 1, 2, 3, 4, 6, 8]
for (name, produce), marker in zip(INPUTS.items(), "os^", strict=True):
    times = [run_seconds(produce, [10.0] * 64, b) for b in PLACES]
    print(
        f"{name:22}",
        {b: round(t) for b, t in zip(PLACES, times, strict=True)},
        best_lever(produce, [10.0] * 64, 1),
    )
    plt.plot(PLACES, times, marker=marker, label=name)
plt.axhline(640, color="0.5", ls=":", marker="", label="64 steps of 10 ms")
plt.xlabel("places of the buffer")
plt.ylabel("ms")
plt.legend()
plt.show()

# %% [markdown]
# *The figure:* the duration of a run against the number of places, with one line per input and a dotted line
# for the steps alone. Compare one place with none, and then look for the line that continues to fall.
#
# A colleague sees that the device waits, and sets `prefetch` to 100. Answer in four to six sentences, with
# numbers from the output above and from your own code:
#
# 1. For which of the three inputs does a buffer with more than one place help? How many places are enough,
#    and why?
# 2. What would help with each of the other two inputs, and what does one more place cost?
# 3. Which line of *your* `run_seconds` makes the input wait for a free place? Quote it. What would it do with
#    the input of 7 and 25 ms if that line were missing?
# 4. When does the first step begin in *your* profile of section 3, with `reads=1` and with `reads=8`? Why
#    would a larger prefetch not change these times?

# %% [markdown] explain="what-a-buffer-can" points=2
# ### BEGIN SOLUTION
# **Rubric.** The numbers must come from the student's own table and profile. Language and length are not
# graded.
#
# | points | for |
# |---|---|
# | ½ | 1: only for the bursts, with numbers: 767 ms with one place, 687 with two, 647 with three or more |
# | ¼ | 1: the buffer fills during the fast batches and is used up during the slow one |
# | ¼ | 2: a faster input for 12 ms (more reads at a time, a cache), a faster step for 9 ms |
# | ¼ | 2: a place costs the memory of a batch |
# | ¼ | 3: the line of the student's own function, and what its absence would do |
# | ½ | 4: both seconds from the student's own profile; the first batch waits for all reads |
#
# - *Bursts*: the mean of the input, 9.25 ms, is below the step's 10 ms, so seven fast batches can be stored
#   for the slow one. With 12 ms per batch, the buffer is always empty, and the run takes 64 · 12 + 10 = 778
#   ms. With 9 ms, one place hides the input.
# - *The line*: any form of the line that waits for `taken[i - buffer]` is accepted. Without it, the input
#   runs ahead as if the buffer were as large as the epoch, so one place is enough for about 647 ms.
# - *The first step*: a shuffle over the whole data set fills its buffer before the first batch, so the first
#   step begins after 64 reads of 4 ms: in the authors' run at 0.38 s with one read at a time and at 0.05 s
#   with eight. The prefetch comes after the shuffle.
#
# **Two points.** "More than one place helps only with the bursts, 767 ms with one place and 647 with three:
# the input needs 9.25 ms on average, so the fast batches can be stored for the slow one. With 12 ms the
# buffer is always empty; I would read more files at a time, and with 9 ms only a faster step helps. 100
# places cost the memory of 100 batches. My line `start = max(made, taken[i - buffer])` makes the input
# wait; without it, one place would already give 647 ms. My first step began at 0.38 s with one read and at
# 0.05 s with eight, since the shuffle waits for all files; a prefetch comes after it."
#
# **One point.** "It helps with the bursts (767 to 647 ms), since the buffer is filled before the slow batch.
# For the others it makes no difference. The line is `max(made, taken[i - buffer])`." (No other remedies, no
# cost, and no profile.)
#
# **No points.** "A larger buffer always helps, since more is prefetched."
# ### END SOLUTION

# %% [markdown]
# ## 9. Optional
#
# These two tasks have no points and no checks. Add a cell for both functions.
#
# 1. **`images_per_second(stages, cores)`**: the throughput of stages that all overlap. A stage is `(seconds
#    per image, images at a time, whether it computes)`. All stages that compute share the cores; a stage that
#    only waits needs no core. For `[(0.006, 3, False), (0.002, 2, True), (0.001, 1, True), (0.002, 1, True)]`
#    it is 400 on 2 cores and 500 on 8. What limits it in each case?
# 2. **`fewest_parts(rows, batch, memory)`**: a batch that does not fit can be split into parts of equal size,
#    one after another, whose gradients are summed before the update. Return the smallest number of parts with
#    which a step fits, according to `step_bytes`. For `NETWORK`, a batch of 256 and 2 GB, compare the bytes
#    for this size of a part with those for the next larger one.

# %% [markdown]
# ## What you have learned
#
# - An augmentation that gets its random numbers as an argument can be tested pixel by pixel, and repeated.
# - Cache the results that do not change, shuffle, batch, augment with new numbers, and prefetch, in this
#   order. A wrong order raises no error, but counting reads, calls, numbers and orders reveals it.
# - A profile shows what the device waits for, if overlapping events are counted only once. A buffer evens out
#   bursts, but does not help if the input is too slow.
# - A cache keeps the most expensive output that fits and is not random. Memory limits the batch size.
# - A step is traced once if its arguments are tensors whose batch size is not fixed.
#
# Open questions:
#
# 1. Your pipeline shuffles images, and its buffer holds all of them. What would you shuffle instead if they
#    did not fit into memory, and what would happen to the cache?
# 2. With two ranks, each reads half of the files. Which of your counts change, and which must stay the same?
# 3. *Hardware.* Some accelerators have memory that the host can access directly. Which lines of `step_bytes`
#    would change, and which changes of section 4 would still help?
