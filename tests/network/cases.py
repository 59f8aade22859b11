"""Twelve cases for comparing virtual time with SimGrid. Both sides read this module, so it does not need
NumPy.

In these cases, messages that share a link have equal or zero latencies. With unequal latencies, SimGrid would
divide the link in inverse proportion to the routes' latencies (as TCP does with round-trip times), but
virtual time divides it equally.
"""

from cluster.network import topologies as t

MIB = 1 << 20
TEN_GBIT = {"latency": 20e-6, "time_per_byte": 0.8e-9}
NODES = {"ranks_per_node": 4, "inside_latency": 2e-6, "inside_time_per_byte": 0.05e-9}

# name: (algorithm, ranks, bytes, network, further arguments)
CASES = {
    "parameter server, 8 ranks": ("parameter_server", 8, 4 * MIB, t.Network(**TEN_GBIT), ()),
    "tree, 16 ranks": ("tree", 16, 4 * MIB, t.Network(**TEN_GBIT, overhead=1e-6, reduction=0.1e-9), ()),
    "tree, 13 ranks": ("tree", 13, 4 * MIB, t.Network(**TEN_GBIT, overhead=1e-6), ()),
    "ring, 16 ranks": ("ring", 16, 4 * MIB, t.Network(**TEN_GBIT, overhead=1e-6, reduction=0.1e-9), ()),
    "ring, 7 ranks, uneven chunks": ("ring", 7, 1000, t.Network(**TEN_GBIT), ()),
    "halving-doubling, 16 ranks": ("halving_doubling", 16, 4 * MIB, t.Network(**TEN_GBIT), ()),
    "halving-doubling, 11 ranks": ("halving_doubling", 11, 4 * MIB, t.Switch(**TEN_GBIT), ()),
    "all to one at once, switch": ("all_to_one", 9, MIB, t.Switch(**TEN_GBIT), ()),
    "unequal messages, switch": ("unequal", 8, MIB, t.Switch(**TEN_GBIT), ()),
    "hierarchical, 4 nodes of 4": ("hierarchical", 16, 4 * MIB, t.Hierarchy(**TEN_GBIT, **NODES), (4,)),
    "halving-doubling, torus of 4 × 4": (
        "halving_doubling", 16, 4 * MIB, t.Torus(0.0, 0.8e-9, overhead=1e-6, shape=(4, 4)), (),
    ),
    "halving-doubling, thin tree": (
        "halving_doubling", 16, 4 * MIB, t.Tree(0.0, 0.8e-9, overhead=1e-6, arity=4), (),
    ),
}  # fmt: skip


def all_to_one(comm, x):
    """Let rank 0 receive the messages of all others at the same time."""
    if comm.rank:
        comm.send(x, 0)
    else:
        for request in [comm.ireceive(source) for source in range(1, comm.size)]:
            request.wait()


def unequal(comm, x):
    """Send from every rank to the next three, with smaller messages to more distant ranks, starting at
    different times."""
    comm.compute(comm.rank * 100e-6)
    expected = [comm.ireceive((comm.rank - k) % comm.size) for k in (1, 2, 3)]
    sent = [comm.isend(x[: len(x) // k], (comm.rank + k) % comm.size) for k in (1, 2, 3)]
    for request in expected + sent:
        request.wait()


def function(name):
    """Return the program of a case."""
    from tests.network import algorithms

    return globals().get(name) or getattr(algorithms, name)
