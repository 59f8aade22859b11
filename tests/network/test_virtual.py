"""Virtual time compared with arithmetic by hand: the duration of messages, the counts, and the errors."""

import contextlib
import inspect
import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest

from cluster.network import Communicator, Group, Hierarchy, Network, Placeholder, simulate
from cluster.network.arrays import message_bytes
from cluster.network.errors import Deadlock, NoSuchRank, SizeMismatch, Unmatched
from cluster.network.real import MPICommunicator
from cluster.network.virtual import VirtualCommunicator

# Powers of two make sums exact: α = 1 s, β = 1/4 s/byte, o = 1/8 s, γ = 1/2 s/byte.
NETWORK = Network(latency=1.0, time_per_byte=0.25, overhead=0.125, reduction=0.5)
X = np.arange(2, dtype=np.float64)  # 16 bytes: 4 s on the wire


def right_and_left(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def run(function, *args, ranks=2, network=NETWORK):
    return simulate(function, *args, ranks=ranks, network=network)


def test_one_message():
    """Does a message take the sender o + α + nβ, and the receiver o more?"""

    def program(comm):
        comm.send(X, 1) if comm.rank == 0 else comm.receive(0)
        return comm.time()

    assert run(program).results == [0.125 + 1 + 4, 0.125 + 1 + 4 + 0.125]


@pytest.mark.parametrize("late, ends", [(1, [15.0, 15.125]), (0, [15.125, 15.25])])
def test_a_message_begins_when_both_are_ready(late, ends):
    """Does a sender wait for a receiver that is still computing, and a receiver for a sender that is?"""

    def program(comm):
        comm.compute(10.0 * (comm.rank == late))
        comm.send(X, 1) if comm.rank == 0 else comm.receive(0)
        return comm.time()

    assert run(program).results == ends


def test_both_ways_at_once():
    """Does an exchange cost one message instead of two, and does an addition cost γ per byte?"""

    def program(comm):
        x = X.copy()
        other = 1 - comm.rank
        comm.add(x, comm.sendreceive(x, other, other))
        return x, comm.time()

    result = run(program)
    for x, time in result.results:
        assert np.array_equal(x, 2 * X) and time == 0.125 + 5 + 0.125 + 8
    assert result.time == 13.25 and [s.what for s in result.spans] == ["add", "add"]
    assert result.counts[0].adding == 8 and result.counts[0].communicating == 5.25


def test_a_request_lets_the_rank_go_on():
    """Can a rank compute while its message is in transit, and does the message have the value from the time
    of sending?"""

    def program(comm):
        if comm.rank == 0:
            x = X.copy()
            request = comm.isend(x, 1)
            x[:] = -1
            comm.compute(3.0)
            request.wait()
            return comm.time()
        request = comm.ireceive(0)
        comm.compute(20.0)
        assert np.array_equal(request.wait(), X) and request.wait() is request.wait()
        return comm.time()

    assert run(program).results == [5.125, 20.125]


def test_order_between_two_ranks():
    """Are messages between two ranks received in the order of sending, whatever other ranks send?"""

    def program(comm):
        if comm.rank == 2:
            return [int(comm.receive(source)) for source in (1, 0, 1)]
        requests = [comm.isend(10 * comm.rank + i, 2) for i in range(1 + comm.rank)]
        for request in requests:
            request.wait()

    assert run(program, ranks=3).results[2] == [10, 0, 11]


def test_counts():
    """Are messages and bytes counted for both the sender and the receiver?"""

    def program(comm):
        if comm.rank == 0:
            comm.send(X, 1)
            comm.send(X[:1], 2)
        else:
            comm.receive(0)

    first, second, third = run(program, ranks=3).counts
    assert (first.messages_sent, first.bytes_sent, first.messages_received) == (2, 24, 0)
    assert (second.bytes_received, third.bytes_received, third.messages_received) == (16, 8, 1)


def test_ranks_share_nothing():
    """Does each rank have its own arguments, and does a receiver get a copy?"""

    def program(comm, x):
        x += comm.rank
        if comm.rank == 0:
            comm.send(x, 1)
            x[:] = 99
        else:
            return comm.receive(0), x

    x = np.zeros(2)
    received, own = run(program, x).results[1]
    assert not x.any() and not received.any() and (own == 1).all()


def test_same_times_again():
    """Does a repetition give the same times to the last bit?"""

    def program(comm):
        right, left = right_and_left(comm)
        for i in range(5):
            comm.compute(0.1 * ((comm.rank * 7 + i) % 3))
            comm.sendreceive(np.zeros(comm.rank + 1), right, left)
        return comm.time()

    first, second = run(program, ranks=7), run(program, ranks=7)
    assert first.results == second.results
    assert [repr(m) for m in first.messages] == [repr(m) for m in second.messages]


def test_a_cycle_of_senders():
    """If all ranks of a ring send first, does the error name each rank, its partner and its line, and suggest
    a solution?"""

    def ring(comm):
        right, left = right_and_left(comm)
        comm.send(X, right)
        return comm.receive(left)

    with pytest.raises(Deadlock) as e:
        run(ring, ranks=3)
    first, *ranks, advice = str(e.value).splitlines()
    assert "3 of 3" in first and "0.125 s" in first
    line = ring.__code__.co_firstlineno + 2
    for r, words in enumerate(ranks):
        assert re.search(rf"rank {r} .*\b16 .*\brank {(r + 1) % 3},", words)
        assert f"line {line}" in words and "comm.send(X, right)" in words
    assert "0 → 1 → 2 → 0" in advice and "sendreceive" in advice


def test_a_cycle_of_receivers():
    """Does the error distinguish ranks in a cycle from ranks that only wait for the cycle?"""

    def program(comm):
        if comm.rank < 2:
            comm.receive(1 - comm.rank)
        else:
            comm.send(X, 0)

    with pytest.raises(Deadlock, match=r"rank 2 .*rank 0(.|\n)*, 0 → 1 → 0\."):
        run(program, ranks=3)


def test_waiting_for_an_ended_rank_is_an_error():
    """If a rank waits for one that has ended, does the error name both ranks and the line?"""

    def program(comm):
        if comm.rank:
            comm.receive(0)

    with pytest.raises(Deadlock, match=r"rank 1 .*rank 0, .*ended.*line \d+ .*comm\.receive"):
        run(program)


def test_many_waiting_ranks_are_counted():
    """If a hundred ranks wait, does the error list only some of them and count the others?"""
    with pytest.raises(Deadlock) as e:
        run(lambda comm: comm.receive((comm.rank + 1) % comm.size), ranks=100)
    assert "… and 92 more" in str(e.value) and "100 ranks" in str(e.value) and len(str(e.value)) < 1500


def test_left_over_messages():
    """If a message was sent but not received, or expected but not sent, is this reported after all ranks have
    ended?"""

    def sends(comm):
        if comm.rank == 0:
            comm.isend(X, 1)

    def expects(comm):
        if comm.rank == 1:
            comm.ireceive(0)

    with pytest.raises(Unmatched, match=r"rank 0 .*16 bytes .*rank 1.*line \d+"):
        run(sends)
    with pytest.raises(Unmatched, match=r"rank 1 .*rank 0.*line \d+"):
        run(expects)


def test_sizes_that_do_not_match():
    """If sizes do not match, does the error name both ranks, both sizes and both lines?"""

    def program(comm, x):
        if comm.rank == 0:
            comm.send(x, 1)
        else:
            comm.receive(0, into=x[:1])

    with pytest.raises(SizeMismatch) as e:
        run(program, X)
    line = program.__code__.co_firstlineno
    sender, receiver = str(e.value).splitlines()[:2]
    assert all(part in sender for part in ("rank 0", "2 elements", f"line {line + 2}"))
    assert all(part in receiver for part in ("rank 1", "1 element", f"line {line + 4}"))


def test_numpy_would_repeat_one_element():
    """Is adding arrays of different sizes refused, although NumPy would repeat a single element? Is it
    refused for placeholders, too?"""
    for make in (np.zeros, Placeholder):
        with pytest.raises(SizeMismatch, match=r"rank 0.* 1 .* 3 "):
            run(lambda comm, make=make: comm.add(make(3), make(1)))


@pytest.mark.parametrize("other", [2, -1])
def test_no_such_rank(other):
    """Is a message to the rank after the last one refused? Is rank -1 refused, rather than taken as the last
    rank as in a list?"""
    with pytest.raises(NoSuchRank, match=rf"rank {other},(.|\n)*0 … 1"):
        run(lambda comm: comm.send(X, other))


def test_an_error_says_its_rank():
    """If a function raises an error on one rank, is the error raised again with that rank's number, and do
    the other ranks end?"""
    ended = []

    def program(comm):
        try:
            if comm.rank == 1:
                raise KeyError("mine")
            comm.receive(1)
        finally:
            ended.append(comm.rank)

    with pytest.raises(KeyError, match="mine") as e:
        run(program)
    assert "rank 1 of 2" in e.value.__notes__[0] and sorted(ended) == [0, 1]


def test_ranks_are_in_the_callers_context():
    """Do ranks see the caller's context, such as NumPy's errstate, and keep their own changes to
    themselves?"""

    def program(comm):
        before = np.geterr()["divide"]
        np.seterr(divide="raise" if comm.rank else "warn")
        comm.sendreceive(X, 1 - comm.rank, 1 - comm.rank)
        return before, np.geterr()["divide"]

    with np.errstate(divide="ignore"):
        assert run(program).results == [("ignore", "warn"), ("ignore", "raise")]
        assert np.geterr()["divide"] == "ignore"


@pytest.mark.parametrize("kind", [VirtualCommunicator, MPICommunicator, Group])
def test_one_interface(kind):
    """Does each kind of communicator have the protocol's methods, with the same parameters?"""
    for name, expected in inspect.getmembers(Communicator, inspect.isfunction):
        if not name.startswith("_") and not (kind is Group and name in ("add", "compute", "time")):
            signature = inspect.signature(getattr(kind, name)).parameters
            assert list(signature) == list(inspect.signature(expected).parameters), name


def test_a_group_numbers_its_ranks():
    """Are ranks in a group addressed by their numbers in the group? Does a rank outside the group get an
    error?"""

    def program(comm):
        if comm.rank % 2:
            with pytest.raises(ValueError, match=r"\d.*\[0, 2, 4\]"):
                Group(comm, [0, 2, 4])
            return None
        group = Group(comm, [0, 2, 4])
        right, left = right_and_left(group)
        return group.rank, int(group.sendreceive(comm.rank, right, left))

    assert run(program, ranks=6).results[::2] == [(0, 4), (1, 0), (2, 2)]


def test_placeholders_cost_what_arrays_cost():
    """Do placeholders give the same times and counts as arrays?"""

    def program(comm, x):
        parts = np.array_split(x, 3)
        other = 1 - comm.rank
        for part in parts:
            received = np.empty_like(part)
            comm.sendreceive(part, other, other, into=received)
            part += received
        comm.add(x[1:3], comm.sendreceive(x[:2].copy(), other, other))

    real, sizes = run(program, np.zeros(10)), run(program, Placeholder(10, np.float64))
    assert real.time == sizes.time and real.counts == sizes.counts


def test_a_placeholder_has_no_values():
    """Does reading a placeholder raise an error that explains why this is impossible?"""
    with pytest.raises(TypeError, match=r"x\[0\]"):
        Placeholder(3)[0]
    with pytest.raises(TypeError, match=r"np\.sum"):
        np.sum(Placeholder(3))


def test_what_a_network_cannot_be():
    """Are negative times, and a run without ranks, refused?"""
    for wrong, what in [
        (lambda: Network(-1, 0), "latency .*-1"),
        (lambda: run(lambda comm: None, ranks=0), "ranks .*0"),
        (lambda: run(lambda comm: comm.compute(-1.0)), r"-1\.0"),
        (lambda: run(lambda comm: None, ranks=5, network=Hierarchy(1, 1, ranks_per_node=2)), "5 .* 2"),
    ]:
        with pytest.raises(ValueError, match=what):
            wrong()


def test_a_form_is_no_free_message():
    """Can a shape and a type tell no more than the bytes that they cost, also without elements?"""
    forms = Counter()
    for dimensions in range(6):
        sizes = [0, 1, 2, 3, 2**20, *range(2**30, 2**30 + 270 // 9**dimensions)]
        for shape in (s for s in itertools.product(sizes, repeat=dimensions) if math.prod(s) <= 8):
            for dtype in ("f8", "f4", "i8", "i1", "U1", "U77", "S1000", "S2000"):
                with contextlib.suppress(ValueError):  # too large for NumPy
                    forms[message_bytes(np.empty(shape, dtype))] += 1
    assert len(forms) > 10
    for bytes_, number in forms.items():
        assert number <= 64 * 256**bytes_, (bytes_, number)


def test_a_vector_or_a_matrix_costs_its_elements():
    """Do vectors, matrices and numbers cost their elements, and does a run count an empty matrix's shape?"""
    for x in (np.zeros(5), np.zeros((3, 2), "f4"), np.float64(1), np.zeros(0, "i8"), Placeholder(7)):
        assert message_bytes(x) == x.nbytes
    run = simulate(
        lambda comm: comm.sendreceive(np.zeros((0, 7)), 1 - comm.rank, 1 - comm.rank),
        ranks=2,
        network=Network(1.0, 1.0),
    )
    assert run.counts[0].bytes_sent == 8 and run.time == 9.0
