"""Functions of a communicator, which run in virtual time and, with `python -m tests.network.programs`, on
real ranks."""

from __future__ import annotations

import faulthandler
import pickle
import sys
from pathlib import Path

import numpy as np

from cluster.network import Group, Placeholder, on_real_ranks
from cluster.network.errors import NoSuchRank, SizeMismatch
from tests.network import algorithms

LARGE = 1 << 20  # elements; MPI sends arrays of this size only when the receiver is ready


def sums(comm):
    """Run the all-reduces with n = 0, with n < p, with n that is not a multiple of p, and with a large n."""
    results = []
    for name in ("parameter_server", "tree", "ring", "halving_doubling"):
        for n in (0, 1, 3, 1001):
            x = np.random.default_rng(comm.rank).integers(-9, 9, n).astype(float)
            results.append(getattr(algorithms, name)(comm, x))
    x = np.full(LARGE, comm.rank, np.float32)
    return [*results, algorithms.ring(comm, x)[:: LARGE // 4]]


def hierarchical(comm):
    """Run a hierarchical all-reduce with groups of two ranks."""
    return algorithms.hierarchical(comm, np.arange(7.0) * comm.rank, 2)


def both_send_first(comm):
    """Request to receive, then send a large message. This does not block, because the other rank has made its
    request, too."""
    other = comm.rank ^ 1
    request = comm.ireceive(other)
    comm.send(np.full(LARGE, comm.rank), other)
    return request.wait()[0]


def order(comm):
    """Receive the messages of all other ranks, but not in the order of their arrival."""
    if comm.rank:
        for request in [comm.isend(10 * comm.rank + i, 0) for i in range(3)]:
            request.wait()
        return None
    requests = [comm.ireceive(source) for source in [*range(comm.size - 1, 0, -1)] * 3]
    return [int(request.wait()) for request in reversed(requests)]


def types(comm):
    """Send arrays of many shapes and types, including non-contiguous parts, and return what arrives."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    results = []
    for x in (
        np.arange(6).reshape(2, 3).T, np.arange(9, dtype=np.int8)[::3], np.zeros((0, 2)), np.float16(1.5),
        [1, 2], Placeholder(5), np.array([1 << 200, 3], object),
    ):  # fmt: skip
        y = comm.sendreceive(x, right, left)
        results.append((y.shape, str(y.dtype), None if isinstance(y, Placeholder) else y.tolist()))
    into = np.zeros(4)
    comm.sendreceive(np.full(2, comm.rank), right, left, into=into[1:3])
    return results, into


def group(comm):
    """Return this rank's number in a group and the group's size; in a group of one rank, send a message to
    itself."""
    part = Group(comm, [r for r in range(comm.size) if r % 2 == comm.rank % 2])
    return part.rank, part.size, part.sendreceive(np.array(comm.rank), 0, 0) if part.size == 1 else None


def errors(comm):
    """Trigger errors, and return the names of their types."""
    results = []
    other = comm.rank ^ 1
    for wrong in (
        lambda: comm.sendreceive(np.zeros(3), other, other, into=np.zeros(2)),
        lambda: comm.add(np.zeros(3), np.zeros(1)),
        lambda: comm.send(np.zeros(3), comm.size),
    ):
        try:
            wrong()
        except (SizeMismatch, NoSuchRank) as e:
            results.append(type(e).__name__)
    return results


def time_passes(comm):
    """Compute for 0.2 s on rank 0; after an all-reduce, return whether so much time has passed on this
    rank."""
    if comm.rank == 0:
        comm.compute(0.2)
    algorithms.tree(comm, np.zeros(1))
    return comm.time() >= 0.2


ALL = (sums, hierarchical, both_send_first, order, types, group, errors, time_passes)


def every(comm):
    """Run all programs, one after another, and return {name: result}."""
    return {program.__name__: program(comm) for program in ALL}


if __name__ == "__main__":
    faulthandler.dump_traceback_later(120)  # shows which rank waits for which if ranks hang
    result = on_real_ranks(lambda comm: (comm.rank, every(comm)))
    Path(sys.argv[1], f"{result[0]}.pickle").write_bytes(pickle.dumps(result[1]))
