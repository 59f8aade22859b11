"""Lecture 10: its formulas, virtual time, schedules and recorded runs are correct."""

import ast
import hashlib
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import yaml

from cluster.network import Switch, simulate

from .. import ROOT
from ..modules import module_of
from .definitions import RUNS, defined, recorded

SETTINGS = {
    "MINUTE", "M", "C", "DEVICE_HOURS", "SITUATIONS", "IMAGES", "WAYS", "QUEUE", "jobs", "flat", "plans",
    "TRAIN", "ONE_GPU", "WEIGHTS", "PAPERS", "papers", "rate", "mean", "settings", "record",
}  # fmt: skip


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; nothing is drawn."""
    return defined("10", SETTINGS, palette=[], guess=lambda *a, **k: None)


# ---- Checkpoints


@pytest.mark.parametrize(("hours", "minutes"), [(24, 117), (6, 57), (0.25, 9.1)])
def test_dalys_own_optima(lecture, hours, minutes):
    """For checkpoints that take 5 minutes and for three MTBFs, are the optimal intervals those in the
    captions of figures 3 to 5 of Daly's paper?
    """
    assert lecture["daly"](5, 60 * hours) == pytest.approx(minutes, rel=0.01)


def test_the_best_interval_is_the_best(lecture):
    """In each of the lecture's situations, is the optimal interval the best one on a fine grid, with and
    without a restart time R?
    """
    for c, m, r in lecture["SITUATIONS"].values():
        grid = np.geomspace(c / 10, 10 * m, 200_001)
        for restart in (0, r):
            result = grid[np.argmax(lecture["exact"](grid, c, m, restart))]
            assert lecture["best"](c, m) == pytest.approx(result, rel=1e-3)


def test_formulas_without_failures_and_for_rare_ones(lecture):
    """If failures are almost impossible, is the goodput τ/(τ + C)? If C and R are small against M, do the
    exact and the approximate formulas agree?
    """
    assert lecture["exact"](4.0, 1.0, 1e9, 3.0) == pytest.approx(0.8)
    C, M, R = 1e-4, 1.0, 1e-4
    tau = lecture["young"](C, M)
    assert lecture["exact"](tau, C, M, R) == pytest.approx(lecture["first_order"](tau, C, M, R), abs=4e-4)
    assert lecture["best"](C, M) == pytest.approx(tau, rel=0.01)


def test_a_job_in_virtual_time_by_hand(lecture):
    """Are a job's time and number of failures as computed by hand, with 8 units of work, τ = 4, C = 1 and R =
    2? With one failure at 3, the first interval takes 3 + 2 + 5, and the second one 5.
    """
    lives = iter([3.0, math.inf])
    assert lecture["run"](8.0, 4.0, 1.0, 2.0, lambda: next(lives)) == (15.0, 1)
    lives = iter([3.0, 1.0, math.inf])  # the second failure is during the restart: 3, 4, then 2 + 5
    assert lecture["run"](8.0, 4.0, 1.0, 2.0, lambda: next(lives)) == (16.0, 2)
    lives = iter([9.0, math.inf])  # the second interval loses 4
    assert lecture["run"](8.0, 4.0, 1.0, 2.0, lambda: next(lives)) == (16.0, 1)


# ---- The recorded Slurm


def test_interrupted_training_runs_end_alike():
    """Do all recorded runs, with at least 20 failures in total, end with the same weights? After each
    failure, did the run resume from a saved step?
    """
    runs = recorded("10_failures")["runs"]
    jobs = [(int(interval), job) for interval, some in runs.items() for job in some]
    assert sum(len(job["failure"]) for _, job in jobs) >= 20
    assert len({job["digest"] for _, job in jobs}) == 1
    for interval, job in jobs:
        assert len(job["start"]) == len(job["failure"]) + 1 == len(job["goes on"])
        assert all(step % interval == 0 for step in job["goes on"])
        assert job["goes on"] == sorted(job["goes on"])


def test_goodput_with_a_queue(lecture):
    """If a job neither queues nor needs time to start, does the formula give the same goodput as section
    10.2? Does the start time, when a job may fail, count like the restart time R?
    """
    assert lecture["with_queue"](5, 1, 25, 0, 0) == pytest.approx(lecture["exact"](5, 1, 25, 0))
    assert lecture["with_queue"](5, 1, 25, 0, 2) == pytest.approx(lecture["exact"](5, 1, 25, 2))


KILLED = """
import itertools, os, pathlib, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
from tests.modules import module_of
from cluster.training.checkpoint import read_checkpoint, write_checkpoint
script, path = module_of("lectures/runs/10_failures.py"), pathlib.Path(sys.argv[2])
STEPS = 20_000

