"""Messages on shared links: when each ends if rates are always max-min fair.

Between two events (a message enters its links, or ends), all rates are constant. The time of the next event
is therefore known without time steps. An event changes the rates only of messages that share a link with it,
directly or through others. Only these are recomputed, by progressive filling (Bertsekas and Gallager, Data
Networks, 2nd edition, 6.5.2).
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any

from .topologies import Network, Route

SAME = 1e-12  # events with a smaller relative difference in time are simultaneous


class Flow:
    """A message in transit: its remaining bytes and its rate."""

    __slots__ = ("alone", "left", "links", "message", "rate", "since", "version")

    def __init__(self, message: Any, size: int, route: Route):
        self.message, self.left, self.links = message, float(size), route.links
        self.alone = 1 / route.time_per_byte  # bytes/s without sharing
        self.rate, self.since, self.version = 0.0, 0.0, 0


class Links:
    """All messages on the shared links of a network, in order of time."""

    def __init__(self, network: Network):
        self._network = network
        # the flows, in order of arrival
        self._on: defaultdict[Hashable, dict[Flow, None]] = defaultdict(dict)
        self._events: list[tuple[float, int, Flow, int]] = []
        self._number = itertools.count()

    def begin(self, message: Any, size: int, route: Route, time: float) -> None:
        """Begin a message of `size` bytes at `time`, which is not before the last event."""
        self._push(time + route.latency, Flow(message, size, route))

    def advance(self) -> tuple[float, list[Any]]:
        """Advance to the next end of messages; return its time and the messages (none if none is left)."""
        while self._events:
            changed: dict[Hashable, None]
            time, ended, changed = self._events[0][0], [], {}
            while self._events and self._events[0][0] <= time * (1 + SAME):
                _, _, flow, version = heapq.heappop(self._events)
                if version != flow.version:
                    continue
                if version == 0 and flow.left:  # the latency has passed
                    flow.since = time
                    for link in flow.links:
                        self._on[link][flow] = None
                else:
                    ended.append(flow.message)
                    for link in flow.links if version else ():
                        del self._on[link][flow]
                flow.version += 1
                for link in flow.links:
                    changed[link] = None
            self._share(changed, time)
            if ended:
                return time, ended
        return 0.0, []

    def _push(self, time: float, flow: Flow) -> None:
        heapq.heappush(self._events, (time, next(self._number), flow, flow.version))

    def _share(self, changed: Iterable[Hashable], time: float) -> None:
        """Recompute rates and end times of all flows that the changed links affect."""
        seen: set[Hashable] = set()
        for link in changed:
            if link in seen or not (on := self._on[link]):
                continue
            flow = next(iter(on))
            if all(len(self._on[other]) == 1 for other in flow.links):  # the flow shares no link
                seen.update(flow.links)
                if flow.rate != flow.alone:
                    self._set_rate(flow, flow.alone, time)
            else:
                links = self._touched(link)
                seen.update(links)
                for flow, rate in self._fair(links).items():
                    if flow.rate != rate:
                        self._set_rate(flow, rate, time)

    def _set_rate(self, flow: Flow, rate: float, time: float) -> None:
        """Set a flow's rate from now on, and its new end time."""
        flow.left = max(0.0, flow.left - flow.rate * (time - flow.since))
        flow.rate, flow.since = rate, time
        flow.version += 1
        self._push(time + flow.left / rate, flow)

    def _touched(self, link: Hashable) -> Iterable[Hashable]:
        """Return the links that are connected to this one through shared flows, directly or indirectly."""
        links, flows, todo = {link: None}, set(), [link]
        while todo:
            for flow in self._on[todo.pop()]:
                if flow not in flows:
                    flows.add(flow)
                    for other in flow.links:
                        if other not in links:
                            links[other] = None
                            todo.append(other)
        return links

    def _fair(self, links: Iterable[Hashable]) -> dict[Flow, float]:
        """Return max-min fair rates, bytes/s: the link of the least share per flow fixes its flows first."""
        free = {link: 1 / self._network.link_time_per_byte(link) for link in links if self._on[link]}
        waiting = {link: len(self._on[link]) for link in free}
        order = [(free[link] / waiting[link], i, link) for i, link in enumerate(free)]
        heapq.heapify(order)
        rates: dict[Flow, float] = {}
        while order:
            share, i, link = heapq.heappop(order)
            if not waiting[link]:
                continue
            now = max(0.0, free[link]) / waiting[link]
            if now > share * (1 + SAME):  # other flows use less than their share of this link
                heapq.heappush(order, (now, i, link))
                continue
            for flow in self._on[link]:
                if flow not in rates:
                    rates[flow] = share
                    for other in flow.links:
                        free[other] -= share
                        waiting[other] -= 1
        return rates
