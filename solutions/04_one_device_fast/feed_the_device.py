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
# The device computes, and waits. What it waits for stands in front of it: files, decoding, augmentation,
# copies, a batch that is too small, a graph that is traced again. A wrong pipeline is rarely slow, and never
# raises an error. **Can you feed one device so that it never waits longer than it must, sees every image
# once an epoch and never the same picture twice, and can you prove it by counting?**
#
# You will
#
# - augment a whole batch in one call, from numbers that say exactly what happens to each image,
# - put the stages of an input pipeline into an order in which nothing is lost, done twice or frozen,
# - read from a profile which phase waits for which, and predict what a lever gives before you pull it,
# - say what a cache should keep when not everything fits, and which batch a given memory allows,
# - compile a step once, for all batches and all rates.
#
# The background is lecture 04. There are 30 points: 28 in 26 checks, and 2 for an answer in your own words.
# Fill the twelve holes marked `YOUR CODE HERE`, run the free cell below each, then the checks; a check that
# fails says what it saw. Some checks also try cases that are not shown. Nothing is judged by seconds: the
# checks count.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | n | images of the data set | N | images of a batch |
# | H, W, C | height, width, channels | s | pixels by which an image may move |

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

from cluster.checks import expect, has_failed, watched

tf.config.threading.set_inter_op_parallelism_threads(1)  # one operation at a time, as on one GPU stream
plt.style.use("cluster.course")

# %% [markdown]
# ## 1. Augment a batch
#
# Each image is *moved* by up to s pixels, so that black comes in at the edges, and every second one is seen
# *in a mirror*. To be tested, and to be repeated, the function must not draw its own random numbers: it is
# given three for each image, $u_0, u_1, u_2$, evenly distributed from 0 to below 1. They mean:
#
# - the image moves *down* by $\lfloor u_0 (2s + 1) \rfloor - s$ pixels and to the *right* by
#   $\lfloor u_1 (2s + 1) \rfloor - s$: each of the 2s + 1 moves along an axis is equally likely;
# - then, where $u_2 < 1/2$, left and right are exchanged.
#
# Bytes come in, numbers from 0 to 1 go out, as float32. The function will stand in a pipeline *behind*
# `batch`, where it is called once for N images, in a graph in which N is not known yet: no Python loop over
# images.
#
# **Predict.** With s = 4, how many different pictures can be made of one photograph?


