"""Figures match the simulated run: an arrow per message, a box per addition, and a cell per chunk."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from cluster.network import Network, Placeholder, Switch, charts, draw, simulate
from cluster.network.bandwidth import Point, over_size
from cluster.network.fusion import Buffer, predict
from cluster.network.sums import chunk_history
from tests.network import algorithms

NETWORK = Network(latency=20e-6, time_per_byte=0.8e-9, reduction=0.1e-9)


@pytest.fixture(autouse=True)
def style():
    with plt.style.context("cluster.course"):
        yield
    plt.close("all")


@pytest.mark.parametrize("ranks, n, factor, unit", [(4, 1 << 14, 1e6, "µs"), (40, 1 << 18, 1e3, "ms")])
def test_space_time(ranks, n, factor, unit):
    """Does the diagram have an arrow for each message, with its ranks and times, and a box for each
    addition?"""
    run = simulate(algorithms.ring, Placeholder(n), ranks=ranks, network=NETWORK)
    axes = draw.space_time(run)
    arrows = [(*text.xyann, *text.xy) for text in axes.texts]
    expected = [(m.start * factor, m.source, m.end * factor, m.dest) for m in run.messages]
    assert np.allclose(sorted(arrows), sorted(expected))
    assert len(axes.patches) == len(run.spans) == ranks * (ranks - 1)
    assert axes.get_xlabel() == f"time ({unit})"
    axes.figure.canvas.draw()


def test_chunks():
    """Does each table have a cell per rank and chunk, with one filled slot for each contribution to a sum?"""
    history = chunk_history(algorithms.ring, 4)
    figure = draw.chunks(history)
    tables = [axes for axes in figure.axes if axes.axison]
    assert len(tables) == 7
    for table, counts in zip(tables, history.counts, strict=True):
        slots = [p for p in table.patches if isinstance(p, Rectangle) and p.get_fill()]
        assert len(slots) == (counts > 0).sum() == len(table.texts)
        assert len(table.patches) - len(slots) == 16
    assert tables[3].get_title(loc="left") == "after step 3"
    assert len(draw.chunks(history, [2]).axes) == 1


def test_bus_bandwidth():
    """Does the figure show the given bus bandwidths in GB/s, and a line for the link's bandwidth?"""
    points = over_size(algorithms.ring, [1 << 10, 1 << 20], 4, Switch(20e-6, 0.8e-9))
    assert isinstance(points[0], Point)
    axes = draw.bus_bandwidth({"ring": points}, limit=1.25e9)
    assert np.allclose(axes.lines[0].get_ydata(), [p.bus / 1e9 for p in points])
    assert np.allclose(axes.lines[1].get_ydata(), 1.25)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["4 KiB", "64 KiB", "1 MiB"]


def test_iteration():
    """Does the drawing of an iteration have two boxes for the passes, one for each exchange, and a tick for
    each buffer?"""
    prediction = predict(
        [Buffer("a", 4, 0.1), Buffer("b", 4, 0.2), Buffer("c", 4, 0.9)], lambda n: 0.3,
        forward=0.5, backward=1.0, cycle=0.25,
    )  # fmt: skip
    axes = draw.iteration(prediction)
    assert len(axes.patches) == 2 + len(prediction.exchanges) == 4
    assert np.allclose(axes.lines[0].get_xdata(), [600, 700, 1400]) and axes.get_xlabel() == "time (ms)"


def test_schedule():
    """Does the figure have a box for each forward or backward pass, at its stage and time, with the number of
    its micro-batch, and a legend for both kinds of passes?"""

    def order(stage, stages, m):
        return [("F", i) for i in range(m)] + [("B", i) for i in range(m)]

    def work(comm):
        for what, _ in order(comm.rank, comm.size, 3):
            comm.compute({"F": 1, "B": 2}[what])

    axes = charts.schedule(simulate(work, ranks=2, network=NETWORK), order, 3)
    boxes = [(box.get_x(), box.get_width()) for box in axes.patches]
    assert boxes == [(0, 1), (1, 1), (2, 1), (3, 2), (5, 2), (7, 2)] * 2
    assert [text.get_text() for text in axes.texts] == list("012012") * 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["forward", "backward"]


def test_splits():
    """Does each cell show the best utilisation for its numbers of tensor ranks and pipeline stages, or a dash
    if no split fits?"""
    columns = ["tensor", "pipeline", "MFU, %"]
    table = pd.DataFrame([(1, 1, 40.0), (1, 1, 50.4), (2, 4, 20.0)], columns=columns)
    axes = charts.splits(table)
    assert [text.get_text() for text in axes.texts] == ["50", "–", "–", "20"]
    assert axes.get_xlabel() == "pipeline stages"
