# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Assignment 06: all-reduce
#
# Each of p ranks has a vector of n numbers, and each wants the sum of all p vectors. Horovod has that done
# for every gradient of every step, by NCCL, MPI or Gloo, and it has to be right for *any* p and n. **How few
# messages, how few bytes and how few seconds does it take, and what is left to choose when the algorithm is
# settled?**
#
# You will
#
# - write the two halves of a ring, for any number of ranks and any length of the vector,
# - write halving-doubling, for numbers of ranks that are no power of two, too,
# - write an all-reduce for nodes of several ranks, in which all network links work at once,
# - fit α and β to messages of one byte to 64 MiB, so that the short ones count as much as the long ones,
# - predict the fusion threshold with which an iteration of ResNet-50 is shortest on a given network.
#
# The background is lecture 06, whose ring needs a p that divides n and leaves the sums elsewhere, whose
# halving-doubling needs a power of two, and whose hierarchical form sends all through one rank of a node.
# There are 26 points: 24 in 22 checks, and 2 for an answer in your own words. Fill the holes marked
# `YOUR CODE HERE`, run the free cell that follows each, then the checks; a check that fails says what it saw.
# Some checks also try cases that are not shown.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | p | ranks, numbered from 0 | α | latency of a message in seconds |
# | n | elements of the vector on each rank | β | seconds a byte |
# | q | ranks of a node | γ | seconds that adding a byte takes |
#
# A rank's function gets a *communicator* `comm`: `comm.rank`, `comm.size`, `comm.send(x, dest)`,
# `comm.receive(source)`, both at once with `comm.sendreceive(x, dest, source)`, and `comm.add(into, x)`,
# which is `into += x` under the clock: so that additions take their time, **add with `comm.add`**.
# `help(Communicator)` has it all.

# %% given="setup"
import os
import re

import matplotlib.pyplot as plt
import numpy as np

from cluster.checks import has_failed, watched
from cluster.network import (
    Group,
    Hierarchy,
    Network,
    Placeholder,
    closed_forms,
    draw,
    fusion,
    resnet50,
    simulate,
)
from cluster.network.chunks import bounds
from cluster.network.recorded import recorded_on_ranks
from cluster.network.sums import check_sum, chunk_history

plt.style.use("cluster.course")
NETWORK = Network(latency=20e-6, time_per_byte=0.8e-9)  # 10 Gbit/s


def chunked(x, p):
    """x in p chunks, each a part of x itself: what is written into a chunk is in x."""
    cuts = bounds(len(x), p)
    return [x[cuts[r] : cuts[r + 1]] for r in range(p)]


# %% [markdown]
# ## 1. Half a ring: reduce-scatter
#
# Where p does not divide n, some chunks are longer than others by one element. `chunked` cuts, the
# same on all ranks. Where n < p, some chunks are empty:

# %%
print(chunked(np.arange(10), 4))
print(chunked(np.arange(3), 5))

# %% [markdown]
# In p − 1 steps each rank sends one chunk to the rank at its right, (r + 1) mod p, receives one from its
# left, and adds it up. In the end rank r shall have the sum of **chunk r**, as `MPI_Reduce_scatter` has it.
# In the lecture's ring rank r ends with another chunk. Take p = 3 and a pencil: with which chunk must rank
# r begin?


# %% solution="reduce-scatter"
def reduce_scatter(comm, x):
    """The sum of all ranks' vectors, of which each rank gets its chunk.

    comm  a Communicator
    x     this rank's vector (n,), n of any size and the same on all ranks; it may be changed

    In each of p − 1 steps a rank sends one chunk to its right and receives one from its left. Returns the sum
    of chunk `comm.rank`, an array of the dtype of x.
    """
    rank, p = comm.rank, comm.size
    chunks = chunked(x, p)
    ### BEGIN SOLUTION
    for step in range(p - 1):
        received = comm.sendreceive(chunks[(rank - step - 1) % p], (rank + 1) % p, (rank - 1) % p)
        comm.add(chunks[(rank - step - 2) % p], received)
    own = chunks[rank]
    ### END SOLUTION
    return own


# %% [markdown]
# The vector of rank r is here r + 1 everywhere, so that the sum of three is 6. Does each rank have its chunk
# of it? Below, step by step: a cell names the ranks whose parts are in a chunk.


# %%
def three(comm):
    return reduce_scatter(comm, np.full(7, comm.rank + 1.0))


print(simulate(three, ranks=3, network=NETWORK).results)
draw.chunks(chunk_history(reduce_scatter, 3))
plt.show()
# %% [markdown]
# ## On real ranks, and under a clock
#
# The ranks that you have just seen took turns in one process. The checks call your function on real ones,
# which live in two processes: rank r in process r mod 2, which knows the vectors of its own ranks only.
# Neighbours of a ring share no memory (but one pair where p is odd), and what they tell each other goes
# through a socket. Each rank writes down what it sends and receives. If the notes of all ranks agree, the
# same messages are let pass in virtual time, on any network, and their number, bytes and seconds are judged
# there. So one call on real ranks says all; a function that works only because its ranks share memory
# fails.
#
# `LARGEST` has a reason: with whole numbers of up to 49 bits every sum is exact in float64, and in no
# float32.


# %% given="trial"
SECRET = int.from_bytes(os.urandom(8), "little")  # for vectors that nobody can know beforehand
LARGEST = {"float64": 2**49, "float32": 2**20, "int64": 2**59}


def vectors(p, n, dtype="float64", seed=0):
    """A vector for each of p ranks: (p, n), whole numbers at random."""
    return np.random.default_rng([seed, p, n]).integers(1, LARGEST[dtype], (p, n)).astype(dtype)


def tried(function, cases, inputs=vectors, seed=0, instead=""):
    """Call function(comm, x, …) on real ranks, once for each case (p, n, dtype, …).

    Returns [(case, the vectors (p, n), the Recording of the call)].
    """
    given = [inputs(*case[:3], seed) for case in cases]
    calls = [[[row, *q] for row in x] for (_, _, _, *q), x in zip(cases, given, strict=True)]
    made, _ = recorded_on_ranks(function, calls, instead=instead)
    return list(zip(cases, given, made, strict=True))


# %% given="judges"
def about(case):
    """A case in words."""
    p, n, dtype, *q = case
    return f"{p} ranks{f', {q[0]} on a node' if q else ''}, {n} elements of {dtype}"


def sums_agree(found, wanted, hints=None):
    """Assert that all ranks return what wanted(x) says: a list of arrays, for x (p, n).

    hints: {what was misunderstood: the function that leads to what it gives}.
    """
    for case, x, call in found:
        assert not call.error, f"{about(case)}: {call.error}"
        want = wanted(x)
        for rank, (value, right) in enumerate(zip(call.values, want, strict=True)):
            if isinstance(value, np.ndarray) and value.dtype == right.dtype and np.array_equal(value, right):
                continue
            for words, wrong in (hints or {}).items():
                if all(map(np.array_equal, call.values, wrong(x))):
                    raise AssertionError(f"{about(case)}: {words}")
            got = f"of {value.dtype}" if isinstance(value, np.ndarray) else f"as a {type(value).__name__}"
            raise AssertionError(f"{about(case)}: rank {rank} returns {value} {got}, the sum is {right}")


