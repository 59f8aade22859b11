"""Functions of given cells that need the student's run apart from the notebook's process."""

import nbformat
import pytest

from cluster.staff.course import assignments
from cluster.staff.engine import Engine, Limits
from cluster.staff.engine.inside import names
from cluster.staff.release import twins

from .. import ROOT
from .sandboxes import cell, need

GIVEN = """from cluster.checks import in_place, watched
FACTOR = 2


def twice_over(x, note=print):
    note(x)
    return double(FACTOR * x)
"""
OBJECT = """# Runs in the notebook's process, which has the object.
def of_the_object():
    return made
"""
DOUBLE = "def double(x):\n    return 2 * x"
PATCH = """
from cluster.staff.engine.inside import student

fetch = student.Server.fetch
forged = {"twice_over": lambda x, *_: 4 * x, "double": lambda x: 2 * x}
student.Server.fetch = lambda self, request: (
    self.value(forged[request["name"]]) if request["name"] in forged else fetch(self, request)
)
"""


@pytest.fixture(scope="module")
def engine():
    need()
    with Engine(workers=1, limits=Limits()) as engine:
        yield engine


def graded(engine, check, answer=DOUBLE, more="made = [1]"):
    cells = [
        cell(GIVEN, "given", locked=True),
        cell(OBJECT, "object", locked=True),
        cell(answer, "double", solution=True),
        cell(more),
        cell(check, "check", locked=True, grade=True, points=2),
    ]
    verdict = engine.grade(nbformat.v4.new_notebook(cells=cells))
    assert verdict.outcome == "graded", verdict.why
    return verdict.checks["check"]


@pytest.mark.parametrize(
    "check",
    [
        "assert twice_over(3) == 12",
        "seen = []\ntwice_over(3, seen.append)\nassert seen == [3]",
        "with watched('double', lambda x: 7) as c:\n    assert twice_over(3) == 7\nassert c.count == 1",
        "with watched('double') as calls:\n    assert twice_over(3) == 12\nassert calls.count == 1",
        "assert of_the_object() == [1] and FACTOR == 2",
        "try:\n    twice_over()\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError",
    ],
)
def test_a_provided_function_is_called(engine, check):
    """Does a check call, watch and hand functions to a given one that needs the student's?"""
    assert graded(engine, check).score == 2


def test_a_patched_process_answers_for_no_provided_function(engine):
    """Has an unsolved submission no points if a cell patches what answers the test process?"""
    unsolved = "def double(x):\n    raise NotImplementedError"
    check = graded(engine, "assert twice_over(3) == 12", unsolved, PATCH)
    assert check.score == 0 and check.error.startswith("NotImplementedError")


@pytest.mark.xfail(strict=True, reason="open: provided code runs in one process with the student's functions")
def test_a_patch_that_binds_a_needed_name_answers_for_no_provided_function(engine):
    """Has an unsolved submission no points if the patch runs where the provided function does?"""
    patch = "def patch():\n" + "".join(f"    {line}\n" for line in PATCH.splitlines())
    check = graded(engine, "assert twice_over(3) == 12", f"{patch}\ndouble = patch()")
    assert check.score == 0


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_provided_names_are_functions(assignment):
    """Is a name that a given cell defines with the student's help, and a check uses, a function?"""
    notebook = twins.notebook(next((ROOT / "solutions" / assignment).glob("*.py")))
    roles = [(c, c.metadata.get("nbgrader", {})) for c in notebook.cells if c.cell_type == "code"]
    given = [(r["grade_id"], c.source) for c, r in roles if r.get("locked") and not r.get("grade")]
    checks = [names.compiled(c.source, "check") for c, r in roles if r.get("grade")]
    wanted = names.provided(given) & set().union(*map(names.used, checks))
    functions = {
        line.split("(")[0].split(":")[0].split()[1]
        for _, text in given
        for line in text.splitlines()
        if line.startswith(("def ", "class "))
    }
    assert wanted <= functions
