"""Lecture 08: its scripts form matched pairs, and its record comes from them."""

import ast
import json
import sys

import numpy as np
import pytest

from cluster.jobs.run.provenance import code_digest

from ..modules import module_of
from .definitions import RUNS, defined, recorded


@pytest.fixture(scope="module")
def experiment():
    """The script that made the record."""
    return module_of("lectures/runs/08_large_batches.py")


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; nothing is drawn."""
    return defined("08")


@pytest.fixture(scope="module")
def record():
    return recorded("08_large_batches")


@pytest.fixture(scope="module")
def weights():
    with np.load(RUNS / "08_large_batches.npz") as file:
        return {name: file[name].astype(np.float32) for name in file.files}


@pytest.fixture
def load(experiment, monkeypatch):
    """Return a function that loads a variant's script as a dictionary of its names, without training."""
    monkeypatch.setattr(sys, "argv", sys.argv)  # load() changes sys.argv, and this restores it
    return lambda name, k=32: experiment.load(name, k)


def test_each_variant_differs_from_its_parent_in_one_marked_line(experiment):
    """Does a variant's script differ from its parent's in exactly one line, which both mark? Does more than a
    comment differ?
    """
    for name, (parent, *_) in experiment.VARIANTS.items():
        if parent is not None:
            ours, theirs = (experiment.script(v).splitlines() for v in (name, parent))
            [pair] = [pair for pair in zip(ours, theirs, strict=True) if len(set(pair)) == 2]
            assert all(line.endswith("# <-") for line in pair), name
            assert ast.dump(ast.parse("\n".join(ours))) != ast.dump(ast.parse("\n".join(theirs))), name


def test_no_two_variants_are_the_same_script(experiment):
    trees = [ast.dump(ast.parse(experiment.script(name))) for name in experiment.VARIANTS]
    assert len(set(trees)) == len(trees)


def test_a_line_that_is_not_there_is_named(experiment, monkeypatch):
    monkeypatch.setitem(experiment.VARIANTS, "odd", ("plain", "return C  # <-", "return D  # <-"))
    with pytest.raises(ValueError, match=r"'odd'.*'return C  # <-' is 0 times in 'plain'"):
        experiment.script("odd")


RATES = {  # {variant: learning rates by hand, at updates 0, 18, 35, 36 and 100 of 120, with 32 ranks}
    "plain": [0.1, 0.1, 0.1, 0.1, 0.1],
    "linear": [3.2, 3.2, 3.2, 3.2, 3.2],
    "sqrt": [0.565685] * 5,
    "constant": [0.1, 0.1, 0.1, 3.2, 3.2],
    "gradual": [0.1, 1.65, 3.1138889, 3.2, 3.2],
    "reach 16": [0.1, 0.85, 1.5583333, 1.6, 1.6],
    "reach 2": [0.1, 0.15, 0.1972222, 0.2, 0.2],
    "sqrt, gradual": [0.1, 0.3328427, 0.5527495, 0.5656854, 0.5656854],
}


@pytest.mark.parametrize("name", RATES)
def test_learning_rates_by_hand(load, name):
    names = load(name)
    assert (names["S"], names["T"], names["W"]) == (12, 120, 36)
    assert [names["rate"](t) for t in (0, 18, 35, 36, 100)] == pytest.approx(RATES[name], rel=1e-6)


def test_lars_steps_a_thousandth_of_each_kernel(load):
    """Is LARS's step for a kernel a thousandth of the kernel's norm, whatever the gradient's scale? Is a
    vector's gradient left unchanged?
    """
    import tensorflow as tf

    step = load("LARS")["direction"]
    w, g = tf.fill((3, 3, 2, 4), 2.0), tf.random.stateless_normal((3, 3, 2, 4), (0, 8))
    for scale in (1e-3, 1.0, 1e3):
        assert float(tf.norm(step(w, scale * g)) / tf.norm(w)) == pytest.approx(0.001, rel=1e-5)
    assert np.array_equal(step(w[0, 0, 0], g[0, 0, 0]), g[0, 0, 0])


def test_with_gamma_0_the_residual_blocks_begin_as_nothing(load):
    """With gamma 0, do the convolutions in the residual blocks have a gradient of zero at the start? In the
    parent, do all convolutions have a nonzero gradient?
    """
    import tensorflow as tf

    x = np.random.default_rng(8).random((32, 14, 14, 1), np.float32)
    silent = {}
    for name in ("gamma 0", "gradual"):
        model = load(name)["network"]()
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True)[:, 0])
        kernels = [w.value for w in model.trainable_variables if len(w.shape) == 4]
        silent[name] = sum(float(tf.norm(g)) == 0 for g in tape.gradient(loss, kernels))
    assert silent == {"gamma 0": 6, "gradual": 0}  # both convolutions of three blocks


def test_own_shuffles_miss_a_third_of_the_images(experiment):
    _, old, new = experiment.VARIANTS["shuffles"]
    names = {"np": np, "N": 12_288, "k": 32}
    for line, unseen in [(old, 0), (new, (1 - 1 / 32) ** 32)]:
        names["rng"] = np.random.default_rng(8)
        exec(line, names)
        assert len(names["order"]) == 12_288
        assert 1 - len(np.unique(names["order"])) / 12_288 == pytest.approx(unseen, abs=0.015)


