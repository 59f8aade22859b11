"""Assignment 09 tests predictions on hidden machines: all tests create the same ones, and they match
the description."""

import math
import re
import textwrap

import numpy as np
import pytest

from cluster.network import Hierarchy, Placeholder, simulate
from cluster.network.fusion import Buffer, fuse

from .. import ROOT

TEXT = next((ROOT / "solutions" / "09_asynchronous_sgd").glob("*.py")).read_text(encoding="utf-8")
MACHINES = re.findall(r"^def judged\(.*?(?=^\S)", TEXT, flags=re.M | re.S)


@pytest.fixture(scope="module")
def names():
    """Return the names of provided cells about machines, the solution's `iteration_seconds`, and the hidden
    tests' `judged` with its `logs_of`."""
    names = {"__name__": "machines"}
    cells = [
        r'given="setup"',
        r'given="machine"',
        r'solution="iteration"',
        r'given="runs"',
        r'given="made-later"',
    ]
    for cell in cells:
        exec(re.search(rf"^# %% {cell}\n(.*?)^# %%", TEXT, flags=re.M | re.S)[1], names)
    exec(MACHINES[0], names)
    exec(textwrap.dedent(re.search(r" +def logs_of.*?(?=\n\n)", MACHINES[0], flags=re.S)[0]), names)
    return names


def test_all_checks_have_the_same_machines():
    """Is the code that creates machines the same in all hidden tests? Does each draw its own noise?"""
    assert len(MACHINES) == 6 and len(set(MACHINES)) == 1
    drawn = re.findall(r"^rng, .* = fresh_rng\((\d+)\)", TEXT, flags=re.M)
    assert len(drawn) == len(set(drawn)) > 1 and "1" not in drawn  # the machines' own


def test_machines_are_as_described(names):
    """Do the hidden machines have 14 runs and 12 later configurations, six of them above 16 ranks?"""
    names |= {"fit": lambda runs: len(runs), "predict": lambda fitted, asked: np.ones((len(asked), 3))}
    made = names["judged"](14)
    assert len(made) == 16
    for runs, asked, logs, deviation, uncertain, shown, _ in made:
        assert len(runs) == 14 and len(asked) == len(logs) == 12 and sum(p > 16 for p, *_ in asked) == 6
        assert not {c for c, _ in runs} & set(asked) and 1 < uncertain.max() < 3
        assert (deviation >= 0.01).all() and 0 < shown < 0.2


def test_the_reference_is_the_solution(names):
    """Do hidden machines take as long as `iteration_seconds` of the solution says?"""
    theta, spread = (
        (0.004, 0.002, 0.03, 5e-5, 0.4e-9),
        [(p, n, 16 * 2**20) for p in names["RANKS"] for n in (8, 64)],
    )
    found = np.exp(names["logs_of"](np.array(theta)[:, None], spread))[:, 0]
    assert np.allclose(found, [names["iteration_seconds"](theta, c) for c in spread], rtol=1e-9)


def test_the_slowest_of_p(names):
    """Is SLOWEST[p] the expected maximum of p standard normal variables: 1/√π for two, 3/(2√π) for three?"""
    assert math.isclose(names["SLOWEST"][2], 1 / math.sqrt(math.pi), rel_tol=1e-6)
    assert math.isclose(names["SLOWEST"][3], 1.5 / math.sqrt(math.pi), rel_tol=1e-6)
    drawn = np.random.default_rng(0).standard_normal((40_000, 16)).max(1)
    assert abs(names["SLOWEST"][16] - drawn.mean()) < 4 * drawn.std() / 200


@pytest.mark.parametrize("configuration", [(2, 8, 16), (4, 16, 64), (8, 8, 4), (12, 8, 64), (16, 32, 16)])
def test_an_iteration_is_that_of_its_messages(names, configuration):
    """Does the time of an iteration equal that of a simulation that sends the buckets message by message?"""
    (p, n, mib), theta = configuration, (0.004, 0.002, 0.0, 5e-5, 0.4e-9)
    inside = {"inside_latency": 5e-6, "inside_time_per_byte": 0.02e-9}
    network = Hierarchy(5e-5, 0.4e-9, ranks_per_node=min(p, 4), **inside)
    gradients = [Buffer("", size, share) for size, share in names["GRADIENTS"]]
    passes, end = 0.004 + 0.002 * n, 0.0

    def ring(comm, x):
        for _ in range(2 * (comm.size - 1)):
            comm.sendreceive(x, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)

    for bucket in fuse(gradients, mib << 20):
        size = sum(buffer.size for buffer in bucket)
        run = simulate(ring, Placeholder(size // 4, np.float32), ranks=p, network=network, record=False)
        whole = simulate(ring, Placeholder(0, np.float32), ranks=p, network=network, record=False).time
        end = max(end, passes * (1 + 2 * bucket[-1].ready) / 3) + whole + (run.time - whole) / p
    result = names["iteration_seconds"](theta, (p, n, mib << 20))
    assert math.isclose(result, max(end, passes), rel_tol=1e-9)
