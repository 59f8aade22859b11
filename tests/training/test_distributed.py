"""Data-parallel training on two real Horovod ranks, against one process that knows nothing of Horovod."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import trainings

from cluster import submit

pytestmark = pytest.mark.ranks
STEPS = trainings.EPOCHS * 11
# Loads a checkpoint and says whether that took Horovod; in a process of its own, for another test may have.
LOADED = """
import sys
import keras
from cluster.training import distributed
assert isinstance(keras.saving.load_model(sys.argv[1]), distributed.DataParallel)
print("horovod.tensorflow" in sys.modules)
"""
# A sum over 64 images is rounded differently from the mean of two sums over 32: float32 keeps 24 bits, so by
# about 6e-8 of values below 1 at each step, and momentum carries it on. Over 22 steps 1e-5 is ample, and a
# hundredth of what a single step changes.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    two = submit(trainings.two_ranks, ranks_per_node=2, backend="local", folder=folder)
    two.results()  # one after the other: three processes on two cores would only be slower
    return two, submit(trainings.one_process, backend="local", folder=folder)


@pytest.fixture(scope="module")
def ranks(jobs):
    return jobs[0].results()


@pytest.fixture(scope="module")
def training(ranks):
    return [rank["trial_training"] for rank in ranks]


def test_two_ranks_give_the_trajectory_of_one_process(jobs, training):
    """Are the weights after each step those of one process on the same global batches?"""
    one, two = jobs[1].result(), training[0]["weights"]
    assert one.shape == two.shape and len(two) == STEPS
    assert np.abs(two - one).max() < TOLERANCE


def test_the_tolerance_tells_steps_apart(jobs):
    """Would the comparison notice a trajectory that is one step late?"""
    one = jobs[1].result()
    assert np.abs(np.diff(one, axis=0)).max(axis=1).min() > 100 * TOLERANCE


def test_all_ranks_end_with_the_same_bits(training):
    """Are weights and momentum equal to the last bit on both ranks, after each step?"""
    assert training[0]["digest"] == training[1]["digest"]
    assert np.array_equal(training[0]["weights"], training[1]["weights"])
    assert np.array_equal(training[0]["momentum"], training[1]["momentum"])


def test_broadcast_is_of_rank_0_and_of_the_optimizer_too(ranks):
    """Do ranks that started from different seeds have rank 0's weights and optimizer afterwards?"""
    first, second = (rank["trial_broadcast"] for rank in ranks)
    assert first["before"] != second["before"]
    assert first["before"] == first["after"] == second["after"]
    assert first["state"] == second["state"] and set(first["state"]) == {3.0}


def test_metrics_are_averaged_over_all_images(ranks, training):
    """By hand, 4 of 10; and is the validation accuracy in the history that of the whole set?"""
    for rank in ranks:
        uneven, even = rank["trial_average"]
        assert uneven == pytest.approx({"accuracy": 0.4}, rel=1e-12)
        assert even == {"a": 5.0, "b": 1.5}
    for found in training:
        assert found["history"]["val_accuracy"][-1] == pytest.approx(
            found["accuracy of the whole set"], abs=1e-6
        )
    assert training[0]["history"] == training[1]["history"]


def test_batch_norm_statistics_are_averaged_and_weights_are_not(ranks):
    """By hand: means 1 and 3, variances 5 and 7; the trainable γ, 2 and 4, is left alone."""
    for rank, found in enumerate(ranks):
        assert found["trial_statistics"] == [[2.0] * 3, [6.0] * 3, [2.0 + 2 * rank] * 3]


def test_only_rank_0_writes_and_never_half(ranks):
    """Does one rank write, and does a writing that is cut short leave the checkpoint before it?"""
    first, second = (rank["trial_save"] for rank in ranks)
    assert first == {"files": ["model.keras", "cut"], "left": "the one before"}
    assert second == {"files": [], "left": "the one before"}


def test_the_checkpoint_goes_on_without_horovod(jobs, training):
    """Does the checkpoint load here, in one process, with its weights, its optimizer and its schedule?"""
    import keras

    from cluster.training import data, distributed, models

    assert sorted(f.name for f in jobs[0].folder.glob("*.keras")) == ["model.keras"]
    model = keras.saving.load_model(jobs[0].folder / "model.keras")
    assert isinstance(model, distributed.DataParallel)
    assert models.digest(model) == training[0]["digest"]
    assert int(model.optimizer.iterations) == STEPS
    assert float(model.optimizer.learning_rate) == pytest.approx(2 * trainings.ETA)
    alone = [sys.executable, "-c", LOADED, str(jobs[0].folder / "model.keras")]
    assert subprocess.run(alone, check=True, capture_output=True, text=True).stdout == "False\n"
    x, _ = data.fashion_mnist("test", 3)
    assert np.allclose(model(x), training[0]["predicted"], atol=1e-5)


def test_the_job_is_told_how_far_it_is(jobs, training):
    """Do the metrics count all steps of each rank, for the progress bar, and hold each epoch's averages?"""
    metrics = jobs[0].metrics()
    for rank in (0, 1):
        of_rank = metrics[metrics["rank"] == rank]
        steps = of_rank.dropna(subset=["step"])
        assert steps.step.tolist() == list(range(1, STEPS + 1)) and set(steps.steps) == {STEPS}
        assert np.isfinite(steps.loss).all()
        epochs = of_rank.dropna(subset=["epoch"])
        assert epochs.epoch_loss.tolist() == training[0]["history"]["loss"]