def test_one_process_is_k_ranks(load):
    """Is one process's gradient for 4 · 32 images the mean of the gradients of four ranks that each normalise
    their own batch of 32?
    """
    import tensorflow as tf

    names = load("plain", k=4)
    model, (x, y) = names["network"](), names["images"]("train", 128)
    loss_of = names["keras"].losses.SparseCategoricalCrossentropy(from_logits=True)

    def gradient(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        return [g.numpy() for g in tape.gradient(loss, [w.value for w in model.trainable_variables])]

    whole = gradient(x, y)
    ranks = [gradient(x[i : i + 32], y[i : i + 32]) for i in range(0, 128, 32)]
    for g, parts in zip(whole, zip(*ranks, strict=True), strict=True):
        assert np.allclose(g, np.mean(parts, 0), atol=1e-5)


def test_rank_batch_norm_of_one_rank_is_keras(load):
    names = load("plain", k=1)
    x = np.random.default_rng(8).normal(2, 3, (32, 5, 5, 4)).astype(np.float32)
    ours, theirs = names["RankBatchNorm"](), names["layers"].BatchNormalization(momentum=0.9)
    assert np.allclose(ours(x, training=True), theirs(x, training=True), atol=1e-5)
    assert np.allclose(ours.mean, theirs.moving_mean, atol=1e-5)
    assert np.allclose(ours.variance, theirs.moving_variance, rtol=1e-4)


def test_record_is_whole_and_of_these_scripts(experiment, record):
    """Does the record contain five seeds of each variant, made by the current scripts, with the number of
    updates of ten epochs?
    """
    results = {(run["variant"], run["k"], run["seed"]): run for run in record["runs"]}
    assert set(results) == {(name, k, seed) for name, k in experiment.RUNS for seed in range(5)}
    assert len(results) == len(record["runs"])
    for (name, k, _), run in results.items():
        assert run["updates"] == 10 * 12_288 // (32 * k)
        assert len(run["losses"]) == min(120, run["updates"]) and len(run["errors"]) == 10
        assert all(0 <= error <= 100 for error in run["errors"])
        assert run["script"] == code_digest(experiment.script(name))


def test_variants_reach_the_rates_that_they_are_filed_under(load, experiment):
    """Does each variant of the sweep reach its stated learning rate, starting from one rank's rate, or from
    its own if that is lower?"""
    assert list(experiment.SWEEP) == [1, 8, 32, 128]
    for k, variants in experiment.SWEEP.items():
        assert len(variants) == len(set(variants.values())) == 7
        for factor, name in variants.items():
            names = load(name, k=k)
            assert names["rate"](names["W"]) == pytest.approx(0.1 * factor)
            assert names["rate"](0) == pytest.approx(0.1 * min(1, factor))


def test_a_run_of_another_script_is_not_kept(experiment, tmp_path):
    """With --only, is a recorded run kept if its script is unchanged, and is a changed script an error?"""
    out = tmp_path / "record.json"
    run = {"variant": "plain", "k": 1, "seed": 0, "script": code_digest("former")}
    out.write_text(json.dumps({"runs": [run]}))
    np.savez(out.with_suffix(".npz"), w=np.ones(2))
    wanted = {("plain", 1, 0): {"script": "former"}}
    runs, weights = experiment.recorded(out, wanted)
    assert runs == {("plain", 1, 0): run} and np.array_equal(weights["w"], np.ones(2))
    wanted["plain", 1, 0]["script"] = "another"
    with pytest.raises(ValueError, match="of another script; make it again"):
        experiment.recorded(out, wanted)


def test_recorded_weights_have_the_recorded_error(load, record, weights):
    """Does a network with the float16 weights of a recorded run have the test error in the record?"""
    names = load("plain", k=1)
    model, (x, y) = names["network"](), names["images"]("test")
    for variant, k in [("plain", 1), ("gradual", 32)]:
        model.set_weights([weights[f"{variant} {k} 0 {i}"] for i in range(len(model.weights))])
        prediction = model.predict(x, batch_size=1000, verbose=0).argmax(1)
        run = next(r for r in record["runs"] if (r["variant"], r["k"], r["seed"]) == (variant, k, 0))
        assert 100 * (prediction != y).mean() == pytest.approx(run["errors"][-1], abs=0.1)


def test_interval_by_hand(lecture):
    """Is the half-width of the confidence interval of 1, 2, 3, 4, 5 equal to 2.776 · √2.5 / √5 = 1.963?"""
    assert lecture["interval"]([1, 2, 3, 4, 5]) == pytest.approx(1.963, abs=1e-3)
    with pytest.raises(AssertionError, match="five"):
        lecture["interval"]([1, 2, 3])


def test_updates_by_hand(lecture):
    """Do 1,281,167 images in batches of 8,192 make 156 updates per epoch, and 14,040 in 90 epochs?"""
    assert lecture["updates"](1_281_167, 90, 8192) == 14_040
