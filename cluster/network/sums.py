"""Contributions to a sum, used to find the fault in a wrong all-reduce, and to display an all-reduce.

Both run the all-reduce in virtual time on `tagged` arrays, whose elements record the contributing ranks. A
message takes one unit of time, whatever its size, so times count steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import contributions, tagged
from .chunks import bounds
from .diagnosis import SHOWN, more
from .errors import WrongSum
from .topologies import Network
from .virtual import simulate

STEPS = Network(latency=1.0, time_per_byte=0.0)


def check_sum(allreduce: Callable[..., Any], ranks: int, n: int, *args: Any) -> None:
    """Run `allreduce(comm, x, *args)` on n elements; raise WrongSum if a contribution is missing or repeated.

    The sum is the return value, or x if that is None. Raises ValueError if rounding made it unreadable.
    """

    def program(comm: Any) -> Any:
        x = tagged(comm.rank, n)
        y = allreduce(comm, x, *args)
        return x if y is None else y

    results = simulate(program, ranks=ranks, network=STEPS).results
    wrong = [line for rank, x in enumerate(results) for line in _faults(rank, x, ranks, n)]
    if wrong:
        advice = "→ Look at each step: draw.chunks(chunk_history(allreduce, ranks))."
        raise WrongSum("\n".join([*wrong[:SHOWN], *more(len(wrong)), advice]))


def _faults(rank: int, x: Any, ranks: int, n: int) -> Iterator[str]:
    """Describe the faults in one rank's sum, with one line for elements that lack the same contributions."""
    if np.shape(x) != (n,):
        yield f"rank {rank} has a sum of shape {np.shape(x)}, not ({n},)"
        return
    try:
        counts = contributions(x, ranks)
    except WrongSum as e:
        yield f"rank {rank}: {e}"
        return
    start = 0
    for count, run in itertools.groupby(map(tuple, counts)):
        end = start + len(list(run))
        if any(times != 1 for times in count):
            yield f"rank {rank}, {_where(start, end, n, ranks)}: {_fault(count)}"
        start = end


def _fault(count: tuple[int, ...]) -> str:
    """Describe which contributions are missing, and which occur more than once."""
    missing = [str(rank) for rank, times in enumerate(count) if not times]
    words = [f"the part of rank {', '.join(missing)} is missing"] if missing else []
    words += [f"the part of rank {rank} is included {n} times" for rank, n in enumerate(count) if n > 1]
    return "; ".join(words)


def _where(start: int, end: int, n: int, ranks: int) -> str:
    """Describe the elements start … end − 1, as a chunk if they are one."""
    elements = f"element {start}" if end == start + 1 else f"elements {start} … {end - 1}"
    cuts = bounds(n, ranks)
    whole = [k for k in range(ranks) if (cuts[k], cuts[k + 1]) == (start, end)]
    return f"chunk {whole[0]} ({elements})" if whole else elements


@dataclass
class ChunkHistory:
    """The elements of x on all ranks, step by step.

    steps: their times; the first is 0. counts: for each step an array (ranks, n, ranks). Entry (i, j, k) is
    how often rank k's contribution is in element j on rank i.
    """

    steps: list[int]
    counts: list[np.ndarray]


def chunk_history(
    allreduce: Callable[..., Any], ranks: int, *args: Any, n: int | None = None
) -> ChunkHistory:
    """Run `allreduce(comm, x, *args)`, which operates in place, and record x on all ranks after each step.

    n: number of elements of x; one per rank by default.
    """
    n = ranks if n is None else n
    seen: list[tuple[float, int, np.ndarray]] = []

    def program(comm: Any, x: np.ndarray) -> None:
        x[:] = tagged(comm.rank, n)
        allreduce(comm, x, *args)

    def watch(rank: int, time: float, given: tuple[Any, ...]) -> None:
        seen.append((time, rank, contributions(given[0], ranks)))

    simulate(program, tagged(0, n), ranks=ranks, network=STEPS, watch=watch)
    now = np.stack([contributions(tagged(rank, n), ranks) for rank in range(ranks)])
    history = ChunkHistory([0], [now])
    seen.sort(key=lambda found: found[:2])
    for time, of_step in itertools.groupby(seen, key=lambda found: found[0]):
        now = now.copy()
        for _, rank, counts in of_step:
            now[rank] = counts
        if time:
            history.steps.append(round(time))
            history.counts.append(now)
    return history