def passed(found, network=NETWORK):
    """[(case, the Run of its messages in virtual time)]; AssertionError where a call has none."""
    runs = []
    for case, x, call in found:
        assert not call.error, f"{about(case)}: {call.error}"
        try:
            runs.append((case, call.replay(network)))
        except RuntimeError as error:  # a deadlock, or a message that nobody receives
            text = re.sub(r", line \d+ of _play.*", "", str(error))
            raise AssertionError(f"{about(case)}: {text} (simulate names the lines)") from error
        ranks = np.array([*np.ndindex(*[2] * len(x))][1:], x.dtype)  # any of them: (2**p - 1, p)
        sent = [array.ravel() for of_rank in call.sent() for _, array in of_rank]
        assert np.isin(np.concatenate([x[0, :0], *sent]), ranks @ x).all(), (
            f"{about(case)}: numbers are sent that are no sum of some ranks' elements"
        )
    return runs


def whole(x):
    """The sum, on each of p ranks."""
    return [x.sum(axis=0)] * len(x)


def own_chunk(x, shift=0):
    """Of the sum chunk r + shift on rank r."""
    p, chunks = len(x), chunked(x.sum(axis=0), len(x))
    return [chunks[(r + shift) % p] for r in range(p)]


def remainder_last(x):
    """Of the sum a part of n // p elements on each rank, and what is left over on the last."""
    p, n = x.shape
    return np.split(x.sum(axis=0), [r * (n // p) for r in range(1, p)])


CHUNK_HINTS = {
    "rank r has the sum of chunk r + 1, as in the lecture's ring: begin with another chunk.": (
        lambda x: own_chunk(x, 1)
    ),
    "rank r has the sum of chunk r - 1: begin with another chunk.": lambda x: own_chunk(x, -1),
    "each rank returns the whole vector, not its chunk.": whole,
}

EVEN = [(2, 6, "float64"), (3, 12, "float64"), (4, 8, "float64"), (8, 16, "float64")]  # (p, n, dtype)
UNEVEN = [(1, 5, "float64"), (3, 10, "float64"), (5, 3, "float64"), (6, 20, "float64")]


# %% check="reduce-scatter-sum" points=2 see="6.3"
"""Rank r returns the sum of chunk r, where p divides n (2 points)."""
sums_agree(tried(reduce_scatter, EVEN + UNEVEN)[: len(EVEN)], own_chunk, CHUNK_HINTS)
### BEGIN HIDDEN TESTS
HIDDEN = [(5, 15, "float32"), (4, 24, "int64"), (8, 8, "float64"), (8, 5, "float64"), (1, 1, "float64")]
HIDDEN += [(2, 9, "int64"), (5, 7, "float32"), (3, 0, "float64"), (7, 31, "float64")]
sums_agree(tried(reduce_scatter, HIDDEN, seed=SECRET)[:3], own_chunk)
### END HIDDEN TESTS

# %% check="reduce-scatter-any-n" points=1 see="6.3"
"""So it does where p does not divide n, where n < p, and on one rank (1 point)."""
hints = CHUNK_HINTS | {"the chunks are cut otherwise than `chunked` cuts them.": remainder_last}
sums_agree(tried(reduce_scatter, EVEN + UNEVEN)[len(EVEN) :], own_chunk, hints)
### BEGIN HIDDEN TESTS
HIDDEN = [(5, 15, "float32"), (4, 24, "int64"), (8, 8, "float64"), (8, 5, "float64"), (1, 1, "float64")]
HIDDEN += [(2, 9, "int64"), (5, 7, "float32"), (3, 0, "float64"), (7, 31, "float64")]
sums_agree(tried(reduce_scatter, HIDDEN, seed=SECRET)[3:], own_chunk)
### END HIDDEN TESTS


# %% given="traffic-and-time"
def ring_traffic(found, spared):
    """Assert that rank r sends p - 1 messages, all to its right: each chunk once, but chunk r + spared."""
    for (p, n, dtype), run in passed(found):
        chunks, case = chunked(np.empty(n, dtype), p), about((p, n, dtype))
        for rank, counts in enumerate(run.counts):
            to = {message.dest for message in run.messages if message.source == rank}
            assert to <= {(rank + 1) % p}, f"{case}: rank {rank} sends to {sorted(to)}, not to its right only"
            sent, chunk = counts.messages_sent, (rank + spared) % p
            assert sent == p - 1 or sent < p > n, f"{case}: rank {rank} sends {sent} messages, not {p - 1}"
            want = n * np.dtype(dtype).itemsize - chunks[chunk].nbytes
            assert counts.bytes_sent == want, (
                f"{case}: rank {rank} sends {counts.bytes_sent} bytes, not {want}"
            )


SLOW_TO_ADD = Network(latency=20e-6, time_per_byte=0.8e-9, overhead=1.5e-6, reduction=0.3e-9)
LATE = Network(latency=0.25, time_per_byte=0.0)  # only the number of steps counts


def takes(found, seconds, networks=(LATE, NETWORK, SLOW_TO_ADD)):
    """Assert that the last rank ends after seconds(p, bytes of x, network) of virtual time."""
    for network in networks:
        for (p, n, dtype, *_), run in passed(found, network):
            want = seconds(p, n * np.dtype(dtype).itemsize, network)
            if abs(run.time - want) <= 1e-9 * want:
                continue
            added = sum(counts.adding for counts in run.counts)
            assert added or not network.reduction or p == 1, "additions take no time: add with comm.add"
            steps = f", so it is {run.time / LATE.latency:g} steps" if network == LATE else ""
            raise AssertionError(f"{p} ranks, {n} elements: {run.time:.7g} s, not {want:.7g} s{steps}")


def half_a_ring(adds):
    """Seconds of p - 1 steps of an even ring, with additions or without them."""

    def seconds(p, size, network):
        add = size / p * network.reduction if adds else 0.0
        return (p - 1) * (closed_forms.step(size / p, network) + add)

    return seconds


# %% check="reduce-scatter-traffic" points=1 see="6.3"
"""Each rank sends p - 1 messages to its right, and all but its own chunk (1 point)."""
ring_traffic(tried(reduce_scatter, EVEN + UNEVEN), 0)
### BEGIN HIDDEN TESTS
HIDDEN = [(5, 15, "float32"), (4, 24, "int64"), (8, 8, "float64"), (8, 5, "float64"), (1, 1, "float64")]
HIDDEN += [(2, 9, "int64"), (5, 7, "float32"), (3, 0, "float64"), (7, 31, "float64")]
ring_traffic(tried(reduce_scatter, HIDDEN, seed=SECRET), 0)
### END HIDDEN TESTS

# %% check="reduce-scatter-time" points=1 see="6.3"
"""All ranks work at once: p - 1 steps of a chunk, with an addition each (1 point)."""
takes(tried(reduce_scatter, EVEN + UNEVEN)[: len(EVEN)], half_a_ring(True))
### BEGIN HIDDEN TESTS
HIDDEN = [(5, 15, "float32"), (4, 24, "int64"), (8, 8, "float64"), (8, 5, "float64"), (1, 1, "float64")]
HIDDEN += [(2, 9, "int64"), (5, 7, "float32"), (3, 0, "float64"), (7, 31, "float64")]
other = Network(latency=3e-6, time_per_byte=0.05e-9, overhead=0.4e-6, reduction=0.02e-9)
takes(tried(reduce_scatter, HIDDEN, seed=SECRET)[:3], half_a_ring(True), [other])
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The other half: all-gather
#
# Each rank has its chunk of the sum, and wants all of it. Again p − 1 steps, to the right; but now what
# arrives is put into its chunk, and nothing is added. With which chunk does rank r begin this time?


# %% solution="all-gather"
def all_gather(comm, x):
    """Each rank's chunk on all ranks.

    x  (n,): of rank r, chunk r is right, and the rest is whatever it is; it may be changed

    In each of p − 1 steps a rank sends one chunk to its right and receives one from its left. Returns the
    vector whose chunk r is rank r's, for each r: (n,), of the dtype of x.
    """
    rank, p = comm.rank, comm.size
    chunks = chunked(x, p)
    ### BEGIN SOLUTION
    for step in range(p - 1):
        into = chunks[(rank - step - 1) % p]
        comm.sendreceive(chunks[(rank - step) % p], (rank + 1) % p, (rank - 1) % p, into=into)
    whole = x
    ### END SOLUTION
    return whole


# %% [markdown]
# Together the halves are an all-reduce. `check_sum` says whose part is missing where a sum is wrong.


# %%
def ring(comm, x):
    """The sum of all ranks' vectors, on all ranks."""
    chunked(x, comm.size)[comm.rank][:] = reduce_scatter(comm, x)
    return all_gather(comm, x)


for ranks, n in [(1, 4), (2, 6), (3, 10), (5, 3)]:
    check_sum(ring, ranks, n)
draw.space_time(simulate(ring, Placeholder(1_000_003), ranks=5, network=NETWORK))
plt.show()


# %% given="gathered"
def scattered(p, n, dtype, seed):
    """For each of p ranks a vector of which only its own chunk counts: (p, n)."""
    return vectors(p, n, dtype, seed + 100)


def gathered(x):
    """Chunk r of rank r's vector, for each r, on all ranks."""
    p = len(x)
    return [np.concatenate([chunked(x[r], p)[r] for r in range(p)])] * p


# %% check="all-gather-result" points=1 see="6.3"
"""All ranks have all chunks, also where p does not divide n, and on one rank (1 point)."""
hints = {"a rank's own chunk is all it has: nothing was put into x.": list}
sums_agree(tried(all_gather, EVEN + UNEVEN, scattered), gathered, hints)
### BEGIN HIDDEN TESTS
HIDDEN = [(5, 15, "float32"), (8, 5, "float64"), (1, 1, "float64"), (2, 9, "int64"), (7, 31, "float64")]
sums_agree(tried(all_gather, HIDDEN, scattered, seed=SECRET), gathered)
### END HIDDEN TESTS

# %% check="all-gather-traffic" points=1 see="6.3"
"""Each rank sends p - 1 messages to its right: all but the chunk that its right neighbour has (1 point)."""
ring_traffic(tried(all_gather, EVEN + UNEVEN, scattered), 1)
### BEGIN HIDDEN TESTS
HIDDEN = [(5, 15, "float32"), (8, 5, "float64"), (1, 1, "float64"), (2, 9, "int64"), (7, 31, "float64")]
ring_traffic(tried(all_gather, HIDDEN, scattered, seed=SECRET), 1)
### END HIDDEN TESTS

# %% check="all-gather-time" points=1 see="6.3"
"""All ranks work at once: p - 1 steps of a chunk (1 point)."""
takes(tried(all_gather, EVEN + UNEVEN, scattered)[: len(EVEN)], half_a_ring(False))
### BEGIN HIDDEN TESTS
HIDDEN = [(5, 15, "float32"), (8, 5, "float64"), (1, 1, "float64"), (2, 9, "int64"), (7, 31, "float64")]
takes(tried(all_gather, HIDDEN, scattered, seed=SECRET)[:1], half_a_ring(False))
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Halving-doubling, for any number of ranks
#
# A ring of 1,000 ranks takes 1,998 steps. Halving-doubling takes 18 with 512 ranks: in step k a rank
# has a partner at distance 2ᵏ (its number with one bit flipped), each sends the half of its stretch of x that
# the other keeps, and adds up the half that it keeps itself. So a stretch is halved until it is a p-th; then
# the same way back, where halves are put together.
#
# And 1,000 ranks? Let P be the largest power of two that is not above p, and e = p − P. Of the first 2e
# ranks each odd one gives its vector to the even one below it, waits, and gets the sum in the end. The other
# P ranks, renumbered in their order, do the halving and doubling. A stretch of an odd length is cut into two
# that differ by one element.
#
# **Predict**: which costs more with 6 ranks, a ring or halving-doubling? For 1 kB, and for 100 MB? Write it
# down before you run the cell after your function.

# %%
my_cheaper_for_1_kB = None  # "ring" or "halving-doubling"
my_cheaper_for_100_MB = None


# %% solution="halving-doubling"
def halving_doubling(comm, x):
    """The sum of all ranks' vectors x (n,) on every rank, in 2 log2 P steps, and two more where p is not P.

    comm  a Communicator of any size p
    x     this rank's vector (n,), n of any size, also smaller than p; it may be changed

    Returns the sum (n,), of the dtype of x. `Group(comm, ranks)` is a communicator of some of the ranks, made
    by these and no others; in it they have the numbers 0, 1, … in the order of the list `ranks`.
    """
    rank, p = comm.rank, comm.size
    power = 1 << (p.bit_length() - 1)  # P
    extra = p - power  # e
    ### BEGIN SOLUTION
    if rank < 2 * extra and rank % 2:
        comm.send(x, rank - 1)
        return comm.receive(rank - 1)
    if rank < 2 * extra:
        comm.add(x, comm.receive(rank + 1))
    part = Group(comm, [r for r in range(p) if r >= 2 * extra or r % 2 == 0])
    low, high, distance, way = 0, len(x), 1, []
    while distance < power:
        partner, middle = part.rank ^ distance, (low + high) // 2
        mine, other = slice(low, middle), slice(middle, high)
        if part.rank & distance:
            mine, other = other, mine
        comm.add(x[mine], part.sendreceive(x[other], partner, partner))
        way.append((partner, mine, other))
        low, high, distance = mine.start, mine.stop, 2 * distance
    for partner, mine, other in reversed(way):
        part.sendreceive(x[mine], partner, partner, into=x[other])
    if rank < 2 * extra:
        comm.send(x, rank + 1)
    total = x
    ### END SOLUTION
    return total


# %%
for ranks, n in [(1, 4), (2, 6), (4, 10), (3, 5), (6, 20)]:
    check_sum(halving_doubling, ranks, n)
draw.space_time(simulate(halving_doubling, Placeholder(1_000_000), ranks=6, network=NETWORK))
plt.show()
for size in (1_000, 100_000_000):
    for name, algorithm in [("ring", ring), ("halving-doubling", halving_doubling)]:
        run = simulate(algorithm, Placeholder(size // 4), ranks=6, network=NETWORK)
        print(f"{size:11,} bytes, 6 ranks, {name:16} {1e3 * run.time:8.3f} ms")

# %% given="cases-of-halving"
POWERS = [(1, 3, "float64"), (2, 8, "float64"), (4, 16, "float64"), (8, 24, "float64")]
OTHERS = [(3, 8, "float64"), (6, 16, "float64"), (7, 12, "float64")]  # P divides n
ODD = [(4, 7, "float64"), (8, 3, "float64"), (5, 9, "float64"), (6, 1, "float64")]

# %% check="halving-doubling-powers" points=1 see="6.4"
"""The sum is on every rank, where p is a power of two that divides n (1 point)."""
sums_agree(tried(halving_doubling, POWERS + OTHERS + ODD)[: len(POWERS)], whole)
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 16, "int64"), (2, 4, "float32"), (3, 6, "int64"), (5, 8, "float32"), (7, 16, "float64")]
HIDDEN += [(8, 21, "int64"), (4, 2, "float32"), (7, 5, "float64"), (3, 0, "float64")]
sums_agree(tried(halving_doubling, HIDDEN, seed=SECRET)[:2], whole)
sums_agree(tried(halving_doubling, [(16, 32, "float64")], seed=SECRET), whole)
### END HIDDEN TESTS

# %% check="halving-doubling-any-p" points=2 see="6.4"
"""So it is where p is no power of two (2 points)."""
sums_agree(tried(halving_doubling, POWERS + OTHERS + ODD)[len(POWERS) : -len(ODD)], whole)
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 16, "int64"), (2, 4, "float32"), (3, 6, "int64"), (5, 8, "float32"), (7, 16, "float64")]
HIDDEN += [(8, 21, "int64"), (4, 2, "float32"), (7, 5, "float64"), (3, 0, "float64")]
sums_agree(tried(halving_doubling, HIDDEN, seed=SECRET)[2:5], whole)
### END HIDDEN TESTS

# %% check="halving-doubling-any-n" points=1 see="6.4"
"""So it is where stretches have an odd length, or no element at all (1 point)."""
odd = tried(halving_doubling, POWERS + OTHERS + ODD)[-len(ODD) :]
if has_failed("halving-doubling-any-p"):
    odd = [one for one in odd if one[0][0] in (2, 4, 8)]  # what p costs is said there
sums_agree(odd, whole)
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 16, "int64"), (2, 4, "float32"), (3, 6, "int64"), (5, 8, "float32"), (7, 16, "float64")]
HIDDEN += [(8, 21, "int64"), (4, 2, "float32"), (7, 5, "float64"), (3, 0, "float64")]
odd = tried(halving_doubling, HIDDEN, seed=SECRET)[5:]
sums_agree(odd[:2] if has_failed("halving-doubling-any-p") else odd, whole)
### END HIDDEN TESTS


