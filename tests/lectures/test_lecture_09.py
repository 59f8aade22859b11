"""Lecture 09: its simulation is correct and agrees with real ranks, and its records support its
statements."""

import ast
import itertools
import json
import math
import pathlib

import jupytext
import numpy as np
import pytest

from cluster.jobs.run.provenance import code_digest

from ..modules import module_of

LECTURES = pathlib.Path(__file__).parents[2] / "lectures"
TEXT, RUNS = LECTURES / "text" / "09_asynchronous_sgd.py", LECTURES / "runs"
NAMES = ("09_asynchronous", "09_staleness", "09_iterations")
CONSTANTS = {"MEDIAN", "STRAGGLERS", "GOAL", "CASES", "WAYS", "KNOWN", "ASKED"}


@pytest.fixture(scope="module")
def lecture():
    """The imports, functions and some constants of the lecture's code cells, with the functions' sources in
    `texts`; nothing is drawn.
    """
    names = {"__name__": "lecture_09", "texts": {}}
    for cell in jupytext.read(TEXT, fmt="py:percent").cells:
        for node in ast.parse(cell.source).body if cell.cell_type == "code" else ():
            targets = {
                getattr(leaf, "id", "")
                for target in getattr(node, "targets", ())
                for leaf in getattr(target, "elts", [target])
            }
            if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef) or CONSTANTS & targets:
                exec(compile(ast.Module([node], []), str(TEXT), "exec"), names)
                names["texts"][getattr(node, "name", "")] = ast.get_source_segment(cell.source, node)
    names["script"] = module_of("lectures/runs/09_iterations.py")
    return names


@pytest.fixture(scope="module")
def records():
    return {name: json.loads((RUNS / f"{name}.json").read_text()) for name in NAMES}


@pytest.fixture(scope="module")
def jobs(records):
    """The jobs that ran on real ranks, keyed by scenario name."""
    return {job["scenario"]["name"]: job for job in records["09_asynchronous"]["jobs"]}


@pytest.mark.parametrize("name", NAMES)
def test_record_is_of_its_script(records, name):
    assert records[name]["script"] == code_digest((RUNS / f"{name}.py").read_text(encoding="utf-8"))
    assert all(job["machine"]["cpu"] and job["versions"]["numpy"] for job in records[name]["jobs"])


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


# ---- Real ranks


@pytest.mark.parametrize("name", ["4 workers", "8 workers", "8 workers, 2 slow"])
def test_staleness_of_real_ranks_agrees(lecture, jobs, name):
    """Do the staleness of real ranks and of three simulations differ by a Kolmogorov-Smirnov distance of at
    most 0.1? Is the mean staleness of the real ranks the number of workers minus 1?
    """
    scenario = jobs[name]["scenario"]
    real = np.array([row[2][0] for row in jobs[name]["rows"]])
    assert len(real) == scenario["updates"] and abs(real.mean() - scenario["workers"] + 1) < 0.05
    for seed in range(3):
        draw = lecture["seconds_of"](scenario, seed)
        twin = lecture["parameter_server"](draw, scenario["workers"], 10_000)[:, 2]
        assert lecture["distance"](real, twin) < 0.1
    assert jobs[name]["loss"][1] < jobs[name]["loss"][0] / 2  # the networks learned, too


def test_the_distance_can_be_large(lecture, jobs):
    """Is the distance above 0.1 between any two scenarios, such as 4 and 8 workers, or slow and equal ones?
    Otherwise, the test above could hardly fail.
    """
    real = {
        name: np.array([row[2][0] for row in job["rows"]]) for name, job in jobs.items() if "workers" in name
    }
    for a, b in itertools.combinations(real.values(), 2):
        assert lecture["distance"](a, b) > 0.1


def test_ranks_that_never_wait_form_a_queue(jobs):
    """If eight ranks never wait, is the mean staleness 7, and are more than 90% of the values exactly 7?"""
    real = np.array([row[2][0] for row in jobs["8 workers that never wait"]["rows"]])
    assert abs(real.mean() - 7) < 0.05 and np.mean(real == 7) > 0.9


@pytest.mark.parametrize("name", ["all-reduce, 4 ranks", "all-reduce, 8 ranks"])
def test_asynchronous_all_reduce_agrees(lecture, jobs, name):
    """After round 100, do simulated and real rounds agree in length, batch and mean staleness within 5%? Is
    the distance of their staleness at most 0.1?
    """
    job, p = jobs[name], jobs[name]["scenario"]["workers"]
    ends = np.array([row[0] for row in job["rows"]])
    period = (ends[100] - ends[0]) / 100
    real = [[s for one in row[1] for s in one] for row in job["rows"]][101:]
    twin = lecture["all_reduce_rounds"](lecture["seconds_of"]({}), p, 3_000, period)[20:]
    stale = [np.array([s for one in lists for s in one]) for lists in (real, twin)]
    assert lecture["distance"](*stale) < 0.1
    assert stale[1].mean() == pytest.approx(stale[0].mean(), rel=0.05)
    assert np.mean([len(one) for one in twin]) == pytest.approx(np.mean([len(one) for one in real]), rel=0.05)
    assert (ends[-1] - ends[100]) / len(real) == pytest.approx(period, rel=0.05)


