"""All-reduce in five ways: on every rank x becomes the sum of all ranks' x, in place, and is returned.

x is a vector (n,), with the same n on all ranks; p is `comm.size`, any number, and n may be smaller than p.
Their costs are in `cluster.network.closed_forms`. Students write the functions, so the package lacks them.

    parameter server   rank 0 adds up all vectors, and sends the sum to all
    tree               the same in pairs, pairs of pairs, …: 2⌈log2 p⌉ steps of whole vectors
    ring               2(p − 1) steps of 1/p of the vector each (Patarasuk and Yuan, J. Parallel Distrib.
                       Comput. 69, 2009)
    halving-doubling   2 log2 p steps of a half, a quarter, … (Rabenseifner 2004; Thakur, Rabenseifner and
                       Gropp, Int. J. High Perform. Comput. Appl. 19, 2005)
    hierarchical       rings inside the nodes, then rings between the nodes, each for one part of the vector,
                       as with HOROVOD_HIERARCHICAL_ALLREDUCE
"""

from __future__ import annotations

from typing import Any

from cluster.network.chunks import bounds
from cluster.network.communicator import Communicator, Group


def parameter_server(comm: Communicator, x: Any) -> Any:
    """Let rank 0 receive p − 1 vectors, one after the other, add them, and send the sum p − 1 times."""
    if comm.rank == 0:
        for other in range(1, comm.size):
            comm.add(x, comm.receive(other))
        for other in range(1, comm.size):
            comm.send(x, other)
    else:
        comm.send(x, 0)
        comm.receive(0, into=x[:])
    return x


def tree(comm: Communicator, x: Any) -> Any:
    """Use a binomial tree: at distances 1, 2, 4, …, every second remaining rank sends its sum to its
    neighbour."""
    rank, p, d = comm.rank, comm.size, 1
    while d < p and rank % (2 * d) == 0:
        if rank + d < p:
            comm.add(x, comm.receive(rank + d))
        d *= 2
    if rank:  # d is the lowest bit of the rank: it receives the sum from the rank to which it sent
        comm.send(x, rank - d)
        comm.receive(rank - d, into=x[:])
    while d > 1:
        d //= 2
        if rank + d < p:
            comm.send(x, rank + d)
    return x


def ring(comm: Communicator, x: Any) -> Any:
    """Reduce-scatter, then all-gather: in each step, send one chunk to the right and receive one from the
    left."""
    reduce_scatter(comm, x)
    return all_gather(comm, x)


def reduce_scatter(comm: Communicator, x: Any) -> Any:
    """Run p − 1 steps of a ring, after which rank r has the sum of chunk (r + 1) % p; return that part of
    x."""
    rank, p, at = comm.rank, comm.size, bounds(len(x), comm.size)
    for step in range(p - 1):
        out, in_ = (rank - step) % p, (rank - step - 1) % p
        received = comm.sendreceive(x[at[out] : at[out + 1]], (rank + 1) % p, (rank - 1) % p)
        comm.add(x[at[in_] : at[in_ + 1]], received)
    own = (rank + 1) % p
    return x[at[own] : at[own + 1]]


def all_gather(comm: Communicator, x: Any) -> Any:
    """Circulate the sums until every rank has all of them, which is the second half of the ring; return x."""
    rank, p, at = comm.rank, comm.size, bounds(len(x), comm.size)
    for step in range(p - 1):
        out, in_ = (rank + 1 - step) % p, (rank - step) % p
        into = x[at[in_] : at[in_ + 1]]
        comm.sendreceive(x[at[out] : at[out + 1]], (rank + 1) % p, (rank - 1) % p, into=into)
    return x


def halving_doubling(comm: Communicator, x: Any) -> Any:
    """Exchange halves with partners at distances 1, 2, 4, …, each adding up one half; then reverse the steps.

    If p is not a power of two, the first 2(p − 2^k) ranks begin in pairs. The odd rank of each pair waits for
    the sum, which costs two more messages of the complete vector.
    """
    power = 1 << comm.size.bit_length() - 1
    extra = comm.size - power  # pairs of ranks (0, 1), (2, 3), …; the even rank of each continues
    if comm.rank < 2 * extra and comm.rank % 2:
        comm.send(x, comm.rank - 1)
        comm.receive(comm.rank - 1, into=x[:])
        return x
    if comm.rank < 2 * extra:
        comm.add(x, comm.receive(comm.rank + 1))
    going_on = [*range(0, 2 * extra, 2), *range(2 * extra, comm.size)] if extra else range(power)
    _halve_and_double(Group(comm, going_on), x)
    if comm.rank < 2 * extra:
        comm.send(x, comm.rank + 1)
    return x


def _halve_and_double(comm: Communicator, x: Any) -> None:
    """Run halving-doubling on 2^k ranks, where x[low:high] is the part that a rank still has to add up."""
    low, high, distance, way = 0, len(x), 1, []
    while distance < comm.size:
        partner, middle = comm.rank ^ distance, (low + high) // 2
        mine, other = (low, middle), (middle, high)
        if comm.rank & distance:
            mine, other = other, mine
        received = comm.sendreceive(x[slice(*other)], partner, partner)
        comm.add(x[slice(*mine)], received)
        way.append((partner, mine, other))
        (low, high), distance = mine, 2 * distance
    for partner, mine, other in reversed(way):
        comm.sendreceive(x[slice(*mine)], partner, partner, into=x[slice(*other)])


def hierarchical(comm: Communicator, x: Any, ranks_per_node: int) -> Any:
    """Reduce-scatter within each node, run a ring for each part among the nodes' corresponding ranks, then
    all-gather within each node.

    Rank r is on node r // ranks_per_node. Raises ValueError if the ranks do not fill the nodes.
    """
    q = ranks_per_node
    if q < 1 or comm.size % q:
        raise ValueError(f"{comm.size} ranks do not fill nodes of {q}: take a multiple of ranks_per_node.")
    first = comm.rank // q * q
    node = Group(comm, range(first, first + q))
    peers = Group(comm, range(comm.rank % q, comm.size, q))
    ring(peers, reduce_scatter(node, x))
    return all_gather(node, x)
