"""Lecture 02: its gradients and features are correct, and its runs followed their rules."""

import math

import numpy as np
import pytest

from ..modules import module_of
from .definitions import defined, recorded

CLASSIFIERS = ["HOG", "HOG + hidden", "LeNet-5"]


@pytest.fixture(scope="module")
def experiment():
    """The script that made the record."""
    return module_of("lectures/runs/02_data_size.py")


@pytest.fixture(scope="module")
def record():
    return recorded("02_data_size")


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines, with T, the table of Student's t."""
    return defined("02", {"T"})


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(2).random((5, 28, 28, 1)).astype(np.float32)


def hog_in_loops(image):
    """Compute the features of one image (28, 28) pixel by pixel, as an array (1296,)."""
    padded, h = np.pad(image.astype(float), 1, mode="edge"), np.zeros((7, 7, 9))
    sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    for i in range(28):
        for j in range(28):
            window = padded[i : i + 3, j : j + 3]
            right, below = (window * sobel).sum(), (window * sobel.T).sum()
            position = (math.degrees(math.atan2(below, right)) % 180) / 20
            low = int(position)
            h[i // 4, j // 4, low % 9] += math.hypot(right, below) * (low + 1 - position)
            h[i // 4, j // 4, (low + 1) % 9] += math.hypot(right, below) * (position - low)
    blocks = []
    for i in range(6):
        for j in range(6):
            v = np.concatenate([h[i, j], h[i, j + 1], h[i + 1, j], h[i + 1, j + 1]])
            blocks.append(v / math.sqrt((v**2).sum() + 0.01))
    return np.concatenate(blocks)


def test_features_are_those_of_loops(experiment, lecture, pictures):
    """Do the lecture and the recorded runs compute the same features as loops over the pixels?"""
    expected = np.array([hog_in_loops(image) for image in pictures[..., 0]])
    for hog in (lecture["hog"], experiment.hog):
        assert np.allclose(hog(pictures), expected, atol=1e-4)


def test_an_edge_has_its_direction(lecture):
    """Is an edge's angle 0 if the image gets brighter to the right, and a right angle if it gets brighter
    downwards? Is its length 4, as Sobel's filter gives for a step of 1?
    """
    step = np.zeros((1, 28, 28, 1), np.float32)
    step[:, :, 14:] = 1
    for image, angle in ((step, 0), (step.transpose(0, 2, 1, 3), math.pi / 2)):
        length, found = lecture["edges"](image)
        assert length.max() == 4 and np.allclose(found[length > 0], angle)


def test_gradients_are_tensorflows(lecture):
    """Do the loss and the four gradients equal TensorFlow's in float64, for several batch sizes?"""
    import tensorflow as tf

    rng = np.random.default_rng(2)
    for N, C1, C2 in [(1, 3, 4), (7, 5, 6), (16, 784, 128)]:
        weights = [rng.standard_normal(shape) for shape in [(C1, C2), (C2,), (C2, 10), (10,)]]
        x, y = rng.standard_normal((N, C1)), rng.integers(0, 10, N)
        variables = [tf.Variable(w) for w in weights]
        with tf.GradientTape() as tape:
            w1, b1, w2, b2 = variables
            z = tf.nn.relu(x @ w1 + b1) @ w2 + b2
            expected = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, z))
        loss, gradients = lecture["loss_and_gradients"](weights, x, y)
        assert loss == pytest.approx(float(expected), rel=1e-12)
        for g, theirs in zip(gradients, tape.gradient(expected, variables), strict=True):
            assert np.allclose(g, theirs, rtol=1e-9, atol=1e-12)


def test_least_squares_is_a_minimum(lecture):
    """Is the gradient of |f W - onehot|² + penalty · |W|² zero at the least-squares solution?"""
    rng = np.random.default_rng(2)
    f, y = rng.standard_normal((40, 6)), rng.integers(0, 10, 40)
    W = lecture["least_squares"](f, y, penalty=3.0)
    f = np.c_[f, np.ones(40)]
    assert np.allclose(f.T @ (f @ W - np.eye(10)[y]) + 3 * W, 0, atol=1e-10)


