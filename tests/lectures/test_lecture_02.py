"""Lecture 02: are its gradients and features right, is its record its script's, do its conclusions follow?"""

import ast
import hashlib
import json
import math

import jupytext
import numpy as np
import pytest

from .. import ROOT
from ..modules import module_of

RUNS = ROOT / "lectures" / "runs"
TEXT = ROOT / "lectures" / "text" / "02_networks_that_learn.py"
CLASSIFIERS = ["HOG", "MLP", "LeNet-5", "augmented"]


@pytest.fixture(scope="module")
def experiment():
    """The script that made the record."""
    return module_of("lectures/runs/02_data_size.py")


@pytest.fixture(scope="module")
def record():
    return json.loads((RUNS / "02_data_size.json").read_text())


@pytest.fixture(scope="module")
def lecture():
    """The functions and the table T of the lecture's code cells."""
    names = {"np": np, "math": math}
    for cell in jupytext.read(TEXT, fmt="py:percent").cells:
        for node in ast.parse(cell.source).body if cell.cell_type == "code" else ():
            table = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "T"
            if isinstance(node, ast.FunctionDef) or table:
                exec(compile(ast.Module([node], []), str(TEXT), "exec"), names)
    return names


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(2).random((5, 28, 28, 1)).astype(np.float32)


def hog_in_loops(image):
    """Of one image (28, 28), pixel by pixel: (1296,)"""
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
    """Are the features of the lecture and of the recorded runs the ones that the text defines?"""
    expected = np.array([hog_in_loops(image) for image in pictures[..., 0]])
    for hog in (lecture["hog"], experiment.hog):
        assert np.allclose(hog(pictures), expected, atol=1e-4)


def test_an_edge_has_its_direction(lecture):
    """Bright to the right gives an angle of 0, bright below a right angle. Sobel's sum is 4."""
    step = np.zeros((1, 28, 28, 1), np.float32)
    step[:, :, 14:] = 1
    for image, angle in ((step, 0), (step.transpose(0, 2, 1, 3), math.pi / 2)):
        length, found = lecture["edges"](image)
        assert length.max() == 4 and np.allclose(found[length > 0], angle)


def test_gradients_are_tensorflows(lecture):
    """Loss and four gradients, on several sizes of batch, in float64."""
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
    """Is the gradient of |f W - onehot|² + |W|² zero there?"""
    rng = np.random.default_rng(2)
    f, y = rng.standard_normal((40, 6)), rng.integers(0, 10, 40)
    W = lecture["least_squares"](f, y, penalty=3.0)
    f = np.c_[f, np.ones(40)]
    assert np.allclose(f.T @ (f @ W - np.eye(10)[y]) + 3 * W, 0, atol=1e-10)


def test_backward_costs_by_hand(lecture):
    """Two layers, and LeNet-5: the first has one backward product, all others two."""
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


def test_augmentation_makes_the_fifty_images_and_no_other(experiment, pictures):
    wide = np.pad(pictures[0, ..., 0], 2)
    expected = set()
    for i in range(5):
        for j in range(5):
            window = wide[i : i + 28, j : j + 28]
            expected |= {window.tobytes(), window[:, ::-1].tobytes()}
    many = experiment.augment(np.repeat(pictures[:1], 2000, 0), np.random.default_rng(0))
    assert many.shape == (2000, 28, 28, 1) and {image.tobytes() for image in many} == expected
    assert len(expected) == 50


def test_augmentation_leaves_each_image_in_its_row(experiment, pictures):
    """The centre of an image, whole after any shift, stays with its row; the images are not changed."""
    before = pictures.copy()
    marked = np.zeros((5, 28, 28, 1), np.float32)
    marked[:, 10:18, 10:18] = np.arange(1, 6).reshape(5, 1, 1, 1)
    out = experiment.augment(marked, np.random.default_rng(1))
    assert [set(np.unique(image)) for image in out] == [{0, i} for i in range(1, 6)]
    experiment.augment(pictures, np.random.default_rng(1))
    assert np.array_equal(pictures, before)


def test_mlp_and_lenet_have_as_many_parameters(experiment):
    mlp, lenet = (experiment.network(name, 0).count_params() for name in ("MLP", "LeNet-5"))
    assert abs(mlp / lenet - 1) < 0.01


def test_record_is_of_this_script(experiment, record):
    """Five seeds of four classifiers at each size, as many updates as the script says, and its hash."""
    script = RUNS / "02_data_size.py"
    assert record["script"] == hashlib.sha256(script.read_bytes()).hexdigest()
    sizes = [job["images"] for job in record["jobs"]]
    assert sizes == list(experiment.UPDATES) == [100, 300, 1000, 3000, 10_000, 60_000]
    commits = {job["versions"]["cluster"] for job in record["jobs"]}
    assert len(commits) == 1 and not commits.pop().endswith("-dirty")
    everyone = {(name, seed) for name in CLASSIFIERS for seed in range(5)}
    for job in record["jobs"]:
        assert job["updates"] == experiment.UPDATES[job["images"]]
        assert {(row["classifier"], row["seed"]) for row in job["rows"]} == everyone
        assert len(job["rows"]) == 20 and all(0 < row["error"] < 100 for row in job["rows"])
        assert np.shape(job["filters"]) == (5, 5, 6)


