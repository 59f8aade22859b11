"""Validate, Check, Submit and grading agree about a notebook in each of its possible states.

Each state is a change to the solution of assignment 01, whose checks are worth 18 points. Validate passes a
check if grading passes its visible tests. Check gives the same points as grading. Submit refuses a notebook
that cannot be graded.
"""

import copy
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from cluster.pages import course_map, hand_in, official_check
from cluster.staff.course import Course, SubmissionError
from cluster.staff.official_check.attempt_limits import Limits as Attempts
from cluster.staff.official_check.attempt_limits import Records
from cluster.staff.official_check.checker import Checker
from cluster.staff.release.release import release
from cluster.staff.release.wrong_solutions import fill
from cluster.staff.submissions import prepare

from .. import ALL, ROOT
from .sandboxes import Engine, need

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]
ASSIGNMENT, NOTEBOOK = "01_convolution_as_gemm", "convolution_as_gemm.ipynb"
LARGEST = 50_000_000  # the hub's limits for a file and a submission, in bytes
STATES = {}  # {name: (points, function of a Work)}
WITNESSES = [
    "one answer wrong in hidden tests only",
    "additional last cell: `forward = time.time() - t0`",
    "additional last cell changes what the answers use: `np.pad = np.concatenate = None`",
    "no cell has nbgrader's metadata",
    "notebook renamed",
    "check of a wrong answer deleted",
    "not JSON",
]


class Work:
    """A student's folder that a state changes. `write` saves its notebook at the end."""

    def __init__(self, released, folder):
        solution = nbformat.read(ROOT / "solutions" / ASSIGNMENT / NOTEBOOK, as_version=4)
        self.released = nbformat.read(released, as_version=4)
        self.notebook = fill(copy.deepcopy(self.released), solution)
        self.folder, self.name, self.text = folder, NOTEBOOK, None

    @property
    def cells(self):
        return self.notebook.cells

    def at(self, name):
        """Return the position of a named cell."""
        return next(i for i, c in enumerate(self.cells) if role(c).get("grade_id") == name)

    def cell(self, name):
        return self.cells[self.at(name)]

    def write(self):
        (self.folder / self.name).write_text(
            nbformat.writes(self.notebook) if self.text is None else self.text
        )


def role(cell):
    return cell.metadata.get("nbgrader", {})


def state(name, points):
    """Add a state. points: what grading gives for the notebook's checks, or None if it cannot be graded."""

    def add(change):
        STATES[name] = (points, change)
        return change

    return add


@state("solution", 18)
def _(work):
    pass


@state("unsolved", 0)
def _(work):
    work.notebook = work.released


@state("one answer wrong", 17)
def _(work):
    cell = work.cell("layer_bytes")
    cell.source += (
        "\n\nright = layer_bytes\n\ndef layer_bytes(*sizes, **more):\n    return right(*sizes, **more) + 1"
    )


@state("one answer wrong in hidden tests only", 17)
def _(work):
    work.cell("layer_bytes").source += (
        "\n\nright = layer_bytes\n\ndef layer_bytes(N, *sizes, **more):\n"
        "    return right(N, *sizes, **more) + (N == 7_777 or more.get('groups', 1) > 1)"
    )


@state("additional last cell: `forward = time.time() - t0`", 18)
def _(work):
    text = "import time\nt0 = time.time()\nforward = time.time() - t0"
    work.cells.append(new_code_cell(text))


@state("additional last cell binds a name that an answer uses: `np = None`", 18)
def _(work):
    work.cells.append(new_code_cell("np = None"))


@state("additional last cell changes what the answers use: `np.pad = np.concatenate = None`", 18)
def _(work):
    work.cells.append(new_code_cell("np.pad = np.concatenate = None"))


@state("additional cell between answer and check binds `layer_flops`", 16)
def _(work):
    work.cells.insert(work.at("flops-by-hand"), new_code_cell("layer_flops = 3.0"))


@state("answer moved below its checks", 16)
def _(work):
    cell = work.cells.pop(work.at("layer_flops"))
    work.cells.append(cell)


@state("additional cell raises an error", 18)
def _(work):
    work.cells.insert(work.at("forward"), new_code_cell("1 / 0"))


@state("no cell has nbgrader's metadata", 18)
def _(work):
    for cell in work.cells:
        cell.metadata.pop("nbgrader", None)


@state("one answer has no metadata", 18)
def _(work):
    work.cell("forward").metadata.pop("nbgrader")


@state("all names in the metadata are unknown", 18)
def _(work):
    for cell in work.cells:
        if role(cell):
            cell.metadata.nbgrader.grade_id = "other-" + cell.metadata.nbgrader.grade_id


@state("notebook renamed", 18)
def _(work):
    work.name = "convolution (1).ipynb"


@state("an unsolved copy in the same folder", 18)
def _(work):
    nbformat.write(work.released, work.folder / "convolution_as_gemm-Copy1.ipynb")


@state("two notebooks, neither with the right name", None)
def _(work):
    work.name = "final.ipynb"
    nbformat.write(work.released, work.folder / "draft.ipynb")


@state("check deleted", 18)
def _(work):
    del work.cells[work.at("forward-by-hand")]


@state("check of a wrong answer deleted", 17)
def _(work):
    STATES["one answer wrong"][1](work)
    del work.cells[work.at("bytes-by-hand")]


@state("check changed", 18)
def _(work):
    work.cell("forward-by-hand").source = "assert False"


@state("check unlocked, and its points changed to 100", 18)
def _(work):
    work.cell("forward-by-hand").metadata.nbgrader.update(locked=False, points=100)


@state("provided cell changed", 18)
def _(work):
    work.cell("setup").source = "import numpy as np"


