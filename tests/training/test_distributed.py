"""Data-parallel training on two real Horovod ranks, compared with one process without Horovod."""

import json
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cluster import submit
from cluster.jobs.backends import forked_ranks as warm

from . import trainings

pytestmark = pytest.mark.ranks
STEPS = trainings.EPOCHS * 11
# Loads a checkpoint in a process of its own, because another test may have imported Horovod.
LOADED = """
import json, sys
import keras
from cluster.training import data, distributed, models
model = keras.saving.load_model(sys.argv[1])
assert isinstance(model, distributed.DataParallel)
assert "horovod.tensorflow" not in sys.modules
predicted = model(data.fashion_mnist("test", 3)[0]).numpy().tolist()
optimizer = model.optimizer
steps, rate = int(optimizer.iterations), float(optimizer.learning_rate)
print(json.dumps([models.digest(model), steps, rate, predicted]))
"""
# A sum over 64 images is rounded differently from the mean of two sums over 32. With 24 bits in float32, this
# changes values below 1 by about 6e-8 at each step, and momentum accumulates the changes. Over 22 steps, 1e-5
# is ample, and still a hundredth of what a single step changes.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def job(tmp_path_factory, forked_ranks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(warm.VARIABLE, forked_ranks)
        job = submit(
            trainings.two_ranks, ranks_per_node=2, backend="local", folder=tmp_path_factory.mktemp("runs")
        )
        return job.wait(progress=False)


@pytest.fixture(scope="module")
def ranks(job):
    return job.results()


def both(ranks, name):
    """Return each rank's results of a trial, or fail with the trial's error."""
    results = [rank[name] for rank in ranks]
    assert not isinstance(results[0], str), results[0]
    return results


@pytest.fixture(scope="module")
def training(ranks):
    return both(ranks, "trial_training")


def test_two_ranks_give_the_trajectory_of_one_process(ranks, training):
    """After each step, are the weights the same as in one process with the same global batches? Is the
    tolerance much smaller than a step?"""
    one, two = both(ranks, "trial_one_process")[0], training[0]["weights"]
    assert np.abs(np.diff(one, axis=0)).max(axis=1).min() > 100 * TOLERANCE
    assert one.shape == two.shape and len(two) == STEPS
    assert np.abs(two - one).max() < TOLERANCE


def test_all_ranks_end_with_the_same_bits(training):
    """Are weights and momentum on both ranks equal to the last bit?"""
    assert training[0]["digest"] == training[1]["digest"]
    assert np.array_equal(training[0]["weights"], training[1]["weights"])
    assert np.array_equal(training[0]["momentum"], training[1]["momentum"])


def test_broadcast_is_of_rank_0_and_of_the_optimizer_too(ranks):
    """After a broadcast, do ranks that started from different seeds have rank 0's weights and optimizer?"""
    first, second = both(ranks, "trial_broadcast")
    assert first["before"] != second["before"]
    assert first["before"] == first["after"] == second["after"]
    assert first["state"] == second["state"] and set(first["state"]) == {3.0}


def test_metrics_are_averaged_over_all_images(ranks, training):
    """Are metrics averaged over all images, so that 3 of 4 and 1 of 6 right give 0.4? Is the validation
    accuracy in the history computed over the whole set?"""
    for uneven, even in both(ranks, "trial_average"):
        assert uneven == pytest.approx({"accuracy": 0.4}, rel=1e-12)
        assert even == {"a": 5.0, "b": 1.5}
    for result in training:
        assert result["history"]["val_accuracy"][-1] == pytest.approx(
            result["accuracy of the whole set"], abs=1e-6
        )
    assert training[0]["history"] == training[1]["history"]


def test_statistics_of_two_halves_are_those_of_the_whole(ranks):
    """Does the averaged variance equal the variance of all images together, with the variance between the
    ranks' means counted exactly once?

    The loss of a bare evaluate() is the loss of the whole set, normalised with its own statistics. The mean
    square of standardised numbers is 1, except for the ε = 0.001 in the root.
    """
    for result in both(ranks, "trial_parallel_variance"):
        for name in ("once", "twice", "tested"):
            for ours, whole in zip(result[name], result["one process"], strict=True):
                assert ours == pytest.approx(whole, rel=1e-5)
        assert result["loss"] == pytest.approx(1, abs=1e-3)


