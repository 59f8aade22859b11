"""Lecture 08: its scripts form matched pairs, its record comes from them, and its conclusions follow from the
record."""

import ast
import json
import pathlib
import re
import sys

import jupytext
import numpy as np
import pytest

from cluster.jobs.run.provenance import code_digest

from ..modules import module_of

ROOT = pathlib.Path(__file__).parents[2]
RUNS = ROOT / "lectures" / "runs"
TEXT = ROOT / "lectures" / "text" / "08_large_batches.py"


@pytest.fixture(scope="module")
def experiment():
    """The script that made the record."""
    return module_of("lectures/runs/08_large_batches.py")


@pytest.fixture(scope="module")
def record():
    return json.loads((RUNS / "08_large_batches.json").read_text())


@pytest.fixture(scope="module")
def weights():
    with np.load(RUNS / "08_large_batches.npz") as file:
        return {name: file[name].astype(np.float32) for name in file.files}


@pytest.fixture
def load(experiment, monkeypatch):
    """Return a function that loads a variant's script as a dictionary of its names, without training."""
    monkeypatch.setattr(sys, "argv", sys.argv)  # load() changes sys.argv, and this restores it
    return lambda name, k=32: experiment.load(name, k)


NAMES = [
    "linear", "sqrt", "constant", "gradual", "LARS", "gamma 0", "uncorrected", "shuffles", "sqrt, gradual",
    "reach 2", "reach 4", "reach 8", "reach 16", "reach 32", "reach 64", "rate 1/2", "rate 1/4", "rate 1/8",
]  # fmt: skip


def test_all_variants_are_looked_at(experiment):
    assert {"plain", *NAMES} == set(experiment.VARIANTS)


@pytest.mark.parametrize("name", NAMES)
def test_variant_differs_from_its_parent_in_one_marked_line(experiment, name):
    """Does a variant's script differ from its parent's in exactly one line, which both mark? Does more than a
    comment differ?
    """
    parent = experiment.VARIANTS[name][0]
    ours, theirs = (experiment.script(v).splitlines() for v in (name, parent))
    assert len(ours) == len(theirs)
    differ = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    assert len(differ) == 1
    assert ours[differ[0]].endswith("# <-") and theirs[differ[0]].endswith("# <-")
    code = [ast.dump(ast.parse("\n".join(lines))) for lines in (ours, theirs)]
    assert code[0] != code[1]  # not only a comment differs


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


def test_runs_are_of_clean_commits(record):
    """Do all runs of a variant with the same number of ranks come from one clean commit? Were all made with
    one version of TensorFlow and, apart from those added last, on one processor?

    The runs with 1, 8 and 128 ranks were added by a second commit. Those with 8 ranks without warmup were
    added by a third, on another processor.
    """
    commits = {}
    for run in record["runs"]:
        commits.setdefault((run["variant"], run["k"]), set()).add(run["versions"]["cluster"])
    assert all(len(some) == 1 for some in commits.values())
    result = set.union(*commits.values())
    assert len(result) <= 3 and all(re.fullmatch(r"[0-9a-f]{12}", commit) for commit in result)
    added = [("sqrt", 8), ("linear", 8)]
    for later in (False, True):
        runs = [run for run in record["runs"] if ((run["variant"], run["k"]) in added) is later]
        assert len({run["machine"]["cpu"] for run in runs}) == 1
    assert len({run["versions"]["tensorflow"] for run in record["runs"]}) == 1


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


def errors(record, variant, k=32):
    """Return the final test errors of the five seeds."""
    results = [r["errors"][-1] for r in record["runs"] if (r["variant"], r["k"]) == (variant, k)]
    assert len(results) == 5
    return np.array(results)


def test_large_batches_cost_accuracy(record):
    """Is each variant's error with 32 ranks, for every seed, more than a percentage point above the largest
    error with one rank?
    """
    single = errors(record, "plain", 1)
    for variant in ("plain", "linear", "sqrt", "constant", "gradual", "LARS", "gamma 0"):
        assert errors(record, variant).min() > single.max() + 1


def test_the_order_of_the_warmups(record):
    """Is the mean error with gradual warmup over two percentage points lower than without warmup, and the
    latter over two points lower than with constant warmup?
    """
    gradual, none, constant = (errors(record, v).mean() for v in ("gradual", "linear", "constant"))
    assert gradual + 2 < none and none + 2 < constant


