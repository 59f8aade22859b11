"""Figures of lecture 11: the schedule of a pipeline over time, and a table of splits as a heat map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .run import Run

PASSES = {"F": ("forward", "#56B4E9", ""), "B": ("backward", "#E69F00", "//")}


def schedule(
    run: Run, order: Callable[[int, int, int], Sequence[tuple[str, int]]], m: int, axes: Axes | None = None
) -> Axes:
    """Draw the passes of each stage over time, with the micro-batch in each box.

    order: order(stage, stages, m) gives [("F" or "B", micro-batch)], in the order executed by the ranks.
    """
    if axes is None:
        _, axes = plt.subplots(figsize=(8.4, 2.4))
    stages, seen = len(run.counts), set()
    for stage in range(stages):
        spans = [span for span in run.spans if span.rank == stage and span.what == "compute"]
        for (what, i), span in zip(order(stage, stages, m), spans, strict=True):
            label, colour, hatch = PASSES[what]
            axes.barh(
                stage, span.end - span.start, left=span.start, color=colour, edgecolor="white", hatch=hatch,
                label="" if what in seen else label,
            )  # fmt: skip
            axes.text(
                (span.start + span.end) / 2, stage, str(i), ha="center", va="center", fontsize=9,
                bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.8},
            )  # fmt: skip
            seen.add(what)
    axes.set(yticks=range(stages), ylabel="stage", xlim=(0, run.time), ylim=(stages - 0.5, -0.5))
    axes.set_xlabel("time")
    axes.set_title(order.__name__, loc="right")
    axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)
    axes.grid(axis="y", visible=False)
    return axes


def splits(table: pd.DataFrame, axes: Axes | None = None) -> Axes:
    """Draw the best utilisation for each number of tensor-parallel ranks and stages (`splits.search`)."""
    if axes is None:
        _, axes = plt.subplots(figsize=(6.6, 4.2))
    grid = table.pivot_table("MFU, %", "tensor", "pipeline", aggfunc="max")
    image = axes.imshow(grid, cmap="viridis", aspect="auto", vmin=0)
    for (i, j), value in np.ndenumerate(grid.to_numpy()):
        text = "–" if np.isnan(value) else f"{value:.0f}"
        axes.text(j, i, text, ha="center", va="center", color="black" if value > 30 else "white")
        if np.isnan(value):
            axes.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 1, 1, color="#888888", lw=0))
    axes.set_xticks(range(grid.shape[1]), grid.columns)
    axes.set_yticks(range(grid.shape[0]), grid.index)
    axes.set(xlabel="pipeline stages", ylabel="tensor-parallel ranks")
    axes.grid(visible=False)
    plt.colorbar(image, ax=axes, label="best MFU, %")
    return axes