# %% solution="augment"
def augment(images, numbers, s):
    """Move each image by up to s pixels, mirror every second one; each by its own numbers.

    images     (N, H, W, C) uint8, 0 to 255; N is not known in a graph (tf.shape knows it there)
    numbers    (N, 3) float32 from 0 to below 1: u0, u1, u2 of each image
    s          pixels, an int from 0 to below H and W

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
    """What `augment` makes of images in a pipeline, in batches: [(n, H, W, C) array, static shape, dtype]."""
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
# *The figure:* three small pictures of a bright block with a grey corner at its lower left: the first as it
# is, the second further down, the third moved to the right and mirrored.

# %% check="augment-by-hand" points=1 see="4.1"
"""An image of 2 × 3 as it is, one down, one up, one to the right and mirrored (1 point)."""
image = np.array([[51, 102, 153], [0, 204, 255]], np.uint8).reshape(1, 2, 3, 1)
numbers = np.array([[0.5, 0.5, 0.9], [0.99, 0.4, 0.7], [0.1, 0.6, 0.5], [0.5, 0.9, 0.2]], np.float32)
found, _, _ = augmented(np.repeat(image, 4, axis=0), numbers, 1)
assert found.shape == (4, 2, 3, 1), f"four images of 2 × 3 have become an array of shape {found.shape}"
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
    """Is the picture this one, up to rounding and a common factor?"""
    largest = max(float(np.abs(picture).max()), 1e-30)
    return np.allclose(picture[..., 0] / largest, np.array(rows) / np.max(rows), atol=1e-3)


for i, what in enumerate(["u = (0.5, 0.5, 0.9)", "moved down", "moved up", "to the right, then mirrored"]):
    hints = {
        "it was moved the other way.": [[[0, 0.8, 1], [0, 0, 0]], [[0.2, 0.4, 0.6], [0, 0, 0]]],
        "what leaves at one edge comes in at the other; black should.": [
            [[0, 0.8, 1], [0.2, 0.4, 0.6]],
            [[0.4, 0.2, 0.6], [0.8, 0, 1]],
        ],
        "up and down are exchanged, not left and right.": [[[0, 0, 0.8], [0, 0.2, 0.4]]],
        "it was mirrored first; then the move went the other way.": [[[0, 0.6, 0.4], [0, 1, 0.8]]],
        "it was not mirrored; it is where u2 is less than 1/2.": [[[0, 0.2, 0.4], [0, 0, 0.8]]],
        "it was mirrored; it is where u2 is less than 1/2.": [
            [[0.6, 0.4, 0.2], [1, 0.8, 0]],
            [[0, 0, 0], [0.6, 0.4, 0.2]],
        ],
        "it was not moved.": [[[0.2, 0.4, 0.6], [0, 0.8, 1]], [[0.6, 0.4, 0.2], [1, 0.8, 0]]],
    }
    if not looks_like(want[i], found[i]):
        likely = [words for words, all_ in hints.items() if any(looks_like(w, found[i]) for w in all_)][:1]
        raise AssertionError(
            f"an image, {what}, has become\n{found[i][..., 0]}" + "".join(f"\nLikely: {w}" for w in likely)
        )
### BEGIN HIDDEN TESTS
image = np.array([[7, 5], [3, 1]], np.uint8).reshape(1, 2, 2, 1)
numbers = np.array([[0.0, 0.0, 0.5], [0.7, 0.7, 0.49]], np.float32)
found, _, _ = augmented(np.repeat(image, 2, axis=0), numbers, 1)
for picture, rows in zip(found, [[[1, 0], [0, 0]], [[0, 0], [7, 0]]], strict=True):
    assert picture.shape == (2, 2, 1) and looks_like(rows, picture), "another image by hand"
### END HIDDEN TESTS


# %% given="by-definition"
def looks_alike(picture, other):
    """Are two pictures the same up to a common factor?"""
    a, b = (np.asarray(p, float) / max(float(np.abs(p).max()), 1e-30) for p in (picture, other))
    return a.shape == b.shape and np.allclose(a, b, atol=1e-3)


def bright(*shape, seed):
    """Random images whose pixels are all different from black, and one of 255 in each."""
    random = np.random.default_rng([seed, *shape])
    images = random.integers(20, 255, shape).astype(np.uint8)
    images[:, shape[1] // 2, shape[2] // 2, 0] = 255
    return images


# %% check="augment-each-move" points=1 see="4.2"
"""All 2s + 1 moves along both axes occur, each for as many numbers as any other (1 point)."""
dot = np.zeros((1, 9, 11, 1), np.uint8)
dot[0, 4, 5] = 255
steps = (np.arange(70) + 0.5) / 70
for axis, name in enumerate(["down", "to the right"]):
    numbers = np.full((70, 3), 0.5, np.float32)
    numbers[:, axis] = steps
    found, _, _ = augmented(np.repeat(dot, 70, axis=0), numbers, 3)
    assert (found.reshape(70, -1).max(axis=1) > 0).all(), (
        f"moved {name} by at most 3, a dot has left the image"
    )
    rows, columns = np.unravel_index(found.reshape(70, -1).argmax(axis=1), (9, 11))
    moves = np.abs(rows - 4) + np.abs(columns - 5)
    counts = [int(np.sum(moves == m)) for m in range(5)]
    assert counts == [10, 20, 20, 20, 0], (
        f"70 numbers, evenly from 0 to 1, move a dot {name} by 0, 1, 2, 3 and 4 pixels {counts} times; with "
        "s = 3 there are seven moves, -3 to 3, and each has ten of them"
    )
### BEGIN HIDDEN TESTS
for s, axis in [(4, 0), (2, 1)]:
    steps = (np.arange(5 * (2 * s + 1)) + 0.5) / (5 * (2 * s + 1))
    numbers = np.full((len(steps), 3), 0.5, np.float32)
    numbers[:, axis] = steps
    found, _, _ = augmented(np.repeat(dot, len(steps), axis=0), numbers, s)
    place = np.unravel_index(found.reshape(len(steps), -1).argmax(axis=1), (9, 11))[axis] - (4, 5)[axis]
    assert sorted(np.abs(place)) == sorted(np.abs(np.repeat(np.arange(-s, s + 1), 5))), "other moves"
numbers = np.array([[0, 0, 0.9], [1 - 2**-24, 1 - 2**-24, 0.9], [0.5, 0.5, 0.5]], np.float32)
found, _, _ = augmented(np.repeat(dot, 3, axis=0), numbers, 2)
places = [np.argwhere(picture[..., 0] > 0).tolist() for picture in found]
assert [len(p) for p in places] == [1, 1, 1], "the smallest and the largest numbers"
assert sorted(abs(r - 4) + abs(c - 5) for [[r, c]] in places) == [0, 4, 4], "the smallest and largest numbers"
### END HIDDEN TESTS

# %% check="augment-each-its-own" points=1 see="4.2"
"""Each image of a batch is moved and mirrored by its own numbers; with s = 0 only mirrored (1 point)."""
images = bright(6, 5, 7, 3, seed=1)
numbers = np.random.default_rng(2).uniform(0, 1, (6, 3)).astype(np.float32)
together, alone = (augmented(images, numbers, 2, batch)[0] for batch in (6, 1))
for i in range(6):
    assert looks_alike(alone[i], together[i]), f"image {i} of a batch is another picture than it is alone"
numbers = np.array([[0.3, 0.8, u] for u in (0.1, 0.9, 0.2, 0.8, 0.3, 0.7)], np.float32)
found, _, _ = augmented(images, numbers, 0)
for i, (image, picture) in enumerate(zip(images, found, strict=True)):
    assert not looks_alike(picture, image[::-1]), "an image has been mirrored upside down"
    assert looks_alike(picture, image[:, ::-1] if i % 2 == 0 else image), (
        f"with s = 0 and u2 = {numbers[i, 2]:.1f} an image is {'in a mirror' if i % 2 == 0 else 'as it was'}"
    )
### BEGIN HIDDEN TESTS
for shape, s in [((5, 6, 4, 1), 3), ((4, 3, 8, 2), 2)]:
    images, random = bright(*shape, seed=9), np.random.default_rng([4, *shape])
    numbers = random.uniform(0, 1, (shape[0], 3)).astype(np.float32)
    together, alone = (augmented(images, numbers, s, batch)[0] for batch in (shape[0], 1))
    assert all(map(looks_alike, together, alone)), "in a batch it is another picture than alone"
    assert len(together) == shape[0] and together.max() > 0, "other shapes"
### END HIDDEN TESTS

# %% check="augment-numbers" points=1 see="4.2"
"""Float32 from 0 to 1, 255 becomes 1; the static shape keeps height, width and channels (1 point)."""
images = np.arange(2 * 4 * 6 * 3).astype(np.uint8).reshape(2, 4, 6, 3)
images[:, 2, 3] = [255, 128, 1]
found, shape, dtype = augmented(images, np.full((2, 3), 0.6, np.float32), 0, batch=1)
assert dtype == found.dtype.name == "float32", f"the pictures are of {dtype}; float32 is expected"
assert shape[1:] == [4, 6, 3], f"in the graph the pictures have shape {shape}; a network needs H, W and C"
largest = float(found.max())
likely = {1 / 255: "it was divided by 255 twice.", 255: "nothing was divided by 255."}
likely = [words for value, words in likely.items() if math.isclose(largest, value, rel_tol=1e-4)]
assert math.isclose(largest, 1, rel_tol=1e-6), f"a pixel of 255 has become {largest:.6g}" + "".join(
    f". Likely: {words}" for words in likely
)
middle = sorted(found[0, 2, 2:4].ravel().tolist())
assert any(math.isclose(v, 128 / 255, rel_tol=1e-5) for v in middle), f"128 has become one of {middle}"
### BEGIN HIDDEN TESTS
every = np.arange(256).astype(np.uint8).reshape(1, 16, 16, 1)
found, _, _ = augmented(every, np.full((1, 3), 0.6, np.float32), 0)
assert np.allclose(np.sort(found.ravel()), np.arange(256) / 255, rtol=1e-6, atol=1e-9), "other brightness"
found, _, _ = augmented(every, np.array([[0.1, 0.9, 0.1]], np.float32), 5)
assert found.min() == 0 and found.max() <= 1 and found.shape == (1, 16, 16, 1), "moved"
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The pipeline
#
# A `tf.data` pipeline for training. It is built **once** and iterated once for each epoch. `read` fetches and
# decodes an image and is slow, as a disk or a network file system is; `augment` takes a batch and its
# numbers. What is asked:
#
# - *right*: each image once an epoch, with its own label; in another order each epoch, over the whole data
#   set; the last, smaller batch kept, unless `drop_last`;
# - *nothing twice*: a file is read once, in the first epoch, `reads` of them at a time, and never more than
#   twice as many; `augment` is called once for a batch;
# - *nothing frozen*: new numbers for each image in each epoch;
# - *nothing waits*: while the network works on a batch, the next one is made; but at most two dozen lie
#   ready, for each takes memory;
# - *repeatable*: a new pipeline with the same seed gives the same epochs, another seed none of these.
#
# Three hints. A call that waits holds a **thread**, and a data set has only as many as the machine has cores,
# unless its options say otherwise (`tf.data.Options().threading.private_threadpool_size`). A plain
# `tf.random.uniform` in a map begins anew each epoch under a global seed, as lecture 04 counted; a
# `tf.random.Generator` has a state that goes on. But when two calls at a time draw from it, nobody knows who
# comes first.
#
# **Predict** for 10 files and batches of 4: how many calls of `read` and of `augment` do three epochs take?


# %% solution="pipeline"
def pipeline(files, labels, read, augment, batch, seed, drop_last=False, reads=4):
    """A tf.data.Dataset of batches (pictures, labels): iterated once, it yields one epoch.

    files      (n,) int64: the files' numbers; labels (n,) int64
    read       read(file) -> image (H, W, C) uint8; slow; always the same for a file
    augment    augment(images (N, H, W, C) uint8, numbers (N, 3) float32 from 0 to below 1) -> (N, H, W, C)
    batch      images of a batch
    seed       an int, decides all that is random
    drop_last  leave out a last batch that is smaller
    reads      files that are read at a time
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
# How do the checks count? A *desk* stands for the disk and for the augmentation. It hands out an image for
# each file that your pipeline reads, gives back a new picture for each image that is to be augmented, and
# writes down every question. Nobody but the desk knows which image belongs to which file, and which picture
# was made of it. (TensorFlow's own optimisations, which fuse maps and append a prefetch, are switched off:
# what is counted is what you wrote.)


# %% given="desk"
SIZE, MADE = (4, 5, 1), (2, 3, 1)  # of an image from the disk, of a picture that the desk makes
PATIENCE = 10  # seconds until the desk gives up waiting for something that does not come
MOST_READY = 24  # batches that may be ready while the network works on another one