def errors(record, images):
    """{classifier: errors of five seeds} at a size."""
    [rows] = [job["rows"] for job in record["jobs"] if job["images"] == images]
    rows = sorted(rows, key=lambda row: row["seed"])
    return {n: np.array([r["error"] for r in rows if r["classifier"] == n]) for n in CLASSIFIERS}


def test_interval_by_hand(lecture):
    """1, 2, 3, 4, 5: a standard deviation of √2.5, and 2.776 √2.5 / √5 = 1.963."""
    assert lecture["interval"]([1, 2, 3, 4, 5]) == pytest.approx(1.963, abs=1e-3)


@pytest.mark.parametrize("images", [100, 300, 1000, 3000, 10_000])
def test_with_few_images_the_engineer_wins(record, lecture, images):
    """HOG errs less than each network, by more than the interval; than LeNet-5 in every seed."""
    result = errors(record, images)
    for name in ("MLP", "LeNet-5", "augmented"):
        difference = result[name] - result["HOG"]
        assert difference.mean() > lecture["interval"](difference)
    assert (result["HOG"] < result["LeNet-5"]).all()


def test_with_60_000_images_lenet_wins_and_the_mlp_does_not(record, lecture):
    """LeNet-5 errs less than HOG in every seed, by more than the interval; the MLP errs more."""
    result = errors(record, 60_000)
    assert (result["LeNet-5"] < result["HOG"]).all()
    for better, worse in [("LeNet-5", "HOG"), ("HOG", "MLP"), ("LeNet-5", "augmented")]:
        difference = result[worse] - result[better]
        assert difference.mean() > lecture["interval"](difference)


def test_10_000_and_60_000_images_are_seen_equally_often(record):
    """Between them images and updates grow alike: 6.4 epochs both."""
    epochs = {job["images"]: 32 * job["updates"] / job["images"] for job in record["jobs"]}
    assert epochs[10_000] == epochs[60_000] == 6.4


def test_structure_alone_does_not_help(record, lecture):
    """With 100 images LeNet-5 errs more than the MLP, by more than the interval."""
    difference = errors(record, 100)["LeNet-5"] - errors(record, 100)["MLP"]
    assert difference.mean() > lecture["interval"](difference)


def test_lenets_distance_to_hog_shrinks(record, lecture):
    """From size to size, to a quarter, also as a ratio of the errors, and by more than the confidence
    interval."""
    sizes = (100, 300, 1000, 3000, 10_000)
    lenet, hog = (np.array([errors(record, n)[name] for n in sizes]) for name in ("LeNet-5", "HOG"))
    distance = (lenet - hog).mean(1)
    assert list(distance) == sorted(distance, reverse=True)
    assert distance[0] == pytest.approx(10, abs=1) and distance[-1] / distance[0] == pytest.approx(
        0.25, abs=0.05
    )
    for change in ((lenet - hog)[0] - (lenet - hog)[-1], np.log(lenet / hog)[0] - np.log(lenet / hog)[-1]):
        assert change.mean() > lecture["interval"](change)


def test_lenet_draws_level_with_the_mlp(record, lecture):
    """With 10,000 images their difference is about its interval; it shrank by more."""
    few, more = (errors(record, n)["LeNet-5"] - errors(record, n)["MLP"] for n in (100, 10_000))
    assert abs(more.mean()) < 1.2 * lecture["interval"](more) < 1
    assert (few - more).mean() > lecture["interval"](few - more)


def test_augmentation_is_not_told_from_none_and_then_worse(record, lecture):
    for images in (100, 300, 1000, 3000, 10_000):
        difference = errors(record, images)["augmented"] - errors(record, images)["LeNet-5"]
        if images < 1000:
            assert abs(difference.mean()) < lecture["interval"](difference)
        else:
            assert difference.mean() > lecture["interval"](difference)


def test_what_is_learned_by_heart(record):
    """LeNet-5's training losses are near zero with 100 images, but not from 1,000 on; the augmented one
    is highest."""
    for images in (100, 1000, 3000, 10_000):
        [rows] = [job["rows"] for job in record["jobs"] if job["images"] == images]
        loss = {n: np.mean([row["loss"] for row in rows if row["classifier"] == n]) for n in CLASSIFIERS}
        assert max(loss, key=loss.get) == "augmented"
        assert loss["LeNet-5"] < 0.01 if images == 100 else loss["LeNet-5"] > 0.1


def test_more_images_help_everybody(record):
    sizes = [job["images"] for job in record["jobs"]]
    for name in CLASSIFIERS:
        means = [errors(record, n)[name].mean() for n in sizes]
        assert means == sorted(means, reverse=True)


def test_sobels_plane_by_hand(lecture):
    """A Sobel filter lies wholly in the plane, a constant one not at all."""
    smooth, slope = np.array([1, 4, 6, 4, 1]), np.array([-1, -2, 0, 2, 1])
    sobel = np.stack([np.outer(smooth, slope), np.outer(slope, smooth)], -1).reshape(25, 2)
    lecture["sobel"] = sobel / np.linalg.norm(sobel, axis=0)
    f = np.stack([np.outer(smooth, slope) - 2 * np.outer(slope, smooth), np.ones((5, 5))], -1)
    assert lecture["share"](f) == pytest.approx([100, 0], abs=1e-9)


def test_cells_are_short():
    """The house rule: no code cell above 25 lines."""
    cells = jupytext.read(TEXT, fmt="py:percent").cells
    assert max(len(cell.source.splitlines()) for cell in cells if cell.cell_type == "code") <= 25
