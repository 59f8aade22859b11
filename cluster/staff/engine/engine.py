"""The sandboxed autograder: one sandbox for the student's cells, another for the checks, and a verdict."""

from __future__ import annotations

import copy
import resource
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from .inside.channel import Channel
from .inside.errors import (
    ChannelError,
    CheckHeldUpError,
    InfrastructureError,
    NotebookEndedError,
    ProcessLostError,
    StarvedError,
)
from .inside.own_time import STRETCH
from .sandbox.bubblewrap import Sandbox, Started
from .sandbox.fork_client import STARTING, Servers
from .submission import GradedNotebook, OnStep, ignore_step
from .verdict import Limits, Verdict

DESCRIPTORS = 2**16  # open files of the autograder; a sandbox may have 1,024 in transit between processes


class Engine:
    """Grade up to `workers` submissions at the same time; each call of `grade` runs in the caller's thread.

    package: the files of this package that a sandbox contains.
    warm: fork sandboxes from a process that has imported the libraries, if this machine allows nested
    namespaces. If it does not, `engine.cold` gives the reason after the first submission.

    Raises CourseError, which states what to do, if no sandbox can be created.
    """

    def __init__(
        self, package: Iterable[Path], workers: int = 2, limits: Limits | None = None, warm: bool = True
    ):
        self.package, self.limits = package, limits or Limits()
        self.cold, self.trying = None if warm else "not requested", threading.Lock()
        self.free = threading.BoundedSemaphore(workers)

    def __enter__(self) -> Engine:
        raise_limits()
        self.sandbox = Sandbox(self.package, self.limits)
        self.servers = Servers(self.sandbox)
        return self

    def __exit__(self, *_: Any) -> None:
        self.servers.close()
        self.sandbox.close()

    def grade(
        self,
        notebook: NotebookNode,
        files: Path | str | None = None,
        on_step: OnStep = ignore_step,
        seed: int = 0,
    ) -> Verdict:
        """Return the Verdict on a prepared notebook and the folder `files` that was submitted with it.

        Its locked cells decide, which preparing a submission replaces by the instructor's.
        on_step: called at the beginning of each cell and check. seed: of the hidden tests' inputs.
        """
        with self.free:
            start = time.monotonic()
            try:
                verdict = self._verdict(notebook, files, on_step, seed)
            except CheckHeldUpError:
                verdict = self._verdict(notebook, files, on_step, seed, STRETCH)
            verdict.seconds = round(time.monotonic() - start, 3)
            return verdict

    def _verdict(
        self, notebook: NotebookNode, files: Path | str | None, on_step: OnStep, seed: int, patience: int = 1
    ) -> Verdict:
        """Grade with checks that may take `patience` times their limit in wall-clock time."""
        work = GradedNotebook(copy.deepcopy(notebook), self.limits, patience, on_step)
        work.seed = seed
        try:
            self._grade(work, files)
        except (InfrastructureError, OSError) as error:
            return Verdict("again", str(error), alone=isinstance(error, StarvedError))
        return Verdict(
            "graded", "", work.checks, work.notebook,
            output_cut=work.outputs.cut, output_replaced=work.outputs.replaced, seed=seed, slow=work.slow,
        )  # fmt: skip

    def _grade(self, work: GradedNotebook, files: Path | str | None) -> None:
        work.files = files
        self._run(work)
        if work.begin_again():
            self._run(work)
        work.finish()

    def _run(self, work: GradedNotebook) -> None:
        """Run the notebook and its checks once, in new sandboxes."""
        with ExitStack() as stack:
            student = self._start(stack, "student", work)
            channel = hello(student, 2 * self.limits.output + 2**20)
            work.paced(student.pid)
            sandboxes, ended = [student], None
            tests = cache(lambda: self._tests(stack, work, sandboxes))
            try:
                work.send_files(channel)
                work.run(channel, tests)
            except (NotebookEndedError, ProcessLostError) as error:
                ended, work.why = error, work.why or str(error)
            if (ended or work.gone) and any(child.killed() for child in sandboxes):
                raise InfrastructureError("the sandbox was killed from outside") from ended

    def _of_source(self, stack: ExitStack, module: str, work: GradedNotebook) -> Started:
        """Start a sandbox that gets the source of the cells, but no results of the student process."""
        child = self._start(stack, module, work)
        work.pace.pids.append(child.pid)
        last = max(work.before.values(), default=0)  # cells below all checks do not affect them
        cells = [(cell.source, work.kind(cell)) for cell in work.cells[:last]]
        task = {"cells": cells, "provided": work.provided}
        channel = hello(child)
        if module == "trials":  # a rank gets its data as arguments
            work.send_files(channel, ours=True)
        channel.send(task | {"limits": self.limits.of_process(), "cell": self.limits.cell})
        return child

    def _tests(self, stack: ExitStack, work: GradedNotebook, sandboxes: list[Started]) -> Channel:
        """Start the test process and the sandboxes that it needs, and return the channel to it."""
        limits = {"seconds": self.limits.check * work.patience, "memory": self.limits.memory}
        try:
            sandboxes += [self._of_source(stack, module, work) for module in work.replicas()]
            fds = [stream.fileno() for child in sandboxes for stream in (child.stdout, child.stdin)]
            test = self._start(stack, "test_process", work, fds)
            work.pace.pids.append(test.pid)  # student code can call its functions
            channel = hello(test)
            work.send_files(channel, ours=True)
            task = {"given": work.given, "provided": work.provided, "imports": work.imports}
            channel.send(task | {"seed": work.seed} | limits)
        except ProcessLostError as error:
            raise InfrastructureError(f"a process of the checks ended unexpectedly: {error}") from error
        return channel

    def _start(self, stack: ExitStack, module: str, work: GradedNotebook, fds: Sequence[int] = ()) -> Started:
        """Start a sandbox that runs a module of the autograder and ends with the exit stack."""
        text = work.text()
        child: Started
        try:
            with self.trying:
                if self.cold is None:  # the trial starts the server needed below
                    self.cold = self.servers.trial(text)
            if self.cold:
                child = self.sandbox.start(module, fds, first=module == "rank_sandbox")
            else:
                child = self.servers.server_for(text).start(module, fds)
        except ChannelError as error:
            raise InfrastructureError(str(error)) from error
        stack.callback(child.stop)
        return child


def raise_limits() -> None:
    """Let this process have many sandboxes. Each has its own limits, but Linux counts some per user."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, DESCRIPTORS)), hard))


def hello(child: Started, largest: int = 2**26) -> Channel:
    """Wait until a process has started, and return the channel to it."""
    channel = Channel(child.stdout.fileno(), child.stdin.fileno(), largest)
    try:
        channel.receive(STARTING)
    except ChannelError as error:
        child.stop_now()
        reason = child.stderr.read(2000).decode(errors="replace").strip()
        raise InfrastructureError(f"the sandbox did not start: {reason or error}") from error
    return channel