def test_backup_workers_on_real_ranks(lecture, jobs):
    """With backup workers, is the simulated time per update within 5% of the time on real ranks, and inside
    its confidence interval? Are the most gradients used per second if six of eight workers are needed?
    """
    used = {}
    for needed in (8, 7, 6, 5, 4):
        real = np.diff([0, *(row[0] for row in jobs[f"{needed} of 8"]["rows"])])[1:]
        ends, _ = lecture["backup_workers"](lecture["seconds_of"](lecture["STRAGGLERS"]), 8, needed, 20_000)
        twin = ends[-1] / len(ends)
        assert twin == pytest.approx(real.mean(), rel=0.05)
        assert abs(twin - real.mean()) < 1.96 * real.std(ddof=1) / math.sqrt(len(real))
        # no stale gradient was applied
        assert all(max(row[2]) == 0 for row in jobs[f"{needed} of 8"]["rows"])
        used[needed] = needed / real.mean()
    assert max(used, key=used.get) == 6


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


def tuned(record, arm):
    """Return the learning rate with the lowest median error on the held-out images, for the seeds used for
    tuning."""
    result = runs_of(record, arm, tuning=True)
    return min(result, key=lambda rate: np.median([run["held out"] for run in result[rate].values()]))


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


def test_stale_gradients_need_a_smaller_rate(records):
    """Does the best learning rate fall with the staleness s about as the parabola predicts, within a factor
    of four? At the best learning rate for s = 0, is the error with s = 7 above 40% for each seed?
    """
    record = records["09_staleness"]
    rates = {s: tuned(record, f"s = {s}") for s in (0, 1, 3, 7, 15, 31, 63)}
    assert list(rates.values()) == sorted(rates.values(), reverse=True)
    assert all(1 / 4 < rate / rates[0] * (2 * s + 1) < 4 for s, rate in rates.items())
    assert min(run["error"] for run in runs_of(record, "s = 7", False)[rates[0]].values()) > 40


def test_arms_are_compared_like_with_like(records):
    """Did each variant run with the same learning rates and seeds, and was it tuned on seeds that are not
    reported?"""
    record = records["09_staleness"]
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


@pytest.fixture(scope="module")
def timed(records):
    results = {}
    for job in sorted(records["09_iterations"]["jobs"], key=lambda job: job["run"]):
        for configuration, seconds in job["rows"]:
            results.setdefault(tuple(configuration), []).append(float(np.median(seconds)))
    return results


def test_thirty_are_held_out(records, timed):
    fitted = [tuple(c) for c in records["09_iterations"]["fitted"]]
    assert len(fitted) == 10 and set(fitted) <= timed.keys() and len(timed) == 40
    assert all(len(runs) == 2 for runs in timed.values())


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


def test_fit_finds_what_it_was_made_from(lecture, records):
    """Does a fit to times that the model computed return the model's four parameters?"""
    theta = np.array([0.003, 4e-4, 5e-5, 3e-7])
    configurations = [tuple(c) for c in records["09_iterations"]["fitted"]]
    seconds = [lecture["predict"](theta, c, lecture["textbook"]) for c in configurations]
    parameters, residuals = lecture["fit"](configurations, seconds, lecture["textbook"])
    assert np.abs(residuals).max() < 1e-4 and parameters == pytest.approx(theta, rel=0.02)


def test_what_is_said_of_the_predictions(lecture, records, timed):
    """For both models, is the median error of the predictions below 5% and above the repeat error, and the
    90th percentile below 10%? Is the token bucket's median lower?
    """
    fitted = [tuple(c) for c in records["09_iterations"]["fitted"]]
    again = np.median([abs(second / first - 1) for first, second in timed.values()])
    errors, covered = {}, {}
    for name in ("textbook", "token_bucket"):
        theta, r = lecture["fit"](fitted, [timed[c][0] for c in fitted], lecture[name])
        errors[name] = np.array(
            [
                abs(lecture["predict"](theta, c, lecture[name]) / timed[c][1] - 1)
                for c in timed
                if c not in fitted
            ]
        )
        covered[name] = np.mean(errors[name] < 1.44 * math.sqrt(r @ r / 6))
        assert again < np.median(errors[name]) < 0.05 and np.quantile(errors[name], 0.9) < 0.10
    assert np.median(errors["token_bucket"]) < np.median(errors["textbook"])
    assert again < 0.01
    assert covered["textbook"] > 0.95 and covered["token_bucket"] > 0.8  # the nominal coverage is 80%


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


def test_cases_of_the_slides(lecture):
    """Do fits to some of the slides' rates in images per second predict the other ones within 1.1%?"""
    for name, known in lecture["KNOWN"].items():
        some = [0, 1, 2] if len(known) == 3 else [0, 1]
        (x, t), (x_asked, t_asked) = lecture["terms"](known), lecture["terms"](lecture["ASKED"][name])
        model = x_asked[:, some] @ np.linalg.lstsq(x[:, some], t, rcond=None)[0]
        assert model == pytest.approx(t_asked, rel=0.011)
