"""Provided functions that use the student's code run outside the notebook's process."""

import nbformat
import pytest

from cluster.staff.course import assignments
from cluster.staff.engine import Limits
from cluster.staff.engine.inside import names
from cluster.staff.engine.submission import provided
from cluster.staff.release import twins

from .. import ROOT
from .sandboxes import STUB, Engine, cell, filled, need, parts

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
    """Can a check call a provided function that uses the student's function? Can it pass functions as
    arguments, and watch the calls of the student's function?"""
    assert graded(engine, check).score == 2


def test_a_patched_process_answers_for_no_provided_function(engine):
    """Does an unsolved submission get no points if a cell patches the code that answers the test process?"""
    unsolved = "def double(x):\n    raise NotImplementedError"
    check = graded(engine, "assert twice_over(3) == 12", unsolved, PATCH)
    assert check.score == 0 and check.error.startswith("NotImplementedError")


PATCHING = "def patch(*_, **__):\n" + "".join(f"    {line}\n" for line in PATCH.splitlines())
BINDINGS = {
    "assignment": "double = patch()",
    "function": "def double(x):\n    patch()",
    "right function": "def double(x):\n    return 2 * x",
    "default argument": "def double(x, y=patch()):\n    pass",
    "decorator": "@patch\ndef double(x):\n    pass",
    "class body": "class double:\n    patch()",
    "metaclass": "class double(metaclass=patch):\n    pass",
    "instance": "class Double:\n    __call__ = patch\ndouble = Double()",
    "__getattr__": "class Double:\n    def __getattr__(self, name):\n        patch()\ndouble = Double().x",
    "context manager": "class Made:\n    __exit__ = __enter__ = patch\nwith Made() as double:\n    pass",
    "loop": "for double in [patch()]:\n    pass",
    "generator": "double, *_ = (patch() for _ in range(2))",
    "walrus in a comprehension": "[(double := patch()) for _ in range(2)]",
    "except clause": "try:\n    raise Exception(patch())\nexcept Exception as double:\n    pass",
    "global": "def bind():\n    global double\n    double = patch()\nbind()",
    "import": "import json as double\npatch()",
    "star import": "from json import *\npatch()",
    "name of Python's": "NotImplementedError = patch()",
    "provided name": "FACTOR = watched = patch()",
}


@pytest.mark.parametrize("binding", BINDINGS)
def test_an_unsolved_blank_stays_unsolved(engine, binding):
    """Does an unsolved submission get no points if another cell binds a name that provided code uses?"""
    unsolved = "def double(x):\n    raise NotImplementedError"
    check = graded(engine, "assert twice_over(3) == 12", unsolved, f"{PATCHING}\n{BINDINGS[binding]}")
    assert check.score == 0 and check.error.startswith("NotImplementedError")
    names_double = binding not in ("star import", "name of Python's", "provided name")
    assert ("double:" in check.error) == names_double


@pytest.mark.parametrize(
    ("blank", "others"),
    [
        (DOUBLE.replace("2 *", "TWO *"), "TWO = 2"),
        (DOUBLE.replace("2 *", "sum(ones) *"), "ones = [1 for _ in range(2)]"),
        ("# moved to the next cell", DOUBLE),
        (DOUBLE.replace("2 * x", "add(x, x)"), "from operator import *"),
        (DOUBLE, "def double(x):\n    return None"),
    ],
)
def test_other_cells_help_a_blank(engine, blank, others):
    """Can a blank use names that only other cells bind? Is a definition in a blank kept if another cell
    redefines it?"""
    assert graded(engine, "assert twice_over(3) == 12", blank, others).score == 2


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_nothing_of_the_students_is_needed(assignment):
    """If all blanks are unsolved, is provided code run without any statement of a scratch cell, even if this
    cell binds every name in the notebook?"""
    notebook = filled(twins.notebook(next((ROOT / "solutions" / assignment).glob("*.py"))), text=STUB)
    roles = [(c.source, c.metadata.get("nbgrader", {})) for c in notebook.cells if c.cell_type == "code"]
    given, checks = parts(notebook)
    codes = [names.compiled(text, "cell") for text, _ in roles if not text.startswith("%")]
    every = set().union(*map(names.used, codes), *map(names.defined, codes))
    attack = "\n".join(f"{name} = patch()" for name in sorted(every)) + "\nfrom json import *"
    cells = [(attack, names.SCRATCH)]
    for text, role in roles:
        if role.get("grade_id") and not role.get("grade"):
            cells.append((text, names.BLANK if role.get("solution") else names.PROVIDED))
    chosen = names.needed_by(provided(tuple(given), tuple(checks)), cells)
    assert not [code for number, code in chosen if number == 0]


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_provided_names_are_functions(assignment):
    """Is each name that a check uses, and that a provided cell defines with the student's code, a function or
    class?"""
    given, checks = parts(twins.notebook(next((ROOT / "solutions" / assignment).glob("*.py"))))
    wanted = set(provided(tuple(given), tuple(checks)))
    functions = {
        line.split("(")[0].split(":")[0].split()[1]
        for _, text in given
        for line in text.splitlines()
        if line.startswith(("def ", "class "))
    }
    assert wanted <= functions
