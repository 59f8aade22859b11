"""`job.timeline()`: the activities of each rank from submission to end, as numbers and as a figure.

The phases, in their order:

    queued         submitted, but not started
    starting       Python, TensorFlow, until Horovod's ranks have met and the function is called
    computing      the function runs, and has not submitted all tensors of its next exchange
    waiting        this rank has submitted the last of them, and another rank has not
    communicating  the exchange itself, unless it overlaps with computation
    ending         the function has returned; libraries and process end

Without Horovod's timeline, computing, waiting and communicating are one phase, `working`.
"""

from __future__ import annotations

import functools
import itertools
import time
from typing import Any

from cluster.system import files

from ..metrics import Tail
from ..rank import horovod_trace
from ..run.run_folder import RunFolder
from . import picture
from .curves import since, span
from .protocols import ShownJob
from .render import View, page

WORK = ["computing", "waiting", "communicating"]
PHASES = ("queued", "starting", "working", *WORK, "ending")
# Colour (Okabe and Ito) and hatch of each phase, which remain distinct in black and white.
LOOK = {
    "queued": ("#D9D9D9", ""),
    "starting": ("#F0E442", "..."),
    "working": ("#56B4E9", ""),
    "computing": ("#0072B2", ""),
    "waiting": ("#E69F00", "////"),
    "communicating": ("#D55E00", "xxx"),
    "ending": ("#CC79A7", "..."),
}
FINE = 400  # maximum number of spans per rank that are distinguishable in a figure of the whole run
ROUNDS = 4  # number of exchanges in the magnified panel