# %% given="traffic-of-halving"
def halving_traffic(found):
    """Assert that all ranks together send 2(p - 1) vectors, in as many messages as there should be."""
    for case, run in passed(found):
        p, n, dtype = case
        steps = p.bit_length() - 1
        power, extra = 1 << steps, p - (1 << steps)
        want = [1] * extra + [2 * steps + 1] * extra + [2 * steps] * (power - extra)
        sent = [counts.messages_sent for counts in run.counts]
        assert n < p or sorted(sent) == sorted(want), (
            f"{about(case)}: the ranks send {sent} messages, where these numbers should be {sorted(want)}"
        )
        want = 2 * (p - 1) * n * np.dtype(dtype).itemsize
        assert run.bytes_sent == want, f"{about(case)}: {run.bytes_sent} bytes are sent in all, not {want}"


# %% check="halving-doubling-traffic" points=1 see="6.4"
"""A rank of the P sends 2 log2 P messages, its extra ones aside, and all send 2(p - 1) vectors (1 point)."""
found = tried(halving_doubling, POWERS + OTHERS + ODD)
found = [one for one in found if not one[2].error]  # what ends with an error is judged above
assert len(found) > 1, "all calls end with an error"
halving_traffic(found)
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 16, "int64"), (2, 4, "float32"), (3, 6, "int64"), (5, 8, "float32"), (7, 16, "float64")]
HIDDEN += [(8, 21, "int64"), (4, 2, "float32"), (7, 5, "float64"), (3, 0, "float64")]
halving_traffic([one for one in tried(halving_doubling, HIDDEN, seed=SECRET) if not one[2].error])
### END HIDDEN TESTS