def test_an_overflow_on_one_rank_is_left_out_by_both(ranks):
    """With float16, do the weights move far? (Without loss scaling, the change would be smaller by 2^15.)
    After an infinity on rank 1, are both networks unchanged, and are both loss scales halved from 2^15?"""
    first, second = both(ranks, "trial_mixed_precision")
    assert first["far"] > 0.5
    assert first["before"] == second["before"] and first["before"][1] == 2**15
    assert first["after"] == second["after"] == (first["before"][0], 2**14)


def test_each_image_of_unequal_parts_weighs_the_same(ranks):
    """With 3 of 12 and 2 of 4 images right, is the accuracy 5/16 = 0.3125 everywhere, instead of the ranks'
    mean 0.375?

    The loss of logits 4 and 0 is log(1 + e^-4) if class 0 is right, and 4 more otherwise. Errors of 1 on 12
    images and of 5 on 4 images have a mean square of 112/16 = 7, whose root is not a mean of 1 and 5.
    """
    near = math.log1p(math.exp(-4))
    for result in both(ranks, "trial_evaluation"):
        expected = {"accuracy": 5 / 16, "loss": near + 4 * 11 / 16}
        assert result["bare"] == pytest.approx(expected, rel=1e-6)
        assert result["shown"] == [pytest.approx(expected, rel=1e-6)] * 2
        history = {f"val_{name}": [value] * 2 for name, value in expected.items()}
        history |= {"accuracy": [1.0] * 2, "loss": [near] * 2}
        for name, values in history.items():
            assert result["history"][name] == pytest.approx(values, rel=1e-5), name
        assert result["line"] == pytest.approx([7, math.sqrt(7)], rel=1e-6)


def test_dropout_masks_differ_between_ranks(ranks):
    """Are the dropout masks of two ranks independent, whether their scripts set one seed or one each? Does
    each rank keep its own seeds?"""
    first, second = both(ranks, "trial_dropout")
    agree = np.mean(first["one seed"]["dropped"] == second["one seed"]["dropped"])
    assert 0.4 < agree < 0.6  # 1,000 coins: 0.5 with a standard deviation of 0.016
    for result in first.values():
        assert result["state"] == result["own"]
    states = [result["one seed"]["state"] for result in (first, second)]
    assert len({seed for state in states for seed, _ in state}) == 4  # two layers on two ranks
    for name in ("one seed again", "a seed each"):  # everything follows from rank 0's seeds
        assert [result[name]["state"] for result in (first, second)] == states


def test_names_of_layers_may_differ(ranks):
    """Can ranks train together if they have created different numbers of layers before? (Horovod matches
    tensors by name.)"""
    first, second = both(ranks, "trial_names")
    assert first["names"] != second["names"]
    assert first["digest"] == second["digest"]


def test_only_rank_0_writes_and_never_half(ranks):
    """Does only rank 0 write a checkpoint, and does an interrupted write leave the previous one?"""
    first, second = both(ranks, "trial_save")
    assert first == {"files": ["model.keras", "cut"], "left": "the one before"}
    assert second == {"files": [], "left": "the one before"}


def test_the_checkpoint_loads_without_horovod(job, training):
    """Does the checkpoint load in a single process, with its weights, optimizer and schedule, without
    Horovod?"""
    assert sorted(f.name for f in job.folder.glob("*.keras")) == ["model.keras"]
    alone = [sys.executable, "-c", LOADED, str(job.folder / "model.keras")]
    printed = subprocess.run(alone, check=True, capture_output=True, text=True).stdout
    digest, steps, rate, predicted = json.loads(printed)
    assert (digest, steps) == (training[0]["digest"], STEPS) and rate == pytest.approx(2 * trainings.ETA)
    assert np.allclose(predicted, training[0]["predicted"], atol=1e-5)