class Timeline:
    """The time that a job spent in each phase. It displays itself in a notebook.

    spans: a DataFrame of intervals with the columns rank, phase, start, end (seconds since submission).
    table: a row for each rank with the seconds in each phase, `hidden` (transfer overlapped with
    computing), and the fractions of the working time spent waiting and communicating. steps: a row for each
    rank and logged step with seconds, computing, waiting, communicating; empty if that was not recorded.
    notes: text on what was measured and what is missing.
    """

    def __init__(self, job: ShownJob):
        self.id, self.ranks, self._folder = job.id, job.ranks, job.folder
        run = RunFolder(self._folder).record
        self._zero = since(run.get("resumed") or run["submitted"])
        self._requested = run["options"].get("timeline", False)
        self._now = job.status.as_of if job.status.ended else None
        self.records = {r: RunFolder(self._folder).rank_record(r) for r in range(self.ranks)}
        self._ready = {r: files.read_json(RunFolder(self._folder).ready(r)) for r in range(self.ranks)}
        self.exchanges, self._whole = horovod_trace.read_exchanges(RunFolder(self._folder).timeline)
        self._rows = [row for r in range(self.ranks) for row in self._spans_of(r)]
        self.notes = list(self._notes(job))

    @functools.cached_property
    def spans(self) -> Any:
        """See the class."""
        import pandas as pd

        return pd.DataFrame(self._rows, columns=["rank", "phase", "start", "end"])

    @functools.cached_property
    def table(self) -> Any:
        """See the class."""
        spent = self.spans.assign(seconds=self.spans.end - self.spans.start)
        frame = spent.pivot_table(
            index="rank", columns="phase", values="seconds", aggfunc="sum", fill_value=0.0
        )
        phases = {*frame.columns, *(WORK if self.exchanges else ())}
        frame = frame.reindex(columns=[p for p in PHASES if p in phases], fill_value=0.0)
        if self.exchanges:
            frame["hidden"] = [sum(x.hidden(r) for x in self.exchanges) for r in frame.index]
            whole = frame[WORK].sum(axis=1)
            frame["share waiting"] = frame["waiting"] / whole
            frame["share communicating"] = frame["communicating"] / whole
        frame.columns.name = None
        return frame

    @functools.cached_property
    def steps(self) -> Any:
        """See the class."""
        import pandas as pd

        rows = []
        logged = [x for x in Tail(self._folder).new_rows() if "step" in x] if self.exchanges else []
        for r in range(self.ranks):
            times = [(x["time"] - self._zero, x["step"]) for x in logged if x["rank"] == r]
            mine = [s for s in self._rows if s[0] == r and s[1] in ("waiting", "communicating")]
            at = 0
            for (begin, _), (end, step) in itertools.pairwise(times):
                spent = dict.fromkeys(("waiting", "communicating"), 0.0)
                while at < len(mine) and mine[at][2] < end:
                    spent[mine[at][1]] += max(0.0, min(mine[at][3], end) - max(mine[at][2], begin))
                    if mine[at][3] > end:
                        break
                    at += 1
                computing = end - begin - spent["waiting"] - spent["communicating"]
                rows.append([r, step, end - begin, computing, spent["waiting"], spent["communicating"]])
        return pd.DataFrame(rows, columns=["rank", "step", "seconds", *WORK])

    def figure(self) -> Any:
        """Return a matplotlib Figure of up to three panels: the run, some exchanges, the time per step."""
        fine = bool(self.exchanges)
        stepped = fine and len(self.steps) > self.ranks
        height = 0.75 + 0.28 * min(self.ranks, 16)
        with picture.style():
            fig = picture.figure(7.6, height * (1 + fine) + 2.1 * stepped + 0.5)
            ratios = [height] + [height] * fine + [2.1] * stepped
            axes = list(fig.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0])
            _life(axes.pop(0), self)
            if fine:
                _glass(axes.pop(0), self)
            if stepped:
                _steps(axes.pop(0), self)
            phases = [p for p in PHASES if (self.spans.phase == p).any()]
            fig.legend(
                handles=[_patch(p) for p in phases], loc="outside lower center", ncols=min(4, len(phases))
            )
        return fig

    def words(self) -> str:
        """Describe the figure in one or two sentences, as its alternative text."""
        parts = []
        for rank, row in self.table.iterrows():
            parts.append(f"rank {rank}: " + ", ".join(f"{p} {span(row[p])}" for p in PHASES if p in row))
        return f"Timeline of {self.id}. {'; '.join(parts[:8])}."

    def __repr__(self) -> str:
        table = [self.table.to_string(float_format=lambda x: f"{x:.3f}")] if self._rows else []
        return "\n".join([f"{self.id}: seconds of each rank in each phase", *table, *self.notes])

    def _repr_html_(self) -> str:
        if not self._rows:
            return page(View(words=repr(self).splitlines()))
        shown = self.table.to_html(float_format=lambda x: f"{x:.3g}", border=0)
        return page(View(notes=self.notes), picture.image(self.figure(), self.words()) + shown)

    def _spans_of(self, rank: int) -> list[tuple[int, str, float, float]]:
        """Return the spans of one rank in their order, in seconds since submission."""
        record, ready = self.records[rank], self._ready[rank]
        if record is None:
            return []
        end = record.get("ended") or self._now or time.time()
        begun = min(max(ready.get("time", 0.0), record["started"]), end) if ready else end
        rows = [(rank, "queued", self._zero, record["started"]), (rank, "starting", record["started"], begun)]
        result = RunFolder(self._folder).result(rank)
        last, end = end, max(begun, min(end, result.stat().st_mtime)) if result.is_file() else end
        if begun < end and not self.exchanges:
            rows.append((rank, "working", begun, end))
        elif begun < end:
            at = begun
            for x in self.exchanges:
                for phase, start, finish in x.spans(rank):
                    start, finish = max(start, at), min(finish, end)
                    if finish <= start:
                        continue
                    rows += [(rank, "computing", at, start)] if start > at else []
                    rows.append((rank, phase, start, finish))
                    at = finish
            rows += [(rank, "computing", at, end)] if at < end else []
        rows += [(rank, "ending", end, last)] if end < last else []
        return [(r, p, max(0.0, a - self._zero), max(0.0, b - self._zero)) for r, p, a, b in rows]

    def _notes(self, job: ShownJob) -> Any:
        absent = [r for r, record in self.records.items() if record is None]
        if absent:
            yield f"{len(absent)} of {self.ranks} ranks have not started; the job is {job.status}."
        if not all(self._ready.values()) and len(absent) < self.ranks:
            yield "A rank whose function was never called is shown as starting until its end."
        if self.exchanges:
            yield (
                "Waiting: the rank has submitted its last tensor and another rank has not. "
                "Communicating: the operation, as seen by rank 0. Transfers during a rank's computation "
                "count as computing, and as 'hidden'."
            )
            yield "Recording uses one core and slows down the steps, so measure run times without it."
        elif self._requested:
            yield (
                "Horovod's timeline was requested but contains no operation, because nothing was reduced "
                "or sent."
            )
        elif self.ranks > 1:
            yield (
                "Computing and communicating are not distinguished. submit(..., timeline=True, "
                "rerun=True) records them, and makes the run slower."
            )
        if not self._whole:
            yield f"Of Horovod's timeline, only the first {horovod_trace.MOST >> 20} MiB were read."
        hosts = {r["host"] for r in self.records.values() if r}
        if len(hosts) > 1:
            yield f"Each of the {len(hosts)} machines has its own clock: differences show as shifts."
        if RunFolder(self._folder).attempts():
            yield "Only the last attempt of the run is shown; earlier ones are in its attempts/ folder."