# %% check="halving-doubling-time" points=1 see="6.4"
"""2 log2 P steps of a half, a quarter, …, and two of the whole vector where p is not P (1 point)."""
found = tried(halving_doubling, POWERS + OTHERS + ODD)
powers = [one for one in found if one[0] in POWERS[1:]]
takes(powers, closed_forms.halving_doubling)
if not has_failed("halving-doubling-any-p"):
    takes([one for one in found if one[0] in OTHERS[:2]], closed_forms.halving_doubling)
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 16, "int64"), (2, 4, "float32"), (3, 6, "int64"), (5, 8, "float32"), (7, 16, "float64")]
HIDDEN += [(8, 21, "int64"), (4, 2, "float32"), (7, 5, "float64"), (3, 0, "float64")]
other = Network(latency=3e-6, time_per_byte=0.05e-9, overhead=0.4e-6, reduction=0.02e-9)
found = tried(halving_doubling, HIDDEN, seed=SECRET)
found = found[:2] if has_failed("halving-doubling-any-p") else found[:5]
takes(found, closed_forms.halving_doubling, [other])
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Nodes of several ranks
#
# Inside a node GPUs talk over NVLink, between nodes over one network card that they share. In the lecture's
# hierarchical form one rank of each node, its leader, collects the node's sum and takes it round; the other
# q − 1 wait, and so do their links. Here all of them work:
#
# 1. inside each node, a reduce-scatter: each of its q ranks has the node's sum of a q-th of the vector;
# 2. for each of these parts, an all-reduce between the ranks that have it, one of each node: q rings at once;
# 3. inside each node, an all-gather.
#
# Rank r is on node r // q. You have all the parts; `Group(comm, ranks)` makes a communicator of some ranks.


# %% solution="hierarchical"
def hierarchical(comm, x, ranks_per_node):
    """The sum of all ranks' vectors on every rank, for nodes of q = ranks_per_node ranks.

    x  this rank's vector (n,), n of any size; it may be changed

    Uses reduce_scatter and all_gather. Returns the sum (n,), of the dtype of x.
    """
    q = ranks_per_node
    assert comm.size % q == 0, f"{comm.size} ranks do not fill nodes of {q}"
    ### BEGIN SOLUTION
    first = comm.rank // q * q
    node = Group(comm, range(first, first + q))
    peers = Group(comm, range(comm.rank % q, comm.size, q))
    part = reduce_scatter(node, x)
    chunked(part, peers.size)[peers.rank][:] = reduce_scatter(peers, part)
    chunked(x, q)[node.rank][:] = all_gather(peers, part)
    total = all_gather(node, x)
    ### END SOLUTION
    return total


