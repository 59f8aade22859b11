"""Lecture 09: its simulation is correct, and its records were made alike."""

import ast
import math
from collections import Counter

import numpy as np
import pytest

from ..modules import module_of
from .definitions import RUNS, defined, recorded

SETTINGS = {"MEDIAN", "STRAGGLERS", "GOAL", "CASES", "WAYS", "KNOWN", "ASKED"}


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; nothing is drawn."""
    return defined("09", SETTINGS, script=module_of("lectures/runs/09_iterations.py"))


def test_the_record_ran_the_lectures_twin(lecture):
    """Is the function that drew the staleness of the recorded training runs identical to the lecture's?"""
    script = ast.parse((RUNS / "09_staleness.py").read_text())
    [theirs] = [node for node in script.body if getattr(node, "name", "") == "parameter_server"]
    [ours] = ast.parse(lecture["texts"]["parameter_server"]).body
    assert [ast.dump(node) for node in ours.body[1:]] == [ast.dump(node) for node in theirs.body[1:]]


# ---- The simulation


def test_parameter_server_by_hand(lecture):
    """Are the times of five updates by two workers (2 s and 3 s per gradient), and their staleness, as
    computed by hand?"""
    rows = lecture["parameter_server"](lambda worker: 2 + worker, 2, 5)
    assert rows[:, 0].tolist() == [2, 3, 4, 6, 6]
    assert rows[:, 1].tolist() == [0, 1, 0, 0, 1]
    assert rows[:, 2].tolist() == [0, 1, 1, 0, 2]


def test_a_busy_server_makes_a_queue(lecture):
    """If four workers compute almost instantly, and the server needs 1 s per gradient, is one gradient
    applied per second, after the gradients of the other three?
    """
    rows = lecture["parameter_server"](lambda worker: 1e-6, 4, 40, service=1.0)
    assert np.diff(rows[:, 0]) == pytest.approx(1.0)
    assert (rows[4:, 2] == 3).all()


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_mean_staleness_is_a_matter_of_counting(lecture, workers):
    """In a long run, is the mean staleness p − 1, whatever the speeds of the p workers?"""
    rng = np.random.default_rng(0)
    speeds = rng.uniform(0.1, 10, workers)
    rows = lecture["parameter_server"](lambda w: speeds[w] * rng.exponential(), workers, 20_000)
    assert rows[:, 2].mean() == pytest.approx(workers - 1, abs=0.05)


def test_all_reduce_rounds_by_hand(lecture):
    """If a round takes 1 s and a gradient 1.5 s, are gradients used in rounds 2, 3, 5 and 6, each with a
    staleness of 2, as computed by hand?
    """
    result = lecture["all_reduce_rounds"](lambda worker: 1.5, 1, 7, 1.0)
    assert result == [[], [], [2], [2], [], [2], [2]]


def test_staleness_of_rounds_is_a_gradients_time_and_one(lecture):
    rng = np.random.default_rng(0)
    result = lecture["all_reduce_rounds"](lambda worker: rng.uniform(2, 4), 8, 20_000, 1.0)
    assert np.mean([s for one in result for s in one]) == pytest.approx(3 + 1, rel=0.01)


def test_backup_workers_by_hand(lecture):
    """If two of three workers (1, 2 and 5 s per gradient) are needed, do three updates take 2 s each, and is
    one gradient of the slowest worker dropped, as computed by hand?
    """
    ends, dropped = lecture["backup_workers"](lambda worker: [1, 2, 5][worker], 3, 2, 3)
    assert ends.tolist() == [2, 4, 6] and dropped == 1


def test_waiting_for_all_is_the_largest_of_all(lecture):
    draws = iter(np.random.default_rng(1).uniform(1, 2, 400).tolist())
    kept = []
    ends, dropped = lecture["backup_workers"](lambda worker: kept.append(next(draws)) or kept[-1], 4, 4, 50)
    assert dropped == 0
    assert np.diff(ends) == pytest.approx(np.reshape(kept[4:200], (-1, 4)).max(1))


# ---- Stale gradients


def test_limit_of_a_parabola(lecture):
    """On a parabola with gradients of staleness s, does SGD converge if the learning rate is 5% below the
    limit, and diverge if it is 5% above?
    """
    assert lecture["limit"](0) == pytest.approx(2)
    for s in (0, 1, 3, 7):
        for share, ends in ((0.95, lambda w: w < 1e-3), (1.05, lambda w: w > 10)):
            w = [1.0] * (s + 1)
            for _ in range(4_000):
                w.append(w[-1] - share * lecture["limit"](s) * w[-1 - s])
                if abs(w[-1]) > 1e6:
                    break
            assert ends(max(map(abs, w[-s - 1 :])))


def runs_of(record, arm, tuning):
    """Return {learning rate: {seed: run}} of a variant, for the seeds used for tuning or for the reported
    ones."""
    results = {}
    for job in record["jobs"]:
        if (job["seed"] in record["tuning"]) == tuning:
            for row in job["rows"]:
                if row["arm"] == arm:
                    results.setdefault(row["rate"], {})[job["seed"]] = row
    return results


