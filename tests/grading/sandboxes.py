"""Helpers of the autograder's tests: small notebooks, repeated grading, and a skip if there is no sandbox."""

import copy
import os
import time

import nbformat
import pytest

from cluster.staff import engine
from cluster.staff.engine.sandbox import bubblewrap
from cluster.staff.hidden import BEGIN, END
from cluster.staff.release import student_files, twins, wrong_solutions
from cluster.staff.submissions import prepare

from .. import ROOT
from .classes import NAME

ASSIGNMENT = ROOT / "solutions" / "01_convolution_as_gemm" / "convolution_as_gemm.py"
STUB = "raise NotImplementedError"


def need():
    """Skip the test if no sandbox can be created; in CI as root, fail."""
    why = bubblewrap.missing()
    if why and os.environ.get("CI") == "true" and os.getuid() == 0:
        pytest.fail(f"the sandbox is part of CI: {why}")
    if why:
        pytest.skip(why)


def tiny(answer, check="assert double(21) == 42", before="", given=""):
    """Return a notebook with one answer cell, which has no points, and one check worth two points."""
    cells = [
        cell(given or "import numpy as np\nfrom cluster.checks import expect", "setup", locked=True),
        cell(before),
        cell(answer, "double", solution=True),
        cell(check, "check", locked=True, grade=True, points=2),
    ]
    return nbformat.v4.new_notebook(cells=cells)


class Engine(engine.Engine):
    """An Engine whose sandboxes contain the students' part of this package."""

    def __init__(self, workers=1, limits=None, warm=True):
        super().__init__(student_files.package(), workers, limits, warm)


def hidden(text):
    """Return these lines of a check as hidden tests."""
    return f"### {BEGIN}\n{text}\n### {END}"


def patiently(engine, *submission, seconds=600, **more):
    """Return the verdict on a submission. Grade again, for at most `seconds`, if other processes slowed it
    down."""
    until = time.monotonic() + seconds
    while (verdict := Engine.grade(engine, *submission, **more)).alone and time.monotonic() < until:
        pass
    return verdict


class PatientEngine(Engine):
    """An Engine whose verdicts do not depend on the machine's other processes."""

    def grade(self, *submission, **more):
        return patiently(self, *submission, **more)


def cell(text, name=None, solution=False, locked=False, grade=False, points=None):
    node = nbformat.v4.new_code_cell(text)
    if name:
        role = {"grade_id": name, "solution": solution, "locked": locked, "grade": grade}
        node.metadata.nbgrader = role | ({"points": points} if grade else {})
    return node


def filled(notebook, replace=None, text=None):
    """Return a copy of a solution with its blanks filled from `replace`, or all of them with `text`."""
    notebook = copy.deepcopy(notebook)
    for name, found in wrong_solutions.cells_of(notebook, "solution").items():
        found.source = wrong_solutions.refill(found.source, text or (replace or {}).get(name))
    return notebook


def assignment():
    """Return assignment 01's notebook with its solution."""
    return twins.notebook(ASSIGNMENT)


def parts(notebook):
    """Return the provided cells and the checks of an assignment, each as [(name, text)]."""
    roles = [(c.metadata.get("nbgrader", {}), c.source) for c in notebook.cells if c.cell_type == "code"]
    given = [(r["grade_id"], text) for r, text in roles if r.get("locked") and not r.get("grade")]
    return given, [(r["grade_id"], text) for r, text in roles if r.get("grade") and not r.get("solution")]


def handed_in(many, student):
    """Return a student's submission in a class of the tiny course, as grading reads it."""
    source = prepare.Source.from_gradebook(many.course.coursedir, NAME)
    sanitiser = prepare.Sanitiser(many.course.config, source)
    folder = many.course.folder("submitted", student, NAME)
    return prepare.read_submission(student, folder, source, sanitiser)
