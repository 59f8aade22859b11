"""The sandboxed autograder: one sandbox for the student's cells, another for the checks, and a verdict."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from .inputs import files_of
from .inside.channel import Channel
from .inside.errors import (
    ChannelError,
    CheckHeldUpError,
    EngineError,
    FilesTooLargeError,
    InfrastructureError,
    NotebookEndedError,
    ProcessLostError,
    StarvedError,
)
from .inside.messages import NotebookTask
from .inside.own_time import STRETCH
from .sandbox.bubblewrap import Child, Sandbox
from .sandbox.fork_client import STARTING, Forked, Servers
from .submission import GradedNotebook, OnStep, ignore_step
from .verdict import Limits, Verdict

INSIDE = "cluster.staff.engine.inside"
ASKS = "on_ranks"  # occurs in each check or read-only cell that needs ranks


class Engine:
    """Grade up to `workers` submissions at the same time; each call of `grade` runs in the caller's thread.

    warm: fork sandboxes from a process that has imported the libraries, if this machine allows nested
    namespaces. If it does not, `engine.cold` gives the reason after the first submission.

    Raises CourseError, which states what to do, if no sandbox can be created.
    """

    def __init__(self, workers: int = 2, limits: Limits | None = None, warm: bool = True):
        self.limits, self.warm = limits or Limits(), warm
        self.cold, self.trying = None if warm else "not requested", threading.Lock()
        self.sandbox: Sandbox
        self.servers: Servers | None = None
        self.free = threading.BoundedSemaphore(workers)

    def __enter__(self) -> Engine:
        self.sandbox = Sandbox(self.limits)
        if self.warm:
            self.servers = Servers(self.sandbox)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.servers:
            self.servers.close()
        self.sandbox.close()

    def grade(
        self,
        notebook: NotebookNode,
        files: Path | str | None = None,
        source: dict[str, str] | None = None,
        on_step: OnStep = ignore_step,
    ) -> Verdict:
        """Return the Verdict on a prepared notebook and the folder `files` that was submitted with it.

        source: {grade_id: source text} of the instructor's cells. By default, the notebook's locked cells are
        used, which preparing a submission replaces by the instructor's.
        on_step: called at the beginning of each cell and check.
        """
        with self.free:
            start = time.monotonic()
            verdict = self._verdict(notebook, files, source, on_step)
            verdict.seconds = time.monotonic() - start
            return verdict

    def _verdict(
        self,
        notebook: NotebookNode,
        files: Path | str | None,
        source: dict[str, str] | None,
        on_step: OnStep,
        patience: int = 1,
    ) -> Verdict:
        """Grade with checks that may take `patience` times their limit in wall-clock time."""
        work = GradedNotebook(copy.deepcopy(notebook), source, self.limits, patience, on_step)
        try:
            self._grade(work, files)
        except CheckHeldUpError:
            return self._verdict(notebook, files, source, on_step, STRETCH)
        except (InfrastructureError, OSError) as error:
            why = error.what if isinstance(error, EngineError) else str(error)
            return Verdict("again", why, alone=isinstance(error, StarvedError))
        return Verdict(
            "graded", "", work.checks, work.notebook,
            output_cut=work.outputs.cut, output_replaced=work.outputs.replaced, slow=work.slow,
        )  # fmt: skip

    def _grade(self, work: GradedNotebook, files: Path | str | None) -> None:
        with ExitStack() as stack:
            student = self._start(stack, "student", work)
            channel = hello(student, 2 * self.limits.output + 2**20)
            work.paced(student.pid)
            try:
                for part in files_of(files, self.limits.files):
                    channel.send(part)
                work.run_cells(channel)
            except FilesTooLargeError as error:
                return work.fail(error.what)
            except (NotebookEndedError, ProcessLostError) as error:
                if student.killed():
                    raise InfrastructureError("the sandbox was killed from outside") from error
                return work.fail(error.what)
            others = [*self._trials(work, stack), *self._ranks(work, stack)]
            gone = self._judge(work, [student, *others], stack)
            if gone and any(child.killed() for child in (student, *others)):
                raise InfrastructureError("the sandbox was killed from outside")

    def _ranks(self, work: GradedNotebook, stack: ExitStack) -> list[Child | Forked]:
        """Return [a sandbox for ranks, with the notebook's cells] if a check needs ranks, otherwise []."""
        given, checks = dict(work.given), (cell.source for cell in work.graded.values())
        if not any(ASKS in text for text in (*given.values(), *checks)):
            return []
        return [self._of_text(stack, "ranks", work)]

    def _trials(self, work: GradedNotebook, stack: ExitStack) -> list[Child | Forked]:
        """Return [a sandbox for provided functions that use student code], or [] if no check needs one."""
        return [self._of_text(stack, "trials", work)] if work.provided else []

    def _of_text(self, stack: ExitStack, module: str, work: GradedNotebook) -> Child | Forked:
        """Start a sandbox that gets the source of the cells, but no results of the student process."""
        child = self._start(stack, module, work)
        work.pace.pids.append(child.pid)
        last = max(work.before.values(), default=0)  # cells below all checks do not affect them
        cells = [(cell.source, work.kind(cell)) for cell in work.cells[:last]]
        limits, cell = self.limits.of_process(), self.limits.cell
        hello(child).send(NotebookTask(cells=cells, provided=work.provided, limits=limits, cell=cell))
        return child

    def _judge(self, work: GradedNotebook, sandboxes: list[Child | Forked], stack: ExitStack) -> bool:
        """Run the checks in a test process, and return whether one of the other sandboxes has ended."""
        fds = [stream.fileno() for child in sandboxes for stream in (child.stdout, child.stdin)]
        test_process = self._start(stack, "test_process", work, fds)
        channel = hello(test_process)
        try:
            return work.judge(channel)
        except ChannelError as error:
            if time.monotonic() < work.end:
                raise InfrastructureError(f"the test process ended unexpectedly: {error}") from error
            work.fail(work.out_of_time())
            return False

    def _start(
        self, stack: ExitStack, module: str, work: GradedNotebook, fds: Sequence[int] = ()
    ) -> Child | Forked:
        """Start a sandbox that runs a module of the autograder and ends with the exit stack."""
        text, name = work.text(), f"{INSIDE}.{module}"
        child: Child | Forked
        try:
            with self.trying:
                if self.servers and self.cold is None:  # the trial starts the server needed below
                    self.cold = self.servers.trial(text)
            if self.servers and not self.cold:
                child = self.servers.server_for(text).start(name, fds)
            else:
                child = self.sandbox.start(name, fds, first=module == "ranks")
        except ChannelError as error:
            raise InfrastructureError(str(error)) from error
        stack.callback(child.stop)
        return child


def hello(child: Child | Forked, largest: int = 2**26) -> Channel:
    """Wait until a process has started, and return the channel to it."""
    channel = Channel(child.stdout.fileno(), child.stdin.fileno(), largest)
    try:
        channel.receive(STARTING)
    except ChannelError as error:
        child.stop_now()
        reason = child.stderr.read(2000).decode(errors="replace").strip()
        raise InfrastructureError(f"the sandbox did not start: {reason or error}") from error
    return channel
