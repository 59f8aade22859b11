"""The machines that assignment 09 uses to test predictions: they are created by the same code everywhere, and
match the assignment's description."""

import math
import re

import numpy as np
import pytest

from cluster.network import Hierarchy, Placeholder, simulate
from cluster.network.fusion import Buffer, fuse

from .. import ROOT

TEXT = next((ROOT / "solutions" / "09_asynchronous_sgd").glob("*.py")).read_text(encoding="utf-8")
HIDDEN = re.findall(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", TEXT, flags=re.S)
SAMPLE = [0, 24]  # the seed of the machine whose runs the assignment shows


def cell(name):
    """Return the text of a provided cell."""
    return re.search(rf'^# %% given="{name}"\n(.*?)^# %%', TEXT, flags=re.M | re.S)[1]


def definition(text, name):
    """Return the source of a function in a check's hidden tests."""
    match = re.search(rf"^def {name}\(.*?(?=^\S)", text, flags=re.M | re.S)
    return match[0].strip() if match else ""


@pytest.fixture(scope="module")
def names():
    """Return the names defined in the provided cells on the machine and its runs, and in the hidden code that
    creates machines."""
    names = {"__name__": "machines"}
    for text in (cell("setup"), cell("machine"), cell("runs"), cell("made-later")):
        exec(text, names)
    whole = next(text for text in HIDDEN if "def hidden_machine" in text)
    exec(re.match(r".*?return list\(zip\(to_fit, made.*?\n", whole, flags=re.S)[0], names)
    return names


def test_all_checks_have_the_same_machines():
    """Is the code that creates machines the same in all hidden tests?"""
    for name, count in [("iteration_of", 7), ("machine_of", 7), ("hidden_machine", 6)]:
        texts = [source for text in HIDDEN if (source := definition(text, name))]
        assert len(texts) == count and len(set(texts)) == 1, name


def test_no_two_checks_have_the_same_seeds():
    """Does each check use its own seed, except for the two checks that use 9 runs?"""
    of_machines = r"(?:hidden_machine|theta, _, to_fit, asked, _ = machine_of)\(\[(\d+), seed\](?:, 9)?\)"
    seeds = re.findall(of_machines, TEXT)
    assert sorted(seeds) == ["1", "11", "2", "3", "6", "7", "7"] and str(SAMPLE[0]) not in seeds


def test_the_runs_shown_are_those_of_the_sample_machine(names):
    """Does the code for hidden machines reproduce the recorded runs and the later ones that the assignment
    describes?"""
    runs, asked, _ = names["hidden_machine"](SAMPLE)
    assert [c for c, _ in runs] == [c for c, _ in names["RUNS"]] and sorted(asked) == names["ASKED"]
    assert np.allclose([s for _, s in runs], [s for _, s in names["RUNS"]], rtol=1e-3)
    theta, noise, *_ = names["machine_of"](SAMPLE)
    assert math.isclose(noise, names["NOISE"], rel_tol=5e-3)
    means = [names["iteration_of"](theta, c, 1 + theta[2] * names["SLOWEST"][c[0]]) for c in names["ASKED"]]
    assert np.allclose(means, names["MEANS"], rtol=5e-3)


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
    result = names["iteration_of"](theta, (p, n, mib << 20), 1.0)
    assert math.isclose(result, max(end, passes), rel_tol=1e-9)
