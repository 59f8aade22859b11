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
    """Return rank 0's time to receive and add p − 1 messages, then send p − 1; others' overheads overlap."""
    if ranks == 1:
        return 0.0
    one = step(size, network) - network.overhead
    return (ranks - 1) * (2 * one + size * network.reduction) + 2 * network.overhead


def tree(ranks: int, size: float, network: Network) -> float:
    """Return the time of ⌈log2 p⌉ steps up with additions, and as many down; exact if o = 0 or p = 2^k."""
    return math.ceil(math.log2(ranks)) * (2 * step(size, network) + size * network.reduction)


def ring(ranks: int, size: float, network: Network) -> float:
    """Return the time of 2(p − 1) steps of n/p bytes; each step of the first half includes an addition."""
    return (ranks - 1) * (2 * step(size / ranks, network) + size / ranks * network.reduction)


def halving_doubling(ranks: int, size: float, network: Network) -> float:
    """Return the time of 2 log2 p steps of n/2, n/4, …; if p ≠ 2^k, also two of n and an addition."""
    halvings = ranks.bit_length() - 1
    parts = [size / 2**k for k in range(1, halvings + 1)]
    if ranks != 1 << halvings:
        parts.append(size)
    return sum(2 * step(part, network) + part * network.reduction for part in parts)


def hierarchical(ranks: int, size: float, network: Hierarchy) -> float:
    """Return the time of a ring's two halves inside a node, and q rings of n/q bytes at once between nodes.

    q is the number of ranks per node. With one_card, they share its adapter: each gets 1/q of the bandwidth.
    """
    q = network.ranks_per_node
    inside = replace(network, latency=network.inside_latency, time_per_byte=network.inside_time_per_byte)
    between = replace(network, time_per_byte=network.time_per_byte * (q if network.one_card else 1))
    return ring(q, size, inside) + ring(ranks // q, size / q, between)
