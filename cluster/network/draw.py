"""Figures of exchanges between ranks: space-time diagram, chunks by step, bandwidth over size, an iteration.

Most functions draw into `axes`, or into a new figure, and return the axes. The colours are from the style
`cluster.course`. Each is also distinguished by a number, a hatch or a marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from .bandwidth import Point
from .fusion import MIB, Iteration
from .run import Run
from .sums import ChunkHistory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, as in course.mplstyle; beyond eight ranks the colours repeat, with the rank's number in each.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00", "#999999")
LOOKS = {"add": ("#E69F00", "////", "adding"), "compute": ("#56B4E9", "", "computing")}
GREY, ORANGE, BLUE, GREEN = "#555555", "#D55E00", "#0072B2", "#009E73"
NUMBERED = 20  # up to this many ranks, ranks have numbers and messages have arrowheads


def _unit(seconds: float) -> tuple[float, str]:
    """Return the factor and the unit for displaying times of about this size (s).

    >>> _unit(0.002)
    (1000.0, 'ms')
    """
    units = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"))
    return next(((factor, unit) for least, factor, unit in units if seconds >= 2 * least), (1e9, "ns"))


def space_time(run: Run, axes: Axes | None = None) -> Axes:
    """Draw the space-time diagram of a run: each rank's time from left to right, each message an arrow.

    Arrows begin when both sides are ready and end with the last byte; boxes are additions and computation.
    """
    ranks = len(run.counts)
    if axes is None:
        _, axes = plt.subplots(figsize=(7.2, min(1.2 + 0.45 * ranks, 8)))
    factor, unit = _unit(run.time)
    few = ranks <= NUMBERED
    for count in run.counts:
        axes.plot([0, count.time * factor], [count.rank] * 2, "-", color=GREY, lw=0.8, marker="", zorder=1)
    for message in run.messages:
        axes.annotate(
            "", (message.end * factor, message.dest), (message.start * factor, message.source), zorder=3,
            arrowprops={
                "arrowstyle": "-|>" if few else "-", "color": BLUE, "lw": 1.2 if few else 0.5,
                "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9,
            },
        )  # fmt: skip
    seen = set()
    for span in run.spans:
        colour, hatch, label = LOOKS[span.what]
        box = Rectangle(
            (span.start * factor, span.rank - 0.17), (span.end - span.start) * factor, 0.34, facecolor=colour,
            edgecolor=GREY, hatch=hatch, lw=0.5, zorder=2, label="" if span.what in seen else label,
        )  # fmt: skip
        axes.add_patch(box)
        seen.add(span.what)
    axes.plot([], [], "-", color=BLUE, marker=">", markersize=4, lw=1.2, label="message")
    axes.set(xlabel=f"time ({unit})", ylabel="rank", xlim=(0, run.time * factor), ylim=(ranks - 0.5, -0.5))
    if few:
        axes.set_yticks(range(ranks))
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2)
    return axes


def chunks(history: ChunkHistory, steps: Sequence[int] | None = None) -> Figure:
    """Draw the table of chunks after these steps (default: all), with a row per rank and a column per chunk.

    A cell shows the ranks that have contributed to the sum; a complete cell has a green frame, and one that
    has changed in this step an orange frame.
    """
    chosen = range(len(history.steps)) if steps is None else steps
    ranks, n, _ = history.counts[0].shape
    columns = min(len(chosen), max(1, 16 // max(n, 3)))
    rows = -(-len(chosen) // columns)
    size = (columns * (0.55 * n + 0.45), rows * (0.42 * ranks + 0.75))
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for axes in panels.flat[len(chosen) :]:
        axes.set_axis_off()
    for axes, step in zip(panels.flat, chosen, strict=False):
        _table(axes, history, step)
    return figure


def _table(axes: Axes, history: ChunkHistory, step: int) -> None:
    """Draw one table of chunks."""
    counts = history.counts[step]
    ranks, n, _ = counts.shape
    for rank in range(ranks):
        for chunk in range(n):
            parts = counts[rank, chunk]
            changed = step > 0 and (parts != history.counts[step - 1][rank, chunk]).any()
            _cell(axes, chunk, rank, parts, changed)
    title = "at first" if step == 0 else f"after step {history.steps[step]}"
    axes.set_title(title, fontsize=10)
    axes.set(xlim=(-0.06, n + 0.06), ylim=(ranks + 0.06, -0.06))
    axes.set_xticks([i + 0.5 for i in range(n)], [str(i) for i in range(n)])
    axes.set_yticks([i + 0.5 for i in range(ranks)], [str(i) for i in range(ranks)])
    axes.tick_params(length=0, labelsize=8.5)
    axes.set_xlabel("chunk", fontsize=8.5, labelpad=1)
    axes.set_ylabel("rank", fontsize=8.5, labelpad=1)
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)


def _cell(axes: Axes, x: int, y: int, parts: Any, changed: bool) -> None:
    """Draw one cell: a slot per rank, filled if it has contributed, with ×2 if it has contributed twice."""
    width = 0.84 / len(parts)
    for other, times in enumerate(parts):
        if times:
            at = (x + 0.08 + other * width, y + 0.14)
            axes.add_patch(Rectangle(at, width, 0.72, facecolor=COLOURS[other % len(COLOURS)], lw=0))
            if len(parts) <= 6:
                text = f"{other}" if times == 1 else f"{other}×{times}"
                axes.text(at[0] + width / 2, y + 0.51, text, ha="center", va="center", fontsize=7)
    whole = (parts == 1).all()
    colour, weight = (ORANGE, 1.8) if changed else (GREEN, 1.8) if whole else ("#BBBBBB", 0.7)
    style = ("-" if whole else "--") if changed else "-"
    axes.add_patch(
        Rectangle((x + 0.05, y + 0.08), 0.9, 0.84, fill=False, edgecolor=colour, lw=weight, linestyle=style)
    )


def bus_bandwidth(
    curves: Mapping[str, Sequence[Point]], limit: float | None = None, axes: Axes | None = None
) -> Axes:
    """Draw bus bandwidth over (logarithmic) size, a curve per name. limit: bytes/s of a link, as a line."""
    if axes is None:
        _, axes = plt.subplots()
    for name, points in curves.items():
        axes.plot([p.size for p in points], [p.bus / 1e9 for p in points], label=name)
    if limit:
        axes.axhline(limit / 1e9, color=GREY, lw=1, linestyle=(0, (6, 3)), marker="", label="the link's own")
    axes.set_xscale("log", base=2)
    sizes = [p.size for points in curves.values() for p in points]
    ticks = [2**k for k in range(0, 64, 4) if min(sizes) <= 2**k <= max(sizes)]
    axes.set_xticks(ticks, [_bytes(tick) for tick in ticks])
    axes.set(xlabel="size of the vector on each rank", ylabel="bus bandwidth (GB/s)", ylim=(0, None))
    axes.legend()
    return axes


def _bytes(size: float) -> str:
    """Format a size with its unit.

    >>> _bytes(64 * 1024)
    '64 KiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"