# %%
NODES = Hierarchy(20e-6, 0.8e-9, ranks_per_node=4, inside_latency=2e-6, inside_time_per_byte=0.05e-9)
check_sum(hierarchical, 6, 11, 3)
for size in (1_000, 100_000_000):
    x = Placeholder(size // 4)
    flat = simulate(ring, x, ranks=16, network=NODES, record=False)
    nodes = simulate(hierarchical, x, 4, ranks=16, network=NODES, record=False)
    print(
        f"{size:11,} bytes, 4 nodes of 4: ring {1e3 * flat.time:.3f} ms, "
        f"hierarchical {1e3 * nodes.time:.3f} ms"
    )

# %% given="on-nodes"
FILLED = [(4, 8, "float64", 2), (6, 12, "float64", 3), (6, 24, "float64", 2), (8, 16, "float64", 4)]
BROKEN = [(6, 11, "float64", 3), (4, 1, "float64", 2), (3, 7, "float64", 3), (3, 8, "float64", 1)]
RING = [f"reduce-scatter-{name}" for name in ("sum", "any-n", "traffic", "time")]
RING += [f"all-gather-{name}" for name in ("result", "traffic", "time")]


def network_of(q, one_card=True):
    """Nodes of q ranks: slow and shared between them, fast inside."""
    speeds = {"overhead": 1e-6, "reduction": 0.1e-9, "inside_latency": 2e-6, "inside_time_per_byte": 0.05e-9}
    return Hierarchy(20e-6, 0.8e-9, **speeds, ranks_per_node=q, one_card=one_card)


def between_and_inside(found):
    """[(case, bytes that each rank sends to other nodes, and those inside its node)]."""
    rows = []
    for one in found:
        q, p = one[0][3], one[0][0]
        ((case, run),) = passed([one], network_of(q))
        sent = np.zeros((2, p), int)
        for message in run.messages:
            sent[int(message.source // q == message.dest // q), message.source] += message.size
        rows.append((case, *sent.tolist()))
    return rows


def follows():
    """Whether checks of reduce_scatter or all_gather have failed: then what follows costs nothing more."""
    return any(map(has_failed, RING))


# %% check="hierarchical-sum" points=1 see="6.7"
"""The sum is on every rank of every node (1 point)."""
if not follows():
    sums_agree(tried(hierarchical, FILLED + BROKEN)[: len(FILLED)], whole)
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 24, "int64", 2), (6, 6, "float32", 3), (8, 23, "float64", 2), (6, 5, "int64", 2)]
HIDDEN += [(4, 9, "float32", 4), (5, 12, "float64", 1)]
OURS = """
def reduce_scatter(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(1, p):
        received = comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
        comm.add(parts[(rank - step - 1) % p], received)
    return parts[rank]

def all_gather(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(p - 1):
        place = parts[(rank - step - 1) % p]
        comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p, into=place)
    return x
"""
sums_agree(tried(hierarchical, HIDDEN, seed=SECRET, instead=OURS)[:2], whole)
### END HIDDEN TESTS

# %% check="hierarchical-any-n" points=1 see="6.7"
"""So it is where nodes do not divide n, on a single node, and with one rank a node (1 point)."""
if not follows():
    sums_agree(tried(hierarchical, FILLED + BROKEN)[len(FILLED) :], whole)
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 24, "int64", 2), (6, 6, "float32", 3), (8, 23, "float64", 2), (6, 5, "int64", 2)]
HIDDEN += [(4, 9, "float32", 4), (5, 12, "float64", 1)]
OURS = """
def reduce_scatter(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(1, p):
        received = comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
        comm.add(parts[(rank - step - 1) % p], received)
    return parts[rank]

def all_gather(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(p - 1):
        place = parts[(rank - step - 1) % p]
        comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p, into=place)
    return x
"""
sums_agree(tried(hierarchical, HIDDEN, seed=SECRET, instead=OURS)[2:], whole)
### END HIDDEN TESTS

# %% check="hierarchical-traffic" points=1 see="6.7"
"""All ranks of a node send their share to other nodes, and the rest stays inside (1 point)."""


def shares(found):
    """Assert that each rank sends 2 (m - 1) / m of a q-th between m nodes, and 2 (q - 1) / q inside."""
    for (p, n, dtype, q), between, inside in between_and_inside(found):
        size, m = n * np.dtype(dtype).itemsize, p // q
        share = 2 * (m - 1) * size // p
        words = f"{about((p, n, dtype, q))}: to other nodes the ranks send {between} bytes"
        assert between == [share] * p, f"{words}, where each should send {share}. Do all q ranks take part?"
        share = 2 * (q - 1) * size // q
        assert inside == [share] * p, (
            f"inside the nodes the ranks send {inside} bytes, where each should {share}"
        )


if not follows():
    shares(tried(hierarchical, FILLED + BROKEN)[: len(FILLED)])
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 24, "int64", 2), (6, 6, "float32", 3), (8, 23, "float64", 2), (6, 5, "int64", 2)]
HIDDEN += [(4, 9, "float32", 4), (5, 12, "float64", 1)]
OURS = """
def reduce_scatter(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(1, p):
        received = comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
        comm.add(parts[(rank - step - 1) % p], received)
    return parts[rank]

def all_gather(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(p - 1):
        place = parts[(rank - step - 1) % p]
        comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p, into=place)
    return x
"""
shares(tried(hierarchical, HIDDEN, seed=SECRET, instead=OURS)[:2])
### END HIDDEN TESTS

# %% check="hierarchical-time" points=1 see="6.7"
"""The q rings run at the same time, whether a node's ranks share a card or have one each (1 point)."""


def at_once(found):
    """Assert that virtual time is that of the closed form."""
    for one in found:
        p, n, dtype, q = one[0]
        for one_card in (True, False):
            network = network_of(q, one_card)
            ((case, run),) = passed([one], network)
            want = closed_forms.hierarchical(p, n * np.dtype(dtype).itemsize, network)
            card = "one card a node" if one_card else "a card for each rank"
            assert abs(run.time - want) <= 1e-9 * want, (
                f"{about(case)}, {card}: {run.time:.7g} s, not {want:.7g} s"
            )


if not follows():
    at_once(tried(hierarchical, FILLED + BROKEN)[: len(FILLED)])
### BEGIN HIDDEN TESTS
HIDDEN = [(8, 24, "int64", 2), (6, 6, "float32", 3), (8, 23, "float64", 2), (6, 5, "int64", 2)]
HIDDEN += [(4, 9, "float32", 4), (5, 12, "float64", 1)]
OURS = """
def reduce_scatter(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(1, p):
        received = comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p)
        comm.add(parts[(rank - step - 1) % p], received)
    return parts[rank]

def all_gather(comm, x):
    p, rank, parts = comm.size, comm.rank, chunked(x, comm.size)
    for step in range(p - 1):
        place = parts[(rank - step - 1) % p]
        comm.sendreceive(parts[(rank - step) % p], (rank + 1) % p, (rank - 1) % p, into=place)
    return x
"""
at_once(tried(hierarchical, HIDDEN, seed=SECRET, instead=OURS)[:2])
### END HIDDEN TESTS