def test_constant_warmup_moves_the_shock_to_the_fourth_epoch(record):
    """With constant warmup, does the loss stay below 1 in the third epoch, and exceed 5 at some update of the
    fourth, for each seed?
    """
    losses = [r["losses"] for r in record["runs"] if (r["variant"], r["k"]) == ("constant", 32)]
    assert len(losses) == 5
    assert max(max(some[24:36]) for some in losses) < 1 and min(max(some[36:48]) for some in losses) > 5


def test_128_ranks_do_not_reach_the_goal(record, experiment):
    """With 128 ranks, does at least one seed miss a loss of 0.6 at every learning rate?"""
    for variant in experiment.SWEEP[128].values():
        losses = [r["losses"] for r in record["runs"] if (r["variant"], r["k"]) == (variant, 128)]
        assert len(losses) == 5
        assert not all(any(loss is not None and loss < 0.6 for loss in some) for some in losses)


def test_gradual_warmup_is_not_better_than_naive_here(record):
    """Do the mean errors of gradual warmup and the naive variant differ by less than the standard deviation
    over the seeds? (Textbooks expect gradual warmup to be better.)
    """
    gradual, naive = errors(record, "gradual"), errors(record, "plain")
    assert abs(gradual.mean() - naive.mean()) < gradual.std(ddof=1)


def test_without_warmup_sqrt_beats_naive_and_the_linear_rule(record, lecture):
    """Without warmup, is the square-root rule better than the naive variant, and the naive variant better
    than the linear rule, with confidence intervals that exclude zero?"""
    naive, sqrt, linear = (errors(record, v) for v in ("plain", "sqrt", "linear"))
    for better, worse in [(sqrt, naive), (sqrt, linear), (naive, linear)]:
        mean, half = lecture["difference"](worse, better)
        assert mean > half


def test_with_gradual_warmup_sqrt_is_better_than_the_linear_rule(record, lecture):
    """With gradual warmup, is the square-root rule better than the linear rule by about two percentage
    points, with a confidence interval that excludes zero?"""
    mean, half = lecture["difference"](errors(record, "gradual"), errors(record, "sqrt, gradual"))
    assert 1.5 < mean < 2.5 and mean > half


def test_gradual_warmup_helps_the_linear_rule_and_not_sqrt(record, lecture):
    """Does the confidence interval of gradual warmup's effect exclude zero for the linear rule, and include
    it for the square-root rule?"""
    mean, half = lecture["difference"](errors(record, "linear"), errors(record, "gradual"))
    assert mean > half
    mean, half = lecture["difference"](errors(record, "sqrt"), errors(record, "sqrt, gradual"))
    assert abs(mean) < half


def test_the_best_rate_grows_with_the_batch_up_to_256_images(record, experiment, lecture):
    """Is the best factor of the learning rate k for 8 ranks, near √k for 32, and below √k for 128? Does the
    error at the best factor rise with the batch?
    """
    best, told, lowest = {}, {}, []
    for k, variants in experiment.SWEEP.items():
        results = {f: errors(record, variant, k) for f, variant in variants.items()}
        best[k] = min(results, key=lambda f: results[f].mean())
        gaps = {f: lecture["difference"](results[f], results[best[k]]) for f in results}
        told[k] = {f for f, (mean, half) in gaps.items() if mean > half}
        lowest.append(results[best[k]].mean())
    assert 1 not in told[1] and best[8] == 8
    assert 4 <= best[32] <= 16 and {1, 32} <= told[32] and not told[32] & {4, 32**0.5, 8, 16}
    assert best[128] < 128**0.5 and {32, 64, 128} <= told[128] and 2 not in told[128]
    assert lowest == sorted(lowest) and lowest[-1] > 2 * lowest[0]


def test_32_ranks_have_a_valley(record, experiment):
    """With 32 ranks, are the errors of the naive variant and the linear rule about two percentage points
    above the error at the best learning rate?
    """
    results = {f: errors(record, variant).mean() for f, variant in experiment.SWEEP[32].items()}
    assert all(1.5 < results[end] - min(results.values()) < 2.5 for end in (1, 32))


