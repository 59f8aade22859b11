"""The picture of a timeline: the life of each rank, some of it under the glass, the time of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import picture

if TYPE_CHECKING:
    from .timeline import Timeline

# Colour (Okabe and Ito) and hatch of each phase, so that black and white tell them apart, too.
LOOK = {
    "queued": ("#D9D9D9", ""),
    "starting": ("#F0E442", "..."),
    "working": ("#56B4E9", ""),
    "computing": ("#0072B2", ""),
    "waiting": ("#E69F00", "////"),
    "communicating": ("#D55E00", "xxx"),
    "ending": ("#CC79A7", "..."),
}
FINE = 400  # spans of a rank that can be told apart over its whole life
ROUNDS = 4  # exchanges under the glass


def draw(timeline: Timeline) -> Any:
    """A Figure of up to three panels."""
    fine = bool(timeline.exchanges)
    stepped = fine and len(timeline.steps) > timeline.ranks
    height = 0.75 + 0.28 * min(timeline.ranks, 16)
    with picture.style():
        fig = picture.figure(7.6, height * (1 + fine) + 2.1 * stepped + 0.5)
        ratios = [height] + [height] * fine + [2.1] * stepped
        axes = list(fig.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0])
        _life(axes.pop(0), timeline)
        if fine:
            _glass(axes.pop(0), timeline)
        if stepped:
            _steps(axes.pop(0), timeline)
        _legend(fig, timeline)
    return fig


def _life(ax: Any, timeline: Timeline) -> None:
    spans = timeline.spans
    if len(spans) > FINE * timeline.ranks:  # too fine to see: one colour, and the parts are below
        busy = spans.phase.isin(["computing", "waiting", "communicating"])
        merged = spans[busy].groupby("rank", as_index=False).agg(start=("start", "min"), end=("end", "max"))
        _bars(ax, merged.assign(phase="working"), 1.0)
        spans = spans[~busy]
    _bars(ax, spans, 1.0)
    ax.set_title("From submission to end")
    ax.set_xlabel("seconds since submission")
    _ranks(ax, timeline.ranks)


def _glass(ax: Any, timeline: Timeline) -> None:
    """Some exchanges from the middle, for the first ones differ."""
    x = timeline.exchanges
    middle = len(x) // 2
    some = x[max(0, middle - ROUNDS // 2) : middle + ROUNDS - ROUNDS // 2]
    zero = timeline.spans.start.min() + timeline._zero
    begin = min(min(e.ready.values(), default=e.start) for e in some[:1]) - timeline._zero
    end = some[-1].end - timeline._zero
    margin = (end - begin) / 20 + 1e-4
    begin, end = max(begin - margin, zero - timeline._zero), end + margin
    spans = timeline.spans
    seen = spans[(spans.end > begin) & (spans.start < end)]
    _bars(
        ax, seen.assign(start=seen.start.clip(begin, end) - begin, end=seen.end.clip(begin, end) - begin), 1e3
    )
    ax.set_title(f"{len(some)} exchanges from the middle of {len(x)}")
    ax.set_xlabel(f"ms, from {begin:.3f} s on")
    _ranks(ax, timeline.ranks)


def _steps(ax: Any, timeline: Timeline) -> None:
    """The mean over the ranks of each step's parts."""
    phases = ["computing", "waiting", "communicating"]
    mean = timeline.steps.groupby("step")[phases].mean() * 1e3
    bins = max(1, len(mean) // 120)
    if bins > 1:
        mean = mean.groupby([i // bins for i in range(len(mean))]).mean().set_index(mean.index[::bins])
    layers = ax.stackplot(mean.index, mean.T.values, colors=[LOOK[p][0] for p in phases], step="mid")
    for layer, p in zip(layers, phases, strict=True):
        layer.set(hatch=LOOK[p][1], edgecolor="white", linewidth=0.3)
    ax.set_title("Time of a step, mean over the ranks" + (f" and over {bins} steps" if bins > 1 else ""))
    ax.set_xlabel("step")
    ax.set_ylabel("ms")
    ax.set_ylim(0, 1.25 * float(mean.sum(axis=1).quantile(0.98)))
    ax.margins(x=0.01)


def _bars(ax: Any, spans: Any, scale: float) -> None:
    for (rank, phase), part in spans.groupby(["rank", "phase"]):
        colour, hatch = LOOK[phase]
        at = [(a * scale, (b - a) * scale) for a, b in zip(part.start, part.end, strict=True)]
        ax.broken_barh(
            at, (rank - 0.38, 0.76), facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0.2
        )


def _ranks(ax: Any, ranks: int) -> None:
    ax.set_ylim(ranks - 0.4, -0.6)
    if ranks <= 16:
        ax.set_yticks(range(ranks), [f"rank {r}" for r in range(ranks)])
    else:
        ax.set_ylabel("rank")
    ax.grid(axis="y", visible=False)


def _legend(fig: Any, timeline: Timeline) -> None:
    from matplotlib.patches import Patch

    words = {"waiting": "waiting for slower ranks"}
    there = [p for p in LOOK if (timeline.spans.phase == p).any()]
    patches = [
        Patch(facecolor=LOOK[p][0], hatch=LOOK[p][1], edgecolor="white", label=words.get(p, p)) for p in there
    ]
    fig.legend(handles=patches, loc="outside lower center", ncols=min(4, len(patches)))
