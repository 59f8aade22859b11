"""The cost of a message: latency, time per byte, overhead, and the links that messages share.

A message of n bytes that begins at time t, when its sender and its receiver are both ready, ends at

    t + α + n·β

without sharing. Before that, its sender is busy for the overhead o, and afterwards its receiver; adding n
bytes takes γ·n. (Hockney's α and β, with LogP's o; Thakur, Rabenseifner and Gropp 2005 call γ the cost of
computation per byte.) A link is directed: messages in opposite directions do not disturb each other. A
message occupies all links of its route from t + α until it ends, at a *max-min fair* rate: the link with the
smallest share per message fixes the rates of its messages, then the next link divides the rest among the
others, and so on (`links.py`).

Units: seconds and bytes. 10 Gbit/s is time_per_byte=0.8e-9.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple


class Route(NamedTuple):
    """The route from one rank to another.

    latency: seconds. time_per_byte: seconds, of the slowest link alone. links: the links it shares with other
    messages; if there are none, a message takes latency + n * time_per_byte.
    """

    latency: float
    time_per_byte: float
    links: tuple[Hashable, ...] = ()


HERE = Route(0.0, 0.0)  # from a rank to itself


@dataclass(frozen=True)
class Network:
    """A network with a separate link per direction between any two ranks, as in the closed forms.

    latency (α): seconds. time_per_byte (β): seconds. overhead (o): seconds per message, for the sender and
    for the receiver. reduction (γ): seconds per added byte.
    """

    latency: float
    time_per_byte: float
    overhead: float = 0.0
    reduction: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}: it must be 0 or more, and finite.")

    def check(self, ranks: int) -> None:
        """Raise ValueError if the network does not have this number of ranks."""

    def route(self, source: int, dest: int) -> Route:
        """Return the route from one rank to another, different one."""
        return self._direct

    def link_time_per_byte(self, link: Hashable) -> float:
        """Return the seconds per byte on a link of a route."""
        return self.time_per_byte

    @cached_property
    def _direct(self) -> Route:
        return Route(self.latency, self.time_per_byte)


@dataclass(frozen=True)
class Switch(Network):
    """A network where each rank has a cable, one link up and one down, to a switch that never limits it.

    latency: between ranks. time_per_byte: of a cable, in each direction.
    """

    def route(self, source: int, dest: int) -> Route:
        """Return the route up the sender's cable and down the receiver's."""
        return Route(self.latency, self.time_per_byte, (("up", source), ("down", dest)))


@dataclass(frozen=True)
class Hierarchy(Network):
    """A network of nodes with `ranks_per_node` ranks each: rank r is on node r // ranks_per_node.

    latency, time_per_byte: between nodes. inside_latency, inside_time_per_byte: between ranks of a node,
    where each pair has a separate link. one_card: the ranks of a node share its network adapter, one link
    in each direction. Without it each pair of ranks has a separate link between nodes, too.
    """

    ranks_per_node: int = 1
    inside_latency: float = 0.0
    inside_time_per_byte: float = 0.0
    one_card: bool = True

    def check(self, ranks: int) -> None:
        """Raise ValueError if the ranks do not fill the nodes."""
        if self.ranks_per_node < 1 or ranks % self.ranks_per_node:
            raise ValueError(
                f"{ranks} ranks do not fill nodes of {self.ranks_per_node}: use a multiple of it."
            )

    def route(self, source: int, dest: int) -> Route:
        """Return the route inside a node, or out of one node's adapter and into the other's."""
        a, b = source // self.ranks_per_node, dest // self.ranks_per_node
        if a == b:
            return self._inside
        return Route(self.latency, self.time_per_byte, (("out", a), ("in", b)) if self.one_card else ())

    @cached_property
    def _inside(self) -> Route:
        return Route(self.inside_latency, self.inside_time_per_byte)


@dataclass(frozen=True)
class Torus(Network):
    """A periodic grid of ranks, with a link from each rank to its two neighbours in every dimension.

    shape: ranks in each dimension; the last dimension varies fastest. A message is routed one dimension after
    another, in the shorter direction, or forwards if both are equal. latency: of each link on the route.
    """

    shape: tuple[int, ...] = ()

    def check(self, ranks: int) -> None:
        """Raise ValueError if the grid has a different number of ranks."""
        if math.prod(self.shape) != ranks:
            raise ValueError(f"A torus of shape {self.shape} has {math.prod(self.shape)} ranks, not {ranks}.")

    def route(self, source: int, dest: int) -> Route:
        """Return the route from neighbour to neighbour."""
        links, here, stride = [], source, math.prod(self.shape)
        for axis, length in enumerate(self.shape):
            stride //= length
            at, to = here // stride % length, dest // stride % length
            forwards = (to - at) % length
            step = 1 if 2 * forwards <= length else -1
            for _ in range(min(forwards, length - forwards)):
                links.append((here, axis, step))
                here += ((at + step) % length - at) * stride
                at = (at + step) % length
        return Route(self.latency * len(links), self.time_per_byte, tuple(links))


@dataclass(frozen=True)
class Tree(Network):
    """A tree of switches with ranks as leaves; `arity` ranks share a switch, `arity` switches the next one.

    latency: of each link on the route. time_per_byte: of a rank's link. A link one level higher is `growth`
    times as fast: growth=1 is a thin tree, growth=arity a fat tree, without a bottleneck at any level.
    """

    arity: int = 2
    growth: float = 1.0

    def check(self, ranks: int) -> None:
        """Raise ValueError if the tree does not branch."""
        if self.arity < 2 or self.growth <= 0:
            raise ValueError(f"arity={self.arity} must be at least 2, and growth={self.growth} more than 0.")

    def route(self, source: int, dest: int) -> Route:
        """Return the route up to the first common switch and down."""
        up, down, level = [], [], 0
        while source != dest:
            up.append(("up", level, source))
            down.append(("down", level, dest))
            source, dest, level = source // self.arity, dest // self.arity, level + 1
        slowest = max(map(self.link_time_per_byte, up))
        return Route(self.latency * 2 * level, slowest, (*up, *reversed(down)))

    def link_time_per_byte(self, link: Any) -> float:
        """Return the time of a rank's link, divided by `growth` per level."""
        return self.time_per_byte / self.growth ** link[1]
