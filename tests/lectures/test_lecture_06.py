"""Lecture 06: its all-reduces and formulas are correct, and its records are of its code."""

import ast

import numpy as np
import pytest

from cluster.network import Hierarchy, Network, Placeholder, Switch, resnet50, simulate, sums
from cluster.network.bandwidth import allreduce_seconds

from .definitions import RUNS, defined, recorded

NETWORK = Network(latency=17e-6, time_per_byte=0.83e-9, reduction=0.11e-9)
SHARED = ("parameter_server", "tree", "ring", "halving_doubling")


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; no jobs are run, and nothing is drawn."""
    return defined("06", {"ETHERNET"})


@pytest.fixture(scope="module")
def timeline():
    return recorded("06_timeline")


@pytest.mark.parametrize("name", SHARED)
def test_the_record_ran_the_lectures_code(lecture, name):
    """Are the all-reduces in the slow network's script identical to the lecture's, except for docstrings?"""
    script = ast.parse((RUNS / "06_slow_network.py").read_text())
    [theirs] = [node for node in script.body if getattr(node, "name", "") == name]
    [ours] = ast.parse(lecture["texts"][name]).body
    code = [ast.dump(ast.Module(function.body[1:], [])) for function in (ours, theirs)]
    assert code[0] == code[1] and ast.dump(ours.args) == ast.dump(theirs.args)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("name", SHARED)
def test_sums(lecture, name, ranks):
    """Does every rank get the sum, with each rank's contribution counted once?"""
    sums.check_sum(lecture[name], ranks, 3 * ranks)


@pytest.mark.parametrize("nodes, q", [(1, 4), (4, 1), (3, 2), (4, 4)])
def test_leaders(lecture, nodes, q):
    """Is the sum of section 6.7's all-reduce correct, and does its simulated time match the formula if
    additions take no time?
    """
    sums.check_sum(lecture["leaders"], nodes * q, 5 * nodes, q)
    network = Hierarchy(9e-6, 1e-9, ranks_per_node=q, inside_latency=2e-6, inside_time_per_byte=1e-10)
    n = 4 * 1200 * nodes
    ring = 2 * (nodes - 1) * (9e-6 + n / nodes * 1e-9)
    result = allreduce_seconds(lecture["leaders"], n, nodes * q, network, q)
    assert result == pytest.approx(2 * (q - 1) * (2e-6 + n * 1e-10) + ring, rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 4, 8, 32])
def test_what_they_cost(lecture, ranks):
    """Do the simulated times match the formulas of sections 6.3 and 6.4? For the parameter server, 2 (p − 1)
    vectors are sent one after another.
    """
    n, a, b, g = 4 * 32 * 100, NETWORK.latency, NETWORK.time_per_byte, NETWORK.reduction
    rest = 2 * (ranks - 1) / ranks * n * b + (ranks - 1) / ranks * n * g
    expected = {
        "parameter_server": (ranks - 1) * (2 * (a + n * b) + n * g),
        "tree": np.log2(ranks) * (2 * (a + n * b) + n * g),
        "ring": 2 * (ranks - 1) * a + rest,
        "halving_doubling": 2 * np.log2(ranks) * a + rest,
    }
    for name, cost in expected.items():
        run = simulate(lecture[name], Placeholder(n // 4), ranks=ranks, network=NETWORK)
        assert run.time == pytest.approx(cost, rel=1e-9), name
        assert run.bytes_sent == 2 * (ranks - 1) * n


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_crossover_on_two_switches(lecture, ranks):
    """On two switches, do ring and halving-doubling take the same time at the message size that the formula
    gives? On one switch, is halving-doubling faster at this size?
    """
    a, b = 600e-6, 0.17e-6
    size = 2 * (ranks - 1 - np.log2(ranks)) / (1 - 2 / ranks) * a / b
    size = round(size / (64 * ranks)) * 64 * ranks
    two = Hierarchy(a, b, ranks_per_node=ranks // 2, inside_latency=a, inside_time_per_byte=b)
    times = [allreduce_seconds(lecture[f], size, ranks, two) for f in ("ring", "halving_doubling")]
    assert times[0] == pytest.approx(times[1], rel=0.01)
    one = [allreduce_seconds(lecture[f], size, ranks, Switch(a, b)) for f in ("ring", "halving_doubling")]
    assert one[0] == pytest.approx(times[0], rel=1e-9) and one[1] < one[0]


def test_line_crossing_and_ping_pong(lecture):
    """Does line() give the line through the first and the last point? Does crossing() interpolate on a
    logarithmic scale to find where the ratio falls below 1? Does a ping-pong take α + nβ?
    """
    assert lecture["line"]([1, 2, 3], [3.0, 99.0, 7.0]) == (1.0, 2.0)
    assert lecture["crossing"](np.array([1, 4, 16]), np.array([3.0, 1.5, 0.5])) == pytest.approx(8)
    result = simulate(lecture["ping_pong"], [10, 1000], 3, ranks=2, network=NETWORK).results[0]
    assert result == pytest.approx(17e-6 + np.array([[10] * 3, [1000] * 3]) * 0.83e-9)


def test_timeline_is_whole(timeline):
    """Does each recorded step reduce 210 tensors, with all their bytes once? Are the other four of
    ResNet-50's tensors the known exceptions?
    """
    tensors = resnet50.tensors()
    for step in timeline["steps"]:
        absent = [t.name for i, t in enumerate(tensors) if str(i) not in step["ready"]]
        assert absent == [f"conv{k}_block1_3_bn/beta" for k in (2, 3, 4, 5)]
        sent = sum(4 * tensors[int(i)].parameters for i in step["ready"])
        assert sum(size for *_, size in step["exchanges"]) == sent
        assert sum(count for _, _, count, _ in step["exchanges"]) == 210
        assert len(step["exchanges"]) < 105  # most tensors are fused
