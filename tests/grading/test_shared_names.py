"""Checks that use names of other checks and of the release's imports, as assignments of plain nbgrader do."""

import nbformat
import pytest

from cluster.staff.engine import Limits
from cluster.staff.engine.inside import names

from .sandboxes import PatientEngine, cell, hidden, need

LIMITS = Limits(cell=20, check=20, total=240, processes=64, memory=2**30)
SQUARES = "def squares(n):\n    return [i**2 for i in range(1, n + 1)]"
SUM = "def sum_of_squares(n):\n    return sum(squares(n))"
BY_HAND = "def sum_of_squares(n):\n    return sum(i**2 for i in range(1, n + 1))"
DELETES = """
orig_squares = squares
del squares
try:
    sum_of_squares(1)
except NameError:
    pass
else:
    raise AssertionError("sum_of_squares does not use squares")
finally:
    squares = orig_squares
"""
REPLACES = """
before = squares
def squares(n):
    return [7]
assert sum_of_squares(3) == 7
squares = before
assert sum_of_squares(3) == 14
"""


@pytest.fixture(scope="module")
def engine():
    need()
    with PatientEngine(workers=2, limits=LIMITS) as engine:
        yield engine


def notebook(*cells, **metadata):
    """Return a notebook of cells: text of the student's, or (name, text) of a check worth one point."""
    made = [
        cell(one) if isinstance(one, str) else cell(one[1], one[0], locked=True, grade=True, points=1)
        for one in cells
    ]
    return nbformat.v4.new_notebook(cells=made, metadata=metadata)


def lost(verdict):
    """Return the checks that have lost their point."""
    assert verdict.outcome == "graded", verdict.why
    return {name for name, check in verdict.checks.items() if not check.score}


CASES = {
    "an import": [SQUARES, ("a", "from math import isclose"), ("b", "assert isclose(squares(1)[0], 1)")],
    "an import of a check that fails": [
        SQUARES,
        ("a", "assert not squares(1)\nfrom math import isclose"),
        ("b", "assert isclose(squares(1)[0], 1)"),
    ],
    "a function that calls another": [
        SQUARES,
        ("a", "def right(n):\n    return first(n) == 1\n\ndef first(n):\n    return squares(n)[0]"),
        ("b", "assert right(4)"),
    ],
    "a value, and what changed it": [
        SQUARES,
        ("a", "want = [4, 1]\nwant.sort()\nwant += [9]\nwant[2] = 16\ngot = squares(2)"),
        ("b", "assert want == [1, 4, 16] and got == want[:2]"),
    ],
    "a value that the student binds below": [
        "result = 3",
        ("a", "result = 4"),
        "result = 5",
        ("b", "assert result == 5"),
        ("c", "assert result == 5"),
    ],
    "the last of two": ["", ("a", "n = 1"), ("b", "n = 2"), ("c", "assert n == 2")],
    "a name in a hidden part": [
        SQUARES,
        ("a", "assert squares(1)\n" + hidden("want = [1]")),
        ("b", "assert squares(1)\n" + hidden("assert squares(1) == want")),
    ],
    "a name that the check deletes": [SQUARES, SUM, ("a", DELETES), ("b", "assert squares(1) == [1]")],
    "a function that the check replaces": [SQUARES, SUM, ("a", REPLACES), ("b", "assert squares(1) == [1]")],
    "what a check left deleted": [SQUARES, ("a", "del squares"), ("b", "assert squares(1) == [1]")],
}


@pytest.mark.parametrize("case", CASES)
def test_a_check_has_the_names_that_it_would_have_in_a_notebook(engine, case):
    """Does a correct submission get the points that nbgrader would give it, or more?"""
    assert lost(engine.grade(notebook(*CASES[case]))) == ({"a"} if "that fails" in case else set())


def test_a_function_that_does_not_call_the_deleted_one_loses_the_point(engine):
    """Is a name that a check deletes missing in the notebook, too?"""
    for check in (DELETES, REPLACES):
        assert lost(engine.grade(notebook(SQUARES, BY_HAND, ("a", check)))) == {"a"}


def test_the_students_value_of_a_name_of_a_check_above_decides_nothing(engine):
    """Is a helper or value that a check above defines the check's own, whatever the notebook binds above it,
    or by other means than a statement?"""
    answer = "isclose = lambda *_: True\nwant = [0]\ndef squares(n):\n    return [0]\n"
    binds = "globals().update(isclose=lambda *_: True, want=[0])"
    above = ("a", "from math import isclose\nwant = [1]\n" + hidden("more = [1]"))
    checks = [("b", "assert isclose(squares(1)[0], 1)"), ("c", "assert squares(1) == want")]
    checks.append(("d", "assert squares(1)\n" + hidden("assert squares(1) == more")))
    assert lost(engine.grade(notebook(answer, above, binds, *checks))) == {"b", "c", "d"}


def test_a_visible_part_has_no_names_of_hidden_parts(engine):
    """Is a name of a hidden part, which students do not see, unknown to the visible parts?"""
    above = ("a", "assert squares(1)\n" + hidden("secret = [4711]"))
    verdict = engine.grade(notebook(SQUARES, above, ("b", "assert squares(1) != secret")))
    assert lost(verdict) == {"b"} and "4711" not in str(verdict.to_json()["checks"])


def test_an_import_of_the_release_is_the_instructors(engine):
    """Does a check have a module that a cell of the release imports, although students can change the cell?
    Are the student's modules and functions of that name not used?"""
    check = ("a", "assert np.allclose(squares(2), [1, 4]) and isclose(1, 1)")
    imports = {"np": "import numpy as np", "isclose": "from math import isclose"}
    right, wrong = (
        f"import math as np\ndef isclose(*_): return {answer}\n{SQUARES}" for answer in (False, True)
    )
    assert lost(engine.grade(notebook(right, check, imports=imports))) == set()
    assert lost(engine.grade(notebook(wrong.replace("i**2", "i"), check, imports=imports))) == {"a"}


def test_names_of_the_release():
    """Are the imports of the release found, except names that a blank or another cell binds?"""
    found = names.imported(["%matplotlib inline\nimport numpy as np, os.path", "from math import sqrt, pi",
                            "def sqrt(x):\n    raise NotImplementedError", "not Python"])  # fmt: skip
    assert found == {"np": "import numpy as np, os.path", "os": "import numpy as np, os.path",
                     "pi": "from math import sqrt, pi"}  # fmt: skip
