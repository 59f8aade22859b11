"""How lectures open and use guesses: the machine is named, a guess is requested before a result and compared
with it afterwards, and all lectures do this in the same way.
"""

import ast
import subprocess
import sys

import IPython.display
import ipywidgets
import jupytext
import pytest

from cluster import lecture

from .. import ROOT

OPENING = "from cluster.lecture import begin, "  # followed by other names


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.setattr(lecture, "guesses", {})
    monkeypatch.delenv(lecture.JUPYTER, raising=False)


@pytest.fixture
def shown(monkeypatch):
    """Pretend that the notebook is open in Jupyter, and return the list of the objects that it displays."""
    results = []
    monkeypatch.setenv(lecture.JUPYTER, "/lectures/08.ipynb")
    monkeypatch.setattr(IPython.display, "display", results.append)
    return results


@pytest.mark.parametrize(
    ("number", "unit", "found", "line"),
    [
        (None, "", 0.1234, "it: 0.123; you wrote down no guess"),
        (0.5, "×", 2, "it: 2×; you guessed 0.5×"),
        (12000, " images", 8074.4, "it: 8,074 images; you guessed 12,000 images"),
        (0, "%", -3000.4, "it: -3,000%; you guessed 0%"),
    ],
)
def test_a_number_is_printed_beside_the_guess(capsys, number, unit, found, line):
    lecture.guess("it", number, unit)
    lecture.compare("it", found)
    assert capsys.readouterr().out == f"{line}\n"


def test_what_was_not_asked_is_not_compared():
    """If `compare` gets a question with a typo, does the error list the existing ones?"""
    with pytest.raises(LookupError, match="none"):
        lecture.compare("speed", 1)
    lecture.guess("speed-up of two ranks")
    with pytest.raises(LookupError, match=r"'speed'.*'speed-up of two ranks'"):
        lecture.compare("speed", 1)


def test_a_field_appears_in_a_displayed_notebook(shown, capsys):
    """Is the number that a reader types kept as the guess, also when the cell is run again? Is text that is
    not a number reported?"""
    lecture.guess("updates", unit=" updates")
    [box] = shown
    question, field, unit = box.children
    assert isinstance(field, ipywidgets.Text) and question.value == "updates:"
    field.value = "many"
    assert "a number" in unit.value and lecture.guesses["updates"].number is None
    field.value = "14,000"
    lecture.guess("updates", unit=" updates")
    assert shown[1].children[1].value == "14,000"
    lecture.compare("updates", 14040)
    assert capsys.readouterr().out == "updates: 14,040 updates; you guessed 14,000 updates\n"
    assert unit.value == "updates"


def test_no_field_without_a_display(shown, monkeypatch):
    """Is the input field left out when a lecture is built, when the cell contains a number, or without
    ipywidgets?
    """
    lecture.guess("a", 3)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    lecture.guess("b")
    monkeypatch.delitem(sys.modules, "ipywidgets")
    monkeypatch.delenv(lecture.JUPYTER)
    lecture.guess("c")
    assert shown == [] and list(lecture.guesses) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("1,200", 1200), (" 3e8 ", 3e8), ("45 %", 45), ("2×", 2), ("", None), ("lots", None), ("inf", None)],
)
def test_numbers_as_people_type_them(text, number):
    assert lecture.number_in(text) == number


def test_a_lecture_begins():
    """Does `begin` set style, threads and seed, and print a line about the machine? Does the import alone
    load no heavy libraries?
    """
    code = """
import sys
from cluster import lecture
assert not {"tensorflow", "matplotlib", "numpy", "ipywidgets"} & set(sys.modules), "the import is not free"
palette = lecture.begin(threads=1, seed=3)
import keras, numpy as np, tensorflow as tf, matplotlib.pyplot as plt
from threadpoolctl import threadpool_info
first = np.random.random()
lecture.begin(threads=1, seed=3)  # the cell is run again
assert first == np.random.random()
assert tf.config.threading.get_intra_op_parallelism_threads() == 1
assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}
assert palette[0] == "#0072B2" and plt.rcParams["figure.figsize"] == [7.2, 4.0], palette
tf.constant(1.0) + 1.0
try:
    lecture.begin(threads=2)
except RuntimeError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == "", run.stderr
    line, again, *error = run.stdout.splitlines()
    assert line.partition("; load")[0] == again.partition("; load")[0]
    assert ", 1 thread used; Python " in line and "TensorFlow 2" in line and "Keras 3" in line
    assert len(error) == (lecture.cores() > 1) and all("restart" in phrase for phrase in error)


def code_cells(path):
    """Return the sources of a lecture's code cells."""
    return [cell.source for cell in jupytext.read(path).cells if cell.cell_type == "code"]


TEXTS = sorted((ROOT / "lectures" / "text").glob("*.py"))
SHARED = [path for path in TEXTS if OPENING in path.read_text()]


def questions(cells, function):
    """Return the literal questions in calls of `guess` or `compare`."""
    calls = (node for cell in cells for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Call))
    first = (call.args[0] for call in calls if getattr(call.func, "id", "") == function)
    return {argument.value for argument in first if isinstance(argument, ast.Constant)}


@pytest.mark.parametrize("text", SHARED, ids=lambda path: path.stem[:2])
def test_a_lecture_asks_what_it_compares(text):
    """Does a lecture open with three lines, and does it ask `guess` for each question that it passes to
    `compare`?
    """
    cells = code_cells(text)
    assert cells[0].startswith(OPENING) and len(cells[0].splitlines()) == 3
    asked, compared = questions(cells, "guess"), questions(cells, "compare")
    assert compared and compared <= asked
