"""One submission on its way through the engine: its cells by role, its checks, its outputs."""

from __future__ import annotations

import ast
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import nbformat
from nbformat import NotebookNode

from .. import failures
from ..hidden import without_hidden
from .inside import names
from .inside.channel import Channel
from .inside.errors import (
    AnswerTimeoutError,
    CheckHeldUpError,
    InfrastructureError,
    NotebookEndedError,
    ProcessLostError,
    StarvedError,
)
from .inside.figures import NOT_DRAWN
from .inside.messages import BrokenChecks, CheckReply
from .inside.own_time import STRETCH
from .outputs import Outputs
from .pace import Moment, Pace
from .verdict import Check, Limits

GRACE = 5  # seconds beyond a limit before the process is ended
NOT_RUN = "[not run when graded: this cell only measures, and nothing is judged by it]\n"


OnStep = Callable[
    [str, float, float], None
]  # (cell or check, its limit, the submission's budget), in seconds


def ignore_step(what: str, limit: float, budget: float) -> None:
    """Tell nobody which cell or check begins."""


class GradedNotebook:
    """One submission's notebook while it is graded: its cells by role. `checks` is what becomes the verdict.

    patience: how many times its limit a check may take by the clock; of its own time it has the limit.
    on_step: a function that is told each cell and check as it begins.
    """

    def __init__(
        self,
        notebook: NotebookNode,
        source: dict[str, str] | None,
        limits: Limits,
        patience: int = 1,
        on_step: OnStep = ignore_step,
    ):
        self.notebook, self.limits, self.patience, self.on_step = notebook, limits, patience, on_step
        self.paced(os.getpid())  # until the student's sandbox has started
        self.outputs = Outputs(limits.output)
        self.cells: list[NotebookNode] = []  # those that the student's side runs
        self.given: list[tuple[str, str]] = []  # (name, text)
        self.graded: dict[str, NotebookNode] = {}
        self.checks: dict[str, Check] = {}
        self.before: dict[str, int] = {}  # how many of the cells stand before a check
        self.slow: list[str] = []
        for cell in (c for c in notebook.cells if c.cell_type == "code"):
            cell.outputs, role = [], cell.metadata.get("nbgrader", {})
            name = role.get("grade_id")
            ours = name is not None and role.get("locked") and not role.get("solution")
            if source is not None:
                ours = ours and name in source
                cell.source = source[name] if ours else cell.source
            if ours and role.get("grade"):
                self.graded[name] = cell
                self.checks[name] = Check(0.0, float(role["points"]))
                self.before[name] = len(self.cells)
                continue
            self.cells.append(cell)
            if ours:
                self.given.append((name, cell.source))
        checks = tuple((name, cell.source) for name, cell in self.graded.items())
        self.provided = list(provided(tuple(self.given), checks))  # in a sandbox of their own: see `Trials`

    def text(self) -> str:
        """All code of the notebook."""
        return "\n".join(cell.source for cell in (*self.cells, *self.graded.values()))

    def kind(self, cell: NotebookNode) -> str:
        """Whether one of `cells` is provided, a blank, or neither."""
        role = cell.metadata.get("nbgrader", {})
        if role.get("grade_id") in dict(self.given):
            return names.PROVIDED
        return names.BLANK if role.get("solution") else names.SCRATCH

    def measured(self) -> set[int]:
        """The cells, by their numbers, that only measure, as the notebook's metadata has it."""
        ids = self.notebook.metadata.get("measured", ())
        return {i for i, cell in enumerate(self.cells) if cell.get("id") in ids}

    def not_run(self, cells: Any) -> set[int]:
        """The cells that only measure and define nothing that any other cell needs.

        cells: [[names that it needs, names that it defines]] of all `self.cells`, as the student's sandbox
        found them before it ran any (`names.of_cells`). Where it is anything else, the answer is no cell.
        """
        chosen = self.measured()
        try:
            found = [(set(needs), set(defines)) for needs, defines in cells] if chosen else []
            checks = [names.compiled(cell.source, "check") for cell in self.graded.values()] if chosen else []
        except (SyntaxError, TypeError, ValueError):
            return set()
        if len(found) != len(self.cells):
            return set()
        of_checks = {name for code in checks for name in names.missing(code, ())}
        while chosen:
            needed = of_checks.union(*(needs for i, (needs, _) in enumerate(found) if i not in chosen))
            if not (run := {i for i in chosen if found[i][1] & needed}):
                break
            chosen -= run
        return chosen

    def outputs_of(self, number: int, reply: Any, not_run: set[int]) -> list[NotebookNode]:
        """What a cell has shown; of one that was not run, a word and as many figures as were handed in."""
        if number not in not_run:
            return self.outputs.take(reply)
        new, figures = nbformat.v4.new_output, self.notebook.metadata.get("undrawn", {})
        word = new("stream", name="stdout", text=NOT_RUN)
        number = figures.get(self.cells[number].get("id"), 0)
        return [word, *(new("display_data", {"image/png": NOT_DRAWN}) for _ in range(number))]

    def paced(self, pid: int) -> None:
        """The student's side runs in the sandbox of this process: its time begins, and it may be starved."""
        self.pace = Pace(pid)
        self.began = self.pace.now()
        self.end = self.began.at + self.limits.total

    def more_time(self) -> float:
        """Seconds that are left of the budget, or that are added to it because others had the processors."""
        now = time.monotonic()
        if now >= self.end:
            longest = self.began.at + STRETCH * self.limits.total
            if now >= longest or not self.pace.starved(self.began, self.limits.total):
                return 0.0
            self.end = now + GRACE
        return self.end - now

    def out_of_time(self) -> str:
        """Why there are no more points: the budget is used up. Raises StarvedError if others used it."""
        self.own(self.began, self.limits.total)
        why = f"; before that {', '.join(self.slow)}" if self.slow else ""
        return f"grading took longer than {self.limits.total:g} s, the budget of a submission{why}"

    def own(self, since: Moment, limit: float) -> None:
        """Raise StarvedError where this limit, met since a Moment, was not the student's own."""
        if time.monotonic() - since.at >= limit and self.pace.starved(since, limit):
            raise starved(limit)

    def waits(self, since: Moment) -> Iterator[float]:
        """Seconds for which a cell, begun at a Moment, is waited for again when its limit is over.

        The last are for it to end by itself: it looks at its own time a little later than the engine does.
        """
        limit = self.limits.cell
        end = since.at + STRETCH * limit + GRACE
        while time.monotonic() < end and self.more_time() and self.pace.starved(since, limit):
            yield GRACE
        yield self.rest(GRACE)

    def run_cells(self, channel: Channel) -> None:
        """Have the student's side run all cells but the checks. Raises NotebookEndedError, StarvedError."""
        task = {"limits": self.limits.of_process(), "output": self.limits.output, "cell": self.limits.cell}
        undrawn = self.notebook.metadata.get("undrawn", ())
        task["undrawn"] = [i for i, cell in enumerate(self.cells) if cell.get("id") in undrawn]
        task["given"] = [definitions(text) for _, text in self.given]
        task["checks"] = sorted(set(self.before.values()))
        task["names"] = bool(self.measured())
        where, not_run = "before its first cell", set()
        try:
            since = self.pace.now()
            channel.send(task | {"cells": [cell.source for cell in self.cells]})
            if task["names"]:
                more = partial(next, self.waits(since), 0.0)
                not_run = self.not_run(channel.receive(self.rest(self.limits.cell + GRACE), more))
                channel.send({"not_run": sorted(not_run)})
            for number, cell in enumerate(self.cells, 1):
                self.on_step(f"code cell {number} of {len(self.cells)}", self.limits.cell, self.limits.total)
                where, since = f"in code cell {number} (the checks not counted)", self.pace.now()
                more = partial(next, self.waits(since), 0.0)
                reply = channel.receive(self.rest(self.limits.cell + GRACE), more)
                if isinstance(reply, dict) and reply.get("over"):
                    self.own(since, self.limits.cell)
                    self.slow.append(f"code cell {number} met its limit of {self.limits.cell:g} s")
                cell.outputs = self.outputs_of(number - 1, reply, not_run)
            where = "after its last cell"
            channel.receive(self.rest(self.limits.cell + GRACE))
        except ProcessLostError as error:
            raise NotebookEndedError(f"your notebook's process ended {where}: {error}") from error
        except AnswerTimeoutError as error:
            self.own(since, self.limits.cell)
            if time.monotonic() >= self.end:
                self.slow.append(f"the budget of {self.limits.total:g} s was used up {where}")
                raise NotebookEndedError(f"your notebook used up its budget: {self.out_of_time()}") from error
            self.slow.append(f"the notebook met the limit of {self.limits.cell:g} s {where}")
            raise NotebookEndedError(
                f"your notebook took too long {where} and could not be interrupted"
            ) from error

    def judge(self, channel: Channel) -> bool:
        """Have the referee run the checks and keep what it says; True where the student's side had gone.

        First the shown part of every check, then those with hidden parts whole: until then the student's code
        has met no hidden value that it could put into the error of a shown part.
        """
        shown = [[name, without_hidden(cell.source)] for name, cell in self.graded.items()]
        whole = [
            [n, c.source]
            for (n, c), (_, text) in zip(self.graded.items(), shown, strict=True)
            if c.source != text
        ]
        limits = {"seconds": self.limits.check * self.patience, "memory": self.limits.memory}
        cells = {"given": self.given, "provided": self.provided, "shown": shown, "whole": whole}
        channel.send(cells | limits | {"before": self.before})
        to_come = {name for name, _ in whole}
        gone = [self.listen(channel, name, False, name in to_come) for name, _ in shown]
        gone += [self.listen(channel, name, True) for name, _ in whole if not self.checks[name].error]
        return any(gone)

    def listen(self, channel: Channel, name: str, hidden: bool, to_come: bool = False) -> bool:
        """One message of the referee's; no points yet where the check's hidden part is still to come."""
        since = self.pace.now()
        self.on_step(f"check {name}", self.limits.check, self.limits.total)
        reply: CheckReply | BrokenChecks = channel.receive(self.rest(self.limits.total), self.more_time)
        if "broken" in reply:
            raise InfrastructureError(f"the checks cannot be run: {reply['broken']}")
        self.hold_to_limit(reply, since)
        if reply["error"].startswith("TimeLimit"):
            self.slow.append(f"check {name} met its limit of {self.limits.check:g} s")
        check, cell = self.checks[name], self.graded[name]
        check.error, check.hidden = self.outputs.encodable(reply["error"]), hidden and bool(reply["error"])
        check.kind = failures.kind(reply["error"], reply["students"])
        check.score = 0.0 if reply["error"] or to_come else check.max_score
        check.seconds = round(check.seconds + reply["seconds"], 3)
        # What a hidden part prints that has passed may hold hidden values: what the shown part printed stays.
        if check.error or not hidden:
            cell.outputs = self.outputs.of_check(reply["printed"], reply["error"])
        if check.error:
            cell.metadata["failure"] = {"kind": check.kind, "called": bool(reply["called"])}
        if check.hidden:
            cell.metadata["hidden_failure"] = True
        return bool(reply["gone"])

    def hold_to_limit(self, reply: CheckReply, since: Moment) -> None:
        """Have a check that began at a Moment fail if its own time is over.

        Raises CheckHeldUpError, StarvedError.
        """
        limit = self.limits.check
        if time.monotonic() - since.at < limit:
            return
        if reply["error"] and self.pace.starved(since, limit):
            raise CheckHeldUpError("the machine was busy") if self.patience == 1 else starved(limit)
        late = reply["error"].startswith("TimeLimit") or self.pace.used(since) >= limit
        if late and self.patience > 1:
            reply["error"] = f"TimeLimit: the check took longer than {limit:g} s"

    def fail(self, why: str) -> None:
        """All checks that have not passed or failed yet fail, for one reason."""
        for name, check in self.checks.items():
            if not check.score and not check.error:
                check.error, check.kind = why, failures.LIMIT
                self.graded[name].outputs = self.outputs.of_check("", f"NotGraded: {why}")

    def rest(self, seconds: float) -> float:
        return max(0.1, min(seconds, self.end - time.monotonic()))


@lru_cache(16)  # the instructor's texts are those of all submissions: a tenth of the CPU of grading one
def provided(given: tuple[tuple[str, str], ...], checks: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Names of given cells that checks use and that need the student's; cells and checks are (name, text)."""
    used: set[str] = set()
    for name, text in checks:
        with contextlib.suppress(SyntaxError):
            used |= names.used(names.compiled(text, name))
    return tuple(sorted(names.provided(given) & used))


def starved(limit: float) -> StarvedError:
    """The exception that says so."""
    return StarvedError(f"a limit of {limit:g} s was met while others used the processors")


def definitions(text: str) -> str:
    """The imports, functions and classes of a given cell: run again when the student's cells have run, so
    that a check meets the instructor's, whatever a cell has called by the same name."""
    try:
        tree = names.parsed(text)
    except SyntaxError:  # a magic of IPython's
        return ""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    return "\n\n".join(
        ast.get_source_segment(text, node) or "" for node in tree.body if isinstance(node, kinds)
    )