# %% [markdown]
# ## 5. α and β from measurements
#
# A message of n bytes takes α + βn. To find α and β, messages are timed, from a byte to 64 MiB, and a line
# is laid through the points. Least squares in seconds would look at the 64 MiB only: a hundredth of their
# time is more than all small messages take together, and α may come out negative. What disturbs a
# measurement is about the same *part* of it, at any size. So ask for the line whose **relative** errors are
# smallest.


# %% solution="fit"
def fit(sizes, seconds):
    """α and β of the line α + β·size with the least sum of squares of (α + β·sizeᵢ − tᵢ) / tᵢ.

    sizes    (m,) bytes, in any order, at least two different ones
    seconds  (m,) the times tᵢ, all above 0

    Returns (α in seconds, β in seconds a byte), two floats.
    """
    sizes, seconds = np.asarray(sizes, float), np.asarray(seconds, float)
    ### BEGIN SOLUTION
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)  # (m, 2)
    latency, time_per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    ### END SOLUTION
    return float(latency), float(time_per_byte)


# %% given="measured"
SIZES = 4.0 ** np.arange(14)  # bytes
noise = np.random.default_rng(3).uniform(0.95, 1.05, 14)
MEASURED = (30e-6 + 0.9e-9 * SIZES) * noise

# %%
latency, time_per_byte = fit(SIZES, MEASURED)
print(f"α = {1e6 * latency:.2f} µs, β = {1e9 * time_per_byte:.3f} ns a byte; made with 30 µs and 0.9 ns")
fig, ax = plt.subplots()
ax.loglog(SIZES, 1e6 * MEASURED, "o", label="measured")
ax.loglog(SIZES, 1e6 * (latency + time_per_byte * SIZES), label="α + βn")
ax.set(xlabel="bytes of a message", ylabel="µs")
ax.legend()
plt.show()


# %% given="plain-fit"
def plain_fit(sizes, seconds):
    """The line with the least sum of squares in seconds."""
    time_per_byte, latency = np.polyfit(np.asarray(sizes, float), seconds, 1)
    return latency, time_per_byte


def close_to(found, want, what):
    """Assert that numbers are equal but for rounding."""
    found = [float(number) for number in found]
    assert np.allclose(found, want, rtol=1e-6, atol=0), f"{what} should be {list(want)}, and is {found}"


# %% check="fit-exact" points=1 see="6.6"
"""Times that lie on a line give that line (1 point)."""
close_to(fit([0, 1000], [5e-6, 6e-6]), [5e-6, 1e-9], "(α, β) of 5 µs for 0 bytes and 6 µs for 1,000")
close_to(fit(SIZES, 30e-6 + 0.9e-9 * SIZES), [30e-6, 0.9e-9], "(α, β)")
### BEGIN HIDDEN TESTS
sizes = np.random.default_rng(5).permutation(3.0 ** np.arange(16))
close_to(fit(sizes, 2e-6 + 0.1e-9 * sizes), [2e-6, 0.1e-9], "(α, β)")
close_to(fit([10, 500, 10, 70_000], np.array([10, 500, 10, 70_000]) * 2e-9 + 1e-3), [1e-3, 2e-9], "(α, β)")
### END HIDDEN TESTS

# %% check="fit-small-messages" points=1 see="6.6"
"""Where times are disturbed, small messages count as much as large ones (1 point)."""
found = fit(SIZES, MEASURED)
assert not np.allclose(found, plain_fit(SIZES, MEASURED), rtol=1e-6), (
    f"α = {1e6 * found[0]:.1f} µs is that of least squares in seconds: only the largest messages count in it"
)
error = np.abs(found[0] + found[1] * SIZES - MEASURED) / MEASURED
assert error.max() < 0.1, f"a message of {SIZES[error.argmax()]:.0f} bytes is {error.max():.0%} off the line"
### BEGIN HIDDEN TESTS
cases = [(np.array([1e3, 2e3, 4e3]), np.array([1e-6, 3e-6, 9e-6]))]  # its α is negative
for seed in range(3):
    random = np.random.default_rng(seed)
    sizes = random.permutation(np.repeat(4.0 ** np.arange(13), 2))
    cases.append((sizes, (11e-6 + 0.4e-9 * sizes) * random.uniform(0.8, 1.2, 26)))
for sizes, times in cases:
    a, b, c = (np.sum(sizes**k / times**2) for k in (0, 1, 2))  # the normal equations, by hand
    d, e = (np.sum(sizes**k / times) for k in (0, 1))
    want = [(d * c - b * e) / (a * c - b * b), (a * e - b * d) / (a * c - b * b)]
    assert np.allclose(fit(sizes, times), want, rtol=1e-5, atol=0), "it is not the least sum of squares"
### END HIDDEN TESTS

# %% [markdown]
# How far can the line be trusted? Not by the points it was laid through. Hold half of them back.


# %% solution="held-out-error"
def held_out_error(sizes, seconds):
    """How far the line is off at sizes that it has not seen.

    sizes (m,) bytes, all different, in any order; seconds (m,). Of the sizes in ascending order the 1st, 3rd,
    5th, … are handed to `fit`. Returns the median over the others of |α + β·size − t| / t, a float.
    """
    sizes, seconds = np.asarray(sizes, float), np.asarray(seconds, float)
    ### BEGIN SOLUTION
    order = np.argsort(sizes)
    seen, held_out = order[::2], order[1::2]
    latency, time_per_byte = fit(sizes[seen], seconds[seen])
    times = seconds[held_out]
    error = np.median(np.abs(latency + time_per_byte * sizes[held_out] - times) / times)
    ### END SOLUTION
    return float(error)


# %%
print(f"{held_out_error(SIZES, MEASURED):.1%} at the sizes held out")


# %% check="held-out" points=1 see="6.6"
"""The line is laid through every other size, and judged by the rest (1 point)."""
shown = []


def known_line(sizes, seconds):
    """Stands for fit: remembers what it is shown, and has a line of its own."""
    shown.append(sorted((float(size), float(time)) for size, time in zip(sizes, seconds, strict=True)))
    return 1.0, 0.01


sizes, seconds = [300, 100, 500, 200, 400], [3.0, 2.0, 6.5, 4.0, 10.0]
with watched("fit", known_line) as calls:
    error = held_out_error(sizes, seconds)
assert calls.count == 1, f"fit was called {calls.count} times, not once"
seen = [size for size, _ in shown[0]]
assert seen == [100.0, 300.0, 500.0], f"fit was shown the sizes {seen}, not the 1st, 3rd and 5th"
assert shown == [[(100.0, 2.0), (300.0, 3.0), (500.0, 6.5)]], f"fit was shown the times of others: {shown[0]}"
close_to([error], [0.375], "the median of |1 + 2 - 4| / 4 and |1 + 4 - 10| / 10")
### BEGIN HIDDEN TESTS
sizes = np.random.default_rng(8).permutation(np.arange(1, 15) ** 3.0)
seconds = np.random.default_rng(9).uniform(0.5, 20.0, 14)
with watched("fit", known_line):
    error = held_out_error(sizes, seconds)
