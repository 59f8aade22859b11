"""Forged submissions for the course's assignments: an otherwise empty submission with a forgery gets only the
unsolved version's points.

The forgeries are the entries of tests/forgeries/NN.toml (the format is in
cluster/staff/release/wrong_solutions.py).
"""

import ast

import nbformat
import pytest

from cluster.staff.course import assignments
from cluster.staff.engine import Limits
from cluster.staff.engine.inside import names
from cluster.staff.release import twins, wrong_solutions

from .. import ALL, ROOT
from .sandboxes import STUB, Engine, filled, need, parts

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(900)]
FORGERIES = [
    (assignment, forgery)
    for assignment in assignments(ROOT)
    for forgery in wrong_solutions.load_forgeries(ROOT, assignment)[: None if ALL else 1]
]


@pytest.fixture(scope="module")
def engine():
    need()
    with Engine(workers=1, limits=Limits()) as engine:
        yield engine


def empty(assignment, last=""):
    """Return the solution with empty blanks, without scratch cells, and with the cell `last` above all
    checks.

    A check sees what the cells above it have defined. A check that contains only AUTOTEST lines, which become
    tests in the release, is omitted.
    """
    solution = twins.notebook(next((ROOT / "solutions" / assignment).glob("*.py")))
    notebook = filled(solution, text=STUB)
    notebook.cells = [
        c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") and not is_comment(c)
    ]
    checks = [c for c in notebook.cells if c.metadata.nbgrader.grade and not c.metadata.nbgrader.solution]
    others = [c for c in notebook.cells if c not in checks]
    notebook.cells = [*others, nbformat.v4.new_code_cell(last), *checks]
    return notebook


def is_comment(cell):
    """Return whether this check contains only a docstring and comments, and nothing to execute."""
    return cell.metadata.nbgrader.grade and cell.cell_type == "code" and len(ast.parse(cell.source).body) == 1


@pytest.mark.parametrize(("assignment", "forgery"), FORGERIES, ids=lambda one: getattr(one, "name", one))
def test_a_forgery_gains_nothing(engine, assignment, forgery):
    """Is a forged submission graded, and does it get at most the points that its entry declares as fair?"""
    verdict = engine.grade(empty(assignment, forgery.answer))
    assert verdict.outcome == "graded", verdict.why
    passed = {name: check.score for name, check in verdict.checks.items() if check.score}
    assert sum(passed.values()) <= forgery.fair, passed


def test_a_correct_answer_is_not_a_forgery(engine):
    """Does a correct answer in the last cell earn points? If not, the test above could not fail."""
    assignment = next(name for name in assignments(ROOT) if name.startswith("07"))
    rate = (
        "def learning_rate(step, lr, size, warmup):\n    return lr + (size - 1) * lr * min(step / warmup, 1)"
    )
    checks = engine.grade(empty(assignment, rate)).checks
    assert {name for name, check in checks.items() if check.score} == {"warmup-by-hand", "warmup-values"}


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_ranks_are_requested_by_the_test_process(assignment):
    """Do all provided functions that start ranks for a check run outside the notebook's process?

    Provided code that uses a name from the student's code runs only inside that process, so a check must pass
    the student's function as an argument.
    """
    given, checks = parts(twins.notebook(next((ROOT / "solutions" / assignment).glob("*.py"))))
    known = set().union(*(names.defined(code) for code in names.independent(given)))
    left = [name for _, text in checks for name in names.missing(names.compiled(text, "check"), known)]
    wrong = {name for name in left if asks_for_ranks(name, [(text, names.PROVIDED) for _, text in given])}
    assert not wrong, sorted(wrong)


def asks_for_ranks(name, cells):
    """Return whether one of the cells' functions, or a function that it calls, uses on_ranks or
    recorded_on_ranks."""
    asks = {"on_ranks", "recorded_on_ranks"}
    return any(asks & set(names.used(code)) for _, code in names.needed_by([name], cells))
