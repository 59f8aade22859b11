"""Closed-form times of five all-reduce algorithms in seconds, without shared links.

p ranks, n bytes, and α, β, γ, o of the network (`topologies`). A step that exchanges messages of m bytes in
both directions takes `step(m)` = α + m·β + 2·o. The formulas hold if n divides into equal chunks. (Thakur,
Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19, 2005; o as in LogP, Culler et al. 1993.)
"""

from __future__ import annotations

import math
from dataclasses import replace

from .topologies import Hierarchy, Network


def step(size: float, network: Network) -> float:
    """Return the seconds for a message of `size` bytes between two ranks that are both ready."""
    return network.latency + size * network.time_per_byte + 2 * network.overhead


def parameter_server(ranks: int, size: float, network: Network) -> float:
    """Rank 0 receives p − 1 messages in turn, adds each, and sends p − 1; the others' overheads overlap."""
    if ranks == 1:
        return 0.0
    one = step(size, network) - network.overhead
    return (ranks - 1) * (2 * one + size * network.reduction) + 2 * network.overhead


def tree(ranks: int, size: float, network: Network) -> float:
    """⌈log2 p⌉ steps up, each with an addition, and as many down; exact if o = 0 or p is a power of two."""
    return math.ceil(math.log2(ranks)) * (2 * step(size, network) + size * network.reduction)


def ring(ranks: int, size: float, network: Network) -> float:
    """2(p − 1) steps of n/p bytes, with an addition each in the first half."""
    return (ranks - 1) * (2 * step(size / ranks, network) + size / ranks * network.reduction)


def halving_doubling(ranks: int, size: float, network: Network) -> float:
    """2 log2 p steps of n/2, n/4, …; two more of n, and an addition, if p is not a power of two."""
    halvings = ranks.bit_length() - 1
    parts = [size / 2**k for k in range(1, halvings + 1)]
    if ranks != 1 << halvings:
        parts.append(size)
    return sum(2 * step(part, network) + part * network.reduction for part in parts)


def hierarchical(ranks: int, size: float, network: Hierarchy) -> float:
    """The halves of a ring inside a node; between nodes, concurrent rings of n/q bytes for its q ranks.

    With one_card, these q share the node's network adapter, and each gets 1/q of its bandwidth.
    """
    q = network.ranks_per_node
    inside = replace(network, latency=network.inside_latency, time_per_byte=network.inside_time_per_byte)
    between = replace(network, time_per_byte=network.time_per_byte * (q if network.one_card else 1))
    return ring(q, size, inside) + ring(ranks // q, size / q, between)