order = np.argsort(sizes)
assert shown[1] == list(zip(sizes[order][::2], seconds[order][::2], strict=True)), "others were held out"
x, t = sizes[order][1::2], seconds[order][1::2]
close_to([error], [np.median(np.abs(1 + 0.01 * x - t) / t)], "the error")
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The fusion threshold
#
# ResNet-50 has 214 gradients, the last layer's ready first. Horovod looks each cycle at what is ready, puts
# gradients together as long as they do not exceed the *fusion threshold*, and reduces one such tensor after
# another, while the backward pass goes on. `fusion.predict` does that in a simulation: it needs the buffers,
# and what an all-reduce of so many bytes takes.


# %% solution="iteration-seconds"
def iteration_seconds(sizes, ready, forward, backward, ranks, latency, time_per_byte, threshold):
    """The time of one iteration of data-parallel training, in seconds.

    sizes, ready       of each gradient: its bytes, and seconds from the begin of the backward pass until it
                       is there; two lists of the same length, in any order
    forward, backward  seconds of the two passes
    ranks, latency, time_per_byte   p, and α and β of the links between them: all-reduces are rings
    threshold          bytes: the fusion threshold

    The cycle is Horovod's (1 ms). Uses fusion.Buffer, fusion.predict and closed_forms.ring.
    """
    ### BEGIN SOLUTION
    network = Network(latency, time_per_byte)
    buffers = [fusion.Buffer(str(i), size, at) for i, (size, at) in enumerate(zip(sizes, ready, strict=True))]
    iteration = fusion.predict(
        buffers,
        lambda size: closed_forms.ring(ranks, size, network),
        forward=forward,
        backward=backward,
        threshold=threshold,
    )
    seconds = iteration.time
    ### END SOLUTION
    return seconds


# %% [markdown]
# Two gradients of 1 MB are ready 9.5 ms after the backward pass began, which takes 10 ms; the forward pass
# takes 5 ms. With 2 ranks, 1 ms and 1 ns a byte, when is the iteration over, if they are put together, and
# if they are not? Work it out first.

# %%
TWO = dict(sizes=[10**6, 10**6], ready=[9.5e-3] * 2, forward=5e-3, backward=10e-3)
TWO |= dict(ranks=2, latency=1e-3, time_per_byte=1e-9)
for threshold in (2 * 10**6, 10**6):
    print(f"threshold {threshold:,} bytes: {1e3 * iteration_seconds(**TWO, threshold=threshold):.2f} ms")

# %% check="iteration-by-hand" points=1 see="6.8"
"""Two gradients, together and one after the other (1 point)."""
case = dict(sizes=[10**6, 10**6], ready=[9.5e-3] * 2, forward=5e-3, backward=10e-3)
case |= dict(ranks=2, latency=1e-3, time_per_byte=1e-9)
close_to(
    [iteration_seconds(**case, threshold=threshold) for threshold in (2 * 10**6, 10**6, 0)],
    [19e-3, 21e-3, 21e-3],
    "seconds of the iteration, with both gradients in one all-reduce (4 ms) and, twice, in two (3 ms each)",
)


### BEGIN HIDDEN TESTS
def reference(sizes, ready, forward, backward, ranks, latency, time_per_byte, threshold):
    network = Network(latency, time_per_byte)
    gradients = [fusion.Buffer("", *gradient) for gradient in zip(sizes, ready, strict=True)]
    rings = {"allreduce": lambda size: closed_forms.ring(ranks, size, network), "threshold": threshold}
    return fusion.predict(gradients, **rings, forward=forward, backward=backward).time


def many(n, backward, seed):
    random = np.random.default_rng(seed)
    return [int(10**e) for e in random.uniform(3, 7, n)], random.uniform(0.01, 1, n) * backward


cases = []
for n, *case, threshold in [
    (40, 0.03, 0.1, 8, 100e-6, 1e-9, 3 * 10**6),
    (150, 0.05, 0.08, 64, 20e-6, 0.1e-9, 10**7),
    (25, 0.01, 0.02, 3, 1e-3, 0.5e-9, 10**5),
    (60, 0.02, 0.3, 16, 1e-6, 0.02e-9, 0),
]:
    sizes, ready = many(n, case[1], n)
    cases.append((sizes, ready.tolist(), *case, threshold))
close_to([iteration_seconds(*case) for case in cases], [reference(*case) for case in cases], "the seconds")
### END HIDDEN TESTS

# %% [markdown]
# Which threshold is best? With one of zero each gradient has an all-reduce of its own, and pays 2(p − 1)α.
# With a very large one, all that is ready at a look goes at once.


# %% solution="best-threshold"
def best_threshold(candidates, sizes, ready, forward, backward, ranks, latency, time_per_byte):
    """Of the thresholds in the list `candidates` (bytes) the one with the shortest iteration.

    The other arguments are those of iteration_seconds. Of several that are equally good, the smallest: it
    needs the least memory.
    """
    ### BEGIN SOLUTION
    found = [
        (
            iteration_seconds(sizes, ready, forward, backward, ranks, latency, time_per_byte, candidate),
            candidate,
        )
        for candidate in candidates
    ]
    best = min(found)[1]
    ### END SOLUTION
    return best


# %% given="resnet50"
FORWARD, BACKWARD = 0.060, 0.120  # seconds, for 32 images on a P100 (Goyal et al., arXiv 1706.02677)
GRADIENTS = resnet50.buffers(BACKWARD)
RESNET50 = dict(sizes=[b.size for b in GRADIENTS], ready=[b.ready for b in GRADIENTS])
RESNET50 |= dict(forward=FORWARD, backward=BACKWARD)
THRESHOLDS = [0, *(2**k for k in range(14, 29))]  # bytes: none, 16 KiB … 256 MiB
NETWORKS = {  # ranks, α in seconds, β in seconds a byte
    "16 ranks, 1 Gbit/s, 50 µs": (16, 50e-6, 8e-9),
    "16 ranks, 10 Gbit/s, 20 µs": (16, 20e-6, 0.8e-9),
    "256 ranks, 100 Gbit/s, 5 µs": (256, 5e-6, 0.08e-9),
}

# %%
fig, ax = plt.subplots()
for (name, network), marker in zip(NETWORKS.items(), "os^", strict=True):
    network = dict(zip(("ranks", "latency", "time_per_byte"), network, strict=True))
    times = [iteration_seconds(**RESNET50, **network, threshold=threshold) for threshold in THRESHOLDS]
    best = best_threshold(THRESHOLDS, **RESNET50, **network)
    print(f"{name}: best with {best / 2**20:g} MiB; {1e3 * min(times):.1f} ms")
    ax.plot(
        [max(2**13, threshold) for threshold in THRESHOLDS], np.array(times) * 1e3, marker, ls="-", label=name
    )
ax.set(
    xscale="log", yscale="log", xlabel="fusion threshold in bytes (the leftmost: 0)", ylabel="ms an iteration"
)
ax.legend()
plt.show()


# %% given="two-gradients"
def best_of_two(best_threshold):
    """Of 0, 1, 2 and 4 MB the threshold that a function finds for the two gradients of 1 MB from above."""
    case = dict(sizes=[10**6, 10**6], ready=[9.5e-3] * 2, forward=5e-3, backward=10e-3)
    case |= dict(ranks=2, latency=1e-3, time_per_byte=1e-9)
    return best_threshold([0, 4 * 10**6, 10**6, 2 * 10**6], **case)