class Desk:
    """Answers for the disk and the augmentation of a pipeline over n files, and writes down what it is asked.

    hold: "reads": a read waits until `reads` of them are under way, and no other follows; "step": the first
    step, until the next batch is being made, and no other follows; "": nothing waits.
    """

    def __init__(self, n, seed, hold="", reads=0):
        random = np.random.default_rng([seed, n, 4])
        self.images = random.integers(0, 256, (n, *SIZE)).astype(np.uint8)
        self.files = random.permutation(100_000)[:n] + 1
        self.labels = random.integers(0, 10**9, n)
        self.random, self.hold, self.reads = random, hold, min(reads, n)
        self.of_file = {int(file): i for i, file in enumerate(self.files)}
        self.of_image = {image.tobytes(): i for i, image in enumerate(self.images)}
        self.of_picture, self.epochs, self.since, self.latest = {}, [], None, 0.0
        self.under_way = self.most = self.ahead = 0
        self.early = False

    def __call__(self, what, *values):
        return getattr(self, "on_" + what)(*values)

    def on_epoch(self):
        """An epoch begins: what is asked from now on belongs to it."""
        if self.early:  # what was asked before the first epoch belongs to it
            self.early = False
        else:
            self.epochs.append({"reads": [], "calls": [], "dtypes": set(), "shapes": []})

    def on_begin(self):
        """A read begins."""
        self.latest = time.monotonic()
        self.since = self.since or self.latest
        self.under_way += 1
        self.most = max(self.most, self.under_way)

    def on_go(self):
        """May a read that has begun go on?"""
        now = time.monotonic()
        return (self.most >= self.reads and now - self.latest > 0.1) or now - self.since > PATIENCE

    def on_read(self, file):
        """The image of a file."""
        self.under_way -= 1
        self.now()["reads"].append(int(file))
        place = self.of_file.get(int(file))
        return np.zeros(SIZE, np.uint8) if place is None else self.images[place]

    def on_augment(self, images, numbers):
        """A picture for each image."""
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
        """May the first step end? Where it is held, when the next batch, and all that follow, are made."""
        now, begun = time.monotonic(), self.begun(size)
        self.since = self.since or now
        if begun < 2:
            return now - self.since > PATIENCE
        return begun > MOST_READY + 1 or now - self.latest > 0.5

    def on_held(self, size):
        """The first step ends."""
        self.ahead = self.begun(size) - 1

    def begun(self, size):
        """How many batches of this size have been begun in this epoch."""
        return math.ceil(sum(len(places) for places, _ in self.now()["calls"]) / max(1, size))

    def now(self):
        """The notes of this epoch (before the first, of the first)."""
        if not self.epochs:
            self.on_epoch()
            self.early = True
        return self.epochs[-1]

    def take(self, seen):
        """Note what the pipeline gave: for each epoch a list of batches (pictures, labels)."""
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
    """Iterate your pipeline, with the desk as its disk and augmentation: [[(pictures, labels), …], …]."""
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
    """The labels of an epoch of your pipeline over many files, without a desk, as they come."""

    def read(file):
        return tf.fill(SIZE, tf.cast(file % 251, tf.uint8))

    def augment(images, numbers):
        return tf.cast(images, tf.float32) / 255

    data = pipeline(files, labels, read, augment, batch, seed, False, 4)
    batches = [labels_of.numpy() for _, labels_of in data.take(len(files) // batch + 1)]
    return np.concatenate([np.zeros(0, int), *batches])


# %% given="fed"
NOTES = {}  # of the pipelines that were iterated already, by what they were asked


def fed(by, n=10, batch=4, epochs=2, seed=1, drop_last=False, reads=2, hold="", of=0):
    """The notes of a Desk about a pipeline that was iterated; by: the function `feed`, of: which images.

    The same question about the same `pipeline` is asked once.
    """
    case = (n, batch, epochs, seed, drop_last, reads, hold, of)
    mine = getattr(by, "__globals__", {}).get("pipeline")
    if NOTES.get(case, (None, None))[0] is not mine or case not in NOTES:
        desk = Desk(n, of, hold, reads)
        seen = by(desk.files, desk.labels, batch, seed, drop_last, reads, epochs, hold, desk)
        NOTES[case] = mine, desk.take(seen)
    return NOTES[case][1]


def in_words(places):
    """Some numbers of images, as text."""
    return ", ".join(str(int(p)) for p in places[:12]) + (" …" if len(places) > 12 else "")


# %%
notes = fed(feed, n=10, batch=4, epochs=3, seed=7)
for number, epoch in enumerate(notes.epochs, 1):
    print(f"epoch {number}: {len(epoch['reads'])} reads, {len(epoch['calls'])} calls of augment, ", end="")
    print(f"batches of {epoch['sizes']}; images {in_words(epoch['order'])}")

# %% check="labels-stay" points=1 see="4.2"
"""Each picture comes with the label of the image that it was made of, in each epoch (1 point)."""


def labels_stay(notes):
    """Assert that each picture has the label of its image."""
    for number, epoch in enumerate(notes.epochs, 1):
        order, labels = epoch["order"], epoch["labels"]
        assert len(order) == len(labels) > 0, f"epoch {number}: {len(order)} pictures, {len(labels)} labels"
        assert (order >= 0).all(), (
            f"epoch {number}: {np.sum(order < 0)} of {len(order)} pictures were not made by "
            "`augment` of images that `read` has given"
        )
        wrong = np.sum(notes.labels[order] != labels)
        assert not wrong, f"epoch {number}: {wrong} of {len(order)} pictures have the label of another image"


labels_stay(fed(feed, n=10, batch=4, epochs=3))
### BEGIN HIDDEN TESTS
labels_stay(fed(feed, n=17, batch=5, epochs=3, seed=17, of=17))
### END HIDDEN TESTS

# %% check="each-image-once" points=1 see="4.2"
"""Each epoch has each image exactly once (1 point)."""


def each_once(notes, n):
    """Assert that an epoch has each of n images once."""
    for number, epoch in enumerate(notes.epochs, 1):
        counts = np.bincount(epoch["order"][epoch["order"] >= 0], minlength=n)
        assert len(epoch["order"]) == n and (counts == 1).all(), (
            f"epoch {number} has {len(epoch['order'])} pictures of {n} images; {np.sum(counts == 0)} of "
            f"these do not come, {np.sum(counts > 1)} come more than once"
        )


each_once(fed(feed, n=10, batch=4, epochs=3), 10)
### BEGIN HIDDEN TESTS
for n, batch in [(17, 5), (5, 9)]:
    each_once(fed(feed, n=n, batch=batch, epochs=3, seed=n, of=n), n)
### END HIDDEN TESTS

# %% check="last-batch" points=1 see="4.4"
"""Ten images by four: batches of 4, 4 and 2, or with drop_last of 4 and 4 (1 point)."""


def sizes_are(want, **case):
    """Assert that the batches of each epoch have these sizes."""
    for number, epoch in enumerate(fed(feed, **case).epochs, 1):
        assert epoch["sizes"] == want, (
            f"epoch {number} of {case['n']} images by {case['batch']}, with drop_last={case['drop_last']}, "
            f"has batches of {epoch['sizes']}, not of {want}"
        )


sizes_are([4, 4, 2], n=10, batch=4, epochs=3, drop_last=False)
sizes_are([4, 4], n=10, batch=4, epochs=3, drop_last=True)
### BEGIN HIDDEN TESTS
sizes_are([5, 5, 5, 2], n=17, batch=5, epochs=3, seed=17, drop_last=False, of=17)
sizes_are([6, 6], n=12, batch=6, drop_last=True, of=5)
sizes_are([5], n=5, batch=9, epochs=3, seed=5, drop_last=False, of=5)
left_out = set()
for epoch in fed(feed, n=29, batch=10, epochs=12, drop_last=True, of=7).epochs:
    left_out |= set(range(29)) - set(epoch["order"].tolist())
assert len(left_out) > 9, "with drop_last it is always the same images that are left out"
### END HIDDEN TESTS

# %% check="read-once" points=1 see="4.2"
"""A file is read in the first epoch, once, and never again (1 point)."""


def read_once(notes, n):
    """Assert that the first epoch has read each file once, and the others none."""
    first, *others = [epoch["reads"] for epoch in notes.epochs]
    assert sorted(first) == sorted(notes.files.tolist()), (
        f"the first epoch has read {len(first)} files, {len(set(first))} different ones, of {n}"
    )
    for number, again in enumerate(others, 2):
        assert not again, (
            f"epoch {number} has read {len(again)} files again; what is the same in each epoch can be kept"
        )


read_once(fed(feed, n=10, batch=4, epochs=3), 10)
### BEGIN HIDDEN TESTS
read_once(fed(feed, n=17, batch=5, epochs=3, seed=17, of=17), 17)
### END HIDDEN TESTS

# %% check="augment-once-a-batch" points=1 see="4.2"
"""`augment` gets whole batches of bytes and three numbers for each image, once a batch (1 point)."""


def once_a_batch(notes):
    """Assert that each epoch augments as many batches as it gives, of these sizes."""
    for number, epoch in enumerate(notes.epochs, 1):
        calls, batches = epoch["shapes"], epoch["sizes"]
        assert calls, (
            f"epoch {number} has not called `augment` at all: its pictures are those of an earlier epoch"
        )
        assert len(calls) == len(batches), (
            f"epoch {number} has called `augment` {len(calls)} times for {len(batches)} batches; a call has "
            "a price, whatever is in it"
        )
        for (images, numbers), size in zip(sorted(calls), sorted(batches), strict=True):
            assert images == (size, *SIZE), f"`augment` was given images {images}, for a batch of {size}"
            assert numbers == (size, 3), f"`augment` was given numbers of shape {numbers} for {size} images"
        assert epoch["dtypes"] == {"images of uint8", "numbers of float32"}, (
            f"`augment` was given {' and '.join(sorted(epoch['dtypes']))}; images are bytes until they are "
            "augmented (a cache of float32 takes four times the memory), numbers are float32"
        )


once_a_batch(fed(feed, n=10, batch=4, epochs=3))
### BEGIN HIDDEN TESTS
once_a_batch(fed(feed, n=17, batch=5, epochs=3, seed=17, of=17))
### END HIDDEN TESTS

# %% check="new-order" points=2 see="4.2"
"""Another order each epoch, other images together in a batch, from the whole data set (2 points)."""


def together(epoch):
    """The pairs of images that are in one batch of an epoch."""
    cuts = np.cumsum([0, *epoch["sizes"]])
    batches = [epoch["order"][a:b].tolist() for a, b in itertools.pairwise(cuts)]
    return {frozenset((i, j)) for batch in batches for i in batch for j in batch if i < j}


def new_order(notes, n, batch):
    """Assert that the epochs have different orders, and do so as images, over all of them."""
    orders = [epoch["order"] for epoch in notes.epochs]
    for number, (before, now) in enumerate(itertools.pairwise(orders), 2):
        assert not np.array_equal(before, now), (
            f"epoch {number} has the order of the one before: {in_words(now)}"
        )
    pairs = set().union(*map(together, notes.epochs))
    possible = n * (n - 1) // 2
    assert len(pairs) > 0.4 * possible, (
        f"in {len(orders)} epochs only {len(pairs)} of {possible} pairs of images are together in a batch: "
        "the same ones meet again and again. It is the images that should be shuffled"
    )
    from_the_end(orders, n, 0.7)


def from_the_end(orders, n, part):
    """Assert that some image comes early, by so large a part of the list of files."""
    early = max((int(np.max(order - np.arange(len(order)))) for order in orders if len(order)), default=0)
    assert early >= part * n, (
        f"of {n:,} images none comes more than {early:,} places before its place in the list of files: what "
        "lies far behind never comes early. A shuffle mixes what its buffer holds"
    )


def new_order_of_many(n, batch, seed):
    """Assert that so many images are shuffled over the whole data set."""
    labels = np.random.default_rng([n, 6]).permutation(10 * n)[:n]
    found = feed_many(np.arange(n), labels, batch, seed)
    places = dict(zip(labels.tolist(), range(n), strict=True))
    from_the_end([np.array([places.get(int(label), -1) for label in found], int)], n, 0.9)


new_order(fed(feed, n=40, batch=4, epochs=10), 40, 4)
new_order_of_many(12_000, 500, 1)
### BEGIN HIDDEN TESTS
new_order(fed(feed, n=36, batch=6, epochs=12, seed=4, of=31), 36, 6)
new_order_of_many(3_000, 100, 5)
### END HIDDEN TESTS

# %% check="new-numbers" points=2 see="4.2"
"""Every image has other random numbers in each epoch; no two images of an epoch share theirs (2 points)."""


def all_numbers(notes):
    """The numbers by which the pictures of all epochs were made: (pictures, 3)."""
    rows = [row for epoch in notes.epochs for row in epoch["numbers"]]
    assert rows and {len(row) for row in rows} == {3}, "each image needs three numbers"
    return np.array(rows, float)


def new_numbers(notes):
    """Assert that all numbers of all epochs are different, and evenly distributed."""
    numbers, epochs = all_numbers(notes), len(notes.epochs)
    distinct = len(np.unique(numbers, axis=0))
    assert distinct == len(numbers), (
        f"over {epochs} epochs {len(numbers)} pictures were made with {distinct} different triples of numbers"
    )
    single = len(np.unique(numbers))
    assert single > 0.95 * numbers.size, f"of {numbers.size} numbers only {single} are different"
    assert numbers.min() >= 0 and numbers.max() < 1, (
        f"numbers from {numbers.min():.3g} to {numbers.max():.3g}"
    )
    mean, low, high = numbers.mean(), *np.quantile(numbers, [0.25, 0.75])
    assert abs(mean - 0.5) < 0.1 and abs(low - 0.25) < 0.13 and abs(high - 0.75) < 0.13, (
        f"the numbers have mean {mean:.2f} and quartiles {low:.2f} and {high:.2f}: not evenly from 0 to 1"
    )


new_numbers(fed(feed, n=40, batch=4, epochs=10))
### BEGIN HIDDEN TESTS
new_numbers(fed(feed, n=36, batch=6, epochs=12, seed=4, of=31))
new_numbers(fed(feed, n=40, batch=40, epochs=4, seed=0, of=42))
### END HIDDEN TESTS

# %% check="seed-decides" points=1 see="4.2"
"""The same seed gives the same orders and numbers, another seed none of these (1 point)."""


def story(seed, of=0, **case):
    """(orders, numbers) of the epochs of a new pipeline with this seed."""
    notes = fed(feed, seed=seed, of=of, **case)
    orders, numbers = [epoch["order"].tolist() for epoch in notes.epochs], all_numbers_of(notes)
    assert any(orders), f"with seed {seed} no image comes out of the pipeline"
    assert any(numbers), f"with seed {seed} `augment` is given no numbers"
    return orders, numbers


def all_numbers_of(notes):
    return [np.ravel(row).tolist() for epoch in notes.epochs for row in epoch["numbers"]]


def in_common(one, other):
    """How many of these lists are in both."""
    return len({tuple(each) for each in one if each} & {tuple(each) for each in other if each})


case = dict(n=24, batch=3, epochs=2)
(orders, numbers), (again, numbers_again), (others, other_numbers) = (
    story(seed, of, **case) for seed, of in [(3, 0), (3, 1), (4, 0)]
)
assert orders == again, "two pipelines with the same seed give the images in different orders"
assert numbers == numbers_again, "two pipelines with the same seed augment with different numbers"
same = in_common(orders, others), in_common(numbers, other_numbers)
assert not same[0], (
    f"seed 4 gives {same[0]} of the {len(orders)} orders of seed 3, in the same or another epoch"
)
assert not same[1], (
    f"seed 4 gives {same[1]} of the {len(numbers)} triples of numbers of seed 3, in some epoch"
)
### BEGIN HIDDEN TESTS
case = dict(n=20, batch=3, epochs=3)
assert story(11, of=51, **case) == story(11, of=52, **case), "the same seed, other images: other epochs"
seen = [story(seed, of=51, **case) for seed in (0, 1, 11)]
assert not any(in_common(a[j], b[j]) for i, a in enumerate(seen) for b in seen[:i] for j in (0, 1)), "others"
### END HIDDEN TESTS

# %% check="reads-at-a-time" points=1 see="4.2"
"""Three files are read at a time, then as many as asked for, at most twice as many (1 point)."""


def at_a_time(reads, n, of=0):
    """Assert that `reads` files are being read at one time."""
    notes = fed(feed, n=n, batch=4, epochs=1, reads=reads, hold="reads", of=of)
    assert notes.most >= reads, (
        f"at most {notes.most} files were being read at one time; {reads} are asked for. A read that waits "
        "holds a thread, and calls in parallel need as many of them"
    )
    assert notes.most <= 2 * reads, (
        f"{notes.most} files were being read at one time; {reads} are asked for, at most twice as many: "
        "others use the disk as well"
    )


at_a_time(3, 9)
### BEGIN HIDDEN TESTS
at_a_time(40, 44, of=61)
### END HIDDEN TESTS

# %% check="next-batch-is-made" points=1 see="4.2"
"""While the network works on the first batch, the second one is made, and not the whole epoch (1 point)."""


def made_ahead(**case):
    """Assert that a held step finds the next batch begun."""
    notes = fed(feed, hold="step", epochs=1, **case)
    assert (notes.epochs[0]["order"] >= 0).all(), "the pictures are not those that `augment` has made"
    assert notes.ahead >= 1, (
        f"while the first step worked, `augment` was called for {notes.ahead} other batches: the device will "
        "have to wait for each of them"
    )
    assert notes.ahead <= MOST_READY, (
        f"while the first step worked, {notes.ahead} other batches were made, if not more; {MOST_READY} may "
        "lie ready, in a prefetch and in a parallel map together. Each takes memory, and a place helps only "
        "where the input comes in bursts"
    )


made_ahead(n=44, batch=1)
### BEGIN HIDDEN TESTS
made_ahead(n=71, batch=2, drop_last=True, of=71)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Who waits for whom?
#
# A profiler leaves *events*: `(phase, begin, end)`, in seconds, in no order. Events of one phase may lie on
# top of each other, as sixteen reads at a time do. How long was *something* being read? And how long was
# something being read *while* the device worked?


# %% solution="both-busy"
def both_busy(events, phases):
    """Seconds during which all of these phases are under way at the same time, as a float.

    events     [(phase, begin, end), …] in any order; those of one phase may overlap
    phases     a list of names; with one name: the seconds in which this phase is under way

    A phase is under way as long as at least one of its events is.
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

# %% check="profile-busy" points=1 see="4.1"
"""Reads from 0 to 4, 1 to 5 and 6 to 8 are under way for 7 seconds, 2 of them beside a step (1 point)."""
some = [("read", 6.0, 8.0), ("read", 0.0, 4.0), ("step", 4.0, 7.0), ("read", 1.0, 5.0), ("step", 8.0, 9.0)]
expect(
    float(both_busy(some, ["read"])),
    7.0,
    {
        "reads that lie on top of each other were counted twice.": 10.0,
        "the pause between 5 and 6 was counted.": 8.0,
    },
    "the seconds in which something is read",
)
expect(
    float(both_busy(some, ["read", "step"])),
    2.0,
    {
        "that is when one *or* the other is under way.": 9.0,
        "that is the sum of both.": 11.0,
        "all of the first or the last phase was counted.": 4.0,
    },
    "the seconds in which something is read while a step runs",
)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(14)
for count, phases in [(12, ["a"]), (30, ["a", "b"]), (40, ["c", "a", "b"]), (25, ["b", "c"]), (6, ["d"])]:
    begins, lengths = rng.integers(0, 60, count), rng.integers(0, 9, count)
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
    assert math.isclose(found, want, abs_tol=1e-9), "the events of another profile"
begins = rng.uniform(0, 0.02, 20)  # of a profiler with a finer clock
events = [("a" if i % 2 else "b", float(t), float(t + 0.0013 + i * 1e-5)) for i, t in enumerate(begins)]
changes = sorted((t, by, name) for name, *ends in events for t, by in zip(ends, (1, -1), strict=True))
for phases in (["a"], ["b"], ["b", "a"]):
    running, want, before = {"a": 0, "b": 0}, 0.0, 0.0
    for at, by, name in changes:
        want += (at - before) * all(running[phase] for phase in phases)
        running[name], before = running[name] + by, at
    assert math.isclose(float(both_busy(events, phases)), want, abs_tol=1e-9), "a profile in microseconds"
### END HIDDEN TESTS

# %% [markdown]
# The device is idle from time to time, and each time something else is under way. That is what it waits for.


# %% solution="waited-for"
def waited_for(events):
    """What the device waits for: {phase: seconds in which it is under way and no step is}.

    events     [(phase, begin, end), …] in any order; the device's phase is "step"

    Only what lies before the end of the last step counts. Every phase but "step" that has an event has an
    entry, with 0.0 where it never keeps the device waiting. Where several phases are under way, each has the
    seconds.
    """
    ### BEGIN SOLUTION
    last = max(end for phase, _, end in events if phase == "step")
    before = [(phase, min(begin, last), min(end, last)) for phase, begin, end in events]
    others = {phase for phase, _, _ in events} - {"step"}
    seconds = {p: both_busy(before, [p]) - both_busy(before, [p, "step"]) for p in others}
    ### END SOLUTION
    return seconds


# %%
waited_for(
    [("read", 0, 4), ("decode", 3, 5), ("step", 5, 8), ("read", 5, 9), ("step", 10, 11), ("read", 10, 15)]
)

# %% check="profile-waits" points=1 see="4.1"
"""What is under way while the device is idle, until its last step ends (1 point)."""
some = [("step", 5.0, 8.0), ("read", 0.0, 4.0), ("decode", 3.0, 5.0), ("read", 5.0, 9.0)]
some += [("read", 10.0, 15.0), ("step", 10.0, 11.0), ("copy", 5.5, 6.0)]
if not has_failed("profile-busy"):  # which is to blame for what follows from it
    expect(
        {phase: round(float(t), 9) for phase, t in waited_for(some).items()},
        {"read": 5.0, "decode": 2.0, "copy": 0.0},
        {
            "a phase that never keeps the device waiting has an entry of 0.": {"read": 5.0, "decode": 2.0},
            "what comes after the last step keeps nobody waiting.": {"read": 9.0, "decode": 2.0, "copy": 0.0},
            "what is under way beside a step does not keep it waiting.": {
                "read": 13.0,
                "decode": 2.0,
                "copy": 0.5,
            },
            "the wait before the first step counts as well.": {"read": 1.0, "decode": 0.0, "copy": 0.0},
        },
        "what the device waits for",
    )
### BEGIN HIDDEN TESTS


def by_endpoints(events, phases):
    """What both_busy should be: seconds in which all of these phases are under way."""
    changes = sorted((t, by, phase) for phase, *ends in events for t, by in zip(ends, (1, -1), strict=True))
    under_way, seconds, before = dict.fromkeys(phases, 0), 0.0, 0.0
    for at, by, phase in changes:
        seconds += (at - before) * all(under_way.values())
        before = at
        if phase in under_way:
            under_way[phase] += by
    return seconds


rng = np.random.default_rng(15)
for count in (15, 40, 60):
    begins, lengths = rng.integers(0, 60, count), rng.integers(1, 7, count)
    names = ["step", *rng.choice(["a", "b", "step", "c"], count - 1).tolist()]
    grid = {phase: np.zeros(80, bool) for phase in set(names)}
    for name, begin, length in zip(names, begins, lengths, strict=True):
        grid[name][begin : begin + length] = True
    idle = ~grid["step"] & (np.arange(80) < grid["step"].nonzero()[0][-1])
    want = {name: float(0.5 * np.sum(row & idle)) for name, row in grid.items() if name != "step"}
    events = [
        (name, 0.5 * float(begin), 0.5 * float(begin + length))
        for name, begin, length in zip(names, begins, lengths, strict=True)
    ]
    with watched("both_busy", by_endpoints):
        found = {phase: round(float(t), 9) for phase, t in waited_for(events).items()}
    expect(found, want, name="what the device waits for in another profile")
### END HIDDEN TESTS

# %% [markdown]
# And your own pipeline? A sleep stands for the disk and another one for the device, so that two cores do not
# matter; both are noted as events. (Your numbers are of this minute, and nothing is judged by them.)


# %% given="profiled"
def profiled(reads, n=64, batch=8, disk=0.004, device=0.02):
    """Events of two epochs of your pipeline, with sleeps for work."""
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
# *The figure:* two timelines with a row each for read, augment and step, two epochs long. At the left only
# reads; with one at a time they stand in a row, with eight they lie on top of each other and are over sooner.
# Then the steps follow each other closely, with augment beside them. After a gap, in which TensorFlow begins
# anew, the second epoch, in which nothing is read.
#
# Look at the first epoch: where does the first step begin? A shuffle over the whole data set waits until its
# buffer is full.
#
# ## 4. Predict a lever
#
# **How many images a second?** Every stage works beside all others (there is enough prefetch). A stage
# takes some *seconds* for an image, works on `calls` images at a time, and either *computes*, on a core, or
# only *waits*, which needs none. The slowest thing decides. There are three kinds: a stage that waits; a
# stage that computes, which cannot use more cores than there are, nor more than it has calls; and all
# computing stages together, which share the cores.


# %% solution="images-per-second"
def images_per_second(stages, cores):
    """Images a second of stages that all work beside each other, as a float.

    stages     [(seconds, calls, computes), …]: of an image, images at a time, True if it needs a core
    cores      of the machine
    """
    ### BEGIN SOLUTION
    least = [t / (min(calls, cores) if computes else calls) for t, calls, computes in stages]
    together = sum(t for t, _, computes in stages if computes) / cores
    rate = 1 / max(*least, together)
    ### END SOLUTION
    return rate


# %%
print(images_per_second([(0.012, 4, False), (0.002, 2, True), (0.001, 1, True), (0.0025, 1, True)], cores=2))

# %% check="throughput" points=1 see="4.2"
"""Four cases, in each of which something else decides (1 point)."""
disk, decode, augmentation, step = (0.006, 3, False), (0.002, 2, True), (0.001, 1, True), (0.002, 1, True)
cases = {
    "all computing stages together, 5 ms on 2 cores": ([disk, decode, augmentation, step], 2, 400.0),
    "the disk: 6 ms, three at a time": ([disk, decode, augmentation, step], 8, 500.0),
    "the step: 4 ms, one at a time, on 8 cores": ([disk, decode, augmentation, (0.004, 1, True)], 8, 250.0),
    "decoding, 6 ms with 16 calls on 2 cores": ([(0.006, 16, True)], 2, 2 / 0.006),
    "the disk again: 16 reads of 8 ms need no cores": ([(0.008, 16, False), (0.001, 1, True)], 1, 1000.0),
}
for what, (stages, cores, want) in cases.items():
    expect(
        round(float(images_per_second(stages, cores)), 6),
        round(want, 6),
        {
            "the stages were added up, as if they did not work beside each other.": round(
                1 / sum(t for t, _, _ in stages), 6
            ),
            "the computing stages share the cores; that was left out.": round(
                1 / max(t / (min(c, cores) if on else c) for t, c, on in stages), 6
            ),
            "a stage that waits needs no core.": round(
                1 / max(*(t / min(c, cores) for t, c, _ in stages), sum(t for t, _, _ in stages) / cores), 6
            ),
        },
        f"images a second, where what decides is {what},",
    )
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(16)
for cores in (1, 2, 3, 8, 64):
    for _ in range(12):
        stages = [
            (float(t), int(c), bool(on))
            for t, c, on in zip(
                rng.uniform(1e-4, 1e-2, 4), rng.integers(1, 9, 4), rng.integers(0, 2, 4), strict=True
            )
        ]
        bounds = [t / c for t, c, on in stages] + [t / cores for t, c, on in stages if on]
        want = 1 / max(*bounds, sum(t for t, _, on in stages if on) / cores)
        found = float(images_per_second(stages, cores))
        assert math.isclose(found, want, rel_tol=1e-9), "the throughput of other stages"
### END HIDDEN TESTS

# %% [markdown]
# Throughput is an average, and averages hide what comes in bursts. So follow a run batch by batch. The input
# makes batch after batch, in its own time; a *buffer* of b places stands between input and device.
#
# - Without a buffer (b = 0) nothing overlaps: make a batch, do the step, make the next.
# - With b ≥ 1 the input begins batch i when it has finished batch i − 1 **and** batch i − b has been taken by
#   the device, so that there is a place for it (the first b batches find theirs empty).
# - The device takes batch i when it is made and the step before is over. Then the step begins.


# %% solution="run-seconds"
def run_seconds(produce, steps, buffer):
    """Seconds until the last step ends, as a float.

    produce    [seconds] that the input needs for each batch
    steps      [seconds] of the device for each, of the same length
    buffer     places between them, an int from 0 on
    """
    assert len(produce) == len(steps) > 0
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

# %% check="run-by-hand" points=1 see="4.2"
"""Three batches of 2 s, steps of 3, 1 and 3 s: 13 s without a buffer, then 10 s, then 9 s (1 point)."""
hints = {
    0: {"the buffer has no place, and still something overlaps.": 10.0, "that is with two places.": 9.0},
    1: {
        "the first batch has to be made before a step can begin.": 7.0,
        "a batch that is being made needs a place as well; there was one too many.": 9.0,
        "there was a place too few.": 13.0,
    },
    2: {
        "the first batch has to be made before a step can begin.": 7.0,
        "there was a place too few.": 10.0,
    },
}
for buffer, want in [(0, 13.0), (1, 10.0), (2, 9.0), (3, 9.0)]:
    found = float(run_seconds([2.0, 2.0, 2.0], [3.0, 1.0, 3.0], buffer))
    expect(found, want, hints.get(buffer), f"the seconds with {buffer} places")
### BEGIN HIDDEN TESTS
expect(float(run_seconds([5.0], [2.0], 0)), 7.0, name="one batch, no buffer")
expect(float(run_seconds([5.0], [2.0], 4)), 7.0, name="one batch, four places")
expect(float(run_seconds([1.0, 1.0, 1.0, 6.0], [4.0, 1.0, 1.0, 1.0], 1)), 13.0, name="another run by hand")
### END HIDDEN TESTS

# %% check="run-buffers" points=1 see="4.2"
"""Steady input, and input in bursts; a larger buffer never hurts, and at last nothing changes (1 point)."""
steady, bursts = [3.0] * 12, [1.0, 1.0, 1.0, 9.0] * 3
times = [[float(run_seconds(produce, [4.0] * 12, b)) for b in range(8)] for produce in (steady, bursts)]
for what, found in zip(("steady", "in bursts"), times, strict=True):
    assert found[0] == 84.0, f"input {what}, no buffer: {found[0]} s; 12 times 3 and 4 s are 84 s"
    assert all(a >= b for a, b in itertools.pairwise(found)), f"a larger buffer hurts: {found}"
assert times[0][1:] == [51.0] * 7, (
    f"steady input of 3 s and steps of 4 s: {times[0][1]} s with one place; 3 s, and then step after step"
)
assert times[1][1] > times[1][2] > times[1][3], (
    f"input in bursts gains by a larger buffer, not so here: {times[1]}"
)
### BEGIN HIDDEN TESTS


def by_events(produce, steps, buffer):
    """The same, by letting a clock tick over whole seconds."""
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


rng = np.random.default_rng(17)
for count in (1, 2, 5, 20, 40):
    for buffer in (0, 1, 2, 3, 7):
        produce, steps = (rng.integers(1, 12, count).tolist() for _ in range(2))
        found = float(run_seconds([float(p) for p in produce], [float(t) for t in steps], buffer))
        assert math.isclose(found, by_events(produce, steps, buffer), abs_tol=1e-6), "another run"
### END HIDDEN TESTS

# %% [markdown]
# Which lever first? One more place in the buffer costs a word; an input twice as fast an afternoon; a device
# twice as fast money.


# %% solution="best-lever"
def best_lever(produce, steps, buffer):
    """Which change makes the run shortest: "buffer", "input" or "step"?

    "buffer": one place more; "input": all of produce halved; "step": all of steps halved. Of equally good
    ones the cheapest: "buffer" before "input" before "step". Uses run_seconds.
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

# %% check="lever-found" points=1 see="4.6"
"""The lever that leaves the shortest run, and of equals the cheapest (1 point)."""
for produce, steps, buffer, want in [
    ([4.0] * 9, [3.0] * 9, 0, "buffer"),
    ([4.0] * 9, [1.0] * 9, 1, "input"),
    ([2.0] * 9, [5.0] * 9, 1, "step"),
    ([1.0, 1.0, 1.0, 9.0] * 4, [3.5] * 16, 1, "step"),
]:
    found = best_lever(produce, steps, buffer)
    assert found == want, (
        f"input {in_words(produce)}, steps {in_words(steps)}, {buffer} places: {found} was chosen, and "
        f"{want} leaves a shorter run (or one that is as short and cheaper)"
    )
### BEGIN HIDDEN TESTS


def another_machine(for_input, for_steps, for_places):
    """A run_seconds of a machine in which everything counts otherwise."""
    return lambda produce, steps, buffer: round(
        1000.0 + sum(produce) * for_input + sum(steps) * for_steps - buffer * for_places, 6
    )


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
    with watched("run_seconds", another_machine(*weights)) as calls:
        found = best_lever([4.0, 2.0, 6.0], [8.0, 1.0, 3.0], 2)
    assert calls.count >= 3, "three levers are compared by run_seconds"
    assert found == want, "by other runs another lever is the best"
### END HIDDEN TESTS

# %% [markdown]
# ## 5. What should a cache keep?
#
# The lecture's cache kept decoded images, and left open what to keep if they do not fit. The stages of a
# pipeline stand in their order, each with the *seconds* and the *bytes* of an image that comes out of it,
# and whether it is *random*. A cache behind a stage saves the seconds of all stages up to there, in every
# epoch but the first. It must not freeze what is random, and n images must fit into the memory.


# %% solution="place-cache"
def place_cache(stages, n, memory):
    """Behind how many stages to put the cache, an int; 0 if none is possible.

    stages     [(seconds, bytes, random), …] in their order: of an image in that stage, of what comes out
    n, memory  images; bytes that the cache may take

    Of the possible places the one that saves the most seconds; of equals the one with the fewest bytes.
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
"""Files, decoded images or floats, whatever fits; never behind what is random (1 point)."""
stages = [(1.5e-3, 4_200, False), (0.4e-3, 16_384, False), (0.1e-3, 65_536, False), (0.2e-3, 3_136, True)]
hints = {"a cache behind the random stage keeps one picture of each image for ever.": 4}
for memory, want in [(100, 0), (300, 1), (1_000, 2), (8_000, 3), (252, 1)]:
    found = place_cache(stages, 60_000, memory * 10**6)
    assert found == want, (
        f"60,000 images and {memory} MB: behind {found} stages, and {want} is right"
        + "".join(f". Likely: {words}" for words, wrong in hints.items() if found == wrong)
    )
small = [(1e-3, 9_000, False), (2e-3, 500, False), (0.0, 700, False), (1e-3, 100, False)]
expect(place_cache(small, 1_000, 10**6), 4, name="the place where the last stage is the smallest")
expect(place_cache(small[:3], 1_000, 10**6), 2, name="the place where the third stage takes no time")
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(18)
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
        assert found == 0, "no place is possible"
        continue
    assert 1 <= found <= count and not any(r for _, _, r in stages[:found]), "a place that is none"
    assert n * stages[found - 1][1] <= memory, "it does not fit"
    assert (sum(t for t, _, _ in stages[:found]), -stages[found - 1][1]) == max(possible)[:2], "another place"
assert place_cache([(1.0, 100, True), (1.0, 10, False)], 10, 10**9) == 0, "random from the beginning"
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Which batch for a given memory?
#
# Assignment 03 counted parameters and outputs of a plain step. A real one is more careful, and so is its
# count. The network is a list of rows `(kind, outputs, trained, fixed)`: numbers that a layer puts out for an
# image, its parameters that are trained, and those that are not (the running mean and variance of a batch
# normalisation). The first row is the input.
#
# - Parameters are float32: a trained one has its weight, its gradient and the optimizer's *slots* (none for
#   plain SGD, 1 for momentum, 2 for Adam), a fixed one is just itself. All of that does not depend on the
#   batch.
# - For the way back the outputs of all rows are kept, in `itemsize` bytes, but those of kind "relu": a ReLU
#   overwrites what it gets.
# - In short numbers (`itemsize` less than 4) there is besides one copy of the trained weights in `itemsize`.
# - `ahead` further batches of the input wait on the device: your prefetch.


# %% solution="step-bytes"
def step_bytes(rows, batch, slots=1, itemsize=4, ahead=1):
    """Bytes that a training step holds, an int.

    rows       [(kind, outputs of an image, trained, fixed), …], the first one is the input
    batch      images; slots: of the optimizer, for each trained parameter; itemsize: bytes of an output
    ahead      batches of the input that wait
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
    """The rows of a chain of layers for images of a shape (H, W, C)."""
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
    """Convolution, normalisation, ReLU."""
    return [("conv", K, 3, stride), ("norm",), ("relu",)]


BLOCKS = block(64) * 3 + block(128, 2) + block(128) * 3 + block(256, 2) + block(256) * 3
NETWORK = rows_of([*BLOCKS, ("pool",), ("dense", 100)], (64, 64, 3))

# %%
for batch in (1, 64, 256):
    print(batch, [f"{step_bytes(NETWORK, batch, itemsize=size) / 1e6:.0f} MB" for size in (4, 2)])

# %% check="bytes-by-hand" points=1 see="4.3"
"""139 trained and 4 fixed parameters, 57 numbers kept of an image and 12 waiting, 10 images (1 point)."""
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
        "a ReLU keeps nothing of its own.": 5244,
        "the gradients are missing, or the optimizer's slots.": 3888,
        "gradients and slots are missing.": 3332,
        "fixed parameters have no gradient and no slot.": 4476,
        "the fixed parameters are missing.": 4428,
        "the input that waits is missing, or the one that is being worked on.": 3964,
        "that is the memory for one image.": 1960,
        "numbers were counted, not bytes.": 1111,
    },
    "step_bytes(tiny, 10)",
)
expect(
    step_bytes(tiny, 10, slots=2, itemsize=2, ahead=0),
    4 * (139 * 4 + 4) + 2 * 139 + 10 * 2 * 57,
    {
        "the copy of the weights in short numbers is missing.": 4 * (139 * 4 + 4) + 10 * 2 * 57,
        "weights, gradients and slots stay in float32.": 2 * (139 * 4 + 4) + 2 * 139 + 10 * 2 * 57,
        "outputs are kept in short numbers.": 4 * (139 * 4 + 4) + 2 * 139 + 10 * 4 * 57,
    },
    "step_bytes(tiny, 10, slots=2, itemsize=2, ahead=0)",
)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(19)
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
huge = [("input", 10**16 + 1, 0, 0), ("dense", 3, 10**17 + 3, 0)]
expect(step_bytes(huge, 7), 12 * (10**17 + 3) + 28 * (2 * 10**16 + 5), name="a very large network")
### END HIDDEN TESTS