def test_backward_costs_by_hand(lecture):
    """Do the counted multiply-adds include one backward product for the first layer and two for each other
    layer, both for two dense layers and for LeNet-5?
    """
    import keras
    import tensorflow as tf

    from cluster.training.models import lenet5

    count = lecture["multiply_adds"]
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    lecture.update(tf=tf, cross_entropy=cross_entropy)
    layers = [keras.layers.Flatten(), keras.layers.Dense(128, "relu"), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((28, 28, 1)), *layers])
    first, second = 784 * 128, 128 * 10
    assert count(model, backward=False) == first + second
    assert count(model, backward=True) == 2 * first + 3 * second
    products = [28 * 28 * 6 * 25, 10 * 10 * 16 * 150, 400 * 120, 120 * 84, 84 * 10]  # of LeNet-5
    network = lenet5(0)
    assert count(network, backward=False) == sum(products)
    assert count(network, backward=True) == 3 * sum(products) - products[0]


def test_shift_makes_the_25_images_and_no_other(experiment, pictures):
    wide = np.pad(pictures[0, ..., 0], 2)
    expected = {wide[i : i + 28, j : j + 28].tobytes() for i in range(5) for j in range(5)}
    many = experiment.shift(np.repeat(pictures[:1], 2000, 0), np.random.default_rng(0))
    assert many.shape == (2000, 28, 28, 1) and {image.tobytes() for image in many} == expected


def test_flip_mirrors_half_of_the_images(experiment, pictures):
    many = np.repeat(pictures[:1], 2000, 0)
    out = experiment.flip(many, np.random.default_rng(0))
    mirrored = [np.array_equal(image, pictures[0, :, ::-1]) for image in out]
    same = [np.array_equal(image, pictures[0]) for image in out]
    assert sum(mirrored) + sum(same) == 2000 and 900 < sum(mirrored) < 1100


def test_augmentation_leaves_each_image_in_its_row(experiment, pictures):
    """Does each augmented image stay in its row of the batch, and do the original images stay unchanged?"""
    before = pictures.copy()
    marked = np.zeros((5, 28, 28, 1), np.float32)
    marked[:, 10:18, 10:18] = np.arange(1, 6).reshape(5, 1, 1, 1)
    for change in (experiment.shift, experiment.flip):
        out = change(marked, np.random.default_rng(1))
        assert [set(np.unique(image)) for image in out] == [{0, i} for i in range(1, 6)]
        change(pictures, np.random.default_rng(1))
        assert np.array_equal(pictures, before)


def test_the_hidden_layer_has_as_many_parameters_as_lenet(experiment):
    hidden, lenet = (experiment.network(name, 0).count_params() for name in CLASSIFIERS[1:])
    assert abs(hidden / lenet - 1) < 0.01


def test_learning_rates_are_chosen_by_held_out_images(record):
    """Does each run have the tried learning rate with the lowest held-out error, for the same seeds with each
    classifier?
    """
    seeds = {}
    for row in (row for job in record["jobs"] for row in job["rows"]):
        assert row["tried"][str(row["rate"])] == min(row["tried"].values()) == min(row["held_out"])
        seeds.setdefault((row["images"], row["classifier"]), []).append(row["seed"])
    for images in {images for images, _ in seeds}:
        assert len({tuple(sorted(seeds[images, name])) for name in CLASSIFIERS}) == 1


def test_each_run_ended_by_the_rule(experiment, record):
    """Did each run drop its learning rate after PATIENCE measurements without a new minimum of the held-out
    error, and end at the third time? Counting begins when the loss is below ln(10) / 2.
    """
    for row in (row for job in record["jobs"] for row in job["rows"]):
        lowest, since, drops = math.inf, 0, []
        for at, (loss, held_out) in enumerate(zip(row["loss"], row["held_out"], strict=True), 1):
            learns = min(row["loss"][:at]) < math.log(10) / 2
            lowest, since = (held_out, 0) if held_out < lowest else (lowest, since + learns)
            assert np.isfinite(loss)
            if since == experiment.PATIENCE:
                drops, since = [*drops, at], 0
        assert drops == row["drops"] and len(drops) == 3 and drops[-1] == len(row["held_out"])


def test_interval_by_hand(lecture):
    """Is the half-width of the confidence interval of 1, 2, 3, 4, 5 equal to 2.776 · √2.5 / √5 = 1.963?"""
    assert lecture["interval"]([1, 2, 3, 4, 5]) == pytest.approx(1.963, abs=1e-3)
