"""Lecture 07: its formulas are correct, and its batch norm is that of the recorded detector."""

import runpy

import numpy as np
import pytest

from .definitions import LECTURES, RUNS, defined

SETTINGS = {"STARTS", "EPOCHS", "STUDENT", "M", "BACKWARD"}
DATA = {"images", "SANDAL", "chosen", "ink", "x", "y"}  # variables of the 256 images in section 7.1


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; no jobs are run, and nothing is drawn."""
    return defined("07", SETTINGS, once=DATA)


@pytest.fixture(scope="module")
def script():
    """The script that made the record."""
    return runpy.run_path(str(RUNS / "07_detector.py"))


def test_gradient_is_that_of_the_loss(lecture):
    """Does the gradient agree with central differences of the loss?"""
    w, step = np.array([0.7, -0.4]), 1e-6
    ends = [lecture["loss"](*(w + sign * step * axis)) for axis in np.eye(2) for sign in (1, -1)]
    by_differences = [(ends[0] - ends[1]) / (2 * step), (ends[2] - ends[3]) / (2 * step)]
    assert np.allclose(lecture["gradient"](w, lecture["x"], lecture["y"]), by_differences, atol=1e-8)


def test_a_shuffle_each_misses_a_quarter(lecture):
    assert lecture["never_seen"](2) == pytest.approx(1 / 4, abs=0.01)
    assert lecture["never_seen"](256) == pytest.approx(1 / np.e, abs=0.01)
    assert lecture["never_seen"](4, own_seed=False) == 0


def test_batch_norm_is_that_of_the_record(lecture, script):
    """With the lecture's batch norm, does the detector have the same layers, initial weights and outputs as
    the recorded one?"""
    ours = script["detector"](lecture["BatchNorm"], seed=1)
    theirs = script["detector"](script["batch_norm"], seed=1)
    x, _ = script["scenes"]("test", 4)
    assert [w.shape for w in ours.get_weights()] == [w.shape for w in theirs.get_weights()]
    assert np.array_equal(ours(x), theirs(x)) and np.allclose(
        ours(x, training=True), theirs(x, training=True), atol=1e-5
    )


def test_batch_norm_is_that_of_keras(lecture):
    """With one group, does the layer give the same results as Keras' batch norm? With two groups, does it
    normalise each half of the batch separately?
    """
    import keras

    x = np.random.default_rng(0).normal(2, 3, (6, 5, 4, 3)).astype(np.float32)
    layer, keras_layer = lecture["BatchNorm"](), keras.layers.BatchNormalization(momentum=0.9)
    assert np.allclose(layer(x, training=True), keras_layer(x, training=True), atol=1e-4)
    assert np.allclose(layer(x), keras_layer(x), atol=1e-4)  # the moving averages
    halves = np.concatenate([lecture["BatchNorm"]()(half, training=True) for half in (x[:3], x[3:])])
    assert np.allclose(lecture["BatchNorm"](groups=2)(x, training=True), halves, atol=1e-5)


def test_batch_norm_far_from_zero_is_a_number(lecture):
    """Are the layer's results finite for inputs with mean 300 and standard deviation 0.01? In float32, their
    squares (90,000) are rounded to 0.008, which is 80 times their variance (0.0001).
    """
    x = np.random.default_rng(0).normal(300, 0.01, (6, 5, 4, 8)).astype(np.float32)
    layer = lecture["BatchNorm"]()
    assert np.isfinite(layer(x, training=True)).all()
    assert (layer.variance.numpy() >= 0).all() and np.isfinite(layer(x)).all()


def test_average_precision_by_hand(script):
    """For two shoes and three detections (a hit, a miss and a hit), is the average precision the mean of 1
    and 2/3? Is it 1 if all detections are hits?
    """
    y, out = np.zeros((1, 8, 8, 5), np.float32), np.zeros((1, 8, 8, 5), np.float32)
    out[..., 0] = -9
    for cell, logit, shoe in [((1, 1), 3.0, True), ((1, 6), 2.0, False), ((6, 1), 1.0, True)]:
        out[0, *cell] = logit, 0.5, 0.5, 0, 0
        y[0, *cell] = shoe, 0.5, 0.5, 0, 0
    assert script["average_precision"](y, out) == pytest.approx((1 + 2 / 3) / 2)
    assert script["average_precision"](y, np.where(np.arange(5) == 0, 5 * y * 2 - 5, y)) == 1


def test_interval_by_hand(lecture):
    """Is the half-width of the confidence interval of 1, 2, 3 equal to 4.303 / √3? Does the verdict depend on
    whether the interval excludes zero?"""
    assert lecture["interval"]([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5)
    assert "inconclusive" in lecture["verdict"]([1.0, 2.0, 3.0])
    assert "other than zero" in lecture["verdict"]([2.9, 3.0, 3.1])


def test_step_time_by_hand(lecture):
    """Is a step's time as computed by hand? With one server, nothing is sent. With two, each sends 102 MB at
    6.25 GB/s in two messages, each with a latency of 20 µs.
    """
    step_time = lecture["step_time"]
    assert step_time(1, 32) == step_time(8, 32) == pytest.approx(0.180)
    ring = 102e6 / 6.25e9 + 2 * 20e-6
    assert step_time(16, 32, overlap=False) == pytest.approx(0.180 + ring)
    assert step_time(16, 32) == pytest.approx(0.180 + ring * 25 / 102)  # the last bucket is never hidden
    # little computation to hide behind
    assert step_time(16, 1) == pytest.approx(0.180 / 32 + ring - 0.120 / 32)


@pytest.mark.parametrize("name", ["07_horovod", "07_ddp", "07_tf_distribute"])
def test_script_fits_a_page(name):
    """Does each script have at most 90 lines of at most 88 characters? A notebook cuts longer lines."""
    text = (LECTURES / "scripts" / f"{name}.py").read_text()
    compile(text, name, "exec")
    assert max(map(len, text.splitlines())) <= 88 and len(text.splitlines()) <= 90