# %% [markdown]
# The largest batch that fits: processors like multiples of 8, or of 32. And if the batch that you want does
# not fit, split it: do the parts one after the other, add up their gradients (in the place that the
# gradients have anyway), and update once.


# %% solution="largest-batch"
def largest_batch(rows, memory, multiple=1, **how):
    """The largest multiple of `multiple` whose step fits into `memory` bytes, an int; 0 if none fits.

    how: slots, itemsize and ahead, as for step_bytes, which it uses; its bytes are a line over the batch.
    """
    ### BEGIN SOLUTION
    fixed = step_bytes(rows, 0, **how)
    image = step_bytes(rows, 1, **how) - fixed
    batch = max(0, memory - fixed) // image // multiple * multiple
    ### END SOLUTION
    return batch


# %% solution="parts"
def fewest_parts(rows, batch, memory, **how):
    """In how many equal parts to split a batch so that a part fits into `memory` bytes: the fewest, an int.

    All parts have the same number of images. Raises ValueError where not one image fits. Uses step_bytes.
    """
    ### BEGIN SOLUTION
    for parts in range(1, batch + 1):
        if batch % parts == 0 and step_bytes(rows, batch // parts, **how) <= memory:
            break
    else:
        raise ValueError(f"{memory} bytes do not hold one image")
    ### END SOLUTION
    return parts


# %%
for memory in (0.5e9, 2e9, 12e9):
    largest = [largest_batch(NETWORK, int(memory), 8, itemsize=size) for size in (4, 2)]
    print(f"{memory / 1e9:g} GB: {largest} images; 256 in {fewest_parts(NETWORK, 256, int(memory))} parts")


# %% given="refused"
def refused(function, *args, **options):
    """Does a call raise ValueError? What else it raises goes on."""
    try:
        function(*args, **options)
    except ValueError:
        return True
    return False


def plain_bytes(rows, batch, slots=1, itemsize=4, ahead=1):
    """Stands for step_bytes: 1,000 bytes a slot, and for each image ten for a byte of a number."""
    return 1_000 * slots + 10 * batch * itemsize * (1 + ahead) * len(rows)


# %% check="batch-fits" points=1 see="4.3"
"""The batch that just fits, one byte less, multiples of 8, and a network that does not fit (1 point)."""
one = [("input", 3, 0, 0)]
with watched("step_bytes", plain_bytes):  # 1,000 bytes fixed, and 80 for an image
    for memory, multiple, want in [(1_800, 1, 10), (1_799, 1, 9), (2_639, 8, 16), (2_280, 8, 16)]:
        found = largest_batch(one, memory, multiple)
        assert found == want, (
            f"1,000 bytes and 80 an image, in {memory} bytes, multiples of {multiple}: {found}, not {want}"
        )
    for memory, multiple in [(1_079, 1), (500, 1), (1_639, 8)]:
        found = largest_batch(one, memory, multiple)
        assert found == 0, f"{memory} bytes do not hold {multiple} images; the batch is 0, not {found}"
### BEGIN HIDDEN TESTS
with watched("step_bytes", plain_bytes):
    for how in ({"slots": 0}, {"itemsize": 2, "ahead": 3}, {"slots": 2, "itemsize": 1, "ahead": 0}):
        for rows in (one, one * 7):
            each, fixed = (
                plain_bytes(rows, 1, **how) - plain_bytes(rows, 0, **how),
                plain_bytes(rows, 0, **how),
            )
            for multiple, times in [(1, 13), (8, 3), (32, 100), (3, 1)]:
                memory = fixed + each * multiple * times
                found = [
                    largest_batch(rows, memory + more, multiple, **how)
                    for more in (-1, 0, each * multiple - 1)
                ]
                assert found == [multiple * (times - 1), multiple * times, multiple * times], "another memory"
### END HIDDEN TESTS

# %% check="batch-in-parts" points=1 see="4.3"
"""A batch of 12 in parts of equal size: never in 5, and an error where one image does not fit (1 point)."""
with watched("step_bytes", plain_bytes):
    for memory, want in [(1_960, 1), (1_959, 2), (1_480, 2), (1_479, 3), (1_310, 4), (1_239, 6), (1_080, 12)]:
        found = fewest_parts([("input", 3, 0, 0)], 12, memory)
        assert found == want, (
            f"12 images, 1,000 bytes fixed and 80 for an image, {memory} bytes: {found} parts, not {want}; "
            "parts are equal, and as few as possible"
        )
    assert refused(fewest_parts, [("input", 3, 0, 0)], 12, 1_079), "where not one image fits: ValueError"
### BEGIN HIDDEN TESTS
with watched("step_bytes", plain_bytes):
    for how in ({"slots": 0}, {"itemsize": 2, "ahead": 3}):
        each, fixed = 10 * how.get("itemsize", 4) * (1 + how.get("ahead", 1)), 1_000 * how.get("slots", 1)
        for batch in (1, 7, 30, 256):
            for fits in (1, 2, 5, 6, 31, 300):
                want = next(k for k in range(1, batch + 1) if batch % k == 0 and batch // k <= fits)
                found = fewest_parts([("input", 1, 0, 0)], batch, fixed + fits * each + each - 1, **how)
                assert found == want, "other parts"
            assert refused(fewest_parts, [("input", 1, 0, 0)], batch, fixed + each - 1, **how), "nothing fits"
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Traced once
#
# The last batch of your pipeline is smaller, and the rate changes with the step. Both make a plain
# `tf.function` trace again. Compile a step so that Python runs it **once**, whatever comes: batches of any
# size, rates as Python floats, Python ints, NumPy's floats, tensors.


# %% solution="compile-step"
def compile_step(step, shape):
    """A function with the arguments and the result of step(images, labels, rate), whose graph is traced once.

    step       a Python function of tensors: images (N, *shape) float32, labels (N,) int64, rate () float32
    shape      of an image, a tuple

    The function that is returned may be given the rate as a number of any kind or a tensor, and batches of
    any size, the last of an epoch among them.
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
    """The results of a compiled step for calls [(images, labels, kind of the rate, rate), …].

    trace() is called each time Python runs the step, and returns a number that is in its results.
    """

    @tf.autograph.experimental.do_not_convert
    def step(images, labels, rate):
        mark = tf.constant(float(trace()))
        sums = tf.reduce_sum(tf.reshape(images, (tf.shape(images)[0], -1)), axis=1)  # (N,)
        return mark + rate * tf.tensordot(sums, tf.cast(labels, tf.float32), 1)

    kinds = {"float": float, "int": int, "NumPy": np.float64, "tensor": lambda v: tf.constant(v, tf.float32)}
    compiled = compile_step(step, tuple(shape))
    results = []
    for images, labels, kind, rate in calls:
        results.append(float(compiled(tf.constant(images), tf.constant(labels), kinds[kind](rate))))
    return results


class Traces:
    """Counts how often a step is traced; each time there is another number for its results."""

    def __init__(self, seed=0):
        self.marks, self.random = [], np.random.default_rng([seed, 7])

    def __call__(self):
        self.marks.append(int(self.random.integers(1, 10**4)))
        return self.marks[-1]


def batches_of(shape, sizes, rates, seed=0):
    """[(images, labels, kind, rate)] of small whole numbers, and what the step adds to its mark for each."""
    random, calls, sums = np.random.default_rng([seed, 9]), [], []
    for size, (kind, rate) in zip(sizes, rates, strict=True):
        images = random.integers(0, 4, (size, *shape)).astype(np.float32)
        labels = random.integers(0, 10, size)
        calls.append((images, labels, kind, rate))
        sums.append(rate * float(images.reshape(size, -1).sum(axis=1) @ labels))
    return calls, sums


RATES = [("float", 0.5), ("float", 0.25), ("int", 2), ("NumPy", 0.125), ("tensor", 0.75), ("float", 1.5)]

# %%
calls, sums = batches_of((2, 2, 1), [4, 4, 4, 4, 4, 3], RATES)
counted = Traces()
results = stepped((2, 2, 1), calls, counted)
print(f"{len(counted.marks)} traces in {len(calls)} calls")

# %% check="traced-once" points=1 see="4.4"
"""Six calls, the last batch smaller, rates of four kinds: one trace (1 point)."""


def traced_once(shape, sizes, rates, seed=0):
    """Assert that the step is traced once."""
    calls, _ = batches_of(shape, sizes, rates, seed)
    counted = Traces(seed)
    stepped(shape, calls, counted)
    count = len(counted.marks)
    assert count != len(calls), f"{count} traces in {len(calls)} calls: Python runs the step at every call"
    assert count == 1, (
        f"{count} traces in {len(calls)} calls with batches of {in_words(sizes)} and rates "
        f"{', '.join(f'{kind} {rate}' for kind, rate in rates)}"
    )


traced_once((2, 2, 1), [4, 4, 4, 4, 4, 3], RATES)
traced_once((2, 2, 1), [4, 4, 3], RATES[:3])
### BEGIN HIDDEN TESTS
more = [("int", 1), ("int", 3), ("float", 0.5), ("tensor", 2.0), ("NumPy", 0.25), ("NumPy", 0.5), ("int", 1)]
traced_once((3, 2), [5, 2, 1, 7, 5, 4, 6], more, seed=1)
traced_once((4,), [8, 8, 8, 8, 8, 8, 1], more, seed=2)
### END HIDDEN TESTS

# %% check="traced-right" points=1 see="4.4"
"""The compiled step computes what the step says, for each batch and each rate (1 point)."""


def computed_right(shape, sizes, rates, seed=0):
    """Assert that each result is a mark that was handed out, and what the step adds to it."""
    calls, sums = batches_of(shape, sizes, rates, seed)
    counted = Traces(seed)
    results = stepped(shape, calls, counted)
    assert len(results) == len(sums), f"{len(results)} results of {len(sums)} calls"
    for (images, _, kind, rate), result, added in zip(calls, results, sums, strict=True):
        assert any(abs(result - added - mark) < 1e-3 for mark in counted.marks), (
            f"with {len(images)} images and the rate {rate} ({kind}) the step gives another result, compiled"
        )


computed_right((2, 2, 1), [4, 4, 4, 4, 4, 3], RATES)
### BEGIN HIDDEN TESTS
more = [("int", 1), ("int", 3), ("float", 0.5), ("tensor", 2.0), ("NumPy", 0.25), ("NumPy", 0.5), ("int", 1)]
computed_right((3, 2), [5, 2, 1, 7, 5, 4, 6], more, seed=3)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. In your own words
#
# Three inputs, all made up: 64 batches, and a device that needs 10 ms for a step. One input needs 12 ms for
# each batch; one 7 ms, and every eighth time 25 ms, as if a file were found elsewhere; one 9 ms each. The
# figure shows the run on your `run_seconds`, over the places of the buffer.

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
# *The figure:* the length of a run over the places of the buffer, a line for each input, and a dotted one
# for the steps alone. All fall steeply from no place to one. Then two are level, one near the dotted line
# and one above it; the third, that of the bursts, goes on falling to three places.
#
# A colleague sees that the device waits, and sets `prefetch` to 100. **For which of the three inputs does a
# buffer of more than one place help, how many places are enough, and why? What helps where it does not? And
# what does a place cost?** Explain in about three sentences, with numbers of yours.

# %% [markdown] explain="what-a-buffer-can" points=2
# ### BEGIN SOLUTION
# **Rubric.** One point for which input a larger buffer helps and why, one for what helps elsewhere and what
# a place costs. The numbers are those of the student's own table. Language and length cost nothing.
#
# - *Where it helps*: only with the bursts, 767 ms with one place, 687 with two, 647 with three, and no
#   longer (a quarter of a point for the input, a quarter for the numbers). A buffer evens out what scatters
#   around its mean: the seven quick batches fill it, and during the slow one the device takes from it (half
#   a point). It needs a mean of the input (here 9.25 ms) that is below the step (10 ms).
# - *Where it does not*: at 12 ms each, the input is slower than the device at any time, the buffer is
#   always empty, and the run takes 64 · 12 + 10 = 778 ms; what helps is a faster input, such as more reads
#   at a time or a cache (half a point). At 9 ms each, one place is enough to hide the input; only a faster
#   step helps.
# - *What a place costs*: a batch of memory (half a point). An answer that says instead that the first batch
#   comes no earlier has this half point, too.
#
# **Two points.** "More than one place helps only with the bursts, 767 ms with one and 647 with three: there
# the input needs 9.25 ms on average, less than the step, so the quick batches can be stored for the
# slow one. With 12 ms each nothing is ever in the buffer, however large; I would read more files at a time,
# as best_lever says. 100 places cost the memory of 100 batches."
#
# **One point.** "It helps for the bursts because the buffer is filled before. For the others it makes no
# difference, but it does no harm either." (No lever, no price.)
#
# **No point.** "A larger buffer always helps, since more is prefetched."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - An augmentation that is given its numbers can be tested to the pixel, and repeated.
# - Cache what is the same, shuffle, batch, change with new numbers, prefetch. Each wrong order runs without
#   an error, and each shows in a count: reads, calls, numbers, orders.
# - A profile says what the device waits for, as long as nothing is counted twice. Overlapping stages are as
#   fast as the slowest of them or as the cores that they share; a buffer evens out bursts, and cures no
#   slow input.
# - A cache keeps the most expensive thing that fits and is not random. A batch is chosen by bytes, and what
#   does not fit can be split.
# - A step is traced once if its arguments are tensors whose batch has no fixed size.
#
# ## Questions to take with you
#
# 1. Your pipeline shuffles images, and the buffer holds all of them. What would you shuffle instead if they
#    did not fit into memory, and what would become of the cache?
# 2. With two ranks, each reads a part of the files. Which of your counts change, and which must not?
# 3. *Hardware.* Some accelerators have a memory that the host can reach directly. Which lines of
#    `step_bytes` would change, and which levers would be left?