@state("answer deleted", 16)
def _(work):
    del work.cells[work.at("layer_flops")]


@state("answer cell copied, and one copy is unsolved", 18)
def _(work):
    at = work.at("forward")
    stub = next(c for c in work.released.cells if role(c).get("grade_id") == "forward")
    work.cells.insert(at, copy.deepcopy(stub))
    work.cells[at], work.cells[at + 1] = work.cells[at + 1], work.cells[at]
    # Move the student's answer to the top, so that the unsolved copy defines `forward` last.
    work.cells.insert(0, work.cells.pop(at + 1))


@state("answer turned into text", 18)
def _(work):
    at = work.at("forward")
    work.cells[at] = new_markdown_cell(work.cells[at].source, metadata=work.cells[at].metadata)


@state("written answer has no metadata", 18)
def _(work):
    work.cell("depthwise-in-time").metadata.pop("nbgrader")


@state("cell identifiers removed (nbformat 4.4)", 18)
def _(work):
    work.notebook.nbformat_minor = 4
    for cell in work.cells:
        cell.pop("id", None)


@state("a character that cannot be encoded", 18)
def _(work):
    work.cells.append(new_markdown_cell("PLACE"))
    work.text = nbformat.writes(work.notebook).replace("PLACE", "\\ud800")


@state("last cell ends the process", 18)
def _(work):
    work.cells.append(new_code_cell("import os\nos._exit(0)"))


@state("not JSON", None)
def _(work):
    work.text = '{"cells": ['


@state("no cells", None)
def _(work):
    work.notebook.cells = []


@dataclass
class Found:
    """The results for one state. Points are None if the state is not checked or graded.

    validate: {check: passed}. hidden: the checks that grading fails in hidden tests only.
    """

    validate: dict[str, bool]
    check: float | None
    hand_in: str
    grading: float | None
    graded: dict[str, bool]
    hidden: set[str]

    def disagreements(self):
        """Describe where Validate, Check, Submit and grading disagree."""
        wrong = []
        for name, passed in self.graded.items():
            expected = passed or name in self.hidden
            # Validate lists no checks if the kernel died; grading judges those above.
            if self.validate and bool(self.validate.get(name)) != expected:
                wrong.append(f"Validate: {name} {self.validate.get(name)}, grading: {passed}")
        if self.check != self.grading:
            wrong.append(f"Check: {self.check} points, grading: {self.grading}")
        if (self.hand_in == "refused") != (self.grading is None):
            wrong.append(f"Submit: {self.hand_in}, grading: {self.grading}")
        if self.grading is None and any(self.validate.values()):
            wrong.append("Validate passes checks that are not graded")
        return wrong


class Desk:
    """A released assignment, a checker and an autograder, which can examine any number of states."""

    def __init__(self, folder, engine):
        self.root, self.engine, self.folder = folder / "course", engine, folder
        (self.root / "solutions").mkdir(parents=True)
        shutil.copytree(ROOT / "solutions" / ASSIGNMENT, self.root / "solutions" / ASSIGNMENT)
        for name in ("nbgrader_config.py", "autotests.yml"):
            shutil.copy(ROOT / name, self.root)
        release(self.root, ASSIGNMENT)
        self.released = self.root / "exercises"
        self.course = Course(self.root)
        self.source = prepare.Source.from_gradebook(self.course.coursedir, ASSIGNMENT)
        self.sanitiser = prepare.Sanitiser(self.course.config, self.source)
        self.checker = Checker(self.root, workers=1)
        Records(self.checker.checks, ASSIGNMENT).set_limits(Attempts(an_hour=1000, in_all=1000))

    def examine(self, name):
        """Return the results for a state."""
        folder = Path(tempfile.mkdtemp(dir=self.folder)) / ASSIGNMENT
        folder.mkdir()
        work = Work(self.released / ASSIGNMENT / NOTEBOOK, folder)
        STATES[name][1](work)
        work.write()
        grading, graded, hidden = self.grade(folder)
        return Found(self.validate(folder), self.check(folder), self.hand_in(folder), grading, graded, hidden)

    def validate(self, folder):
        notebook = course_map.graded_notebook(folder, str(self.released))
        released = course_map.released_notebook(str(self.released), ASSIGNMENT)
        command = [sys.executable, "-P", "-m", "cluster.pages.validate", notebook, released]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        checks = answer.get("checks", ())
        return {check["name"]: check["state"] == "passed" for check in checks if check["state"] != "by hand"}

    def check(self, folder):
        try:
            return self.checker.check("student", ASSIGNMENT, official_check.pack(folder))["points"]
        except SubmissionError:
            return None

    def hand_in(self, folder):
        if hand_in.to_rename(folder, str(self.released)):
            return "offers to rename"
        why = hand_in.blockers(folder, self.released / ASSIGNMENT, LARGEST, LARGEST)
        return "refused" if why else "accepted"

    def grade(self, folder):
        submission = prepare.read_submission("student", folder, self.source, self.sanitiser)
        if submission.problem:
            return None, {}, set()
        checks = self.engine.grade(submission.notebook, folder).checks
        graded = {name: not check.error for name, check in checks.items()}
        hidden = {name for name, check in checks.items() if check.hidden}
        return sum(check.score for check in checks.values()), graded, hidden


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    need()
    with Engine(workers=1) as engine:
        desk = Desk(tmp_path_factory.mktemp("states"), engine)
        yield desk
        desk.checker.close()


@pytest.mark.parametrize("name", STATES if ALL else WITNESSES)
def test_all_places_agree(desk, name):
    """Do Validate, Check, Submit and grading agree about this state, with the expected points?"""
    result = desk.examine(name)
    assert (result.grading, result.disagreements()) == (STATES[name][0], [])
