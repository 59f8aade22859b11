"""Routes and shared links compared with arithmetic by hand."""

import math

import pytest

from cluster.network import Hierarchy, Network, Placeholder, Switch, Torus, Tree, simulate
from cluster.network.links import Links

# α = 1 s, β = 1 s/byte: a byte takes a second on an unshared link.
LINK = {"latency": 1.0, "time_per_byte": 1.0}


def ends(network, ranks, messages):
    """Return when each message (source, dest, bytes, start) ends."""

    def program(comm):
        requests = []
        for source, dest, size, start in messages:
            if comm.rank in (source, dest):
                comm.compute(max(0.0, start - comm.time()))
            if comm.rank == source:
                requests.append(comm.isend(Placeholder(size, "u1"), dest))
            if comm.rank == dest:
                requests.append(comm.ireceive(source))
        for request in requests:
            request.wait()

    run = simulate(program, ranks=ranks, network=network)
    results = {(m.source, m.dest): m.end for m in run.messages}
    return [results[source, dest] for source, dest, _, _ in messages]


def test_own_links_share_nothing():
    """If each pair has its own link, are all messages sent at full speed?"""
    assert ends(Network(**LINK), 4, [(0, 1, 8, 0), (0, 2, 8, 0), (3, 1, 8, 0)]) == [9, 9, 9]


def test_a_switch_shares_a_cable():
    """Do two messages to one rank take twice as long? If one of them ends, does the other get its share?"""
    network = Switch(**LINK)
    assert ends(network, 3, [(0, 2, 8, 0), (1, 2, 8, 0)]) == [17, 17]
    # The first 4 bytes of each message take 8 s. Then the longer message is alone on the link.
    assert ends(network, 3, [(0, 2, 4, 0), (1, 2, 8, 0)]) == [9, 13]
    # The first is alone for 2 s, shares the link for 8 s (4 bytes each), and sends its last 2 bytes alone.
    assert ends(network, 3, [(0, 2, 8, 0), (1, 2, 4, 2)]) == [13, 11]
    assert ends(network, 3, [(0, 1, 8, 0), (1, 0, 8, 0)]) == [9, 9]  # both directions use different links


def test_max_min_is_not_equal_parts():
    """Does a message get the part of its link that a bottleneck elsewhere leaves free?

    Three messages go down to rank 3. One of them comes up from rank 0, which also sends one to rank 4. The
    three get a third of rank 3's cable each, and the fourth gets two thirds of rank 0's cable.
    """
    messages = [(0, 3, 8, 0), (1, 3, 8, 0), (2, 3, 8, 0), (0, 4, 8, 0)]
    assert ends(Switch(**LINK), 5, messages) == pytest.approx([25, 25, 25, 13])


def test_latency_does_not_occupy_a_link():
    """During a message's latency, can another message use the full bandwidth of the link?"""
    assert ends(Switch(4.0, 1.0), 3, [(0, 2, 2, 0), (1, 2, 2, 2)]) == [6, 8]


def test_ranks_of_a_node_share_its_adapter():
    """Do the ranks of a node share its network adapter, unless each rank has its own? Do messages within a
    node get the full bandwidth?"""
    node = (2, 0.5, 0.125)
    messages = [(0, 2, 8, 0), (1, 3, 8, 0), (4, 5, 8, 0), (5, 4, 8, 0)]
    assert ends(Hierarchy(1.0, 1.0, 0, 0, *node), 6, messages) == [17, 17, 1.5, 1.5]
    assert ends(Hierarchy(1.0, 1.0, 0, 0, *node, one_card=False), 6, messages) == [9, 9, 1.5, 1.5]


def test_torus_goes_the_shorter_way():
    """Does a route go the shorter way in each dimension, across the periodic boundary if necessary, with one
    link per step?"""
    torus = Torus(**LINK, shape=(4, 5))
    assert torus.route(0, 4).links == ((0, 1, -1),)  # across the periodic boundary
    assert torus.route(0, 7).links == ((0, 0, 1), (5, 1, 1), (6, 1, 1))
    assert torus.route(0, 10).links == ((0, 0, 1), (5, 0, 1))  # both directions have length 2: forwards
    for a in range(20):
        for b in range(20):
            if a != b:
                ends_of = ((a // 5, b // 5, 4), (a % 5, b % 5, 5))
                steps = sum(min((x - y) % n, (y - x) % n) for x, y, n in ends_of)
                route = torus.route(a, b)
                assert len(set(route.links)) == steps == route.latency and route.links[0][0] == a
    with pytest.raises(ValueError, match=r"shape \(4, 5\) has 20 ranks, not 6"):
        torus.check(6)


def test_torus_shares_links():
    """Do messages share a link that they both cross, while messages between neighbours share none?"""
    torus = Torus(0.0, 1.0, shape=(5,))
    assert ends(torus, 5, [(0, 1, 8, 0), (1, 2, 8, 0), (2, 3, 8, 0)]) == [8, 8, 8]
    assert ends(torus, 5, [(0, 2, 8, 0), (1, 2, 8, 0)]) == [16, 16]


@pytest.mark.parametrize("growth, end", [(1, 4 * 8), (2, 2 * 8), (4, 8), (8, 8)])
def test_a_thin_tree_and_a_fat_one(growth, end):
    """Do the four ranks of a switch share its uplink, whose bandwidth is `growth` times a rank's?"""
    tree = Tree(0.0, 1.0, arity=4, growth=growth)
    assert ends(tree, 8, [(r, 4 + r, 8, 0) for r in range(4)]) == [end] * 4
    assert tree.route(0, 1).links == (("up", 0, 0), ("down", 0, 1))
    assert tree.route(0, 4).links == (("up", 0, 0), ("up", 1, 0), ("down", 1, 1), ("down", 0, 4))
    assert Tree(1.0, 1.0).route(0, 7).latency == 6


def test_shares_never_exceed_a_link():
    """With many messages, is the bandwidth of each link respected, and is it divided with max-min fairness?

    By the definition of max-min fairness, every message crosses a fully used link on which no other message
    has a larger share.
    """
    network = Torus(0.0, 0.5, shape=(3, 4))
    links = Links(network)
    for a in range(12):
        for b in range(12):
            if a != b:
                links.begin((a, b), 1000 + 7 * a + b, network.route(a, b), 0.0)
    seen = []
    share = links._share

    def shared(changed, time):
        share(changed, time)
        seen.append(time)
        for flows in links._on.values():
            assert sum(f.rate for f in flows) <= 2 * (1 + 1e-9)
        for flow in {f for flows in links._on.values() for f in flows}:
            full = [links._on[x] for x in flow.links if math.isclose(sum(f.rate for f in links._on[x]), 2)]
            assert any(max(f.rate for f in flows) <= flow.rate * (1 + 1e-9) for flows in full)

    links._share = shared
    time, ended = 0.0, [()]
    while ended:
        assert len(seen) < 1000
        before, (time, ended) = time, links.advance()
        assert not ended or time >= before
    assert len(seen) > 20


def test_what_takes_no_time_is_not_shared():
    """Do links without a time per byte add only their latency?"""
    assert ends(Switch(1.0, 0.0), 3, [(0, 2, 8, 0), (1, 2, 8, 0)]) == [1, 1]
    assert ends(Switch(1.0, 1.0), 3, [(0, 2, 0, 0), (1, 2, 8, 0)]) == [1, 9]
