"""The all-reduce algorithms: each rank gets the sum for any p and n, and the times equal the closed forms to
nine digits."""

import math

import numpy as np
import pytest

from cluster.network import Hierarchy, Network, Placeholder, Switch, closed_forms, simulate
from cluster.network.bandwidth import bus_bandwidth, over_size
from cluster.network.errors import WrongSum
from cluster.network.sums import check_sum, chunk_history
from tests.network import algorithms

TIMES = {"latency": 17e-6, "time_per_byte": 0.83e-9, "overhead": 1.3e-6, "reduction": 0.11e-9}
NETWORK = Network(**TIMES)
ALL = ("parameter_server", "tree", "ring", "halving_doubling")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 12, 13])
@pytest.mark.parametrize("name", ALL)
def test_the_sum_is_on_every_rank(name, ranks):
    """Is the sum on every rank, in place, for n = 0, for n < p, and if n is not a multiple of p?"""
    random = np.random.default_rng(ranks)
    for n in (0, 1, 2, ranks - 1, ranks, ranks + 1, 50):
        x = random.integers(-100, 100, (ranks, n)).astype(np.float64)  # sums of integers are exact

        def program(comm, x=x):
            part = x[comm.rank].copy()
            assert getattr(algorithms, name)(comm, part) is part
            return part

        for result in simulate(program, ranks=ranks, network=NETWORK).results:
            assert np.array_equal(result, x.sum(axis=0))


@pytest.mark.parametrize("nodes, per_node", [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (5, 4)])
def test_hierarchical_sum(nodes, per_node):
    """Is the hierarchical sum correct for nodes of any number and size, even if n is small?"""
    for n in (1, 5, 41):
        check_sum(algorithms.hierarchical, nodes * per_node, n, per_node)
    with pytest.raises(ValueError, match=r"5.* 2"):
        check_sum(algorithms.hierarchical, 5, 5, 2)


@pytest.mark.parametrize("network", [NETWORK, Switch(**TIMES)], ids=["own links", "switch"])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("name", ALL)
def test_closed_forms(name, ranks, network):
    """Does virtual time equal the closed form, also behind a switch, as long as no links are shared?"""
    n = 32 * 1000
    result = simulate(getattr(algorithms, name), Placeholder(n), ranks=ranks, network=network).time
    assert result == pytest.approx(getattr(closed_forms, name)(ranks, 4 * n, network), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12, 33])
def test_closed_forms_for_any_p(ranks):
    """Do the closed forms hold if the number of ranks is not a power of two (for the tree, without
    overhead)?"""
    n, lean = 2**5 * 3 * 5 * 7 * 11, Network(NETWORK.latency, NETWORK.time_per_byte, 0.0, NETWORK.reduction)
    for name, network in [(name, lean) for name in ALL] + [("ring", NETWORK), ("halving_doubling", NETWORK)]:
        result = simulate(getattr(algorithms, name), Placeholder(n), ranks=ranks, network=network).time
        assert math.isclose(result, getattr(closed_forms, name)(ranks, 4 * n, network), rel_tol=1e-9), name


@pytest.mark.parametrize("one_card", [False, True])
def test_closed_form_of_the_hierarchical(one_card):
    """Does the hierarchical all-reduce take the closed form's time, with one network adapter per node and
    with one per rank?"""
    inside = {"ranks_per_node": 4, "inside_latency": 2e-6, "inside_time_per_byte": 0.05e-9}
    network = Hierarchy(**TIMES, **inside, one_card=one_card)
    n = 12 * 1000
    result = simulate(algorithms.hierarchical, Placeholder(n), 4, ranks=12, network=network).time
    assert math.isclose(result, closed_forms.hierarchical(12, 4 * n, network), rel_tol=1e-9)


@pytest.mark.parametrize("name, messages", [("ring", 2 * 7), ("halving_doubling", 2 * 3)])
def test_what_each_rank_sends(name, messages):
    """Does each of p = 8 ranks send 2(p − 1)/p times the vector's bytes, in 2(p − 1) messages in a ring and
    in 2 log2 p messages in halving-doubling?"""
    run = simulate(getattr(algorithms, name), Placeholder(800), ranks=8, network=NETWORK)
    for count in run.counts:
        assert (count.messages_sent, count.bytes_sent) == (messages, 2 * 7 * 400)
        assert (count.messages_received, count.bytes_received) == (messages, 2 * 7 * 400)


