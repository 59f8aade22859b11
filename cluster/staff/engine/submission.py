"""One submission while it is graded: its cells by role, its checks and its outputs."""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from cluster.system.text import encodable_tree

from .. import failures
from ..hidden import in_parts
from .inside import names
from .inside.channel import PART, Channel, Message
from .inside.errors import (
    AnswerTimeoutError,
    ChannelError,
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
    files: Path | str | None = None  # folder of the files beside the notebook

    def __init__(
        self,
        notebook: NotebookNode,
        limits: Limits,
        patience: int = 1,
        on_step: OnStep = ignore_step,
    ):
        self.notebook, self.limits, self.patience, self.on_step = notebook, limits, patience, on_step
        self.budget = limits.total  # seconds for the current run of the notebook
        self.paced(os.getpid())  # until the student's sandbox has started
        self.outputs = Outputs(limits.output)
        self.cells: list[NotebookNode] = []  # cells run by the student process
        self.given: list[tuple[str, str]] = []  # (name, text)
        self.graded: dict[str, NotebookNode] = {}
        self.checks: dict[str, Check] = {}
        self.before: dict[str, int] = {}  # {check: number of cells above it}
        self.slow: list[str] = []
        self.skipped: set[int] = set()  # numbers of the cells to skip
        self.binds: list[list[str]] = []  # names that each cell binds, if checks use names of checks above
        self.passed: dict[str, Message] = {}  # {check: the reply about its visible part, which has passed}
        self.again: set[str] = set()  # checks that the second run judges
        self.replies: dict[str, Message] = {}  # {check: the second run's reply about it}
        self.judges: dict[str, set[str]] = {}  # {value: the checks that share it} (cluster.checks.once)
        self.second = self.gone = self.lost = False  # gone: a sandbox does not answer; lost: the student's
        self.why = ""  # why the first run ended early
        for cell in (c for c in notebook.cells if c.cell_type == "code"):
            cell.outputs, role = [], cell.metadata.get("nbgrader", {})
            name = role.get("grade_id")
            locked = name is not None and role.get("locked") and not role.get("solution")
            if locked and role.get("grade"):
                self.graded[name] = cell
                self.checks[name] = Check(0.0, float(role["points"]))
                self.before[name] = len(self.cells)
                continue
            self.cells.append(cell)
            if locked:
                self.given.append((name, cell.source))
        self.open = set(self.checks)  # checks without a result
        checks = tuple((name, cell.source) for name, cell in self.graded.items())
        self.provided = list(provided(tuple(self.given), checks))  # in a separate sandbox: see `Trials`
        self.ours = ours(tuple(self.given))
        self.imports: dict[str, str] = notebook.metadata.get("imports", {})  # of the release
        self.borrows = borrows(checks)
        self.parts = {name: parts(cell.source) for name, cell in self.graded.items()}

    def text(self) -> str:
        """Return all code of the notebook."""
        return "\n".join(cell.source for cell in (*self.cells, *self.graded.values()))

    def replicas(self) -> list[str]:
        """Return the modules that run the source of the cells again in a sandbox of their own, in the order
        in which the test process expects them."""
        texts = [*(text for _, text in self.given), *(cell.source for cell in self.graded.values())]
        asks = any(ASKS in text for text in texts)
        return ["trials"] * bool(self.provided) + ["rank_sandbox"] * asks

    def is_ours(self, cell: NotebookNode) -> bool:
        return cell.metadata.get("nbgrader", {}).get("grade_id") in dict(self.given)

    def kind(self, cell: NotebookNode) -> str:
        """Return the kind of a cell: PROVIDED, BLANK or SCRATCH."""
        role = cell.metadata.get("nbgrader", {})
        if self.is_ours(cell):
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

    def instead(self, number: int) -> list[NotebookNode]:
        """Return the outputs of a skipped cell: a notice, and as many figures as were submitted."""
        new, figures = nbformat.v4.new_output, self.notebook.metadata.get("undrawn", {})
        notice = new("stream", name="stdout", text=NOT_RUN)
        number = figures.get(self.cells[number].get("id"), 0)
        return [notice, *(new("display_data", {"image/png": NOT_DRAWN}) for _ in range(number))]

    def paced(self, pid: int) -> None:
        """Start the clock of a run, whose student process is in the sandbox of process `pid`."""
        self.pace, self.gone, self.lost = Pace(pid), False, False
        self.began = self.pace.now()
        self.end = self.began.at + self.budget

    def more_time(self) -> float:
        """Return the seconds left of the budget, extended if other processes delayed the submission."""
        now = time.monotonic()
        if now >= self.end:
            longest = self.began.at + STRETCH * self.budget
            if now >= longest or not self.pace.starved(self.began, self.budget):
                return 0.0
            self.end = now + GRACE
        return self.end - now

    def out_of_time(self) -> str:
        """Return the message about the reached total limit. Raises StarvedError if others caused it."""
        self.own(self.began, self.budget)
        why = f"; before that {', '.join(self.slow)}" if self.slow else ""
        return f"grading took longer than {self.limits.total:g} s, the limit for a submission{why}"

    def own(self, since: Moment, limit: float) -> None:
        """Raise StarvedError if other processes caused this limit to be reached since a Moment."""
        if time.monotonic() - since.at >= limit and self.pace.starved(since, limit):
            raise starved(limit)

    def reached(self, limit: str) -> None:
        """Note that a limit was reached; what happens in the second run may depend on hidden values."""
        if not self.second:
            self.slow.append(limit)

    def waits(self, since: Moment) -> Iterator[float]:
        """Each time the limit of a cell (begun at a Moment) is reached, yield how many more seconds to wait.

        In the last interval the cell may end by itself, because it checks its time later than the autograder.
        """
        limit = self.limits.cell
        end = since.at + STRETCH * limit + GRACE
        while time.monotonic() < end and self.more_time() and self.pace.starved(since, limit):
            yield GRACE
        yield self.rest(GRACE)

    def send_files(self, channel: Channel, ours: bool = False) -> None:
        """Send the regular files (not links) beside the notebook, in parts of PART bytes. Raises
        NotebookEndedError.

        A sandbox receives the bytes of files, never access to a folder. ours: only the assignment's files.
        """
        room, folder = self.limits.files, self.files
        only = set(self.notebook.metadata.get("data", ()))
        for here, _, files in os.walk(folder) if folder and (only or not ours) else ():
            for path in (os.path.join(here, name) for name in sorted(files)):
                if ours and os.path.relpath(path, folder) not in only:
                    continue
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

    def run(self, channel: Channel, tests: Callable[[], Channel]) -> None:
        """Run the cells, and judge each check when its position is reached.

        The first run judges the visible parts of all checks, and then their hidden parts. Until then, no
        code of the student's has received a hidden value, so no output and no error contains one. A hidden
        part that fails may have met a state that cells below its check have left. The second run, in new
        sandboxes, therefore judges such checks at their positions. Only points leave it, and of checks that
        judge the same value, those of one run.

        channel: to the student process. tests: returns the channel to the test process. Raises
        NotebookEndedError, InfrastructureError, CheckHeldUpError.
        """
        self.begin(channel)
        wanted, judge, last = list(self.checks), self.judge_visible, len(self.cells)
        if self.second:
            wanted, judge = [name for name in wanted if name in self.again], self.judge_again
            last = max(self.before[name] for name in wanted)
        for number in range(last + 1):
            if number:
                self.run_cell(channel, number)
            for name in [name for name in wanted if self.before[name] == number]:
                judge(tests(), name)
        for name in () if self.second else self.passed:
            self.judge_hidden(tests(), name)

    def begin(self, channel: Channel) -> None:
        """Send the limits to the student process, and decide which cells are not run."""
        channel.send({"limits": self.limits.of_process(), "output": self.limits.output})
        if (self.measured() or self.borrows) and not self.second:
            cells = [cell.source for cell in self.cells]
            needs = {"do": "needs", "cells": cells}
            reply = self.answer(channel, needs, "before its first cell", self.pace.now())
            self.skipped = self.not_run(reply.get("pairs"))
            self.binds = [binds for _, binds in reply.get("pairs") or ()]

    def above(self, name: str, whole: bool) -> list[tuple[str, list[str]]]:
        """Return [(source, names that the cells below it bind)] of the checks above one, as in
        `names.borrowed`. whole: with the hidden parts."""
        if not self.borrows:
            return []
        order, found = list(self.checks), []
        for check, next_one in itertools.pairwise(order[: order.index(name) + 1]):
            cells = self.binds[self.before[check] : self.before[next_one]]
            text = self.graded[check].source if whole else self.parts[check][0]
            found.append((text, [each for binds in cells for each in binds]))
        return found

    def run_cell(self, channel: Channel, number: int) -> None:
        """Run a cell, counted from 1, and record its outputs. Raises NotebookEndedError, StarvedError."""
        cell, limit, which = self.cells[number - 1], self.limits.cell, f"code cell {number}"
        self.on_step(f"{which} of {len(self.cells)}", limit, self.limits.total)
        if self.lost:
            raise NotebookEndedError(f"your notebook's process ended in a check above {which}")
        if number - 1 in self.skipped:
            cell.outputs = self.instead(number - 1)
            return
        request = {
            "do": "cell",
            "text": cell.source,
            "undrawn": cell.get("id") in self.notebook.metadata.get("undrawn", ()),
            "binds": sorted(names.bound_by(cell.source) & self.ours) if self.is_ours(cell) else [],
        }
        since = self.pace.now()
        reply = self.answer(channel, request, f"in {which} (not counting checks)", since)
        if reply.get("over"):
            self.own(since, limit)
            self.reached(f"{which} reached its limit of {limit:g} s")
        if not self.second:
            cell.outputs = self.outputs.take(reply)

    def answer(self, channel: Channel, request: Message, where: str, since: Moment) -> Message:
        """Return the student process's reply to a request that the limit of a cell holds for."""
        limit, total = self.limits.cell, self.limits.total
        more = partial(next, self.waits(since), 0.0)
        try:
            channel.send(request | {"seconds": limit})
            reply = channel.receive(self.rest(limit + GRACE), more)
        except ProcessLostError as error:
            raise NotebookEndedError(f"your notebook's process ended {where}: {error}") from error
        except AnswerTimeoutError as error:
            self.own(since, limit)
            if time.monotonic() >= self.end:
                self.reached(f"the limit of {total:g} s for a submission was reached {where}")
                raise NotebookEndedError(f"your notebook ran out of time: {self.out_of_time()}") from error
            self.reached(f"the notebook reached the limit of {limit:g} s {where}")
            raise NotebookEndedError(
                f"your notebook took too long {where} and could not be interrupted"
            ) from error
        return reply if isinstance(reply, dict) else {}

    def judge_visible(self, tests: Channel, name: str) -> None:
        """Judge the visible part of a check; without a hidden part, it decides."""
        text, hidden, goes_on = self.parts[name]
        reply = self.listen(tests, name, text, goes_on=goes_on)
        if reply["error"].startswith("TimeLimit"):
            self.reached(f"check {name} reached its limit of {self.limits.check:g} s")
        if reply["error"]:
            reply["error"] = self.outputs.encodable(reply["error"])
            self.has_failed(name, reply)
            return
        self.graded[name].outputs = self.outputs.of_check(reply["printed"], "")
        self.passed[name] = reply
        if not hidden and not reply["about"]:
            self.has_passed(name)

    def judge_hidden(self, tests: Channel, name: str) -> None:
        """Judge the hidden part of a check, and mark the check for the second run if that may decide it."""
        if name not in self.open:  # it has no hidden part
            return
        _, text, continues = self.parts[name]
        about = set(self.passed[name]["about"])
        if about & self.failed():  # its visible part did not know this
            text, continues = self.graded[name].source, False
        if not text:
            return self.has_passed(name)
        lost = self.lost
        reply = self.listen(tests, name, text, continues=continues)
        if not reply["error"]:
            return self.has_passed(name)
        self.has_failed(name, reply)
        ended = reply["error"].startswith("TimeLimit") or self.lost > lost
        asked = reply["asked"] or reply["judged"]
        if not ended and (asked or not {*about, *reply["about"]}.isdisjoint(self.again)):
            self.again.add(name)

    def judge_again(self, tests: Channel, name: str) -> None:
        """Judge a whole check at its position, in the second run."""
        self.replies[name] = self.listen(tests, name, self.graded[name].source)

    def has_passed(self, name: str) -> None:
        check, cell = self.checks[name], self.graded[name]
        self.open.discard(name)
        check.score, check.error, check.kind, check.hidden = check.max_score, "", "", False
        cell.outputs = self.outputs.of_check(self.passed[name]["printed"], "")
        for key in ("failure", "hidden_failure"):
            cell.metadata.pop(key, None)

    def has_failed(self, name: str, reply: Message) -> None:
        """Record the error of a part of a check; a hidden one's text marks nothing that a student sees."""
        check, cell, before = self.checks[name], self.graded[name], self.passed.get(name)
        self.open.discard(name)
        check.hidden, check.error = before is not None, encodable_tree(reply["error"])
        check.kind = failures.kind(reply["error"], reply["students"])
        printed = (before["printed"] if before else "") + reply["printed"]
        cell.outputs = self.outputs.of_check(encodable_tree(printed), check.error)
        called = reply["called"] or (before is not None and before["called"])
        cell.metadata["failure"] = {"kind": check.kind, "called": bool(called)}
        if check.hidden:
            cell.metadata["hidden_failure"] = True

    def failed(self) -> set[str]:
        """Return the checks that have failed; in the second run, without those that it has yet to judge."""
        errors = {name: check.error for name, check in self.checks.items()}
        if self.second:
            errors |= dict.fromkeys(self.again, "")
        errors |= {name: reply["error"] for name, reply in self.replies.items()}
        return {name for name, error in errors.items() if error}

    def listen(self, tests: Channel, name: str, text: str, **place: bool) -> Message:
        """Have the test process run a part of a check, and return its reply.

        place: `continues` an earlier part with its names; it `goes_on` in a later part.
        """
        since = self.pace.now()
        self.on_step(f"check {name}", self.limits.check, self.limits.total)
        above = self.above(name, text != self.parts[name][0])
        part = {"check": name, "text": text, "above": above, "continues": False, "goes_on": False} | place
        try:
            tests.send(part | {"failed": sorted(self.failed())})
            reply = tests.receive(self.rest(self.budget), self.more_time)
        except ChannelError as error:
            if time.monotonic() < self.end:
                raise InfrastructureError(f"the test process ended unexpectedly: {error}") from error
            raise NotebookEndedError(self.out_of_time()) from error
        if "broken" in reply:
            raise InfrastructureError(f"the checks cannot be run: {reply['broken']}")
        self.gone, self.lost = self.gone or reply["gone"], self.lost or reply["lost"]
        self.hold_to_limit(reply, since)
        for value in reply["judged"]:
            self.judges.setdefault(value, set()).add(name)
        self.checks[name].seconds = round(self.checks[name].seconds + reply["seconds"], 3)
        return reply

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

    def begin_again(self) -> bool:
        """Return whether there is a second run, which has the rest of the time.

        It judges checks whose hidden part was not reached, too, because the process ended before. Which
        values these share with others is not known, so all that share one are judged again.
        """
        missed = self.open & self.passed.keys()
        shared = set().union(*self.judges.values()) if missed else set()
        self.again |= missed.union(shared, *map(self.sharing, self.again)) & self.passed.keys()
        self.second, self.budget = True, self.end - time.monotonic()
        return bool(self.again) and self.budget > 1

    def sharing(self, name: str) -> set[str]:
        """Return the check and all that judge a value with it, directly or by way of another one."""
        group, more = set[str](), {name}
        while more:
            group |= more
            more = {check for checks in self.judges.values() if checks & group for check in checks} - group
        return group

    def choose(self) -> None:
        """Of checks that judge the same value, take the second run's results if they give more points."""
        for group in {frozenset(self.sharing(name) & self.passed.keys()) for name in self.replies}:
            right = [name for name in group if name in self.replies and not self.replies[name]["error"]]
            gain = sum(self.checks[name].max_score for name in right)
            gain -= sum(self.checks[name].score for name in group)
            if group <= self.replies.keys() and (gain > 0 or (gain == 0 and group & self.open)):
                for name in group:
                    if name in right:
                        self.has_passed(name)
                    else:
                        self.has_failed(name, self.replies[name])

    def finish(self) -> None:
        """Decide by both runs; checks that have no result fail, for the reason why the first run ended."""
        self.choose()
        for name in self.open:
            self.checks[name].error, self.checks[name].kind = self.why, failures.LIMIT
            self.graded[name].outputs = self.outputs.of_check("", f"NotGraded: {self.why}")

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


borrows = lru_cache(16)(names.borrows)
parts = lru_cache(256)(in_parts)  # of a check, which all submissions have


@lru_cache(16)
def ours(given: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Return the names that provided cells marked IN_NOTEBOOK bind and need, of all provided (name, text)."""
    marked = set().union(*(names.bound_by(text) for _, text in given if names.IN_NOTEBOOK in text))
    chosen = names.needed_by(marked, [(text, names.PROVIDED) for _, text in given])
    return frozenset().union(*(names.defined(code) for _, code in chosen))


def starved(limit: float) -> StarvedError:
    return StarvedError(f"a limit of {limit:g} s was reached while other processes used the processors")