# %% check="threshold-found" points=1 see="6.8"
"""The best threshold of a network, small or large, is found (1 point)."""
if not has_failed("iteration-by-hand"):
    found = best_of_two(best_threshold)
    words = "the longest iteration is not the best one" if found in (0, 10**6) else "it is none of the four"
    assert found in (2 * 10**6, 4 * 10**6), f"of 0, 1, 2 and 4 MB for two gradients of 1 MB, {found}: {words}"


### BEGIN HIDDEN TESTS
def reference(sizes, ready, forward, backward, ranks, latency, time_per_byte, threshold):
    network = Network(latency, time_per_byte)
    gradients = [fusion.Buffer("", *gradient) for gradient in zip(sizes, ready, strict=True)]
    rings = {"allreduce": lambda size: closed_forms.ring(ranks, size, network), "threshold": threshold}
    return fusion.predict(gradients, **rings, forward=forward, backward=backward).time


def many(n, backward, seed):
    random = np.random.default_rng(seed)
    return [int(10**e) for e in random.uniform(3, 7, n)], random.uniform(0.01, 1, n) * backward


cases = []
for n, *case in [
    (40, 0.03, 0.1, 8, 100e-6, 1e-9),
    (150, 0.05, 0.08, 64, 20e-6, 0.1e-9),
    (25, 0.01, 0.02, 3, 1e-3, 0.5e-9),
    (60, 0.02, 0.3, 16, 1e-6, 0.02e-9),
    (12, 0.01, 0.02, 3, 100e-6, 0.5e-9),  # where the largest is not the best: looks come at other times
]:
    sizes, ready = many(n, case[1], n)
    cases.append((sizes, ready.tolist(), *case))
ranges = [[2**k for k in range(12, 28)], [0, 10**8, 10**7, 10**6, 10**5, 128 * 2**20]]
for case in cases:
    for candidates in ranges:
        with watched("iteration_seconds", reference):
            found = best_threshold(candidates, *case)
        assert found in candidates, "it is none of the candidates"
        shortest = min(reference(*case, threshold) for threshold in candidates)
        assert reference(*case, found) <= shortest * (1 + 1e-9), "another threshold has a shorter iteration"
### END HIDDEN TESTS

# %% check="threshold-of-equals" points=1 see="6.8"
"""Of several thresholds that are equally good, the smallest is taken (1 point)."""
if not has_failed("iteration-by-hand"):
    words = "2 MB and 4 MB are equally good for two gradients of 1 MB, and 2 MB needs less memory"
    assert best_of_two(best_threshold) == 2 * 10**6, words


### BEGIN HIDDEN TESTS
def reference(sizes, ready, forward, backward, ranks, latency, time_per_byte, threshold):
    network = Network(latency, time_per_byte)
    gradients = [fusion.Buffer("", *gradient) for gradient in zip(sizes, ready, strict=True)]
    rings = {"allreduce": lambda size: closed_forms.ring(ranks, size, network), "threshold": threshold}
    return fusion.predict(gradients, **rings, forward=forward, backward=backward).time


def many(n, backward, seed):
    random = np.random.default_rng(seed)
    return [int(10**e) for e in random.uniform(3, 7, n)], random.uniform(0.01, 1, n) * backward


cases = []
for n, *case in [
    (40, 0.03, 0.1, 8, 100e-6, 1e-9),
    (150, 0.05, 0.08, 64, 20e-6, 0.1e-9),
    (25, 0.01, 0.02, 3, 1e-3, 0.5e-9),
    (60, 0.02, 0.3, 16, 1e-6, 0.02e-9),
    (12, 0.01, 0.02, 3, 100e-6, 0.5e-9),  # where the largest is not the best: looks come at other times
]:
    sizes, ready = many(n, case[1], n)
    cases.append((sizes, ready.tolist(), *case))
ranges = [[2**k for k in range(12, 28)], [0, 10**8, 10**7, 10**6, 10**5, 128 * 2**20]]
for case in cases:
    for candidates in ranges:
        with watched("iteration_seconds", reference):
            found = best_threshold(candidates, *case)
        want = min((reference(*case, threshold), threshold) for threshold in candidates)
        assert found == want[1], "a smaller threshold is as good"
### END HIDDEN TESTS

# %% [markdown]
# ## 7. In your own words
#
# One reads that the fusion threshold must be neither too small nor too large: with a large one, gradients
# would wait until the buffer is full, and less would overlap with the backward pass. **Does your figure
# show both sides? Explain in about three sentences, with numbers of yours, what a small threshold costs,
# and what Horovod's rule (`help(fusion)`) makes of a large one.**

# %% [markdown] explain="which-threshold" points=2
# ### BEGIN SOLUTION
# **Rubric.** One point for each side. The numbers are those of the student's figure. Language and length cost
# nothing.
#
# - *Small*: each of 214 all-reduces pays 2(p − 1)α, whatever its size (half a point), with numbers: for 16
#   ranks and 20 µs that is 0.6 ms each and 128 ms in all, so 343 ms with a threshold of 0 and 217 ms with
#   64 MiB; or the same for another network of the figure (half a point).
# - *Large*: the figure does not show the other side, the curve falls and stays level (half a point).
#   Nothing waits for a full buffer: each cycle takes what is ready then, so a threshold above what can be
#   ready at once changes nothing; what it costs is memory for the buffer (half a point). An answer that
#   says why a real machine may differ (one long all-reduce blocks what becomes ready meanwhile, copies into
#   the buffer take time) has this half point, too.
#
# **Two points.** "With 16 ranks at 10 Gbit/s a threshold of 0 takes 343 ms: 214 all-reduces with 30
# latencies of 20 µs are 128 ms, which 64 MiB nearly saves (217 ms). I do not see a large one do harm, all
# from 64 MiB on take the same time. Horovod reduces at each cycle what is ready and does not wait until the
# buffer is full, so the threshold is only an upper limit."
#
# **One point.** "Small thresholds are bad because each message has a latency, 343 ms against 217 ms. Large
# ones are bad because the gradients have to wait, so one should take something in the middle." (The figure
# says otherwise.)
#
# **No point.** "64 MiB, because this was Horovod's default for long."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - A ring is two halves. Which chunk a rank begins with decides which one it ends with, and nothing else
#   changes: 2(p − 1) messages, 2(p − 1)/p of the vector, for any p and n.
# - Halving-doubling has 2 log2 P steps instead, at the same bytes; where p is no power of two, two more of
#   the whole vector, which a large vector feels.
# - What a node's ranks can do at once they should: the same bytes, a q-th of them on each rank.
# - A line through the times of messages from one byte to 64 MiB is laid by relative errors, and judged where
#   it was not laid.
# - What one process computes right may wait for ever on several, and what is right on several may be slow.
#   Results, messages, bytes and seconds are four questions.
#
# Open questions, to take along:
#
# 1. Where p is no power of two, the first step could exchange halves instead of whole vectors. What would
#    that save, and for which n is it worth the trouble?
# 2. Your ring sends to the right only, and links carry both directions. What would two rings, one to each
#    side, be worth on a node whose GPUs are joined by NVLink in a circle?
# 3. The prediction of section 6 knows one link speed. On a real machine, which part of it would you measure
#    first?