def train(to):
    x, y, state = script.state_at_start()
    state = read_checkpoint(path) or state
    while state["step"] < to:
        script.advance(state, x, y)
        if state["step"] % 20 == 0:
            write_checkpoint(path, state)
    return state

moments = random.Random(10)
saved = []
while len(saved) < 20 or saved[-1] <= 100:
    child = os.fork()
    if not child:
        train(STEPS)
        os._exit(0)
    time.sleep(moments.uniform(0.02, 0.25))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    saved.append((read_checkpoint(path) or {"step": 0})["step"])
state = train(saved[-1] + 50)
path.unlink()
whole = train(state["step"])
print(saved, script.digest(state) == script.digest(whole), state["rng"] == whole["rng"])
"""


def test_resume_is_bit_equal_after_20_kills(tmp_path):
    """After SIGKILL at 20 random moments, in steps and in checkpoints, are the weights and the state of the
    random generator the same as without interruption?
    """
    command = [sys.executable, "-c", KILLED, str(ROOT), str(tmp_path / "state.npz")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=280)
    assert done.returncode == 0, done.stderr
    saved, _, rest = done.stdout.rpartition("]")
    steps = ast.literal_eval(f"{saved}]")
    assert len(steps) >= 20 and steps == sorted(steps) and steps[-1] > 100
    assert rest.split() == ["True", "True"]


# ---- Another number of ranks


def test_an_epoch_that_another_number_of_ranks_ends(lecture):
    """If an epoch of 1,200 images is continued by 6 or 3 ranks after 480 images, are the numbers of images
    seen never, once and twice as computed by hand?"""
    new, again, rest = lecture["WAYS"]
    counts = {(way, p): np.bincount(lecture["seen"](way, p), minlength=3).tolist()
              for way in lecture["WAYS"] for p in (3, 6)}  # fmt: skip
    assert counts[new, 6] == [240, 960, 0] and counts[new, 3] == [0, 1080, 120]
    assert counts[again, 3] == counts[again, 6] == [0, 720, 480]
    assert counts[rest, 3] == counts[rest, 6] == [0, 1200, 0]


@pytest.mark.parametrize("kind", ["TensorFlowState", "ObjectState"])
def test_elastic_weights_are_those_of_the_steps(kind):
    """Each step adds 1 to the weights: do they match the number of steps despite a killed worker?"""
    steps = [note for note in recorded("10_elastic")[kind]["notes"] if "step" in note]
    assert steps and all(note["w"] == note["step"] for note in steps)


# ---- Schedules, placement, manifests


def test_schedules_are_possible(lecture):
    """Does each node run at most one job at a time, and does each job get as many nodes and minutes as it
    needs?
    """
    jobs = {job["name"]: job for job in lecture["jobs"]}
    for spans in lecture["plans"].values():
        for (*_, a, start, end), (*_, b, from_, to) in itertools.combinations([s[1:] for s in spans], 2):
            assert not set(a) & set(b) or end <= from_ or to <= start
        for name, job in jobs.items():
            spans_of_rank = [s for s in spans if s[0] == name]
            assert sum(end - start for *_, start, end in spans_of_rank) == job["minutes"]
            assert all(len(places) == job["nodes"] for _, _, places, _, _ in spans_of_rank)
            assert min(start for *_, start, _ in spans_of_rank) >= job["submit"]


def test_the_ring_is_that_of_lecture_06(lecture):
    """Behind a switch, does a ring of p = 4 ranks take 2(p − 1)(α + n/p β)?"""
    network = Switch(1e-6, 1e-9)
    run = simulate(lecture["ring"], 8e6, [0, 1, 2, 3], ranks=6, network=network)
    assert run.time == pytest.approx(6 * (1e-6 + 2e6 * 1e-9))


def test_the_manifest_is_the_one_that_was_checked():
    text = (RUNS / "10_kubernetes.yaml").read_text()
    record = recorded("10_manifest")
    assert record["manifest"] == hashlib.sha256(text.encode()).hexdigest()
    as_it_is = [v for v in record["verdicts"] if not v["changed"]]
    spoilt = [v for v in record["verdicts"] if v["changed"] and v["kind"] == "Job"]
    assert len(as_it_is) == 2 and all(v["error"] is None for v in as_it_is)
    assert len(spoilt) == 6 and all(v["error"] for v in spoilt)
    service, job = yaml.safe_load_all(text)
    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2


# ---- The papers


def test_device_hours(lecture):
    """Do 419 failures in 54 days on 16,384 GPUs mean one failure per 3.09 h? Do 6.5 failures per 1,000
    node-days mean one failure per 28.8 h on 128 nodes?
    """
    llama, nodes, large, small = lecture["DEVICE_HOURS"].values()
    assert llama / 16_384 == pytest.approx(54 * 24 / 419) and llama / 1_024 == pytest.approx(49.5, abs=0.1)
    assert nodes / 1_024 == pytest.approx(1000 / 6.5 / 128 * 24) and large / 1_024 == pytest.approx(7.9)
    assert small / 8 == pytest.approx(47.7 * 24)


def test_the_rate_of_one_of_akibas_gpus(lecture):
    """Do 90 epochs in a quarter of an hour on 1,024 GPUs mean 125 images/s per GPU, which is 64% of the
    published rate of a single GPU?
    """
    assert lecture["rate"] == pytest.approx(90 * 1_281_167 / 900 / 1024)
    assert lecture["rate"] / lecture["ONE_GPU"]["P100, batch 32"] == pytest.approx(0.64, abs=0.005)


def test_what_the_model_hits_and_misses(lecture):
    """Are the predictions as computed by hand? Are all published efficiencies in the table, except Akiba's
    two, between the predictions without and with overlap? Is PFDet's below the prediction without overlap?
    """

    def time(p, q, size, card, alpha, inside):
        nodes, within = p // q, 2 * (q - 1) * (2e-6 + size / q / (inside * 1e9))
        return within + 2 * (nodes - 1) * (alpha * 1e-6 + size / nodes / (card * 1e9))

    inside = {}
    for name, x in lecture["papers"].iterrows():
        link = x.bytes * lecture["WEIGHTS"][x.network], x.card, x.alpha, x.inside
        comm = time(x.p, x.q, *link)
        assert lecture["allreduce"](x.p, x.q, *link) == pytest.approx(comm)
        own = time(x.base, x.base, *link) if x.base > 1 else 0
        step = x.batch / lecture["ONE_GPU"][x.GPU]
        low = step / (step + comm) * (step + own) / step
        high = max(step, step / 3 + own) / max(step, step / 3 + comm)
        result = lecture["efficiency"](step, x.p, x.q, x.base, *link)
        assert list(result.values()) == pytest.approx([low, high])
        inside[name] = low <= x.own <= high
    assert {name for name, hit in inside.items() if not hit} == {
        "Akiba, against a node",
        "Akiba, against a GPU",
    }
    step = 0.83 * 33 * 3600 / (16 * 1.7e6 / 512)
    assert lecture["efficiency"](step, 512, 8, 8, 4e8, 25, 5, 10)["no overlap"] > 0.83


def test_a_checkpoint_without_the_generator_is_noticed():
    """Do two training runs stay equal until the random generator of one of them is reset?"""
    script = module_of("lectures/runs/10_failures.py")
    x, y, state = script.state_at_start()
    other = script.state_at_start()[2]
    for _ in range(30):
        script.advance(state, x, y)
        script.advance(other, x, y)
    assert script.digest(state) == script.digest(other)
    other["rng"] = script.state_at_start()[2]["rng"]  # as after a checkpoint without the generator
    script.advance(state, x, y)
    script.advance(other, x, y)
    assert script.digest(state) != script.digest(other)
