"""The engine: a sandbox for the student's cells, a second one for the checks, and a verdict."""

from __future__ import annotations

import copy
import os
import stat
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from cluster.grading.engine.channel import Channel, Late, Lost
from cluster.grading.engine.outputs import Outputs, hidden_lines
from cluster.grading.engine.sandbox import Sandbox, stop
from cluster.grading.engine.verdict import Check, Limits, Verdict

STARTING = 120  # seconds for a sandbox to say that it runs: more is a machine in trouble
GRACE = 5  # seconds beyond a limit before the process is ended
ENGINE = "cluster.grading.engine"


class Again(Exception):
    """The infrastructure failed: nothing is known of the student's work."""


class Ended(Exception):
    """The student's process ended, or did not react: there is nothing to ask the checks about."""


class Engine:
    """Grades up to `workers` submissions at the same time, each `grade` in a thread of the caller's.

    Raises CourseError, which names the remedy, where no sandbox can be made.
    """

    def __init__(self, workers=2, limits=None):
        self.limits = limits or Limits()
        self.sandbox = None
        self.free = threading.BoundedSemaphore(workers)

    def __enter__(self):
        self.sandbox = Sandbox(self.limits)
        return self

    def __exit__(self, *_):
        self.sandbox.close()

    def grade(self, notebook, files=None, source=None):
        """The Verdict on a prepared notebook (NotebookNode) and the folder `files` that came with it.

        source: {grade_id: text} of the instructor's cells; without it the notebook's locked cells are the
        instructor's, which is what preparing a submission makes sure of.
        """
        with self.free:
            start = time.monotonic()
            work = Work(copy.deepcopy(notebook), source, self.limits, start + self.limits.total)
            try:
                self._grade(work, files)
                verdict = Verdict("graded", "", work.checks, work.notebook, output_cut=work.outputs.cut)
            except (Again, OSError) as error:
                verdict = Verdict("again", str(error))
            verdict.seconds = time.monotonic() - start
            return verdict

    def _grade(self, work, files):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.sandbox.place)))
            if files and not copy_regular(files, folder, self.limits.files):
                return work.fail(f"the files handed in have more than {self.limits.files >> 20} MiB")
            student = self.sandbox.start(f"{ENGINE}.student", files=folder)
            stack.callback(stop, student)
            try:
                channel = hello(student, 2 * self.limits.output + 2**20)
                work.run_cells(channel)
            except Ended as error:
                if killed(student):
                    raise Again("the sandbox was killed from outside") from error
                return work.fail(str(error))
            gone = self._judge(work, student, stack)
            if gone and killed(student):
                raise Again("the sandbox was killed from outside")

    def _judge(self, work, student, stack):
        """Let a referee run the checks; True where the student's process had gone meanwhile."""
        fds = (student.stdout.fileno(), student.stdin.fileno())
        referee = self.sandbox.start(f"{ENGINE}.referee", *fds, fds=fds)
        stack.callback(stop, referee)
        channel = hello(referee)
        try:
            return work.judge(channel)
        except (Lost, Late) as error:
            if time.monotonic() < work.end:
                raise Again(f"the checks' process ended: {error}") from error
            work.fail(f"grading took longer than {self.limits.total:g} s")


def hello(process, largest=2**26):
    """The channel to a process that has started."""
    channel = Channel(process.stdout.fileno(), process.stdin.fileno(), largest)
    try:
        channel.receive(STARTING)
    except (Lost, Late) as error:
        process.kill()
        said = process.stderr.read(2000).decode(errors="replace").strip()
        raise Again(f"the sandbox did not start: {said or error}") from error
    return channel


def killed(process):
    """Was this sandbox ended by a signal from outside? From inside its outer process cannot be reached."""
    end = time.monotonic() + 1
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    return process.returncode is not None and process.returncode < 0


def copy_regular(folder, target, largest):
    """Copy regular files only, without following a link; False where they are larger than allowed."""
    for here, _, names in os.walk(folder):
        place = target / os.path.relpath(here, folder)
        place.mkdir(exist_ok=True)
        for name in names:
            try:
                fd = os.open(os.path.join(here, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:  # a link, a socket
                continue
            with open(fd, "rb") as file:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    continue
                data = file.read(largest + 1)
            largest -= len(data)
            if largest < 0:
                return False
            (place / name).write_bytes(data)
    return True


class Work:
    """One submission on its way: its cells by role, its checks, its outputs."""

    def __init__(self, notebook, source, limits, end):
        self.notebook, self.limits, self.end = notebook, limits, end
        self.outputs = Outputs(limits.output)
        self.cells, self.given, self.graded, self.checks = [], [], {}, {}
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
                continue
            self.cells.append(cell)
            if ours:
                self.given.append((name, cell.source))

    def run_cells(self, channel):
        """Have the student's side run all cells but the checks. Raises Ended."""
        limits = {"memory": self.limits.memory, "processes": self.limits.processes}
        task = {"limits": limits, "output": self.limits.output, "cell": self.limits.cell}
        place = "before its first cell"
        try:
            channel.send(task | {"cells": [cell.source for cell in self.cells]})
            for number, cell in enumerate(self.cells, 1):
                place = f"in code cell {number} (the checks not counted)"
                said = channel.receive(self.rest(self.limits.cell + GRACE))
                cell.outputs = self.outputs.take(said)
            place = "after its last cell"
            channel.receive(self.rest(GRACE))
        except Lost as error:
            raise Ended(f"your notebook's process ended {place}: {error}") from error
        except Late as error:
            raise Ended(f"your notebook took too long {place} and could not be interrupted") from error

    def judge(self, channel):
        """Have the referee run the checks and keep what it says; True where the student's side had gone."""
        checks = [(name, cell.source) for name, cell in self.graded.items()]
        limits = {"seconds": self.limits.check, "memory": self.limits.memory}
        channel.send({"given": self.given, "checks": checks} | limits)
        gone = False
        for name, _ in checks:
            said = channel.receive(self.rest(self.limits.total))
            if "broken" in said:
                raise Again(f"a given cell fails where the checks run: {said['broken']}")
            check, cell = self.checks[name], self.graded[name]
            check.score = 0.0 if said["error"] else check.max_score
            check.error, check.seconds = said["error"], round(said["seconds"], 3)
            check.hidden = bool(said["error"]) and said["line"] in hidden_lines(cell.source)
            cell.outputs = self.outputs.of_check(said["printed"], said["error"])
            gone = gone or bool(said["gone"])
        return gone

    def fail(self, why):
        """All checks that have not been judged fail, for one reason."""
        for name, check in self.checks.items():
            if not check.score and not check.error:
                check.error = why
                self.graded[name].outputs = self.outputs.of_check("", f"NotGraded: {why}")

    def rest(self, seconds):
        return max(0.1, min(seconds, self.end - time.monotonic()))
