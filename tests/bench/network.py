"""The speed of virtual time: messages per second compared with SimGrid, and how the cost grows with ranks and
array sizes.

Times are CPU time instead of wall-clock time, because each side uses one core, and CPU time depends less on
other load. SimGrid is Debian's python3-simgrid. Without it, only our side is measured.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Mapping

import numpy as np

from cluster.network import Network, Placeholder, Run, Switch, simulate
from tests.network import algorithms, cases, simgrid_table

from .measure import Found, Row, interleaved, rows, spread

ABOUT = "virtual time: messages per second against SimGrid, growth with ranks and bytes"
OURS, SHARED, THEIRS = "cluster.network, own links", "cluster.network, switch", "SimGrid, switch"
RANKS, BYTES = 1024, 4 << 20
MESSAGES = 2 * 10 * RANKS  # each rank of halving-doubling sends 2 log2 p messages
SECONDS, RATE = 0.5, 50_000  # the targets


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--most", type=int, default=4096, help="the most ranks of the growth (4096)")


def versions() -> dict[str, str]:
    """Return the versions of the other measured software."""
    return {"simgrid": simgrid_table.version() or "not installed"}


def speed(options: argparse.Namespace) -> Found:
    """Time a simulation of halving-doubling on 1,024 ranks: with separate links, behind a switch, and with
    SimGrid.
    """
    what = f"halving-doubling, {RANKS} ranks"
    size = Placeholder(BYTES, np.uint8)

    def ours(network: Network) -> Mapping[str, float]:
        begin = time.process_time()
        run = simulate(algorithms.halving_doubling, size, ranks=RANKS, network=network)
        assert sum(count.messages_sent for count in run.counts) == MESSAGES
        return {what: time.process_time() - begin}

    def theirs() -> Mapping[str, float]:
        return {what: simgrid_table.ask("--halving-doubling", str(RANKS), str(BYTES))["busy"]}

    sides: dict[str, Callable[[], Mapping[str, float]]] = {
        OURS: lambda: ours(Network(**cases.TEN_GBIT)),
        SHARED: lambda: ours(Switch(**cases.TEN_GBIT)),
    }
    if simgrid_table.version():
        sides[THEIRS] = theirs
    values = interleaved(sides, options.repeats or 5)
    measurements = rows(values)
    measurements += [
        Row("messages per second", r.side, "1/s", [MESSAGES / v for v in r.values]) for r in rows(values)
    ]
    seconds = {side: spread(values[what, side])["median"] for side in sides}
    aims = []
    for side in (OURS, SHARED):
        aims.append((f"{side}: under {SECONDS} s of CPU time", seconds[side] < SECONDS))
        aims.append((f"{side}: {RATE} messages per second", MESSAGES / seconds[side] >= RATE))
    remarks = ["Times are CPU time of the run alone, without creating SimGrid's platform and actors."]
    if THEIRS in seconds:
        remarks.append(f"SimGrid takes {seconds[THEIRS] / seconds[SHARED]:.1f} times as long.")
    return Found(measurements, aims, remarks)


def growth(options: argparse.Namespace) -> Found:
    """Measure time and memory per message: for halving-doubling with more ranks, and for a ring with larger
    arrays.
    """
    sides = {}
    for ranks in (64, 256, 1024, options.most):
        sides[f"halving-doubling, {ranks} ranks"] = _halving(ranks)
    for n in (1 << 8, 1 << 16):
        sides[f"ring, 64 ranks, arrays of {4 * n >> 10} KiB"] = _ring(n)
    values = interleaved({side: lambda f=f: _cost(f) for side, f in sides.items()}, options.repeats or 3)
    measurements = rows({key: v for key, v in values.items() if key[0] == TIME}, "µs")
    measurements += rows({(MEMORY, side): [_memory(f)] for side, f in sides.items()}, "KiB")
    medians = [spread(values[TIME, side])["median"] for side in sides]
    largest = f"{options.most} ranks: at most twice the time per message of 64"
    remark = f"Messages are recorded. The {MEMORY} is the maximum that Python held (tracemalloc)."
    return Found(measurements, [(largest, medians[3] <= 2 * medians[0])], [remark])


TIME, MEMORY = "time per message", "memory per message"


def _halving(ranks: int) -> Callable[[], Run]:
    x, network = Placeholder(BYTES, np.uint8), Network(**cases.TEN_GBIT)
    return lambda: simulate(algorithms.halving_doubling, x, ranks=ranks, network=network)


def _ring(n: int) -> Callable[[], Run]:
    x, network = np.zeros(n, np.float32), Network(**cases.TEN_GBIT)
    return lambda: simulate(algorithms.ring, x, ranks=64, network=network)


def _cost(run: Callable[[], Run]) -> dict[str, float]:
    begin = time.process_time()
    done = run()
    return {TIME: 1e6 * (time.process_time() - begin) / len(done.messages)}


def _memory(run: Callable[[], Run]) -> float:
    tracemalloc.start()
    try:
        done = run()
        return tracemalloc.get_traced_memory()[1] / len(done.messages) / 1024
    finally:
        tracemalloc.stop()


SECTIONS = {"speed": speed, "growth": growth}