@pytest.mark.parametrize("ranks", [2, 6, 8, 13])
@pytest.mark.parametrize("name", [*ALL, "hierarchical"])
def test_all_send_the_same_in_sum(name, ranks):
    """Do all ranks together send 2(p − 1) vectors with every algorithm, even if p does not divide n?"""
    further = (ranks if ranks % 2 else 2,) if name == "hierarchical" else ()
    x = Placeholder(1001)
    run = simulate(getattr(algorithms, name), x, *further, ranks=ranks, network=NETWORK)
    assert run.bytes_sent == 2 * (ranks - 1) * x.nbytes


def test_bus_bandwidth():
    """Is a ring's bus bandwidth the link's bandwidth for a large vector, and below 1% of it for a small
    one?"""
    assert bus_bandwidth(8, 2.0, 4) == 6
    small, large = over_size(algorithms.ring, [64, 1 << 30], 8, Switch(10e-6, 1e-9))
    assert math.isclose(large.bus, 1e9, rel_tol=1e-3) and small.bus < 0.01 * 1e9


def one_step_short(comm, x):
    """Run a ring whose reduce-scatter ends one step early."""
    p, chunks = comm.size, np.array_split(x, comm.size)
    for step in range(p - 2):
        out, in_ = (comm.rank - step) % p, (comm.rank - step - 1) % p
        received = comm.sendreceive(chunks[out], (comm.rank + 1) % p, (comm.rank - 1) % p)
        comm.add(chunks[in_], received)
    return algorithms.all_gather(comm, x)


def all_to_all_and_again(comm, x):
    """Add the vectors of all ranks, including the rank's own, which therefore counts twice."""
    copied = x.copy()
    for other in range(comm.size):
        comm.add(x, comm.sendreceive(copied, other, other))


def test_a_missing_contribution_is_reported():
    """Is a wrong sum reported with the rank, the chunk, and the ranks whose contribution is missing?"""
    with pytest.raises(WrongSum) as e:
        check_sum(one_step_short, 4, 8)
    # Rank 3 has added up chunk 1 of ranks 1, 2 and 3; rank 0 passes its own chunk on as the sum.
    assert all(part in str(e.value) for part in ("rank 0", "chunk 1", "2 … 3", "1, 2, 3"))


def test_a_duplicate_contribution_is_reported():
    """Are duplicate contributions, impossible sums and wrong shapes distinguished from missing
    contributions?"""
    with pytest.raises(WrongSum, match=r"rank 2.* 0 … 4.*rank 2 .*\b2 times"):
        check_sum(all_to_all_and_again, 3, 5)
    with pytest.raises(WrongSum, match=r"rank 1.*\b0\.5"):
        check_sum(lambda comm, x: np.full(len(x), 0.5), 2, 3)
    with pytest.raises(WrongSum, match=r"rank 0.*\(2,\).*\(3,\)"):
        check_sum(lambda comm, x: x[:2], 2, 3)


def test_sums_in_floats():
    """Is a sum accepted if it is computed in float64 without rounding? Is a rounded sum reported?"""

    def gathers(comm, x):
        total = np.zeros(len(x))
        for other in range(comm.size):
            total += comm.sendreceive(x, other, other).astype(float)
        return total

    check_sum(gathers, 6, 3)
    with pytest.raises(ValueError, match=r"0 .*float64"):
        check_sum(gathers, 9, 3)


def test_chunks_step_by_step():
    """After step s of a ring's first half, does rank r have the contributions of s + 1 ranks in chunk r −
    s?"""
    history = chunk_history(algorithms.ring, 4)
    assert history.steps == list(range(7))
    assert (history.counts[0].sum(axis=2) == 1).all() and (history.counts[-1] == 1).all()
    for step in (1, 2, 3):
        for rank in range(4):
            assert history.counts[step][rank, (rank - step) % 4].sum() == step + 1