def test_the_progress_is_logged_to_the_job(job, training):
    """Do the metrics contain all steps of each rank, for the progress bar, and the averages of each epoch?"""
    metrics = job.metrics()
    for rank in (0, 1):
        of_rank = metrics[metrics["rank"] == rank].head(STEPS + trainings.EPOCHS)  # of the first training run
        steps = of_rank.dropna(subset=["step"])
        assert steps.step.tolist() == list(range(1, STEPS + 1)) and set(steps.steps) == {STEPS}
        assert np.isfinite(steps.loss).all()
        epochs = of_rank.dropna(subset=["epoch"])
        assert epochs.epoch_loss.tolist() == training[0]["history"]["loss"]


def test_ranks_that_would_wait_are_refused(ranks):
    """Are 33 examples on two ranks, different numbers of epochs, and validation on only one rank refused
    before the first step? Does the error show each rank's value?"""
    first, second = both(ranks, "trial_agreement")
    assert first == second and list(first.pop("nothing")) == ["", 16]
    values = {"steps": (17, 16), "steps with Ranks": (17, 16), "epochs": (2, 3), "validation": ("yes", "no")}
    for name, (zero, one) in values.items():
        message, steps = first[name]
        assert f"{zero} on rank 0" in message and f"{one} on rank 1" in message and steps == 0


FOUND = {
    "plateau": ("the learning rate", 2), "EarlyStopping": ("the end of training", 2),
    "stop": ("the end of training", 1), "weights": ("the weights", 1), "permuted weights": ("the weights", 1),
    "weights at the end": ("the weights", 3), "one step's weights": ("the weights", 1),
    "rate": ("the learning rate", 1), "scheduler": ("the learning rate", 1),
    "freeze": ("the number of trained variables", 1), "schedule": ("the learning rate", 1),
    "constant rate": ("the learning rate", 1), "not broadcast": ("the weights", 1),
}  # fmt: skip
HONEST = {
    "plateau on all": 3,
    "EarlyStopping on all": 2,
    "statistics": 3,
    "last bits": 3,
    "other callbacks": 3,
}


def test_ranks_that_callbacks_make_differ_are_refused_after_the_epoch(ranks):
    """If a callback on one rank changes the learning rate, the weights or the end of training, do both ranks
    raise an error after that epoch? Are honest differences accepted?"""
    for found in both(ranks, "trial_callbacks"):
        for name, (what, epochs) in FOUND.items():
            assert f"differ in {what}:" in found[name][0] and found[name][1] == epochs, (name, found[name])
        assert {name: found[name] for name in HONEST} == {name: ("", n) for name, n in HONEST.items()}


def test_broadcast_needs_weights_and_xla_is_never_used():
    """Is a model without weights refused? Is XLA off even if it was requested, because it does not support
    Horovod's operations?"""
    import keras

    from cluster.training import distributed

    with pytest.raises(ValueError, match="empty"):
        distributed.broadcast(keras.Sequential([keras.layers.Dense(2)], name="empty"))
    net = trainings.small_net(seed=0)
    model = distributed.DataParallel(net.input, net.output)
    with pytest.warns(UserWarning, match="jit"):
        model.compile("sgd", "mse", jit_compile=True)
    assert not model.jit_compile


def test_shards_of_several_inputs_and_sample_weights(monkeypatch):
    """Are dictionaries of inputs and sample weights sharded alike, with a short last batch, and arrays of
    unequal lengths refused?"""
    from cluster.training import distributed

    monkeypatch.setattr(distributed, "horovod", lambda: SimpleNamespace(rank=lambda: 1, size=lambda: 2))
    n = np.arange(59)
    shards = distributed.Shards({"a": n, "b": -n}, 2 * n, 8, seed=3, sample_weight=3 * n)
    parts = [shards[step] for step in range(len(shards))]
    for x, y, weight in parts:
        assert (x["a"] == -x["b"]).all() and (y == 2 * x["a"]).all() and (weight == 3 * x["a"]).all()
    assert [len(y) for _, y, _ in parts] == [8, 8, 8, 5]
    with pytest.raises(ValueError, match=r"\[5, 59\]"):
        distributed.Shards({"a": n}, n[:5], 8)