def test_updates_to_the_goal_fall_more_slowly_than_the_batch_grows(record):
    """Does the number of updates to a loss of 0.6 fall more slowly than the batch grows? (Medians, at the
    best of three learning rates without warmup.)"""

    def updates(variant, k):
        """Return the median over five seeds. The recorded losses are means of max(1, 32 / k) updates."""
        losses = [r["losses"] for r in record["runs"] if (r["variant"], r["k"]) == (variant, k)]
        first = [next(i for i, loss in enumerate(some) if loss is not None and loss < 0.6) for some in losses]
        return float(np.median(first) + 1) * max(1, 32 // k)

    one = updates("plain", 1)
    eight, thirty_two = (min(updates(v, k) for v in ("plain", "sqrt", "linear")) for k in (8, 32))
    assert one / 8 < eight < one / 2 and eight / 4 < thirty_two < eight / 1.2


def test_at_equal_updates_the_large_batch_is_ahead(record, lecture):
    """With the same initial weights and learning rate, is 32 ranks' mean loss at updates 65 to 96 lower than
    one rank's?"""
    one, naive = (
        [r["losses"] for r in record["runs"] if (r["variant"], r["k"]) == ("plain", k)] for k in (1, 32)
    )
    mean, half = lecture["difference"](np.array(one)[:, 2], np.array(naive)[:, 64:96].mean(1))
    assert mean > half


def test_the_linear_rule_carries_8_ranks_and_not_128(record):
    """With gradual warmup and the linear rule, is the error at a batch of 256 images within a percentage
    point of the error at 32, 2 to 10 points higher at 1,024, and near guessing at 4,096?
    """
    single = errors(record, "plain", 1).mean()
    assert errors(record, "gradual", 8).mean() < single + 1
    assert single + 2 < errors(record, "gradual").mean() < single + 10
    assert errors(record, "gradual", 128).min() > 70


def test_with_8_ranks_the_rule_is_better_than_naive(record, lecture):
    """With 8 ranks, is the naive variant's error higher than one rank's for each seed, and significantly
    higher than the linear rule's?"""
    naive, rule = errors(record, "plain", 8), errors(record, "gradual", 8)
    assert (naive > errors(record, "plain", 1)).all()
    mean, half = lecture["difference"](naive, rule)
    assert mean > half


def test_the_missing_momentum_correction_shows_where_the_rate_falls(record, lecture):
    """From epoch 8 to epoch 9, does the loss fall for each seed with the momentum correction, and rise
    without it?"""
    change = {}
    for variant in ("gradual", "uncorrected"):
        losses = np.array([r["losses"] for r in record["runs"] if r["variant"] == variant and r["k"] == 32])
        change[variant] = losses[:, 96:108].mean(1) - losses[:, 84:96].mean(1)
    assert (change["gradual"] < 0).all() and (change["uncorrected"] > 0).all()
    difference = change["uncorrected"] - change["gradual"]
    assert difference.mean() > lecture["interval"](difference)


@pytest.fixture(scope="module")
def lecture():
    """Return the functions interval, difference and updates of the lecture's code cells."""
    names = {"np": np, "math": __import__("math"), "pd": __import__("pandas")}
    for cell in jupytext.read(TEXT, fmt="py:percent").cells:
        for node in ast.parse(cell.source).body if cell.cell_type == "code" else ():
            if isinstance(node, ast.FunctionDef) and node.name in ("interval", "difference", "updates"):
                exec(compile(ast.Module([node], []), str(TEXT), "exec"), names)
    return names


def test_interval_by_hand(lecture):
    """Is the half-width of the confidence interval of 1, 2, 3, 4, 5 equal to 2.776 · √2.5 / √5 = 1.963?"""
    assert lecture["interval"]([1, 2, 3, 4, 5]) == pytest.approx(1.963, abs=1e-3)
    with pytest.raises(AssertionError, match="five"):
        lecture["interval"]([1, 2, 3])


def test_updates_by_hand(lecture):
    """Do 1,281,167 images in batches of 8,192 make 156 updates per epoch, and 14,040 in 90 epochs?"""
    assert lecture["updates"](1_281_167, 90, 8192) == 14_040


def test_lagging_statistics_explain_most_of_the_errors_of_128_ranks(experiment, lecture):
    """With 128 ranks at 16 times one rank's learning rate, do recomputed batch statistics lower the mean test
    error from 61% to 30%, and the error of each seed?

    The scripts must be the current ones, and the runs must come from one clean commit.
    """
    found = json.loads((RUNS / "08_statistics.json").read_text())
    assert found["script"] == code_digest((RUNS / "08_statistics.py").read_text(encoding="utf-8"))
    assert [(run["factor"], run["seed"]) for run in found["runs"]] == [(16, seed) for seed in range(5)]
    assert {run["script"] for run in found["runs"]} == {code_digest(experiment.script("reach 16"))}
    [commit] = {run["versions"]["cluster"] for run in found["runs"]}
    assert re.fullmatch(r"[0-9a-f]{12}", commit)
    moving, again = (np.array([run[k]["test"] for run in found["runs"]]) for k in ("moving", "again"))
    assert round(moving.mean()) == 61 and round(again.mean()) == 30  # as the lecture's text says
    mean, half = lecture["difference"](moving, again)
    assert mean > half and (again < moving).all()
