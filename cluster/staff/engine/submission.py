"""One submission while it is graded: its cells by role, its checks and its outputs."""

from __future__ import annotations

import ast
import base64
import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from .. import failures
from ..hidden import without_hidden
from .inside import names
from .inside.channel import PART, Channel, Message
from .inside.errors import (
    AnswerTimeoutError,
    CheckHeldUpError,
    InfrastructureError,
    NotebookEndedError,
    ProcessLostError,
    StarvedError,
)
from .inside.figures import NOT_DRAWN
from .inside.own_time import STRETCH
from .outputs import Outputs
from .pace import Moment, Pace
from .verdict import Check, Limits

ASKS = "on_ranks"  # occurs in each check or read-only cell that needs ranks
GRACE = 5  # seconds beyond a limit before the process is killed
NOT_RUN = "[not run during grading: this cell only measures, and no check uses its results]\n"
OnStep = Callable[[str, float, float], None]  # (cell or check, its limit in s, the total limit in s)


def ignore_step(what: str, limit: float, budget: float) -> None:
    """Ignore the cell or check that begins."""


class GradedNotebook:
    """One submission's notebook while it is graded; its `checks` become part of the verdict.

    patience: a check may take this many times its limit in wall-clock time, but only its limit in CPU time.
    on_step: called as each cell and check begins.
    """

    seed = 0  # of the hidden tests' inputs (checks/draws.py)

    def __init__(
        self,
        notebook: NotebookNode,
        limits: Limits,
        patience: int = 1,
        on_step: OnStep = ignore_step,
    ):
        self.notebook, self.limits, self.patience, self.on_step = notebook, limits, patience, on_step
        self.paced(os.getpid())  # until the student's sandbox has started
        self.outputs = Outputs(limits.output)
        self.cells: list[NotebookNode] = []  # cells run by the student process
        self.given: list[tuple[str, str]] = []  # (name, text)
        self.graded: dict[str, NotebookNode] = {}
        self.checks: dict[str, Check] = {}
        self.before: dict[str, int] = {}  # {check: number of cells above it}
        self.slow: list[str] = []
        for cell in (c for c in notebook.cells if c.cell_type == "code"):
            cell.outputs, role = [], cell.metadata.get("nbgrader", {})
            name = role.get("grade_id")
            ours = name is not None and role.get("locked") and not role.get("solution")
            if ours and role.get("grade"):
                self.graded[name] = cell
                self.checks[name] = Check(0.0, float(role["points"]))
                self.before[name] = len(self.cells)
                continue
            self.cells.append(cell)
            if ours:
                self.given.append((name, cell.source))
        checks = tuple((name, cell.source) for name, cell in self.graded.items())
        self.provided = list(provided(tuple(self.given), checks))  # in a separate sandbox: see `Trials`

    def text(self) -> str:
        """Return all code of the notebook."""
        return "\n".join(cell.source for cell in (*self.cells, *self.graded.values()))

    def replicas(self) -> list[str]:
        """Return the modules that run the source of the cells again in a sandbox of their own, in the order
        in which the test process expects them."""
        texts = [*(text for _, text in self.given), *(cell.source for cell in self.graded.values())]
        asks = any(ASKS in text for text in texts)
        return ["trials"] * bool(self.provided) + ["rank_sandbox"] * asks

    def kind(self, cell: NotebookNode) -> str:
        """Return the kind of a cell: PROVIDED, BLANK or SCRATCH."""
        role = cell.metadata.get("nbgrader", {})
        if role.get("grade_id") in dict(self.given):
            return names.PROVIDED
        return names.BLANK if role.get("solution") else names.SCRATCH

    def measured(self) -> set[int]:
        """Return the numbers of the cells that only measure, according to the notebook's metadata."""
        ids = self.notebook.metadata.get("measured", ())
        return {i for i, cell in enumerate(self.cells) if cell.get("id") in ids}

    def not_run(self, cells: Any) -> set[int]:
        """Return the numbers of the cells that only measure and define no name that another cell needs.

        cells: [[needed names, defined names]] of all `self.cells`, computed in the student's sandbox before
        any cell ran (`names.of_cells`). For any other value, no cell is skipped.
        """
        chosen = self.measured()
        try:
            pairs = [(set(needs), set(defines)) for needs, defines in cells] if chosen else []
            checks = [names.compiled(cell.source, "check") for cell in self.graded.values()] if chosen else []
        except (SyntaxError, TypeError, ValueError):
            return set()
        if len(pairs) != len(self.cells):
            return set()
        of_checks = {name for code in checks for name in names.missing(code, ())}
        while chosen:
            needed = of_checks.union(*(needs for i, (needs, _) in enumerate(pairs) if i not in chosen))
            if not (run := {i for i in chosen if pairs[i][1] & needed}):
                break
            chosen -= run
        return chosen

    def outputs_of(self, number: int, reply: Any, not_run: set[int]) -> list[NotebookNode]:
        """Return a cell's outputs; for a skipped cell, a notice and as many figures as were submitted."""
        if number not in not_run:
            return self.outputs.take(reply)
        new, figures = nbformat.v4.new_output, self.notebook.metadata.get("undrawn", {})
        notice = new("stream", name="stdout", text=NOT_RUN)
        number = figures.get(self.cells[number].get("id"), 0)
        return [notice, *(new("display_data", {"image/png": NOT_DRAWN}) for _ in range(number))]

    def paced(self, pid: int) -> None:
        """Start the clock of the submission, whose student process runs in the sandbox of process `pid`."""
        self.pace = Pace(pid)
        self.began = self.pace.now()
        self.end = self.began.at + self.limits.total

    def more_time(self) -> float:
        """Return the seconds left of the total limit, extended if other processes delayed the submission."""
        now = time.monotonic()
        if now >= self.end:
            longest = self.began.at + STRETCH * self.limits.total
            if now >= longest or not self.pace.starved(self.began, self.limits.total):
                return 0.0
            self.end = now + GRACE
        return self.end - now

    def out_of_time(self) -> str:
        """Return the message about the reached total limit. Raises StarvedError if others caused it."""
        self.own(self.began, self.limits.total)
        why = f"; before that {', '.join(self.slow)}" if self.slow else ""
        return f"grading took longer than {self.limits.total:g} s, the limit for a submission{why}"

    def own(self, since: Moment, limit: float) -> None:
        """Raise StarvedError if other processes caused this limit to be reached since a Moment."""
        if time.monotonic() - since.at >= limit and self.pace.starved(since, limit):
            raise starved(limit)

    def waits(self, since: Moment) -> Iterator[float]:
        """Each time the limit of a cell (begun at a Moment) is reached, yield how many more seconds to wait.

        In the last interval the cell may end by itself, because it checks its time later than the autograder.
        """
        limit = self.limits.cell
        end = since.at + STRETCH * limit + GRACE
        while time.monotonic() < end and self.more_time() and self.pace.starved(since, limit):
            yield GRACE
        yield self.rest(GRACE)

    def send_files(self, channel: Channel, folder: Path | str | None) -> None:
        """Send the regular files (not links) in a folder, in parts of PART bytes. Raises NotebookEndedError.

        A sandbox receives the bytes of files, never access to a folder.
        """
        room = self.limits.files
        for here, _, files in os.walk(folder) if folder else ():
            for path in (os.path.join(here, name) for name in sorted(files)):
                try:
                    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                except OSError:  # a link, a socket
                    continue
                with open(fd, "rb") as file:
                    if not stat.S_ISREG(os.fstat(fd).st_mode):
                        continue
                    data: bytes | None = None
                    while data is None or len(data) == PART:
                        data = file.read(PART)
                        room -= len(data)
                        if room < 0:
                            most = self.limits.files >> 20
                            raise NotebookEndedError(
                                f"the submitted files have more than {most} MiB in total"
                            )
                        text = base64.b64encode(data).decode()
                        channel.send({"file": os.path.relpath(path, folder), "data": text})

    def run_cells(self, channel: Channel) -> None:
        """Run all cells except the checks in the student process. Raises NotebookEndedError, StarvedError."""
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
                where, since = f"in code cell {number} (not counting checks)", self.pace.now()
                more = partial(next, self.waits(since), 0.0)
                reply = channel.receive(self.rest(self.limits.cell + GRACE), more)
                if isinstance(reply, dict) and reply.get("over"):
                    self.own(since, self.limits.cell)
                    self.slow.append(f"code cell {number} reached its limit of {self.limits.cell:g} s")
                cell.outputs = self.outputs_of(number - 1, reply, not_run)
            where = "after its last cell"
            channel.receive(self.rest(self.limits.cell + GRACE))
        except ProcessLostError as error:
            raise NotebookEndedError(f"your notebook's process ended {where}: {error}") from error
        except AnswerTimeoutError as error:
            self.own(since, self.limits.cell)
            if time.monotonic() >= self.end:
                self.slow.append(f"the limit of {self.limits.total:g} s for a submission was reached {where}")
                raise NotebookEndedError(f"your notebook ran out of time: {self.out_of_time()}") from error
            self.slow.append(f"the notebook reached the limit of {self.limits.cell:g} s {where}")
            raise NotebookEndedError(
                f"your notebook took too long {where} and could not be interrupted"
            ) from error

    def judge(self, channel: Channel) -> bool:
        """Have the test process run the checks, and record its replies.

        The visible tests of all checks run before any hidden tests. Until then, the student's code has seen
        no hidden value that it could put into the error of a visible test.

        Returns whether a process of the submission has ended.
        """
        shown = [[name, without_hidden(cell.source)] for name, cell in self.graded.items()]
        whole = [
            [n, c.source]
            for (n, c), (_, text) in zip(self.graded.items(), shown, strict=True)
            if c.source != text
        ]
        limits = {"seconds": self.limits.check * self.patience, "memory": self.limits.memory}
        cells = {"given": self.given, "provided": self.provided, "shown": shown, "whole": whole}
        channel.send(cells | limits | {"before": self.before, "seed": self.seed})
        to_come = {name for name, _ in whole}
        gone = [self.listen(channel, name, False, name in to_come) for name, _ in shown]
        gone += [self.listen(channel, name, True) for name, _ in whole if not self.checks[name].error]
        return any(gone)

    def listen(self, channel: Channel, name: str, hidden: bool, to_come: bool = False) -> bool:
        """Record a result, without points if hidden tests are `to_come`; return whether a process ended."""
        since = self.pace.now()
        self.on_step(f"check {name}", self.limits.check, self.limits.total)
        reply = channel.receive(self.rest(self.limits.total), self.more_time)
        if "broken" in reply:
            raise InfrastructureError(f"the checks cannot be run: {reply['broken']}")
        self.hold_to_limit(reply, since)
        if reply["error"].startswith("TimeLimit"):
            self.slow.append(f"check {name} reached its limit of {self.limits.check:g} s")
        check, cell = self.checks[name], self.graded[name]
        check.error, check.hidden = self.outputs.encodable(reply["error"]), hidden and bool(reply["error"])
        check.kind = failures.kind(reply["error"], reply["students"])
        check.score = 0.0 if reply["error"] or to_come else check.max_score
        check.seconds = round(check.seconds + reply["seconds"], 3)
        # The output of a passed hidden test may contain hidden values; the visible test's output is kept.
        if check.error or not hidden:
            cell.outputs = self.outputs.of_check(reply["printed"], reply["error"])
        if check.error:
            cell.metadata["failure"] = {"kind": check.kind, "called": bool(reply["called"])}
        if check.hidden:
            cell.metadata["hidden_failure"] = True
        return bool(reply["gone"])

    def hold_to_limit(self, reply: Message, since: Moment) -> None:
        """Fail a check begun at a Moment if it used up its time. Raises CheckHeldUpError, StarvedError."""
        limit = self.limits.check
        if time.monotonic() - since.at < limit:
            return
        if reply["error"] and self.pace.starved(since, limit):
            raise CheckHeldUpError("the machine was busy") if self.patience == 1 else starved(limit)
        late = reply["error"].startswith("TimeLimit") or self.pace.used(since) >= limit
        if late and self.patience > 1:
            reply["error"] = f"TimeLimit: the check took longer than {limit:g} s"

    def fail(self, why: str) -> None:
        """Make all checks that have no result yet fail, for one reason."""
        for name, check in self.checks.items():
            if not check.score and not check.error:
                check.error, check.kind = why, failures.LIMIT
                self.graded[name].outputs = self.outputs.of_check("", f"NotGraded: {why}")

    def rest(self, seconds: float) -> float:
        return max(0.1, min(seconds, self.end - time.monotonic()))


@lru_cache(16)  # shared by all submissions; parsing takes a tenth of the CPU time for grading one
def provided(given: tuple[tuple[str, str], ...], checks: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return the provided names that checks use and that need student code; arguments: (name, text) pairs."""
    used: set[str] = set()
    for name, text in checks:
        with contextlib.suppress(SyntaxError):
            used |= names.used(names.compiled(text, name))
    return tuple(sorted(names.provided(given) & used))


def starved(limit: float) -> StarvedError:
    return StarvedError(f"a limit of {limit:g} s was reached while other processes used the processors")


def definitions(text: str) -> str:
    """Return the imports, functions and classes of a provided cell.

    They run again after the student's cells, which may have bound the same names.
    """
    try:
        tree = names.parsed(text)
    except SyntaxError:  # an IPython magic
        return ""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    return "\n\n".join(
        ast.get_source_segment(text, node) or "" for node in tree.body if isinstance(node, kinds)
    )
