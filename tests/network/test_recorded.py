"""Ranks record their messages, and a replay of the records in virtual time matches a simulated run."""

import threading
from multiprocessing import Pipe

import numpy as np
import pytest

from cluster.network import Hierarchy, Network, simulate
from cluster.network.chunks import bounds
from cluster.network.errors import Deadlock
from cluster.network.recorded import NotesDiffer, call_all, recordings
from cluster.network.sockets import Sockets
from tests.network import algorithms

NETWORK = Network(17e-6, 0.83e-9, 1.3e-6, 0.11e-9)


def recorded(function, calls, patience=20.0):
    """Return the Recording of each call (p, rows of x, …), made by ranks in two processes, which are threads
    here."""
    ends, found = Pipe(), [None, None]

    def process(number):
        sockets = Sockets(number, {1 - number: ends[number]}, patience)
        own = [(p, {r: [x[r].copy(), *rest] for r in range(number, p, 2)}) for p, x, *rest in calls]
        found[number] = call_all(sockets, function, own)

    threads = [threading.Thread(target=process, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return recordings(found)


def vectors(p, n):
    return np.random.default_rng([p, n]).integers(1, 2**40, (p, n)).astype(float)


@pytest.mark.parametrize("name", ["parameter_server", "tree", "ring", "halving_doubling"])
def test_a_replay_is_the_run_in_virtual_time(name):
    """Does a replay have the same results, messages, bytes and seconds as a run in virtual time?"""
    cases = [(p, vectors(p, n)) for p, n in [(1, 3), (2, 6), (3, 2), (5, 13), (8, 24)]]
    function = getattr(algorithms, name)
    for (p, x), call in zip(cases, recorded(function, cases), strict=True):
        assert not call.error
        assert all(np.array_equal(value, x.sum(axis=0)) for value in call.values)
        there = simulate(lambda comm, x=x: function(comm, x[comm.rank].copy()), ranks=p, network=NETWORK)
        again = call.replay(NETWORK)
        assert again.counts == there.counts
        assert sum(len(of_rank) for of_rank in call.sent()) == len(there.messages)


def test_any_network_can_be_asked_afterwards():
    """Can a recorded call, also one with further arguments, be replayed on two networks?"""
    (call,) = recorded(algorithms.hierarchical, [(6, vectors(6, 12), 3)])
    for network in (NETWORK, Hierarchy(20e-6, 0.8e-9, 0, 0, 3, 1e-6, 0.1e-9)):
        x = np.zeros(12)
        assert (
            call.replay(network).time
            == simulate(algorithms.hierarchical, x, 3, ranks=6, network=network).time
        )


def test_requests_are_written_down():
    """Are requests replayed in the order of the ranks' waits?"""

    def shift(comm, x):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        expected = [comm.ireceive(left), comm.ireceive(left)]
        sent = [comm.isend(x, right), comm.isend(2 * x, right)]
        comm.compute(1.5)
        results = [request.wait() for request in reversed(expected)]
        return [*results, *(request.wait() for request in sent), expected[0].wait()]

    x = vectors(3, 4)
    (call,) = recorded(shift, [(3, x)])
    for rank, (second, first, *nothing, again) in enumerate(call.values):
        assert np.array_equal(first, x[rank - 1]) and np.array_equal(second, 2 * x[rank - 1])
        assert nothing == [None, None] and again is first
    assert call.replay(NETWORK).time > 1.5


def test_notes_that_differ():
    """If a rank has recorded another message than the one sent to it, or lacks a step, is this detected?"""
    (call,) = recorded(algorithms.ring, [(3, vectors(3, 9))])
    received = next(note for note in call.notes[1] if note[0] == "sendreceive")
    received[-1] = received[-1] + 1
    with pytest.raises(NotesDiffer, match="rank 1"):
        call.replay(NETWORK)
    (call,) = recorded(algorithms.ring, [(3, vectors(3, 9))])
    del call.notes[2][-1]
    with pytest.raises(Deadlock):
        call.replay(NETWORK)


def test_what_only_buffers_let_pass():
    """If all ranks send before they receive, which works only with buffers, does the replay report a
    deadlock?"""

    def sends_first(comm, x):
        comm.send(x, (comm.rank + 1) % comm.size)
        return comm.receive((comm.rank - 1) % comm.size)

    (call,) = recorded(sends_first, [(4, vectors(4, 3))])
    assert not call.error
    with pytest.raises(Deadlock, match="0 → 1 → 2 → 3 → 0"):
        call.replay(NETWORK)


def test_a_failed_call_leaves_the_next_ones_alone(monkeypatch):
    """Do an error, a missing message, a cycle and an endless loop each affect only one call?"""
    monkeypatch.setattr("cluster.network.recorded.MOST", 100)

    def fails(comm, x):
        if len(x) == 1 and comm.rank == 1:
            raise ValueError("of rank 1")
        if len(x) == 2 and comm.rank == 1:
            return x
        if len(x) == 3:
            comm.receive(1 - comm.rank)
        while len(x) == 4:
            comm.sendreceive(x, 1 - comm.rank, 1 - comm.rank)
        return comm.sendreceive(x, 1 - comm.rank, 1 - comm.rank)

    sizes = (1, 2, 3, 4, 5)
    calls = recorded(fails, [(2, vectors(2, n)) for n in sizes], patience=4.0)
    assert "rank 1: ValueError" in calls[0].error and "of rank 1" in calls[0].error
    assert all("Deadlock" in call.error and "rank 0" in call.error for call in calls[1:3])
    assert "100 times" in calls[3].error
    assert not calls[4].error and np.array_equal(calls[4].values[0], vectors(2, 5)[1])


def test_neighbours_share_no_memory():
    """If one rank changes its result after the call, do the other ranks' results stay unchanged?"""
    x = vectors(4, bounds(8, 4)[-1])
    (call,) = recorded(algorithms.ring, [(4, x)])
    call.values[0][:] = 0
    assert all(np.array_equal(value, x.sum(axis=0)) for value in call.values[1:])


def test_a_call_begins_on_all_processes_at_once():
    """If a rank's process is still busy with earlier calls, does the rank wait rather than fail with a
    deadlock?"""

    def stuck_on_three(comm, x):
        if comm.size == 3:  # ranks 0 and 2, both in process 0, wait for each other
            return x if comm.rank == 1 else comm.receive(2 - comm.rank)
        return algorithms.ring(comm, x)

    three, four = vectors(3, 4), vectors(4, 8)
    *stuck, last = recorded(stuck_on_three, [*[(3, three)] * 3, (4, four)], patience=1.0)
    assert all("Deadlock" in call.error for call in stuck)
    assert not last.error and all(np.array_equal(value, four.sum(axis=0)) for value in last.values)


def test_after_a_deadlock_the_next_message_is_the_next_one():
    """If a receive is refused and tried again, does it get the next message? Is the refusal an error?"""
    found, refusals, sent = [], threading.Event(), threading.Event()

    def stubborn(comm, x):
        if comm.rank:
            refusals.wait()
            for value in (10, 20):
                comm.send(value, 0)
            return sent.set()
        for refused in (lambda: comm.receive(1), lambda: comm.sendreceive(x, 0, 1)):
            with pytest.raises(Deadlock):
                refused()
        refusals.set()
        sent.wait()
        found.append([int(comm.receive(1)), int(comm.receive(1))])

    (call,) = recorded(stubborn, [(2, vectors(2, 3))], patience=0.5)
    assert found == [[10, 20]]
    assert "Deadlock" in call.error


def test_values_that_a_check_keeps():
    """Does `ask` return the check's values of this rank in turn, and record each question with its answer?"""
    sockets = Sockets(0, {})
    kept = [[[np.array([10.0 * rank + i]) for i in range(2)] for rank in range(2)]]
    asks = {rank: [rank] for rank in range(2)}
    found = call_all(sockets, lambda comm, x: [comm.ask(x)[0], comm.ask(x + 1)[0]], [(2, asks)], kept)
    (call,) = recordings([found])
    assert call.values == [[0.0, 1.0], [10.0, 11.0]]
    assert [[int(note[1]) for note in notes] for notes in call.notes] == [[0, 1], [1, 2]]
    (more,) = recordings([call_all(sockets, lambda comm, x: comm.ask(x), [(2, asks)], [[[], []]])])
    assert more.error