def _life(ax: Any, timeline: Timeline) -> None:
    spans = timeline.spans
    # too fine to see: draw one colour here, and the parts in the panel below
    if len(spans) > FINE * timeline.ranks:
        busy = spans.phase.isin(WORK)
        merged = spans[busy].groupby("rank", as_index=False).agg(start=("start", "min"), end=("end", "max"))
        _bars(ax, merged.assign(phase="working"), 1.0)
        spans = spans[~busy]
    _bars(ax, spans, 1.0)
    ax.set_title("From submission to end")
    ax.set_xlabel("seconds since submission")
    _ranks(ax, timeline.ranks)


def _glass(ax: Any, timeline: Timeline) -> None:
    """Draw some exchanges from the middle of the run in detail, since the first ones are not typical."""
    x = timeline.exchanges
    middle = len(x) // 2
    some = x[max(0, middle - ROUNDS // 2) : middle + ROUNDS - ROUNDS // 2]
    spans = timeline.spans
    begin = min(some[0].ready.values(), default=some[0].start) - timeline._zero
    end = some[-1].end - timeline._zero
    margin = (end - begin) / 20 + 1e-4
    begin, end = max(begin - margin, spans.start.min()), end + margin
    seen = spans[(spans.end > begin) & (spans.start < end)]
    _bars(
        ax, seen.assign(start=seen.start.clip(begin, end) - begin, end=seen.end.clip(begin, end) - begin), 1e3
    )
    ax.set_title(f"{len(some)} exchanges from the middle of {len(x)}")
    ax.set_xlabel(f"ms after {begin:.3f} s")
    _ranks(ax, timeline.ranks)


def _steps(ax: Any, timeline: Timeline) -> None:
    """Draw how long each step computed, waited and communicated, as means over the ranks."""
    mean = timeline.steps.groupby("step")[WORK].mean() * 1e3
    bins = max(1, len(mean) // 120)
    if bins > 1:
        mean = mean.groupby([i // bins for i in range(len(mean))]).mean().set_index(mean.index[::bins])
    layers = ax.stackplot(mean.index, mean.T.values, colors=[LOOK[p][0] for p in WORK], step="mid")
    for layer, p in zip(layers, WORK, strict=True):
        layer.set(hatch=LOOK[p][1], edgecolor="white", linewidth=0.3)
    ax.set_title("Time per step, mean over the ranks" + (f" and over {bins} steps" if bins > 1 else ""))
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


def _patch(phase: str) -> Any:
    from matplotlib.patches import Patch

    colour, hatch = LOOK[phase]
    label = "waiting for slower ranks" if phase == "waiting" else phase
    return Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=label)