def iteration(predicted: Iteration, axes: Axes | None = None) -> Axes:
    """Draw an iteration: a rank's computation, when buffers become ready, and the network's activity."""
    if axes is None:
        _, axes = plt.subplots(figsize=(7.2, 2.6))
    factor, unit = _unit(predicted.time)
    boxes = [
        (0.0, predicted.forward, 0, "#56B4E9", "", "forward"),
        (predicted.forward, predicted.computing, 0, "#009E73", "\\\\\\\\", "backward"),
    ]
    for i, exchange in enumerate(predicted.exchanges):
        boxes.append((exchange.start, exchange.end, 2, "#E69F00", "////", "" if i else "all-reduce"))
    for start, end, y, colour, hatch, label in boxes:
        box = Rectangle(
            (start * factor, y - 0.38), (end - start) * factor, 0.76,
            facecolor=colour, edgecolor="black", hatch=hatch, lw=0.3 if y else 0.6, label=label,
        )  # fmt: skip
        axes.add_patch(box)
        if y == 2 and end - start > 0.08 * predicted.time:
            size = sum(b.size for e in predicted.exchanges if e.start == start for b in e.buffers)
            axes.text(
                (start + end) / 2 * factor, y, f"{size / MIB:.0f} MiB", ha="center", va="center", fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
    ready = [(predicted.forward + b.ready) * factor for e in predicted.exchanges for b in e.buffers]
    axes.plot(ready, [1] * len(ready), "|", color="black", markersize=9, mew=0.8, label="a buffer is ready")
    axes.axvline(predicted.computing * factor, color=GREY, lw=0.9, linestyle=":", marker="")
    axes.set_yticks([0, 1, 2], ["one rank", "gradients", "network"])
    axes.set(xlabel=f"time ({unit})", xlim=(0, predicted.time * factor * 1.01), ylim=(2.55, -0.55))
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0.2)
    return axes
