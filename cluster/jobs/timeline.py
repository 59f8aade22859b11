"""`job.timeline()`: what each rank did from its submission to its end, as numbers and as a picture.

Phases: queued (submitted, not started), starting (Python, TensorFlow, until Horovod's ranks have met and the
Phases: queued (submitted, not started), starting (Python, TensorFlow, until the ranks have met and the
has returned; libraries and process end). The three in the middle are told apart only where Horovod's timeline
was recorded; else they are one phase, working.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from . import ledger, trace
from .curves import since, span
from .metrics import Tail

if TYPE_CHECKING:
    from .job import Job

PHASES = ("queued", "starting", "working", "computing", "waiting", "communicating", "ending")


class Timeline:
    """Where the time of a job went; in a notebook it shows itself.

    spans: a DataFrame with a row for each stretch: rank, phase, start, end (seconds since submission).
    table: a row for each rank: seconds in each phase, `hidden` (transfer behind computing), the shares of the
    working time that were waiting and communicating. steps: a row for each rank and logged step: seconds,
    computing, waiting, communicating; empty where that was not recorded. notes: in words, what was measured
    and what is missing.
    """

    def __init__(self, job: Job):
        self.id, self.ranks, self._folder = job.id, job.ranks, job.folder
        run = ledger.read(self._folder / "run.json")
        self._zero = since(run.get("resumed") or run["submitted"])
        self._asked = run["options"].get("timeline", False)
        self._now = job.status.as_of if job.status.ended else None
        self.records = {r: ledger.read(self._folder / f"rank-{r}.json") for r in range(self.ranks)}
        self._ready = {r: ledger.read(self._folder / f"ready-{r}.json") for r in range(self.ranks)}
        self.exchanges, self._whole = trace.read(self._folder / trace.FILE)
        self._rows = [row for r in range(self.ranks) for row in self._of(r)]
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
        made = spent.pivot_table(
            index="rank", columns="phase", values="seconds", aggfunc="sum", fill_value=0.0
        )
        made = made.reindex(columns=[p for p in PHASES if p in made.columns])
        if self.exchanges:
            for phase in ("computing", "waiting", "communicating"):
                made[phase] = made.get(phase, 0.0)
            made["hidden"] = [sum(x.hidden(r) for x in self.exchanges) for r in made.index]
            whole = made[["computing", "waiting", "communicating"]].sum(axis=1)
            made["share waiting"] = made["waiting"] / whole
            made["share communicating"] = made["communicating"] / whole
        made.columns.name = None
        return made

    @functools.cached_property
    def steps(self) -> Any:
        """See the class."""
        import pandas as pd

        names = ["rank", "step", "seconds", "computing", "waiting", "communicating"]
        rows = []
        logged = [x for x in Tail(self._folder).read() if "step" in x] if self.exchanges else []
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
        return pd.DataFrame(rows, columns=names)

    def figure(self) -> Any:
        """The picture, a matplotlib Figure."""
        from .lifelines import draw

        return draw(self)

    def words(self) -> str:
        """What the picture shows, in a sentence or two; its alternative text."""
        parts = []
        for rank, row in self.table.iterrows():
            parts.append(f"rank {rank}: " + ", ".join(f"{p} {span(row[p])}" for p in PHASES if p in row))
        return f"Timeline of {self.id}. {'; '.join(parts[:8])}."

    def __repr__(self) -> str:
        table = (
            self.table.to_string(float_format=lambda x: f"{x:.3f}") if self._rows else "No rank has started."
        )
        return "\n".join([f"{self.id}: seconds of each rank in each phase", table, *self.notes])

    def _repr_html_(self) -> str:
        import html

        from .picture import image

        if not self._rows:
            return f"<div>{html.escape(repr(self))}</div>"
        shown = self.table.to_html(float_format=lambda x: f"{x:.3g}", border=0)
        notes = "".join(f"<li>{html.escape(n)}</li>" for n in self.notes)
        return f"{image(self.figure(), self.words())}{shown}<ul>{notes}</ul>"

    def _of(self, rank: int) -> list[tuple[int, str, float, float]]:
        """The spans of one rank in their order, in seconds since submission."""
        import time

        record, ready = self.records[rank], self._ready[rank]
        if record is None:
            return []
        end = record.get("ended") or self._now or time.time()
        begun = min(max(ready["time"], record["started"]), end) if ready else end
        rows = [(rank, "queued", self._zero, record["started"]), (rank, "starting", record["started"], begun)]
        result = self._folder / f"result-{rank}.json"
        last, end = end, max(begun, min(end, result.stat().st_mtime)) if result.is_file() else end
        if begun < end and not self.exchanges:
            rows.append((rank, "working", begun, end))
        elif begun < end:
            at = begun
            for x in self.exchanges:
                for phase, start, finish in x.of(rank):
                    start, finish = max(start, at), min(finish, end)
                    if finish <= start:
                        continue
                    rows += [(rank, "computing", at, start)] if start > at else []
                    rows.append((rank, phase, start, finish))
                    at = finish
            rows += [(rank, "computing", at, end)] if at < end else []
        rows += [(rank, "ending", end, last)] if end < last else []
        return [(r, p, max(0.0, a - self._zero), max(0.0, b - self._zero)) for r, p, a, b in rows]

    def _notes(self, job: Job) -> Any:
        absent = [r for r, record in self.records.items() if record is None]
        if absent:
            yield f"{len(absent)} of {self.ranks} ranks have not started; the job is {job.status}."
        if not all(self._ready.values()) and len(absent) < self.ranks:
            yield "A rank whose function was never called is shown as starting until its end."
        if self.exchanges:
            yield (
                "Waiting: the rank has handed over its last tensor and another has not. Communicating: the "
                "operation, as rank 0 saw it. What is transferred while a rank still computes counts as "
                "computing, and in 'hidden'."
            )
            yield "Recording takes a core and makes steps slower: take run times from a run without it."
        elif self._asked:
            yield "Horovod's timeline was asked for, but holds no operation: nothing was reduced or sent."
        elif self.ranks > 1:
            yield (
                "Computing and communicating were not told apart: submit(..., timeline=True, rerun=True) "
                "records it, and makes the run slower."
            )
        if not self._whole:
            yield f"Of Horovod's timeline only the first {trace.MOST >> 20} MiB were read."
        hosts = {r["host"] for r in self.records.values() if r}
        if len(hosts) > 1:
            yield f"Each of the {len(hosts)} machines has its own clock: differences show as shifts."
        if (self._folder / "attempts").is_dir():
            yield "Only the last attempt of the run is shown; earlier ones are in its folder, attempts/."
