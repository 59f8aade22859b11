"""A scratch cell that only measures is not run during grading, unless something else needs a name that it
defines."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

from cluster.staff.engine import Limits
from cluster.staff.engine.inside import names
from cluster.staff.engine.submission import NOT_RUN, GradedNotebook
from cluster.staff.grading import gradebook

from .classes import NAME
from .sandboxes import Engine, handed_in, need, tiny

MEASURE = "import time\nstart = time.perf_counter()\ngain = time.perf_counter() - start\nprint('measured')"
SHOW = "print('shown', gain)"
PNG = "iVBORw0KGgoAAAANSUhEUg=="


def work(*more, answer="def double(x):\n    return 2 * x", check="assert double(21) == 42", measured=(0,)):
    """Return a submission that ends with the cells `more`. The cells numbered in `measured` only measure."""
    notebook = tiny(answer, check)
    cells = [new_code_cell(text, id=f"own-{i}") for i, text in enumerate(more)]
    notebook.cells[2:2] = cells
    notebook.metadata["measured"] = [cells[i]["id"] for i in measured]
    return GradedNotebook(notebook, Limits())


def not_run(made):
    """Return the sources of the cells that are not run."""
    pairs = names.of_cells([cell.source for cell in made.cells])
    return [made.cells[i].source for i in sorted(made.not_run(pairs))]


def test_what_nothing_needs_is_not_run():
    """Are a measuring cell and the cell that shows its result skipped if both are marked as measuring? Is an
    unmarked cell run?"""
    assert not_run(work(MEASURE)) == [MEASURE]
    assert not_run(work(MEASURE, SHOW, measured=(0, 1))) == [MEASURE, SHOW]
    assert not_run(work(MEASURE, measured=())) == []


@pytest.mark.parametrize(
    "other",
    [
        {"answer": "def double(x):\n    return x + x * (gain > -1)"},
        {"check": "assert double(21) == 42 and gain >= 0"},
    ],
    ids=["answer", "check"],
)
def test_what_another_cell_needs_is_run(other):
    """Is a measuring cell run if one of its names is used by a check, by another cell that is run, or by the
    student's answer?"""
    assert not_run(work(MEASURE, SHOW)) == []
    assert not_run(work(MEASURE, SHOW, SHOW, measured=(0, 1))) == [SHOW]
    assert not_run(work(MEASURE, SHOW, measured=(0, 1), **other)) == [SHOW]


def test_a_name_of_its_own_does_not_need_another():
    """Is a measuring cell skipped if the other cells that use its names set them first?"""
    measure = MEASURE + "\nx = 4"
    assert not_run(work("x = 3", measure, "x = 5\nprint(x)", measured=(1,))) == [measure]


@pytest.mark.parametrize(
    ("other", "needed"),
    [
        ("%timeit gain", True),
        ("!echo {gain}", True),
        ("%%timeit\nstart + gain", True),
        ("print(gain", True),
        ("%timeit 1 + 1", False),
        ("files = !ls", False),
        ("%%bash\nls", False),
        ("def (", False),
        ("%matplotlib inline\nprint('a figure')", False),
    ],
)
def test_a_cell_that_is_not_python_needs_all_its_words(other, needed):
    """If another cell has magics or is not Python, is a measuring cell run only if one of its words is a name
    that the measuring cell defines?"""
    assert not_run(work(MEASURE, other)) == ([] if needed else [MEASURE])


def test_the_released_text_decides(many):
    """Is a measuring cell skipped, and its submitted figure shown, if the cell is unchanged from the release?
    Is a changed cell run?"""
    need()
    released = many.root / "exercises" / NAME / "doubling.ipynb"
    notebook = nbformat.read(released, as_version=4)
    notebook.cells.append(new_code_cell(MEASURE, metadata={"tags": ["measured"]}))
    nbformat.write(notebook, released)
    many.released = nbformat.read(released, as_version=4)
    many.released.cells[-1].metadata.clear()  # like a submission from a program that drops metadata
    picture = new_output("display_data", {"image/png": PNG, "text/plain": "<Figure>"})
    many.released.cells[-1].outputs = [picture]
    many.released.cells.append(new_code_cell(MEASURE + "  # mine"))
    many.hand_in("ada", "def double(x):\n    return 2 * x")
    submission = handed_in(many, "ada")
    with Engine(workers=1, limits=Limits(cell=60, check=20)) as engine:
        verdict = engine.grade(submission.notebook)
    assert [check.score for check in verdict.checks.values()] == [1, 2]
    gradebook.show_figures(verdict.notebook, submission.path)
    *_, unchanged, changed = verdict.notebook.cells
    assert unchanged.outputs[0].text == NOT_RUN and unchanged.outputs[1].data["image/png"] == PNG
    assert [output.text for output in changed.outputs] == ["measured\n"]
