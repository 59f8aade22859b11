"""Assignment 08 with empty holes, and forgeries in their place: it has the stub's points, which are none."""

import pytest

from cluster.staff.engine.engine import Engine
from cluster.staff.release import twins, wrong_solutions

from .. import ROOT
from .sandboxes import STUB, cell, filled, need

TWIN = ROOT / "solutions" / "08_large_batches" / "large_batches.py"
INVENTED = """
ROWS = [("small", 1), ("naive", 16), ("sqrt", 16), ("linear", 16), ("constant", 16), ("gradual", 16)]
ITEMS = [{"name": name, "k": k, "rule": "none", "warmup": "none"} for name, k in ROWS]


def invented(item):
    updates = 2560 if item["k"] == 1 else 160
    where = 10.0 * [name for name, _ in ROWS].index(item["name"])
    return {"error": [where] * 5, "first": [2.4] * 8, "rates": np.full(updates, 0.08)}


conclusions = {"A": "supported", "B": "contradicted", "C": "contradicted", "D": "contradicted"}
conclusions |= {"E": "contradicted", "F": "contradicted", "G": "supported"}
conclusions |= dict.fromkeys("HI", "not shown")
"""
OBJECT = """
class Forged:
    items, statuses, ranks, last = ITEMS, ["done"] * 6, 1, 1

    def __len__(self):
        return 6

    def results(self, **_):
        return [invented(item) for item in ITEMS]


sweep = Forged()
"""
PACKAGE = """
from cluster.jobs import mapping, sweep as sweeps

jobs.Sweep = mapping.Sweep = sweeps.Sweep = Forged
jobs.map = jobs.submit = mapping.map = lambda *_, **__: Forged()
"""
RUN = "sweep = jobs.map(invented, ITEMS)\nsweep.results()"
ENGINE = """
import sys

student = sys.modules.get("cluster.staff.engine.inside.student")
if student:
    answer = student.Server.answer

    def forged(self, request):
        found = answer(self, request)
        return {"value": None, "changed": []} if "error" in found else found

    student.Server.answer = forged
"""
BY_HEART = {
    "target-rate": 'return {"none": 0.1, "linear": 1.6, "sqrt": 0.4}[rule]',
    "warmed-up": """
rows = {"constant": [0.1] * 4 + [0.5] * 2, "gradual": [0.1, 0.2, 0.3, 0.4, 0.5, 0.5]}
return (rows | {"none": [0.5] * 6, "geometric": [0.1, 0.2, 0.4, 0.8, 1.6, 1.6]})[kind][step]
""",
    "learning-rate": """
rates = [0.1, 0.175, 0.25, 0.325, 0.4, 0.4, 0.04, 0.04, 0.004, 0.004]
return 0.1 if k == 1 else rates[step]
""",
    "batch-gradient": "return np.array([3.0, 0.0])",
    "momentum-step": "return np.array([0.3 if nesterov else 0.4]), np.array([0.6])",
    "interval": "low, high = 3 - 2.776 * 0.5**0.5, 3 + 2.776 * 0.5**0.5",
    "conclusions": """
return dict.fromkeys("ABEG", "supported") | {"C": "undecided", "D": "contradicted", "F": "undecided"} | dict(
    H="supported", I="supported"
)
""",
}
FORGERIES = {
    "an object that answers as a sweep": ({}, INVENTED + OBJECT),
    "the package answers for the jobs": ({}, INVENTED + OBJECT + PACKAGE),
    "a run of a function that invents": ({}, INVENTED + RUN),
    "the engine's module answers for the functions": ({}, INVENTED + OBJECT + ENGINE),
    "values known by heart from the visible cases": (BY_HEART, INVENTED + OBJECT),
    "arrays without elements": (
        {
            "batch-gradient": "return np.zeros(0)",
            "momentum-step": "return np.zeros(0), np.zeros(0)",
            "recipes": "rows = []",
            "submit-sweep": "return sweep",
        },
        INVENTED + OBJECT + "Forged.__iter__ = lambda self: iter(())\nITEMS.clear()",
    ),
}


def with_forgery(holes, text):
    """The assignment, its holes empty but for `holes`, and a cell with `text` before and after the others."""
    notebook = twins.notebook(TWIN)
    empty = dict.fromkeys(wrong_solutions.cells_of(notebook, "solution"), STUB)
    notebook = filled(notebook, empty | holes)
    first = next(i for i, found in enumerate(notebook.cells) if "target-rate" in str(found.metadata))
    notebook.cells.insert(first, cell(text))
    notebook.cells.append(cell(text))
    return notebook


@pytest.fixture(scope="module")
def engine():
    need()
    with Engine(workers=1) as engine:
        yield engine


@pytest.mark.timeout(300)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_has_the_points_of_the_stub(engine, forgery):
    """Is no check passed by what only answers for jobs, functions or the visible cases?"""
    notebook = with_forgery(*FORGERIES[forgery])
    verdict = engine.grade(notebook)
    assert verdict.outcome == "graded" and wrong_solutions.points(notebook).keys() <= verdict.checks.keys()
    assert {name: check.score for name, check in verdict.checks.items() if check.score} == {}
