"""Figures are shown as submitted, and drawn during grading only if the submission lacks them."""

import nbformat
from nbformat.v4 import new_output

from cluster.staff.engine import Limits
from cluster.staff.engine.inside.figures import NOT_DRAWN
from cluster.staff.grading import gradebook
from cluster.staff.submissions import notebook_file

from .classes import NAME
from .sandboxes import Engine, handed_in, need

PNG = "iVBORw0KGgoAAAANSUhEUg=="
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('plotted')"


def pictures(notebook):
    """Return the images of all cells."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def test_figures_as_handed_in(many):
    """Is a submitted figure shown with a note, rather than drawn again? Is a missing figure drawn?"""
    need()
    many.hand_in("ada", "def double(x):\n    return 2 * x")
    path = many.course.folder("submitted", "ada", NAME) / "doubling.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for _ in range(2):
        notebook.cells.append(nbformat.v4.new_code_cell(PLOT))
    data = {"image/png": PNG, "text/plain": "<Figure>"}
    notebook.cells[-1].outputs = [
        new_output("display_data", {"image/png": "<script>"}), new_output("display_data", data)
    ]  # fmt: skip
    nbformat.write(notebook, path)
    submission = handed_in(many, "ada")
    with Engine(workers=1, limits=Limits(cell=60, check=20)) as engine:
        verdict = engine.grade(submission.notebook)
    assert [check.score for check in verdict.checks.values()] == [1, 2]
    drawn, undrawn = pictures(verdict.notebook)
    assert drawn.startswith("iVBORw0KGgo") and len(drawn) > 1000 and undrawn == NOT_DRAWN
    gradebook.show_figures(verdict.notebook, submission.path)
    assert pictures(verdict.notebook) == [drawn, PNG]
    assert str(verdict.notebook).count(gradebook.AS_HANDED_IN.strip()) == 1
    assert str(verdict.notebook.cells[-1].outputs).count("plotted") == 1, "what is printed is grading's own"
    path.unlink()
    assert notebook_file.handed_in_figures(path) == {}