def test_the_gradient_of_the_trainings_is_one():
    """Does the gradient in the scripts of the recorded runs agree with finite differences of the loss, for
    some weights?
    """
    for name in ("09_staleness", "09_asynchronous"):
        script, rng = module_of(f"lectures/runs/{name}.py"), np.random.default_rng(0)
        w, x, y = script.network(0).astype(float), rng.random((5, 196)), np.arange(5)
        _, g = script.gradient(w, x, y)
        for i in rng.integers(len(w), size=20):
            step = np.zeros_like(w)
            step[i] = 1e-5
            slope = (script.gradient(w + step, x, y)[0] - script.gradient(w - step, x, y)[0]) / 2e-5
            assert g[i] == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_arms_are_compared_like_with_like():
    """Did each variant run with the same learning rates and seeds, and was it tuned on seeds that are not
    reported?"""
    record = recorded("09_staleness")
    arms = {row["arm"] for row in record["jobs"][0]["rows"]}
    assert len(arms) == 17
    for arm in arms:
        tuning, reported = (runs_of(record, arm, which) for which in (True, False))
        assert tuning.keys() == reported.keys() and len(tuning) == 11
        assert {frozenset(runs) for runs in tuning.values()} == {frozenset(record["tuning"])}
        assert {frozenset(runs) for runs in reported.values()} == {frozenset(range(3, 8))}


@pytest.mark.parametrize("seed", [0, 3])
def test_rates_divided_by_staleness_have_the_same_mean(seed):
    """Are the learning rates that are divided by the staleness scaled to a mean of 1? Is the mean of the
    drawn staleness the number of workers minus 1?
    """
    arms = module_of("lectures/runs/09_staleness.py").arms(seed)
    staleness, rates, _, _ = arms["by its own"]
    assert rates.mean() == pytest.approx(1) and (staleness == arms["server, 8, 2 slow"][0]).all()
    assert np.allclose(rates * np.maximum(1, staleness), rates[0] * max(1, staleness[0]))
    for name, workers in {"8 equal": 8, "8, stragglers": 8, "64, stragglers": 64}.items():
        assert arms[f"server, {name}"][0].mean() == pytest.approx(workers - 1, rel=0.02)


# ---- The prediction


def test_thirty_are_held_out():
    record = recorded("09_iterations")
    fitted = {tuple(c) for c in record["fitted"]}
    timed = Counter(tuple(configuration) for job in record["jobs"] for configuration, _ in job["rows"])
    assert len(fitted) == 10 and fitted <= timed.keys() and len(timed) == 40
    assert set(timed.values()) == {2}


def test_messages_by_hand(lecture):
    """Are message times as computed by hand, with the textbook's α + nβ and with a token bucket? In the
    latter, short messages take only α, and long ones at least the time that the cable needs.
    """
    assert lecture["textbook"](10, 1.0, 0.5) == 6
    assert lecture["token_bucket"](2048, 1.0, 1e-3) == pytest.approx(2.048)
    assert lecture["token_bucket"](100, 1.0, 1e-3) == 1
    assert lecture["token_bucket"](3048, 3.0, 1e-3) == pytest.approx(4.0)


def test_predict_by_hand(lecture):
    """Is a prediction as computed by hand, with a single bucket of gradients, which is ready when the passes
    end, and with 2 (p − 1) messages of 1/p of the gradients' bytes?
    """
    size = sum(4 * n for n, _ in lecture["script"].TENSORS)
    theta = (0.002, 1e-3, 0.0, 1e-6)
    expected = 0.010 + 0.002 + 6 * (1e-3 + size / 4 * 1e-6)
    assert lecture["predict"](theta, (4, 10, 1 << 20), lecture["textbook"]) == pytest.approx(expected)


def test_fit_finds_what_it_was_made_from(lecture):
    """Does a fit to times that the model computed return the model's four parameters?"""
    theta = np.array([0.003, 4e-4, 5e-5, 3e-7])
    configurations = [tuple(c) for c in recorded("09_iterations")["fitted"]]
    seconds = [lecture["predict"](theta, c, lecture["textbook"]) for c in configurations]
    parameters, residuals = lecture["fit"](configurations, seconds, lecture["textbook"])
    assert np.abs(residuals).max() < 1e-4 and parameters == pytest.approx(theta, rel=0.02)


def test_the_gradients_are_those_of_lecture_08():
    """Do the gradients of the timed iterations have the sizes of lecture 08's network, whose steps to a
    target section 9.9 uses?
    """
    import runpy
    import sys
    from unittest import mock

    with mock.patch.object(sys, "argv", ["train.py", "1", "0"]):
        names = runpy.run_path(str(RUNS / "08_large_batches" / "train.py"), run_name="train")
    theirs = sorted(math.prod(w.shape) for w in names["network"]().trainable_variables)
    assert sorted(n for n, _ in module_of("lectures/runs/09_iterations.py").TENSORS) == theirs
